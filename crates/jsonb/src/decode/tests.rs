//! Tests of what a decoder refuses. tests/vectors.rs has what Java writes.

use super::*;

fn rule(bytes: &[u8], limits: Limits) -> (usize, Rule) {
    let mut decoder = Decoder::new(bytes, limits);
    match decoder.skip_value().and_then(|()| decoder.finish()) {
        Err(JsonbError::Broken { offset, rule }) => (offset, rule),
        other => panic!("{other:?}"),
    }
}

#[test]
fn lengths_are_checked_before_anything_is_kept() {
    let all = Limits::default();
    assert_eq!(rule(b"", all), (0, Rule::End));
    assert_eq!(rule(&[0x4a], all), (1, Rule::End));
    assert_eq!(
        rule(&[0x7a, 0x48, 0x7f, 0xff, 0xff, 0xff], all).1,
        Rule::Length { len: 0x7fff_ffff }
    );
    assert_eq!(rule(&[0x91, 0xff], all).1, Rule::Length { len: -1 });
    assert_eq!(
        rule(&[0xa4, 0x48, 0x7f, 0xff, 0xff, 0xff], all).1,
        Rule::Length { len: 0x7fff_ffff }
    );
    assert_eq!(rule(&[0xaf, 0xaf], all), (1, Rule::Trailing));
    assert_eq!(rule(&[0x92, 0x05, 0xaf], all).1, Rule::Symbol { number: 5 });
    assert_eq!(rule(&[0x92, 0x4a, b'x', 0x2f, 0xaf], all).1, Rule::Symbol { number: 0x2f });
    assert_eq!(rule(&[0xa5], all).1, Rule::Tag { found: 0xa5 });
    let small = Limits { max_depth: 2, max_len: 3, max_items: 3 };
    assert_eq!(rule(&[0x95, 0x95, 0x95, 0xaf], small).1, Rule::Depth { max: 2 });
    assert_eq!(
        rule(&[0x92, 0x4a, b'x', 0, 0x92, 0, 0x92, 0, 0xaf], small).1,
        Rule::Depth { max: 2 }
    );
    assert_eq!(rule(&[0x7a, 4, b'a', b'a', b'a', b'a'], small).1, Rule::TooLong { len: 4, max: 3 });
    assert_eq!(rule(&[0x98, 1, 1, 1, 1], small).1, Rule::Items { max: 3 });
    assert_eq!(rule(&[0xa6, 1, 1, 1, 1, 1, 1, 1, 1, 0xa5], small).1, Rule::Items { max: 3 });
}

#[test]
fn maps_of_texts_are_read() {
    let bytes = [0x92, 0x4a, b'M', 0, 0xa6, 0x4a, b'a', 0x4a, b'b', 1, 2, 0x4a, b'c', 0x94, 0xa5];
    let mut entries = Vec::new();
    let mut decoder = Decoder::new(&bytes, Limits::default());
    decoder.read_text_map(|name, value| entries.push((name.to_str(), value.to_str()))).unwrap();
    assert_eq!(entries, [("a".into(), "b".into())]);
    assert!(decoder.is_at_end());
    assert_eq!(Decoder::new(&[0xaf], Limits::default()).read_opt_text(), Ok(None));
}

#[test]
fn texts_come_in_five_encodings() {
    for bytes in [
        &b"\x4b\x61\xe9"[..],
        b"\x79\x02\x61\xe9",
        b"\x7a\x03\x61\xc3\xa9",
        b"\x7b\x06\xff\xfe\x61\x00\xe9\x00",
        b"\x7c\x04\x61\x00\xe9\x00",
        b"\x7d\x04\x00\x61\x00\xe9",
    ] {
        let text = Decoder::new(bytes, Limits::default()).read_text().unwrap();
        assert_eq!(text.to_str(), "aé");
    }
    let half = Decoder::new(b"\x7d\x04\xd8\x00\x00\x61", Limits::default()).read_text().unwrap();
    assert_eq!(half.to_str(), "\u{fffd}a");
    for broken in [&b"\x7a\x01\xff"[..], b"\x7c\x01\x61", b"\x7e\x01\x61"] {
        assert!(Decoder::new(broken, Limits::default()).read_text().is_err());
    }
}
