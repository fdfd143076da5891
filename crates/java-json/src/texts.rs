//! Texts of the JDK's values, as Java prints and reads them.

mod currency;

use std::borrow::Cow;

use crate::JavaType;

pub use currency::is_currency_code;

/// A UUID by its two halves.
pub fn uuid(most: u64, least: u64) -> String {
    let [time_low, time_mid, time_high] = [most >> 32, most >> 16 & 0xffff, most & 0xffff];
    let [sequence, node] = [least >> 48, least & 0xffff_ffff_ffff];
    format!("{time_low:08x}-{time_mid:04x}-{time_high:04x}-{sequence:04x}-{node:012x}")
}

/// The 16 bytes of a UUID. Java reads it with leading zeros left out, too: `1-2-3-4-5`.
#[must_use]
pub fn parse_uuid(text: &str) -> Option<[u8; 16]> {
    const DIGITS: [usize; 5] = [8, 4, 4, 4, 12];
    let (mut value, mut groups) = (0, text.split('-'));
    for n_digits in DIGITS {
        let group = groups.next()?;
        if group.is_empty() || n_digits < group.len() {
            return None;
        }
        let digit = |value: u128, c: char| Some(value << 4 | u128::from(c.to_digit(16)?));
        value = value << (4 * n_digits) | group.chars().try_fold(0, digit)?;
    }
    groups.next().is_none().then(|| value.to_be_bytes())
}

/// The name by which `Class.forName` finds what a text names: `[Ljava.lang.String;` for
/// `java.lang.String[]`. Nothing if no class or primitive type can have the name.
#[must_use]
pub fn class_name(text: &str) -> Option<Cow<'_, str>> {
    if JavaType::is_class_name(text) {
        return (text.len() <= JavaType::MAX_NAME_LEN).then_some(Cow::Borrowed(text));
    }
    let is_array = text.starts_with('[') || text.ends_with("[]");
    let ty = JavaType::parse(text).ok().filter(|_| is_array && !text.contains('<'))?;
    let descriptor = ty.to_descriptor();
    // There is no array of nothing.
    (!descriptor.ends_with("[V")).then(|| Cow::Owned(descriptor.replace('/', ".")))
}

/// Whether a text is a locale as Java prints it: `zh_CN`, `sr_RS_#Latn`. Java reads it up to the
/// script, splits it at `_` alone, and takes `zh-CN` for a language.
#[must_use]
pub fn is_locale(text: &str) -> bool {
    let before_script = text.split_once("_#").map_or(text, |(before, _)| before);
    // A variant is any text.
    !before_script.splitn(3, '_').take(2).any(|part| part.contains('-'))
}

/// `com.acme.Shop.sell(Shop.java:12)`
pub fn stack_trace_element(class: &str, method: &str, file: Option<&str>, line: i64) -> String {
    match (line, file) {
        (-2, _) => format!("{class}.{method}(Native Method)"),
        (_, None) => format!("{class}.{method}(Unknown Source)"),
        (0.., Some(file)) => format!("{class}.{method}({file}:{line})"),
        (_, Some(file)) => format!("{class}.{method}({file})"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uuid_is_read_as_java_reads_it() {
        let text = "00112233-4455-6677-8899-AAbbccddeeff";
        let bytes = 0x0011_2233_4455_6677_8899_aabb_ccdd_eeff_u128.to_be_bytes();
        assert_eq!(parse_uuid(text), Some(bytes));
        let bytes = 0x0000_0001_0002_0003_0004_0000_0000_0005_u128.to_be_bytes();
        assert_eq!(parse_uuid("1-2-3-4-5"), Some(bytes));
        for wrong in [
            "",
            "nope",
            "1-2-3-4",
            "1-2-3-4-5-6",
            "1-2-3-4-",
            "-1-2-3-4-5",
            "1-2-3-4-x",
            "001122334-4455-6677-8899-aabbccddeeff",
            "00112233-4455-6677-8899-0aabbccddeeff",
            "00112233445566778899aabbccddeeff",
            " 1-2-3-4-5",
            "1-2-3-4-é",
        ] {
            assert_eq!(parse_uuid(wrong), None, "{wrong}");
        }
    }

    /// As `Class.forName` of Java 17 finds it.
    #[test]
    fn a_class_has_the_name_that_java_finds() {
        for (text, name) in [
            ("java.lang.String", "java.lang.String"),
            ("java.util.Map$Entry", "java.util.Map$Entry"),
            ("Plain", "Plain"),
            ("int", "int"),
            ("[I", "[I"),
            ("[[J", "[[J"),
            ("int[]", "[I"),
            ("[Ljava.lang.String;", "[Ljava.lang.String;"),
            ("[Ljava/lang/String;", "[Ljava.lang.String;"),
            ("java.lang.String[][]", "[[Ljava.lang.String;"),
        ] {
            assert_eq!(class_name(text).as_deref(), Some(name), "{text}");
        }
        for text in [
            "",
            " ",
            "java.lang.String ",
            "java.util.List<java.lang.String>",
            "java.util.List<java.lang.String>[]",
            "Ljava/lang/String;",
            "java/lang/String",
            "java..String",
            "java.lang.",
            "[]",
            "[",
            "[V",
            "void[]",
            "[Ljava.lang.String",
        ] {
            assert_eq!(class_name(text), None, "{text}");
        }
        assert_eq!(class_name(&"a".repeat(JavaType::MAX_NAME_LEN + 1)), None);
    }

    /// As `Locale.toString` of Java 17 prints them.
    #[test]
    fn a_locale_has_no_hyphen_before_its_script() {
        for text in ["", "zh", "zh_CN", "_CN", "de__POSIX", "sr_RS_#Latn", "zz_ZZ_a-b", "a_b_c_d"] {
            assert!(is_locale(text), "{text}");
        }
        assert!(is_locale("th_TH_TH_#u-nu-thai") && is_locale("zh__#Hans_u-ca-chinese"));
        for text in ["zh-Hans-CN", "en-US", "zh_Hans-CN", "-"] {
            assert!(!is_locale(text), "{text}");
        }
    }
}
