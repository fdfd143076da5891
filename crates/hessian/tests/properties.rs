//! Properties of the codec and of the mapping, over values and bytes that proptest makes up.

use hessian::json::JsonReader;
use hessian::transcode::{JsonOptions, hessian_to_json, json_to_hessian};
use hessian::{
    Decoder, Encoder, HessianError, JavaType, Limits, Value, check, is_ascii_string, write_string,
};
use proptest::collection::vec;
use proptest::prelude::*;

fn any_text() -> impl Strategy<Value = String> {
    prop_oneof![
        6 => "\\PC{0,40}",
        2 => vec(any::<char>(), 0..60).prop_map(String::from_iter),
        // Around the lengths where the form changes.
        1 => (1000..1050usize).prop_map(|len| "é".repeat(len)),
        1 => (32_700..32_800usize, "[a😀中]{0,3}").prop_map(|(len, end)| "x".repeat(len) + &end),
    ]
}

fn any_scalar() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        any::<i32>().prop_map(Value::Int),
        (-300_000..300_000i32).prop_map(Value::Int),
        any::<i64>().prop_map(Value::Long),
        (-300_000..300_000i64).prop_map(Value::Long),
        any::<f64>().prop_filter("equal to itself", |v| !v.is_nan()).prop_map(Value::Double),
        (-40_000_000..40_000_000i32).prop_map(|v| Value::Double(f64::from(v) * 0.001)),
        any::<i64>().prop_map(Value::Date),
        any::<i32>().prop_map(|minutes| Value::Date(i64::from(minutes) * 60_000)),
        any_text().prop_map(Value::String),
        vec(any::<u8>(), 0..2000).prop_map(Value::Binary),
    ]
}

fn any_value() -> impl Strategy<Value = Value> {
    any_scalar().prop_recursive(5, 60, 12, |inner| {
        let ty = || proptest::option::of("[a-c]{1,2}".prop_map(Into::into));
        prop_oneof![
            (ty(), vec(inner.clone(), 0..12)).prop_map(|(ty, items)| Value::List { ty, items }),
            (ty(), vec((inner.clone(), inner.clone()), 0..6))
                .prop_map(|(ty, entries)| Value::Map { ty, entries }),
            ("[A-C]{1,2}", vec(("[a-d]{1,3}", inner), 0..6)).prop_map(|(class, fields)| {
                let fields = fields.iter().map(|(name, value)| (&**name, value.clone())).collect();
                Value::object(&class, fields)
            }),
        ]
    })
}

/// Any JSON value whose numbers serde_json reads as they are written.
fn any_json() -> impl Strategy<Value = serde_json::Value> {
    let scalar = prop_oneof![
        Just(serde_json::Value::Null),
        any::<bool>().prop_map(Into::into),
        any::<i64>().prop_map(Into::into),
        any::<i16>().prop_map(Into::into),
        any::<u64>().prop_map(Into::into),
        (-1_000_000..1_000_000i32).prop_map(|v| (f64::from(v) / 256.0).into()),
        any_text().prop_map(Into::into),
    ];
    scalar.prop_recursive(5, 80, 10, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..10).prop_map(serde_json::Value::Array),
            vec((any_text(), inner), 0..6)
                .prop_map(|members| serde_json::Value::Object(members.into_iter().collect())),
        ]
    })
}

fn encode(value: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    Encoder::new(&mut out).value(value);
    out
}

fn to_hessian(json: &[u8], ty: Option<&JavaType>) -> Vec<u8> {
    let mut out = Vec::new();
    let mut reader = JsonReader::new(json, Limits::default());
    json_to_hessian(&mut reader, ty, &mut Encoder::new(&mut out)).unwrap();
    reader.finish().unwrap();
    out
}

fn to_json(hessian: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let opts = JsonOptions { class_name: true, ..Default::default() };
    hessian_to_json(&mut Decoder::new(hessian, Limits::default()), &mut out, &opts).unwrap();
    out
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_value_is_read_as_it_was_written(value in any_value()) {
        let bytes = encode(&value);
        let mut decoder = Decoder::new(&bytes, Limits::default());
        prop_assert_eq!(decoder.read_value().unwrap(), value);
        prop_assert!(decoder.is_at_end());
        prop_assert!(check::decode(&bytes));
        check::to_json(&bytes);
    }

    #[test]
    fn a_value_that_is_cut_is_an_error(value in any_value(), place in any::<prop::sample::Index>()) {
        let bytes = encode(&value);
        let cut = &bytes[..place.index(bytes.len())];
        prop_assert!(Decoder::new(cut, Limits::default()).read_value().is_err());
        prop_assert!(Decoder::new(cut, Limits::default()).skip_value().is_err());
    }

    #[test]
    fn a_byte_that_is_changed_does_no_harm(
        value in any_value(), place in any::<prop::sample::Index>(), byte in any::<u8>(),
    ) {
        let mut bytes = encode(&value);
        let index = place.index(bytes.len());
        bytes[index] = byte;
        check::decode(&bytes);
        check::to_json(&bytes);
    }

    /// Numbers of any length and form.
    #[test]
    fn a_number_keeps_its_value(
        text in "-?(0|[1-9][0-9]{0,30})(\\.[0-9]{1,30})?([eE][+-]?[0-9]{1,4})?",
    ) {
        prop_assert!(check::round_trip(text.as_bytes()));
    }

    #[test]
    fn a_json_value_stays_the_same(value in any_json()) {
        let text = serde_json::to_vec(&value).unwrap();
        let has_class = String::from_utf8_lossy(&text).contains("class");
        prop_assert!(check::round_trip(&text) || has_class);
    }

    /// What is taken for a string at a glance is one for the decoder, to the last byte.
    #[test]
    fn ascii_strings_are_known_at_a_glance(
        tag in prop_oneof![0_u8..=0x1f, 0x30_u8..=0x33, Just(b'S'), Just(b'R'), Just(b'N')],
        rest in vec(prop_oneof![Just(0_u8), 0_u8..0x20, any::<u8>()], 0..40),
        text in "[ -~]{0,1100}",
    ) {
        let limits = Limits { max_len: 1000, ..Limits::default() };
        let bytes = [&[tag][..], &rest].concat();
        let mut decoder = Decoder::new(&bytes, limits);
        let is_string = decoder.read_string().is_ok() && decoder.is_at_end();
        prop_assert!(is_string || !is_ascii_string(&bytes, &limits));
        let mut written = Vec::new();
        write_string(&mut written, &text);
        prop_assert_eq!(is_ascii_string(&written, &limits), text.len() <= 1000);
        written.push(0);
        prop_assert!(!is_ascii_string(&written, &limits));
    }

    #[test]
    fn random_bytes_do_no_harm(bytes in vec(any::<u8>(), 0..200)) {
        check::decode(&bytes);
        check::to_json(&bytes);
        check::from_json(&bytes);
    }

    #[test]
    fn json_goes_to_hessian_and_back_unchanged(value in any_json(), is_pretty in any::<bool>()) {
        let text = if is_pretty {
            serde_json::to_vec_pretty(&value).unwrap()
        } else {
            serde_json::to_vec(&value).unwrap()
        };
        let back = to_json(&to_hessian(&text, None));
        prop_assert_eq!(serde_json::from_slice::<serde_json::Value>(&back).unwrap(), value);
    }

    #[test]
    fn numbers_keep_their_value(number in "-?(0|[1-9][0-9]{0,25})(\\.[0-9]{1,25})?([eE][+-]?[0-9]{1,3})?") {
        let back = to_json(&to_hessian(number.as_bytes(), None));
        prop_assert_eq!(decimal(std::str::from_utf8(&back).unwrap()), decimal(&number));
    }

    #[test]
    fn doubles_keep_all_their_digits(number in any::<f64>()) {
        prop_assume!(number.is_finite());
        let text = format!("{number:?}");
        for ty in [None, Some(&JavaType::Double)] {
            let back = String::from_utf8(to_json(&to_hessian(text.as_bytes(), ty))).unwrap();
            prop_assert_eq!(back.parse::<f64>().unwrap().to_bits(), number.to_bits());
        }
    }

    #[test]
    fn integers_go_through_their_types(value in any::<i64>()) {
        let text = value.to_string();
        for ty in ["long", "java.math.BigInteger", "java.math.BigDecimal", "java.util.Date"] {
            let ty = JavaType::parse(ty).unwrap();
            let opts = JsonOptions {
                dates: hessian::transcode::DateStyle::Millis, ..Default::default()
            };
            let (bytes, mut out) = (to_hessian(text.as_bytes(), Some(&ty)), Vec::new());
            hessian_to_json(&mut Decoder::new(&bytes, Limits::default()), &mut out, &opts).unwrap();
            prop_assert_eq!(String::from_utf8(out).unwrap(), &*text);
        }
    }

    #[test]
    fn json_is_taken_and_refused_as_by_serde(text in "[\\[\\]{}:,\"0-9eE+.a \\\\u-]{0,12}|\\PC{0,10}") {
        let mut reader = JsonReader::new(text.as_bytes(), Limits::default());
        let is_json = reader.skip_value().is_ok() && reader.finish().is_ok();
        match serde_json::from_str::<serde_json::Value>(&text) {
            Ok(_) => prop_assert!(is_json),
            // Only serde_json refuses numbers for their size.
            Err(error) => prop_assert!(!is_json || error.to_string().contains("out of range")),
        }
    }

    #[test]
    fn pojos_come_back_as_they_went(fields in vec(("[a-z]{1,6}", any_json()), 0..8)) {
        let mut object: serde_json::Map<String, serde_json::Value> = fields.into_iter().collect();
        object.remove("class");
        object.remove("name");
        let text = serde_json::to_vec(&object).unwrap();
        let bytes = to_hessian(&text, Some(&JavaType::class("com.acme.Thing")));
        object.insert("class".to_owned(), "com.acme.Thing".into());
        let back: serde_json::Value = serde_json::from_slice(&to_json(&bytes)).unwrap();
        prop_assert_eq!(&back, &serde_json::Value::Object(object));
        // What was an object with its class is one again.
        prop_assert_eq!(to_hessian(&to_json(&bytes), None), bytes);
    }
}

/// A number's digits without zeros at the ends, its sign, and its power of ten.
fn decimal(text: &str) -> (bool, String, i64) {
    let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
    let (is_negative, mantissa) = match mantissa.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, mantissa),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = format!("{whole}{fraction}");
    let front = digits.trim_start_matches('0');
    let power =
        exponent.parse::<i64>().unwrap() + whole.len() as i64 - (digits.len() - front.len()) as i64;
    let digits = front.trim_end_matches('0').to_owned();
    let power = if digits.is_empty() { 0 } else { power };
    (is_negative, digits, power)
}

#[test]
fn limits_hold_before_memory_is_taken() {
    let limits = Limits { max_depth: 3, max_len: 10, max_items: 20 };
    let error = |bytes: &[u8]| {
        let first = Decoder::new(bytes, limits).read_value().unwrap_err();
        let second = Decoder::new(bytes, limits).skip_value().unwrap_err();
        assert_eq!(first, second);
        first
    };
    let nested = (0..4).fold(Value::Null, |inner, _| Value::list(vec![inner]));
    assert!(matches!(error(&encode(&nested)), HessianError::TooDeep { max: 3, .. }));
    assert!(matches!(error(&encode(&Value::string("01234567890"))), HessianError::TooLong { .. }));
    assert!(matches!(error(&encode(&Value::Binary(vec![0; 11]))), HessianError::TooLong { .. }));
    let wide = Value::list(vec![Value::Null; 21]);
    assert!(matches!(error(&encode(&wide)), HessianError::TooManyItems { .. }));
    // Lists, classes and chunks that announce more than there is.
    assert!(matches!(error(b"\x58I\x7f\xff\xff\xffN"), HessianError::Length { .. }));
    assert!(matches!(error(b"\x58I\xff\xff\xff\xffN"), HessianError::Length { .. }));
    assert!(matches!(error(b"C\x01aI\x7f\xff\xff\xff"), HessianError::Length { .. }));
    assert!(matches!(error(b"O\x90"), HessianError::ClassIndex { .. }));
    assert!(matches!(error(b"Q\x90"), HessianError::RefIndex { .. }));
    assert!(matches!(error(b"M\x90Z"), HessianError::TypeIndex { .. }));
}

#[test]
fn references_that_repeat_references_are_bounded() {
    // Each list holds the one before it twice: 2^60 values in 200 bytes.
    let mut lists = vec![Value::list(vec![Value::string("boom")])];
    for index in 1..60 {
        lists.push(Value::list(vec![Value::Ref(index), Value::Ref(index)]));
    }
    let bytes = encode(&Value::list(lists));
    for opts in [JsonOptions { max_out_len: 1 << 16, ..Default::default() }, JsonOptions::default()]
    {
        let mut out = Vec::new();
        let mut decoder = Decoder::new(&bytes, Limits::default());
        assert!(hessian_to_json(&mut decoder, &mut out, &opts).is_err());
        assert!(out.len() <= opts.max_out_len + 100);
    }
}
