use super::*;

/// What links are told of a method is all that its requests have in common.
#[test]
fn a_definition_names_service_method_and_types() {
    let service = ServiceKey::new("a.B", "1.0", "g").unwrap();
    let types = vec![JavaType::parse("int").unwrap(), JavaType::parse("java.lang.String").unwrap()];
    let route = Route::new(
        RoutePlace { index: 3, generation: 7 },
        &service,
        "c",
        Parameters::Given(types),
        Plan::default(),
    );
    assert_eq!((route.index, route.generation), (3, 7));
    let RouteDef { service: name, method, descriptor, attachments } = &route.def;
    assert_eq!((&**name, &**method, &**descriptor), ("g/a.B:1.0", "c", "ILjava/lang/String;"));
    let attachment = |name: &str| {
        attachments.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    };
    assert_eq!(attachment("path"), Some("a.B"));
    assert_eq!((attachment("version"), attachment("group")), (Some("1.0"), Some("g")));
    assert_eq!(attachment("generic"), None);

    let generic = Plan::generic(Generic::Gson);
    let route = Route::new(
        RoutePlace { index: 0, generation: 1 },
        &service,
        "c",
        Parameters::Unknown,
        generic,
    );
    assert!(route.answers_json_text() && route.def.method == GENERIC_METHOD);
    assert!(route.def.attachments.contains(&("generic".to_owned(), Generic::Gson.name().into())));
    let whole = Route::new(
        RoutePlace { index: 0, generation: 2 },
        &service,
        WHOLE,
        Parameters::Unknown,
        Plan::default(),
    );
    assert_eq!((&*whole.def.method, whole.def.attachments.len()), (WHOLE, 0));
}

#[test]
fn a_template_is_made_once_for_each_serialization() {
    let parameters = Parameters::Given(Vec::new());
    let route = Route::new(
        RoutePlace { index: 0, generation: 1 },
        &ServiceKey::new("a.B", "", "").unwrap(),
        "c",
        parameters,
        Plan::default(),
    );
    let first = route.template(Serialization::Hessian2).unwrap();
    assert!(std::ptr::eq(first, route.template(Serialization::Hessian2).unwrap()));
    let other = route.template(Serialization::Fastjson2).unwrap();
    assert_eq!(other.serialization(), Serialization::Fastjson2);
    for refused in [
        route.template(Serialization::Other(9)).err(),
        route.template_for_path(Serialization::Other(9), "x").err(),
    ] {
        assert_eq!(refused.map(|error| error.code), Some(Code::NoEndpoint));
    }
    assert!(route.template_for_path(Serialization::Hessian2, "x/y").is_ok());
}

/// Its calls reach the provider all the same.
#[test]
fn a_definition_is_completed_by_what_tells_the_service() {
    let service = ServiceKey::new("a.B", "1.0", "g").unwrap();
    let told = |attachments: &[(&str, &str)]| {
        let attachments =
            attachments.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let def = RouteDef { attachments: attachments.collect(), ..RouteDef::default() };
        with_service(&def, &service)
            .attachments
            .iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect::<Vec<_>>()
            .join(" ")
    };
    assert_eq!(told(&[]), "path=a.B interface=a.B version=1.0 group=g");
    let own = [("x", "y"), ("path", "ctx/b")];
    assert_eq!(told(&own), "interface=a.B version=1.0 group=g x=y path=ctx/b");
}
