//! The mapping, form by form.

use std::collections::{BTreeMap, HashMap};

use ::serde::de::DeserializeOwned;
use ::serde::{Deserialize, Serialize};

use super::check::{Any, Color, Sample, SampleShape};
use super::{
    Date, Error, bytes, check, from_decoder, from_slice, from_slice_within, helpers, or_default,
    to_encoder, to_vec, to_writer,
};
use crate::{Decoder, Encoder, HessianError, Limits, Value};

/// The tree of what was written.
fn tree<T: Serialize + ?Sized>(value: &T) -> Value {
    let bytes = to_vec(value).unwrap();
    let mut decoder = Decoder::new(&bytes, Limits::default());
    let tree = decoder.read_value().unwrap();
    assert!(decoder.is_at_end());
    tree
}

fn encode(value: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    Encoder::new(&mut out).value(value);
    out
}

fn read<T: DeserializeOwned>(value: &Value) -> Result<T, Error> {
    from_slice(&encode(value))
}

fn text(text: &str) -> Value {
    Value::string(text)
}

fn object<const N: usize>(class: &str, fields: [(&str, Value); N]) -> Value {
    Value::object(class, fields.into())
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename = "com.acme.Item")]
struct Item {
    sku: String,
    count: i32,
}

fn item(sku: &str, count: i32) -> Item {
    Item { sku: sku.into(), count }
}

fn item_value(sku: &str, count: i32) -> Value {
    object("com.acme.Item", [("sku", text(sku)), ("count", Value::Int(count))])
}

#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
struct Node {
    label: i32,
    next: Option<Box<Node>>,
}

fn chain(len: i32) -> Option<Box<Node>> {
    (0..len).fold(None, |next, label| Some(Box::new(Node { label, next })))
}

#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
struct Sparse {
    #[serde(skip_serializing_if = "Option::is_none")]
    a: Option<i32>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    b: Vec<Sparse>,
    #[serde(skip_serializing_if = "Option::is_none")]
    c: Option<Item>,
}

#[test]
fn scalars_have_the_forms_of_the_table() {
    assert_eq!(tree(&true), Value::Bool(true));
    assert_eq!(tree(&(-5i8, 5u8, -5i16, 5u16, 5i32)), {
        let int = |n| Value::Int(n);
        Value::list(vec![int(-5), int(5), int(-5), int(5), int(5)])
    });
    assert_eq!(tree(&(5u32, 5i64, 5u64, 5i128)), Value::list(vec![Value::Long(5); 4]));
    assert_eq!(tree(&(1.5f32, 1.5f64)), Value::list(vec![Value::Double(1.5); 2]));
    assert_eq!(tree(&('😀', "a😀")), Value::list(vec![text("😀"), text("a😀")]));
    assert_eq!(tree(&(None::<i32>, Some(1), ())), {
        Value::list(vec![Value::Null, Value::Int(1), Value::Null])
    });
    assert_eq!(tree(&Date(60_000)), Value::Date(60_000));
    assert_eq!(tree(&BTreeMap::from([(1, "x")])), Value::map(vec![(Value::Int(1), text("x"))]));
    assert_eq!(from_slice::<&str>(&to_vec("borrowed").unwrap()), Ok("borrowed"));
}

#[test]
fn the_date_is_known_by_its_name() {
    #[derive(Serialize)]
    struct Around(Date, i64);
    assert_eq!(helpers::DATE_NAME, std::any::type_name::<Date>().replace("helpers::", ""));
    assert_eq!(tree(&Around(Date(1), 1)), Value::list(vec![Value::Date(1), Value::Long(1)]));
    assert_eq!(read(&Value::Date(-7)), Ok(Date(-7)));
    assert_eq!(read(&Value::Long(-7)), Ok(Date(-7)));
    assert_eq!(read(&Value::Date(-7)), Ok(-7i64));
}

#[test]
fn a_struct_is_the_object_that_the_encoder_writes() {
    let items = [item("a", 1), item("b", 2)];
    let expected = Value::list(vec![item_value("a", 1), item_value("b", 2)]);
    assert_eq!(tree(&items), expected);
    // One object by itself is Java's bytes.
    assert_eq!(to_vec(&items[0]).unwrap(), encode(&item_value("a", 1)));
    // In a list the definition comes first: the same bytes in another order, no more of them.
    assert_eq!(to_vec(&items).unwrap().len(), encode(&expected).len());
    assert_eq!(read(&expected), Ok(items.to_vec()));
}

#[test]
fn values_of_one_message_share_its_numbers() {
    let mut out = b"before".to_vec();
    let mut encoder = Encoder::new(&mut out);
    to_encoder(&item("a", 1), &mut encoder).unwrap();
    encoder.value(&Value::object("com.acme.Other", vec![("x", Value::Int(1))]));
    assert!(to_encoder(&(1, item("b", 2), u64::MAX), &mut encoder).is_err());
    to_encoder(&[item("c", 3)], &mut encoder).unwrap();
    encoder.value(&item_value("d", 4));
    encoder.reference(0);
    assert_eq!(encoder.ref_count(), 5);

    let mut decoder = Decoder::new(&out[6..], Limits::default());
    assert_eq!(from_decoder(&mut decoder), Ok(item("a", 1)));
    assert_eq!(from_decoder(&mut decoder), Ok(BTreeMap::from([("x".to_owned(), 1)])));
    assert_eq!(from_decoder(&mut decoder), Ok((item("c", 3),)));
    assert_eq!(from_decoder(&mut decoder), Ok(item("d", 4)));
    assert_eq!(from_decoder(&mut decoder), Ok(item("a", 1)));
    assert!(decoder.is_at_end());
}

#[test]
fn a_struct_within_itself_needs_one_class() {
    let chain = chain(60);
    let bytes = to_vec(&chain).unwrap();
    assert_eq!(bytes.iter().filter(|&&byte| byte == b'C').count(), 1);
    assert_eq!(from_slice(&bytes), Ok(chain));
}

#[test]
fn skipped_fields_make_classes_of_their_own() {
    let leaf = |a, c| Sparse { a, b: Vec::new(), c };
    let full = || leaf(Some(1), Some(item("x", 1)));
    let inner = vec![leaf(None, Some(item("y", 2))), full(), Sparse::default(), full()];
    let outer = vec![
        Sparse { a: Some(2), b: inner, c: None },
        leaf(Some(3), None),
        Sparse { a: None, b: vec![full()], c: Some(item("z", 3)) },
    ];
    let bytes = to_vec(&outer).unwrap();
    assert_eq!(from_slice(&bytes), Ok(outer));
    // {a, b}, {c}, Item, {a, c}, {}, {a}, {b, c}
    let mut decoder = Decoder::new(&bytes, Limits::default());
    decoder.skip_value().unwrap();
    assert!(decoder.class(6).is_some() && decoder.class(7).is_none());
}

#[test]
fn more_classes_than_the_short_form_can_name() {
    /// Fields by number, in the order in which they are there.
    struct Odd(u32);
    impl Serialize for Odd {
        fn serialize<S: ::serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            use ::serde::ser::SerializeStruct;
            const NAMES: [&str; 9] = ["a", "b", "c", "d", "e", "f", "g", "h", "i"];
            let mut object = serializer.serialize_struct("Odd", 4)?;
            for (bit, name) in NAMES.iter().enumerate().filter(|(bit, _)| self.0 >> bit & 1 == 1) {
                // A value of two bytes, so that heads of another length move something.
                object.serialize_field(name, &(self.0 + u32::try_from(bit).unwrap()))?;
            }
            object.end()
        }
    }
    let odd: Vec<_> = (0..300).chain(0..300).map(Odd).collect();
    let maps: Vec<BTreeMap<String, u32>> = from_slice(&to_vec(&odd).unwrap()).unwrap();
    assert_eq!(maps.len(), 600);
    for (Odd(number), map) in odd.iter().zip(maps) {
        assert_eq!(map.len(), number.count_ones() as usize);
        for (name, value) in map {
            let bit = u32::from(name.as_bytes()[0] - b'a');
            assert_eq!((number >> bit & 1, value), (1, number + bit));
        }
    }
}

#[test]
fn enums_have_the_forms_of_the_table() {
    assert_eq!(tree(&SampleShape::Dot), text("Dot"));
    let entry = |name: &str, content| Value::map(vec![(text(name), content)]);
    assert_eq!(tree(&SampleShape::Circle(1.0)), entry("Circle", Value::Double(1.0)));
    let line = Value::list(vec![Value::Int(1), Value::Int(2)]);
    assert_eq!(tree(&SampleShape::Line(1, 2)), entry("Line", line));
    let content = Value::map(vec![(text("width"), Value::Int(3)), (text("inside"), Value::Null)]);
    assert_eq!(tree(&SampleShape::Box { width: 3, inside: None }), entry("Box", content.clone()));
    // A container that is named as a class of Java is an enum of Java.
    let green = || object("com.acme.Color", [("name", text("GREEN"))]);
    assert_eq!(tree(&[Color::Green; 2]), Value::list(vec![green(), green()]));

    assert_eq!(read(&green()), Ok(Color::Green));
    assert_eq!(read(&text("GREEN")), Ok(Color::Green));
    assert_eq!(read(&entry("name", text("GREEN"))), Ok(Color::Green));
    assert_eq!(read(&entry("GREEN", Value::Null)), Ok(Color::Green));
    assert_eq!(
        read(&object("Any", [("Box", content)])),
        Ok(SampleShape::Box { width: 3, inside: None })
    );
    let shared = Value::list(vec![green(), Value::Ref(1)]);
    assert_eq!(read(&shared), Ok([Color::Green; 2]));

    let error = read::<Color>(&entry("name", text("BLUE"))).unwrap_err();
    assert!(error.to_string().contains("byte 6") && error.to_string().contains("BLUE"), "{error}");
    assert_eq!(read::<Color>(&Value::map(vec![])), Err(Error::Variant { offset: 0 }));
    let two = Value::map(vec![(text("Dot"), Value::Null), (text("Dot"), Value::Null)]);
    assert_eq!(read::<SampleShape>(&two), Err(Error::Variant { offset: 0 }));
    assert!(read::<SampleShape>(&item_value("a", 1)).is_err());
}

#[test]
fn other_tags_of_enums_work_too() {
    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    #[serde(tag = "type")]
    enum Inside {
        Item(Item),
        Point { x: i64, y: f64 },
    }
    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    #[serde(tag = "t", content = "c")]
    enum Beside {
        One(u8),
        Two(String, Date),
    }
    let inside = vec![Inside::Item(item("a", 1)), Inside::Point { x: -1, y: 0.5 }];
    assert_eq!(from_slice(&to_vec(&inside).unwrap()), Ok(inside));
    let beside = vec![Beside::One(1), Beside::Two("x".into(), Date(9))];
    assert_eq!(from_slice(&to_vec(&beside).unwrap()), Ok(beside));
}

#[test]
fn flattened_and_transparent_structs_work_too() {
    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Outer {
        id: i32,
        #[serde(flatten)]
        item: Item,
        #[serde(flatten)]
        rest: BTreeMap<String, Any>,
    }
    let rest = BTreeMap::from([("more".to_owned(), Any::List(vec![Any::Null, Any::Int(1)]))]);
    let outer = Outer { id: 1, item: item("a", 2), rest };
    assert!(matches!(tree(&outer), Value::Map { ty: None, .. }));
    assert_eq!(from_slice(&to_vec(&outer).unwrap()), Ok(outer));
}

#[test]
fn numbers_are_widened_and_never_changed() {
    assert_eq!(read(&Value::Int(7)), Ok(7i64));
    assert_eq!(read(&Value::Long(7)), Ok(7i8));
    assert_eq!(read(&Value::Int(7)), Ok(7.0f64));
    assert_eq!(read(&Value::Int(7)), Ok(7.0f32));
    assert_eq!(read(&Value::Long(1 << 53)), Ok(9_007_199_254_740_992.0));
    assert_eq!(read(&Value::Long(i64::MIN)), Ok(-9_223_372_036_854_775_808.0));
    // A float of Java: the same double, or the double with the same text.
    assert_eq!(read(&Value::Double(f64::from(99.8f32))), Ok(99.8f32));
    assert_eq!(read(&Value::Double(99.8)), Ok(99.8f32));
    assert_eq!(read(&Value::Double(f64::INFINITY)), Ok(f32::INFINITY));
    assert!(read::<f32>(&Value::Double(f64::NAN)).unwrap().is_nan());
    assert_eq!(read::<f32>(&Value::Double(-0.0)).map(f32::to_bits), Ok((-0.0f32).to_bits()));

    let range = |offset, expected| Err(Error::Hessian(HessianError::Range { offset, expected }));
    let in_list = |value| Value::list(vec![value]);
    assert_eq!(read::<(i8,)>(&in_list(Value::Int(128))), range(1, "an i8").map(|()| (0,)));
    assert_eq!(read::<(u64,)>(&in_list(Value::Int(-1))), range(1, "a u64").map(|()| (0,)));
    assert_eq!(read::<i32>(&Value::Long(1 << 40)), range(0, "an i32").map(|()| 0));
    assert_eq!(read::<f32>(&Value::Double(0.123_456_789)), range(0, "an f32").map(|()| 0.0));
    assert_eq!(read::<f32>(&Value::Double(1e300)), range(0, "an f32").map(|()| 0.0));
    for odd in [(1 << 53) + 1, i64::MAX] {
        assert_eq!(read::<f64>(&Value::Long(odd)), range(0, "an f64").map(|()| 0.0));
    }
    assert!(read::<i32>(&Value::Double(1.0)).is_err());

    for wide in [i128::from(i64::MAX) + 1, i128::from(i64::MIN) - 1] {
        let error = Err(Error::IntegerRange { value: wide.to_string().into() });
        assert_eq!(to_vec(&wide), error);
        let mut out = b"kept".to_vec();
        assert_eq!(to_writer(&(1, item("a", 1), wide), &mut out), error.map(|_| ()));
        assert_eq!(out, b"kept");
    }
    assert_eq!(from_slice::<u64>(&to_vec(&(i64::MAX as u64)).unwrap()), Ok(i64::MAX as u64));
}

#[test]
fn objects_and_maps_are_structs_whatever_they_are_called() {
    #[derive(Debug, PartialEq, Deserialize)]
    struct Loose {
        sku: String,
        missing: Option<i32>,
        #[serde(default)]
        preset: i32,
    }
    let loose = Loose { sku: "a".into(), missing: None, preset: 0 };
    assert_eq!(read(&item_value("a", 1)).as_ref(), Ok(&loose));
    let map = vec![(text("unknown"), item_value("b", 1)), (text("sku"), text("a"))];
    assert_eq!(read(&Value::map(map)).as_ref(), Ok(&loose));
    let error = read::<Item>(&object("X", [("sku", text("a"))])).unwrap_err();
    assert_eq!(error.to_string(), "the value at byte 0 is refused: missing field `count`");
    let by_name: HashMap<String, Any> = read(&item_value("a", 1)).unwrap();
    assert_eq!(by_name["count"], Any::Int(1));
    assert!(read::<Item>(&text("a")).is_err());
}

#[test]
fn binaries_are_bytes() {
    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Blob {
        #[serde(with = "bytes")]
        raw: Vec<u8>,
    }
    let blob = Blob { raw: vec![0, 200] };
    let value = object("Blob", [("raw", Value::Binary(vec![0, 200]))]);
    assert_eq!(tree(&blob), value);
    assert_eq!(read(&value).as_ref(), Ok(&blob));
    let list = Value::list(vec![Value::Int(0), Value::Int(200)]);
    assert_eq!(read(&object("Blob", [("raw", list)])), Ok(blob));
    assert_eq!(read(&Value::Binary(vec![0, 200])), Ok(vec![0u8, 200]));
    assert_eq!(tree(&vec![1u8]), Value::list(vec![Value::Int(1)]));
    assert_eq!(read::<(u8,)>(&Value::Binary(vec![0, 200])), Err(Error::Longer { offset: 2 }));
    assert!(read::<Vec<i8>>(&Value::Binary(vec![200])).is_err());
}

#[test]
fn nulls_can_stand_for_the_default() {
    #[derive(Debug, PartialEq, Deserialize)]
    struct WithItems {
        #[serde(default, deserialize_with = "or_default")]
        items: Vec<Item>,
    }
    assert_eq!(read(&object("H", [("items", Value::Null)])), Ok(WithItems { items: vec![] }));
    assert_eq!(read(&object("H", [])), Ok(WithItems { items: vec![] }));
    let error = read::<Vec<i32>>(&Value::Null).unwrap_err();
    assert_eq!(error.to_string(), "expected a list at byte 0, found tag 0x4e");
}

#[test]
fn lengths_have_to_agree() {
    struct Liar(usize);
    impl Serialize for Liar {
        fn serialize<S: ::serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            use ::serde::ser::SerializeSeq;
            let mut list = serializer.serialize_seq(Some(self.0))?;
            list.serialize_element(&1)?;
            list.end()
        }
    }
    assert!(to_vec(&Liar(1)).is_ok());
    assert_eq!(to_vec(&Liar(2)), Err(Error::SequenceLen { announced: 2, written: 1 }));

    struct Unknown(Vec<i32>);
    impl Serialize for Unknown {
        fn serialize<S: ::serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            serializer.collect_seq(self.0.iter().filter(|_| true))
        }
    }
    let bytes = to_vec(&Unknown((0..100).collect())).unwrap();
    assert_eq!(bytes[0], 0x58, "a list of fixed length");
    assert_eq!(from_slice(&bytes), Ok((0..100).collect::<Vec<i32>>()));

    let three = encode(&Value::list(vec![Value::Int(1); 3]));
    assert_eq!(from_slice::<(i32, i32)>(&three), Err(Error::Longer { offset: 3 }));
    assert!(from_slice::<(i32, i32, i32, i32)>(&three).is_err());
    let trailing = Err(Error::TrailingBytes { offset: 1, len: 3 });
    assert_eq!(from_slice::<i32>(&[0x90, 1, 2, 3]), trailing);
}

#[test]
fn references_are_read_where_they_point() {
    let shared = Value::list(vec![item_value("a", 1), Value::Ref(1), item_value("b", 2)]);
    assert_eq!(read(&shared), Ok(vec![item("a", 1), item("a", 1), item("b", 2)]));
    let maps = Value::list(vec![Value::map(vec![(Value::Int(1), text("x"))]), Value::Ref(1)]);
    assert_eq!(read(&maps), Ok(vec![BTreeMap::from([(1, "x".to_owned())]); 2]));
    // A value that nobody took, because the field is not known, can be referred to.
    #[derive(Debug, PartialEq, Deserialize)]
    struct WithItem {
        item: Item,
    }
    let unknown = object("X", [("other", item_value("c", 3)), ("item", Value::Ref(1))]);
    assert_eq!(read(&unknown), Ok(WithItem { item: item("c", 3) }));
}

#[test]
fn cycles_are_refused() {
    let this = object("Node", [("label", Value::Int(1)), ("next", Value::Ref(0))]);
    let offset = encode(&this).len() - 2;
    assert_eq!(read::<Node>(&this), Err(Error::Cycle { offset, index: 0 }));
    let list = Value::list(vec![Value::list(vec![Value::Ref(0)])]);
    assert_eq!(read::<Any>(&list), Err(Error::Cycle { offset: 2, index: 0 }));
    // It is only a cycle where it is looked at.
    #[derive(Debug, PartialEq, Deserialize)]
    struct Label {
        label: i32,
    }
    assert_eq!(read(&this), Ok(Label { label: 1 }));
}

#[test]
fn references_to_references_are_bounded() {
    // Each list holds the one before it ten times: 10^k strings.
    let mut items = vec![Value::list(vec![text(&"x".repeat(1000))])];
    for number in 1..9u32 {
        items.push(Value::list(vec![Value::Ref(number); 10]));
    }
    let message = encode(&Value::list(items));
    let error = from_slice::<Vec<Any>>(&message).unwrap_err();
    assert!(matches!(error, Error::Repeats { max: 8_388_608, .. }), "{error}");
}

#[test]
fn limits_hold() {
    let deep = (0..70).fold(Value::Int(1), |inner, _| Value::list(vec![inner]));
    let too_deep = HessianError::TooDeep { offset: 64, max: 64 };
    assert_eq!(read::<Any>(&deep), Err(too_deep.into()));
    assert!(from_slice::<Node>(&to_vec(&chain(70)).unwrap()).is_err());
    let few = Limits { max_items: 3, max_len: 4, ..Limits::default() };
    let within = |value: &Value| from_slice_within::<Any>(&encode(value), few);
    assert!(within(&Value::list(vec![Value::Null; 3])).is_ok());
    assert!(within(&Value::list(vec![Value::Null; 4])).is_err());
    assert!(within(&text("four")).is_ok() && within(&text("five!")).is_err());
    // Announced and not there.
    for bomb in [
        &b"X\x49\x7f\xff\xff\xff"[..],
        b"V\x01a\x49\x7f\xff\xff\xff",
        b"C\x01a\x49\x7f\xff\xff\xff",
    ] {
        assert!(from_slice::<Vec<Sample>>(bomb).is_err());
        assert!(from_slice::<Any>(bomb).is_err());
    }
}

#[test]
fn any_bytes_do_no_harm() {
    let sample = Sample { text: "x".into(), shape: vec![SampleShape::Dot], ..Sample::default() };
    let sample = Sample { children: vec![sample.clone(), Sample::default()], ..sample };
    let bytes = to_vec(&sample).unwrap();
    assert!(check::read(&bytes));
    for len in 0..bytes.len() {
        assert!(!check::read(&bytes[..len]), "{len}");
    }
    for at in 0..bytes.len() {
        for flip in [1, 0x10, 0x80, 0xff] {
            let mut bad = bytes.clone();
            bad[at] ^= flip;
            check::read(&bad);
        }
    }
}
