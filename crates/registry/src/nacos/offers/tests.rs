use super::*;
use crate::endpoint::{Endpoint, Protocol};

fn lists(name: &str, hosts: &str) -> Vec<(ServiceName, Arc<ServiceInfo>)> {
    let info = serde_json::from_str(&format!(r#"{{"hosts":{hosts}}}"#)).unwrap();
    vec![(ServiceName { group: "G".into(), name: name.into() }, Arc::new(info))]
}

fn shown(items: &[Item<Entry>]) -> Vec<String> {
    let shown = |item: &Item<Entry>| match &item.read {
        Ok(Some(Entry::Listing(it))) => {
            format!("{}/{}:{} {}", it.group, it.version, it.endpoint.key(), it.endpoint.weight)
        }
        Ok(Some(Entry::Leftover(it))) => it.unused.to_string(),
        Ok(Some(Entry::Named { version, group })) => format!("only the name {group}/{version}"),
        Ok(None) => "nothing".into(),
        Err(error) => error.to_string(),
    };
    items.iter().map(shown).collect()
}

#[test]
fn a_service_without_instances_is_known_by_name() {
    assert_eq!(shown(&entries(&lists("providers:a.B:1:g", "[]"), &[])), ["only the name g/1"]);
    assert_eq!(shown(&entries(&lists("orders", "[]"), &[])), [""; 0]);
}

#[test]
fn an_instance_is_used_as_its_flags_and_weights_say() {
    let hosts = r#"[
        {"ip":"h1","port":1,"weight":2.5,"metadata":{"version":"9","path":"x"}},
        {"ip":"h2","port":1,"weight":0.001,"metadata":{"weight":"50"}},
        {"ip":"h3","port":1,"weight":0},
        {"ip":"h4","port":1,"enabled":false},
        {"ip":"h5","port":1,"healthy":false},
        {"ip":"h6","port":1,"metadata":{"protocol":"tri"}},
        {"ip":"","port":1},
        {"ip":[],"port":1}]"#;
    let shown = shown(&entries(&lists("providers:a.B:1:g", hosts), &[]));
    assert_eq!(shown[..3], ["g/1:dubbo://h1:1 250", "g/1:dubbo://h2:1 1", "g/1:dubbo://h3:1 0"]);
    assert_eq!(shown[3], "dubbo://h4:1 (disabled)");
    assert_eq!(shown[4], "dubbo://h5:1 (unhealthy, the registry says)");
    assert!(shown[5].starts_with("tri://h6:1 (protocol tri is not supported"), "{shown:?}");
    assert!(shown[6].contains("no host") && shown[7].contains("invalid type"), "{shown:?}");
}

#[test]
fn if_nobody_is_well_all_are_used() {
    let hosts = r#"[{"ip":"h1","port":1,"healthy":false},
        {"ip":"h2","port":1,"healthy":true,"enabled":false}]"#;
    let shown = shown(&entries(&lists("providers:a.B::", hosts), &[]));
    assert_eq!(shown, ["/:dubbo://h1:1 100", "dubbo://h2:1 (disabled)"]);
}

#[test]
fn clusters_can_be_chosen() {
    let hosts = r#"[{"ip":"h1","port":1,"clusterName":"north"},{"ip":"h2","port":1}]"#;
    let lists = lists("providers:a.B::", hosts);
    assert_eq!(shown(&entries(&lists, &["DEFAULT".into()])), ["/:dubbo://h2:1 100"]);
    assert_eq!(entries(&lists, &["south".into()]), []);
}

#[test]
fn an_old_name_leaves_it_to_the_metadata_what_is_version_and_what_is_group() {
    let hosts = r#"[{"ip":"h1","port":1,"metadata":{"group":"g"}}]"#;
    let shown = shown(&entries(&lists("providers:a.B:g", hosts), &[]));
    assert_eq!(shown, ["g/:dubbo://h1:1 100"]);
}

#[test]
fn an_application_has_those_that_are_well() {
    let hosts = r#"[{"ip":"h1","port":1,"metadata":{"dubbo.metadata.revision":"r"}},
        {"ip":"h2","port":1,"healthy":false},{"ip":"h3","port":0}]"#;
    let items = instances(&lists("orders", hosts), &[]);
    let instance = items[0].read.as_ref().unwrap().as_ref().unwrap();
    assert_eq!((instance.application.as_str(), instance.revision()), ("orders", Some("r")));
    assert_eq!(items[1].read, Ok(None));
    assert_eq!(items[2].read, Err(BadEntry::NoHost));
}

fn registration(params: &[(&str, String)]) -> Registration {
    let mut endpoint = Endpoint::new(Protocol::Link, "10.0.0.1", 30880);
    endpoint.params = params.iter().map(|(name, value)| (name, value)).collect();
    endpoint.weight = 200;
    let service = ServiceKey::new("a.B", "1", "g").unwrap();
    let methods = vec!["m".repeat(2000)];
    Registration { service, endpoint, methods, app_address: Some("10.0.0.1:20880".into()) }
}

#[test]
fn what_is_registered_reads_back_and_is_short_enough() {
    let placed = place(&registration(&[("pid", "1".repeat(1000))]), "G", "C").unwrap();
    assert_eq!(placed.path, "G@@agents:a.B:1:g/10.0.0.1:30880");
    let Value::Text(text) = &placed.value else { panic!("{placed:?}") };
    let (service, instance) = unplaced(text).unwrap();
    assert_eq!((service.group.as_str(), service.name.as_str()), ("G", "agents:a.B:1:g"));
    assert!(instance.metadata_len() <= MAX_METADATA_LEN && !instance.metadata.contains("pid"));
    let info = ServiceInfo { hosts: vec![Ok(instance)], ..ServiceInfo::default() };
    let items = entries(&[(service, Arc::new(info))], &[]);
    let Ok(Some(Entry::Listing(listing))) = &items[0].read else { panic!("{items:?}") };
    assert_eq!(listing.endpoint.key().to_string(), "link://10.0.0.1:30880");
    assert_eq!((listing.endpoint.weight, listing.version.as_str()), (200, "1"));
    assert_eq!(listing.stands_for.as_deref(), Some("10.0.0.1:20880"));
}

#[test]
fn what_is_too_long_all_the_same_is_refused_with_its_length() {
    let error = place(&registration(&[("mine", "x".repeat(1000))]), "G", "C").unwrap_err();
    assert!(error.to_string().contains("1024 characters"), "{error}");
}
