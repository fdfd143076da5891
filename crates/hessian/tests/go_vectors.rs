//! Bytes that dubbo-go wrote (interop/vectors/go has the program), and what they are.

use std::fs;
use std::path::PathBuf;

use hessian::transcode::{JsonOptions, hessian_to_json};
use hessian::{Decoder, Limits, check};

fn load(name: &str) -> Vec<u8> {
    let vectors = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("vectors/go");
    fs::read(vectors.join(format!("{name}.bin"))).unwrap()
}

const FRIEND: &str = r#"{"name":"f","age":0,"id":null,"active":false,"score":0.0,"balance":null,"born":null,"color":"RED","address":null,"friends":null,"counts":null}"#;

fn person() -> String {
    let head = r#"{"name":"Ann 😀","age":3,"id":9007199254740993,"active":true,"score":99.8,"balance":12345678901234567890.99,"born":"2024-02-29T13:05:59.123Z","color":"GREEN","address":{"street":"Main","city":"Köln","zip":50667},"friends":["#;
    format!(r#"{head}{FRIEND}],"counts":{{"x":1}}}}"#)
}

#[test]
fn every_value_is_what_go_had() {
    let person = person();
    for (name, json) in [
        // `[]*big.Integer`: their words are longs without sign, and come with fields of Java 8.
        ("big-integers", "[123456789012345678901234567890,-4294967295,0]".to_owned()),
        // A struct with pointers, of which one is nil, an enum and nested structs.
        ("person", person.clone()),
        // `[]*Person{p, p}`: the second is a reference.
        ("twins", format!("[{person},{person}]")),
        // `map[int32]*Address`
        ("people-by-number", r#"{"7":{"street":"Main","city":"Köln","zip":50667}}"#.to_owned()),
        // `[]time.Time`: in milliseconds, and where they are whole in minutes.
        (
            "times",
            r#"["1970-01-01T00:00:00.000Z","2024-02-29T13:05:59.123Z","2024-02-29T13:06:00.000Z"]"#
                .to_owned(),
        ),
        // `[]interface{}` of each kind of number, among them a `uint16`, and `[]byte`.
        ("numbers", r#"[-7,300,1,1,9007199254740993,99.8,0.1,3.0,65,"AQ==",null]"#.to_owned()),
    ] {
        let bytes = load(name);
        assert!(check::to_json(&bytes), "{name}");
        let (mut out, mut decoder) = (Vec::new(), Decoder::new(&bytes, Limits::default()));
        hessian_to_json(&mut decoder, &mut out, &JsonOptions::default()).unwrap();
        assert!(decoder.is_at_end(), "{name}");
        assert_eq!(String::from_utf8(out).unwrap(), json, "{name}");
    }
}

#[test]
fn an_exception_is_one() {
    let bytes = load("exception");
    let (mut out, mut decoder) = (Vec::new(), Decoder::new(&bytes, Limits::default()));
    hessian_to_json(&mut decoder, &mut out, &JsonOptions::default()).unwrap();
    let json = String::from_utf8(out).unwrap();
    assert!(json.contains(r#""class":"java.lang.IllegalStateException""#), "{json}");
    assert!(json.contains(r#""message":"bad 😀""#), "{json}");
}
