use java_json::JsonOptions;

use super::values::JsonValues;
use super::*;
use crate::values::{ReadOptions, ValueCodec};

#[test]
fn reads_strings_and_maps() {
    assert_eq!(read_string(b"\"a.B\""), Some(Cow::Borrowed("a.B")));
    assert_eq!(read_string(b"\"a\\n\\u00fc\"").as_deref(), Some("a\nü"));
    assert_eq!(read_string(b"null").as_deref(), Some(""));
    for broken in [&b""[..], b"\"", b"7", b"\"a\" \"b\"", b"\"\xff\"", b"{}", b"\0\0\0\x05"] {
        assert_eq!(read_string(broken), None, "{broken:?}");
    }
    let map = concat!(
        r#"{"a":"x","n":1,"l":[1,"2",{"deep":[]}],"o":{"a":null},"#,
        r#""z":null,"b":"\"","f":1.5,"t":true}"#
    );
    let expected = [("a", "x"), ("b", "\"")].map(|(n, v)| (n.into(), v.into()));
    let read_map = |text: &[u8]| super::read_map(text, 1);
    let members = read_map(map.as_bytes()).unwrap();
    assert_eq!((members.kept.as_slice(), members.count), (&expected[..1], 2));
    assert_eq!(super::read_map(map.as_bytes(), 2).unwrap().kept, expected);
    assert_eq!(read_map(b"null"), Some(Members { kept: Vec::new(), count: 0 }));
    assert_eq!(read_map(b"null null"), None);
    assert_eq!(read_map(b"[]"), None);
    assert_eq!(read_map(&[b'['; 100_000]), None);
    assert_eq!(read_map(&[&b"{\"a\":"[..], &[b'['; 100_000]].concat()), None);
}

#[test]
fn lines_may_end_as_windows_ends_them() {
    let mut texts = Texts::new(Framing::Lines, b"a\r\nb\n\nc", 0);
    let seen: Vec<_> = std::iter::from_fn(|| texts.next("text").unwrap()).collect();
    assert_eq!(seen, [(0, &b"a"[..]), (3, b"b"), (5, b""), (6, b"c")]);
    let holds = |texts: &[u8], n| Framing::Lines.holds(texts, n);
    assert!(holds(b"", 0) && holds(b"1", 1) && holds(b"1\n2", 2));
    assert!(!holds(b"1", 0) && !holds(b"", 1) && !holds(b"1\r2", 1));
}

#[test]
fn sized_texts_are_as_long_as_they_say() {
    let body = b"\0\0\0\x01a\0\0\0\0\0\0\0\x02b\n";
    let mut texts = Texts::new(Framing::Sized, body, 0);
    let seen: Vec<_> = std::iter::from_fn(|| texts.next("text").unwrap()).collect();
    assert_eq!(seen, [(4, &b"a"[..]), (9, b""), (13, b"b\n")]);
    let broken = |body| Texts::new(Framing::Sized, body, 0).next("text").unwrap_err();
    let rule = "a length of four bytes";
    assert_eq!(broken(b"\0\0\0"), ProtoError::Json { field: "text", offset: 0, rule });
    let rule = "a length and as many bytes";
    for body in [&b"\xff\xff\xff\xff"[..], b"\0\0\0\x02a"] {
        assert_eq!(broken(body), ProtoError::Json { field: "text", offset: 0, rule });
    }
    let holds = |texts: &[u8], n| Framing::Sized.holds(texts, n);
    assert!(holds(b"", 0) && holds(b"\0\0\0\x011", 1));
    assert!(!holds(b"\0\0\0\x011", 0) && !holds(b"\0\0\0\x011", 2));
    assert!(!holds(b"\0\0\0\0", 1) && !holds(b"", 1) && !holds(b"1\n2", 2));
}

/// Where a map has numbers for keys, fastjson writes what is no JSON.
#[test]
fn keys_of_replies_may_be_without_quotes() {
    let dialects = [(Framing::Lines, false), (Framing::Sized, true)];
    for values in dialects.map(|(framing, is_dialect)| JsonValues { framing, is_dialect }) {
        let read = |text: &[u8], json: &JsonOptions| {
            let mut out = Vec::new();
            let options = ReadOptions { json, schema: None };
            values.read_value(text, None, options, &mut out).map_err(|error| error.to_string())?;
            Ok::<_, String>(String::from_utf8(out).expect("it is UTF-8"))
        };
        for options in ["", "big-numbers=text"] {
            let options = JsonOptions::parse(options).expect("they are options");
            let read = |text| read(text, &options);
            let expected = Ok("{\"1\":\"a\",\"true\":{\"-2\":[]}}".to_owned());
            assert_eq!(read(b"{1:\"a\",true:{-2:[]}}"), expected);
            assert!(read(b"{1:").is_err() && read(b"{a:1}").is_err());
        }
    }
}
