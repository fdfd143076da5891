//! What has to hold for any bytes. The fuzz targets and the property tests call these; each
//! panics where it does not hold, and returns whether the bytes were good.

use crate::transcode::{
    JsonOptions, RefStyle, hessian_to_json, hessian_to_json_plainly, json_to_hessian,
    json_to_hessian_plainly,
};
use crate::{Decoder, Encoder, JavaType, Limits};
use java_json::generics::{GenericClass, Instances};
use java_json::json::{self, JsonKind, JsonReader};
use java_json::number::digits_of;

/// Reading and skipping a value agree on where it ends, and a value that was read is read again
/// as the same from what the encoder makes of it.
pub fn decode(bytes: &[u8]) -> bool {
    let limits = Limits::default();
    let (mut reading, mut skipping) = (Decoder::new(bytes, limits), Decoder::new(bytes, limits));
    let Ok(value) = reading.read_value() else {
        // Only reading looks whether text is UTF-8, so that skipping may still succeed.
        let _ = skipping.skip_value();
        return false;
    };
    assert_eq!(skipping.skip_value(), Ok(()), "what can be read can be skipped");
    assert_eq!(reading.position(), skipping.position(), "both end at the same place");
    assert_eq!(reading.ref_count(), skipping.ref_count(), "both count the same references");
    let mut again = Vec::new();
    Encoder::new(&mut again).value(&value);
    let mut decoder = Decoder::new(&again, Limits { max_items: usize::MAX, ..limits });
    match decoder.read_value() {
        // By their text, for NaN is not equal to itself.
        Ok(second) => assert_eq!(format!("{value:?}"), format!("{second:?}")),
        Err(error) => panic!("our own bytes are refused: {error}"),
    }
    assert!(decoder.is_at_end());
    true
}

/// What Hessian becomes is JSON, and within the limit.
pub fn to_json(bytes: &[u8]) -> bool {
    let is_odd = bytes.len() % 2 == 1;
    let opts = JsonOptions {
        class_name: is_odd,
        key_classes: is_odd,
        floats: is_odd,
        big_numbers_as_text: is_odd,
        refs: if bytes.len().is_multiple_of(3) { RefStyle::Path } else { RefStyle::Repeat },
        max_out_len: 1 << 20,
        ..JsonOptions::default()
    };
    let mut out = Vec::new();
    let mut decoder = Decoder::new(bytes, Limits::default());
    let result = hessian_to_json(&mut decoder, &mut out, &opts);
    let (mut plain, mut plain_decoder) = (Vec::new(), Decoder::new(bytes, Limits::default()));
    let plain_result = hessian_to_json_plainly(&mut plain_decoder, &mut plain, &opts);
    assert_eq!(result, plain_result, "short cuts end at the same place");
    if result.is_err() {
        return false;
    }
    assert_eq!(out.escape_ascii().to_string(), plain.escape_ascii().to_string());
    assert_eq!(decoder.position(), plain_decoder.position());
    assert!(out.len() <= opts.max_out_len);
    let limits = Limits { max_len: usize::MAX, max_items: usize::MAX, ..Limits::default() };
    let mut reader = JsonReader::new(&out, limits);
    assert!(reader.skip_value().is_ok() && reader.finish().is_ok(), "not JSON: {out:?}");
    let mut skipping = Decoder::new(bytes, Limits::default());
    assert_eq!(skipping.skip_value(), Ok(()));
    assert_eq!(decoder.position(), skipping.position(), "both end at the same place");
    true
}

/// What declares a class does so whatever it is; and a class that holds anything of itself ends.
fn declaration(text: &str) {
    let (name, parameters) = match JavaType::parse_declaration(text) {
        Ok(declared) => declared,
        Err(_) => return,
    };
    assert!(parameters.iter().all(|it| !it.name.contains(['.', '<'])));
    let variables = parameters.iter().map(|it| JavaType::class(&it.name));
    let deeper = |ty: JavaType| JavaType::class_of("java.util.List", vec![ty]);
    let itself = JavaType::class_of(&name, variables.map(deeper).collect());
    let n_args = parameters.len();
    let class = GenericClass::new(parameters, [("itself".into(), itself)].into());
    let ty = JavaType::class_of(&name, vec![JavaType::class("a.B"); n_args]);
    let mut instances = Instances::default();
    let added = instances.add(&ty, &|known| (known == name).then_some(&class));
    if added.is_ok() && 0 < n_args && !name.starts_with("java.") {
        assert!(instances.fields(&ty.to_string()).is_some_and(|it| it.contains_key("itself")));
    }
}

/// What JSON becomes is Hessian, whatever type it is to have. The type is what stands before the
/// first line feed.
pub fn from_json(bytes: &[u8]) -> bool {
    let (ty, json) = match bytes.iter().position(|&byte| byte == b'\n') {
        Some(at) => bytes.split_at(at),
        None => (&[][..], bytes),
    };
    let text = std::str::from_utf8(ty).unwrap_or_default();
    declaration(text);
    let ty = JavaType::parse(text).ok();
    if let Some(ty) = &ty {
        let spelled = ty.to_string();
        if !matches!(ty, JavaType::Class(class) if class.name().len() == 1)
            && spelled.len() <= JavaType::MAX_LEN
        {
            assert_eq!(JavaType::parse(&spelled).as_ref(), Ok(ty), "{spelled}");
        }
        let again = JavaType::parse(&ty.to_descriptor()).map(|ty| ty.java_name());
        // A class of one letter has the name of a primitive's descriptor.
        assert!(again.is_ok_and(|name| name == ty.java_name()));
    }
    let mut out = Vec::new();
    let mut reader = JsonReader::new(json, Limits::default());
    let result = json_to_hessian(&mut reader, ty.as_ref(), &mut Encoder::new(&mut out));
    let (mut plain, mut plain_reader) = (Vec::new(), JsonReader::new(json, Limits::default()));
    let encoder = &mut Encoder::new(&mut plain);
    let plain_result = json_to_hessian_plainly(&mut plain_reader, ty.as_ref(), encoder);
    assert_eq!(result, plain_result, "short cuts end at the same place");
    if result.is_err() {
        return false;
    }
    assert_eq!(out.escape_ascii().to_string(), plain.escape_ascii().to_string());
    assert_eq!(reader.position(), plain_reader.position());
    let limits = Limits { max_depth: 80, max_items: usize::MAX, ..Limits::default() };
    let mut decoder = Decoder::new(&out, limits);
    assert_eq!(decoder.skip_value(), Ok(()), "not Hessian: {out:?}");
    assert!(decoder.is_at_end());
    true
}

/// A JSON value that becomes Hessian comes back as the same value, unless a member `class` says
/// what it shall be in Java.
pub fn round_trip(text: &[u8]) -> bool {
    let mut out = Vec::new();
    let mut reader = JsonReader::new(text, Limits::default());
    let is_good = json_to_hessian(&mut reader, None, &mut Encoder::new(&mut out)).is_ok();
    if !is_good || reader.finish().is_err() || memchr::memmem::find(text, b"class").is_some() {
        return false;
    }
    // A big number is one level and a few items more in Hessian.
    let limits = Limits { max_depth: 80, max_items: usize::MAX, ..Limits::default() };
    let mut back = Vec::new();
    let mut decoder = Decoder::new(&out, limits);
    let result = hessian_to_json(&mut decoder, &mut back, &JsonOptions::default());
    assert_eq!(result, Ok(()), "our own bytes are refused");
    assert!(decoder.is_at_end());
    let same = canonical(text) == canonical(&back);
    assert!(same, "{} came back as {}", text.escape_ascii(), back.escape_ascii());
    true
}

/// A JSON text in a form that is the same for equal values: no space, members by their names,
/// numbers as digits and a power of ten. Nothing if it is no JSON.
pub fn canonical(text: &[u8]) -> Option<Vec<u8>> {
    let limits = Limits { max_items: usize::MAX, ..Limits::default() };
    let mut reader = JsonReader::new(text, limits);
    let mut out = Vec::new();
    write_canonical(&mut reader, &mut out).ok()?;
    reader.finish().ok()?;
    Some(out)
}

fn write_canonical(reader: &mut JsonReader<'_>, out: &mut Vec<u8>) -> Result<(), json::JsonError> {
    match reader.peek()? {
        JsonKind::Null | JsonKind::Bool => out.extend_from_slice(reader.skip_value()?),
        JsonKind::String => json::write_string(out, &reader.read_string()?),
        JsonKind::Number => {
            let text = reader.read_number()?;
            match digits_of(text) {
                Some((digits, _)) if digits.is_empty() => out.push(b'0'),
                Some((digits, power)) => {
                    out.extend_from_slice(if text.starts_with('-') { b"-0." } else { b"0." });
                    out.extend_from_slice(&digits);
                    out.push(b'e');
                    json::write_i64(out, power);
                }
                None => out.extend_from_slice(text.as_bytes()),
            }
        }
        JsonKind::Array => {
            let mut array = reader.begin_array()?;
            out.push(b'[');
            while reader.next_element(&mut array)? {
                write_canonical(reader, out)?;
                out.push(b',');
            }
            out.push(b']');
        }
        JsonKind::Object => {
            let mut members = Vec::new();
            let mut object = reader.begin_object()?;
            while let Some(key) = reader.next_key(&mut object)? {
                let mut value = Vec::new();
                write_canonical(reader, &mut value)?;
                members.push((key.into_owned(), value));
            }
            members.sort_by(|(a, _), (b, _)| a.cmp(b));
            out.push(b'{');
            for (key, value) in members {
                json::write_string(out, &key);
                out.push(b':');
                out.extend_from_slice(&value);
                out.push(b',');
            }
            out.push(b'}');
        }
    }
    Ok(())
}
