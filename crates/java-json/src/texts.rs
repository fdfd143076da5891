//! Texts of the JDK's values, as Java prints them.

/// A UUID by its two halves.
pub fn uuid(most: u64, least: u64) -> String {
    let [time_low, time_mid, time_high] = [most >> 32, most >> 16 & 0xffff, most & 0xffff];
    let [sequence, node] = [least >> 48, least & 0xffff_ffff_ffff];
    format!("{time_low:08x}-{time_mid:04x}-{time_high:04x}-{sequence:04x}-{node:012x}")
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
