//! Tests of JSON to Hessian by type. tests/vectors.rs has the other direction, on Java's bytes,
//! and examples/java_check.rs lets Java read what comes out here.

use super::*;
use crate::{Decoder, Encoder, JavaType, Limits, Value};
use java_json::json::{JsonReader, path_at};

fn transcode(ty: &str, json: &str) -> Result<Value, TranscodeError> {
    let ty = JavaType::parse(ty).unwrap();
    let mut out = Vec::new();
    let mut reader = JsonReader::new(json.as_bytes(), Limits::default());
    json_to_hessian(&mut reader, Some(&ty), &mut Encoder::new(&mut out))?;
    reader.finish()?;
    let mut decoder = Decoder::new(&out, Limits::default());
    let value = decoder.read_value().unwrap();
    assert!(decoder.is_at_end());
    Ok(value)
}

fn typed(ty: &str, items: Vec<Value>) -> Value {
    Value::List { ty: Some(ty.into()), items }
}

#[test]
fn scalars_by_their_type() {
    for (ty, json, expected) in [
        ("boolean", "true", Value::Bool(true)),
        ("java.lang.Boolean", "\"false\"", Value::Bool(false)),
        ("byte", "-128", Value::Int(-128)),
        ("short", "3e2", Value::Int(300)),
        ("int", "\"7\"", Value::Int(7)),
        ("long", "7", Value::Long(7)),
        ("long", "9007199254740993.0", Value::Long(9_007_199_254_740_993)),
        ("java.lang.Integer", r#"{"class":"java.lang.Integer","value":7}"#, Value::Int(7)),
        ("java.lang.Long", "\"9007199254740993\"", Value::Long(9_007_199_254_740_993)),
        ("float", "99.8", Value::Double(99.8)),
        ("double", "1", Value::Double(1.0)),
        ("double", "\"-Infinity\"", Value::Double(f64::NEG_INFINITY)),
        ("char", "\"中\"", Value::string("中")),
        ("java.lang.String", "1.50", Value::string("1.50")),
        ("java.lang.String", "true", Value::string("true")),
        ("java.util.Date", "\"1970-01-01T00:00:01Z\"", Value::Date(1000)),
        ("java.util.Date", "1000", Value::Date(1000)),
        ("java.lang.Object", "1", Value::Int(1)),
        ("byte[]", "\"AQI=\"", Value::Binary(vec![1, 2])),
        ("byte[]", "\"AQI\"", Value::Binary(vec![1, 2])),
        ("byte[]", "[1,-1,255]", Value::Binary(vec![1, 255, 255])),
        ("char[]", "[\"a\",\"b\"]", Value::string("ab")),
        ("java.util.List", "null", Value::Null),
        ("com.acme.Order", "null", Value::Null),
        ("java.util.Optional<java.lang.Long>", "null", Value::Null),
        (
            "java.util.concurrent.atomic.AtomicBoolean",
            "true",
            Value::object(
                "java.util.concurrent.atomic.AtomicBoolean",
                vec![("value", Value::Int(1))],
            ),
        ),
        (
            "com.acme.Color",
            "\"RED\"",
            Value::object("com.acme.Color", vec![("name", Value::string("RED"))]),
        ),
    ] {
        assert_eq!(transcode(ty, json), Ok(expected), "{ty} {json}");
    }
}

#[test]
fn containers_by_their_type() {
    let ints = || vec![Value::Long(1), Value::Long(2)];
    assert_eq!(transcode("long[]", "[1,2]"), Ok(typed("[long", ints())));
    assert_eq!(transcode("java.util.List<java.lang.Long>", "[1,2]"), Ok(Value::list(ints())));
    assert_eq!(
        transcode("java.util.Set<java.lang.Long>", "[1,2]"),
        Ok(typed("java.util.LinkedHashSet", ints()))
    );
    assert_eq!(
        transcode("long[][]", "[[1,2],[]]"),
        Ok(typed("[[long", vec![typed("[long", ints()), typed("[long", vec![])]))
    );
    let entries = vec![(Value::Int(1), Value::object("a.B", vec![("x", Value::Double(1.5))]))];
    assert_eq!(
        transcode("java.util.Map<java.lang.Integer, a.B>", r#"{"1":{"x":1.5}}"#),
        Ok(Value::map(entries)),
    );
    let keys = vec![(Value::object("a.Color", vec![("name", Value::string("RED"))]), Value::Null)];
    assert_eq!(transcode("java.util.Map<a.Color, a.B>", r#"{"RED":null}"#), Ok(Value::map(keys)));
}

#[test]
fn the_member_class_decides() {
    let dog = Value::object("a.Dog", vec![("age", Value::Int(1))]);
    for ty in ["a.Animal", "java.lang.Object"] {
        assert_eq!(transcode(ty, r#"{"age":1,"class":"a.Dog"}"#), Ok(dog.clone()));
    }
    let tree = Value::Map {
        ty: Some("java.util.TreeMap".into()),
        entries: vec![(Value::string("k"), Value::Int(1))],
    };
    let json = r#"{"class":"java.util.TreeMap","k":1}"#;
    assert_eq!(transcode("java.util.Object", json), Ok(tree));
    let json = r#"{"class":"java.util.Date","value":"1970-01-01"}"#;
    assert_eq!(transcode("java.lang.Object", json), Ok(Value::Date(0)));
    let json = r#"{"class":"[I","value":[1]}"#;
    assert_eq!(transcode("java.lang.Object", json), Ok(typed("[int", vec![Value::Int(1)])));
    let json = r#"{"class":"int[]","value":[1]}"#;
    assert_eq!(transcode("java.lang.Object", json), Ok(typed("[int", vec![Value::Int(1)])));
    let json = r#"{"class":"long","value":1}"#;
    assert_eq!(transcode("java.lang.Object", json), Ok(Value::Long(1)));
    // `I` could be the descriptor of int, but an object has a class.
    let json = r#"{"class":"I","value":1}"#;
    let expected = Value::object("I", vec![("value", Value::Int(1))]);
    assert_eq!(transcode("java.lang.Object", json), Ok(expected));
    // A member of that name that is no string is a member like any other.
    let json = r#"{"class":7}"#;
    assert_eq!(transcode("a.B", json), Ok(Value::object("a.B", vec![("class", Value::Int(7))])));
    for name in ["", "a b<c", "java.util.HashMap<Integer,Object>", "a..B", "1a.B", "a.1B"] {
        let error = transcode("java.lang.Object", &format!(r#"{{"class":"{name}"}}"#)).unwrap_err();
        let message = format!("JSON at byte 0: \"{name}\" is not the name of a class");
        assert!(error.to_string().starts_with(&message), "{error}");
    }
}

/// A map says of which types its keys and values are, around its entries or beside them.
#[test]
fn a_map_may_name_the_types_of_its_entries() {
    let class = "java.util.TreeMap<java.lang.Integer, java.lang.Long>";
    let tree = |entries| Value::Map { ty: Some("java.util.TreeMap".into()), entries };
    let expected = tree(vec![(Value::Int(7), Value::Long(1))]);
    for json in [
        format!(r#"{{"class":"{class}","7":1}}"#),
        format!(r#"{{"class":"{class}","value":{{"7":1}}}}"#),
    ] {
        assert_eq!(transcode("java.lang.Object", &json), Ok(expected.clone()), "{json}");
    }
    // There is a key `class` where the map is around, and an entry `value` where it is none.
    let json =
        r#"{"class":"java.util.HashMap<java.lang.String,java.lang.Object>","value":{"class":"x"}}"#;
    let expected = Value::map(vec![(Value::string("class"), Value::string("x"))]);
    assert_eq!(transcode("java.lang.Object", json), Ok(expected));
    let json = r#"{"class":"java.util.TreeMap","value":{"a":1}}"#;
    let inside = Value::map(vec![(Value::string("a"), Value::Int(1))]);
    let expected = tree(vec![(Value::string("value"), inside)]);
    assert_eq!(transcode("java.lang.Object", json), Ok(expected));
    let json = format!(r#"{{"class":"{class}","x":1}}"#);
    let error = transcode("java.lang.Object", &json).unwrap_err().to_string();
    assert!(error.contains("\"x\" is not an int (a whole number from"), "{error}");
}

#[test]
fn objects_inside_objects_are_found_again() {
    // Members before, between and after what is inside, at several levels, so that every way to
    // pass over what was seen is taken.
    let json =
        r#"{"a":{"b":{"c":[{"d":1},{"class":"x.Y","e":{}}],"f":2},"g":[[],{}]},"h":{"i":3}}"#;
    let text = |json: &str, ty: &str| {
        let (mut out, mut hessian) = (Vec::new(), Vec::new());
        let mut reader = JsonReader::new(json.as_bytes(), Limits::default());
        let ty = JavaType::parse(ty).unwrap();
        json_to_hessian(&mut reader, Some(&ty), &mut Encoder::new(&mut hessian)).unwrap();
        let opts = JsonOptions { class_name: true, ..JsonOptions::default() };
        hessian_to_json(&mut Decoder::new(&hessian, Limits::default()), &mut out, &opts).unwrap();
        String::from_utf8(out).unwrap()
    };
    assert_eq!(text(json, "t.T"), json.replacen('{', r#"{"class":"t.T","#, 1));
    assert_eq!(text(json, "java.lang.Object"), json);
}

/// Objects of one class with other members, in another order, with fewer, more, `class` among
/// them.
#[test]
fn objects_of_one_class_may_differ() {
    let objects = [
        r#"{"a":1,"b":{"c":[1]}}"#,
        r#"{"a":2,"b":null}"#,
        r#"{"b":3,"a":[{"x":1}]}"#,
        r#"{"a":4}"#,
        r#"{"a":5,"b":1,"c":2}"#,
        r#"{"a":6,"b":{"class":"t.U","z":0}}"#,
        r#"{"a":7,"class":"t.V","b":1}"#,
        r#"{"\u0061":8,"b":1}"#,
        "{}",
        r#"{ "a" : 9 , "b" : "é" }"#,
    ];
    let ty = JavaType::parse("java.util.List<t.T>").unwrap();
    // More of them than may be written in vain.
    for n in [1, 2, 10] {
        let text = format!("[{}]", vec![objects.join(","); n].join(","));
        let Ok(Value::List { items, .. }) = transcode(&ty.to_string(), &text) else {
            panic!("no list");
        };
        assert_eq!(items.len(), n * objects.len());
        for (item, text) in items.iter().zip(objects.iter().cycle()) {
            assert_eq!(Some(item), transcode("t.T", text).ok().as_ref(), "{text}");
        }
    }
    for (text, offset) in [
        (r#"[{"a":1},{"a":x}]"#, 14),
        (r#"[{"a":1},{"a" 1}]"#, 14),
        (r#"[{"a":1},{"a":1"#, 15),
        (r#"[{"a":1},{"a":1,}]"#, 16),
        (r#"[{"a":1},{"#, 10),
    ] {
        assert_eq!(transcode("t.T[]", text).unwrap_err().offset(), offset, "{text}");
    }
}

/// More classes than are remembered, with more fields than names are prepared for, each twice and
/// the second time with other values.
#[test]
fn many_classes_of_many_fields_come_back() {
    const N_CLASSES: usize = 20;
    struct Classes(Vec<JavaType>);
    impl Schema for Classes {
        fn field_type(&self, class: &str, field: &str) -> Option<&JavaType> {
            let index = field.strip_prefix("of").filter(|_| class == "t.Root")?;
            self.0.get(index.parse::<usize>().ok()?)
        }
    }
    let members = |n: usize, names: &str, value: &dyn Fn(usize) -> String| {
        let members: Vec<_> = (0..n).map(|n| format!("\"{names}{n}\":{}", value(n))).collect();
        format!("{{{}}}", members.join(","))
    };
    let object = |first: usize| members(300, "f", &|n| (first + n).to_string());
    let text = members(N_CLASSES, "of", &|n| format!("[{},{}]", object(n), object(1000 * (n + 1))));
    let class = |n| JavaType::parse(&format!("java.util.List<t.C{n}>")).unwrap();
    let schema = Classes((0..N_CLASSES).map(class).collect());
    let (mut hessian, mut json) = (Vec::new(), Vec::new());
    let mut reader = JsonReader::new(text.as_bytes(), Limits::default());
    let (ty, mut encoder) = (JavaType::class("t.Root"), Encoder::new(&mut hessian));
    json_to_hessian_with(&mut reader, Some(&ty), &mut encoder, &schema).unwrap();
    let mut decoder = Decoder::new(&hessian, Limits::default());
    hessian_to_json(&mut decoder, &mut json, &JsonOptions::default()).unwrap();
    assert_eq!(String::from_utf8(json).unwrap(), text);
}

/// Each object says only at its end that it is of another class, so that all inside it was written
/// in vain. Without a bound that would be twice as much with each level.
#[test]
fn what_is_written_in_vain_is_bounded() {
    const DEPTH: usize = 31;
    /// The types of the fields, by their names, and how often they were asked for.
    struct Counting(Vec<JavaType>, std::cell::Cell<usize>);
    impl Schema for Counting {
        fn field_type(&self, _class: &str, field: &str) -> Option<&JavaType> {
            self.1.update(|n| n + 1);
            self.0.get(field.parse::<usize>().ok()?)
        }
    }
    let (mut text, mut expected) = ("null".to_owned(), Value::Null);
    for n in (1..=DEPTH).rev() {
        text = format!(r#"{{"{n}":{text},"class":"t.U{n}"}}"#);
        expected = Value::object(&format!("t.U{n}"), vec![(&*n.to_string(), expected)]);
    }
    // Of a class of its own at each level: one whose definition is begun is not begun again.
    let types = (0..=DEPTH).map(|n| JavaType::class(&format!("t.T{n}"))).collect();
    let schema = Counting(types, std::cell::Cell::default());
    let (mut out, ty) = (Vec::new(), JavaType::class("t.T"));
    let mut reader = JsonReader::new(text.as_bytes(), Limits::default());
    json_to_hessian_with(&mut reader, Some(&ty), &mut Encoder::new(&mut out), &schema).unwrap();
    assert_eq!(Decoder::new(&out, Limits::default()).read_value(), Ok(expected));
    let n_looked_up = schema.1.get();
    assert!(n_looked_up < 2 * DEPTH * DEPTH, "{n_looked_up} fields");
}

/// Objects that are written while they are read, and what has to be taken back: the same bytes, or
/// the same error, as if each had been looked through first.
#[test]
fn short_cuts_change_nothing() {
    let node = r#"{"class":"t.T","a":1,"b":null}"#;
    for json in [
        r#"{"a":1,"b":[{"c":1},{"c":2}],"d":{"e":{}}}"#.to_owned(),
        // The class of the outer object inside of it, with its members and with others.
        format!(r#"{{"a":{node},"b":[{node}]}}"#),
        format!(r#"{{"b":{node},"a":{{"class":"t.T","a":1}}}}"#),
        format!(r#"[{{"a":{node},"b":1}},{node}]"#),
        r#"[{"a":1,"b":{"class":"java.util.TreeSet","value":[1]}},{"a":"x","b":2.5}]"#.to_owned(),
        r#"{"a":{"class":"[I","value":[1,2]},"b":{"class":"[I","value":[3]}}"#.to_owned(),
        r#"{"a":1,"class":"t.U","b":2}"#.to_owned(),
        r#"{"a":1,"b":tru}"#.to_owned(),
        r#"{"a":{"class":""},"b":x}"#.to_owned(),
        r#"{"a":1,"a":2,"\u0062":3,"":true}"#.to_owned(),
        r#"{"a":"1234567890123456789012345678901","b":"12345678901234567890123456789012"}"#.into(),
        r#"[1,-1,2147483648,1.5,true,false,null,"x","é",[],{},1e5,0.10]"#.to_owned(),
        r#"{"k":1,"l":"x","m":{"n":null},"o":[1,"a",[2]],"é":1,"p":-0,"q":9007199254740993}"#
            .into(),
    ] {
        for cut in (0..=json.len()).filter(|&cut| json.is_char_boundary(cut)) {
            for ty in [
                "t.T",
                "java.util.List<t.T>",
                "java.util.Map<java.lang.String,long>",
                "java.lang.Object",
            ] {
                crate::check::from_json(format!("{ty}\n{}", &json[..cut]).as_bytes());
            }
        }
    }
}

#[test]
fn fields_take_the_types_of_a_schema() {
    struct Orders(JavaType);
    impl Schema for Orders {
        fn field_type(&self, class: &str, field: &str) -> Option<&JavaType> {
            (class == "a.Order" && field == "at").then_some(&self.0)
        }
    }
    let schema = Orders(JavaType::class("java.util.Date"));
    let (mut out, ty) = (Vec::new(), JavaType::class("a.Order"));
    let mut reader = JsonReader::new(br#"{"at":0,"id":0}"#, Limits::default());
    json_to_hessian_with(&mut reader, Some(&ty), &mut Encoder::new(&mut out), &schema).unwrap();
    let expected = Value::object("a.Order", vec![("at", Value::Date(0)), ("id", Value::Int(0))]);
    assert_eq!(Decoder::new(&out, Limits::default()).read_value(), Ok(expected));
}

/// Java's float fields arrive as doubles; the schema tells them.
#[test]
fn fields_that_are_floats_have_the_digits_of_floats() {
    struct Goods([JavaType; 2]);
    impl Schema for Goods {
        fn field_type(&self, class: &str, field: &str) -> Option<&JavaType> {
            let index = ["price", "sizes"].iter().position(|&name| name == field)?;
            (class == "a.Good").then(|| &self.0[index])
        }
    }
    let sizes = JavaType::parse("java.util.List<java.lang.Float>").unwrap();
    let schema = Goods([JavaType::Float, sizes]);
    let double = || Value::Double(f64::from(99.8_f32));
    let fields = vec![
        ("name", Value::string("x")),
        ("price", double()),
        ("sizes", Value::list(vec![double()])),
        ("weight", double()),
    ];
    let good = Value::object("a.Good", fields);
    let (mut hessian, mut out) = (Vec::new(), Vec::new());
    Encoder::new(&mut hessian).value(&Value::list(vec![good.clone(), good]));
    let mut decoder = Decoder::new(&hessian, Limits::default());
    hessian_to_json_with(&mut decoder, None, &mut out, &JsonOptions::default(), &schema).unwrap();
    let one = r#"{"name":"x","price":99.8,"sizes":[99.8],"weight":99.80000305175781}"#;
    assert_eq!(String::from_utf8(out).unwrap(), format!("[{one},{one}]"));
}

/// What Java takes for null instead: texts and keys that are no value of an enum, and its long
/// form.
#[test]
fn an_enum_has_the_values_of_a_schema() {
    struct Colors([Box<str>; 2]);
    impl Schema for Colors {
        fn field_type(&self, _class: &str, _field: &str) -> Option<&JavaType> {
            None
        }

        fn enum_names(&self, class: &str) -> Option<&[Box<str>]> {
            (class == "a.Color").then_some(&self.0)
        }

        fn is_enum(&self, class: &str) -> Option<bool> {
            (class == "a.Color").then_some(true)
        }
    }
    let schema = Colors(["RED", "BLUE"].map(Into::into));
    let check = |ty: &str, json: &str| {
        let (mut out, ty) = (Vec::new(), JavaType::parse(ty).unwrap());
        let mut reader = JsonReader::new(json.as_bytes(), Limits::default());
        json_to_hessian_with(&mut reader, Some(&ty), &mut Encoder::new(&mut out), &schema)
            .map_err(|error| error.to_string())?;
        Ok::<_, String>(out)
    };
    let red = check("a.Color", "\"RED\"").unwrap();
    for (ty, json) in [
        ("a.Color", r#"{"name":"RED"}"#),
        ("a.Color", r#"{"class":"a.Color","name":"RED"}"#),
        ("a.Color", r#"{"class":"a.Color","value":"RED"}"#),
        ("a.Color", r#"{"name":"RED","class":"a.Color$1"}"#),
        ("java.lang.Object", r#"{"class":"a.Color","value":"RED"}"#),
        ("a.Shade", r#"{"class":"a.Color","value":"RED"}"#),
    ] {
        assert_eq!(check(ty, json).as_ref(), Ok(&red), "{ty} {json}");
    }
    let check = |ty: &str, json: &str| check(ty, json).map(drop);
    for (ty, json) in [
        ("a.Color", "\"RED\""),
        ("a.Color[]", "[null,\"BLUE\"]"),
        ("java.util.Map<a.Color,a.Color>", "{\"RED\":\"BLUE\"}"),
        ("a.Color", r#"{"class":"a.Color","name":"RED"}"#),
        ("a.Other", "\"PURPLE\""),
    ] {
        assert_eq!(check(ty, json), Ok(()), "{ty} {json}");
    }
    for (ty, json, offset) in [
        ("a.Color", "\"PURPLE\"", 0),
        ("a.Color", "\"red\"", 0),
        ("a.Color[]", "[\"RED\", \"PURPLE\"]", 8),
        ("java.util.Map<a.Color,a.B>", "{\"PURPLE\":null}", 10),
        ("java.lang.Object", r#"{"class":"a.Color","name":"PURPLE"}"#, 26),
        ("a.Color", r#"{"name":"PURPLE"}"#, 8),
        ("a.Color", r#"{"class":"a.Color","value":"PURPLE"}"#, 27),
        ("a.Color", "{}", 0),
        ("a.Color[]", r#"[{"name":"RED"},{"x":1}]"#, 16),
        ("a.Color", r#"{"name":"RED","x":1}"#, 0),
        ("a.Color", r#"{"name":5}"#, 0),
        ("a.Color", r#"{"value":"RED"}"#, 0),
        ("a.Color", r#"{"class":"java.lang.Integer","value":5}"#, 0),
        ("a.Color", r#"{"class":"a.Op","name":"RED"}"#, 0),
    ] {
        let error = check(ty, json).unwrap_err();
        assert!(error.starts_with(&format!("JSON at byte {offset}: ")), "{ty} {json}: {error}");
        assert!(error.ends_with(" is not a value of a.Color (RED, BLUE)"), "{error}");
    }
}

/// Dubbo makes an `OptionalInt` of a map that does not name it, where it is declared.
#[test]
fn a_number_is_an_optional_number() {
    let write = |ty: &str, json: &str, as_maps| {
        let (mut out, ty) = (Vec::new(), JavaType::parse(ty).unwrap());
        let options = InputOptions { as_maps, ..InputOptions::default() };
        let mut reader = JsonReader::new(json.as_bytes(), Limits::default());
        json_to_hessian_by(&mut reader, Some(&ty), &mut Encoder::new(&mut out), &options)
            .map_err(|error| error.to_string())?;
        Ok::<_, String>(out)
    };
    for (class, json, object) in [
        ("java.util.OptionalInt", "7", r#"{"isPresent":true,"value":7}"#),
        ("java.util.OptionalInt", "\"7\"", r#"{"isPresent":true,"value":7}"#),
        ("java.util.OptionalLong", "7", r#"{"isPresent":true,"value":{"class":"long","value":7}}"#),
        ("java.util.OptionalDouble", "7", r#"{"isPresent":true,"value":7.0}"#),
    ] {
        assert_eq!(write(class, json, true), write("java.util.Map", object, false), "{class}");
        assert_eq!(write(class, json, false), write(class, object, false), "{class}");
    }
    assert_eq!(write("java.util.OptionalInt", "null", true), Ok(b"N".into()));
    for json in ["7.5", "3000000000", "\"x\"", "true", "[7]"] {
        write("java.util.OptionalInt", json, true).unwrap_err();
    }
}

/// Dubbo 2 takes a map for null that has an object as a key of which it cannot make a constant.
#[test]
fn a_key_of_a_generic_call_is_the_map_of_a_constant() {
    let write = |ty: &str, json: &str| {
        let (mut out, ty) = (Vec::new(), JavaType::parse(ty).unwrap());
        let options = InputOptions { as_maps: true, ..InputOptions::default() };
        let mut reader = JsonReader::new(json.as_bytes(), Limits::default());
        json_to_hessian_by(&mut reader, Some(&ty), &mut Encoder::new(&mut out), &options).unwrap();
        out
    };
    let map = write("java.util.Map<a.Color,int>", r#"{"RED":7}"#);
    let key = write("a.Color", "\"RED\"");
    assert_eq!(map, [b"H", &key[..], b"\x97Z"].concat());
}

/// Dubbo 2 takes the whole argument for null that has another text in an `EnumSet`.
#[test]
fn an_enum_set_of_a_generic_call_has_listed_constants_alone() {
    struct Colors([Box<str>; 2]);
    impl Schema for Colors {
        fn field_type(&self, _class: &str, _field: &str) -> Option<&JavaType> {
            None
        }

        fn enum_names(&self, class: &str) -> Option<&[Box<str>]> {
            (class == "a.Color").then_some(&self.0)
        }

        /// As where the provider knows best.
        fn takes_constant(&self, _class: &str, _name: &str) -> bool {
            true
        }
    }
    let schema = &Colors(["RED", "BLUE"].map(Into::into));
    let write = |ty: &str, json: &str| {
        let ty = JavaType::parse(ty).unwrap();
        let options = InputOptions { schema, as_maps: true, ..InputOptions::default() };
        let mut reader = JsonReader::new(json.as_bytes(), Limits::default());
        json_to_hessian_by(&mut reader, Some(&ty), &mut Encoder::new(&mut Vec::new()), &options)
    };
    write("java.util.EnumSet<a.Color>", r#"["RED",null,"BLUE"]"#).unwrap();
    write("java.util.EnumSet<a.Other>", r#"["PURPLE"]"#).unwrap();
    write("java.util.List<a.Color>", r#"["PURPLE"]"#).unwrap();
    let error = write("java.util.EnumSet<a.Color>", r#"["RED", "PURPLE"]"#).unwrap_err();
    assert_eq!(
        error.to_string(),
        "JSON at byte 8: \"PURPLE\" is not a value of a.Color (RED, BLUE)"
    );
}

/// In a generic call a provider would say that a `HashMap` is none.
#[test]
fn no_enum_map_is_written_into_a_generic_call() {
    let write = |json: &str, as_maps| {
        let ty = JavaType::parse("java.util.EnumMap<a.Color,java.lang.Integer>").unwrap();
        let options = InputOptions { as_maps, ..InputOptions::default() };
        let mut reader = JsonReader::new(json.as_bytes(), Limits::default());
        json_to_hessian_by(&mut reader, Some(&ty), &mut Encoder::new(&mut Vec::new()), &options)
    };
    for json in ["{}", r#"{"RED":1}"#, r#"{"class":"java.util.HashMap","RED":1}"#] {
        // An HTTP app reads it.
        write(json, false).unwrap();
        let error = write(json, true).unwrap_err().to_string();
        assert!(error.contains("a java.util.EnumMap: by hessian2"), "{error}");
    }
    write("null", true).unwrap();
}

/// A class that is known to be no enum would get its field `name` set, and no error.
#[test]
fn a_text_is_no_object_of_a_class_with_fields() {
    struct Beans;
    impl Schema for Beans {
        fn field_type(&self, _class: &str, _field: &str) -> Option<&JavaType> {
            None
        }

        fn is_bean(&self, class: &str) -> bool {
            class == "a.Person"
        }
    }
    let check = |ty: &str, json: &str| {
        let (mut out, ty) = (Vec::new(), JavaType::parse(ty).unwrap());
        let mut reader = JsonReader::new(json.as_bytes(), Limits::default());
        json_to_hessian_with(&mut reader, Some(&ty), &mut Encoder::new(&mut out), &Beans)
            .map_err(|error| error.to_string())
    };
    for (ty, json, offset) in [
        ("a.Person", "\"x\"", 0),
        ("java.util.List<a.Person>", "[{}, \"x\"]", 5),
        ("java.util.Map<a.Person,int>", "{\"x\":1}", 5),
        ("java.lang.Object", r#"{"class":"java.util.ArrayList<a.Person>","value":["x"]}"#, 50),
    ] {
        let error =
            format!("JSON at byte {offset}: \"x\" is not an object of a.Person, which is no enum");
        assert_eq!(check(ty, json), Err(error), "{ty} {json}");
    }
    for (ty, json) in [
        ("a.Person", r#"{"name":"x"}"#),
        ("a.Person", r#"{"class":"a.Person","name":"x"}"#),
        ("a.Other", "\"x\""),
        ("a.Person", "null"),
    ] {
        assert_eq!(check(ty, json), Ok(()), "{ty} {json}");
    }
}

/// Java makes of a double a decimal without its zeros, and of a large number one of 64 bits.
#[test]
fn numbers_in_a_generic_call_are_none_that_java_changes() {
    let write = |json: &str| {
        let mut out = Vec::new();
        let mut reader = JsonReader::new(json.as_bytes(), Limits::default());
        let options = InputOptions { as_maps: true, ..InputOptions::default() };
        json_to_hessian_by(&mut reader, None, &mut Encoder::new(&mut out), &options)
            .map_err(|error| error.to_string())?;
        Ok::<_, String>(Decoder::new(&out, Limits::default()).read_value().unwrap())
    };
    let decimal =
        |text| Value::object("java.math.BigDecimal", vec![("value", Value::string(text))]);
    let expected = vec![
        decimal("19.90"),
        Value::Double(19.9),
        Value::Int(7),
        decimal("-1.00"),
        Value::map(vec![(Value::string("1.10"), decimal("1.10"))]),
    ];
    let json = r#"[19.90,19.9,7,-1.00,{"1.10":1.10}]"#;
    assert_eq!(write(json), Ok(Value::list(expected.clone())));
    let json = r#"[ 19.90, 19.9, 7, -1.00, { "1.10": 1.10 } ]"#;
    assert_eq!(write(json), Ok(Value::list(expected)));
    assert_eq!(write("19.90"), Ok(decimal("19.90")));
    let json = r#"{"class":"java.util.List<java.lang.Object>","value":[1.50]}"#;
    assert_eq!(write(json), Ok(Value::list(vec![decimal("1.50")])));
    for (json, offset) in [("18446744073709551617", 0), ("[1, -9223372036854775809]", 4)] {
        let error = write(json).unwrap_err();
        assert!(error.starts_with(&format!("JSON at byte {offset}: ")), "{error}");
        assert!(error.contains("is not a number that a generic call can carry"), "{error}");
    }
    // Java would take the map for an object, or not find its class.
    for name in ["class", "cl\\u0061ss"] {
        let of = "java.util.HashMap<java.lang.String, java.lang.Object>";
        let json = format!(r#"{{"class":"{of}","value":{{"a":{{"{name}":7}},"{name}":"x"}}}}"#);
        let error = write(&json).unwrap_err();
        assert!(error.contains("\"x\" is not a value that an entry named class can"), "{error}");
    }
    let json = r#"{"class":"java.math.BigInteger","value":18446744073709551617}"#;
    assert!(write(json).is_ok() && write("9223372036854775807") == Ok(Value::Long(i64::MAX)));
}

/// What `class=yes` writes is the same value when it is sent in again: maps keep the types of
/// their keys, and an entry named `class` is one.
#[test]
fn maps_with_their_classes_can_be_sent_in_again() {
    let object =
        |class: &str, field: &'static str, value| Value::object(class, vec![(field, value)]);
    let date = |day| {
        let fields =
            vec![("year", Value::Int(2024)), ("month", Value::Int(2)), ("day", Value::Int(day))];
        Value::object("com.alibaba.com.caucho.hessian.io.java8.LocalDateHandle", fields)
    };
    let tree = |entries| Value::Map { ty: Some("java.util.TreeMap".into()), entries };
    let one = || Value::string("x");
    for (value, json) in [
        (
            Value::map(vec![(Value::Int(1), one()), (Value::Int(2), Value::Null)]),
            r#"{"class":"java.util.HashMap<java.lang.Integer, java.lang.Object>","value":{"1":"x","2":null}}"#,
        ),
        (
            tree(vec![(Value::Long(1), tree(vec![(Value::Bool(true), one())]))]),
            r#"{"class":"java.util.TreeMap<java.lang.Long, java.lang.Object>","value":{"1":{"class":"java.util.TreeMap<java.lang.Boolean, java.lang.Object>","value":{"true":"x"}}}}"#,
        ),
        (
            Value::map(vec![(Value::Double(f64::INFINITY), one())]),
            r#"{"class":"java.util.HashMap<java.lang.Double, java.lang.Object>","value":{"Infinity":"x"}}"#,
        ),
        (
            Value::map(vec![(Value::Date(0), one())]),
            r#"{"class":"java.util.HashMap<java.util.Date, java.lang.Object>","value":{"1970-01-01T00:00:00.000Z":"x"}}"#,
        ),
        (
            Value::map(vec![(object("a.Color", "name", Value::string("RED")), one())]),
            r#"{"class":"java.util.HashMap<a.Color, java.lang.Object>","value":{"RED":"x"}}"#,
        ),
        (
            Value::map(vec![(date(28), one()), (date(29), one())]),
            r#"{"class":"java.util.HashMap<java.time.LocalDate, java.lang.Object>","value":{"2024-02-28":"x","2024-02-29":"x"}}"#,
        ),
        (
            Value::map(vec![(
                object("java.math.BigDecimal", "value", Value::string("1.10")),
                one(),
            )]),
            r#"{"class":"java.util.HashMap<java.math.BigDecimal, java.lang.Object>","value":{"1.10":"x"}}"#,
        ),
        (
            Value::map(vec![(Value::string("class"), one()), (Value::string("b"), Value::Int(1))]),
            r#"{"class":"java.util.HashMap<java.lang.String, java.lang.Object>","value":{"class":"x","b":1}}"#,
        ),
        (
            tree(vec![(Value::string("class"), one())]),
            r#"{"class":"java.util.TreeMap<java.lang.String, java.lang.Object>","value":{"class":"x"}}"#,
        ),
        // No such member has to be told apart here.
        (Value::map(vec![(Value::string("class"), Value::Int(1))]), r#"{"class":1}"#),
        (Value::map(vec![(Value::string("value"), Value::map(vec![]))]), r#"{"value":{}}"#),
        (
            tree(vec![(Value::string("value"), one())]),
            r#"{"class":"java.util.TreeMap","value":"x"}"#,
        ),
        (tree(vec![]), r#"{"class":"java.util.TreeMap"}"#),
    ] {
        let mut hessian = Vec::new();
        Encoder::new(&mut hessian).value(&value);
        let opts = JsonOptions::parse("class=yes").unwrap();
        let mut out = Vec::new();
        hessian_to_json(&mut Decoder::new(&hessian, Limits::default()), &mut out, &opts).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), json);
        assert_eq!(transcode("java.lang.Object", json), Ok(value.clone()), "{json}");
        // Also where a map is declared: there a `class` of another name is a key.
        if json.starts_with("{\"class\":\"") {
            assert_eq!(transcode("java.util.Map", json), Ok(value), "{json}");
        }
    }
    let json = r#"{"class":"java.util.HashMap<java.lang.Long, java.lang.Object>","value":{"1":2}}"#;
    let short = "java.util.Map<java.lang.Short,java.lang.Short>";
    let expected = Value::map(vec![(Value::Int(1), Value::Int(2))]);
    assert_eq!(transcode(short, json), Ok(expected));
    assert!(transcode(short, &json.replace("\"1\":2", "\"1\":70000")).is_err());
    let expected = Value::map(vec![(Value::string("class"), Value::string("a.B"))]);
    assert_eq!(transcode("java.util.Map", r#"{"class":"a.B"}"#), Ok(expected));
    // Keys of several classes are texts, and so are objects.
    for keys in
        [vec![Value::Int(1), one()], vec![object("a.B", "x", Value::Null)], vec![Value::Null]]
    {
        let value = Value::map(keys.into_iter().map(|key| (key, Value::Null)).collect());
        let (mut hessian, mut out) = (Vec::new(), Vec::new());
        Encoder::new(&mut hessian).value(&value);
        let opts = JsonOptions::parse("class=yes").unwrap();
        hessian_to_json(&mut Decoder::new(&hessian, Limits::default()), &mut out, &opts).unwrap();
        assert!(!out.starts_with(b"{\"class\""), "{}", String::from_utf8_lossy(&out));
    }
}

/// What `class=yes` writes is the same number when it is sent in again, in a typed call and in a
/// generic one.
#[test]
fn numbers_can_be_sent_in_again() {
    struct Prices(JavaType);
    impl Schema for Prices {
        fn field_type(&self, class: &str, field: &str) -> Option<&JavaType> {
            (class == "a.Known" && field == "price").then_some(&self.0)
        }
    }
    let number = |class: &str, text: &'static str| {
        Value::object(class, vec![("value", Value::string(text))])
    };
    let price = || number("java.math.BigDecimal", "19.90");
    let told = r#"{"class":"java.math.BigDecimal","value":19.90}"#;
    let map = |value| Value::map(vec![(Value::string("k"), value)]);
    let schema = Prices(JavaType::parse("java.math.BigDecimal").unwrap());
    for (ty, value, json) in [
        (None, price(), told.to_owned()),
        (None, number("java.math.BigDecimal", "7"), told.replace("19.90", "7")),
        (None, Value::list(vec![price(), Value::Double(19.9)]), format!("[{told},19.9]")),
        (None, map(price()), format!(r#"{{"k":{told}}}"#)),
        (
            None,
            Value::object("a.B", vec![("price", price()), ("n", Value::Int(1))]),
            format!(r#"{{"class":"a.B","price":{told},"n":1}}"#),
        ),
        (
            None,
            Value::object("a.Known", vec![("price", price()), ("n", Value::Long(1 << 53 | 1))]),
            r#"{"class":"a.Known","price":19.90,"n":9007199254740993}"#.to_owned(),
        ),
        (Some("java.math.BigDecimal"), price(), "19.90".to_owned()),
        (
            Some("java.util.List<java.math.BigDecimal>"),
            Value::list(vec![price()]),
            "[19.90]".into(),
        ),
        (
            Some("java.util.Map<java.lang.String, java.math.BigDecimal>"),
            map(price()),
            r#"{"k":19.90}"#.into(),
        ),
        (Some("java.util.List<java.lang.Object>"), Value::list(vec![price()]), format!("[{told}]")),
        (None, Value::Double(1e10), "10000000000.0".to_owned()),
        (None, Value::Double(1e300), "1e+300".to_owned()),
    ] {
        let ty = ty.map(|ty| JavaType::parse(ty).unwrap());
        let (mut hessian, mut out) = (Vec::new(), Vec::new());
        Encoder::new(&mut hessian).value(&value);
        let opts = JsonOptions::parse("class=yes").unwrap();
        let mut decoder = Decoder::new(&hessian, Limits::default());
        hessian_to_json_with(&mut decoder, ty.as_ref(), &mut out, &opts, &schema).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), json);
        for as_maps in [false, true] {
            let mut again = Vec::new();
            let mut reader = JsonReader::new(json.as_bytes(), Limits::default());
            let options = InputOptions { schema: &schema, as_maps, ..InputOptions::default() };
            json_to_hessian_by(&mut reader, ty.as_ref(), &mut Encoder::new(&mut again), &options)
                .unwrap();
            // In a generic call an object is a map.
            if !as_maps || !json.starts_with("{\"class\":\"a.") {
                let again = Decoder::new(&again, Limits::default()).read_value();
                assert_eq!(again, Ok(value.clone()), "{json}");
            }
        }
    }
    // A key is a text, and the class of the keys is told.
    let value = Value::map(vec![(price(), Value::Int(1))]);
    let json = r#"{"class":"java.util.HashMap<java.math.BigDecimal, java.lang.Object>","value":{"19.90":1}}"#;
    assert_eq!(transcode("java.lang.Object", json), Ok(value));
}

/// Also where a class is declared that is no object in JSON.
#[test]
fn an_object_that_names_a_class_is_of_that_class() {
    for (ty, json) in [
        ("java.util.Date", r#"{"class":"java.sql.Timestamp","value":1}"#),
        ("java.util.Date", r#"{"value":1,"class":"a.Moment","more":{"class":"a.B"}}"#),
        ("java.util.List<int>", r#"{"class":"java.util.LinkedList","value":[1]}"#),
        ("java.util.UUID", r#"{"class":"java.util.UUID","mostSigBits":1,"leastSigBits":2}"#),
        ("java.util.UUID[]", r#"[{"class":"java.util.UUID","mostSigBits":1,"leastSigBits":2}]"#),
    ] {
        let declared = transcode(ty, json).unwrap();
        match (declared, transcode("java.lang.Object", json).unwrap()) {
            (Value::List { items, ty: Some(_) }, Value::List { items: expected, ty: None }) => {
                assert_eq!(items, expected, "{ty} {json}");
            }
            (declared, expected) => assert_eq!(declared, expected, "{ty} {json}"),
        }
    }
    // Java would make null of the whole argument.
    for (ty, class) in [
        ("java.util.Date", "java.lang.Integer"),
        ("java.sql.Timestamp", "java.sql.Date"),
        ("java.util.UUID", "java.io.File"),
        ("java.util.Locale", "java.util.HashMap"),
        ("java.time.Instant", "a.Moment"),
        ("java.util.List<int>", "java.lang.Integer"),
        ("a.Shape", "java.lang.Integer"),
        ("a.Shape", "java.util.TreeMap"),
        ("java.lang.Number", "java.util.Date"),
    ] {
        let error = transcode(ty, &format!(r#"{{"class":"{class}","value":5}}"#)).unwrap_err();
        let ty = ty.split('<').next().unwrap();
        let expected = format!("JSON at byte 0: an object of another class cannot become {ty}");
        assert_eq!(error.to_string(), expected, "{class}");
    }
    let error = transcode("java.util.Date", r#"{"value":{"class":"a.B"}}"#).unwrap_err();
    assert_eq!(error.to_string(), "JSON at byte 0: an object cannot become java.util.Date");
}

#[test]
fn what_does_not_fit_is_an_error_with_its_place() {
    for (ty, json, offset) in [
        ("int", "null", 0),
        ("java.util.List", "\"x\"", 0),
        ("java.util.Map<java.lang.String,int>", "\"x\"", 0),
        ("int", "2147483648", 0),
        ("byte", "128", 0),
        ("int", "1.5", 0),
        ("int", " {}", 1),
        ("int", "true", 0),
        ("int", "\"x\"", 0),
        ("float", "1e39", 0),
        ("float", "\"1e39\"", 0),
        ("java.lang.Float", "3.4028236e38", 0),
        ("double", "1e400", 0),
        ("double", "\"1e400\"", 0),
        ("double", "\"nan\"", 0),
        ("int", "0.99999999999999999999", 0),
        ("long", "9007199254740992.5", 0),
        ("java.time.YearMonth", "\"2024-05-07\"", 0),
        ("java.util.Map<java.lang.Long,java.lang.Short>", "{\"1\":32768}", 5),
        ("java.util.List<java.lang.Integer>", "[1,2147483648]", 3),
        ("java.util.Optional<java.lang.Byte>", "128", 0),
        // A box has no subclass, and what a collection holds is declared.
        ("java.lang.Integer", r#"{"class":"java.lang.Long","value":3000000000}"#, 0),
        ("java.lang.Integer", r#"{"class":"long","value":3000000000}"#, 0),
        ("java.util.List<byte>", r#"{"class":"java.util.ArrayList","value":[300]}"#, 40),
        ("char", "\"ab\"", 0),
        ("char", "\"😀\"", 0),
        ("boolean", "1", 0),
        ("java.lang.String", "[]", 0),
        ("java.util.List", "{}", 0),
        ("java.util.Map", "[]", 0),
        ("a.B", "[]", 0),
        ("a.B", "1", 0),
        ("int[]", "[1, x]", 4),
        ("int[]", "[1, \"\"]", 4),
        ("byte[]", "\"***\"", 0),
        ("byte[]", "[256]", 1),
        ("java.util.Date", "\"yesterday\"", 0),
        ("java.math.BigDecimal", "\"1x\"", 0),
        ("java.math.BigInteger", "1.5", 0),
        ("java.time.LocalDate", "\"2024-02-30\"", 0),
        ("java.lang.Number", "\"x\"", 0),
        ("java.lang.Number", "true", 0),
        ("java.lang.Number[]", "[1,[1]]", 3),
        ("java.lang.Number", r#"{"x":1}"#, 0),
        ("java.util.UUID", "1", 0),
        ("java.util.UUID", "\"123e4567-e89b-12d3-a456-42661417400g\"", 0),
        ("java.util.Currency", "\"eur\"", 0),
        ("java.util.Currency", "\"ZZZ\"", 0),
        ("java.lang.Class", "\"\"", 0),
        ("java.lang.Class", "\"java.util.List<a.B>\"", 0),
        ("java.util.Locale", "\"zh-Hans-CN\"", 0),
        ("java.util.List<java.util.Locale>", "[\"en\",\"en-US\"]", 6),
        ("java.math.BigDecimal", "1E+3000000000", 0),
        ("java.math.BigDecimal", "\"1E-2147483648\"", 0),
        ("java.util.Map<java.math.BigDecimal,a.B>", "{\"10E-2147483648\":null}", 18),
        ("java.lang.Object", "[1,1E+3000000000]", 3),
        ("java.lang.Number", "1E+3000000000", 0),
        ("java.util.BitSet", "{\"words\":5}", 9),
        ("java.util.BitSet", "{\"words\":null}", 9),
        ("java.util.BitSet", "{\"words\":[5,1.5]}", 12),
        ("java.util.BitSet", "{\"words\":[null]}", 10),
        ("java.util.BitSet", "{}", 0),
        ("java.util.BitSet", "{\"word\":[5]}", 0),
        ("java.util.BitSet", "\"BQ==\"", 0),
        ("java.util.BitSet", r#"{"class":"java.util.Date","value":5}"#, 0),
        ("java.lang.Object", r#"{"class":"java.util.BitSet","words":["x"]}"#, 37),
        ("java.lang.Object", r#"{"class":"java.util.UUID","value":"nope"}"#, 34),
        ("java.util.EnumSet", "[]", 0),
        ("java.util.EnumSet<a.B>", "[1]", 1),
        ("java.util.concurrent.atomic.AtomicBoolean", "1", 0),
        ("java.util.concurrent.atomic.AtomicInteger", "2147483648", 0),
        ("void", "1", 0),
        ("java.util.Map<java.lang.Integer,a.B>", "{\"x\":null}", 5),
    ] {
        let error = transcode(ty, json).unwrap_err();
        assert_eq!(error.offset(), offset, "{ty} {json}: {error}");
    }
    for (ty, json, message) in [
        ("int", "\"a\"", "\"a\" is not an int (a whole number from -2147483648 to 2147483647)"),
        ("byte", "300", "300 is not a byte (a whole number from -128 to 127)"),
        ("boolean", "\"yes\"", "\"yes\" is not a boolean (true or false)"),
        ("int", "true", "a boolean cannot become int"),
    ] {
        let error = transcode(ty, json).unwrap_err().to_string();
        assert!(error.starts_with(&format!("JSON at byte 0: {message}")), "{error}");
    }
    let long = transcode("int", &format!("\"{}\"", "ä".repeat(999))).unwrap_err().to_string();
    assert!(long.len() < 200 && long.contains("ä... is not an int"), "{long}");
    let json = r#"{"a":[{"b":"x"}]}"#;
    let error = transcode("java.util.Map<java.lang.String,java.util.List<java.util.Map<java.lang.String,java.lang.Integer>>>", json).unwrap_err();
    assert_eq!(path_at(json.as_bytes(), error.offset()), "$.a[0].b");
}

#[test]
fn checks_hold_on_texts_with_types() {
    for text in
        ["int[]\n[1]", "a.B\n{\"x\":[{}]}", "[B\n\"AA==\"", "{\"class\":\"a\"}", "[[[\n1", "\n"]
    {
        crate::check::from_json(text.as_bytes());
    }
    assert!(crate::check::from_json(b"java.time.Duration\n\"PT1H-2M3.5S\""));
    assert!(crate::check::from_json(b"java.time.ZonedDateTime\n\"2024-02-29T13:05Z[UTC]\""));
    for (zone, is_good) in [
        ("z", true),
        ("+08:00[Asia/Shanghai]", true),
        ("+08:00[UTC+8]", true),
        ("Z[GMT]", true),
        // Java knows no such zone, or would make another instant of it.
        ("+08:00[Mars/Olympus]", false),
        ("+08:00[]", false),
        ("+08:00[UTC]", false),
        ("+08:00[+07:00]", false),
    ] {
        let json = format!("java.time.ZonedDateTime\n\"2024-02-29T13:05{zone}\"");
        assert_eq!(crate::check::from_json(json.as_bytes()), is_good, "{zone}");
    }
}

/// hessian-lite makes an empty `BitSet` of an object of that class.
#[test]
fn a_bit_set_is_written_as_its_stand_in() {
    let words = |words: Vec<Value>| {
        Value::object(java_json::builtin::BIT_SET_HANDLE, vec![("words", typed("[long", words))])
    };
    let five = words(vec![Value::Long(5), Value::Long(-1)]);
    for (ty, json) in [
        ("java.util.BitSet", r#"{"words":[5,-1]}"#),
        ("java.util.BitSet", r#"{"class":"java.util.BitSet","words":[5,-1]}"#),
        ("java.util.BitSet", r#"{"class":"java.util.BitSet","value":{"words":[5,-1]}}"#),
        // As a result with `class=yes` has it.
        (
            "java.util.BitSet",
            r#"{"class":"com.alibaba.com.caucho.hessian.io.BitSetHandle","words":[5,-1]}"#,
        ),
        ("java.lang.Object", r#"{"class":"java.util.BitSet","words":[5,-1]}"#),
    ] {
        assert_eq!(transcode(ty, json).unwrap(), five, "{ty} {json}");
    }
    assert_eq!(transcode("java.util.BitSet", r#"{"words":[]}"#).unwrap(), words(vec![]));
    assert_eq!(transcode("java.util.BitSet", "null").unwrap(), Value::Null);
    let list = transcode("java.util.List<java.util.BitSet>", r#"[{"words":[5,-1]},null]"#);
    assert_eq!(list.unwrap(), Value::List { ty: None, items: vec![five.clone(), Value::Null] });
    // Also in a generic call, where other objects are maps.
    let options = InputOptions { as_maps: true, ..InputOptions::default() };
    let json = br#"[{"class":"java.util.BitSet","words":[5,-1]}]"#;
    let mut bytes = Vec::new();
    let mut reader = JsonReader::new(json, Limits::default());
    json_to_hessian_by(&mut reader, None, &mut Encoder::new(&mut bytes), &options).unwrap();
    let value = Decoder::new(&bytes, Limits::default()).read_value().unwrap();
    assert_eq!(value, Value::List { ty: None, items: vec![five] });
}

#[test]
fn a_class_is_written_by_its_name_in_the_jvm() {
    for (text, name) in [
        ("java.lang.String", "java.lang.String"),
        ("int", "int"),
        ("[I", "[I"),
        ("java.lang.String[]", "[Ljava.lang.String;"),
    ] {
        let expected = Value::object("java.lang.Class", vec![("name", Value::string(name))]);
        assert_eq!(transcode("java.lang.Class", &format!("\"{text}\"")).unwrap(), expected);
    }
}

/// As a generic call has it: what comes out without `class=yes` shows what was an object, and what
/// a map.
#[test]
fn objects_of_a_generic_call_are_maps_with_their_class() {
    struct Records;
    impl Schema for Records {
        fn field_type(&self, _: &str, _: &str) -> Option<&JavaType> {
            None
        }
        fn takes_no_map(&self, class: &str) -> bool {
            class == "a.Size"
        }
    }
    let options = InputOptions { schema: &Records, as_maps: true, ..InputOptions::default() };
    let write = |json: &str| {
        let (mut bytes, mut out) = (Vec::new(), Vec::new());
        let mut reader = JsonReader::new(json.as_bytes(), Limits::default());
        json_to_hessian_by(&mut reader, None, &mut Encoder::new(&mut bytes), &options).unwrap();
        let shown = JsonOptions { dates: DateStyle::Millis, ..JsonOptions::default() };
        hessian_to_json(&mut Decoder::new(&bytes, Limits::default()), &mut out, &shown).unwrap();
        String::from_utf8(out).unwrap()
    };
    for (json, expected) in [
        (
            r#"{"a":1,"class":"a.B","b":{"class":"a.C"}}"#,
            r#"{"class":"a.B","a":1,"b":{"class":"a.C"}}"#,
        ),
        (r#"[{"class":"a.Color","name":"RED"}]"#, r#"[{"class":"a.Color","name":"RED"}]"#),
        (r#"{"class":"java.util.Date","value":7}"#, "7"),
        (r#"{"class":"java.util.TreeMap","a":{"class":"a.B"}}"#, r#"{"a":{"class":"a.B"}}"#),
        // Where the class is declared it is told as well.
        (r#"{"class":"java.util.ArrayList<a.B>","value":[{"x":1}]}"#, r#"[{"class":"a.B","x":1}]"#),
        (
            r#"{"class":"a.B[][]","value":[[{}],["RED"]]}"#,
            r#"[[{"class":"a.B"}],[{"class":"a.B","name":"RED"}]]"#,
        ),
        // Java makes an optional one of a map where it is declared, and only of one that does not
        // name the class.
        (
            r#"{"class":"java.util.Optional[]","value":[null,5,{"class":"a.B","x":1}]}"#,
            r#"[null,{"value":5},{"value":{"class":"a.B","x":1}}]"#,
        ),
        (
            r#"{"class":"java.util.Optional<a.B>","value":{"x":1}}"#,
            r#"{"value":{"class":"a.B","x":1}}"#,
        ),
        (
            r#"{"class":"java.util.OptionalLong[]","value":[{"value":5,"isPresent":true}]}"#,
            r#"[{"value":5,"isPresent":true}]"#,
        ),
        // An object is one throughout, and so is what follows none.
        (
            r#"[{"class":"a.Size","x":{"class":"a.B","y":1}},{"class":"a.B"}]"#,
            r#"[{"x":{"y":1}},{"class":"a.B"}]"#,
        ),
    ] {
        assert_eq!(write(json), expected, "{json}");
    }
    let arrays = |json: &str| {
        let mut bytes = Vec::new();
        let mut reader = JsonReader::new(json.as_bytes(), Limits::default());
        json_to_hessian_by(&mut reader, None, &mut Encoder::new(&mut bytes), &options).unwrap();
        bytes
    };
    // Java would put no map into an array of another class.
    let tags = |bytes: &[u8]| bytes.windows(7).filter(|part| part == b"[object").count();
    assert_eq!(tags(&arrays(r#"{"class":"a.B[]","value":[{}]}"#)), 1);
    assert_eq!(tags(&arrays(r#"{"class":"long[]","value":[1]}"#)), 0);
}
