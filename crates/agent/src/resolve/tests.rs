use hessian::JavaType;

use super::*;
use crate::args::fits::{Fit, of_json};

fn definition() -> ServiceDefinition {
    let text = br#"{"canonicalName":"a.B","methods":[],"types":[
        {"type":"a.Person","properties":{"name":"java.lang.String","born":"java.util.Date"}},
        {"type":"a.Address","properties":{"city":"java.lang.String"}},
        {"type":"a.Color","enums":["RED","BLUE"]}]}"#;
    ServiceDefinition::parse(text).unwrap()
}

/// An `Optional`, or what stands for a type variable, may be in any class of the service.
#[test]
fn what_a_call_is_looked_through_for() {
    use UnknownFields::{Declared, IfFound, IfNamed, Never};
    let known = definition();
    let text = br#"{"canonicalName":"a.B","methods":[],"types":[
        {"type":"a.Person","properties":{"nick":"java.util.Optional"}}]}"#;
    let optional = ServiceDefinition::parse(text).unwrap();
    let text = br#"{"canonicalName":"a.B","methods":[],"types":[
        {"type":"a.Result","properties":{"data":"java.lang.Object"}}]}"#;
    let generic = ServiceDefinition::parse(text).unwrap();
    let text = br#"{"canonicalName":"a.B","methods":[],"types":[
        {"type":"a.Person","properties":{"by":"java.util.EnumMap<a.Color,java.lang.Integer>"}}]}"#;
    let by_color = ServiceDefinition::parse(text).unwrap();
    for (types, service, expected) in [
        ("int,java.lang.String", Some(&optional), Never),
        ("a.Person,a.Address", Some(&known), IfNamed),
        ("int,java.lang.StringBuilder", None, IfFound),
        ("java.util.List<a.Person>", Some(&optional), IfFound),
        ("a.Person,java.util.Optional<a.Color>", Some(&known), IfFound),
        ("java.util.List<java.util.OptionalLong>", None, Declared),
        ("java.util.Optional<a.Person>", None, Declared),
        ("a.Person,a.Other", Some(&optional), Declared),
        ("a.Result", Some(&generic), IfFound),
        ("java.util.List", None, IfFound),
        ("java.util.Map<java.lang.String,java.util.EnumMap<a.Color,int[]>>", Some(&known), IfFound),
        ("a.Person", Some(&by_color), IfFound),
    ] {
        let parsed = parse_types(types).unwrap();
        assert_eq!(unknown_fields(&parsed, service, &Instances::default()), expected, "{types}");
    }
}

#[test]
fn values_look_like_types() {
    use Fit::{Natural, None, Possible};
    let definition = definition();
    for (json, ty, expected) in [
        ("4", "int", Natural),
        ("4", "long", Natural),
        ("4", "double", Possible),
        ("4.5", "double", Natural),
        ("4.5", "int", None),
        ("7000000000", "int", None),
        ("7000000000", "java.lang.Long", Natural),
        ("300", "byte", None),
        ("99999999999999999999", "java.math.BigInteger", Natural),
        ("4", "java.lang.String", Possible),
        ("4", "java.util.Date", Possible),
        ("4", "a.Color", None),
        ("\"x\"", "java.lang.String", Natural),
        ("\"x\"", "int", None),
        ("\"7\"", "int", Possible),
        ("\"x\"", "char", Possible),
        ("\"xy\"", "char", None),
        ("\"2024-01-01\"", "java.util.Date", Possible),
        ("\"RED\"", "a.Color", Natural),
        // A definition may list other texts than names.
        ("\"GREEN\"", "a.Color", Possible),
        ("7", "java.util.OptionalLong", Possible),
        ("7.5", "java.util.OptionalLong", None),
        ("\"7\"", "java.util.OptionalDouble", Possible),
        ("\"RED\"", "a.Person", None),
        ("\"RED\"", "a.Unknown", Possible),
        ("true", "boolean", Natural),
        ("true", "int", None),
        ("null", "int", None),
        ("null", "a.Person", Natural),
        ("{\"name\":\"x\"}", "a.Person", Natural),
        ("{\"name\":\"x\"}", "a.Address", Possible),
        ("{\"name\":\"x\"}", "a.Color", None),
        ("{\"name\":\"x\"}", "java.util.Map", Natural),
        ("{\"class\":\"a.Person\"}", "a.Person", Natural),
        ("{\"class\":\"a.Person\"}", "a.Address", Possible),
        ("{\"class\":\"a.Person\"}", "java.util.Map", Possible),
        ("{\"class\":\"java.util.TreeMap\"}", "java.util.Map", Natural),
        // The long form is of the class that it names.
        ("{\"class\":\"java.util.Date\",\"value\":0}", "java.util.Date", Natural),
        ("{\"class\":\"java.util.Date\",\"value\":\"2024-01-01\"}", "java.util.Date", Natural),
        ("{\"class\":\"java.util.Date\",\"value\":0}", "java.lang.String", None),
        ("{\"class\":\"java.util.Date\",\"value\":0}", "java.lang.Object", Possible),
        ("{\"class\":\"java.util.Date\",\"value\":0}", "a.Person", None),
        ("{\"class\":\"java.util.Date\",\"value\":0}", "java.util.Map", None),
        ("{\"class\":\"java.util.Date\",\"value\":[]}", "java.util.Date", None),
        ("{\"class\":\"java.sql.Timestamp\",\"value\":0}", "java.util.Date", Possible),
        ("{\"class\":\"java.util.Date\",\"value\":0}", "java.sql.Timestamp", None),
        ("{\"class\":\"java.lang.Long\",\"value\":4}", "java.lang.Long", Natural),
        ("{\"class\":\"java.lang.Long\",\"value\":4}", "java.lang.Integer", None),
        // As these are declared, they have no long form.
        ("{\"class\":\"java.lang.Long\",\"value\":4}", "long", None),
        ("{\"class\":\"long\",\"value\":4}", "long", None),
        ("{\"class\":\"long[]\",\"value\":[4]}", "long[]", None),
        ("{\"class\":\"java.util.ArrayList\",\"value\":[4]}", "java.util.List", Possible),
        ("{\"class\":\"a.Color\",\"name\":\"RED\"}", "a.Color", Natural),
        ("{\"class\":\"a.Color\",\"name\":\"GREEN\"}", "a.Color", Natural),
        ("{\"class\":\"a.Person\",\"name\":\"RED\"}", "a.Color", None),
        ("{\"class\":\"a.Person\",\"name\":\"x\"}", "a.Person", Natural),
        ("[1,2]", "java.util.List<java.lang.Integer>", Natural),
        ("[1,2]", "java.util.List<java.lang.String>", Possible),
        ("[{}]", "java.util.List<java.lang.Long>", None),
        ("[1,2]", "int[]", Natural),
        ("[\"x\"]", "int[]", None),
        ("[1]", "int", None),
        ("\"AAE=\"", "byte[]", Possible),
        ("[[[[[[[[1]]]]]]]]", "java.util.List<java.util.List<java.lang.Object>>", Possible),
        ("", "int", None),
    ] {
        let ty = JavaType::parse(ty).unwrap();
        assert_eq!(of_json(json.as_bytes(), &ty, Some(&definition)), expected, "{json} as {ty}");
    }
}

fn candidate(types: &str, n_packed: Option<usize>) -> Candidate {
    Candidate { types: parse_types(types).unwrap(), result: None, n_packed }
}

#[test]
fn arguments_fit_as_the_worst_of_them_does() {
    let fit = |types, n_packed, body: &str| {
        fit(&candidate(types, n_packed), &ArgumentList::json(body.as_bytes()).unwrap(), None)
    };
    assert_eq!(fit("int,java.lang.String", None, "[1,\"a\"]"), Fit::Natural);
    assert_eq!(fit("int,java.lang.String", None, "[1,2]"), Fit::Possible);
    assert_eq!(fit("int,java.lang.String", None, "[\"a\",2]"), Fit::None);
    assert_eq!(fit("", None, "[]"), Fit::Natural);
    // A variable number of arguments.
    assert_eq!(fit("int,java.lang.String[]", Some(2), "[1,\"a\",\"b\"]"), Fit::Natural);
    assert_eq!(fit("int,java.lang.String[]", Some(0), "[1]"), Fit::Natural);
    assert_eq!(fit("int,int[]", Some(2), "[1,2,\"b\"]"), Fit::None);
}

#[test]
fn the_last_arguments_go_into_an_array() {
    let definition = ServiceDefinition::from_telnet(
        "a.B",
        "void m(int,java.lang.String[])\r\nvoid n(int)\r\ndubbo>",
    );
    let [variable, fixed] = &definition.unwrap().methods[..] else { panic!() };
    let n_packed = |method, n_args| packed(method, n_args).map(|it| it.n_packed.unwrap());
    assert_eq!(n_packed(variable, 3), Some(2));
    assert_eq!(n_packed(variable, 1), Some(0));
    assert_eq!(n_packed(variable, 0), None);
    assert_eq!(n_packed(fixed, 1), None);
    let args = ArgumentList::json(b"[1,\"a\", \"b\"]").unwrap();
    assert_eq!(args.packed(2), [b"1".to_vec(), b"[\"a\",\"b\"]".to_vec()]);
    assert_eq!(args.packed(0).last().unwrap(), b"[]");
    let ends_in_element = |types, body: &str| {
        let types = parse_types(types).unwrap();
        ArgumentList::json(body.as_bytes()).unwrap().ends_in_element(&types)
    };
    assert!(ends_in_element("int,java.lang.String[]", "[1,\"a\"]"));
    assert!(!ends_in_element("int,java.lang.String[]", "[1,[\"a\"]]"));
    assert!(!ends_in_element("int[]", "[null]"));
    assert!(!ends_in_element("byte[]", "[\"AAE=\"]"));
    assert_eq!(args.quoted()[1], b"\"\\\"a\\\"\"");
}

#[test]
fn long_lists_are_cut() {
    let names = (0..MAX_LISTED + 2).map(|n| n.to_string());
    assert!(list(names).ends_with("99 and 2 more"));
}

/// Telnet has the types as the class file has them at run time: `List`, and not of what.
#[test]
fn types_that_do_not_tell_what_they_hold() {
    for (ty, expected) in [
        ("java.util.List", true),
        ("java.util.Map[]", true),
        ("java.util.Optional", true),
        ("java.util.Map<java.lang.String,java.util.Set>", true),
        ("java.util.List<java.lang.String>", false),
        ("int[]", false),
        ("java.lang.Object", false),
        ("java.time.Instant", false),
        ("a.Person", false),
    ] {
        assert_eq!(holds_anything(&JavaType::parse(ty).unwrap()), expected, "{ty}");
    }
}
