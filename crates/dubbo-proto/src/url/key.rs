//! The names of registry nodes: a whole URL in the form of Java's `URLEncoder`.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

use super::MAX_URL_LEN;
use crate::ProtoError;

/// Java leaves letters, digits and these alone.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'.').remove(b'-').remove(b'*').remove(b'_');

/// Writes `text` as Java's `URLEncoder.encode(text, "UTF-8")` does.
#[must_use]
pub fn encode_key(text: &str) -> String {
    // A space becomes %20 here, and a percent sign of the text itself %25: the two cannot mix.
    utf8_percent_encode(text, ESCAPED).to_string().replace("%20", "+")
}

/// Reads what [`encode_key`], Java or Go wrote.
///
/// # Errors
/// [`ProtoError::Url`] when it is too long, a `%` is not followed by two hexadecimal digits, or
/// the result is not UTF-8.
pub fn decode_key(key: &str) -> Result<String, ProtoError> {
    if key.len() > 3 * MAX_URL_LEN {
        return Err(ProtoError::Url { offset: 3 * MAX_URL_LEN, rule: "longer than any URL" });
    }
    for (offset, _) in key.match_indices('%') {
        let digits = key.as_bytes().get(offset + 1..offset + 3);
        if !digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit)) {
            return Err(ProtoError::Url { offset, rule: "two hexadecimal digits after %" });
        }
    }
    let spaced = key.replace('+', " ");
    let decoded = percent_decode_str(&spaced).decode_utf8();
    match decoded {
        Ok(text) => Ok(text.into_owned()),
        Err(error) => Err(ProtoError::Url { offset: error.valid_up_to(), rule: "UTF-8" }),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn writes_what_java_writes() {
        let url = "dubbo://10.0.0.1:20880/a.B?methods=a,b&x=1 2*~_-ü%";
        let key = "dubbo%3A%2F%2F10.0.0.1%3A20880%2Fa.B%3Fmethods%3Da%2Cb%26x%3D1+2*%7E_-%C3%BC%25";
        assert_eq!(encode_key(url), key);
        assert_eq!(decode_key(key).as_deref(), Ok(url));
        // dubbo-go's QueryEscape escapes the star and leaves the tilde.
        assert_eq!(decode_key("%2a~").as_deref(), Ok("*~"));
    }

    #[test]
    fn refuses_broken_keys() {
        let digits = "two hexadecimal digits after %";
        assert_eq!(decode_key("ab%2"), Err(ProtoError::Url { offset: 2, rule: digits }));
        assert_eq!(decode_key("%zz"), Err(ProtoError::Url { offset: 0, rule: digits }));
        assert_eq!(decode_key("a%ff"), Err(ProtoError::Url { offset: 1, rule: "UTF-8" }));
        assert!(decode_key(&"a".repeat(3 * MAX_URL_LEN + 1)).is_err());
    }

    proptest! {
        #[test]
        fn reads_back_what_it_wrote(text in "\\PC{0,60}") {
            prop_assert_eq!(decode_key(&encode_key(&text)), Ok(text));
        }
    }
}
