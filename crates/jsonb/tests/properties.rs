//! JSON becomes JSONB and the same JSON again, whatever it is.

use java_json::JsonOptions;
use java_json::Limits;
use java_json::json::JsonReader;
use jsonb::{Decoder, Encoder, check, json_to_jsonb, jsonb_to_json};
use proptest::prelude::*;
use serde_json::Value;

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        (-70_000_i64..70_000).prop_map(Value::from),
        // Few digits, for serde_json does not read every double exactly.
        any::<i32>().prop_map(|number| Value::from(f64::from(number) / 16.0)),
        ".{0,60}".prop_map(Value::from),
        "[a-zé]{0,60}".prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 200, 20, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..20).prop_map(Value::from),
            prop::collection::hash_map(".{0,20}", inner, 0..20)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn json_goes_there_and_back(value in any_json()) {
        let text = value.to_string();
        let (mut bytes, mut again) = (Vec::new(), Vec::new());
        let mut reader = JsonReader::new(text.as_bytes(), Limits::default());
        json_to_jsonb(&mut reader, None, &mut Encoder::new(&mut bytes)).unwrap();
        let mut decoder = Decoder::new(&bytes, Limits::default());
        jsonb_to_json(&mut decoder, &mut again, &JsonOptions::default()).unwrap();
        prop_assert!(decoder.is_at_end());
        prop_assert_eq!(serde_json::from_slice::<Value>(&again).unwrap(), value);
    }

    #[test]
    fn every_double_keeps_its_value(value in any::<f64>()) {
        prop_assume!(value.is_finite());
        let (mut text, mut bytes, mut again) = (Vec::new(), Vec::new(), Vec::new());
        java_json::json::write_f64(&mut text, value);
        let mut reader = JsonReader::new(&text, Limits::default());
        json_to_jsonb(&mut reader, None, &mut Encoder::new(&mut bytes)).unwrap();
        let mut decoder = Decoder::new(&bytes, Limits::default());
        jsonb_to_json(&mut decoder, &mut again, &JsonOptions::default()).unwrap();
        prop_assert_eq!(text, again);
    }

    #[test]
    fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        check::to_json(&bytes);
        check::from_json(&bytes);
    }

    #[test]
    fn containers_of_any_bytes_are_read_or_refused(
        bytes in prop::collection::vec(
            prop_oneof![0x49_u8..0x4d, 0x7f_u8..0x80, 0x92..0x98_u8, 0xa4..0xa7_u8, 0_u8..3, any::<u8>()],
            0..60,
        ),
    ) {
        check::to_json(&bytes);
    }
}
