//! JSONB to JSON.
//!
//! Invariants:
//! - The output is valid JSON whenever there is no error.
//! - A reference is written as the value that it names, once more; a value that contains itself
//!   is an error. What repeated values can add up to is bounded by the limit of elements and by
//!   [`JsonOptions::max_out_len`], or by [`JsonOptions::room`].

mod leaf;
mod reference;
mod typed;

use std::borrow::Cow;
use std::ops::Range;

use java_json::JavaType;
use java_json::builtin::Builtin;
use java_json::options::Style;
use java_json::write::{self, MapWriter};
use java_json::{JsonOptions, RefStyle};
use memchr::memmem;

use crate::Decoder;
use crate::error::JsonbError;
use crate::tag;
use reference::References;

/// The field that all of Java's exceptions have, and hardly anything else.
const SUPPRESSED: &str = "suppressedExceptions";

/// Appends the next value of `dec` to `out` as JSON. The table is in docs/json-mapping.md.
///
/// `dec` has to be at its first byte: references count from there.
///
/// # Errors
/// [`JsonbError`] if the message is broken, or has no form in JSON. What was appended by then is
/// to be dropped.
pub fn jsonb_to_json(
    dec: &mut Decoder<'_>,
    out: &mut Vec<u8>,
    opts: &JsonOptions,
) -> Result<(), JsonbError> {
    jsonb_to_json_as(dec, None, out, opts)
}

/// Like [`jsonb_to_json`], for a value that is declared as `ty`: it tells what JSONB does not,
/// such as a `byte[16]` from a `UUID`.
///
/// # Errors
/// [`JsonbError`] if the message is broken, or has no form in JSON.
pub fn jsonb_to_json_as(
    dec: &mut Decoder<'_>,
    ty: Option<&JavaType>,
    out: &mut Vec<u8>,
    opts: &JsonOptions,
) -> Result<(), JsonbError> {
    // Looking for it once spares looking through every object.
    let has_throwables = memmem::find(dec.rest(), SUPPRESSED.as_bytes()).is_some();
    let mut writer = JsonbToJson {
        dec,
        out,
        opts,
        max_end: opts.first_end(),
        open: Vec::new(),
        references: None,
        has_throwables,
        style: opts.style(),
        last_text_class: None,
        names_numbers: opts.number_classes,
        declared_number: ty.and_then(JavaType::held_number),
    };
    writer.value(Hint::of(ty))
}

/// What is known of a value beside its bytes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Hint {
    Nothing,
    /// A binary is base64, whatever its length.
    Bytes,
    /// A date and time with an offset has no day.
    OffsetTime,
}

impl Hint {
    fn of(ty: Option<&JavaType>) -> Self {
        match ty {
            Some(JavaType::Array(element)) if **element == JavaType::Byte => Self::Bytes,
            Some(JavaType::Class(class)) if class.builtin() == Some(Builtin::OffsetTime) => {
                Self::OffsetTime
            }
            _ => Self::Nothing,
        }
    }
}

/// An entry or field that was written.
struct Member {
    /// The class of its key, as [`JsonbToJson::key_class`] has it.
    key_class: Option<Cow<'static, str>>,
    /// Where its name stands, if its value is a reference.
    referring: Option<Range<usize>>,
}

struct JsonbToJson<'d, 'a, 'o> {
    dec: &'d mut Decoder<'a>,
    out: &'o mut Vec<u8>,
    opts: &'o JsonOptions,
    /// How long the output may become.
    max_end: usize,
    /// Where the lists, maps and objects begin that are being written.
    open: Vec<usize>,
    /// Where references lead, once there was one.
    references: Option<References>,
    /// Whether the message may hold exceptions.
    has_throwables: bool,
    /// How values are written just now: the options, and what fields around say.
    style: Style,
    /// The class of the text that was written last, if it bore one: most likely an enum.
    last_text_class: Option<String>,
    /// Whether big numbers name their class.
    names_numbers: bool,
    /// The big number that the whole value is declared to be or to hold.
    declared_number: Option<Builtin>,
}

impl JsonbToJson<'_, '_, '_> {
    fn value(&mut self, hint: Hint) -> Result<(), JsonbError> {
        let start = self.dec.position();
        let found = self.dec.peek()?;
        match found {
            tag::TYPED => self.typed(start)?,
            tag::OBJECT => {
                self.begin(start)?;
                self.object(None)?;
                self.end();
            }
            tag::ARRAY_0..=tag::ARRAY => {
                self.begin(start)?;
                self.array()?;
                self.end();
            }
            tag::REFERENCE => self.reference()?,
            tag::BINARY => self.binary(hint)?,
            _ if tag::is_text(found) || found == tag::SYMBOL => {
                self.dec.read_text()?.write_json(self.out);
            }
            _ => self.leaf(found, hint)?,
        }
        if self.max_end < self.out.len() {
            return self.extend();
        }
        Ok(())
    }

    #[cold]
    fn extend(&mut self) -> Result<(), JsonbError> {
        let (offset, max) = (self.dec.position(), self.opts.max_out_len);
        let end = self.opts.extend(self.out.len());
        self.max_end = end.ok_or(JsonbError::OutputLen { offset, max })?;
        Ok(())
    }

    /// A list, map or object begins at `start`.
    fn begin(&mut self, start: usize) -> Result<(), JsonbError> {
        self.dec.enter()?;
        self.open.push(start);
        Ok(())
    }

    fn end(&mut self) {
        self.open.pop();
        self.dec.leave();
    }

    fn array(&mut self) -> Result<(), JsonbError> {
        let len = self.dec.array()?;
        self.out.push(b'[');
        for index in 0..len {
            if index != 0 {
                self.out.push(b',');
            }
            self.value(Hint::Nothing)?;
        }
        self.out.push(b']');
        Ok(())
    }

    /// A map or an object, of this class if it is to be told.
    fn object(&mut self, class: Option<&str>) -> Result<(), JsonbError> {
        self.dec.take()?;
        // Paths are those of the plain form.
        let keys = self.opts.keys().filter(|_| self.opts.refs != RefStyle::Path);
        let told = class.filter(|_| self.opts.class_name);
        let mut members = MapWriter::begin(self.out, told, keys);
        let mut referring = None;
        while !self.dec.object_ends()? {
            let key_at = members.begin_entry(self.out);
            let Some(member) = self.member(class, referring.take())? else {
                // There was one before, so that a comma goes too.
                self.out.truncate(key_at.saturating_sub(1));
                continue;
            };
            members.end_entry(self.out, key_at, member.key_class.as_deref());
            referring = member.referring;
        }
        members.end(self.out, class);
        Ok(())
    }

    /// An entry of a map, or a field of an object of this class.
    ///
    /// Nothing if it is the field again whose name stands at `referring`, now null: fastjson2
    /// 2.0.56 writes that after a reference if the name is a symbol that it wrote before. Java
    /// reads the reference, for it looks these up at the end.
    fn member(
        &mut self,
        class: Option<&str>,
        referring: Option<Range<usize>>,
    ) -> Result<Option<Member>, JsonbError> {
        let outer = self.style;
        let start = self.out.len();
        let found = self.dec.peek()?;
        self.key()?;
        let key = start..self.out.len();
        let value = self.dec.peek()?;
        if value == tag::NULL
            && referring.is_some_and(|name| self.out.get(name) == self.out.get(key.clone()))
        {
            self.dec.skip_value()?;
            return Ok(None);
        }
        let key_class = self.key_class(found);
        if !self.opts.fields.is_empty() {
            let name = self.out.get(start + 1..self.out.len() - 1).unwrap_or_default();
            self.style = outer.inside(&self.opts.fields, class, name);
        }
        self.out.push(b':');
        self.value(Hint::Nothing)?;
        self.style = outer;
        Ok(Some(Member { key_class, referring: (value == tag::REFERENCE).then_some(key) }))
    }

    /// The class of the key that was written last and began with this byte, where the classes of
    /// objects are told and the text of a key of a map of that class is read as the same.
    fn key_class(&mut self, found: u8) -> Option<Cow<'static, str>> {
        if !self.opts.key_classes {
            return None;
        }
        let name = match found {
            found if tag::is_text(found) || found == tag::SYMBOL => "java.lang.String",
            tag::INT_8 => "java.lang.Byte",
            tag::INT_16 => "java.lang.Short",
            found if tag::is_int(found) => "java.lang.Integer",
            tag::LONG_64..=tag::LONG_NUM_LAST => "java.lang.Long",
            tag::TRUE | tag::FALSE => "java.lang.Boolean",
            tag::CHAR => "java.lang.Character",
            tag::DOUBLE_0 | tag::DOUBLE_1 | tag::DOUBLE | tag::DOUBLE_LONG => "java.lang.Double",
            tag::FLOAT | tag::FLOAT_INT => "java.lang.Float",
            tag::DECIMAL | tag::DECIMAL_LONG => "java.math.BigDecimal",
            tag::BIGINT | tag::BIGINT_LONG => "java.math.BigInteger",
            tag::MILLIS | tag::SECONDS | tag::MINUTES => "java.util.Date",
            tag::LOCAL_DATE => "java.time.LocalDate",
            tag::LOCAL_TIME => "java.time.LocalTime",
            tag::LOCAL_DATE_TIME => "java.time.LocalDateTime",
            tag::INSTANT => "java.time.Instant",
            tag::TYPED => return self.last_text_class.take().map(Cow::Owned),
            _ => return None,
        };
        Some(name.into())
    }

    /// A map's key: its JSON where that is a string, and otherwise the text of its JSON.
    fn key(&mut self) -> Result<(), JsonbError> {
        let start = self.out.len();
        let names_numbers = std::mem::replace(&mut self.names_numbers, false);
        self.value(Hint::Nothing)?;
        self.names_numbers = names_numbers;
        write::make_key(self.out, start);
        Ok(())
    }
}
