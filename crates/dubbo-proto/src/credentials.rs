//! Texts in which no name and no password stands before the `@` of a URL.

/// The text without the names and passwords that stand in URLs before an `@`: what is said of a
/// file goes into logs and tickets.
#[must_use]
pub fn without_credentials(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for word in text.split_inclusive(|c: char| c.is_whitespace() || matches!(c, '"' | '\'' | ',')) {
        let start = word.find("://").map_or(0, |at| at + "://".len());
        match word.rfind('@').filter(|end| start < *end) {
            Some(end) => {
                shown.push_str(word.get(..start).unwrap_or_default());
                shown.push_str("***");
                shown.push_str(word.get(end..).unwrap_or_default());
            }
            None => shown.push_str(word),
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_not_shown() {
        for (text, shown) in [
            ("\"http://u:p@h:1\" is not", "\"http://***@h:1\" is not"),
            ("\"http://u:p@q@h:1/x\"", "\"http://***@h:1/x\""),
            ("\"etcd:secret@h\" is", "\"***@h\" is"),
            ("\"http://h:1\" and @x", "\"http://h:1\" and @x"),
        ] {
            assert_eq!(without_credentials(text), shown);
        }
    }
}
