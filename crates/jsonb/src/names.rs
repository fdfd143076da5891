//! The short names that fastjson2 writes for classes of the JDK. Source: its `TypeUtils`.

use std::borrow::Cow;

/// Names that are not the simple name of the class.
const SPECIAL: &[(&str, &str)] = &[
    ("M", "java.util.HashMap"),
    ("LM", "java.util.LinkedHashMap"),
    ("TM", "java.util.TreeMap"),
    ("A", "java.util.ArrayList"),
    ("LA", "java.util.LinkedList"),
    ("List", "java.util.ArrayList"),
    ("Set", "java.util.HashSet"),
    ("B", "byte"),
    ("S", "short"),
    ("I", "int"),
    ("J", "long"),
    ("F", "float"),
    ("D", "double"),
    ("C", "char"),
    ("Z", "boolean"),
    ("O", "java.lang.Object"),
    ("EmptyMap", "java.util.Collections$EmptyMap"),
    ("JO1", "com.alibaba.fastjson.JSONObject"),
    ("JA1", "com.alibaba.fastjson.JSONArray"),
    ("JO10", "com.alibaba.fastjson2.JSONObject"),
    ("JSONObject", "com.alibaba.fastjson2.JSONObject"),
    ("JSONArray", "com.alibaba.fastjson2.JSONArray"),
];

/// The packages of the others.
const PACKAGES: &[(&str, &[&str])] = &[
    (
        "java.lang.",
        &[
            "Object",
            "String",
            "Byte",
            "Short",
            "Integer",
            "Long",
            "Float",
            "Double",
            "Character",
            "Boolean",
            "Number",
            "Cloneable",
            "AutoCloseable",
            "Exception",
            "RuntimeException",
            "Error",
            "Throwable",
            "IllegalAccessError",
            "IllegalAccessException",
            "IllegalArgumentException",
            "IllegalMonitorStateException",
            "IllegalStateException",
            "IllegalThreadStateException",
            "IndexOutOfBoundsException",
            "InstantiationError",
            "InstantiationException",
            "InternalError",
            "InterruptedException",
            "LinkageError",
            "NegativeArraySizeException",
            "NoClassDefFoundError",
            "NoSuchFieldError",
            "NoSuchFieldException",
            "NoSuchMethodError",
            "NoSuchMethodException",
            "NullPointerException",
            "NumberFormatException",
            "OutOfMemoryError",
            "SecurityException",
            "StackOverflowError",
            "StringIndexOutOfBoundsException",
            "TypeNotPresentException",
            "VerifyError",
            "StackTraceElement",
        ],
    ),
    (
        "java.util.",
        &[
            "HashMap",
            "Hashtable",
            "TreeMap",
            "IdentityHashMap",
            "WeakHashMap",
            "LinkedHashMap",
            "HashSet",
            "LinkedHashSet",
            "TreeSet",
            "ArrayList",
            "LinkedList",
            "BitSet",
            "UUID",
            "Locale",
            "Date",
            "Calendar",
            "Currency",
        ],
    ),
    (
        "java.util.concurrent.",
        &[
            "TimeUnit",
            "ConcurrentHashMap",
            "ConcurrentLinkedQueue",
            "ConcurrentLinkedDeque",
            "ConcurrentSkipListMap",
            "ConcurrentSkipListSet",
        ],
    ),
    ("java.math.", &["BigInteger", "BigDecimal"]),
    ("java.util.concurrent.atomic.", &["AtomicInteger", "AtomicLong"]),
    ("java.text.", &["SimpleDateFormat"]),
];

/// The full name of a class that a message names. Arrays keep their brackets in front.
pub(crate) fn full<'a>(name: &'a str) -> Cow<'a, str> {
    if name.contains('.') {
        return Cow::Borrowed(name);
    }
    let element = name.trim_start_matches('[');
    let brackets = name.len() - element.len();
    // `[O` is an array of objects; alone, the letter means nothing. And a primitive stays a
    // letter.
    let special = SPECIAL.iter().find(|(short, _)| *short == element);
    let found: Cow<'a, str> = match special {
        Some((_, full)) if brackets == 0 || element == "O" => Cow::Borrowed(full),
        Some(_) => return Cow::Borrowed(name),
        None => {
            let package = PACKAGES.iter().find(|(_, names)| names.contains(&element));
            match package {
                Some((package, _)) => Cow::Owned(format!("{package}{element}")),
                None => return Cow::Borrowed(name),
            }
        }
    };
    match brackets {
        0 => found,
        n => Cow::Owned(format!("{}{found}", "[".repeat(n))),
    }
}

#[cfg(test)]
mod tests {
    use super::full;

    #[test]
    fn short_names_are_told() {
        for (short, expected) in [
            ("LM", "java.util.LinkedHashMap"),
            ("IllegalArgumentException", "java.lang.IllegalArgumentException"),
            ("[O", "[java.lang.Object"),
            ("[[Date", "[[java.util.Date"),
            ("[B", "[B"),
            ("Order", "Order"),
            ("com.acme.M", "com.acme.M"),
        ] {
            assert_eq!(full(short), expected);
        }
    }
}
