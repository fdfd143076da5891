//! How Java's values are written as JSON, whatever the serialization that they come in.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::json;
use crate::keys::Keys;
use crate::options::{DateStyle, Style};
use crate::time;

/// Whole numbers beyond it are not exact in a double, which is what most readers of JSON have.
const EXACT: u64 = 1 << 53;

impl Style {
    /// A `long`; another whole number if `is_long` is false.
    pub fn write_whole(self, out: &mut Vec<u8>, value: i64, is_long: bool) {
        let is_text = self.longs_as_text && is_long
            || self.big_numbers_as_text && EXACT < value.unsigned_abs();
        quoted_if(is_text, out, |out| json::write_i64(out, value));
    }

    /// A `double`, or what a `float` has become in one.
    pub fn write_double(self, out: &mut Vec<u8>, value: f64) {
        #[expect(clippy::cast_possible_truncation, reason = "compared with the value afterwards")]
        let float = value as f32;
        #[expect(clippy::float_cmp, reason = "a float is right only if it is exactly the value")]
        let is_float = f64::from(float) == value;
        if self.floats && is_float {
            json::write_f32(out, float);
        } else {
            json::write_f64(out, value);
        }
    }

    /// A `java.util.Date`, by its milliseconds since 1970.
    pub fn write_date(self, out: &mut Vec<u8>, ms: i64) {
        match self.dates {
            DateStyle::Millis => json::write_i64(out, ms),
            DateStyle::Iso => quoted_if(true, out, |out| time::write_ms(out, ms)),
        }
    }
}

/// Something as a text of JSON, or as it is.
#[inline]
pub fn quoted_if(is_text: bool, out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    if is_text {
        out.push(b'"');
    }
    write(out);
    if is_text {
        out.push(b'"');
    }
}

/// A `byte[]`, as a text.
pub fn write_base64(out: &mut Vec<u8>, bytes: &[u8]) {
    out.push(b'"');
    let start = out.len();
    let len = bytes.len().div_ceil(3) * 4;
    out.resize(start + len, 0);
    if let Some(place) = out.get_mut(start..) {
        // The place is exactly as long as the text.
        let written = STANDARD.encode_slice(bytes, place);
        debug_assert_eq!(written, Ok(len));
    }
    out.push(b'"');
}

/// Makes a map's key of the value that was written from `start` on: its JSON if that is a text,
/// and otherwise the text of its JSON.
#[inline]
pub fn make_key(out: &mut Vec<u8>, start: usize) {
    let written = out.get(start..).unwrap_or_default();
    if written.first() == Some(&b'"') {
        return;
    }
    let text = String::from_utf8_lossy(written).into_owned();
    out.truncate(start);
    json::write_string(out, &text);
}

/// The class of an object, as its first member.
pub fn write_class(out: &mut Vec<u8>, class: &str) {
    out.extend_from_slice(b"\"class\":");
    json::write_string(out, class);
}

/// Begins an object that stands for a value of this class, which comes next.
pub fn begin_value(out: &mut Vec<u8>, class: &str) {
    out.push(b'{');
    write_class(out, class);
    out.extend_from_slice(b",\"value\":");
}

/// Ends it.
pub fn end_value(out: &mut Vec<u8>) {
    out.push(b'}');
}

/// Writes the braces of a map, what names its class, and the commas between its entries.
#[derive(Debug)]
pub struct MapWriter {
    is_first: bool,
    start: usize,
    entries_at: usize,
    /// What was seen of the keys, if their class is told.
    keys: Option<Keys>,
}

impl MapWriter {
    /// Begins a map, of this class if it is to be told. What is seen of the keys goes into `keys`,
    /// if their class is to be told.
    #[inline]
    pub fn begin(out: &mut Vec<u8>, class: Option<&str>, keys: Option<Keys>) -> Self {
        let start = out.len();
        out.push(b'{');
        if let Some(class) = class {
            write_class(out, class);
        }
        Self { is_first: class.is_none(), start, entries_at: out.len(), keys }
    }

    /// Whether no comma comes before the next entry.
    #[inline]
    #[must_use]
    pub fn is_first(&self) -> bool {
        self.is_first
    }

    /// So many entries were written by other means.
    #[inline]
    pub fn pass(&mut self, n: usize) {
        self.is_first &= n == 0;
    }

    /// Begins an entry. Gives where it is.
    #[inline]
    pub fn begin_entry(&mut self, out: &mut Vec<u8>) -> usize {
        if !std::mem::replace(&mut self.is_first, false) {
            out.push(b',');
        }
        out.len()
    }

    /// Ends the entry that begins at `start`. `key_class` is the class of its key; nothing if no
    /// text stands for the key.
    #[inline]
    pub fn end_entry(&mut self, out: &[u8], start: usize, key_class: Option<&str>) {
        if let Some(keys) = &mut self.keys {
            keys.add(key_class, out.get(start..).unwrap_or_default());
        }
    }

    /// Ends the map, which is of this class.
    #[inline]
    pub fn end(self, out: &mut Vec<u8>, class: Option<&str>) {
        out.push(b'}');
        if let Some(keys) = self.keys {
            keys.tell(class, out, self.start, self.entries_at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::JsonOptions;

    fn written(write: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        write(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn scalars_are_as_their_style_has_them() {
        let plain = JsonOptions::default().style();
        let texts = Style { longs_as_text: true, floats: true, ..plain };
        let big = Style { big_numbers_as_text: true, dates: DateStyle::Millis, ..plain };
        let exact = 1_i64 << 53;
        assert_eq!(written(|out| plain.write_whole(out, exact + 1, true)), "9007199254740993");
        assert_eq!(written(|out| texts.write_whole(out, 7, true)), "\"7\"");
        assert_eq!(written(|out| texts.write_whole(out, 7, false)), "7");
        assert_eq!(written(|out| big.write_whole(out, exact, true)), "9007199254740992");
        assert_eq!(written(|out| big.write_whole(out, -exact - 1, false)), "\"-9007199254740993\"");
        let float = f64::from(99.8_f32);
        assert_eq!(written(|out| plain.write_double(out, float)), "99.80000305175781");
        assert_eq!(written(|out| texts.write_double(out, float)), "99.8");
        assert_eq!(written(|out| texts.write_double(out, 0.1)), "0.1");
        assert_eq!(written(|out| plain.write_date(out, 0)), "\"1970-01-01T00:00:00.000Z\"");
        assert_eq!(written(|out| big.write_date(out, -1)), "-1");
        assert_eq!(written(|out| write_base64(out, b"")), "\"\"");
        assert_eq!(written(|out| write_base64(out, b"abcd")), "\"YWJjZA==\"");
    }

    #[test]
    fn keys_are_texts() {
        for (value, key) in [("\"a\"", "\"a\""), ("12", "\"12\""), ("{\"a\":1}", r#""{\"a\":1}""#)]
        {
            let mut out = format!("x{value}").into_bytes();
            make_key(&mut out, 1);
            assert_eq!(String::from_utf8(out).unwrap(), format!("x{key}"));
        }
    }

    #[test]
    fn maps_have_commas_and_say_what_they_and_their_keys_are() {
        let map = |class: Option<&str>, tells_keys: bool, n| {
            written(|out| {
                let mut map = MapWriter::begin(out, class, tells_keys.then(Keys::default));
                for _ in 0..n {
                    let at = map.begin_entry(out);
                    out.extend_from_slice(b"\"1\":2");
                    map.end_entry(out, at, Some("java.lang.Integer"));
                }
                map.end(out, class);
            })
        };
        // What a generic call answers for an object.
        let bean = |are_fields| {
            written(|out| {
                let mut map = MapWriter::begin(out, None, Some(Keys::new(are_fields)));
                let at = map.begin_entry(out);
                out.extend_from_slice(b"\"class\":\"a.B\"");
                map.end_entry(out, at, Some("java.lang.String"));
                map.end(out, None);
            })
        };
        assert_eq!(bean(true), r#"{"class":"a.B"}"#);
        let told = r#"{"class":"java.util.HashMap<java.lang.String, java.lang.Object>","value":{"class":"a.B"}}"#;
        assert_eq!(bean(false), told);
        assert_eq!(map(None, false, 0), "{}");
        assert_eq!(map(None, false, 2), r#"{"1":2,"1":2}"#);
        assert_eq!(map(Some("a.B"), false, 1), r#"{"class":"a.B","1":2}"#);
        assert_eq!(map(Some("a.B"), false, 0), r#"{"class":"a.B"}"#);
        let told =
            r#"{"class":"java.util.HashMap<java.lang.Integer, java.lang.Object>","value":{"1":2}}"#;
        assert_eq!(map(None, true, 1), told);
        assert_eq!(map(Some("java.util.HashMap"), true, 1), told);
    }
}
