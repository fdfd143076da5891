//! Values in JSONB as JSON, and JSON as values. How their bodies are framed is in `texts.rs`.

use std::borrow::Cow;

use hessian::Value;
use java_json::json::{self, JsonReader};
use java_json::{InputOptions, JavaType, JsonOptions, Limits, Schema};
use jsonb::{
    Decoder, Encoder, ValueContext, json_to_jsonb_by, json_to_jsonb_with, jsonb_to_json_as,
};

use super::hessian2::Hessian2;
use super::texts::{Framing, Texts};
use crate::values::{
    Argument, ArgumentError, Arguments, GenericHead, JsonTexts, ObjectWriter, ReadOptions,
    ThrownTexts, ValueCodec, ValueError, text_of,
};

/// Null.
const NULL: &[u8] = &[0xaf];

#[derive(Debug)]
pub(super) struct Jsonb;

impl ValueCodec for Jsonb {
    fn write_args(
        &self,
        args: &dyn Arguments,
        generic: Option<GenericHead<'_>>,
        options: &InputOptions<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), ArgumentError> {
        let Some(GenericHead { method, types }) = generic else {
            return (0..args.count()).try_for_each(|index| {
                sized(out, |encoder| write_arg(args, index, options, ValueContext::ROOT, encoder))
            });
        };
        sized(out, |encoder| {
            encoder.string(method);
            Ok(())
        })?;
        sized(out, |encoder| {
            match types {
                Some(types) => {
                    encoder.array_begin(types.len());
                    types.iter().for_each(|ty| encoder.string(&ty.java_name()));
                }
                None => encoder.null(),
            }
            Ok(())
        })?;
        sized(out, |encoder| {
            encoder.array_begin(args.count());
            (0..args.count()).try_for_each(|index| {
                // They are elements of an array of objects, also where their types are known.
                let context = ValueContext { path: &format!("$[{index}]"), is_declared: false };
                write_arg(args, index, options, context, encoder)
            })
        })
    }

    fn read_args(
        &self,
        args: &[u8],
        n_args: usize,
        types: Option<&[JavaType]>,
        options: ReadOptions<'_>,
    ) -> Result<JsonTexts, ArgumentError> {
        let mut values = Texts::new(Framing::Jsonb, args, 0);
        let mut texts = JsonTexts::default();
        for index in 0..n_args {
            let broken = |error: ValueError| ArgumentError::at(index, None, error);
            let value = values.next("argument").map_err(|error| broken(error.into()))?;
            let (_, value) = value.unwrap_or_default();
            let ty = types.and_then(|types| types.get(index));
            texts.push(|out| self.read_value(value, ty, options, out)).map_err(broken)?;
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
        // What does not fit has one message in all serializations.
        Hessian2.write_value(text, ty, schema, &mut Vec::with_capacity(text.len()))?;
        let mut reader = JsonReader::new(text, Limits::of_whole());
        Ok(json_to_jsonb_with(&mut reader, ty, &mut Encoder::new(out), schema)?)
    }

    fn converts_texts(&self) -> bool {
        true
    }

    fn shows_end(&self) -> bool {
        false
    }

    fn read_value(
        &self,
        value: &[u8],
        ty: Option<&JavaType>,
        options: ReadOptions<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), ValueError> {
        let mut decoder = Decoder::new(value, Limits::of_whole());
        jsonb_to_json_as(&mut decoder, ty, out, options.json)?;
        Ok(decoder.finish()?)
    }

    fn read_untyped(
        &self,
        value: &[u8],
        options: &JsonOptions,
        out: &mut Vec<u8>,
    ) -> Result<(), ValueError> {
        self.read_value(value, None, ReadOptions { json: options, schema: None }, out)
    }

    fn is_null(&self, value: &[u8]) -> bool {
        value == NULL
    }

    fn write_string(&self, text: &str, out: &mut Vec<u8>) {
        Encoder::new(out).string(text);
    }

    fn write_int(&self, number: i32, out: &mut Vec<u8>) {
        Encoder::new(out).int(number);
    }

    fn read_string<'a>(&self, value: &'a [u8]) -> Result<Option<Cow<'a, str>>, ValueError> {
        let text = Decoder::new(value, Limits::of_whole()).read_opt_text()?;
        Ok(text.map(jsonb::EncodedText::to_str))
    }

    fn write_exception(&self, thrown: ThrownTexts<'_>, out: &mut Vec<u8>) {
        let mut encoder = Encoder::new(out);
        encoder.class(thrown.class);
        encoder.object_begin();
        for (name, value) in thrown.fields.iter().chain(&[("detailMessage", thrown.message)]) {
            encoder.string(name);
            encoder.string(value);
        }
        encoder.object_end();
    }

    fn objects<'o>(&self, out: &'o mut Vec<u8>) -> Option<Box<dyn ObjectWriter + 'o>> {
        Some(Box::new(JsonbObjects(Encoder::new(out))))
    }

    fn shown(&self, bytes: &[u8], options: &JsonOptions) -> Vec<String> {
        let shown = |value: &[u8]| {
            let mut json = Vec::new();
            let mut decoder = Decoder::new(value, Limits::of_whole());
            match jsonb::jsonb_to_json(&mut decoder, &mut json, options) {
                Ok(()) => String::from_utf8_lossy(&json).into_owned(),
                Err(error) => format!("not shown: {error}"),
            }
        };
        Framing::Jsonb.split(bytes).into_iter().map(shown).collect()
    }
}

/// Appends what `write` writes, behind its length.
fn sized(
    out: &mut Vec<u8>,
    write: impl FnOnce(&mut Encoder<'_>) -> Result<(), ArgumentError>,
) -> Result<(), ArgumentError> {
    let mut written = Ok(());
    Framing::Jsonb.write(out, |out| written = write(&mut Encoder::new(out)));
    written
}

fn write_arg(
    args: &dyn Arguments,
    index: usize,
    options: &InputOptions<'_>,
    context: ValueContext<'_>,
    encoder: &mut Encoder<'_>,
) -> Result<(), ArgumentError> {
    let ty = args.ty(index);
    match args.at(index, ty) {
        Argument::Text(text) => {
            encoder.string(text);
            Ok(())
        }
        Argument::Json(text) => {
            let mut reader = JsonReader::new(&text, Limits::of_whole());
            json_to_jsonb_by(&mut reader, ty, encoder, options, context)
                .map_err(|error| ArgumentError::at(index, ty, error))
        }
    }
}

struct JsonbObjects<'o>(Encoder<'o>);

impl ObjectWriter for JsonbObjects<'_> {
    fn begin_object(&mut self, class: &str, _fields: &[&str]) {
        self.0.class(class);
        self.0.object_begin();
    }

    fn field(&mut self, name: &str) {
        self.0.string(name);
    }

    fn end_object(&mut self) {
        self.0.object_end();
    }

    fn begin_map(&mut self, class: &str) {
        self.0.class(class);
        self.0.object_begin();
    }

    fn end_map(&mut self) {
        self.0.object_end();
    }

    fn null(&mut self) {
        self.0.null();
    }

    fn int(&mut self, number: i32) {
        self.0.int(number);
    }

    fn string(&mut self, text: &str) {
        self.0.string(text);
    }

    fn json(
        &mut self,
        text: &[u8],
        ty: Option<&JavaType>,
        schema: &dyn Schema,
    ) -> Result<(), ValueError> {
        let mut reader = JsonReader::new(text, Limits::of_whole());
        Ok(json_to_jsonb_with(&mut reader, ty, &mut self.0, schema)?)
    }

    fn json_with_type(
        &mut self,
        text: &[u8],
        ty: Option<&JavaType>,
        schema: &dyn Schema,
    ) -> Result<(), ValueError> {
        let Some(named) = ty.filter(|_| text.first() != Some(&b'{')) else {
            return self.json(text, ty, schema);
        };
        let mut object = Vec::from(&b"{\"class\":"[..]);
        json::write_string(&mut object, &named.to_string());
        object.extend_from_slice(b",\"value\":");
        object.extend_from_slice(text);
        object.push(b'}');
        self.json(&object, None, schema)
    }

    fn tree(&mut self, value: &Value) {
        let encoder = &mut self.0;
        match value {
            Value::Bool(value) => encoder.bool(*value),
            Value::Int(value) => encoder.int(*value),
            Value::Long(value) => encoder.long(*value),
            Value::Double(value) => encoder.double(*value),
            Value::Date(ms) => encoder.date_ms(*ms),
            Value::String(text) => encoder.string(text),
            Value::Binary(bytes) => encoder.binary(bytes),
            Value::List { items, .. } => {
                encoder.array_begin(items.len());
                items.iter().for_each(|item| self.tree(item));
            }
            Value::Map { entries, .. } => {
                encoder.object_begin();
                for (key, value) in entries {
                    self.tree(key);
                    self.tree(value);
                }
                self.0.object_end();
            }
            // Decimals and the like: their text.
            Value::Object { .. } => match text_of(value) {
                Some(text) => encoder.string(&text),
                None => encoder.null(),
            },
            Value::Null | Value::Ref(_) => encoder.null(),
        }
    }
}
