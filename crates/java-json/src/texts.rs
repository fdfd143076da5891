//! Texts of the JDK's values, as Java prints and reads them.

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

/// Whether a text looks like the code of a currency.
#[must_use]
pub fn is_currency_code(text: &str) -> bool {
    text.len() == 3 && text.bytes().all(|byte| byte.is_ascii_uppercase())
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
}
