//! Bytes and texts that mean harm: each is refused by an error that names rule and place, and none
//! takes more memory than the limits allow.
#![expect(unsafe_code, reason = "an allocator that counts, for the tests of memory")]

#[path = "../../hessian/tests/counting/mod.rs"]
mod counting;

use counting::peak;
use java_json::json::JsonReader;
use java_json::{JavaType, Limits};
use java_json::{JsonOptions, RefStyle};
use jsonb::{Decoder, Encoder, JsonbError, json_to_jsonb, jsonb_to_json};

fn to_json(bytes: &[u8], opts: &JsonOptions) -> Result<usize, JsonbError> {
    let mut out = Vec::new();
    jsonb_to_json(&mut Decoder::new(bytes, Limits::default()), &mut out, opts)?;
    Ok(out.len())
}

fn from_json(text: &[u8], ty: Option<&JavaType>) -> Result<usize, JsonbError> {
    let mut out = Vec::new();
    let mut reader = JsonReader::new(text, Limits::default());
    json_to_jsonb(&mut reader, ty, &mut Encoder::new(&mut out))?;
    reader.finish()?;
    Ok(out.len())
}

/// The error names its place in the bytes and has these words, and a few bytes never make more
/// than a few KiB.
#[track_caller]
fn refused(what: &str, bytes: &[u8], rule: &str) {
    let (error, n_bytes) = peak(|| to_json(bytes, &JsonOptions::default()).unwrap_err());
    let text = error.to_string();
    let offset = error.offset();
    assert!(offset <= bytes.len() && text.contains(rule), "{what}: {text} ({offset})");
    assert!(text.contains(&format!("byte {offset}")), "{what}: {text} ({offset})");
    assert!(n_bytes < 4096 + 16 * bytes.len(), "{what}: {n_bytes} bytes");
}

#[test]
fn lengths_that_are_lies() {
    let huge = |head: &[u8]| [head, b"\x48\x7f\xff\xff\xff"].concat();
    refused("an array", &huge(b"\xa4"), "JSONB");
    refused("a text", &huge(b"\x7a"), "JSONB");
    refused("ASCII", &huge(b"\x79"), "JSONB");
    refused("binary", &huge(b"\x91"), "JSONB");
    refused("a decimal", &huge(b"\xb9\x02\xbb"), "JSONB");
    refused("a negative array", b"\xa4\x48\xff\xff\xff\xff", "JSONB");
    refused("a short text", b"\x4dabc", "JSONB");
}

#[test]
fn depth_ends_at_the_limit() {
    refused("arrays", &b"\x95".repeat(100_000), "deeper than 64");
    refused("maps", &b"\xa6\x4aa".repeat(100_000), "deeper than 64");
    refused("types", &b"\x92\x4aa\0".repeat(100_000), "deeper than 64");
    refused("map keys", &b"\xa6".repeat(100_000), "deeper than 64");
    let open = "[".repeat(100_000);
    let error = from_json(open.as_bytes(), None).unwrap_err();
    assert_eq!((error.offset(), error.to_string().contains("64 levels")), (64, true), "{error}");
}

#[test]
fn text_that_is_none() {
    refused("UTF-8", b"\x7a\x02\xc0\x80", "UTF-8");
    refused("GB18030", b"\x7e\x02ab", "GB18030");
    refused("a symbol", b"\x92\x7f\x05", "JSONB");
}

/// What one element of a message may cost, at most: a list of its own to which a reference may
/// lead.
const PER_ITEM: usize = 192;

#[test]
fn memory_stays_within_the_limits() {
    // Smaller ones than the default, for the sake of time.
    const LEN: usize = 1 << 20;
    let limits = Limits { max_items: LEN / 8, max_len: LEN, ..Limits::default() };
    let array = |item: &[u8], n: u32, last: &[u8]| {
        [b"\xa4\x48", &n.to_be_bytes()[..], &item.repeat(n as usize - 1), last].concat()
    };
    let n_items = u32::try_from(limits.max_items).unwrap() - 100;
    for (what, bytes) in [
        ("empty arrays and a reference", array(b"\x94", n_items, b"\x93\x4d$[7]")),
        ("numbers and a reference", array(b"\x01", n_items, b"\x93\x4d$[7]")),
        ("references to nothing", array(b"\x93\x4d$[x]", n_items, b"\x01")),
        ("references to themselves", array(b"\x93\x4b..", n_items, b"\x01")),
        ("types", array(b"\x92\x4aa\0\x01", n_items, b"\x01")),
        ("more elements than the limit", array(b"\x01", 1_000_000, b"\x01")),
    ] {
        for refs in [RefStyle::Repeat, RefStyle::Path] {
            let opts = JsonOptions { refs, max_out_len: LEN, ..JsonOptions::default() };
            let (result, n_bytes) = peak(|| {
                let mut out = Vec::new();
                jsonb_to_json(&mut Decoder::new(&bytes, limits), &mut out, &opts)
            });
            let max = PER_ITEM * limits.max_items + 4 * LEN;
            assert!(n_bytes < max, "{what}: {n_bytes} of {max} bytes ({result:?})");
        }
    }
}

fn text(out: &mut Vec<u8>, text: &str) {
    Encoder::new(out).string(text);
}

/// What has a number stands in a message once, and may be meant by each of its values.
#[test]
fn long_names_are_not_read_without_end() {
    const N: u32 = 100_000;
    let array = |head: &dyn Fn(&mut Vec<u8>), item: &[u8]| {
        let mut out = [b"\xa4\x48", &(N + 2).to_be_bytes()[..]].concat();
        head(&mut out);
        out.extend(item.repeat(N as usize));
        out
    };
    let long = "x".repeat(1_000_000);
    let typed = |out: &mut Vec<u8>| {
        out.push(0x92);
        text(out, &long);
        out.extend_from_slice(b"\0\x01\x01");
    };
    refused("a type", &array(&typed, b"\x92\0\x01"), "1000000 is over the limit of");

    // References that repeat the path of the one before, to what stands under a long name.
    let named = |out: &mut Vec<u8>| {
        out.push(0xa6);
        text(out, &long);
        out.extend_from_slice(b"\x94\xa5\x93");
        text(out, &format!("$[0].{long}"));
    };
    let bytes = array(&named, b"\x93\x4c#-1");
    for refs in [RefStyle::Repeat, RefStyle::Path] {
        let opts = JsonOptions { refs, max_out_len: 4 << 20, ..JsonOptions::default() };
        let (result, n_bytes) = peak(|| to_json(&bytes, &opts));
        assert_eq!(result.is_ok(), refs == RefStyle::Repeat, "{result:?}");
        assert!(n_bytes < 32 << 20, "{n_bytes}");
    }

    // A map of which every entry has the same long name, behind a reference for which all names
    // are noted.
    let mut bytes = b"\x96\x93\x4d$[1]\xa6\x7f".to_vec();
    text(&mut bytes, &long);
    bytes.extend_from_slice(b"\0\x01");
    bytes.extend(b"\x7f\0\x01".repeat(N as usize));
    bytes.push(0xa5);
    let opts = JsonOptions { max_out_len: 4 << 20, ..JsonOptions::default() };
    let (error, n_bytes) = peak(|| to_json(&bytes, &opts).unwrap_err());
    assert!(matches!(error, JsonbError::OutputLen { .. }), "{error}");
    assert!(n_bytes < 32 << 20, "{n_bytes}");
}

/// Looking for each class among all before it would take hours.
#[test]
fn any_number_of_classes_is_written() {
    let objects: Vec<String> =
        (0..100_000).map(|n| format!(r#"{{"class":"a.B{}"}}"#, n % 50_000)).collect();
    let text = format!("[{}]", objects.join(","));
    let mut out = Vec::new();
    let mut reader = JsonReader::new(text.as_bytes(), Limits::default());
    assert_eq!(json_to_jsonb(&mut reader, None, &mut Encoder::new(&mut out)), Ok(()));
    let opts = JsonOptions { class_name: true, ..JsonOptions::default() };
    let mut back = Vec::new();
    assert_eq!(jsonb_to_json(&mut Decoder::new(&out, Limits::default()), &mut back, &opts), Ok(()));
    assert_eq!(back, text.into_bytes());
    let long = format!(r#"{{"class":"a.{}"}}"#, "b".repeat(JavaType::MAX_NAME_LEN));
    let error = from_json(long.as_bytes(), None).unwrap_err().to_string();
    assert!(error.starts_with("JSON at byte 0: \"a.bbbb"), "{error}");
    assert!(error.contains("bbb... is not the name of a class"), "{error}");
}

#[test]
fn json_takes_memory_by_its_length() {
    let many = |item: &str| format!("[{}1]", format!("{item},").repeat(100_000));
    for (what, text, ty) in [
        ("numbers", many("1"), None),
        ("objects", many("{}"), Some("java.util.List<a.B>")),
        ("big numbers", many("1e-400"), None),
        ("a big number", format!("1{}", "0".repeat(100_000)), Some("java.math.BigInteger")),
        ("members", format!("{{{}\"z\":1}}", "\"\":1,".repeat(100_000)), Some("a.B")),
        ("nested", format!("{}{}", "[{\"a\":".repeat(31), "}]".repeat(31)), Some("a.B[]")),
    ] {
        let ty = ty.map(|ty| JavaType::parse(ty).unwrap());
        let (result, n_bytes) = peak(|| from_json(text.as_bytes(), ty.as_ref()));
        let max = 32 * text.len() + 4096;
        assert!(n_bytes < max, "{what}: {n_bytes} bytes for {} ({result:?})", text.len());
    }
}
