//! Values of a serialization that is JSON: in plain JSON, or in fastjson's dialect of it.

use std::borrow::Cow;

use hessian::transcode::{hessian_to_json_with, json_to_hessian_by, json_to_hessian_with};
use hessian::{Decoder, Encoder};
use java_json::json::{self, JsonError, JsonKind, JsonReader};
use java_json::number::InGenericCall;
use java_json::{InputOptions, JavaType, JsonOptions, Limits, Schema};
use memchr::memmem;

use super::for_fastjson::{self, TextContext};
use super::{Framing, Texts};
use crate::fastjson;
use crate::values::{
    Argument, ArgumentError, Arguments, GenericHead, JsonTexts, ObjectWriter, ReadOptions,
    ThrownTexts, ValueCodec, ValueError,
};

/// JSON in one of the two framings of texts.
#[derive(Debug)]
pub(in crate::serialization) struct JsonValues {
    pub(in crate::serialization) framing: Framing,
    /// Whether providers write class names and the dialect that goes with them.
    pub(in crate::serialization) is_dialect: bool,
}

impl ValueCodec for JsonValues {
    fn write_args(
        &self,
        args: &dyn Arguments,
        generic: Option<GenericHead<'_>>,
        options: &InputOptions<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), ArgumentError> {
        let mut texts = ArgumentTexts { framing: self.framing, out, is_first: true };
        let Some(GenericHead { method, types }) = generic else {
            return (0..args.count()).try_for_each(|index| {
                texts.push(|out| write_arg(args, index, false, options, out))
            });
        };
        texts.push(|out| {
            json::write_string(out, method);
            Ok(())
        })?;
        texts.push(|out| {
            match types {
                Some(types) => write_names(types, out),
                None => out.extend_from_slice(b"null"),
            }
            Ok(())
        })?;
        texts.push(|out| {
            out.push(b'[');
            for index in 0..args.count() {
                if index != 0 {
                    out.push(b',');
                }
                write_arg(args, index, true, options, out)?;
            }
            out.push(b']');
            Ok(())
        })
    }

    /// The arguments are JSON already, and whoever knows their types writes them again.
    fn read_args(
        &self,
        args: &[u8],
        n_args: usize,
        _types: Option<&[JavaType]>,
        _options: ReadOptions<'_>,
    ) -> Result<JsonTexts, ArgumentError> {
        let mut values = Texts::new(self.framing, args, 0);
        let mut texts = JsonTexts::default();
        let whole = |error: ValueError| ArgumentError { index: None, ty: None, source: error };
        for index in 0..n_args {
            let Some((_, value)) = values.next("text").map_err(|error| whole(error.into()))? else {
                break;
            };
            texts
                .push(|out| fastjson::to_json(value, true, out))
                .map_err(|error| ArgumentError::at(index, None, error))?;
        }
        Ok(texts)
    }

    fn write_value(
        &self,
        text: &[u8],
        ty: Option<&JavaType>,
        schema: &dyn Schema,
        out: &mut Vec<u8>,
    ) -> Result<(), ValueError> {
        // A consumer's fastjson would make it fit, or fail.
        let mut unused = Vec::with_capacity(text.len());
        let mut reader = JsonReader::new(text, Limits::of_whole());
        json_to_hessian_with(&mut reader, ty, &mut Encoder::new(&mut unused), schema)?;
        reader.finish()?;
        for_fastjson::write(text, ty, TextContext { schema, refs: false }, out)
    }

    fn converts_texts(&self) -> bool {
        true
    }

    fn converts_numbers(&self) -> bool {
        true
    }

    fn shows_end(&self) -> bool {
        false
    }

    /// JSON stays as it is unless it is wanted otherwise: then it is written again, by the type if
    /// that is known.
    fn read_value(
        &self,
        value: &[u8],
        ty: Option<&JavaType>,
        options: ReadOptions<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), ValueError> {
        let mut plain = Vec::new();
        let text = self.checked(value, options.json, &mut plain)?;
        match *options.json == JsonOptions::default() {
            true => out.extend_from_slice(text),
            false => write_anew(text, ty, options, out),
        }
        Ok(())
    }

    fn read_untyped(
        &self,
        value: &[u8],
        options: &JsonOptions,
        out: &mut Vec<u8>,
    ) -> Result<(), ValueError> {
        let mut plain = Vec::new();
        out.extend_from_slice(self.checked(value, options, &mut plain)?);
        Ok(())
    }

    fn is_null(&self, value: &[u8]) -> bool {
        value.trim_ascii() == b"null"
    }

    fn write_string(&self, text: &str, out: &mut Vec<u8>) {
        json::write_string(out, text);
    }

    fn write_int(&self, number: i32, out: &mut Vec<u8>) {
        json::write_i64(out, i64::from(number));
    }

    fn read_string<'a>(&self, value: &'a [u8]) -> Result<Option<Cow<'a, str>>, ValueError> {
        let mut reader = JsonReader::new(value, Limits::of_whole());
        match reader.peek() {
            Ok(JsonKind::Null) => Ok(None),
            _ => Ok(Some(reader.read_string()?)),
        }
    }

    fn write_exception(&self, thrown: ThrownTexts<'_>, out: &mut Vec<u8>) {
        out.extend_from_slice(b"{\"@type\":");
        json::write_string(out, thrown.class);
        for (name, value) in thrown.fields.iter().chain(&[("message", thrown.message)]) {
            out.push(b',');
            json::write_string(out, name);
            out.push(b':');
            json::write_string(out, value);
        }
        out.push(b'}');
    }

    /// A consumer's fastjson makes no exception of JSON, and no descriptor.
    fn objects<'o>(&self, _out: &'o mut Vec<u8>) -> Option<Box<dyn ObjectWriter + 'o>> {
        None
    }

    fn shown(&self, bytes: &[u8], _options: &JsonOptions) -> Vec<String> {
        let values = self.framing.split(bytes).into_iter();
        values.map(|value| String::from_utf8_lossy(value).into_owned()).collect()
    }
}

impl JsonValues {
    /// The value as JSON, which is written to `plain` if it is not there as it is.
    fn checked<'a>(
        &self,
        value: &'a [u8],
        options: &JsonOptions,
        plain: &'a mut Vec<u8>,
    ) -> Result<&'a [u8], ValueError> {
        if self.is_dialect {
            fastjson::to_json(value, options.class_name, plain)?;
            return Ok(whole(plain)?);
        }
        let error = match whole(value) {
            Ok(text) => return Ok(text),
            Err(error) => error,
        };
        // Every fastjson writes keys of maps that are no texts without quotes.
        if fastjson::to_json(value, true, plain).is_err() {
            return Err(error.into());
        }
        Ok(whole(plain).map_err(|_| error)?)
    }
}

/// Texts as arguments stand in a request: the last line is without its end.
struct ArgumentTexts<'o> {
    framing: Framing,
    out: &'o mut Vec<u8>,
    is_first: bool,
}

impl ArgumentTexts<'_> {
    fn push(
        &mut self,
        write: impl FnOnce(&mut Vec<u8>) -> Result<(), ArgumentError>,
    ) -> Result<(), ArgumentError> {
        if self.framing == Framing::Lines {
            if !std::mem::take(&mut self.is_first) {
                self.out.push(b'\n');
            }
            return write(self.out);
        }
        let mut written = Ok(());
        self.framing.write(self.out, |out| written = write(out));
        written
    }
}

/// The value, if the text is one of JSON and nothing else.
fn whole(text: &[u8]) -> Result<&[u8], JsonError> {
    let mut reader = JsonReader::new(text, Limits::of_whole());
    let value = reader.skip_value()?;
    reader.finish()?;
    Ok(value)
}

fn write_arg(
    args: &dyn Arguments,
    index: usize,
    is_generic: bool,
    options: &InputOptions<'_>,
    out: &mut Vec<u8>,
) -> Result<(), ArgumentError> {
    let ty = args.ty(index);
    let text = match args.at(index, ty) {
        Argument::Text(text) => {
            json::write_string(out, text);
            return Ok(());
        }
        Argument::Json(text) => text,
    };
    let wrong = |error: ValueError| ArgumentError::at(index, ty, error);
    let may_have_class = || memmem::find(&text, b"\"class\"").is_some();
    let is_looked_through = || InGenericCall::may_have_nothing(&text) || may_have_class();
    if ty.is_some() || options.refs || is_generic && is_looked_through() {
        // A provider's fastjson makes every value fit, or takes it for null, and unboxes that. We
        // look first, by what the other serializations take.
        let mut unused = Vec::with_capacity(16);
        let mut reader = JsonReader::new(&text, Limits::of_whole());
        json_to_hessian_by(&mut reader, ty, &mut Encoder::new(&mut unused), options)
            .map_err(|error| wrong(error.into()))?;
    }
    let known = TextContext { schema: options.schema, refs: options.refs };
    match is_generic {
        true => for_fastjson::write_generic(&text, ty, index, known, out),
        false => for_fastjson::write(&text, ty, known, out),
    }
    .map_err(wrong)
}

fn write_names(types: &[JavaType], out: &mut Vec<u8>) {
    out.push(b'[');
    for (index, ty) in types.iter().enumerate() {
        if index != 0 {
            out.push(b',');
        }
        json::write_string(out, &ty.java_name());
    }
    out.push(b']');
}

/// Writes JSON in the form that the caller chose: by the type of the value, or by what it looks
/// like if that is not known or wrong; and as it is if nothing can be made of it.
fn write_anew(text: &[u8], ty: Option<&JavaType>, options: ReadOptions<'_>, out: &mut Vec<u8>) {
    // A provider's fastjson takes a number with a point for a `BigDecimal` where nothing is
    // declared, and reads no object in its place.
    let style = JsonOptions { number_classes: false, ..options.json.clone() };
    let write = |ty: Option<&JavaType>, schema: &dyn Schema| {
        let (mut value, mut json) = (Vec::with_capacity(text.len()), Vec::new());
        let mut reader = JsonReader::new(text, Limits::of_whole());
        let input = InputOptions { schema, keeps_zeros: true, ..InputOptions::default() };
        json_to_hessian_by(&mut reader, ty, &mut Encoder::new(&mut value), &input).ok()?;
        let mut decoder = Decoder::new(&value, Limits::of_whole());
        hessian_to_json_with(&mut decoder, ty, &mut json, &style, schema).ok()?;
        Some(json)
    };
    let typed = ty.zip(options.schema).and_then(|(ty, schema)| write(Some(ty), schema));
    match typed.or_else(|| write(None, &())) {
        Some(json) => out.extend_from_slice(&json),
        None => out.extend_from_slice(text),
    }
}
