//! Values in hessian2 as JSON, and JSON as values.

use std::borrow::Cow;

use hessian::transcode::{
    hessian_to_json, hessian_to_json_with, json_to_hessian_by, json_to_hessian_with,
};
use hessian::{Decoder, Encoder};
use java_json::json::JsonReader;
use java_json::{InputOptions, JavaType, JsonOptions, Limits, Schema};

use super::Hessian2;
use crate::values::{
    Argument, ArgumentError, Arguments, GenericHead, JsonTexts, ObjectWriter, ReadOptions,
    ThrownTexts, ValueCodec, ValueError,
};

impl ValueCodec for Hessian2 {
    fn write_args(
        &self,
        args: &dyn Arguments,
        generic: Option<GenericHead<'_>>,
        options: &InputOptions<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), ArgumentError> {
        let mut encoder = Encoder::new(out);
        if let Some(GenericHead { method, types }) = generic {
            encoder.string(method);
            match types {
                Some(types) => {
                    encoder.list_begin(Some("[string"), types.len());
                    types.iter().for_each(|ty| encoder.string(&ty.java_name()));
                }
                None => encoder.null(),
            }
            encoder.list_begin(Some("[object"), args.count());
        }
        for index in 0..args.count() {
            let ty = args.ty(index);
            match args.at(index, ty) {
                Argument::Text(text) => encoder.string(text),
                Argument::Json(text) => {
                    let mut reader = JsonReader::new(&text, Limits::of_whole());
                    json_to_hessian_by(&mut reader, ty, &mut encoder, options)
                        .map_err(|error| ArgumentError::at(index, ty, error))?;
                }
            }
        }
        Ok(())
    }

    fn read_args(
        &self,
        args: &[u8],
        n_args: usize,
        types: Option<&[JavaType]>,
        options: ReadOptions<'_>,
    ) -> Result<JsonTexts, ArgumentError> {
        let mut decoder = Decoder::new(args, Limits::of_whole());
        let mut texts = JsonTexts::default();
        for index in 0..n_args {
            let ty = types.and_then(|types| types.get(index));
            let read = texts.push(|out| read(&mut decoder, ty, options, out));
            read.map_err(|error| ArgumentError::at(index, None, error))?;
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
        let mut reader = JsonReader::new(text, Limits::of_whole());
        json_to_hessian_with(&mut reader, ty, &mut Encoder::new(out), schema)?;
        Ok(reader.finish()?)
    }

    fn shows_end(&self) -> bool {
        true
    }

    fn read_value(
        &self,
        value: &[u8],
        ty: Option<&JavaType>,
        options: ReadOptions<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), ValueError> {
        Ok(read(&mut Decoder::new(value, Limits::of_whole()), ty, options, out)?)
    }

    fn read_untyped(
        &self,
        value: &[u8],
        options: &JsonOptions,
        out: &mut Vec<u8>,
    ) -> Result<(), ValueError> {
        Ok(hessian_to_json(&mut Decoder::new(value, Limits::of_whole()), out, options)?)
    }

    fn is_null(&self, value: &[u8]) -> bool {
        value == b"N"
    }

    fn write_string(&self, text: &str, out: &mut Vec<u8>) {
        hessian::write_string(out, text);
    }

    fn write_int(&self, number: i32, out: &mut Vec<u8>) {
        hessian::write_int(out, number);
    }

    fn read_string<'a>(&self, value: &'a [u8]) -> Result<Option<Cow<'a, str>>, ValueError> {
        let read = Decoder::new(value, Limits::of_whole()).read_opt_string();
        Ok(read.map_err(hessian::transcode::TranscodeError::from)?)
    }

    fn write_exception(&self, thrown: ThrownTexts<'_>, out: &mut Vec<u8>) {
        let names = thrown.fields.iter().map(|(name, _)| *name);
        let names: Vec<&str> = names.chain(["detailMessage"]).collect();
        let mut encoder = Encoder::new(out);
        encoder.object_begin(thrown.class, &names);
        thrown.fields.iter().for_each(|(_, value)| encoder.string(value));
        encoder.string(thrown.message);
    }

    fn objects<'o>(&self, out: &'o mut Vec<u8>) -> Option<Box<dyn ObjectWriter + 'o>> {
        Some(Box::new(HessianObjects(Encoder::new(out))))
    }

    fn shown(&self, bytes: &[u8], options: &JsonOptions) -> Vec<String> {
        let mut decoder = Decoder::new(bytes, Limits::of_whole());
        let mut values = Vec::new();
        while !decoder.is_at_end() {
            let mut json = Vec::new();
            if let Err(error) = hessian_to_json(&mut decoder, &mut json, options) {
                values.push(format!("not shown: {error}"));
                break;
            }
            values.push(String::from_utf8_lossy(&json).into_owned());
        }
        values
    }
}

/// What says the types of fields may also say more of a value than its type does.
fn read(
    decoder: &mut Decoder<'_>,
    ty: Option<&JavaType>,
    options: ReadOptions<'_>,
    out: &mut Vec<u8>,
) -> Result<(), hessian::transcode::TranscodeError> {
    match (ty, options.schema) {
        (Some(ty), Some(schema)) => {
            hessian_to_json_with(decoder, Some(ty), out, options.json, schema)
        }
        _ => hessian_to_json(decoder, out, options.json),
    }
}

struct HessianObjects<'o>(Encoder<'o>);

impl ObjectWriter for HessianObjects<'_> {
    fn begin_object(&mut self, class: &str, fields: &[&str]) {
        self.0.object_begin(class, fields);
    }

    /// The definition of the class has the names.
    fn field(&mut self, _name: &str) {}

    fn end_object(&mut self) {}

    fn begin_map(&mut self, class: &str) {
        self.0.map_begin(Some(class));
    }

    fn end_map(&mut self) {
        self.0.map_end();
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
        Ok(json_to_hessian_with(&mut reader, ty, &mut self.0, schema)?)
    }

    /// Every value shows its type.
    fn json_with_type(
        &mut self,
        text: &[u8],
        ty: Option<&JavaType>,
        schema: &dyn Schema,
    ) -> Result<(), ValueError> {
        self.json(text, ty, schema)
    }

    fn tree(&mut self, value: &hessian::Value) {
        self.0.value(value);
    }
}
