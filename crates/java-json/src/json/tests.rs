//! Tests of the JSON reader and writer.

use super::*;

fn reader(text: &[u8]) -> JsonReader<'_> {
    JsonReader::new(text, Limits::default())
}

fn rule(text: &[u8]) -> (usize, JsonRule) {
    let mut reader = reader(text);
    let error = reader.skip_value().map(|_| ()).and_then(|()| reader.finish()).unwrap_err();
    (error.offset, error.rule)
}

#[test]
fn names_the_rule_and_the_place() {
    for (text, expected) in [
        (&b""[..], (0, JsonRule::End)),
        (b"[1,", (3, JsonRule::End)),
        (b"[1 2]", (3, JsonRule::Comma)),
        (b"[1,]", (3, JsonRule::Value)),
        (b"[,1]", (1, JsonRule::Value)),
        (b"{\"a\" 1}", (5, JsonRule::Colon)),
        (b"{a:1}", (1, JsonRule::Key)),
        (b"{\"a\":1,}", (7, JsonRule::Value)),
        (b"nul", (0, JsonRule::Value)),
        (b"01", (0, JsonRule::Number)),
        (b"-", (0, JsonRule::Number)),
        (b"1.", (0, JsonRule::Number)),
        (b"1e+", (0, JsonRule::Number)),
        (b"1 1", (2, JsonRule::Trailing)),
        (b"\"a", (2, JsonRule::End)),
        (b"\"a\\", (3, JsonRule::End)),
        (b"\"\\x\"", (1, JsonRule::Escape)),
        (b"\"\\u12g4\"", (1, JsonRule::Escape)),
        (b"\"\\ud83d\"", (1, JsonRule::Surrogate)),
        (b"\"\\ude00\"", (1, JsonRule::Surrogate)),
        (b"\"\\ud83d\\u0041\"", (1, JsonRule::Surrogate)),
        (b"\"a\nb\"", (2, JsonRule::Control)),
        (b"\"a\xff\"", (2, JsonRule::Utf8)),
    ] {
        assert_eq!(rule(text), expected, "{}", String::from_utf8_lossy(text));
    }
    let deep = [b'['; 1000];
    assert_eq!(rule(&deep), (64, JsonRule::Depth { max: 64 }));
}

#[test]
fn bounds_lengths_and_counts() {
    let limits = Limits { max_depth: 2, max_len: 3, max_items: 3 };
    let error = |text: &[u8]| JsonReader::new(text, limits).skip_value().unwrap_err().rule;
    assert_eq!(error(b"\"1234\""), JsonRule::Len { max: 3 });
    assert_eq!(error(b"1234"), JsonRule::Len { max: 3 });
    assert_eq!(error(b"[1,2,3,4]"), JsonRule::Items { max: 3 });
    assert_eq!(error(b"[[[]]]"), JsonRule::Depth { max: 2 });
}

#[test]
fn reads_strings_with_and_without_escapes() {
    for (text, expected) in [
        (r#""""#, ""),
        (r#""plain""#, "plain"),
        (r#""a\"\\\/\b\f\n\r\tz""#, "a\"\\/\u{8}\u{c}\n\r\tz"),
        (r#""\u4e2d\u00e9\ud83d\ude00""#, "中é😀"),
        ("\"中é😀\u{7f}\"", "中é😀\u{7f}"),
    ] {
        let read = reader(text.as_bytes()).read_string().unwrap();
        assert_eq!(read, expected);
        assert_eq!(matches!(read, Cow::Owned(_)), text.contains('\\'));
    }
}

#[test]
fn special_bytes_are_found_wherever_they_stand() {
    for len in 0..80 {
        for at in 0..len {
            for special in *b"\"\\\x00\x1f" {
                let mut bytes = vec![0xffu8; len];
                bytes[at] = special;
                assert_eq!(text::plain_len(&bytes), at);
            }
            let mut bytes = vec![b'!'; len];
            bytes[at] = b'"';
            assert_eq!(text::plain_len(&bytes), at);
        }
        assert_eq!(text::plain_len(&vec![b' '; len]), len);
    }
}

#[test]
fn writes_what_serde_json_reads() {
    for text in ["", "a\"b\\c\n\t\r\u{8}\u{c}\u{1}\u{1f}\u{7f}é中😀", &"long ".repeat(20)] {
        let mut out = Vec::new();
        write_string(&mut out, text);
        assert_eq!(serde_json::from_slice::<String>(&out).unwrap(), text);
    }
}

#[test]
fn pulls_members_and_elements() {
    let mut json = reader(br#" { "a" : [ 1 , true , null ] , "b" : "x" } "#);
    let mut object = json.begin_object().unwrap();
    assert_eq!(json.next_key(&mut object).unwrap().as_deref(), Some("a"));
    let mut array = json.begin_array().unwrap();
    assert!(json.next_element(&mut array).unwrap());
    assert_eq!(json.read_number(), Ok("1"));
    assert!(json.next_element(&mut array).unwrap());
    assert_eq!(json.read_bool(), Ok(true));
    assert!(json.next_element(&mut array).unwrap());
    json.read_null().unwrap();
    assert!(!json.next_element(&mut array).unwrap());
    assert_eq!(json.next_key(&mut object).unwrap().as_deref(), Some("b"));
    assert_eq!(json.skip_value(), Ok(&b"\"x\""[..]));
    assert_eq!(json.next_key(&mut object), Ok(None));
    json.finish().unwrap();
}

#[test]
fn tells_the_path_of_an_offset() {
    let text = br#"[0, {"orders": [{"id": 1}, {"id": "x", "y": }]}]"#;
    let at = |needle: &[u8]| text.windows(needle.len()).position(|w| w == needle).unwrap();
    assert_eq!(path_at(text, at(b"0")), "$[0]");
    assert_eq!(path_at(text, 0), "$");
    assert_eq!(path_at(text, at(b"{")), "$[1]");
    assert_eq!(path_at(text, at(b"\"x\"")), "$[1].orders[1].id");
    assert_eq!(path_at(text, at(b"}]}]")), "$[1].orders[1].y");
}
