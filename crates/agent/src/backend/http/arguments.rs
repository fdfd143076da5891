//! The arguments of a Dubbo request as JSON texts, by the types that the app's configuration or
//! the request gives them.
//!
//! What comes as JSON already (fastjson, and the values of a generic call) is read and written
//! once more by its type, so that an app sees the same text for the same value, however it came.

use dubbo_proto::{JsonTexts, ReadOptions, Serialization};
use hessian::json::{JsonKind, JsonReader};
use hessian::transcode::{
    InputOptions, JsonOptions, Schema, TranscodeError, hessian_to_json_with, json_to_hessian_by,
};
use hessian::{Decoder, Encoder, JavaType, Limits};

use crate::config::http_app::method::Classes;
use crate::error::{CallError, Code};
use crate::route::unsupported;

/// Arguments as JSON texts.
#[derive(Debug, Default)]
pub struct JsonArguments(JsonTexts);

/// How values are read and written.
#[derive(Clone, Copy, Debug)]
pub struct JsonStyle<'a> {
    /// The choices for JSON.
    pub json: &'a JsonOptions,
    /// The types of fields.
    pub classes: &'a Classes,
}

impl JsonArguments {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// One of them.
    pub fn at(&self, index: usize) -> Option<&[u8]> {
        self.0.at(index)
    }

    /// Reads one argument for each of `types` from what is in a request.
    ///
    /// # Errors
    /// [`Code::BadArguments`] with the argument that cannot be read, [`Code::NoEndpoint`] for a
    /// serialization that is not read here.
    pub fn read(
        serialization: Serialization,
        args: &[u8],
        types: &[JavaType],
        style: JsonStyle<'_>,
    ) -> Result<Self, CallError> {
        let options = ReadOptions { json: style.json, schema: Some(style.classes) };
        let texts = Self::checked(serialization, args, types.len(), Some(types), options)?;
        if serialization.has_types() {
            return Ok(texts);
        }
        let mut arguments = JsonTexts::default();
        for (index, ty) in types.iter().enumerate() {
            let text = texts.at(index).unwrap_or_default();
            arguments.push(|out| again(index, text, Some(ty), style, out))?;
        }
        Ok(Self(arguments))
    }

    /// Reads `n` arguments as what they look like, with the names of classes; they may become as
    /// long as `limits` say.
    ///
    /// # Errors
    /// As [`JsonArguments::read`].
    pub fn raw(
        serialization: Serialization,
        args: &[u8],
        n: usize,
        limits: &JsonOptions,
    ) -> Result<Self, CallError> {
        let JsonOptions { max_out_len, ref room, .. } = *limits;
        let (room, class_name) = (room.clone(), true);
        let json = JsonOptions { class_name, max_out_len, room, ..JsonOptions::default() };
        let options = ReadOptions { json: &json, schema: None };
        Self::checked(serialization, args, n, None, options)
    }

    /// Reads exactly `n` arguments.
    fn checked(
        serialization: Serialization,
        args: &[u8],
        n: usize,
        types: Option<&[JavaType]>,
        options: ReadOptions<'_>,
    ) -> Result<Self, CallError> {
        let values = serialization.values().ok_or_else(|| unsupported(serialization))?;
        let texts = values.read_args(args, n, types, options).map_err(|error| {
            let is_too_long = error.source.is_too_long();
            let code = if is_too_long { Code::BodyTooLarge } else { Code::BadArguments };
            CallError::new(code, error.to_string())
        })?;
        if texts.len() != n {
            let (has, message) = (texts.len(), "arguments by its types");
            let message = format!("the method takes {n} {message}, the request has {has}");
            return Err(CallError::new(Code::BadArguments, message));
        }
        Ok(Self(texts))
    }

    /// Reads a JSON array of arguments, each of which `inner` turns into JSON text first.
    ///
    /// # Errors
    /// [`Code::BadArguments`] with the argument that does not fit its type.
    pub fn of_array<'a>(
        array: &'a [u8],
        types: Option<&[JavaType]>,
        style: JsonStyle<'_>,
        inner: impl Fn(&'a [u8]) -> Result<std::borrow::Cow<'a, [u8]>, CallError>,
    ) -> Result<Self, CallError> {
        let mut arguments = JsonTexts::default();
        for (index, text) in elements(array)?.into_iter().enumerate() {
            let text = inner(text)?;
            let ty = types.and_then(|types| types.get(index));
            arguments.push(|out| again(index, &text, ty, style, out))?;
        }
        Ok(Self(arguments))
    }

    /// Appends the arguments that `wanted` picks as a JSON array.
    pub fn write_array(&self, wanted: impl Fn(usize) -> bool, out: &mut Vec<u8>) {
        out.push(b'[');
        let mut is_first = true;
        for index in (0..self.len()).filter(|index| wanted(*index)) {
            if !is_first {
                out.push(b',');
            }
            is_first = false;
            out.extend_from_slice(self.at(index).unwrap_or_default());
        }
        out.push(b']');
    }

    /// Appends the arguments that `wanted` picks as a JSON object with these names.
    pub fn write_object(
        &self,
        names: &[Box<str>],
        wanted: impl Fn(usize) -> bool,
        out: &mut Vec<u8>,
    ) {
        out.push(b'{');
        let mut is_first = true;
        for (index, name) in names.iter().enumerate().filter(|(index, _)| wanted(*index)) {
            if !is_first {
                out.push(b',');
            }
            is_first = false;
            hessian::json::write_string(out, name);
            out.push(b':');
            out.extend_from_slice(self.at(index).unwrap_or(b"null"));
        }
        out.push(b'}');
    }
}

/// The texts of the elements of a JSON array; none for null.
///
/// # Errors
/// [`Code::BadArguments`] if it is neither, or has more elements than a call has arguments.
pub fn elements(array: &[u8]) -> Result<Vec<&[u8]>, CallError> {
    let broken = |error| {
        CallError::new(Code::BadArguments, format!("the arguments are not a JSON array: {error}"))
    };
    let mut reader = JsonReader::new(array, Limits::of_whole());
    let mut found = Vec::new();
    if reader.peek().map_err(broken)? == JsonKind::Null {
        return Ok(found);
    }
    let mut sequence = reader.begin_array().map_err(broken)?;
    while reader.next_element(&mut sequence).map_err(broken)? {
        if found.len() == crate::args::MAX_ARGUMENTS {
            let message = format!("more than {} arguments", crate::args::MAX_ARGUMENTS);
            return Err(CallError::new(Code::BadArguments, message));
        }
        found.push(reader.skip_value().map_err(broken)?);
    }
    Ok(found)
}

/// Writes a JSON text again as its type has it: dates and numbers in the form that the app wants,
/// and no names of classes unless it wants them.
fn again(
    index: usize,
    text: &[u8],
    ty: Option<&JavaType>,
    style: JsonStyle<'_>,
    out: &mut Vec<u8>,
) -> Result<(), CallError> {
    let mut reader = JsonReader::new(text, Limits::of_whole());
    rewrite(&mut reader, ty, style, out).map_err(|error| match error {
        TranscodeError::OutputLen { .. } => {
            CallError { code: Code::BodyTooLarge, ..bad_argument(index, &error) }
        }
        error => bad_argument(index, &error),
    })?;
    reader.finish().map_err(|error| bad_argument(index, &error))
}

/// The depth is bounded by the reader.
fn rewrite(
    reader: &mut JsonReader<'_>,
    ty: Option<&JavaType>,
    style: JsonStyle<'_>,
    out: &mut Vec<u8>,
) -> Result<(), TranscodeError> {
    match (reader.peek()?, ty) {
        (JsonKind::Array, ty) if !ty.is_some_and(is_scalar) => {
            let element = match ty {
                Some(JavaType::Array(element)) => Some(&**element),
                Some(JavaType::Class(class)) => class.args().first(),
                _ => None,
            };
            out.push(b'[');
            let mut array = reader.begin_array()?;
            let start = out.len();
            while reader.next_element(&mut array)? {
                if start < out.len() {
                    out.push(b',');
                }
                rewrite(reader, element, style, out)?;
            }
            out.push(b']');
            Ok(())
        }
        (JsonKind::Object, ty) if !ty.is_some_and(is_scalar) => object(reader, ty, style, out),
        (_, ty) => {
            let mut value = Vec::new();
            let input = InputOptions {
                schema: style.classes,
                keeps_zeros: true,
                ..InputOptions::default()
            };
            json_to_hessian_by(reader, ty, &mut Encoder::new(&mut value), &input)?;
            let mut decoder = Decoder::new(&value, Limits::of_whole());
            hessian_to_json_with(&mut decoder, ty, out, style.json, style.classes)
        }
    }
}

fn object(
    reader: &mut JsonReader<'_>,
    ty: Option<&JavaType>,
    style: JsonStyle<'_>,
    out: &mut Vec<u8>,
) -> Result<(), TranscodeError> {
    let (class, value_ty) = match ty {
        Some(JavaType::Class(class)) if class.builtin().is_some() => ("", class.args().get(1)),
        Some(JavaType::Class(class)) => (class.key(), None),
        _ => ("", None),
    };
    out.push(b'{');
    let mut object = reader.begin_object()?;
    let start = out.len();
    while let Some(name) = reader.next_key(&mut object)? {
        if name == "class" && !style.json.class_name && reader.peek()? == JsonKind::String {
            reader.read_string()?;
            continue;
        }
        if start < out.len() {
            out.push(b',');
        }
        hessian::json::write_string(out, &name);
        out.push(b':');
        let ty = style.classes.field_type(class, &name).or(value_ty);
        rewrite(reader, ty, style, out)?;
    }
    out.push(b'}');
    Ok(())
}

/// Whether values of this type have a form in JSON that is not an array or an object.
fn is_scalar(ty: &JavaType) -> bool {
    ty.is_primitive() || matches!(ty, JavaType::Class(class) if SCALARS.contains(&class.name()))
}

/// What else would be passed on although no value of the type looks like it.
const SCALARS: [&str; 10] = [
    "java.lang.String",
    "java.lang.Integer",
    "java.lang.Long",
    "java.lang.Boolean",
    "java.lang.Double",
    "java.lang.Float",
    "java.lang.Short",
    "java.lang.Byte",
    "java.math.BigDecimal",
    "java.util.Date",
];

fn bad_argument(index: usize, error: &dyn std::fmt::Display) -> CallError {
    CallError::new(Code::BadArguments, format!("argument {index}: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::MAX_ARGUMENTS;

    #[test]
    fn an_array_holds_as_many_arguments_as_a_method_may_have() {
        let array = |n: usize| format!("[{}]", vec!["0"; n].join(","));
        assert_eq!(elements(array(MAX_ARGUMENTS).as_bytes()).unwrap().len(), MAX_ARGUMENTS);
        let error = elements(array(MAX_ARGUMENTS + 1).as_bytes()).unwrap_err();
        assert_eq!(error.code, Code::BadArguments);
        assert!(error.message.starts_with("more than"), "{error}");
    }

    /// Looking through all that follows for each of so many values would take minutes.
    #[test]
    fn many_short_values_are_written_again_in_time() {
        let text = format!(
            "[{}]",
            vec!["\"aaaaaaaaaaaa\",{\"class\":\"a.B\",\"i\":1}"; 150_000].join(",")
        );
        let (json, classes) = (JsonOptions::default(), Classes::default());
        let style = JsonStyle { json: &json, classes: &classes };
        let start = std::time::Instant::now();
        let mut out = Vec::new();
        again(0, text.as_bytes(), None, style, &mut out).unwrap();
        assert!(out.starts_with(b"[\"aaaaaaaaaaaa\",{\"i\":1},"));
        assert!(start.elapsed() < std::time::Duration::from_secs(30), "{:?}", start.elapsed());
    }

    #[test]
    fn elements_are_the_texts_as_they_came() {
        let texts = elements(br#" [ {"a" : 1} , "x" ] "#).unwrap();
        assert_eq!(texts, [&br#"{"a" : 1}"#[..], br#""x""#]);
        assert_eq!(elements(b"null").unwrap(), [b""; 0]);
        for broken in ["", "{}", "[1", "[1,]", "7"] {
            let error = elements(broken.as_bytes()).unwrap_err();
            assert_eq!(error.code, Code::BadArguments, "{broken}");
        }
    }

    #[test]
    fn some_arguments_become_an_array_or_an_object() {
        let mut texts = JsonTexts::default();
        for text in ["1", "\"b\"", "null"] {
            let pushed: Result<(), CallError> = texts.push(|out| {
                out.extend_from_slice(text.as_bytes());
                Ok(())
            });
            pushed.unwrap();
        }
        let arguments = JsonArguments(texts);
        let mut out = Vec::new();
        arguments.write_array(|index| index != 1, &mut out);
        assert_eq!(out, b"[1,null]");
        out.clear();
        let names: Vec<Box<str>> = ["a", "b\"", "c", "d"].map(Box::from).into();
        arguments.write_object(&names, |index| index != 0, &mut out);
        // An argument that did not come is null.
        assert_eq!(out, br#"{"b\"":"b","c":null,"d":null}"#);
    }

    #[test]
    fn a_number_is_no_list() {
        for (name, expected) in [("int", true), ("java.lang.Long", true), ("java.util.List", false)]
        {
            assert_eq!(is_scalar(&JavaType::parse(name).unwrap()), expected, "{name}");
        }
    }
}
