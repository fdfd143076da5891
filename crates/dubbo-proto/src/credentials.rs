//! Texts in which no URL shows a secret: neither what is before its `@`, nor the value of a
//! parameter that is a secret by its name.

/// Stands in the place of what is hidden.
const HIDDEN: &str = "***";

/// Names of parameters that hold one of these have secrets as values.
const SECRET_WORDS: [&str; 6] = ["password", "passwd", "secret", "token", "apikey", "api_key"];

/// The text without the secrets of the URLs in it: what is said of a file goes into logs and
/// tickets.
#[must_use]
pub fn without_credentials(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for word in text.split_inclusive(|c: char| c.is_whitespace() || c == '"') {
        let (before, url) = match word.find("://") {
            Some(at) => word.split_at(at),
            None => (word, ""),
        };
        for item in before.split_inclusive(['\'', ',']) {
            push(item, &mut shown);
        }
        // A password may have any character, so an `@` ends it only if it is the last of its URL.
        for part in url.split("://").skip(1) {
            shown.push_str("://");
            push(part, &mut shown);
        }
    }
    shown
}

/// Whether a parameter of this name has a secret as its value, and not the path of one.
#[must_use]
pub fn is_secret_parameter(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    !name.ends_with("_file") && SECRET_WORDS.iter().any(|word| name.contains(word))
}

/// Appends what may be shown of a URL without its scheme.
fn push(part: &str, shown: &mut String) {
    let rest = match part.rfind('@').filter(|end| *end != 0) {
        Some(end) => {
            shown.push_str(HIDDEN);
            part.get(end..).unwrap_or_default()
        }
        None => part,
    };
    let Some((place, query)) = rest.split_once('?') else { return shown.push_str(rest) };
    shown.push_str(place);
    let mut mark = "?";
    for parameter in query.split('&') {
        shown.push_str(mark);
        mark = "&";
        match parameter.split_once('=') {
            Some((name, value)) if is_secret_parameter(name) => {
                let is_end = |c: char| c.is_whitespace() || matches!(c, '"' | '\'');
                let end = value.find(is_end).unwrap_or(value.len());
                shown.extend([name, "=", HIDDEN, value.get(end..).unwrap_or_default()]);
            }
            _ => shown.push_str(parameter),
        }
    }
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
            ("\"http://u:p'q,r@h:1\"", "\"http://***@h:1\""),
            ("'http://h:1', 'http://u:p@h:1'", "'http://h:1', 'http://***@h:1'"),
            ("a:1,u:p@h:1,http://u:p@h,q@h", "a:1,***@h:1,http://***@h"),
            ("\"http://h:1?password=p&a=b\" is", "\"http://h:1?password=***&a=b\" is"),
            ("'/x?a=b&Api_Key=p' is", "'/x?a=b&Api_Key=***' is"),
            ("x?token_file=/a&access.token=p\n", "x?token_file=/a&access.token=***\n"),
        ] {
            assert_eq!(without_credentials(text), shown);
        }
    }
}
