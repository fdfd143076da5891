//! Keys as the contest's agents, Java and Go providers, and our agents write them.

use dubbo_proto::url::encode_key;

use super::*;
use crate::endpoint::{Endpoint, Protocol};

fn service(text: &str) -> ServiceKey {
    text.parse().unwrap()
}

fn contest() -> Paths {
    Paths::new(&Layout::contest()).unwrap()
}

fn dubbo() -> Paths {
    Paths::new(&Layout::dubbo()).unwrap()
}

fn listing(read: Read) -> Listing {
    let Ok(Some(Entry::Listing(listing))) = read else { panic!("{read:?}") };
    Arc::unwrap_or_clone(listing)
}

fn registration(endpoint: Endpoint) -> Registration {
    let service = service("g/a.B:1.0");
    Registration { service, endpoint, methods: vec!["hash".into()], app_address: None }
}

#[test]
fn a_service_has_its_folders() {
    assert_eq!(contest().folders("a.IFoo"), ["/dubbomesh/a.IFoo"]);
    let expected = ["/dubbo/a.Outer%24Inner/agents", "/dubbo/a.Outer%24Inner/providers"];
    assert_eq!(dubbo().folders("a.Outer$Inner"), expected);
}

#[test]
fn a_root_has_no_slash_at_its_ends() {
    for root in ["", "/x", "x/", "x//y"] {
        let error = Paths::new(&Layout::Dubbo { root: root.into() }).unwrap_err().to_string();
        assert!(error.contains("without leading or trailing slash"), "{error}");
    }
    let keys = Paths::new(&Layout::Contest { root: "team/mesh".into() }).unwrap();
    assert_eq!(keys.folders("a.B"), ["/team/mesh/a.B"]);
}

#[test]
fn reads_the_contests_keys() {
    let read = |key: &str, value: &str| contest().read(key.as_bytes(), value.as_bytes());
    let first = listing(read("/dubbomesh/a.B/10.0.0.1:30000", " 3\n"));
    assert_eq!(first.endpoint.key().to_string(), "link://10.0.0.1:30000");
    assert_eq!(first.endpoint.weight, 3);
    assert!(first.matches(&service("a.B:1.0")) && first.matches(&service("g/a.B")));
    let second = listing(read("/dubbomesh/a.B/[::1]:30000", "0"));
    assert_eq!((second.endpoint.address().as_str(), second.endpoint.weight), ("[::1]:30000", 0));
    assert_eq!(read("/dubbomesh/a.B/", ""), Ok(None));
    for key in ["10.0.0.1", ":1", "h:", "h:0", "h:65536", "a b:1", "[x]:1"] {
        assert_eq!(read(&format!("/dubbomesh/a.B/{key}"), "1"), Err(BadEntry::NoAddress), "{key}");
    }
    for weight in ["", "-1", "heavy", "4294967296"] {
        let error = read("/dubbomesh/a.B/h:1", weight).unwrap_err();
        assert!(matches!(error, BadEntry::BadWeight { .. }), "{weight}");
    }
    for key in ["disabled/10.0.0.9:30000", "10.0.0.1:30000/", "disabled/", "/h:1"] {
        let read = read(&format!("/dubbomesh/a.B/{key}"), "1");
        assert_eq!(read, Err(BadEntry::NotDirectlyBelow), "{key}");
    }
    let not_text = contest().read(b"/dubbomesh/a.B/\xff:1", b"1");
    assert_eq!(not_text, Err(BadEntry::NotText));
}

#[test]
fn reads_java_providers_from_the_key() {
    let read = |url: &str| {
        let key = format!("/dubbo/a.B/providers/{}", encode_key(url));
        // The value is the number of a lease, or empty: no matter.
        dubbo().read(key.as_bytes(), b"7587883")
    };
    let url = "dubbo://10.0.0.1:20880/a.B?interface=a.B&methods=hash&version=1.0&weight=200";
    let listing = listing(read(url));
    assert_eq!(listing.endpoint.key().to_string(), "dubbo://10.0.0.1:20880");
    assert_eq!((listing.version.as_str(), listing.endpoint.weight), ("1.0", 200));
    for (url, expected) in [
        ("tri://10.0.0.1:50051/a.B?version=1.0", "protocol tri is not supported"),
        ("dubbo://10.0.0.1:20880/a.B?version=1.0&enabled=false", "disabled"),
        ("dubbo://10.0.0.1:20880/a.B?version=1.0&disabled=true", "disabled"),
    ] {
        let Entry::Leftover(leftover) = read(url).unwrap().unwrap() else { panic!("{url}") };
        let told = leftover.unused.to_string();
        assert!(told.contains(expected) && url.starts_with(&leftover.unused.what), "{told}");
        assert_eq!(leftover.version, "1.0");
    }
    for ignored in ["empty://0.0.0.0/a.B", "dubbo://10.0.0.1:20880/a.B?category=configurators"] {
        assert_eq!(read(ignored), Ok(None), "{ignored}");
    }
    for bad in ["dubbo://10.0.0.1/a.B", "dubbo://:20880/a.B", "no url", "dubbo://h:99999"] {
        assert!(read(bad).is_err(), "{bad}");
    }
    // Java puts every parent as an empty key.
    assert_eq!(dubbo().read(b"/dubbo/a.B/providers/", b""), Ok(None));
    assert!(dubbo().read(b"/dubbo/a.B/providers/%zz", b"").is_err());
    let nested = format!("/dubbo/a.B/providers/old/{}", encode_key(url));
    assert_eq!(dubbo().read(nested.as_bytes(), b""), Err(BadEntry::NotDirectlyBelow));
}

#[test]
fn what_an_agent_writes_reads_back() {
    let mut endpoint = Endpoint::new(Protocol::Link, "10.0.0.9", 30000);
    endpoint.weight = 3;
    let mut registration = registration(endpoint);
    registration.app_address = Some("10.0.0.9:20880".into());
    let Placed { path: key, value } = dubbo().place(&registration).unwrap();
    assert!(
        key.starts_with("/dubbo/a.B/agents/link%3A%2F%2F10.0.0.9%3A30000%2Fa.B%3Ffor%3D"),
        "{key}"
    );
    assert_eq!((value.text(42).as_str(), value), ("42", Value::SessionId));
    let listing = listing(dubbo().read(key.as_bytes(), b""));
    assert_eq!(listing.stands_for.as_deref(), Some("10.0.0.9:20880"));
    assert!(listing.matches(&registration.service));

    let Placed { path: key, value } = contest().place(&registration).unwrap();
    assert_eq!((key.as_str(), value), ("/dubbomesh/a.B/10.0.0.9:30000", Value::Weight(3)));
}

#[test]
fn a_dubbo_endpoint_goes_among_the_providers() {
    let registration = registration(Endpoint::new(Protocol::Dubbo, "10.0.0.9", 20880));
    let key = dubbo().place(&registration).unwrap().path;
    assert!(key.starts_with("/dubbo/a.B/providers/dubbo%3A%2F%2F10.0.0.9"), "{key}");
    let error = contest().place(&registration).unwrap_err().to_string();
    assert!(error.contains("use the dubbo layout"), "{error}");
}

#[test]
fn a_parameter_cannot_smuggle_others_in() {
    let mut endpoint = Endpoint::new(Protocol::Link, "h", 1);
    endpoint.params = [("x", "1&for=h:2")].into();
    let error = dubbo().place(&registration(endpoint)).unwrap_err().to_string();
    assert!(error.contains("parameters"), "{error}");
}
