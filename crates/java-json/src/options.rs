//! The choices in the mapping of Hessian to JSON, and how they are written down as one line of
//! text.

use std::fmt;
use std::sync::Arc;

use crate::keys::Keys;

/// How dates are written.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum DateStyle {
    /// `"2024-01-02T03:04:05.678Z"`
    #[default]
    Iso,
    /// `1704164645678`
    Millis,
}

/// How objects are written whose class has the single field `name`: enums look like that.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum EnumStyle {
    /// `"RED"`
    #[default]
    Name,
    /// `{"name":"RED"}`
    Object,
}

/// What a second occurrence of the same list, map or object becomes.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum RefStyle {
    /// The value once more. One that contains itself is an error.
    #[default]
    Repeat,
    /// `{"$ref":"$.orders[0]"}`: where it stands first. Values that are neither arrays nor objects
    /// in JSON (enums, dates, big numbers) are repeated.
    Path,
}

/// The choices in the mapping of Hessian to JSON.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct JsonOptions {
    /// Whether objects and typed maps begin with a member `class`, their Java class.
    pub class_name: bool,
    /// Whether maps whose keys are no texts, or that have an entry named `class`, are written into
    /// an object that names the class of their keys. With `class_name`, what comes out can be sent
    /// in again.
    pub key_classes: bool,
    /// Whether an entry `class` of a map names the class of an object, which the map stands for:
    /// what a generic call answers. Then `key_classes` does not count such an entry.
    pub maps_are_objects: bool,
    /// Whether a `BigDecimal` or `BigInteger` is written into an object that names its class,
    /// unless its type is declared. As a number it would be read as a double or an int.
    pub number_classes: bool,
    /// How dates are written.
    pub dates: DateStyle,
    /// How objects are written that look like enums.
    pub enums: EnumStyle,
    /// Whether longs beyond 2^53, and all `BigDecimal` and `BigInteger`, are strings instead of
    /// numbers, for readers that take every number for a double.
    pub big_numbers_as_text: bool,
    /// Whether every long is a string, however small, so that a field has one type for its
    /// readers.
    pub longs_as_text: bool,
    /// Whether a double that a float holds exactly is written as the float, so that Java's 99.8f,
    /// which arrives as 99.80000305175781, is 99.8. A true double of such a value loses its
    /// digits after the ninth. Arrays of float, and results declared as float, need no option.
    pub floats: bool,
    /// What a second occurrence of the same value becomes.
    pub refs: RefStyle,
    /// Other choices for the values of single fields, and of what is inside them.
    pub fields: Vec<FieldRule>,
    /// The limit of the text, in bytes: of all that is in the buffer that is written to.
    pub max_out_len: usize,
    /// What is asked for room while the text grows; without it there is room up to the limit.
    pub room: Option<OutRoom>,
}

/// Says how long a text may become that is being written. It is asked seldom: whenever the text
/// has become longer than it has said last.
pub trait TextRoom: Send + Sync {
    /// How long a text may become that has `len` bytes by now; nothing if that is too long.
    fn extend(&self, len: usize) -> Option<usize>;
}

/// A [`TextRoom`] that options bear. Clones are handles to the same.
#[derive(Clone)]
pub struct OutRoom(pub Arc<dyn TextRoom>);

impl fmt::Debug for OutRoom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OutRoom")
    }
}

impl PartialEq for OutRoom {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for OutRoom {}

impl Default for JsonOptions {
    /// The plain choice everywhere, and 64 MiB: JSON of an 8 MiB message, and room for repeats.
    fn default() -> Self {
        Self {
            class_name: false,
            key_classes: false,
            maps_are_objects: false,
            number_classes: false,
            dates: DateStyle::Iso,
            enums: EnumStyle::Name,
            big_numbers_as_text: false,
            longs_as_text: false,
            floats: false,
            refs: RefStyle::Repeat,
            fields: Vec::new(),
            max_out_len: 64 << 20,
            room: None,
        }
    }
}

/// The JSON of a message may be so many times as long as the message, if it is not over the next
/// limit but one. References name values of any length by two or three bytes. In graphs of objects
/// as programs have them, where thousands of objects share a few long ones, that adds up to 20
/// or 30 times the message; 20 fields of long names that are all null are 95 times.
const MAX_TIMES: usize = 128;
/// It may have as much as this however short the message is: 10,000 objects of ten bytes that
/// share one of 1 kB are 10 MB.
const ALWAYS_OUT_LEN: usize = 16 << 20;
/// It may not be longer than this by references.
const MAX_OUT_LEN: usize = 64 << 20;
/// Without references it may be so many times as long as the message, however long that is: a null
/// of one byte is five, and so is a control character of one byte, with a comma more.
const OUT_TIMES: usize = 8;

impl JsonOptions {
    /// How long the JSON of a message of `len` bytes may become.
    #[must_use]
    pub fn max_len_of(len: usize) -> usize {
        let by_references = len.saturating_mul(MAX_TIMES).clamp(ALWAYS_OUT_LEN, MAX_OUT_LEN);
        by_references.max(len.saturating_mul(OUT_TIMES))
    }

    /// How long a text may become, before anything is asked for more.
    #[doc(hidden)]
    #[must_use]
    pub fn first_end(&self) -> usize {
        if self.room.is_some() { 0 } else { self.max_out_len }
    }

    /// How long a text may become that has `len` bytes by now, and is longer than it might have
    /// been so far; nothing if that is too long.
    #[doc(hidden)]
    #[cold]
    #[must_use]
    pub fn extend(&self, len: usize) -> Option<usize> {
        let end = self.room.as_ref()?.0.extend(len)?;
        Some(end.min(self.max_out_len)).filter(|end| len <= *end)
    }
}

/// A choice for one field.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct FieldRule {
    /// Of objects of this class; without one, of any object or map.
    pub class: Option<Box<str>>,
    /// The name of the field, or the key of a map's entry.
    pub field: Box<str>,
    /// What is chosen.
    pub choice: FieldChoice,
}

/// What can be chosen for a field by itself; see [`JsonOptions`].
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[expect(missing_docs, reason = "the names are those of the options")]
pub enum FieldChoice {
    Dates(DateStyle),
    Enums(EnumStyle),
    BigNumbersAsText(bool),
    LongsAsText(bool),
    Floats(bool),
}

/// The choices that can change from field to field.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub struct Style {
    pub dates: DateStyle,
    pub enums: EnumStyle,
    pub big_numbers_as_text: bool,
    pub longs_as_text: bool,
    pub floats: bool,
}

impl Style {
    #[must_use]
    pub fn with(mut self, choice: FieldChoice) -> Self {
        match choice {
            FieldChoice::Dates(style) => self.dates = style,
            FieldChoice::Enums(style) => self.enums = style,
            FieldChoice::BigNumbersAsText(yes) => self.big_numbers_as_text = yes,
            FieldChoice::LongsAsText(yes) => self.longs_as_text = yes,
            FieldChoice::Floats(yes) => self.floats = yes,
        }
        self
    }

    /// The style inside a field or entry of this name.
    #[must_use]
    pub fn inside(self, rules: &[FieldRule], class: Option<&str>, name: &[u8]) -> Self {
        let fits = |rule: &&FieldRule| {
            rule.field.as_bytes() == name
                && rule.class.as_deref().is_none_or(|wanted| class == Some(wanted))
        };
        rules.iter().filter(fits).fold(self, |style, rule| style.with(rule.choice))
    }
}

/// More choices than anybody makes in one request; each field is compared with each.
const MAX_FIELD_RULES: usize = 32;

/// Why a text does not name options.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum OptionsError {
    /// A part without `=`.
    #[error("{part:?} is not an option: write NAME=VALUE, with semicolons between them")]
    NoValue {
        /// The part.
        part: Box<str>,
    },
    /// An option that does not exist.
    #[error("unknown option {name:?}; the options are {NAMES}")]
    UnknownOption {
        /// Its name.
        name: Box<str>,
    },
    /// A value that the option does not have.
    #[error("invalid value {value:?} of {name}; expected {expected}")]
    UnknownValue {
        /// The option.
        name: &'static str,
        /// What was asked for.
        value: Box<str>,
        /// What it can be.
        expected: &'static str,
    },
    /// An option that cannot be chosen for one field.
    #[error("{name} applies to a whole answer, not to the field {field:?}")]
    NotPerField {
        /// The option.
        name: &'static str,
        /// The field.
        field: Box<str>,
    },
    /// No name after the `@`.
    #[error("a field's name is missing after the @ of {name}")]
    NoField {
        /// The option.
        name: &'static str,
    },
    /// Too many choices for fields.
    #[error("more than {max} choices for single fields")]
    TooManyFields {
        /// The limit.
        max: usize,
    },
}

/// A message shows at most so many bytes of a text that is no option.
const MAX_SHOWN: usize = 100;
const NAMES: &str = "big-numbers, longs, floats, dates, enums, class and refs";
const TEXT: &str = "number or text";

impl JsonOptions {
    /// Reads options as one line: `dates=millis; big-numbers=text@total; class=yes`. An option
    /// with `@FIELD` or `@com.acme.Order.FIELD` after its value holds for that field only. Empty
    /// parts mean nothing. The table is in docs/json-mapping.md.
    ///
    /// # Errors
    /// [`OptionsError`] with the part that is not one.
    pub fn parse(text: &str) -> Result<Self, OptionsError> {
        let mut options = Self::default();
        for part in text.split(';').map(str::trim).filter(|part| !part.is_empty()) {
            let Some((name, value)) = part.split_once('=') else {
                return Err(OptionsError::NoValue { part: clip(part) });
            };
            let (value, field) = match value.split_once('@') {
                Some((value, field)) => (value.trim(), Some(field.trim())),
                None => (value.trim(), None),
            };
            options.set(name.trim(), value, field)?;
        }
        Ok(options)
    }

    /// Where what is seen of a map's keys goes, if their class is to be told.
    #[doc(hidden)]
    #[must_use]
    pub fn keys(&self) -> Option<Keys> {
        self.key_classes.then(|| Keys::new(self.maps_are_objects))
    }

    fn set(&mut self, name: &str, value: &str, field: Option<&str>) -> Result<(), OptionsError> {
        let choice = match name {
            "dates" => FieldChoice::Dates(pick(
                "dates",
                value,
                "iso or millis",
                [("iso", DateStyle::Iso), ("millis", DateStyle::Millis)],
            )?),
            "enums" => FieldChoice::Enums(pick(
                "enums",
                value,
                "name or object",
                [("name", EnumStyle::Name), ("object", EnumStyle::Object)],
            )?),
            "big-numbers" => FieldChoice::BigNumbersAsText(pick(
                "big-numbers",
                value,
                TEXT,
                [("number", false), ("text", true)],
            )?),
            "longs" => FieldChoice::LongsAsText(pick(
                "longs",
                value,
                TEXT,
                [("number", false), ("text", true)],
            )?),
            "floats" => FieldChoice::Floats(pick(
                "floats",
                value,
                "double or float",
                [("double", false), ("float", true)],
            )?),
            "class" | "refs" => return self.set_whole(name, value, field),
            _ => return Err(OptionsError::UnknownOption { name: clip(name) }),
        };
        match field {
            Some(field) => self.add_rule(name_of(choice), field, choice),
            None => {
                let style = self.style().with(choice);
                (self.dates, self.enums, self.floats) = (style.dates, style.enums, style.floats);
                self.big_numbers_as_text = style.big_numbers_as_text;
                self.longs_as_text = style.longs_as_text;
                Ok(())
            }
        }
    }

    /// Options that hold for a whole answer.
    fn set_whole(
        &mut self,
        name: &str,
        value: &str,
        field: Option<&str>,
    ) -> Result<(), OptionsError> {
        let name = if name == "class" { "class" } else { "refs" };
        if let Some(field) = field {
            return Err(OptionsError::NotPerField { name, field: clip(field) });
        }
        if name == "class" {
            self.class_name = pick(name, value, "no or yes", [("no", false), ("yes", true)])?;
            (self.key_classes, self.number_classes) = (self.class_name, self.class_name);
        } else {
            let known = [("repeat", RefStyle::Repeat), ("path", RefStyle::Path)];
            self.refs = pick(name, value, "repeat or path", known)?;
        }
        Ok(())
    }

    fn add_rule(
        &mut self,
        name: &'static str,
        field: &str,
        choice: FieldChoice,
    ) -> Result<(), OptionsError> {
        let (class, field) = match field.rsplit_once('.') {
            Some((class, field)) => (Some(class.into()), field),
            None => (None, field),
        };
        if field.is_empty() {
            return Err(OptionsError::NoField { name });
        }
        if self.fields.len() == MAX_FIELD_RULES {
            return Err(OptionsError::TooManyFields { max: MAX_FIELD_RULES });
        }
        self.fields.push(FieldRule { class, field: field.into(), choice });
        Ok(())
    }

    /// What holds outside of all fields with rules of their own.
    #[doc(hidden)]
    #[must_use]
    pub fn style(&self) -> Style {
        Style {
            dates: self.dates,
            enums: self.enums,
            big_numbers_as_text: self.big_numbers_as_text,
            longs_as_text: self.longs_as_text,
            floats: self.floats,
        }
    }
}

/// As much of a text as an error shows: a header may be as long as a caller likes.
fn clip(text: &str) -> Box<str> {
    text.split_at(text.floor_char_boundary(MAX_SHOWN)).0.into()
}

fn name_of(choice: FieldChoice) -> &'static str {
    match choice {
        FieldChoice::Dates(_) => "dates",
        FieldChoice::Enums(_) => "enums",
        FieldChoice::BigNumbersAsText(_) => "big-numbers",
        FieldChoice::LongsAsText(_) => "longs",
        FieldChoice::Floats(_) => "floats",
    }
}

fn pick<T: Copy>(
    name: &'static str,
    value: &str,
    expected: &'static str,
    known: [(&str, T); 2],
) -> Result<T, OptionsError> {
    known
        .iter()
        .find(|(text, _)| *text == value)
        .map(|&(_, choice)| choice)
        .ok_or_else(|| OptionsError::UnknownValue { name, value: clip(value), expected })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_option_is_read() {
        assert_eq!(JsonOptions::parse(" ; "), Ok(JsonOptions::default()));
        let text = "big-numbers=text; longs = text;floats=float;dates=millis;enums=object;class=yes;refs=path";
        let expected = JsonOptions {
            class_name: true,
            key_classes: true,
            number_classes: true,
            dates: DateStyle::Millis,
            enums: EnumStyle::Object,
            big_numbers_as_text: true,
            longs_as_text: true,
            floats: true,
            refs: RefStyle::Path,
            ..JsonOptions::default()
        };
        assert_eq!(JsonOptions::parse(text), Ok(expected));
        let rules = JsonOptions::parse("dates=millis@at; longs=text@com.acme.Order.id").unwrap();
        let rule = |class: Option<&str>, field: &str, choice| FieldRule {
            class: class.map(Into::into),
            field: field.into(),
            choice,
        };
        let expected = vec![
            rule(None, "at", FieldChoice::Dates(DateStyle::Millis)),
            rule(Some("com.acme.Order"), "id", FieldChoice::LongsAsText(true)),
        ];
        assert_eq!(rules, JsonOptions { fields: expected, ..JsonOptions::default() });
    }

    #[test]
    fn what_is_no_option_is_named() {
        for (text, part) in [
            ("dates", "\"dates\""),
            ("date=iso", "\"date\""),
            ("dates=ISO", "iso or millis"),
            ("class=yes@id", "whole answer"),
            ("refs=maybe", "repeat or path"),
            ("dates=iso@", "missing"),
            ("dates=iso@a.", "missing"),
            (&"longs=text@a;".repeat(33), "32"),
        ] {
            let error = JsonOptions::parse(text).unwrap_err().to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
        let long = "x".repeat(60_000);
        for text in
            [&*long, &format!("{long}=1"), &format!("class={long}"), &format!("class=yes@{long}")]
        {
            let error = JsonOptions::parse(text).unwrap_err().to_string();
            assert!(error.len() < 300, "{} bytes", error.len());
        }
    }
}
