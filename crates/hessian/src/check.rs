//! What has to hold for any bytes. The fuzz targets and the property tests call these; each
//! panics where it does not hold, and returns whether the bytes were good.

use crate::json::JsonReader;
use crate::transcode::{JsonOptions, hessian_to_json, json_to_hessian};
use crate::{Decoder, Encoder, JavaType, Limits};

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
        floats: is_odd,
        big_numbers_as_text: is_odd,
        max_out_len: 1 << 20,
        ..JsonOptions::default()
    };
    let mut out = Vec::new();
    let mut decoder = Decoder::new(bytes, Limits::default());
    if hessian_to_json(&mut decoder, &mut out, &opts).is_err() {
        return false;
    }
    assert!(out.len() <= opts.max_out_len);
    let limits = Limits { max_len: usize::MAX, max_items: usize::MAX, ..Limits::default() };
    let mut reader = JsonReader::new(&out, limits);
    assert!(reader.skip_value().is_ok() && reader.finish().is_ok(), "not JSON: {out:?}");
    let mut skipping = Decoder::new(bytes, Limits::default());
    assert_eq!(skipping.skip_value(), Ok(()));
    assert_eq!(decoder.position(), skipping.position(), "both end at the same place");
    true
}

/// What JSON becomes is Hessian, whatever type it is to have. The type is what stands before the
/// first line feed.
pub fn from_json(bytes: &[u8]) -> bool {
    let (ty, json) = match bytes.iter().position(|&byte| byte == b'\n') {
        Some(at) => bytes.split_at(at),
        None => (&[][..], bytes),
    };
    let ty = std::str::from_utf8(ty).ok().and_then(|text| JavaType::parse(text).ok());
    if let Some(ty) = &ty {
        let again = JavaType::parse(&ty.to_descriptor()).map(|ty| ty.java_name());
        // A class of one letter has the name of a primitive's descriptor.
        assert!(again.is_ok_and(|name| name == ty.java_name()));
    }
    let mut out = Vec::new();
    let mut reader = JsonReader::new(json, Limits::default());
    if json_to_hessian(&mut reader, ty.as_ref(), &mut Encoder::new(&mut out)).is_err() {
        return false;
    }
    let limits = Limits { max_depth: 80, max_items: usize::MAX, ..Limits::default() };
    let mut decoder = Decoder::new(&out, limits);
    assert_eq!(decoder.skip_value(), Ok(()), "not Hessian: {out:?}");
    assert!(decoder.is_at_end());
    true
}
