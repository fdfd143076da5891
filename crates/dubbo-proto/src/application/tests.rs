use std::collections::BTreeSet;

use super::*;
use crate::ServiceKey;

/// Written by Dubbo 3.3.6 with Curator 5.7.1.
const CURATOR: &str = r#"{"name":"orders","id":"10.0.0.5:20880","address":"10.0.0.5","port":20880,
"sslPort":null,"payload":{"@class":"org.apache.dubbo.registry.zookeeper.ZookeeperInstance",
"id":"10.0.0.5:20880","name":"orders","metadata":{
"dubbo.endpoints":"[{\"port\":20880,\"protocol\":\"dubbo\"},{\"port\":50051,\"protocol\":\"tri\"}]",
"dubbo.metadata-service.url-params":"{\"version\":\"1.0.0\",\"port\":\"20881\",\"protocol\":\"dubbo\"}",
"dubbo.metadata.revision":"6a1e","dubbo.metadata.storage-type":"local","timestamp":"17"}},
"registrationTimeUTC":1700000000000,"serviceType":"DYNAMIC","uriSpec":null}"#;

/// Written by `EtcdServiceDiscovery`.
const PLAIN: &str = r#"{"serviceName":"orders","host":"10.0.0.5","port":20880,"enabled":true,
"healthy":true,"metadata":{"dubbo.metadata.revision":"6a1e","dubbo.metadata.storage-type":"remote"}}"#;

const METADATA: &str = r#"{"app":"orders","revision":"6a1e","services":{
"blue/a.B:2.0:dubbo":{"name":"a.B","group":"blue","version":"2.0","protocol":"dubbo","port":-1,
"path":"ctx/a.B","params":{"timeout":"700","weight":200,"odd":["x"]}},
"a.B:tri":{"name":"a.B","protocol":"tri","path":"a.B","params":{}},
"broken":{"name":"a b"},"nothing":null}}"#;

#[test]
fn reads_instances_in_both_forms() {
    let instance = Instance::parse(CURATOR.as_bytes()).unwrap();
    assert_eq!((&*instance.application, &*instance.id()), ("orders", "10.0.0.5:20880"));
    assert_eq!(instance.revision(), Some("6a1e"));
    assert_eq!(instance.storage(), Storage::Local);
    assert_eq!((instance.port_of("tri"), instance.port_of("rest")), (Some(50051), None));
    let address = instance.metadata_address().unwrap();
    assert_eq!((&*address.protocol, address.port), ("dubbo", 20881));
    let instance = Instance::parse(PLAIN.as_bytes()).unwrap();
    assert_eq!((&*instance.application, instance.port), ("orders", 20880));
    assert_eq!((instance.storage(), instance.is_enabled), (Storage::Remote, true));
    assert_eq!(instance.metadata_address().unwrap().port, 20880, "nothing else is said");
    let off = Instance::parse(PLAIN.replace("\"enabled\":true", "\"enabled\":false").as_bytes());
    assert!(!off.unwrap().is_enabled);
    let empty = Instance::parse(PLAIN.replace("6a1e", "0").as_bytes()).unwrap();
    assert_eq!(empty.revision(), None);
}

#[test]
fn reads_what_it_writes() {
    let params = [("version".to_owned(), "1.0.0".to_owned())].into();
    let instance = Instance::offering("orders", "10.0.0.6", 20990, "77", Storage::Local, &params);
    for record in [instance.curator_record(1), instance.plain_record()] {
        assert_eq!(Instance::parse(record.as_bytes()).as_ref(), Ok(&instance), "{record}");
    }
    let address = instance.metadata_address().unwrap();
    assert_eq!((&*address.protocol, address.port), ("dubbo", 20990));
    let metadata = Metadata::parse(METADATA.as_bytes()).unwrap();
    let own = Metadata::new("orders", metadata.services.clone());
    assert_eq!(own.revision.len(), 32);
    assert_eq!(Metadata::parse(own.to_json().as_bytes()).as_ref(), Ok(&own));
    assert_eq!(Metadata::new("orders", metadata.services).revision, own.revision);
    assert_ne!(Metadata::new("other", own.services.clone()).revision, own.revision);
    assert_ne!(Metadata::new("orders", own.services[1..].to_vec()).revision, own.revision);
}

/// Instances of dubbo-go share a revision whatever their ports, and so the metadata of one of
/// them.
#[test]
fn the_ports_of_another_instance_are_not_taken() {
    let service = |interface: &str, port| OfferedService {
        service: interface.parse().unwrap(),
        protocol: "dubbo".to_owned(),
        port,
        path: interface.to_owned(),
        params: Parameters::default(),
    };
    let services = vec![service("a.B", 20001), service("a.C", 20002), service("a.D", 0)];
    let metadata = Metadata::new("orders", services);
    let ports = |port: u16| {
        let params = Parameters::default();
        let instance = Instance::offering("orders", "h", port, "7", Storage::Remote, &params);
        let port = |it| metadata.url(it, &instance).port;
        metadata.services.iter().map(port).collect::<Vec<_>>()
    };
    assert_eq!(ports(20001), [20001, 20002, 20001], "it has two ports, and names one");
    assert_eq!(ports(20009), [20009, 20009, 20009], "it is another one");
    let silent = Instance::parse(br#"{"serviceName":"orders","host":"h","port":20009}"#).unwrap();
    assert_eq!(metadata.url(&metadata.services[0], &silent).port, 20001);
}

#[test]
fn reads_metadata_and_makes_urls_of_them() {
    let metadata = Metadata::parse(METADATA.as_bytes()).unwrap();
    assert_eq!((&*metadata.application, &*metadata.revision), ("orders", "6a1e"));
    let instance = Instance::parse(CURATOR.as_bytes()).unwrap();
    let urls: Vec<_> =
        metadata.services.iter().map(|it| metadata.url(it, &instance).to_string()).collect();
    assert_eq!(
        urls,
        [
            "tri://10.0.0.5:50051/a.B?application=orders&interface=a.B&timestamp=17",
            "dubbo://10.0.0.5:20880/ctx/a.B?application=orders&group=blue&interface=a.B&\
             timeout=700&timestamp=17&version=2.0&weight=200",
        ]
    );
    assert_eq!(metadata.services[1].service, ServiceKey::new("a.B", "2.0", "blue").unwrap());
}

/// As with `InstanceAddressURL` of Dubbo 3.3.6, by which tag rules and weights go.
#[test]
fn what_an_instance_says_of_itself_holds_for_its_services() {
    let metadata = Metadata::parse(METADATA.as_bytes()).unwrap();
    let more = r#""dubbo.tag":"gray","region":"north","weight":"9","timestamp":"17""#;
    let instance = Instance::parse(CURATOR.replace(r#""timestamp":"17""#, more).as_bytes());
    let url = metadata.url(&metadata.services[1], &instance.unwrap());
    let names: Vec<_> = url.params.iter().map(|(name, _)| name).collect();
    assert_eq!(
        names,
        [
            "application",
            "dubbo.tag",
            "group",
            "interface",
            "region",
            "timeout",
            "timestamp",
            "version",
            "weight"
        ]
    );
    let param = |name| url.params.get(name);
    assert_eq!((param("dubbo.tag"), param("weight")), (Some("gray"), Some("200")));
}

#[test]
fn refuses_what_dubbo_does_not_write() {
    for record in ["", "null", "[]", "{", "{}", r#"{"serviceName":"a/b","host":"h","port":1}"#] {
        assert!(Instance::parse(record.as_bytes()).is_err(), "{record}");
        assert!(Metadata::parse(record.as_bytes()).is_err(), "{record}");
    }
    for port in ["0", "65536", "-1", "\"x\"", "null", "1.5", "1e400"] {
        let record = PLAIN.replace("20880", port);
        assert!(Instance::parse(record.as_bytes()).is_err(), "{port}");
    }
    for revision in ["../../config", "a b", &"x".repeat(1000)] {
        let record = PLAIN.replace("6a1e", revision);
        assert_eq!(Instance::parse(record.as_bytes()), Err(wrong("the revision")));
    }
    let deep = "[".repeat(1000) + &"]".repeat(1000);
    let deep = METADATA.replace("[\"x\"]", &deep);
    assert!(matches!(Metadata::parse(deep.as_bytes()), Err(ApplicationError::NotJson { .. })));
    let long = METADATA.replace("\"6a1e\"", &format!("\"{}\"", "x".repeat(10 << 20)));
    let error = Metadata::parse(long.as_bytes()).unwrap_err();
    assert!(matches!(error, ApplicationError::TooLong { .. }), "{error}");
    let many = METADATA.replace("[\"x\"]", &format!("[{}1]", "1,".repeat(300_000)));
    let error = Metadata::parse(many.as_bytes()).unwrap_err();
    assert!(matches!(error, ApplicationError::TooMany { .. }), "{error}");
}

/// However many names somebody makes up, what is in use stays, and each other one has its turn.
#[test]
fn applications_of_a_long_mapping_take_turns() {
    // Each name is there twice, and the later ones first.
    let names: Vec<_> = (0..1000).rev().chain(0..1000).map(|n| format!("n{n:03}")).collect();
    let text = names.join(",");
    let turn = |after: Option<&str>| applications_in_turn(&text, after, |name| name == "n999");
    let (mut tried, mut after, mut n_turns) = (BTreeSet::new(), None, 0);
    loop {
        let ApplicationsInTurn { names, is_cut, last, is_round_over } = turn(after.as_deref());
        assert_eq!((names.len(), is_cut), (MAX_APPLICATIONS, true));
        assert!(names.contains("n999"), "{names:?}");
        tried.extend(names);
        (after, n_turns) = (last, n_turns + 1);
        if is_round_over {
            break;
        }
    }
    assert_eq!((tried.len(), n_turns), (1000, 999_usize.div_ceil(MAX_APPLICATIONS - 1)));
    // The next round begins where the last turn had room for names in front.
    assert!(!turn(after.as_deref()).is_round_over);
    // One after which the next turn would begin may be gone.
    let next = turn(Some("n0635")).names;
    assert_eq!(next.first().map(String::as_str), Some("n064"));
    let all_used = applications_in_turn(&text, None, |name| name < "n064");
    assert_eq!((all_used.names.len(), all_used.last, all_used.is_round_over), (64, None, true));
    let short = applications_in_turn("b,a,b", Some("a"), |_| false);
    assert_eq!((short.names.len(), short.is_cut, short.is_round_over), (2, false, true));
}

#[test]
fn mappings_are_lists_of_names() {
    let names: Vec<_> = applications(" b,a,,a/x,b, c\n").into_iter().collect();
    assert_eq!(names, ["a", "b", "c"]);
    let many: Vec<_> = (0..1000).map(|n| n.to_string()).collect();
    assert_eq!(applications(&many.join(",")).len(), MAX_APPLICATIONS);
    assert_eq!(add_application("", "a").as_deref(), Some("a"));
    assert_eq!(add_application("b", "a").as_deref(), Some("b,a"));
    assert_eq!(add_application("b, a", "a"), None);
}
