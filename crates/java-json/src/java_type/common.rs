//! The classes of the JDK that are written without their package in Java's source, or with the
//! usual imports.

/// Those that parameters and fields usually are of.
const COMMON: [&str; 59] = [
    "java.lang.String",
    "java.lang.Object",
    "java.lang.Integer",
    "java.lang.Long",
    "java.lang.Double",
    "java.lang.Float",
    "java.lang.Short",
    "java.lang.Byte",
    "java.lang.Boolean",
    "java.lang.Character",
    "java.lang.Number",
    "java.lang.CharSequence",
    "java.lang.Class",
    "java.lang.Iterable",
    "java.lang.Comparable",
    "java.lang.StringBuilder",
    "java.math.BigDecimal",
    "java.math.BigInteger",
    "java.util.List",
    "java.util.ArrayList",
    "java.util.LinkedList",
    "java.util.Set",
    "java.util.HashSet",
    "java.util.LinkedHashSet",
    "java.util.TreeSet",
    "java.util.SortedSet",
    "java.util.Map",
    "java.util.HashMap",
    "java.util.LinkedHashMap",
    "java.util.TreeMap",
    "java.util.SortedMap",
    "java.util.EnumMap",
    "java.util.EnumSet",
    "java.util.Collection",
    "java.util.Queue",
    "java.util.Deque",
    "java.util.Date",
    "java.util.Calendar",
    "java.util.UUID",
    "java.util.Locale",
    "java.util.Currency",
    "java.util.Optional",
    "java.util.Properties",
    "java.time.LocalDate",
    "java.time.LocalTime",
    "java.time.LocalDateTime",
    "java.time.Instant",
    "java.time.Duration",
    "java.time.Period",
    "java.time.Year",
    "java.time.YearMonth",
    "java.time.MonthDay",
    "java.time.OffsetDateTime",
    "java.time.OffsetTime",
    "java.time.ZoneOffset",
    "java.time.ZoneId",
    "java.time.ZonedDateTime",
    "java.io.Serializable",
    "java.io.File",
];

/// The full name, if the class is one of these.
pub(super) fn full_name(simple: &str) -> Option<&'static str> {
    let is_it = |full: &&&str| {
        full.rsplit('.').next().is_some_and(|last| last.eq_ignore_ascii_case(simple))
    };
    COMMON.iter().find(is_it).copied()
}
