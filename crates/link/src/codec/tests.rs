//! Every codec gives back what it was given, and names what is wrong with bytes.

use serde::{Deserialize, Serialize};

use super::*;

#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
struct Person {
    name: String,
    age: u8,
    marks: Vec<i64>,
}

fn ada() -> Person {
    Person { name: "Ada".to_owned(), age: 36, marks: vec![-1, i64::MAX] }
}

fn round_trip<T, S>(number: u8, value: &T) -> Result<T, CodecError>
where
    T: 'static,
    S: CodecSet<T>,
{
    let mut out = Vec::new();
    let bytes = S::CODECS.encode(number, value, &mut out)?;
    let bytes = bytes.cloned();
    S::CODECS.decode(number, bytes.unwrap_or_else(|| out.into()))
}

#[test]
fn all_codecs_of_a_set_carry_a_value() {
    let codecs = <Serde as CodecSet<Person>>::CODECS;
    for (number, _) in codecs.iter() {
        assert_eq!(round_trip::<_, Serde>(number, &ada()).unwrap(), ada());
    }
    let bytes = Bytes::from_static(b"any \xff bytes");
    assert_eq!(round_trip::<_, (Raw,)>(1, &bytes).unwrap(), bytes);
    assert_eq!(round_trip::<_, (Raw,)>(1, &bytes.to_vec()).unwrap(), bytes);
    round_trip::<(), (Raw,)>(1, &()).unwrap();
}

#[test]
fn a_codec_that_is_wanted_is_used_only_if_the_type_has_it() {
    let codecs = <Serde as CodecSet<Person>>::CODECS;
    assert_eq!((codecs.choose(13), codecs.choose(1), codecs.choose(255)), (13, 14, 14));
}

#[test]
fn what_is_wrong_is_said() {
    let text = |result: Result<Person, CodecError>| result.unwrap_err().to_string();
    let codecs = <(Postcard, Json) as CodecSet<Person>>::CODECS;
    let unknown = text(codecs.decode(7, Bytes::new()));
    assert_eq!(unknown, "codec 7 is not among 13 (json), 14 (postcard)");
    let json = text(codecs.decode(13, "{\"name\": 1}".into()));
    assert!(json.contains("line 1 column 10"), "{json}");
    let mut out = Vec::new();
    codecs.encode(14, &ada(), &mut out).unwrap();
    out.push(0);
    assert_eq!(text(codecs.decode(14, out.into())), "1 bytes too many");
    let raw = <(Raw,) as CodecSet<()>>::CODECS.decode(1, "x".into()).unwrap_err().to_string();
    assert_eq!(raw, "found 1 bytes, expected none");
}

#[test]
fn a_length_that_is_not_there_takes_no_memory() {
    // A list that says it has 2^62 elements.
    let bytes = Bytes::from_static(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x3f]);
    Codecs::<Vec<u64>>::new().with::<Postcard>().decode(14, bytes).unwrap_err();
}
