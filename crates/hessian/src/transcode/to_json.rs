//! Hessian to JSON.
//!
//! Invariants:
//! - The output is valid JSON whenever there is no error.
//! - A reference is written as the value that it names, once more; a value that contains itself
//!   is an error. What repeated values can add up to is bounded by the limit of elements and by
//!   [`JsonOptions::max_out_len`].

mod known;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::builtin::Builtin;
use super::{TranscodeError, time};
use crate::json;
use crate::{ClassDef, Decoder, JavaType, Kind};

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

/// The choices in the mapping of Hessian to JSON.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct JsonOptions {
    /// Whether objects and typed maps begin with a member `class`, their Java class.
    pub class_name: bool,
    /// How dates are written.
    pub dates: DateStyle,
    /// How objects are written that look like enums.
    pub enums: EnumStyle,
    /// Whether longs beyond 2^53, and all `BigDecimal` and `BigInteger`, are strings instead of
    /// numbers, for readers that take every number for a double.
    pub big_numbers_as_text: bool,
    /// Whether a double that a float holds exactly is written as the float, so that Java's 99.8f,
    /// which arrives as 99.80000305175781, is 99.8. A true double of such a value loses its
    /// digits after the ninth. Arrays of float, and results declared as float, need no option.
    pub floats: bool,
    /// The limit of the text, in bytes.
    pub max_out_len: usize,
}

impl Default for JsonOptions {
    /// The plain choice everywhere, and 64 MiB: JSON of an 8 MiB message, and room for repeats.
    fn default() -> Self {
        Self {
            class_name: false,
            dates: DateStyle::Iso,
            enums: EnumStyle::Name,
            big_numbers_as_text: false,
            floats: false,
            max_out_len: 64 << 20,
        }
    }
}

/// Appends the next value of `dec` to `out` as JSON. The table is in docs/json-mapping.md.
///
/// # Errors
/// [`TranscodeError`] if the message is broken, or has no form in JSON. What was appended by then
/// is to be dropped.
pub fn hessian_to_json(
    dec: &mut Decoder<'_>,
    out: &mut Vec<u8>,
    opts: &JsonOptions,
) -> Result<(), TranscodeError> {
    hessian_to_json_as(dec, None, out, opts)
}

/// Like [`hessian_to_json`], for a value that is declared as `ty`: it tells floats from doubles.
///
/// # Errors
/// [`TranscodeError`] if the message is broken, or has no form in JSON.
pub fn hessian_to_json_as(
    dec: &mut Decoder<'_>,
    ty: Option<&JavaType>,
    out: &mut Vec<u8>,
    opts: &JsonOptions,
) -> Result<(), TranscodeError> {
    let out_start = out.len();
    let mut writer = Writer {
        dec,
        out,
        opts,
        out_start,
        shapes: Vec::new(),
        open: Vec::new(),
        floats: opts.floats,
    };
    writer.floats |= ty.is_some_and(holds_floats);
    writer.value()
}

/// Whether doubles inside a value of this type come from floats.
fn holds_floats(ty: &JavaType) -> bool {
    match ty {
        JavaType::Float => true,
        JavaType::Array(element) => holds_floats(element),
        JavaType::Class(class) => match class.builtin() {
            Some(Builtin::Float) => true,
            Some(Builtin::List | Builtin::Map | Builtin::Optional) => {
                class.args().last().is_some_and(holds_floats)
            }
            _ => false,
        },
        _ => false,
    }
}

/// What objects of a class are in JSON.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Shape {
    /// Members by the names of the fields.
    Bean,
    Enum,
    Throwable,
    Known(Builtin),
}

impl Shape {
    fn of(class: &ClassDef<'_>, opts: &JsonOptions) -> Self {
        if let Some(builtin) = Builtin::of_message(&class.name) {
            return Self::Known(builtin);
        }
        let has = |field: &str| class.fields.iter().any(|name| &**name == field);
        match class.fields.as_slice() {
            [name] if &**name == "name" && opts.enums == EnumStyle::Name => Self::Enum,
            _ if has("detailMessage") && has("stackTrace") && has("cause") => Self::Throwable,
            _ => Self::Bean,
        }
    }
}

struct Writer<'r, 'a, 'o> {
    dec: &'r mut Decoder<'a>,
    out: &'o mut Vec<u8>,
    opts: &'r JsonOptions,
    out_start: usize,
    /// By the number of the class definition.
    shapes: Vec<Option<Shape>>,
    /// Where the lists, maps and objects begin that are being written.
    open: Vec<usize>,
    /// Whether doubles are taken for floats where they can be.
    floats: bool,
}

impl Writer<'_, '_, '_> {
    /// The next value. Class definitions before it are taken in first, so that the decoder's place
    /// is where the value itself begins.
    fn value(&mut self) -> Result<(), TranscodeError> {
        match self.dec.peek()? {
            Kind::Null => {
                self.dec.read_null()?;
                self.out.extend_from_slice(b"null");
            }
            Kind::Bool => {
                let value = self.dec.read_bool()?;
                self.out.extend_from_slice(if value { b"true" } else { b"false" });
            }
            Kind::Int | Kind::Long => {
                let value = self.dec.read_long()?;
                self.long(value);
            }
            Kind::Double => {
                let value = self.dec.read_double()?;
                self.double(value);
            }
            Kind::Date => {
                let ms = self.dec.read_date_ms()?;
                self.date(ms);
            }
            Kind::String => self.text()?,
            Kind::Binary => self.binary()?,
            Kind::List => self.list()?,
            Kind::Map => self.map()?,
            Kind::Object => self.object()?,
            Kind::Ref => self.reference()?,
        }
        if self.opts.max_out_len < self.out.len() - self.out_start {
            let (offset, max) = (self.dec.position(), self.opts.max_out_len);
            return Err(TranscodeError::OutputLen { offset, max });
        }
        Ok(())
    }

    fn long(&mut self, value: i64) {
        const EXACT: u64 = 1 << 53;
        if self.opts.big_numbers_as_text && EXACT < value.unsigned_abs() {
            self.out.push(b'"');
            json::write_i64(self.out, value);
            self.out.push(b'"');
        } else {
            json::write_i64(self.out, value);
        }
    }

    fn double(&mut self, value: f64) {
        #[expect(clippy::cast_possible_truncation, reason = "compared with the value afterwards")]
        let float = value as f32;
        #[expect(clippy::float_cmp, reason = "a float is right only if it is exactly the value")]
        let is_float = f64::from(float) == value;
        if self.floats && is_float {
            json::write_f32(self.out, float);
        } else {
            json::write_f64(self.out, value);
        }
    }

    fn date(&mut self, ms: i64) {
        match self.opts.dates {
            DateStyle::Millis => json::write_i64(self.out, ms),
            DateStyle::Iso => {
                self.out.push(b'"');
                time::write_ms(self.out, ms);
                self.out.push(b'"');
            }
        }
    }

    fn text(&mut self) -> Result<(), TranscodeError> {
        let (start, out) = (self.out.len(), &mut *self.out);
        out.push(b'"');
        if self.dec.read_text_pieces(|piece| json::escape(out, piece))? {
            out.push(b'"');
            return Ok(());
        }
        // Java's surrogates have to be joined, perhaps over the end of a piece.
        out.truncate(start);
        let text = self.dec.read_string()?;
        json::write_string(self.out, &text);
        Ok(())
    }

    fn binary(&mut self) -> Result<(), TranscodeError> {
        let bytes = self.dec.read_binary()?;
        self.out.push(b'"');
        let start = self.out.len();
        let len = bytes.len().div_ceil(3) * 4;
        self.out.resize(start + len, 0);
        if let Some(place) = self.out.get_mut(start..) {
            // The place is exactly as long as the text.
            let written = STANDARD.encode_slice(&bytes, place);
            debug_assert_eq!(written, Ok(len));
        }
        self.out.push(b'"');
        Ok(())
    }

    fn list(&mut self) -> Result<(), TranscodeError> {
        let start = self.dec.position();
        let mut list = self.dec.read_list_begin()?;
        let are_floats = list.ty().is_some_and(|ty| ty.starts_with('[') && ty.ends_with("[float"));
        let outer_floats = self.floats;
        self.floats |= are_floats;
        self.open.push(start);
        self.out.push(b'[');
        let mut is_first = true;
        while list.next(self.dec)? {
            if !std::mem::replace(&mut is_first, false) {
                self.out.push(b',');
            }
            self.value()?;
        }
        self.out.push(b']');
        self.open.pop();
        self.floats = outer_floats;
        Ok(())
    }

    fn map(&mut self) -> Result<(), TranscodeError> {
        let start = self.dec.position();
        let mut map = self.dec.read_map_begin()?;
        self.open.push(start);
        self.out.push(b'{');
        let mut is_first = true;
        if let Some(ty) = map.ty().filter(|_| self.opts.class_name) {
            self.out.extend_from_slice(b"\"class\":");
            json::write_string(self.out, ty);
            is_first = false;
        }
        while map.next(self.dec)? {
            if !std::mem::replace(&mut is_first, false) {
                self.out.push(b',');
            }
            self.key()?;
            self.out.push(b':');
            self.value()?;
        }
        self.out.push(b'}');
        self.open.pop();
        Ok(())
    }

    /// A map's key: its JSON where that is a string, and otherwise the text of its JSON.
    fn key(&mut self) -> Result<(), TranscodeError> {
        let start = self.out.len();
        self.value()?;
        let written = self.out.get(start..).unwrap_or_default();
        if written.first() == Some(&b'"') {
            return Ok(());
        }
        let text = String::from_utf8_lossy(written).into_owned();
        self.out.truncate(start);
        json::write_string(self.out, &text);
        Ok(())
    }

    fn object(&mut self) -> Result<(), TranscodeError> {
        let start = self.dec.position();
        let mut object = self.dec.read_object_begin()?;
        self.open.push(start);
        match self.shape(object.class()) {
            Shape::Bean => {
                self.out.push(b'{');
                let mut is_first = true;
                if self.opts.class_name {
                    self.class_member(object.class());
                    is_first = false;
                }
                while let Some(index) = object.next(self.dec) {
                    if !std::mem::replace(&mut is_first, false) {
                        self.out.push(b',');
                    }
                    self.field_name(object.class(), index);
                    self.value()?;
                }
                self.out.push(b'}');
            }
            Shape::Enum => {
                while object.next(self.dec).is_some() {
                    self.value()?;
                }
            }
            Shape::Throwable => self.throwable(object)?,
            Shape::Known(builtin) => self.known(builtin, object)?,
        }
        self.open.pop();
        Ok(())
    }

    fn shape(&mut self, class: usize) -> Shape {
        if let Some(Some(shape)) = self.shapes.get(class) {
            return *shape;
        }
        let shape = self.dec.class(class).map_or(Shape::Bean, |def| Shape::of(def, self.opts));
        if self.shapes.len() <= class {
            self.shapes.resize(class + 1, None);
        }
        if let Some(slot) = self.shapes.get_mut(class) {
            *slot = Some(shape);
        }
        shape
    }

    fn class_member(&mut self, class: usize) {
        self.out.extend_from_slice(b"\"class\":");
        if let Some(def) = self.dec.class(class) {
            json::write_string(self.out, &def.name);
        }
    }

    fn field_name(&mut self, class: usize, index: usize) {
        if let Some(name) = self.dec.class(class).and_then(|def| def.fields.get(index)) {
            json::write_string(self.out, name);
        }
        self.out.push(b':');
    }

    /// The value that a reference names, once more.
    fn reference(&mut self) -> Result<(), TranscodeError> {
        self.replay(Self::value)
    }

    /// Reads a reference, and does `read` at the value that it names.
    fn replay<T>(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<T, TranscodeError>,
    ) -> Result<T, TranscodeError> {
        let offset = self.dec.position();
        let index = self.dec.read_ref()?;
        self.replay_at(offset, index, read)
    }

    fn replay_at<T>(
        &mut self,
        offset: usize,
        index: usize,
        read: impl FnOnce(&mut Self) -> Result<T, TranscodeError>,
    ) -> Result<T, TranscodeError> {
        if self.is_open(index) {
            return Err(TranscodeError::Cycle { offset, index });
        }
        let back = self.dec.begin_replay(index).ok_or(TranscodeError::Cycle { offset, index })?;
        let value = read(self)?;
        self.dec.end_replay(back);
        Ok(value)
    }

    /// Whether the value with this number is being written: then a reference to it is a cycle.
    fn is_open(&self, index: usize) -> bool {
        self.dec.ref_start(index).is_some_and(|start| self.open.contains(&start))
    }
}
