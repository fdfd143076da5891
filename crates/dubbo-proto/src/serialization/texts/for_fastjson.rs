//! JSON as Java's fastjson 1.x has to get it, to read what docs/json-mapping.md says that it is.
//!
//! fastjson takes two names for its own. An object with a member `@type` becomes one of that
//! class, of the writer's choice, and one with `$ref` the value at that path. There is no way to
//! write such a name so that it is a name. They are refused.
//!
//! fastjson also reads fewer forms of a value than the mapping takes: what it would take for null
//! is written in a form that it reads, or refused.
//!
//! Invariants:
//! - The text fits its type: whoever comes here has looked.
//! - What needs no other form is copied as it is.
//! - An object is looked through once before it is written, and nothing in it at every level.

mod generic;
mod table;
mod times;

use hessian::transcode::TranscodeError;
use java_json::builtin::Builtin;
use java_json::declared::DeclaredForm;
use java_json::json::{self, JsonKind, JsonReader};
use java_json::named::{NamedClass, ObjectForm, enum_object, field_type};
use java_json::passed::{ObjectSummary, Passed};
use java_json::scalars::{self, Misfit};
use java_json::unknown::optional_number;
use java_json::write::write_base64;
use java_json::{ClassType, JavaType, Limits, Schema, expected, number, texts};
use memchr::memmem;

use crate::values::ValueError;

/// The member by which fastjson chooses the class of an object.
const TYPE: &str = "@type";
/// The member by which it repeats a value.
const REF: &str = "$ref";

/// What is known of a text beside its type.
#[derive(Clone, Copy)]
pub(super) struct TextContext<'s> {
    /// The types of fields.
    pub(super) schema: &'s dyn Schema,
    /// Whether `{"$ref":..}` is a reference. Those of the text were checked.
    pub(super) refs: bool,
}

/// Appends JSON of the type `ty` as fastjson reads it, on one line.
///
/// # Errors
/// [`ValueError`] for names that fastjson takes for its own, and values that it cannot read.
pub(super) fn write(
    text: &[u8],
    ty: Option<&JavaType>,
    known: TextContext<'_>,
    out: &mut Vec<u8>,
) -> Result<(), ValueError> {
    Writer::new(text, known, None, out).whole(ty)
}

/// The same for the argument `index` of a generic call, of which the provider makes what its
/// classes say: see `generic`. The arguments are elements of one array, where references begin.
pub(super) fn write_generic(
    text: &[u8],
    ty: Option<&JavaType>,
    index: usize,
    known: TextContext<'_>,
    out: &mut Vec<u8>,
) -> Result<(), ValueError> {
    Writer::new(text, known, Some(index), out).whole(ty)
}

/// How an object begins.
#[derive(Clone, Copy)]
enum ObjectHead<'c> {
    /// As it begins in the text.
    AsItIs,
    /// Without its member `class`, or with this one instead. In the text it begins at `start`.
    Anew { start: usize, class: Option<&'c str> },
}

struct Writer<'a, 's, 'o> {
    json: JsonReader<'a>,
    out: &'o mut Vec<u8>,
    known: TextContext<'s>,
    /// The number of the argument of a generic call.
    generic: Option<usize>,
    /// Up to where the text was written.
    n_copied: usize,
    /// Whether there is a member named `class` at all. (One that is written with escapes is taken
    /// for a class only if another is not.)
    may_have_class: bool,
    passed: Passed,
}

impl<'a, 's, 'o> Writer<'a, 's, 'o> {
    fn new(
        text: &'a [u8],
        known: TextContext<'s>,
        generic: Option<usize>,
        out: &'o mut Vec<u8>,
    ) -> Self {
        let may_have_class = memmem::find(text, b"\"class\"").is_some();
        let json = JsonReader::new(text, Limits::of_whole());
        let passed = Passed::default();
        Self { json, out, known, generic, n_copied: 0, may_have_class, passed }
    }

    fn whole(mut self, ty: Option<&JavaType>) -> Result<(), ValueError> {
        self.value(ty, true)?;
        let end = self.json.position();
        self.copy_to(end);
        Ok(())
    }

    /// Copies the text up to here, without line ends, which mean nothing where JSON allows them.
    fn copy_to(&mut self, end: usize) {
        let part = self.json.text().get(self.n_copied..end).unwrap_or_default();
        if part.iter().any(|byte| matches!(byte, b'\n' | b'\r')) {
            self.out.extend(part.iter().filter(|byte| !matches!(byte, b'\n' | b'\r')));
        } else {
            self.out.extend_from_slice(part);
        }
        self.n_copied = end;
    }

    /// Puts something in the place of the text from `start` up to where the reader is.
    fn put(&mut self, start: usize, write: impl FnOnce(&mut Vec<u8>)) {
        self.copy_to(start);
        write(self.out);
        self.n_copied = self.json.position();
    }

    /// The next value. `is_outermost` is whether fastjson is told nothing but the class of it.
    fn value(&mut self, ty: Option<&JavaType>, is_outermost: bool) -> Result<(), ValueError> {
        match ty {
            None => self.untyped(),
            Some(JavaType::Class(class)) => self.class_value(class, is_outermost),
            Some(JavaType::Array(element)) => self.array(element),
            Some(primitive) => match scalars::of_primitive(primitive) {
                Some(builtin) => self.scalar(builtin, ""),
                None => self.skip(),
            },
        }
    }

    fn skip(&mut self) -> Result<(), ValueError> {
        self.json.skip_value()?;
        Ok(())
    }

    fn untyped(&mut self) -> Result<(), ValueError> {
        match self.json.peek()? {
            JsonKind::Array => self.elements(None),
            JsonKind::Object => self.object(None, &[]),
            JsonKind::Number => self.big_decimal(),
            _ => self.skip(),
        }
    }

    /// A number that is no double may be a `BigDecimal`. fastjson makes null of what is none.
    fn big_decimal(&mut self) -> Result<(), ValueError> {
        let offset = self.json.position();
        if number::is_big_decimal(self.json.read_number()?) {
            return Ok(());
        }
        let expected = expected::scalar(Builtin::BigDecimal);
        Err(Misfit::value(&self.json, offset, expected).into())
    }

    fn class_value(&mut self, class: &ClassType, is_outermost: bool) -> Result<(), ValueError> {
        let kind = self.json.peek()?;
        let (name, args) = (class.name(), class.args());
        let is_generic = self.generic.is_some();
        match DeclaredForm::of(class.builtin(), kind, || self.names_map())? {
            DeclaredForm::Untyped if name == "java.lang.Number" && !is_generic => self.number(),
            DeclaredForm::EnumName | DeclaredForm::Wrong
                if is_generic
                    && optional_number(name).is_some()
                    && matches!(kind, JsonKind::Number | JsonKind::String) =>
            {
                self.optional_number()
            }
            DeclaredForm::Untyped | DeclaredForm::Null | DeclaredForm::Wrong => self.untyped(),
            DeclaredForm::Optional if is_generic => self.optional_map(args.first()),
            DeclaredForm::Optional => self.value(args.first(), false),
            DeclaredForm::Elements if name == "java.lang.Iterable" && !is_generic => {
                Err(self.not_read(name))
            }
            DeclaredForm::EnumSet if is_outermost && !is_generic => Err(self.not_read(name)),
            DeclaredForm::Entries | DeclaredForm::NamedMap
                if name == "java.util.EnumMap" && is_outermost && !is_generic =>
            {
                Err(self.not_read(name))
            }
            // It makes an empty one of whatever it gets.
            DeclaredForm::BitSet => Err(self.not_read(name)),
            DeclaredForm::Elements | DeclaredForm::EnumSet => self.elements(args.first()),
            DeclaredForm::NamedObject if !is_generic => self.named_object(class),
            DeclaredForm::NamedMap | DeclaredForm::NamedObject => self.object(None, args),
            DeclaredForm::Entries => self.members(ObjectHead::AsItIs, |_, _| args.get(1)),
            DeclaredForm::Scalar(builtin) => self.scalar(builtin, name),
            DeclaredForm::Object => self.object(Some(class), &[]),
            DeclaredForm::EnumName if is_generic => self.enum_map(name),
            DeclaredForm::EnumName => self.skip(),
        }
    }

    fn array(&mut self, element: &JavaType) -> Result<(), ValueError> {
        let kind = self.json.peek()?;
        let is_bytes = *element == JavaType::Byte;
        match kind {
            JsonKind::Array if !is_bytes => return self.elements(Some(element)),
            JsonKind::Array => {}
            JsonKind::String if is_bytes && self.generic.is_some() => {}
            _ => return self.skip(),
        }
        // fastjson takes no byte beyond 127 in a list.
        let start = self.json.position();
        let bytes = match kind {
            JsonKind::String => scalars::base64(&mut self.json)?,
            _ => scalars::byte_array(&mut self.json)?,
        };
        match self.generic {
            Some(_) => self.put(start, |out| generic::write_bytes(out, &bytes)),
            None => self.put(start, |out| write_base64(out, &bytes)),
        }
        Ok(())
    }

    fn elements(&mut self, ty: Option<&JavaType>) -> Result<(), ValueError> {
        let mut array = self.json.begin_array()?;
        while self.json.next_element(&mut array)? {
            self.value(ty, false)?;
        }
        Ok(())
    }

    /// A JSON value of a class that is a scalar in JSON.
    fn scalar(&mut self, builtin: Builtin, name: &str) -> Result<(), ValueError> {
        if self.generic.is_some() {
            return self.scalar_of_map(builtin, name);
        }
        let kind = self.json.peek()?;
        let start = self.json.position();
        match (builtin, kind) {
            (_, JsonKind::Null) => self.skip(),
            (Builtin::Calendar, _) if name == "java.util.GregorianCalendar" => {
                Err(self.not_read(name))
            }
            // It reads fewer texts, and some of them in its own time zone.
            (Builtin::Date | Builtin::SqlDate | Builtin::Calendar, _) => {
                let ms = scalars::date_ms(&mut self.json, builtin)?;
                self.put(start, |out| json::write_i64(out, ms));
                Ok(())
            }
            // It reads offsets with a colon alone (`+08:00`), and an `Instant` only with seconds.
            (
                Builtin::Instant
                | Builtin::OffsetDateTime
                | Builtin::OffsetTime
                | Builtin::ZonedDateTime,
                _,
            ) => self.as_java_writes_it(start, name),
            (Builtin::LocalDateTime, _) => self.local_date_time(start),
            (Builtin::Float, JsonKind::Number) => self.float(start),
            (Builtin::Year | Builtin::YearMonth | Builtin::MonthDay | Builtin::ZoneOffset, _) => {
                Err(self.not_read(name))
            }
            (Builtin::String, _) if name == "java.lang.CharSequence" => Err(self.not_read(name)),
            (Builtin::ClassName, JsonKind::String) => self.class_name(start, name),
            (Builtin::Locale, _) if self.json.skip_value()? == b"\"\"" => {
                Err(self.not_read_at(start, "java.util.Locale of an empty text"))
            }
            // It has been read.
            (Builtin::Locale, _) => Ok(()),
            _ => self.skip(),
        }
    }

    /// It reads the JVM's names of arrays alone, and no `void`.
    fn class_name(&mut self, start: usize, class: &str) -> Result<(), ValueError> {
        let text = self.json.read_string()?;
        match texts::class_name(&text) {
            Some(name) if name != "void" => self.put(start, |out| json::write_string(out, &name)),
            _ => return Err(self.not_read_at(start, &format!("{class} of {text}"))),
        }
        Ok(())
    }

    /// fastjson reads no number that is zero as a float and is written as another.
    fn float(&mut self, start: usize) -> Result<(), ValueError> {
        let value = scalars::double(&mut self.json, true)?;
        #[expect(clippy::cast_possible_truncation, reason = "rounded like Java does")]
        if value as f32 == 0.0 {
            self.put(start, |out| json::write_f64(out, 0.0_f64.copysign(value)));
        }
        Ok(())
    }

    /// A JSON object of the class that it names, or of `declared`. A collection or map that it
    /// stands for holds what `args` say.
    fn object(
        &mut self,
        declared: Option<&ClassType>,
        args: &[JavaType],
    ) -> Result<(), ValueError> {
        let start = self.json.position();
        let schema = self.known.schema;
        let is_enum = declared.is_some_and(|class| schema.is_enum(class.name()) == Some(true));
        let look = match self.may_have_class || is_enum {
            true => self.passed.look(&self.json)?,
            false => ObjectSummary::default(),
        };
        let class = look.class.as_deref();
        if let Some(constant) = enum_object(schema, &look, declared.map(ClassType::name)) {
            let is_other = |declared: &&ClassType| declared.name() != constant.class;
            if let Some(declared) = declared.filter(|_| self.generic.is_none()).filter(is_other) {
                // The text alone does not tell of which class it is.
                let both = format!("{} where {} is declared", constant.class, declared.name());
                return Err(self.not_read_at(start, &both));
            }
            self.skip()?;
            match self.generic {
                Some(_) => self.put(start, |out| generic::write_constant(out, constant)),
                None => self.put(start, |out| json::write_string(out, constant.name)),
            }
            return Ok(());
        }
        let named = NamedClass::of_object(start, class, schema)?;
        if named.as_ref().is_some_and(|named| named.builtin == Some(Builtin::BitSet)) {
            return Err(self.not_read_at(start, "java.util.BitSet"));
        }
        let is_object = || look.only_value.is_some_and(|(kind, _)| kind == JsonKind::Object);
        let form = ObjectForm::of(named, declared, args, look.only_value.is_some(), is_object);
        match (form, look.only_value) {
            (ObjectForm::Value(ty), Some((_, at))) => self.only_value(&ty, start, at),
            (ObjectForm::Map(named), _) => {
                let args = named.args_or(args);
                self.members(ObjectHead::Anew { start, class: None }, |_, _| args.get(1))
            }
            (ObjectForm::Named(named), _) => {
                let is_other =
                    |class: &&ClassType| class.builtin().is_none() && class.name() != named.class;
                match declared.filter(|_| self.generic.is_none()).filter(is_other) {
                    // It would make the declared class, without what the other one has more.
                    Some(class) => {
                        let both = format!("{} where {} is declared", named.class, class.name());
                        Err(self.not_read_at(start, &both))
                    }
                    // Type arguments are no part of the name that fastjson looks for.
                    None if class != Some(named.class) => {
                        let head = ObjectHead::Anew { start, class: Some(named.class) };
                        self.fields(head, named.key(), declared)
                    }
                    None => self.fields(ObjectHead::AsItIs, named.key(), declared),
                }
            }
            (ObjectForm::Declared(class), _) => {
                self.fields(self.head_of(start, declared), class.key(), declared)
            }
            _ => self.members(ObjectHead::AsItIs, |_, _| None),
        }
    }

    fn fields(
        &mut self,
        head: ObjectHead<'_>,
        key: &str,
        declared: Option<&ClassType>,
    ) -> Result<(), ValueError> {
        let declared = declared.map(ClassType::key);
        self.members(head, |schema, name| field_type(schema, key, declared, name))
    }

    /// The member `value`, which begins at `at`, in place of its object.
    fn only_value(&mut self, ty: &JavaType, start: usize, at: usize) -> Result<(), ValueError> {
        self.copy_to(start);
        let mut object = self.json.begin_object()?;
        while self.json.next_key(&mut object)?.is_some() {
            self.json.peek()?;
            if self.json.position() != at {
                self.skip()?;
                continue;
            }
            self.n_copied = at;
            self.value(Some(ty), false)?;
            let end = self.json.position();
            self.copy_to(end);
        }
        self.n_copied = self.json.position();
        Ok(())
    }

    /// The members of an object, whose types `ty_of` tells by their names. If it is written anew,
    /// its member `class` is left out.
    fn members<'t>(
        &mut self,
        head: ObjectHead<'_>,
        ty_of: impl Fn(&'s dyn Schema, &str) -> Option<&'t JavaType>,
    ) -> Result<(), ValueError>
    where
        's: 't,
    {
        let mut is_first = true;
        let is_anew = !matches!(head, ObjectHead::AsItIs);
        let mut object = self.json.begin_object()?;
        if let ObjectHead::Anew { start, class } = head {
            self.put(start, |out| out.push(b'{'));
            if let Some(class) = class {
                self.out.extend_from_slice(b"\"class\":");
                json::write_string(self.out, class);
                is_first = false;
            }
        }
        while let Some(key) = self.json.next_key(&mut object)? {
            let kind = self.json.peek()?;
            let at = self.json.position();
            if is_anew {
                if key == "class" && kind == JsonKind::String {
                    self.skip()?;
                    continue;
                }
                if !is_first {
                    self.out.push(b',');
                }
                json::write_string(self.out, &key);
                self.out.push(b':');
                self.n_copied = at;
            }
            if key == TYPE || key == REF && !self.reference(is_first, kind)? {
                let path = json::path_at(self.json.text(), at).into();
                return Err(ValueError::NameOfFastjson { offset: at, path });
            }
            // A reference has been read.
            if key != REF {
                self.value(ty_of(self.known.schema, &key), false)?;
            }
            is_first = false;
            if is_anew {
                let end = self.json.position();
                self.copy_to(end);
            }
        }
        if is_anew {
            self.out.push(b'}');
            self.n_copied = self.json.position();
        }
        Ok(())
    }

    /// Whether the value of a member `$ref` makes its object a reference. If so, it is read.
    fn reference(&mut self, is_first: bool, kind: JsonKind) -> Result<bool, ValueError> {
        if !self.known.refs || !is_first || kind != JsonKind::String {
            return Ok(false);
        }
        let start = self.json.position();
        let path = self.json.read_string()?;
        if let (Some(index), Some(steps)) = (self.generic, path.strip_prefix('$')) {
            self.put(start, |out| json::write_string(out, &format!("$[{index}]{steps}")));
        }
        Ok(true)
    }

    fn names_map(&mut self) -> Result<bool, ValueError> {
        let name = if self.may_have_class { self.passed.look(&self.json)?.class } else { None };
        Ok(NamedClass::is_of_map(name.as_deref()))
    }

    #[cold]
    fn not_read(&self, class: &str) -> ValueError {
        let mut json = self.json.clone();
        // It was read before.
        let _ = json.peek();
        self.not_read_at(json.position(), class)
    }

    /// The same of the value at `offset`.
    #[cold]
    fn not_read_at(&self, offset: usize, class: &str) -> ValueError {
        let path = json::path_at(self.json.text(), offset).into();
        ValueError::NotInFastjson { offset, path, class: class.into() }
    }
}

impl From<Misfit> for ValueError {
    fn from(misfit: Misfit) -> Self {
        TranscodeError::from(misfit).into()
    }
}

#[cfg(test)]
mod tests;
