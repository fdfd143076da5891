//! Hessian to JSON.
//!
//! Invariants:
//! - The output is valid JSON whenever there is no error.
//! - A reference is written as the value that it names, once more; a value that contains itself
//!   is an error. What repeated values can add up to is bounded by the limit of elements and by
//!   [`JsonOptions::max_out_len`], or by [`JsonOptions::room`].

mod hidden;
mod known;
mod object;
mod paths;
mod run;
mod throwable;

use std::borrow::Cow;

use self::object::ObjectPlan;
use self::paths::Paths;

use super::{Schema, TranscodeError};
use crate::{ClassDef, Decoder, JavaType, ValueKind};
use java_json::builtin::Builtin;
use java_json::json;
use java_json::options::{EnumStyle, JsonOptions, RefStyle, Style};
use java_json::write::{self, MapWriter};

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
    hessian_to_json_with(dec, ty, out, opts, &())
}

/// Like [`hessian_to_json_as`], where more is known of some classes.
///
/// # Errors
/// [`TranscodeError`] if the message is broken, or has no form in JSON.
pub fn hessian_to_json_with(
    dec: &mut Decoder<'_>,
    ty: Option<&JavaType>,
    out: &mut Vec<u8>,
    opts: &JsonOptions,
    schema: &dyn Schema,
) -> Result<(), TranscodeError> {
    write(dec, ty, out, opts, schema, true)
}

/// The same by the general way alone, which the others have to agree with.
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) fn hessian_to_json_plainly(
    dec: &mut Decoder<'_>,
    out: &mut Vec<u8>,
    opts: &JsonOptions,
) -> Result<(), TranscodeError> {
    write(dec, None, out, opts, &(), false)
}

fn write(
    dec: &mut Decoder<'_>,
    ty: Option<&JavaType>,
    out: &mut Vec<u8>,
    opts: &JsonOptions,
    schema: &dyn Schema,
    has_runs: bool,
) -> Result<(), TranscodeError> {
    let mut writer = HessianToJson {
        schema,
        dec,
        max_end: opts.first_end(),
        out,
        opts,
        plans: Vec::new(),
        has_simple: has_runs,
        is_plain: has_runs && opts.fields.is_empty() && opts.refs != RefStyle::Path,
        open: Vec::new(),
        style: opts.style(),
        paths: (opts.refs == RefStyle::Path).then(Paths::default),
        last_class: None,
        names_numbers: opts.number_classes,
        declared_number: ty.and_then(JavaType::held_number),
    };
    writer.style.floats |= ty.is_some_and(holds_floats);
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

/// Whether a list of this type is an array of floats, or of their boxes, of any dimension.
fn is_float_array(ty: &str) -> bool {
    ty.starts_with('[') && (ty.ends_with("[float") || ty.ends_with("[java.lang.Float"))
}

/// What objects of a class are in JSON.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
enum ObjectShape {
    /// Members by the names of the fields.
    #[default]
    Bean,
    /// The same, where several fields have one name.
    HidingBean,
    Enum,
    Throwable,
    Known(Builtin),
}

impl ObjectShape {
    fn of(class: &ClassDef<'_>) -> Self {
        if let Some(builtin) = Builtin::of_message(&class.name) {
            return Self::Known(builtin);
        }
        let has = |field: &str| class.fields.iter().any(|name| &**name == field);
        match class.fields.as_slice() {
            [name] if &**name == "name" => Self::Enum,
            _ if has("detailMessage") && has("stackTrace") && has("cause") => Self::Throwable,
            _ => Self::Bean,
        }
    }
}

struct HessianToJson<'r, 'a, 'o> {
    schema: &'r dyn Schema,
    dec: &'r mut Decoder<'a>,
    out: &'o mut Vec<u8>,
    opts: &'r JsonOptions,
    /// How long the output may become.
    max_end: usize,
    /// By the number of the class definition.
    plans: Vec<ObjectPlan>,
    /// Whether simple values are written by the few steps that they need.
    has_simple: bool,
    /// Whether they go by runs, for neither single fields have choices of their own, nor places
    /// have to be known.
    is_plain: bool,
    /// Where the lists, maps and objects begin that are being written.
    open: Vec<usize>,
    /// How values are written just now: the options, and what fields and types around say.
    style: Style,
    /// Where everything stands, if references are to name it.
    paths: Option<Paths>,
    /// The class of the object that was written last.
    last_class: Option<usize>,
    /// Whether big numbers name their class.
    names_numbers: bool,
    /// The big number that is declared just here, which needs no name.
    declared_number: Option<Builtin>,
}

impl HessianToJson<'_, '_, '_> {
    /// The next value. Class definitions before it are taken in first, so that the decoder's place
    /// is where the value itself begins.
    #[inline]
    fn value(&mut self) -> Result<(), TranscodeError> {
        if !(self.has_simple && self.simple()) {
            self.any_value()?;
        }
        self.check_len()
    }

    #[inline]
    fn check_len(&mut self) -> Result<(), TranscodeError> {
        if self.max_end < self.out.len() {
            return self.extend();
        }
        Ok(())
    }

    #[cold]
    fn extend(&mut self) -> Result<(), TranscodeError> {
        let (offset, max) = (self.dec.position(), self.opts.max_out_len);
        let end = self.opts.extend(self.out.len());
        self.max_end = end.ok_or(TranscodeError::OutputLen { offset, max })?;
        Ok(())
    }

    fn any_value(&mut self) -> Result<(), TranscodeError> {
        match self.dec.peek()? {
            ValueKind::Null => {
                self.dec.read_null()?;
                self.out.extend_from_slice(b"null");
            }
            ValueKind::Bool => {
                let value = self.dec.read_bool()?;
                self.out.extend_from_slice(if value { b"true" } else { b"false" });
            }
            ValueKind::Int => {
                let value = self.dec.read_long()?;
                json::write_i64(self.out, value);
            }
            ValueKind::Long => {
                let value = self.dec.read_long()?;
                self.style.write_whole(self.out, value, true);
            }
            ValueKind::Double => {
                let value = self.dec.read_double()?;
                self.style.write_double(self.out, value);
            }
            ValueKind::Date => {
                let ms = self.dec.read_date_ms()?;
                self.style.write_date(self.out, ms);
            }
            ValueKind::String => self.text()?,
            ValueKind::Binary => self.binary()?,
            ValueKind::List => self.list()?,
            ValueKind::Map => self.map()?,
            ValueKind::Object => self.object()?,
            ValueKind::Ref => self.reference()?,
        }
        Ok(())
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
        write::write_base64(self.out, &bytes);
        Ok(())
    }

    fn list(&mut self) -> Result<(), TranscodeError> {
        let start = self.dec.position();
        let mut list = self.dec.read_list_begin()?;
        let are_floats = list.ty().is_some_and(|ty| is_float_array(ty));
        let outer_floats = self.style.floats;
        self.style.floats |= are_floats;
        self.enter(start);
        self.out.push(b'[');
        let mut index = 0;
        loop {
            if self.is_plain
                && let Some(n_left @ 1..) = list.left()
            {
                let n = self.run_elements(n_left, index == 0);
                list.pass(n);
                index += n;
                self.check_len()?;
            }
            if !list.next(self.dec)? {
                break;
            }
            if 0 < index {
                self.out.push(b',');
            }
            if let Some(paths) = &mut self.paths {
                paths.at_index(index);
            }
            index += 1;
            self.value()?;
        }
        self.out.push(b']');
        self.leave();
        self.style.floats = outer_floats;
        Ok(())
    }

    fn map(&mut self) -> Result<(), TranscodeError> {
        let start = self.dec.position();
        let mut map = self.dec.read_map_begin()?;
        self.enter(start);
        // Paths are those of the plain form.
        let keys = self.opts.keys().filter(|_| self.paths.is_none());
        let tells_keys = keys.is_some();
        let class = map.ty().filter(|_| self.opts.class_name);
        let mut entries = MapWriter::begin(self.out, class.map(|ty| &**ty), keys);
        loop {
            if self.is_plain && !tells_keys {
                entries.pass(self.run_entries(entries.is_first()));
                self.check_len()?;
            }
            if !map.next(self.dec)? {
                break;
            }
            let key_at = entries.begin_entry(self.out);
            let kind = if tells_keys { Some(self.dec.peek()?) } else { None };
            if !(self.has_simple && self.simple_key()) {
                self.key()?;
            }
            let key_class = self.key_class(kind);
            if let Some(paths) = &mut self.paths {
                paths.at_key(key_at..self.out.len());
            }
            let outer = self.style;
            if !self.opts.fields.is_empty() {
                let key = self.out.get(key_at + 1..self.out.len() - 1).unwrap_or_default();
                self.style = outer.inside(&self.opts.fields, None, key);
            }
            self.out.push(b':');
            self.value()?;
            self.style = outer;
            entries.end_entry(self.out, key_at, key_class.as_deref());
        }
        entries.end(self.out, map.ty().map(|ty| &**ty));
        self.leave();
        Ok(())
    }

    /// The class of the key that was written last, if the text of a key of a map of that class is
    /// read as the same.
    fn key_class(&self, kind: Option<ValueKind>) -> Option<Cow<'static, str>> {
        let name = match kind? {
            ValueKind::String => "java.lang.String",
            ValueKind::Bool => "java.lang.Boolean",
            ValueKind::Int => "java.lang.Integer",
            ValueKind::Long => "java.lang.Long",
            ValueKind::Double => "java.lang.Double",
            ValueKind::Date => "java.util.Date",
            ValueKind::Object => {
                let name = &self.dec.class(self.last_class?)?.name;
                return match self.plans.get(self.last_class?)?.shape() {
                    ObjectShape::Enum if self.style.enums == EnumStyle::Name => {
                        Some(name.to_string().into())
                    }
                    ObjectShape::Known(_) => Builtin::of_key(name),
                    _ => None,
                };
            }
            _ => return None,
        };
        Some(name.into())
    }

    /// A map's key: its JSON where that is a string, and otherwise the text of its JSON. What is
    /// inside a key has no path.
    fn key(&mut self) -> Result<(), TranscodeError> {
        let start = self.out.len();
        let paths = self.paths.take();
        let names_numbers = std::mem::replace(&mut self.names_numbers, false);
        self.value()?;
        (self.paths, self.names_numbers) = (paths, names_numbers);
        write::make_key(self.out, start);
        Ok(())
    }

    /// Begins a list, map or object that is one in JSON, too.
    fn enter(&mut self, start: usize) {
        self.open.push(start);
        if let Some(paths) = &mut self.paths {
            paths.enter(self.dec.ref_index_at(start));
        }
    }

    fn leave(&mut self) {
        self.open.pop();
        if let Some(paths) = &mut self.paths {
            paths.leave();
        }
    }

    /// The value that a reference names: where it stands, if that was asked for, or once more.
    fn reference(&mut self) -> Result<(), TranscodeError> {
        let offset = self.dec.position();
        let index = self.dec.read_ref()?;
        self.reference_to(offset, index)
    }

    fn reference_to(&mut self, offset: usize, index: usize) -> Result<(), TranscodeError> {
        if let Some(paths) = &self.paths
            && paths.write_ref(index, self.out)
        {
            return Ok(());
        }
        self.replay_at(offset, index, Self::value)
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
