use super::*;

fn classes(declared: &[(&str, &[(&str, &str)])]) -> BTreeMap<String, GenericClass> {
    let class = |(declared, fields): &(&str, &[(&str, &str)])| {
        let (name, parameters) = JavaType::parse_declaration(declared).unwrap();
        let field =
            |(name, ty): &(&str, &str)| ((*name).into(), JavaType::parse_named(ty).unwrap());
        (name, GenericClass::new(parameters, fields.iter().map(field).collect()))
    };
    declared.iter().map(class).collect()
}

const SHOP: &[(&str, &[(&str, &str)])] = &[
    (
        "a.Page<T>",
        &[
            ("items", "java.util.List<T>"),
            ("first", "T"),
            ("all", "T[][]"),
            ("byName", "java.util.Map<java.lang.String, T>"),
            ("next", "a.Page<T>"),
            ("total", "int"),
            ("other", "a.Pair<T, B>"),
        ],
    ),
    ("a.Pair<A, B extends a.Item>", &[("a", "A"), ("b", "B")]),
];

fn shown(instances: &Instances, ty: &str) -> String {
    let fields = instances.fields(ty).unwrap_or_else(|| panic!("{ty} in {instances:?}"));
    fields.iter().map(|(name, ty)| format!("{name}: {ty}; ")).collect()
}

fn add(ty: &str, known: &BTreeMap<String, GenericClass>) -> Result<Instances, GenericsError> {
    let mut instances = Instances::default();
    instances.add(&JavaType::parse(ty).unwrap(), &|name| known.get(name))?;
    Ok(instances)
}

#[test]
fn arguments_take_the_place_of_parameters() {
    let known = classes(SHOP);
    let instances = add("java.util.List<a.Page<a.Order[]>[]>", &known).unwrap();
    assert_eq!(
        shown(&instances, "a.Page<a.Order[]>"),
        "all: a.Order[][][]; byName: java.util.Map<java.lang.String, a.Order[]>; first: a.Order[]; \
         items: java.util.List<a.Order[]>; next: a.Page<a.Order[]>; other: a.Pair<a.Order[], B>; total: int; "
    );
    // What stands in a field is worked out, too.
    assert_eq!(shown(&instances, "a.Pair<a.Order[], B>"), "a: a.Order[]; b: B; ");
    let nested = add("a.Page<a.Page<java.lang.Long>>", &known).unwrap();
    assert!(shown(&nested, "a.Page<java.lang.Long>").contains("first: java.lang.Long;"));
    // A wildcard is what the parameter extends, and so is none at all.
    let pair = add("a.Pair<?, ?>", &known).unwrap();
    let key = "a.Pair<java.lang.Object, java.lang.Object>";
    assert_eq!(shown(&pair, key), "a: java.lang.Object; b: a.Item; ");
    let erased = known["a.Pair"].erased();
    assert_eq!(erased["b"].to_string(), "a.Item");
    assert_eq!(known["a.Page"].erased()["items"].to_string(), "java.util.List<java.lang.Object>");
}

#[test]
fn what_is_not_understood_is_named() {
    let known = classes(SHOP);
    let check = |ty: &str| {
        let checked = check(&JavaType::parse(ty).unwrap(), &|name| known.get(name));
        checked.map_err(|error| error.to_string())
    };
    for ty in [
        "int",
        "a.Order",
        "a.Page",
        "a.Page<a.Order>[]",
        "java.util.Map<java.lang.Long, a.Page<?>>",
    ] {
        assert_eq!(check(ty), Ok(()), "{ty}");
    }
    for (ty, words) in [
        ("a.Order<a.Item>", "which fields of a.Order"),
        ("java.util.List<a.Order<a.Item>>", "which fields of a.Order"),
        ("a.Page<a.Order, a.Order>", "a.Page takes 1 types between < and >, not 2"),
        ("java.util.Map<java.lang.String>", "java.util.Map takes 2"),
        ("a.Page<int>", "int is primitive"),
        ("java.lang.String<a.B>", "java.lang.String takes 0"),
    ] {
        let error = check(ty).unwrap_err();
        assert!(error.contains(words), "{ty}: {error}");
    }
}

/// Classes that hold themselves, with other arguments at each level: deeper, and twice as large.
#[test]
fn cycles_end() {
    let known = classes(&[
        ("a.Node<T>", &[("next", "a.Node<T>"), ("value", "T")]),
        ("a.Deep<T>", &[("next", "a.Deep<java.util.List<T>>")]),
        ("a.Wide<T>", &[("next", "a.Wide<java.util.Map<T, T>>")]),
        ("a.Left<T>", &[("next", "a.Right<T[]>")]),
        ("a.Right<T>", &[("next", "a.Left<T[]>")]),
    ]);
    for ty in ["a.Node<a.B>", "a.Deep<a.B>", "a.Wide<a.B>", "a.Left<a.B>"] {
        let instances = add(ty, &known).unwrap();
        let n = instances.by_type.len();
        assert!((1..=MAX_DEPTH + 1).contains(&n), "{ty}: {n}");
        for (key, fields) in &instances.by_type {
            assert!(fields.values().all(|ty| Size::of(ty).n_names <= MAX_NAMES), "{key}");
        }
    }
    assert!(shown(&add("a.Node<a.B>", &known).unwrap(), "a.Node<a.B>").contains("value: a.B"));
}

#[test]
fn all_types_together_are_bounded() {
    let fields: Vec<(String, String)> = (0..2000).map(|n| (format!("f{n}"), "T".into())).collect();
    let fields: Vec<(&str, &str)> = fields.iter().map(|(name, ty)| (&**name, &**ty)).collect();
    let known = classes(&[("a.B<T>", &fields)]);
    let mut instances = Instances::default();
    let long = "a".repeat(JavaType::MAX_NAME_LEN - 10);
    let mut add = |n: usize| {
        instances
            .add(&JavaType::parse(&format!("a.B<{long}.C{n}>")).unwrap(), &|name| known.get(name))
    };
    assert_eq!(add(0), Err(GenericsError::TooLong { max: MAX_BYTES }));
    assert_eq!(instances.by_type.len(), 0);
}
