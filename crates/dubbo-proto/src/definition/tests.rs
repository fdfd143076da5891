use hessian::JavaType;
use hessian::transcode::Schema;
use proptest::prelude::*;

use super::*;

/// As a provider of 2.7.23 reports it to etcd, as Gson writes the same, and as 3.3.6 would.
const DOCUMENTS: [&[u8]; 3] = [
    include_bytes!("../../vectors/java27_definition_etcd.json"),
    include_bytes!("../../vectors/java27_definition_gson.json"),
    include_bytes!("../../vectors/java33_definition.json"),
];
const LS: &str = include_str!("../../vectors/java27_ls.txt");
const TYPES: &str = "org.dubmesh.interop.TypesService";
const PERSON: &str = "org.dubmesh.interop.Person";

fn signatures(definition: &ServiceDefinition) -> Vec<String> {
    let show = |method: &MethodDefinition| {
        let result = method.result.as_ref().unwrap();
        format!("{result} {method}").replace(", ", ",")
    };
    let mut shown: Vec<String> = definition.methods.iter().map(show).collect();
    shown.sort();
    shown
}

#[test]
fn reads_what_java_writes_in_all_its_forms() {
    let [first, others @ ..] = DOCUMENTS.map(|text| ServiceDefinition::parse(text).unwrap());
    assert_eq!(first.interface, TYPES);
    assert_eq!(first.variant, Some(Variant::default()));
    assert_eq!(first.methods.len(), 48);
    assert_eq!(first.overloads("echo").count(), 7);
    for other in &others {
        assert_eq!(signatures(other), signatures(&first));
        for class in [PERSON, "org.dubmesh.interop.Address", "org.dubmesh.interop.Color"] {
            assert_eq!(other.classes[class], first.classes[class], "{class}");
        }
    }
    let all = signatures(&first);
    for one in [
        "java.util.List<org.dubmesh.interop.Person> people(java.util.List<org.dubmesh.interop.Person>)",
        "java.util.Map<java.lang.String,java.lang.Integer> counts(java.util.Map<java.lang.String,java.lang.Integer>)",
        "java.lang.String[] textArray(java.lang.String[])",
        "void nothing(java.lang.String)",
    ] {
        assert!(all.iter().any(|line| line == one), "{one} in {all:#?}");
    }
    let field = |name| first.field_type(PERSON, name).map(ToString::to_string).unwrap();
    assert_eq!(field("friends"), "java.util.List<org.dubmesh.interop.Person>");
    assert_eq!(field("counts"), "java.util.Map<java.lang.String, java.lang.Integer>");
    assert_eq!((field("born"), field("age")), ("java.util.Date".into(), "int".into()));
    let colors: Vec<&str> =
        first.enum_values("org.dubmesh.interop.Color").unwrap().iter().map(|v| &**v).collect();
    assert_eq!(colors, ["RED", "GREEN", "BLUE"]);
}

#[test]
fn reads_what_telnet_lists() {
    let listed = ServiceDefinition::from_telnet(TYPES, LS).unwrap();
    let [document, ..] = DOCUMENTS.map(|text| ServiceDefinition::parse(text).unwrap());
    let erased = |definition: &ServiceDefinition| {
        let mut names: Vec<String> = definition
            .methods
            .iter()
            .map(|method| {
                let types = method.parameters.iter().map(JavaType::to_descriptor);
                format!("{}({})", method.name, types.collect::<String>())
            })
            .collect();
        names.sort();
        names
    };
    assert_eq!(erased(&listed), erased(&document));
    // Dubbo 2.6 has no line before the methods, and none of them is indented.
    let old = "java.lang.String text(java.lang.String)\r\nint add(int,int)\r\ndubbo>";
    assert_eq!(ServiceDefinition::from_telnet("a.B", old).unwrap().methods.len(), 2);
}

#[test]
fn no_parameter_is_void() {
    let answer = "a.B:\r\nvoid run()\r\nvoid go(void)\r\nvoid all(int, void[])\r\ndubbo>";
    let definition = ServiceDefinition::from_telnet("a.B", answer);
    let names = definition.map(|definition| {
        definition.methods.into_iter().map(|method| method.name).collect::<Vec<_>>()
    });
    assert_eq!(names, Ok(vec!["run".into()]));
}

#[test]
fn telnet_says_why_it_does_not_list() {
    let error = |answer| ServiceDefinition::from_telnet("a.B", answer).unwrap_err();
    let disabled = "Command: ls disabled for security reasons, please enable support by listing the \
                    commands through 'telnet'\r\ndubbo>";
    assert!(matches!(error(disabled), TelnetError::NoCommand { .. }));
    assert!(matches!(error("Unsupported command: ls\r\n"), TelnetError::NoCommand { .. }));
    assert!(matches!(error("No such service a.B\r\ndubbo>"), TelnetError::NoService { .. }));
    assert!(matches!(error(""), TelnetError::NoMethod { .. }));
    assert!(error(&"x".repeat(1000)).to_string().len() < 200);
}

/// Comparing each method with each before it would take minutes.
#[test]
fn any_number_of_lines_is_read() {
    let line = |n: usize| format!("void m({}a.B{n})\n", "int,".repeat(8));
    let answer: String = (0..3 * MAX_METHODS).map(|n| line(n % (MAX_METHODS - 1))).collect();
    let definition = ServiceDefinition::from_telnet("a.B", &answer).unwrap();
    assert_eq!(definition.methods.len(), MAX_METHODS - 1);
    let answer: String = (0..2 * MAX_METHODS).map(line).collect();
    let definition = ServiceDefinition::from_telnet("a.B", &answer).unwrap();
    assert_eq!(definition.methods.len(), MAX_METHODS);
}

fn document(methods: &str, types: &str) -> ServiceDefinition {
    let text = format!(r#"{{"canonicalName":"a.B","methods":{methods},"types":{types}}}"#);
    ServiceDefinition::parse(text.as_bytes()).unwrap()
}

#[test]
fn nested_classes_and_type_variables_get_the_names_of_the_jvm() {
    let definition = document(
        r#"[{"name":"m","parameterTypes":["a.b.Outer.Inner","java.util.List<a.b.Outer.Inner.Deep[]>",
            "java.util.Map<K,java.util.List<? extends a.b.Outer.Inner>>","int[]","java.util.List<T>"],
            "returnType":"a.b.Outer.Inner"}]"#,
        r#"[{"type":"a.b.Outer.Inner","properties":{"at":"java.util.Map.Entry<K,V>","n":"int"}},
            {"type":"a.b.Outer.Kind","enums":["X"]}]"#,
    );
    let [method] = &definition.methods[..] else { panic!("{definition:?}") };
    assert_eq!(
        method.to_string(),
        "m(a.b.Outer$Inner, java.util.List<a.b.Outer$Inner$Deep[]>, \
         java.util.Map<java.lang.Object, java.util.List<a.b.Outer$Inner>>, int[], \
         java.util.List<java.lang.Object>)"
    );
    assert_eq!(definition.field_type("a.b.Outer$Inner", "n"), Some(&JavaType::Int));
    assert!(definition.enum_values("a.b.Outer$Kind").is_some());
    assert_eq!(definition.variant, None);
}

/// A class that Dubbo 2.7 has named itself stays as it is, also in a package with a capital.
#[test]
fn exact_names_stay() {
    let definition = document(
        r#"[{"name":"m","parameterTypes":["a.V1.Order"]}]"#,
        r#"[{"type":"a.V1.Order","properties":{"id":{"type":"long"}},"typeBuilderName":"x"}]"#,
    );
    assert_eq!(definition.methods[0].to_string(), "m(a.V1.Order)");
    assert_eq!(definition.field_type("a.V1.Order", "id"), Some(&JavaType::Long));
}

#[test]
fn broken_parts_are_left_out_and_broken_documents_refused() {
    let definition = document(
        r#"[{"name":"good","parameterTypes":["int"]},{"name":"bad name"},{"name":"bad","parameterTypes":["a b"]},
            {"parameterTypes":[]},7,{"name":"none"}]"#,
        r#"[null,7,{"type":7},{"type":"a.C","properties":{"x":{"$ref":"$.types[9]"},"y":{"$ref":"$..[["},
            "z":{"$ref":"a.C"},"s":{"$ref":"$.types[4]"}}},{"$ref":"$.types[4]"}]"#,
    );
    let names: Vec<&str> = definition.methods.iter().map(|method| &*method.name).collect();
    assert_eq!(names, ["good", "none"]);
    assert_eq!(definition.fields("a.C").unwrap().len(), 1);

    for (text, words) in [
        (&b"{\"methods\":"[..], "line 1, column 11"),
        (b"[]", "a JSON object"),
        (b"\xff", "valid JSON"),
        (&[b'['; 10_000], "128 levels"),
        (&[b' '; MAX_DOCUMENT_LEN + 1], "bytes of a service definition"),
        (&[b','; MAX_VALUES + 1], "values in a service definition"),
    ] {
        let error = ServiceDefinition::parse(text).unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    }
    let many = format!("{{\"methods\":[{}]}}", vec!["{}"; MAX_METHODS + 1].join(","));
    assert!(ServiceDefinition::parse(many.as_bytes()).is_err());
}

proptest! {
    #[test]
    fn pieces_of_documents_do_no_harm(which in 0..3_usize, at in 0..12_000_usize, byte in any::<u8>()) {
        let mut text = DOCUMENTS[which].to_vec();
        let len = text.len();
        text[at % len] = byte;
        crate::exercise::definition(&text);
        text.truncate(at % len);
        crate::exercise::definition(&text);
    }
}

/// As Dubbo itself, and as somebody by hand would write it.
#[test]
fn type_arguments_take_the_place_of_variables() {
    let definition = document(
        r#"[{"name":"put","parameterTypes":["a.Page<a.Order>","java.util.List<a.Page<a.Item[]>>"]},
            {"name":"raw","parameterTypes":["a.Page"],"returnType":"T"},
            {"name":"pair","parameterTypes":["a.Pair<a.Order,java.lang.Long>","a.Result<a.Order>","a.Open<a.Order>"]},
            {"name":"one","parameterTypes":["a.Exact<a.Order>","a.Unknown<a.Order>"]}]"#,
        r#"[{"type":"a.Page","properties":{"items":"java.util.List<T>","top":"java.lang.Object","next":"a.Page","all":"a.Page[]","n":"int"}},
            {"type":"a.Open","properties":{"items":"java.util.List<T>","x":"java.lang.Object","y":"java.lang.Object"}},
            {"type":"a.Pair<A,B>","properties":{"a":"A","b":"B[]"}},
            {"type":"a.Result","properties":{"code":"int","data":"java.lang.Object"}},
            {"type":"a.Exact<a.Order>","properties":{"it":"a.Order"}},
            {"type":"a.Many","properties":{"a":"java.util.List<A>","b":"java.util.List<B>"}}]"#,
    );
    let field = |class: &str, field: &str| {
        definition.field_type(class, field).map_or("none".to_owned(), ToString::to_string)
    };
    for (class, name, expected) in [
        ("a.Page<a.Order>", "items", "java.util.List<a.Order>"),
        // The only field that may be anything is of type `T`, of several none.
        ("a.Page<a.Order>", "top", "a.Order"),
        ("a.Page", "top", "java.lang.Object"),
        ("a.Open<a.Order>", "items", "java.util.List<a.Order>"),
        ("a.Open<a.Order>", "x", "java.lang.Object"),
        ("a.Page<a.Order>", "next", "a.Page<a.Order>"),
        ("a.Page<a.Order>", "all", "a.Page<a.Order>[]"),
        ("a.Page", "next", "a.Page"),
        ("a.Page<a.Item[]>", "items", "java.util.List<a.Item[]>"),
        ("a.Page<a.Order>", "n", "int"),
        ("a.Pair<a.Order, java.lang.Long>", "a", "a.Order"),
        ("a.Pair<a.Order, java.lang.Long>", "b", "java.lang.Long[]"),
        ("a.Result<a.Order>", "data", "a.Order"),
        ("a.Exact<a.Order>", "it", "a.Order"),
        // Without arguments, or with some that nobody can place, a variable may be anything: never
        // a class or a byte.
        ("a.Page", "items", "java.util.List<java.lang.Object>"),
        ("a.Page<a.Other>", "items", "java.util.List<java.lang.Object>"),
        ("a.Pair", "a", "java.lang.Object"),
        ("a.Pair", "b", "java.lang.Object[]"),
        ("a.Many", "b", "java.util.List<java.lang.Object>"),
        ("a.Unknown<a.Order>", "x", "none"),
    ] {
        assert_eq!(field(class, name), expected, "{class}.{name}");
    }
    assert!(definition.generic("a.Many").is_none() && definition.generic("a.Exact").is_none());
    let raw = definition.overloads("raw").next().unwrap();
    assert_eq!(raw.result.as_ref().map(ToString::to_string).as_deref(), Some("java.lang.Object"));
    let one = definition.overloads("one").next().unwrap();
    let known = |ty: &JavaType| matches!(ty, JavaType::Class(class) if definition.knows(class));
    assert_eq!(one.parameters.iter().map(known).collect::<Vec<_>>(), [true, false]);
}

#[test]
fn telnet_names_no_descriptors() {
    let definition = ServiceDefinition::from_telnet("a.B", "void m(B)\r\ndubbo>").unwrap();
    assert_eq!(definition.methods[0].parameters, [JavaType::class("B")]);
}

/// A text would set the field `name` of an object. (One with this field alone is a text in JSON.)
#[test]
fn a_class_with_fields_takes_no_text() {
    let mut definition = ServiceDefinition::parse(DOCUMENTS[0]).unwrap();
    let named = [("name".into(), JavaType::class("java.lang.String"))].into();
    definition.classes.insert("a.Named".into(), ClassDefinition::Bean(named));
    assert!(!definition.takes_text(PERSON));
    for class in ["org.dubmesh.interop.Color", "a.Unknown", "a.Named"] {
        assert!(definition.takes_text(class), "{class}");
    }
}
