//! Texts in their encodings, and the names that have numbers.

use std::borrow::Cow;

use java_json::{JavaType, json};

use super::{Decoder, SYMBOL_SLACK};
use crate::error::{JsonbError, Rule};
use crate::tag;

/// The longest name of a type, in bytes, with room for brackets, and twice as many in UTF-16. A
/// name that stands in a message once may be meant by each of its values, and is read each time.
const MAX_TYPE_LEN: usize = 2 * JavaType::MAX_NAME_LEN + 64;

/// A text in the encoding that the writer chose.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum EncodedText<'a> {
    /// One byte a character, the first 256 of Unicode.
    Latin1(&'a [u8]),
    /// UTF-8.
    Utf8(&'a str),
    /// UTF-16, two bytes a unit.
    Utf16 {
        /// The units. An odd byte at the end means nothing.
        bytes: &'a [u8],
        /// Whether the lower byte of a unit comes first.
        is_little: bool,
    },
}

impl<'a> EncodedText<'a> {
    /// The text as Rust has it. Half a surrogate pair becomes U+FFFD.
    #[must_use]
    pub fn to_str(self) -> Cow<'a, str> {
        match self {
            Self::Utf8(text) => Cow::Borrowed(text),
            Self::Latin1(bytes) => match std::str::from_utf8(bytes) {
                Ok(text) if bytes.is_ascii() => Cow::Borrowed(text),
                _ => Cow::Owned(bytes.iter().map(|&byte| char::from(byte)).collect()),
            },
            Self::Utf16 { bytes, is_little } => {
                let (units, _) = bytes.as_chunks::<2>();
                let units = units.iter().map(|&unit| match is_little {
                    true => u16::from_le_bytes(unit),
                    false => u16::from_be_bytes(unit),
                });
                let chars = char::decode_utf16(units);
                Cow::Owned(chars.map(|c| c.unwrap_or(char::REPLACEMENT_CHARACTER)).collect())
            }
        }
    }

    /// How many bytes the text takes where it stands. As UTF-8 it takes twice as many at most.
    #[must_use]
    pub const fn n_bytes(self) -> usize {
        match self {
            Self::Utf8(text) => text.len(),
            Self::Latin1(bytes) | Self::Utf16 { bytes, .. } => bytes.len(),
        }
    }

    /// Where the text stands in the message, if its bytes there are UTF-8.
    #[must_use]
    pub fn as_ascii(self) -> Option<&'a str> {
        match self {
            Self::Utf8(text) => Some(text),
            Self::Latin1(bytes) if bytes.is_ascii() => std::str::from_utf8(bytes).ok(),
            _ => None,
        }
    }

    /// Appends the text as JSON, in quotes.
    pub(crate) fn write_json(self, out: &mut Vec<u8>) {
        match self.as_ascii() {
            Some(text) => json::write_string(out, text),
            None => json::write_string(out, &self.to_str()),
        }
    }
}

impl<'a> Decoder<'a> {
    /// Reads a text, or a name by its number.
    ///
    /// # Errors
    /// [`JsonbError::Broken`] if something else comes.
    pub fn read_text(&mut self) -> Result<EncodedText<'a>, JsonbError> {
        match self.peek()? {
            tag::SYMBOL => {
                self.pos += 1;
                self.symbol()
            }
            _ => self.plain_text(),
        }
    }

    /// The type's name after [`tag::TYPED`].
    pub(crate) fn read_type(&mut self) -> Result<EncodedText<'a>, JsonbError> {
        if self.peek()? == tag::SYMBOL {
            self.pos += 1;
        }
        let (start, name) = (self.pos, self.symbol()?);
        if MAX_TYPE_LEN < name.n_bytes() {
            let rule = Rule::TooLong { len: name.n_bytes(), max: MAX_TYPE_LEN };
            return Err(JsonbError::Broken { offset: start, rule });
        }
        Ok(name)
    }

    /// A text and its number, or a number alone.
    fn symbol(&mut self) -> Result<EncodedText<'a>, JsonbError> {
        let is_new = tag::is_text(self.peek()?);
        let text = if is_new { Some(self.plain_text()?) } else { None };
        let number = self.int()?;
        let unknown = self.broken_before(Rule::Symbol { number });
        let index = usize::try_from(number).map_err(|_| unknown.clone())?;
        let Some(text) = text else {
            return self.symbols.get(index).copied().flatten().ok_or(unknown);
        };
        if self.symbols.len() + SYMBOL_SLACK < index {
            return Err(unknown);
        }
        if self.symbols.len() <= index {
            self.symbols.resize(index + 1, None);
        }
        if let Some(place) = self.symbols.get_mut(index) {
            *place = Some(text);
        }
        Ok(text)
    }

    fn plain_text(&mut self) -> Result<EncodedText<'a>, JsonbError> {
        let (encoding, bytes) = self.raw_text()?;
        let start = self.pos - bytes.len();
        let wrong = |at: usize, encoding: &'static str| JsonbError::Broken {
            offset: start + at,
            rule: Rule::Encoding { encoding },
        };
        Ok(match encoding {
            tag::STR_UTF8 => EncodedText::Utf8(
                std::str::from_utf8(bytes).map_err(|error| wrong(error.valid_up_to(), "UTF-8"))?,
            ),
            tag::STR_UTF16 | tag::STR_UTF16_LE | tag::STR_UTF16_BE if bytes.len() % 2 != 0 => {
                return Err(wrong(bytes.len() - 1, "UTF-16"));
            }
            tag::STR_UTF16 => match bytes {
                [0xff, 0xfe, bytes @ ..] => EncodedText::Utf16 { bytes, is_little: true },
                [0xfe, 0xff, bytes @ ..] | bytes => EncodedText::Utf16 { bytes, is_little: false },
            },
            tag::STR_UTF16_LE => EncodedText::Utf16 { bytes, is_little: true },
            tag::STR_UTF16_BE => EncodedText::Utf16 { bytes, is_little: false },
            tag::STR_GB18030 => {
                return Err(JsonbError::Broken { offset: start, rule: Rule::Gb18030 });
            }
            _ => EncodedText::Latin1(bytes),
        })
    }

    pub(crate) fn skip_text(&mut self) -> Result<(), JsonbError> {
        match self.peek()? {
            tag::SYMBOL => self.read_text().map(|_| ()),
            _ => self.raw_text().map(|_| ()),
        }
    }

    fn raw_text(&mut self) -> Result<(u8, &'a [u8]), JsonbError> {
        let encoding = self.take()?;
        let len = match encoding {
            tag::STR_0..=tag::STR_47 => usize::from(encoding - tag::STR_0),
            tag::STR_LATIN1..=tag::STR_GB18030 => self.length()?,
            _ => return Err(self.broken_before(Rule::Expected { expected: "a text" })),
        };
        Ok((encoding, self.bytes(len)?))
    }
}
