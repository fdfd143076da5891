//! What values in the table of serializations are in JSON: arguments, results, attachments, and
//! what Dubbo's generic calls make of objects. Each serialization implements [`ValueCodec`] beside
//! its row.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

use hessian::HessianError;
use java_json::json::{JsonError, JsonReader, JsonRule};
use java_json::{InputOptions, JavaType, JsonOptions, Limits, Schema};
use jsonb::Rule as JsonbRule;

use crate::{AttachmentMap, ProtoError};

/// Why a value could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum ValueError {
    /// In hessian2, or in JSON as a Java value.
    #[error(transparent)]
    Hessian(#[from] hessian::transcode::TranscodeError),
    /// In JSONB.
    #[error(transparent)]
    Jsonb(#[from] jsonb::JsonbError),
    /// It is not JSON.
    #[error(transparent)]
    Json(#[from] JsonError),
    /// What frames it is broken.
    #[error(transparent)]
    Frame(#[from] ProtoError),
    /// A member has a name by which fastjson makes objects of classes, or repeats values.
    #[error(
        "JSON at byte {offset} ({path}): fastjson takes the names @type and $ref for its own, and \
         there is no way to send them; rename the member, or call a provider that speaks hessian2 \
         or fastjson2"
    )]
    NameOfFastjson {
        /// Where its value begins.
        offset: usize,
        /// The same as a path.
        path: Box<str>,
    },
    /// fastjson reads no value of this class, whatever its form.
    #[error(
        "JSON at byte {offset} ({path}): fastjson reads no {class}; call a provider that speaks \
         hessian2 or fastjson2"
    )]
    NotInFastjson {
        /// Where the value begins.
        offset: usize,
        /// The same as a path.
        path: Box<str>,
        /// The class, and which of its values.
        class: Box<str>,
    },
}

impl ValueError {
    /// Whether the value contains itself: it can be read, but JSON has no form for it without
    /// references.
    #[must_use]
    pub const fn is_cycle(&self) -> bool {
        matches!(
            self,
            Self::Hessian(hessian::transcode::TranscodeError::Cycle { .. })
                | Self::Jsonb(jsonb::JsonbError::Cycle { .. })
        )
    }

    /// Whether its JSON is longer than it may become.
    #[must_use]
    pub const fn is_too_long(&self) -> bool {
        matches!(
            self,
            Self::Hessian(hessian::transcode::TranscodeError::OutputLen { .. })
                | Self::Jsonb(jsonb::JsonbError::OutputLen { .. })
        )
    }

    /// Whether a value that was read breaks the rules of its format. One that is over a limit of
    /// ours, is of a kind that we do not know, or has no form in JSON, does not.
    #[must_use]
    pub const fn breaks_format(&self) -> bool {
        match self {
            Self::Hessian(hessian::transcode::TranscodeError::Hessian(error)) => {
                breaks_hessian(error)
            }
            Self::Jsonb(jsonb::JsonbError::Broken { rule, .. }) => breaks_jsonb(*rule),
            Self::Jsonb(jsonb::JsonbError::Json(error)) | Self::Json(error) => breaks_json(error),
            Self::Frame(ProtoError::Hessian { source, .. }) => breaks_hessian(source),
            Self::Frame(ProtoError::Json { .. } | ProtoError::BadReplyType { .. }) => true,
            Self::Hessian(_)
            | Self::Jsonb(_)
            | Self::Frame(_)
            | Self::NameOfFastjson { .. }
            | Self::NotInFastjson { .. } => false,
        }
    }
}

const fn breaks_hessian(error: &HessianError) -> bool {
    matches!(
        error,
        HessianError::Truncated { .. }
            | HessianError::Tag { .. }
            | HessianError::Length { .. }
            | HessianError::Utf8 { .. }
            | HessianError::ClassIndex { .. }
            | HessianError::TypeIndex { .. }
            | HessianError::RefIndex { .. }
    )
}

const fn breaks_jsonb(rule: JsonbRule) -> bool {
    matches!(
        rule,
        JsonbRule::End
            | JsonbRule::Tag { .. }
            | JsonbRule::Expected { .. }
            | JsonbRule::Length { .. }
            | JsonbRule::Symbol { .. }
            | JsonbRule::Encoding { .. }
            | JsonbRule::Reference
            | JsonbRule::Trailing
    )
}

const fn breaks_json(error: &JsonError) -> bool {
    !matches!(error.rule, JsonRule::Depth { .. } | JsonRule::Len { .. } | JsonRule::Items { .. })
}

/// Why an argument could not be read or written.
#[derive(Debug)]
pub struct ArgumentError {
    /// Which one, from 0; nothing if that cannot be told.
    pub index: Option<usize>,
    /// The type that it should have had, if that mattered.
    pub ty: Option<Box<str>>,
    /// What is wrong with it.
    pub source: ValueError,
}

impl ArgumentError {
    /// What is wrong with the argument at `index`.
    pub(crate) fn at(index: usize, ty: Option<&JavaType>, source: impl Into<ValueError>) -> Self {
        let ty = ty.map(|ty| ty.java_name().into());
        Self { index: Some(index), ty, source: source.into() }
    }
}

impl fmt::Display for ArgumentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.index, &self.ty) {
            (Some(index), Some(ty)) => write!(f, "argument {index} ({ty}): {}", self.source),
            (Some(index), None) => write!(f, "argument {index}: {}", self.source),
            (None, _) => self.source.fmt(f),
        }
    }
}

impl std::error::Error for ArgumentError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.source)
    }
}

/// One argument as its caller gave it.
#[derive(Clone, Debug)]
pub enum Argument<'a> {
    /// Text for a parameter that takes text.
    Text(&'a str),
    /// A JSON text.
    Json(Cow<'a, [u8]>),
}

/// The arguments of a call that is to be written.
pub trait Arguments {
    /// How many there are.
    fn count(&self) -> usize;

    /// The type of the parameter at `index`, if it is known.
    fn ty(&self, index: usize) -> Option<&JavaType>;

    /// The argument at `index` for a parameter of this type.
    fn at(&self, index: usize, ty: Option<&JavaType>) -> Argument<'_>;
}

/// What a generic call, `$invoke`, has beside its arguments.
#[derive(Clone, Copy, Debug)]
pub struct GenericHead<'a> {
    /// The method that is meant.
    pub method: &'a str,
    /// The types of its parameters, if the caller tells them.
    pub types: Option<&'a [JavaType]>,
}

/// By what values are read.
#[derive(Clone, Copy)]
pub struct ReadOptions<'a> {
    /// How they are written in JSON.
    pub json: &'a JsonOptions,
    /// What is known of the classes of objects.
    pub schema: Option<&'a dyn Schema>,
}

impl fmt::Debug for ReadOptions<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReadOptions").field("json", self.json).finish_non_exhaustive()
    }
}

/// JSON texts, one after another in one buffer.
#[derive(Debug, Default)]
pub struct JsonTexts {
    text: Vec<u8>,
    ranges: Vec<Range<usize>>,
}

impl JsonTexts {
    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ranges.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// One of them.
    #[must_use]
    pub fn at(&self, index: usize) -> Option<&[u8]> {
        self.text.get(self.ranges.get(index)?.clone())
    }

    /// Appends the text that `write` appends to the buffer.
    ///
    /// # Errors
    /// That of `write`.
    pub fn push<E>(&mut self, write: impl FnOnce(&mut Vec<u8>) -> Result<(), E>) -> Result<(), E> {
        let start = self.text.len();
        write(&mut self.text)?;
        self.ranges.push(start..self.text.len());
        Ok(())
    }
}

/// The parts of an exception that a serialization writes: its class, and fields that are texts.
#[derive(Clone, Copy, Debug)]
pub struct ThrownTexts<'a> {
    /// The class.
    pub class: &'a str,
    /// The message.
    pub message: &'a str,
    /// Other fields, by their names.
    pub fields: &'a [(&'a str, &'a str)],
}

/// How a serialization writes and reads values. A value is without what frames it.
pub trait ValueCodec: fmt::Debug + Sync {
    /// Appends the arguments of a call as they are in a request, but for what ends the last. A
    /// generic call has its own three around them.
    ///
    /// # Errors
    /// [`ArgumentError`] with the argument that does not fit its type.
    fn write_args(
        &self,
        args: &dyn Arguments,
        generic: Option<GenericHead<'_>>,
        options: &InputOptions<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), ArgumentError>;

    /// Reads `n_args` arguments of a request as JSON: by their types if these are known and the
    /// serialization shows types itself, and otherwise by what they look like.
    ///
    /// # Errors
    /// [`ArgumentError`] with the argument that is broken. There may be fewer arguments than asked
    /// for, and that is not an error.
    fn read_args(
        &self,
        args: &[u8],
        n_args: usize,
        types: Option<&[JavaType]>,
        options: ReadOptions<'_>,
    ) -> Result<JsonTexts, ArgumentError>;

    /// Appends a value of the type `ty`, which JSON `text` is.
    ///
    /// # Errors
    /// [`ValueError`] if it is not JSON, or does not fit its type.
    fn write_value(
        &self,
        text: &[u8],
        ty: Option<&JavaType>,
        schema: &dyn Schema,
        out: &mut Vec<u8>,
    ) -> Result<(), ValueError>;

    /// Whether providers make what a field of an object declares of a text in it: a date, an enum.
    fn converts_texts(&self) -> bool {
        false
    }

    /// Whether they do so with any number, such as one with a fraction for a `BigDecimal`.
    fn converts_numbers(&self) -> bool {
        false
    }

    /// Whether a value shows where it ends, so that it may be read with what follows it.
    fn shows_end(&self) -> bool;

    /// Appends a value as JSON: of the type `ty`, if it is known.
    ///
    /// # Errors
    /// [`ValueError`] if it is broken, or has no form in JSON.
    fn read_value(
        &self,
        value: &[u8],
        ty: Option<&JavaType>,
        options: ReadOptions<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), ValueError>;

    /// Appends a value as JSON by what it looks like: an exception, or a map of attachments. A
    /// value that is JSON already stays as it is, but for the names of classes.
    ///
    /// # Errors
    /// [`ValueError`] if it is broken, or has no form in JSON.
    fn read_untyped(
        &self,
        value: &[u8],
        options: &JsonOptions,
        out: &mut Vec<u8>,
    ) -> Result<(), ValueError>;

    /// Whether a value is null.
    fn is_null(&self, value: &[u8]) -> bool;

    /// Appends a string.
    fn write_string(&self, text: &str, out: &mut Vec<u8>);

    /// Appends an `int`.
    fn write_int(&self, number: i32, out: &mut Vec<u8>);

    /// A value that is a string, or nothing if it is null.
    ///
    /// # Errors
    /// [`ValueError`] if it is neither.
    fn read_string<'a>(&self, value: &'a [u8]) -> Result<Option<Cow<'a, str>>, ValueError>;

    /// Appends the object of an exception.
    fn write_exception(&self, thrown: ThrownTexts<'_>, out: &mut Vec<u8>);

    /// Writes objects with their classes to the end of `out`; nothing if consumers make no objects
    /// of classes from this serialization.
    fn objects<'o>(&self, out: &'o mut Vec<u8>) -> Option<Box<dyn ObjectWriter + 'o>>;

    /// What people are shown of the values of a body.
    fn shown(&self, bytes: &[u8], options: &JsonOptions) -> Vec<String>;
}

/// Writes values one after another, among them objects with their classes.
///
/// The members of an object are announced by [`ObjectWriter::field`], in the order of the names
/// that the object began with.
pub trait ObjectWriter {
    /// Begins an object of a class that has fields of these names.
    fn begin_object(&mut self, class: &str, fields: &[&str]);

    /// The next value is that of this field.
    fn field(&mut self, name: &str);

    /// Ends the object that was begun last.
    fn end_object(&mut self);

    /// Begins a map of a class. Keys and values follow in turn.
    fn begin_map(&mut self, class: &str);

    /// Ends the map that was begun last.
    fn end_map(&mut self);

    /// Null.
    fn null(&mut self);

    /// An `int`.
    fn int(&mut self, number: i32);

    /// A string.
    fn string(&mut self, text: &str);

    /// JSON as a value of the type `ty`, which its reader knows as well.
    ///
    /// # Errors
    /// [`ValueError`] if it does not fit.
    fn json(
        &mut self,
        text: &[u8],
        ty: Option<&JavaType>,
        schema: &dyn Schema,
    ) -> Result<(), ValueError>;

    /// The same where the reader knows no type, so that the value has to show it.
    ///
    /// # Errors
    /// [`ValueError`] if it does not fit.
    fn json_with_type(
        &mut self,
        text: &[u8],
        ty: Option<&JavaType>,
        schema: &dyn Schema,
    ) -> Result<(), ValueError>;

    /// A tree of values. It has no references, and no objects but those of the JDK's own classes.
    fn tree(&mut self, value: &hessian::Value);
}

/// The text that a value of one of the JDK's classes is in JSON: of a number, its digits. Nothing
/// if it has none.
#[must_use]
pub fn text_of(value: &hessian::Value) -> Option<String> {
    let (mut bytes, mut json) = (Vec::new(), Vec::new());
    hessian::Encoder::new(&mut bytes).value(value);
    let mut decoder = hessian::Decoder::new(&bytes, Limits::of_whole());
    hessian::transcode::hessian_to_json(&mut decoder, &mut json, &JsonOptions::default()).ok()?;
    Some(match JsonReader::new(&json, Limits::of_whole()).read_string() {
        Ok(text) => text.into_owned(),
        Err(_) => String::from_utf8_lossy(&json).into_owned(),
    })
}

impl AttachmentMap<'_> {
    /// Appends the map as JSON; `values` are those of its serialization.
    pub(crate) fn write_json(
        self,
        values: &dyn ValueCodec,
        options: &JsonOptions,
        out: &mut Vec<u8>,
    ) -> Result<(), ValueError> {
        match self {
            Self::Hessian(mut decoder) => {
                Ok(hessian::transcode::hessian_to_json(&mut decoder, out, options)?)
            }
            Self::Text { text, .. } => values.read_untyped(text, options, out),
        }
    }
}
