//! URLs as providers register them, and as nobody should.

use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::{DEFAULT_PAYLOAD_LIMIT, MAX_PAYLOAD_LIMIT, Serialization};

/// What a Dubbo 3 provider puts into its registry, with the address changed.
const PROVIDER: &str = "dubbo://192.0.2.7:20880/com.acme.Orders?application=orders&deprecated=false\
    &dubbo=2.0.2&dynamic=true&generic=false&group=eu&interface=com.acme.Orders&methods=find,place\
    &prefer.serialization=fastjson2,hessian2&release=3.3.2&serialization=hessian2&side=provider\
    &timestamp=1700000000000&version=1.0.0&place.timeout=3000&timeout=500&weight=200&threads=64";

fn url(text: &str) -> DubboUrl {
    text.parse().unwrap()
}

#[test]
fn reads_a_providers_url() {
    let url = url(PROVIDER);
    assert_eq!((url.protocol.as_str(), url.host.as_str(), url.port), ("dubbo", "192.0.2.7", 20880));
    assert_eq!(url.service_key().unwrap().to_string(), "eu/com.acme.Orders:1.0.0");
    assert_eq!(url.methods().collect::<Vec<_>>(), ["find", "place"]);
    let expected = [Serialization::Hessian2, Serialization::Fastjson2];
    assert_eq!(url.serializations(), expected);
    assert_eq!(url.timeout("find"), Duration::from_millis(500));
    assert_eq!(url.timeout("place"), Duration::from_millis(3000));
    assert_eq!((url.weight(), url.threads(), url.release()), (200, Some(64), Some("3.3.2")));
    assert!(url.is_enabled());
    assert_eq!(url.category(), "providers");
    assert_eq!(url.to_string().parse::<DubboUrl>().unwrap(), url);
}

#[test]
fn defaults_are_dubbos() {
    let url = url("dubbo://host/a.B");
    assert_eq!((url.port, url.weight(), url.threads()), (0, 100, None));
    assert_eq!(url.timeout("m"), Duration::from_secs(1));
    assert_eq!(url.warmup(), Duration::from_secs(600));
    assert_eq!(url.payload(), 8 << 20);
    assert_eq!(url.serializations(), [Serialization::Hessian2]);
    assert_eq!((url.interface(), url.version(), url.group()), ("a.B", "", ""));
}

/// `AbstractCodec.isOverPayload`: nothing is over a limit of 0 or less.
#[test]
fn payload_limits_are_dubbos() {
    for (value, expected) in [
        ("67108864", 64 << 20),
        ("1", 1),
        ("0", MAX_PAYLOAD_LIMIT),
        ("-1", MAX_PAYLOAD_LIMIT),
        ("4294967296", MAX_PAYLOAD_LIMIT),
        ("9223372036854775808", DEFAULT_PAYLOAD_LIMIT),
        ("8M", DEFAULT_PAYLOAD_LIMIT),
        ("", DEFAULT_PAYLOAD_LIMIT),
    ] {
        let url = url(&format!("dubbo://host/a.B?payload={value}"));
        assert_eq!(url.payload(), expected, "{value}");
    }
    assert_eq!(url("dubbo://host/a.B?default.payload=7").payload(), 7);
}

#[test]
fn hessian2_comes_before_fastjson2_where_it_is_preferred_too() {
    let (hessian2, fastjson2) = (Serialization::Hessian2, Serialization::Fastjson2);
    let (sized, kryo) = (Serialization::FastjsonSized, Serialization::Other(8));
    for (params, expected) in [
        // What Dubbo 3.2 and 3.3 register by themselves.
        ("prefer.serialization=fastjson2,hessian2", &[hessian2, fastjson2][..]),
        ("prefer.serialization=hessian2,fastjson2", &[hessian2, fastjson2]),
        ("prefer.serialization=fastjson2", &[fastjson2, hessian2]),
        ("serialization=fastjson2", &[fastjson2, hessian2]),
        ("prefer.serialization=fastjson2,hessian2&serialization=fastjson2", &[hessian2, fastjson2]),
        ("prefer.serialization=fastjson2,kryo,hessian2", &[kryo, hessian2, fastjson2]),
        ("prefer.serialization=fastjson,hessian2,fastjson2", &[sized, hessian2, fastjson2]),
    ] {
        let url = url(&format!("dubbo://h:1/a.B?release=3.3.6&{params}"));
        assert_eq!(url.serializations(), expected, "{params}");
    }
}

#[test]
fn the_release_tells_the_framing_of_fastjson() {
    let (lines, sized) = (Serialization::Fastjson, Serialization::FastjsonSized);
    for (release, expected) in [
        ("", lines),
        ("2.7.23", lines),
        ("3.1.11", lines),
        ("3.2.0", sized),
        ("3.3.6", sized),
        ("10.0", sized),
        ("new", lines),
    ] {
        let url = url(&format!("dubbo://h:1/a.B?serialization=fastjson&release={release}"));
        assert_eq!(url.serializations(), [expected, Serialization::Hessian2], "{release}");
    }
}

#[test]
fn strange_values_count_as_left_out() {
    let url = url("dubbo://h:1/a.B?weight=much&timeout=-1&threads=0&version=0.0.0&disabled=true");
    assert_eq!((url.weight(), url.threads(), url.version()), (100, None, ""));
    assert_eq!(url.timeout("m"), Duration::from_secs(1));
    assert!(!url.is_enabled());
    let old = "dubbo://h:1/a.B?default.timeout=700&weight=-5".parse::<DubboUrl>().unwrap();
    assert_eq!((old.timeout("m"), old.weight()), (Duration::from_millis(700), 0));
}

#[test]
fn flags_are_read_in_any_case() {
    let is_enabled = |params: &str| url(&format!("dubbo://h:1/a.B?{params}")).is_enabled();
    for off in ["disabled=TRUE", "disabled=True", "enabled=FALSE", "default.enabled=False"] {
        assert!(!is_enabled(off), "{off}");
    }
    for on in ["", "disabled=FALSE", "enabled=True", "disabled=yes", "enabled="] {
        assert!(is_enabled(on), "{on}");
    }
}

#[test]
fn weight_grows_while_a_provider_warms_up() {
    let url = url("dubbo://h:1/a.B?weight=100&warmup=10000&timestamp=5000");
    let weights = [4000, 5000, 6000, 10_000, 14_999, 15_000, 99_999].map(|now| url.weight_at(now));
    assert_eq!(weights, [1, 1, 10, 50, 99, 100, 100]);
}

#[test]
fn reads_hosts_of_every_kind() {
    let cases = [
        ("dubbo://[2001:db8::1]:20880/a", "2001:db8::1", 20880),
        ("dubbo://2001:db8:0:0:0:0:0:1:20880/a", "2001:db8:0:0:0:0:0:1", 20880),
        ("dubbo://[::1]", "::1", 0),
        ("dubbo://fe80:0:0:0:894:aeec:f37d:23e1%en0/a", "fe80:0:0:0:894:aeec:f37d:23e1%en0", 0),
        ("consumer://some-host.example/a", "some-host.example", 0),
        ("empty:///a", "", 0),
    ];
    for (text, host, port) in cases {
        let parsed = url(text);
        assert_eq!((parsed.host.as_str(), parsed.port), (host, port), "{text}");
        assert_eq!(url(&parsed.to_string()), parsed, "{text}");
    }
    let user = url("dubbo://me:p@ss@h:1/a");
    assert_eq!((user.username.as_deref(), user.password.as_deref()), (Some("me"), Some("p@ss")));
}

#[test]
fn refuses_what_is_no_url() {
    let long = format!("dubbo://h/{}", "a".repeat(MAX_URL_LEN));
    let many = (0..=MAX_PARAMS).map(|n| format!("&p{n}=1")).collect::<String>();
    let many = format!("dubbo://h/a?{many}");
    let cases = [
        ("", 0, "begins with protocol://"),
        ("host:20880", 0, "begins with protocol://"),
        ("://h", 0, "a protocol of letters and digits"),
        ("dubbo://h:70000/a", 8, "a port from 0 to 65535"),
        ("dubbo://h:+1/a", 8, "a port from 0 to 65535"),
        ("dubbo://[::1/a", 8, "no ] after ["),
        ("dubbo://[::1]x/a", 8, "only :port after ]"),
        ("dubbo://h h/a", 9, "no spaces before the parameters"),
        ("dubbo://h/a b?c=d", 11, "no spaces before the parameters"),
        ("dubbo://h/a?b=c\nd", 15, "no control characters"),
        ("dubbo://h/a?x=1&=2", 16, "a parameter has a name"),
        ("dubbo://h\"h/a", 8, "a host of letters, digits and - . _ : %"),
        (&long, MAX_URL_LEN, "longer than any URL"),
        (&many, many.rfind('&').unwrap() + 1, "at most 1024 parameters"),
    ];
    for (text, offset, rule) in cases {
        assert_eq!(text.parse::<DubboUrl>(), Err(ProtoError::Url { offset, rule }));
    }
}

proptest! {
    /// Whatever can be read is written so that it reads the same.
    #[test]
    fn reads_back_what_it_wrote(
        address in "(dubbo|tri)://([a-z:%@.\\[\\]0-9]{0,12})",
        rest in "(/\\PC{0,12})?(\\?[a-z=&%. ]{0,20})?",
    ) {
        let text = address + &rest;
        if let Ok(url) = text.parse::<DubboUrl>() {
            prop_assert_eq!(url.to_string().parse::<DubboUrl>(), Ok(url));
        }
    }

    /// Java writes what a parameter says as it is, blanks and all, and encodes the whole URL.
    #[test]
    fn values_may_have_blanks(value in "[^&\\pC]{1,20}") {
        let text = format!("dubbo://h:1/a.B?revision={value}&weight=7");
        let read: DubboUrl = decode_key(&encode_key(&text)).unwrap().parse().unwrap();
        prop_assert_eq!(read.params.get("revision"), Some(&*value));
        prop_assert_eq!((read.weight(), read.to_string()), (7, text));
    }
}
