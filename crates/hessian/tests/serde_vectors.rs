//! Bytes that hessian-lite wrote, read into Rust structs; and any value there and back.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::PathBuf;

use hessian::serde::check::{self, Any, Color, Sample, SampleShape};
use hessian::serde::{Date, Error, from_slice, to_vec};
use proptest::collection::{btree_map, vec};
use proptest::option;
use proptest::prelude::*;
use serde::Deserialize;
use serde::de::DeserializeOwned;

const VERSIONS: [&str; 2] = ["lite3", "lite4"];

fn folder(version: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("vectors").join(version)
}

/// What the vector of this name is in both versions.
fn java<T: DeserializeOwned>(name: &str) -> Result<T, Error> {
    let [old, new] = VERSIONS
        .map(|version| from_slice(&fs::read(folder(version).join(format!("{name}.bin"))).unwrap()));
    assert_eq!(old.is_ok(), new.is_ok(), "{name}");
    old.and(new)
}

#[derive(Debug, PartialEq, Deserialize)]
struct Item {
    sku: String,
    count: i32,
}

#[derive(Debug, PartialEq, Deserialize)]
struct Decimal {
    value: String,
}

#[derive(Debug, PartialEq, Deserialize)]
struct Order {
    id: i32,
    total: i64,
    small: i16,
    tiny: i8,
    letter: char,
    paid: bool,
    price: f64,
    weight: f32,
    name: String,
    at: Date,
    amount: Decimal,
    color: Color,
    #[serde(with = "hessian::serde::bytes")]
    raw: Vec<u8>,
    items: Vec<Item>,
    extra: HashMap<String, i32>,
    next: Option<Box<Order>>,
}

fn item(sku: &str, count: i32) -> Item {
    Item { sku: sku.into(), count }
}

#[test]
fn a_pojo_is_a_struct() {
    let expected = Order {
        id: 7,
        total: 9_007_199_254_740_993,
        small: 3,
        tiny: -4,
        letter: 'x',
        paid: true,
        price: 12.5,
        weight: 99.8,
        name: "café".into(),
        at: Date(1_700_000_000_123),
        amount: Decimal { value: "1234567890.12345678901234567890".into() },
        color: Color::Green,
        raw: vec![1, 2, 3],
        items: vec![item("a", 1), item("b", 2)],
        extra: HashMap::from([("k".to_owned(), 1)]),
        next: None,
    };
    assert_eq!(java("pojo"), Ok(expected));
    assert_eq!(java("pojo-array"), Ok((Some(item("a", 1)), None::<Item>)));
    // What the type does not know is passed over.
    #[derive(Debug, PartialEq, Deserialize)]
    struct Brief {
        id: i64,
        next: Option<i32>,
    }
    assert_eq!(java("pojo"), Ok(Brief { id: 7, next: None }));
}

#[test]
fn java_values_are_rust_values() {
    let ints = [0, -16, 47, -17, 48, -2048, 2047, -2049, 2048, -262_144, 262_143, -262_145];
    let ints: Vec<i32> = ints.into_iter().chain([262_144, i32::MIN, i32::MAX]).collect();
    assert_eq!(java("ints"), Ok(ints));
    let longs: Vec<i64> = java("longs").unwrap();
    assert_eq!((longs.len(), longs[17], longs[18]), (20, 9_007_199_254_740_993, i64::MIN));
    let doubles: Vec<f64> = java("doubles").unwrap();
    assert_eq!((doubles[9], doubles[10], doubles[11]), (12.25, 99.8, 0.001));
    assert_eq!(java("floats"), Ok(vec![99.8f32, 0.1, f32::MAX, 1.5]));
    assert_eq!(java("float"), Ok(99.8f32));
    assert_eq!(java("shorts"), Ok(vec![-1i16, 300]));
    assert_eq!(java("booleans"), Ok((true, false)));
    assert_eq!(java("null"), Ok(None::<i32>));
    assert_eq!(java("date-milli"), Ok(Date(1_700_000_040_123)));
    assert_eq!(java("date-minute"), Ok(1_700_000_040_000i64));
    assert_eq!(java("string-emojis"), Ok("😀".repeat(16500)));
    assert_eq!(java("string-32769"), Ok("y".repeat(32769)));
    assert_eq!(java("string-lone-surrogate"), Ok("a\u{fffd}!".to_owned()));
    assert_eq!(java("binary-15"), Ok((0..15u8).collect::<Vec<_>>()));
    let bytes: Vec<u8> = (0..33000u32).map(|n| n.to_le_bytes()[0]).collect();
    assert_eq!(java("binary-chunks"), Ok(bytes));
}

#[test]
fn java_collections_are_rust_collections() {
    assert_eq!(java("list-8"), Ok((1..9).collect::<Vec<i64>>()));
    assert_eq!(java("list-linked"), Ok(("a".to_owned(), 'b')));
    assert_eq!(java("set-linked"), Ok(vec!['a', 'b']));
    assert_eq!(java("list-type-refs"), Ok(vec![[0], [1], [2]]));
    assert_eq!(java("ints-2d"), Ok(vec![vec![1], vec![2, 3]]));
    assert_eq!(java("strings"), Ok(vec![Some('a'), None, Some('b')]));
    assert_eq!(java("map-empty"), Ok(BTreeMap::<String, ()>::new()));
    assert_eq!(java("map-tree"), Ok(BTreeMap::from([('a', 1), ('b', 2)])));
    assert_eq!(java("pojo-list"), java::<Vec<Item>>("pojo-list"));
    let linked: BTreeMap<String, Any> = java("map-linked").unwrap();
    assert_eq!(linked["l"], Any::List(vec![Any::Int(1), Any::Int(2)]));
    assert_eq!((&linked["n"], &linked["s"]), (&Any::Null, &Any::Text("text".into())));
}

#[test]
fn java_enums_references_and_cycles() {
    assert_eq!(java("enum"), Ok(Color::Red));
    assert_eq!(java("enum-body"), Ok(Color::Green));
    assert_eq!(java("enums"), Ok([Color::Red, Color::Green, Color::Red]));
    let shared = HashMap::from([("k".to_owned(), "v".to_owned())]);
    assert_eq!(java("shared"), Ok(vec![shared; 2]));
    #[derive(Debug, PartialEq, Deserialize)]
    struct Node {
        label: String,
        next: Option<Box<Node>>,
    }
    let error = java::<Node>("cycle").unwrap_err();
    assert!(matches!(error, Error::Cycle { index: 0, .. }), "{error}");
    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Throwable {
        detail_message: String,
        cause: Option<Box<Throwable>>,
    }
    // Java marks "no cause" by the exception itself.
    assert!(java::<Throwable>("throwable").is_err());
    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Message {
        detail_message: String,
    }
    assert_eq!(java("throwable"), Ok(Message { detail_message: "wrong \"thing\"".into() }));
}

#[test]
fn all_that_java_wrote_and_every_cut_of_it_does_no_harm() {
    let mut n_good = 0;
    for version in VERSIONS {
        for entry in fs::read_dir(folder(version)).unwrap() {
            let bytes = fs::read(entry.unwrap().path()).unwrap();
            n_good += usize::from(check::read(&bytes));
            for len in 0..bytes.len().min(1200) {
                assert!(!check::read(&bytes[..len]) || len == bytes.len());
            }
        }
    }
    assert!(100 < n_good, "{n_good}");
}

fn any_text() -> impl Strategy<Value = String> {
    prop_oneof![
        6 => "\\PC{0,12}",
        2 => vec(any::<char>(), 0..40).prop_map(String::from_iter),
        1 => (32_760..32_780usize, "[a😀中]{0,3}").prop_map(|(len, end)| "x".repeat(len) + &end),
    ]
}

fn any_any() -> impl Strategy<Value = Any> {
    let scalar = prop_oneof![
        Just(Any::Null),
        any::<bool>().prop_map(Any::Bool),
        any::<i64>().prop_map(Any::Int),
        any_text().prop_map(Any::Text),
        // A whole double would be an integer to an untagged enum after the first round.
        any::<i32>().prop_map(|n| Any::Double(f64::from(n) + 0.25)),
    ];
    scalar.prop_recursive(3, 20, 5, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..5).prop_map(Any::List),
            btree_map(any_text(), inner, 0..5).prop_map(Any::Map),
        ]
    })
}

fn any_sample() -> impl Strategy<Value = Sample> {
    let numbers = (
        any::<(i8, u16, i32, u32, i64)>(),
        0..=i64::MAX as u64,
        (any::<f32>(), any::<f64>(), any::<bool>(), any::<char>()),
    );
    let texts = (any_text(), option::of(any_text()), option::of(any::<i64>().prop_map(Date)));
    let rest = (
        vec(any::<u8>(), 0..2000),
        (any::<i32>(), any_text()),
        prop_oneof![Just(Color::Red), Just(Color::Green)],
        btree_map(any::<i64>(), option::of(any_text()), 0..4),
        any_any(),
    );
    let leaf = (numbers, texts, rest).prop_map(|(numbers, texts, rest)| {
        let ((byte, word, int, uint, long), ulong, (float, double, flag, letter)) = numbers;
        let (text, note, at) = texts;
        let (raw, pair, color, map, any) = rest;
        Sample {
            byte,
            word,
            int,
            uint,
            long,
            ulong,
            float,
            double,
            flag,
            letter,
            text,
            note,
            at,
            raw,
            pair,
            color,
            map,
            any,
            ..Sample::default()
        }
    });
    leaf.prop_recursive(3, 12, 3, |inner| {
        let shape = prop_oneof![
            Just(SampleShape::Dot),
            any::<f64>().prop_map(SampleShape::Circle),
            any::<(i32, i32)>().prop_map(|(x, y)| SampleShape::Line(x, y)),
            (any::<i32>(), option::of(inner.clone())).prop_map(|(width, inside)| {
                SampleShape::Box { width, inside: inside.map(Box::new) }
            }),
        ];
        (inner.clone(), vec(inner, 0..3), vec(shape, 0..3))
            .prop_map(|(sample, children, shape)| Sample { children, shape, ..sample })
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// What is written is read as the same; the text of it, for NaN is not equal to itself.
    #[test]
    fn there_and_back(samples in vec(any_sample(), 0..4)) {
        let bytes = to_vec(&samples).unwrap();
        let again: Vec<Sample> = from_slice(&bytes).unwrap();
        prop_assert_eq!(format!("{samples:?}"), format!("{again:?}"));
    }

    /// Any bytes, and good bytes with a fault.
    #[test]
    fn any_bytes_do_no_harm(bytes in vec(any::<u8>(), 0..200)) {
        check::read(&bytes);
    }

    #[test]
    fn faults_do_no_harm(sample in any_sample(), at: prop::sample::Index, byte: u8) {
        let mut bytes = to_vec(&sample).unwrap();
        bytes.truncate(5000);
        let at = at.index(bytes.len());
        bytes[at] = byte;
        check::read(&bytes);
    }
}
