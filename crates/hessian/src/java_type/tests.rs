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
