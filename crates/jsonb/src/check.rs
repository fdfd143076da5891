//! What has to hold for any bytes. The fuzz targets and the property tests call these; each
//! panics where it does not hold, and returns whether the bytes were good.

use java_json::JsonOptions;
use java_json::json::JsonReader;
use java_json::{JavaType, Limits};

use crate::{Decoder, Encoder, json_to_jsonb, jsonb_to_json};

/// What JSONB becomes is JSON, and within the limit; and reading and skipping agree.
pub fn to_json(bytes: &[u8]) -> bool {
    let is_odd = bytes.len() % 2 == 1;
    let opts = JsonOptions {
        class_name: is_odd,
        key_classes: is_odd,
        floats: is_odd,
        big_numbers_as_text: is_odd,
        max_out_len: 1 << 20,
        ..JsonOptions::default()
    };
    let mut out = Vec::new();
    let mut decoder = Decoder::new(bytes, Limits::default());
    if jsonb_to_json(&mut decoder, &mut out, &opts).is_err() {
        // Only reading looks whether texts are what they say, so that skipping may still succeed.
        let _ = Decoder::new(bytes, Limits::default()).skip_value();
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

/// What JSON becomes is JSONB, whatever type it is to have. The type is what stands before the
/// first line feed.
pub fn from_json(bytes: &[u8]) -> bool {
    let (ty, json) = match bytes.iter().position(|&byte| byte == b'\n') {
        Some(at) => bytes.split_at(at),
        None => (&[][..], bytes),
    };
    let ty = std::str::from_utf8(ty).ok().and_then(|text| JavaType::parse(text).ok());
    let mut out = Vec::new();
    let mut reader = JsonReader::new(json, Limits::default());
    if json_to_jsonb(&mut reader, ty.as_ref(), &mut Encoder::new(&mut out)).is_err() {
        return false;
    }
    // The name of a class is a level of its own.
    let limits = Limits { max_depth: 160, max_items: usize::MAX, ..Limits::default() };
    let mut decoder = Decoder::new(&out, limits);
    assert_eq!(decoder.skip_value(), Ok(()), "not JSONB: {out:?}");
    assert!(decoder.is_at_end());
    true
}
