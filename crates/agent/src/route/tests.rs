use dubbo_proto::Serialization;
use link_proto::RouteDef;

use super::*;
use crate::error::Code;

/// What links are told of a method is all that its requests have in common.
#[test]
fn a_definition_names_service_method_and_types() {
    let service = ServiceKey::new("a.B", "1.0", "g").unwrap();
    let types = vec![JavaType::parse("int").unwrap(), JavaType::parse("java.lang.String").unwrap()];
    let route = Route::new(
        RoutePlace { index: 3, generation: 7 },
        &service,
        "c",
        ParameterTypes::Given(types),
        Plan::default(),
    );
    assert_eq!((route.index, route.generation), (3, 7));
    let RouteDef { service: name, method, descriptor, attachments } = &route.own.def;
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
        ParameterTypes::Unknown,
        generic,
    );
    assert!(route.answers_json_text() && route.own.def.method == GENERIC_METHOD);
    assert!(
        route.own.def.attachments.contains(&("generic".to_owned(), Generic::Gson.name().into()))
    );
    let whole = Route::new(
        RoutePlace { index: 0, generation: 2 },
        &service,
        WHOLE,
        ParameterTypes::Unknown,
        Plan::default(),
    );
    assert_eq!((&*whole.own.def.method, whole.own.def.attachments.len()), (WHOLE, 0));
}

#[test]
fn a_template_is_made_once_for_each_serialization() {
    let parameters = ParameterTypes::Given(Vec::new());
    let route = Route::new(
        RoutePlace { index: 0, generation: 1 },
        &ServiceKey::new("a.B", "", "").unwrap(),
        "c",
        parameters,
        Plan::default(),
    );
    let first = route.own.template(Serialization::Hessian2).unwrap();
    assert!(std::ptr::eq(first, route.own.template(Serialization::Hessian2).unwrap()));
    let other = route.own.template(Serialization::Fastjson2).unwrap();
    assert_eq!(other.serialization(), Serialization::Fastjson2);
    for refused in [
        route.own.template(Serialization::Other(9)).err(),
        route.own.template_for_path(Serialization::Other(9), "x").err(),
    ] {
        assert_eq!(refused.map(|error| error.code), Some(Code::NoEndpoint));
    }
    assert!(route.own.template_for_path(Serialization::Hessian2, "x/y").is_ok());
}

/// What a caller leaves open is that of the endpoint. The route itself stays as it is.
#[test]
fn a_route_has_a_variant_for_what_an_endpoint_is_listed_with() {
    let key = |text: &str| text.parse::<ServiceKey>().unwrap();
    let place = RoutePlace { index: 0, generation: 1 };
    let parameters = || ParameterTypes::Given(Vec::new());
    let route = Route::new(place, &key("*/a.B:*"), "c", parameters(), Plan::default());
    let listed = route.variant(&key("g/a.B:1.0"));
    let straight = Route::new(place, &key("g/a.B:1.0"), "c", parameters(), Plan::default());
    assert_eq!((&*listed.service, &listed.def), ("g/a.B:1.0", &straight.own.def));
    assert_eq!(&*route.own.service, "*/a.B:*");
    assert!(Rc::ptr_eq(&listed, &route.variant(&key("g/a.B:1.0"))));
    for version in 0..MAX_VARIANTS {
        route.variant(&key(&format!("a.B:{version}")));
    }
    assert_eq!(route.variants.borrow().len(), MAX_VARIANTS);
    let again = route.variant(&key("g/a.B:1.0"));
    assert!(!Rc::ptr_eq(&listed, &again) && again.is_of(&listed.service));
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
