//! The table of classes that the mapping knows by name: what each is in JSON.

use std::borrow::Cow;

/// A class with a mapping of its own. Every other class is an object of named fields.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Builtin {
    /// Anything: the JSON value decides.
    Any,
    /// `java.lang.Number`: a number, which looks like one of its subclasses.
    Number,
    String,
    Boolean,
    Byte,
    Short,
    Char,
    Int,
    Long,
    Float,
    Double,
    BigDecimal,
    BigInteger,
    /// `java.util.Date`, which Hessian has a form for.
    Date,
    /// A class of java.sql with the single field `value`, a date.
    SqlDate,
    Calendar,
    List,
    Map,
    Optional,
    /// A class with the single field `value`, its text: `UUID`, `File`.
    TextValue,
    /// `java.lang.Class`, with the single field `name`.
    ClassName,
    Locale,
    /// `java.util.Currency`, with the single field `currencyCode`.
    Currency,
    /// `java.net.URI`, with the single field `string`.
    Uri,
    /// A class of java.util.concurrent.atomic with the single field `value`.
    AtomicInteger,
    AtomicLong,
    /// The same; its `value` is 0 or 1.
    AtomicBoolean,
    StackTraceElement,
    EnumSet,
    /// An object with the array `words`.
    BitSet,
    LocalDate,
    LocalTime,
    LocalDateTime,
    Instant,
    Duration,
    Period,
    Year,
    YearMonth,
    MonthDay,
    OffsetDateTime,
    OffsetTime,
    ZoneOffset,
    ZoneId,
    ZonedDateTime,
}

/// The package of hessian-lite's stand-ins for java.time.
const HANDLES: &str = "com.alibaba.com.caucho.hessian.io.java8.";
const IO: &str = "com.alibaba.com.caucho.hessian.io.";
/// hessian-lite's stand-in for a `BitSet`, which results name.
pub const BIT_SET_HANDLE: &str = "com.alibaba.com.caucho.hessian.io.BitSetHandle";

impl Builtin {
    /// What a parameter or `"class"` member of this name is.
    pub fn of_declared(name: &str) -> Option<Self> {
        if let Some(rest) = name.strip_prefix("java.lang.") {
            return Self::of_lang(rest);
        }
        if let Some(rest) = name.strip_prefix("java.util.") {
            return Self::of_util(rest);
        }
        if let Some(rest) = name.strip_prefix("java.time.") {
            return Self::of_time(rest);
        }
        Some(match name {
            "java.math.BigDecimal" => Self::BigDecimal,
            "java.math.BigInteger" => Self::BigInteger,
            "java.sql.Date" | "java.sql.Time" | "java.sql.Timestamp" => Self::SqlDate,
            "java.io.Serializable" => Self::Any,
            "java.io.File" => Self::TextValue,
            "java.net.URI" => Self::Uri,
            BIT_SET_HANDLE => Self::BitSet,
            _ => return None,
        })
    }

    /// What an object is whose class has this name in a message.
    pub fn of_message(name: &str) -> Option<Self> {
        if let Some(rest) = name.strip_prefix(HANDLES) {
            return Self::of_time(rest.strip_suffix("Handle")?);
        }
        if let Some(rest) = name.strip_prefix(IO) {
            return match rest {
                "LocaleHandle" => Some(Self::Locale),
                "CalendarHandle" => Some(Self::Calendar),
                "EnumSetHandler" => Some(Self::EnumSet),
                _ => None,
            };
        }
        let known = match name {
            "java.lang.StackTraceElement" => return Some(Self::StackTraceElement),
            "javax.management.ObjectName" => return Some(Self::TextValue),
            // A counter, as its writer stands in for it.
            "java.util.concurrent.atomic.LongAdder$SerializationProxy" => {
                return Some(Self::AtomicLong);
            }
            _ if name.starts_with("java.") => Self::of_declared(name)?,
            _ => return None,
        };
        // The others never stand as an object of fields, or as one like any other.
        matches!(
            known,
            Self::BigDecimal
                | Self::BigInteger
                | Self::SqlDate
                | Self::TextValue
                | Self::ClassName
                | Self::Optional
                | Self::Currency
                | Self::Uri
                | Self::AtomicInteger
                | Self::AtomicLong
                | Self::AtomicBoolean
                // The compact forms of hessian-lite 4.
                | Self::LocalDate
                | Self::LocalTime
                | Self::LocalDateTime
        )
        .then_some(known)
    }

    /// The declared class of a key that is an object of this class in a message; nothing if no
    /// text is read as one.
    pub fn of_key(name: &str) -> Option<Cow<'static, str>> {
        let handle = name.strip_prefix(HANDLES).and_then(|rest| rest.strip_suffix("Handle"));
        let declared = match (handle, name.strip_prefix(IO)) {
            (Some(class), _) => Cow::Owned(format!("java.time.{class}")),
            (_, Some("LocaleHandle")) => Cow::Borrowed("java.util.Locale"),
            (_, Some("CalendarHandle")) => Cow::Borrowed("java.util.Calendar"),
            _ => Cow::Owned(name.to_owned()),
        };
        let builtin = Self::of_declared(&declared)?;
        let is_text = !matches!(
            builtin,
            Self::Any
                | Self::Number
                | Self::List
                | Self::Map
                | Self::Optional
                | Self::EnumSet
                | Self::BitSet
        );
        is_text.then_some(declared)
    }

    fn of_lang(name: &str) -> Option<Self> {
        Some(match name {
            "Object" | "Comparable" | "Cloneable" => Self::Any,
            "Number" => Self::Number,
            "String" | "CharSequence" | "StringBuilder" | "StringBuffer" => Self::String,
            "Boolean" => Self::Boolean,
            "Byte" => Self::Byte,
            "Short" => Self::Short,
            "Character" => Self::Char,
            "Integer" => Self::Int,
            "Long" => Self::Long,
            "Float" => Self::Float,
            "Double" => Self::Double,
            "Class" => Self::ClassName,
            "Iterable" => Self::List,
            _ => return None,
        })
    }

    fn of_util(name: &str) -> Option<Self> {
        Some(match name {
            "Date" => Self::Date,
            "UUID" => Self::TextValue,
            "Locale" => Self::Locale,
            "Optional" => Self::Optional,
            "Calendar" | "GregorianCalendar" => Self::Calendar,
            "Currency" => Self::Currency,
            "EnumSet" => Self::EnumSet,
            "BitSet" => Self::BitSet,
            "concurrent.atomic.AtomicInteger" => Self::AtomicInteger,
            "concurrent.atomic.AtomicLong" => Self::AtomicLong,
            "concurrent.atomic.AtomicBoolean" => Self::AtomicBoolean,
            "Collection"
            | "List"
            | "Set"
            | "SortedSet"
            | "NavigableSet"
            | "Queue"
            | "Deque"
            | "ArrayList"
            | "LinkedList"
            | "Vector"
            | "Stack"
            | "HashSet"
            | "LinkedHashSet"
            | "TreeSet"
            | "ArrayDeque"
            | "PriorityQueue"
            | "AbstractList"
            | "AbstractCollection"
            | "AbstractSet"
            | "AbstractQueue"
            | "AbstractSequentialList"
            | "concurrent.BlockingQueue"
            | "concurrent.BlockingDeque"
            | "concurrent.LinkedBlockingQueue"
            | "concurrent.LinkedBlockingDeque"
            | "concurrent.PriorityBlockingQueue"
            | "concurrent.ConcurrentLinkedDeque"
            | "concurrent.CopyOnWriteArrayList"
            | "concurrent.CopyOnWriteArraySet"
            | "concurrent.ConcurrentLinkedQueue"
            | "concurrent.ConcurrentSkipListSet" => Self::List,
            "Map"
            | "SortedMap"
            | "NavigableMap"
            | "HashMap"
            | "LinkedHashMap"
            | "TreeMap"
            | "Hashtable"
            | "Properties"
            | "WeakHashMap"
            | "IdentityHashMap"
            | "AbstractMap"
            | "EnumMap"
            | "concurrent.ConcurrentMap"
            | "concurrent.ConcurrentNavigableMap"
            | "concurrent.ConcurrentHashMap"
            | "concurrent.ConcurrentSkipListMap" => Self::Map,
            _ => return None,
        })
    }

    fn of_time(name: &str) -> Option<Self> {
        Some(match name {
            "LocalDate" => Self::LocalDate,
            "LocalTime" => Self::LocalTime,
            "LocalDateTime" => Self::LocalDateTime,
            "Instant" => Self::Instant,
            "Duration" => Self::Duration,
            "Period" => Self::Period,
            "Year" => Self::Year,
            "YearMonth" => Self::YearMonth,
            "MonthDay" => Self::MonthDay,
            "OffsetDateTime" => Self::OffsetDateTime,
            "OffsetTime" => Self::OffsetTime,
            "ZoneOffset" => Self::ZoneOffset,
            "ZoneId" => Self::ZoneId,
            "ZonedDateTime" => Self::ZonedDateTime,
            _ => return None,
        })
    }

    /// The type that a list of this declared class bears; nothing for an `ArrayList`.
    pub fn list_type(declared: &str) -> Option<&str> {
        match declared {
            "java.util.List"
            | "java.util.ArrayList"
            | "java.util.Collection"
            | "java.lang.Iterable"
            | "java.util.AbstractList"
            | "java.util.AbstractCollection" => None,
            // The elements keep the order of the JSON array.
            "java.util.Set" | "java.util.AbstractSet" => Some("java.util.LinkedHashSet"),
            "java.util.SortedSet" | "java.util.NavigableSet" => Some("java.util.TreeSet"),
            "java.util.Queue"
            | "java.util.Deque"
            | "java.util.AbstractQueue"
            | "java.util.AbstractSequentialList" => Some("java.util.LinkedList"),
            "java.util.concurrent.BlockingQueue" | "java.util.concurrent.BlockingDeque" => {
                Some("java.util.concurrent.LinkedBlockingDeque")
            }
            concrete => Some(concrete),
        }
    }

    /// The type that a map of this declared class bears; nothing for a `HashMap`.
    pub fn map_type(declared: &str) -> Option<&str> {
        match declared {
            "java.util.Map" | "java.util.HashMap" | "java.util.AbstractMap" => None,
            "java.util.SortedMap" | "java.util.NavigableMap" => Some("java.util.TreeMap"),
            "java.util.concurrent.ConcurrentMap" => Some("java.util.concurrent.ConcurrentHashMap"),
            "java.util.concurrent.ConcurrentNavigableMap" => {
                Some("java.util.concurrent.ConcurrentSkipListMap")
            }
            concrete => Some(concrete),
        }
    }
}

/// The full name of hessian-lite's stand-in for a class of java.time.
pub fn handle(name: &str) -> String {
    format!("{HANDLES}{name}Handle")
}
