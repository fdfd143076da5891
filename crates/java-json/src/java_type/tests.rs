//! Tests of the spellings of Java types.

use super::*;

#[test]
fn reads_every_spelling_and_writes_it_back() {
    for (text, descriptor, name) in [
        ("I", "I", "int"),
        ("int", "I", "int"),
        ("[J", "[J", "long[]"),
        ("int[][]", "[[I", "int[][]"),
        ("Ljava/lang/String;", "Ljava/lang/String;", "java.lang.String"),
        ("[Ljava.lang.String;", "[Ljava/lang/String;", "java.lang.String[]"),
        ("java.lang.String...", "[Ljava/lang/String;", "java.lang.String[]"),
        (" com.acme.Order[] ", "[Lcom/acme/Order;", "com.acme.Order[]"),
        ("com.acme.Outer$Inner", "Lcom/acme/Outer$Inner;", "com.acme.Outer$Inner"),
        ("java.util.List<com.acme.Order>", "Ljava/util/List;", "java.util.List"),
    ] {
        let ty = JavaType::parse(text).unwrap();
        assert_eq!(ty.to_descriptor(), descriptor, "{text}");
        assert_eq!(ty.java_name(), name, "{text}");
    }
}

#[test]
fn keeps_generic_arguments() {
    let ty = JavaType::parse("java.util.Map<java.lang.Long, ? extends a.B<int[]>[]>").unwrap();
    assert_eq!(ty.to_string(), "java.util.Map<java.lang.Long, a.B<int[]>[]>");
}

#[test]
fn reads_lists_of_descriptors() {
    let types = JavaType::parse_descriptors("Ljava/lang/String;[JILa/B;").unwrap();
    let names: Vec<String> = types.iter().map(JavaType::java_name).collect();
    assert_eq!(names, ["java.lang.String", "long[]", "int", "a.B"]);
    assert_eq!(JavaType::parse_descriptors("").unwrap(), []);
}

#[test]
fn refuses_what_is_no_type() {
    let deep = "[".repeat(1000) + "I";
    let generics = "a<".repeat(1000);
    for text in [
        "",
        "[",
        "Ljava/lang/String",
        "int[",
        "a<",
        "a<b",
        "a b",
        "a..",
        "a..b",
        ".a",
        "La//b;",
        "La/;",
        &deep,
        &generics,
    ] {
        assert!(JavaType::parse(text).is_err(), "{text}");
    }
    assert!(JavaType::parse_descriptors("Q").is_err());
    assert!(JavaType::parse_descriptors(&"I".repeat(256)).is_err());
}

#[test]
fn declarations_name_their_parameters() {
    let show = |text: &str| {
        let (name, parameters) = JavaType::parse_declaration(text).unwrap();
        let parameters = parameters.iter().map(|it| format!(" {}:{}", it.name, it.bound));
        format!("{name}{}", parameters.collect::<String>())
    };
    for (text, expected) in [
        ("a.B", "a.B"),
        (" a.Outer$Page< T , U > ", "a.Outer$Page T:java.lang.Object U:java.lang.Object"),
        ("a.B<T extends a.Item & java.io.Serializable>", "a.B T:a.Item"),
        (
            "a.B<T\textends java.lang.Comparable<T>, B extends T>",
            "a.B T:java.lang.Comparable B:java.lang.Object",
        ),
    ] {
        assert_eq!(show(text), expected, "{text}");
    }
    for text in [
        "",
        "a..B",
        "a.B<",
        "a.B<>",
        "a.B<T",
        "a.B<T>>",
        "a.B<T,T>",
        "a.B<a.C>",
        "a.B<int>",
        "a.B<?>",
        "a.B<1>",
        "a.B<T extends>",
        "a.B<T extends a.C &>",
        "a.B<T super a.C>",
        "a.B<T[]>",
        "1a.B<T>",
        "a.2B",
    ] {
        assert!(JavaType::parse_declaration(text).is_err(), "{text}");
    }
}

#[test]
fn one_letter_is_a_class_where_descriptors_are_not_expected() {
    let name = |ty: Result<JavaType, TypeError>| ty.unwrap().java_name();
    assert_eq!(
        (name(JavaType::parse("B")), name(JavaType::parse_named("B"))),
        ("byte".into(), "B".into())
    );
    assert_eq!(name(JavaType::parse_named("[B")), "byte[]");
    let ty = JavaType::parse("java.util.Map<java.lang.String,a.Page<OrderDTO[]>>").unwrap();
    let found = ty.find_class(&|class| !class.name().contains('.')).map(ClassType::name);
    assert_eq!(found, Some("OrderDTO"));
}

#[test]
fn usual_classes_are_known_without_their_package() {
    for (simple, full) in [
        ("String", Some("java.lang.String")),
        ("string", Some("java.lang.String")),
        ("BigDecimal", Some("java.math.BigDecimal")),
        ("List", Some("java.util.List")),
        ("LocalDate", Some("java.time.LocalDate")),
        ("Order", None),
        ("", None),
    ] {
        assert_eq!(JavaType::full_name(simple), full, "{simple}");
    }
}

#[test]
fn what_is_odd_in_generic_types_is_read_or_refused_with_its_place() {
    for (text, expected) in [
        ("a.B<? >", "a.B<java.lang.Object>"),
        ("a.B<?\textends\n a.C [ ] >[]", "a.B<a.C[]>[]"),
        ("a.B<? super a.C$D,a.E<?>>", "a.B<a.C$D, a.E<java.lang.Object>>"),
    ] {
        assert_eq!(JavaType::parse(text).unwrap().to_string(), expected, "{text}");
    }
    let wide = format!("a.B<{}a.C>", "a.C,".repeat(300));
    let long = format!("a.B<{}a.C>", "a.Long,".repeat(2000));
    for (text, part) in [
        ("int<a.B>", "'<' at byte 3"),
        ("a.B<? extends ?>", "'?' at byte 14"),
        ("?", "'?' at byte 0"),
        ("a.B<a.C>>", "'>' at byte 8"),
        ("a.B<a.C", "ends too early"),
        ("a.B<a.C>.D", "'.' at byte 8"),
        ("a.B<,>", "',' at byte 4"),
        ("1a.B", "'1' at byte 0"),
        ("a.2B[]", "'2' at byte 2"),
        ("a.B<a.C, a.3D>", "'3' at byte 11"),
        ("[La/4B;", "'4' at byte 4"),
        ("a-b.C", "'-' at byte 1"),
        ("a.B.", "ends too early, at byte 4"),
        (&*wide, "more than 255 types"),
        (&*long, "the limit is 8192"),
    ] {
        let error = JavaType::parse(text).unwrap_err().to_string();
        assert!(error.contains(part), "{text}: {error}");
    }
}
