//! Tests of the decoder on bytes written by hand: forms that hessian-lite reads but does not
//! write.

use std::borrow::Cow;

use super::*;
use crate::Value;

fn read(bytes: &[u8]) -> Result<Value, HessianError> {
    assert!(
        crate::check::decode(bytes) || Decoder::new(bytes, Limits::default()).read_value().is_err()
    );
    Decoder::new(bytes, Limits::default()).read_value()
}

#[test]
fn reads_numbers_that_are_longer_than_need_be() {
    assert_eq!(read(b"I\0\0\0\x01"), Ok(Value::Int(1)));
    assert_eq!(read(b"\xd4\0\x01"), Ok(Value::Int(1)));
    assert_eq!(read(b"\xc8\x01"), Ok(Value::Int(1)));
    assert_eq!(read(b"L\xff\xff\xff\xff\xff\xff\xff\xff"), Ok(Value::Long(-1)));
    assert_eq!(read(b"\x59\xff\xff\xff\xff"), Ok(Value::Long(-1)));
    assert_eq!(read(b"\x3b\xff\xff"), Ok(Value::Long(-1)));
    assert_eq!(read(b"D\x3f\xf0\0\0\0\0\0\0"), Ok(Value::Double(1.0)));
    assert_eq!(read(b"\x5f\0\0\x03\xe8"), Ok(Value::Double(1.0)));
}

#[test]
fn reads_lists_of_every_form() {
    let typed = |ty: &str, items| Value::List { ty: Some(ty.into()), items };
    let one_two = || vec![Value::Int(1), Value::Int(2)];
    assert_eq!(read(b"\x57\x91\x92Z"), Ok(Value::list(one_two())));
    assert_eq!(read(b"\x58\x92\x91\x92"), Ok(Value::list(one_two())));
    assert_eq!(read(b"\x7a\x91\x92"), Ok(Value::list(one_two())));
    assert_eq!(read(b"\x55\x04[int\x91\x92Z"), Ok(typed("[int", one_two())));
    assert_eq!(read(b"V\x04[int\x92\x91\x92"), Ok(typed("[int", one_two())));
    assert_eq!(read(b"\x72\x04[int\x91\x92"), Ok(typed("[int", one_two())));
    // The second list names the type by its number.
    let twice = vec![typed("a", vec![]), typed("a", vec![])];
    assert_eq!(read(b"\x7a\x70\x01a\x70\x90"), Ok(Value::list(twice)));
}

#[test]
fn reads_maps_and_objects_of_every_form() {
    let entry = || vec![(Value::string("k"), Value::Int(1))];
    assert_eq!(read(b"H\x01k\x91Z"), Ok(Value::map(entry())));
    assert_eq!(
        read(b"M\x01t\x01k\x91Z"),
        Ok(Value::Map { ty: Some("t".into()), entries: entry() })
    );
    assert_eq!(read(b"M\0\x01k\x91Z"), Ok(Value::map(entry())), "an empty type is none");
    let object = Value::object("a", vec![("x", Value::Int(1))]);
    assert_eq!(read(b"C\x01a\x91\x01x\x60\x91"), Ok(object.clone()));
    assert_eq!(read(b"C\x01a\x91\x01xO\x90\x91"), Ok(object.clone()));
    // Definitions may come together, before the first object, and before what is no object.
    assert_eq!(read(b"C\x01b\x90C\x01a\x91\x01x\x61\x91"), Ok(object));
    assert_eq!(read(b"C\x01b\x90\x91"), Ok(Value::Int(1)));
}

#[test]
fn reads_references_to_what_is_around_and_before() {
    assert_eq!(read(b"\x79\x51\x90"), Ok(Value::list(vec![Value::Ref(0)])));
    let shared = Value::list(vec![Value::list(vec![]), Value::Ref(1)]);
    assert_eq!(read(b"\x7a\x78\x51\x91"), Ok(shared));
    let error = HessianError::RefIndex { offset: 1, index: 1, known: 1 };
    assert_eq!(read(b"\x79\x51\x91"), Err(error));
}

#[test]
fn reads_text_of_java_and_of_others() {
    let text = |bytes: &[u8]| match read(bytes) {
        Ok(Value::String(text)) => text,
        other => panic!("{other:?}"),
    };
    assert_eq!(text(b"\x02\xed\xa0\xbd\xed\xb8\x80"), "😀");
    assert_eq!(text(b"\x02\xf0\x9f\x98\x80"), "😀", "plain UTF-8");
    assert_eq!(text(b"R\0\x01\xed\xa0\xbd\x01\xed\xb8\x80"), "😀", "over the end of a chunk");
    assert_eq!(text(b"R\0\x01aR\0\x01bS\0\x01c"), "abc");
    assert_eq!(text(b"\x01\xed\xa0\xbd"), "\u{fffd}");
    assert_eq!(text(b"\x02\xed\xb8\x80a"), "\u{fffd}a");
    assert!(matches!(
        read(b"\x01\xff"),
        Err(HessianError::Utf8 { .. } | HessianError::Truncated { .. })
    ));
    assert_eq!(read(b"\x02\xc0\x80a"), Err(HessianError::Utf8 { offset: 0 }), "overlong");
    // As many bytes as units, but no UTF-8.
    assert!(read(b"\x04\xf0\x80ab").is_err());
    assert!(!crate::check::to_json(b"\x04\xf0\x80ab"));
    assert!(matches!(read(b"\x02\xe4\xb8\xad"), Err(HessianError::Truncated { .. })));
}

#[test]
fn borrows_text_that_needs_no_change() {
    for (bytes, is_borrowed) in
        [(&b"\x03abc"[..], true), ("\x02é中".as_bytes(), true), (b"R\0\x01a", false)]
    {
        let mut bytes = bytes.to_vec();
        bytes.extend_from_slice(b"\x01b");
        let mut decoder = Decoder::new(&bytes, Limits::default());
        let text = decoder.read_string().unwrap();
        assert_eq!(matches!(text, Cow::Borrowed(_)), is_borrowed);
    }
}

#[test]
fn typed_readers_take_what_fits_and_leave_the_rest() {
    let mut decoder = Decoder::new(b"\x91\xe1\x5cTN\x01a", Limits::default());
    assert_eq!(decoder.read_bool().unwrap_err().offset(), 0);
    assert_eq!(decoder.read_long(), Ok(1));
    assert_eq!(decoder.read_int(), Ok(1));
    assert!(decoder.read_int().is_err());
    assert_eq!(decoder.read_double(), Ok(1.0));
    assert_eq!(decoder.read_bool(), Ok(true));
    assert_eq!(decoder.read_opt_string(), Ok(None));
    assert_eq!(decoder.peek(), Ok(ValueKind::String));
    assert_eq!(decoder.read_opt_string(), Ok(Some(Cow::Borrowed("a"))));
    assert!(decoder.is_at_end());
    let long = b"\x59\x7f\xff\xff\xff L\0\0\0\x01\0\0\0\0";
    let mut decoder = Decoder::new(&long[..5], Limits::default());
    assert_eq!(decoder.read_int(), Ok(i32::MAX));
    let mut decoder = Decoder::new(&long[6..], Limits::default());
    assert_eq!(decoder.read_int(), Err(HessianError::Range { offset: 0, expected: "an int" }));
}

#[test]
fn what_was_skipped_counts() {
    // An object of class 0 is skipped, the next one and the reference still mean the same.
    let bytes = b"C\x01a\x91\x01x\x60\x91\x60\x78\x51\x91";
    let mut decoder = Decoder::new(bytes, Limits::default());
    decoder.skip_value().unwrap();
    let expected = Value::object("a", vec![("x", Value::list(vec![]))]);
    assert_eq!(decoder.read_value(), Ok(expected));
    assert_eq!(decoder.read_ref(), Ok(1));
    assert_eq!(decoder.ref_count(), 3);
}

#[test]
fn tags_that_mean_nothing_are_errors() {
    for tag in *b"@EGPZ\x4c" {
        let is_known = kind_of(tag).is_some();
        assert_eq!(is_known, tag == b'L');
        assert!(read(&[tag]).is_err());
        assert!(Decoder::new(&[tag], Limits::default()).skip_value().is_err());
    }
}

#[test]
fn the_number_of_a_maps_entries_is_guessed() {
    let guess = |bytes: &[u8]| {
        let mut decoder = Decoder::new(bytes, Limits::default());
        decoder.read_map_begin().unwrap();
        decoder.guess_entries()
    };
    assert_eq!(guess(b"HZ"), 0);
    assert_eq!(guess(b"H\x01a\x91\x02bc\xc8\0Z\x01d\x91"), 2);
    assert_eq!(guess(b"H\x01a\x91\x01b\x78\x01c\x91Z"), 1, "up to the list");
    assert_eq!(guess(b"H\x01a\x91\x1fb"), 1, "what is cut off counts for nothing");
    assert_eq!(guess(&[&b"H"[..], &[0x90; 10_000]].concat()), 1024);
}
