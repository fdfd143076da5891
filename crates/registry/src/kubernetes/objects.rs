//! What the API server says about slices and Services: JSON in, what we need of it out. Pure.
//!
//! Invariants:
//! - An object that cannot be read never hides its neighbours: it is counted and left out.
//! - Only addresses and ports that can be connected to come out.

use std::collections::BTreeMap;
use std::net::IpAddr;

use dubbo_proto::ServiceKey;
use parameters::Parameters;
use serde::Deserialize;
use serde::de::IgnoredAny;

/// The label of a slice that names its Service.
const SERVICE_NAME: &str = "kubernetes.io/service-name";

/// The annotation of a Service with the Dubbo services that it offers.
const SERVICES: &str = "dubmesh.io/services";

/// The annotation of a Service with the name or number of its port for Dubbo.
const PORT: &str = "dubmesh.io/port";

/// The annotation of a Service with parameters, as in Dubbo's URLs.
const PARAMS: &str = "dubmesh.io/params";

/// More services behind one port are a mistake.
const MAX_SERVICES: usize = 1_000;

/// Which objects are listed and watched.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(super) enum ObjectKind {
    Slices,
    Services,
}

/// What identifies an object of one kind.
#[derive(Clone, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub(super) struct ObjectName {
    pub(super) namespace: String,
    pub(super) name: String,
}

/// An object, as far as it matters here.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Object {
    pub(super) name: ObjectName,
    pub(super) content: ObjectContent,
}

#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum ObjectContent {
    Slice(Slice),
    Service(Offer),
}

/// The endpoints of a slice.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(super) struct Slice {
    pub(super) service: String,
    pub(super) ports: Vec<Port>,
    pub(super) addresses: Vec<Address>,
}

#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Port {
    pub(super) name: String,
    pub(super) port: u16,
}

#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Address {
    pub(super) ip: IpAddr,
    /// Whose it is, if that is known. A pod of a Service with two families has an address of each.
    pub(super) pod: Option<String>,
    /// Whether it may get calls.
    pub(super) is_usable: bool,
    /// The zone whose callers should prefer it.
    pub(super) zone: Option<String>,
}

/// What a Service offers by its annotations.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(super) struct Offer {
    pub(super) services: Vec<ServiceKey>,
    /// Name or number.
    pub(super) port: Option<String>,
    pub(super) params: Parameters,
    /// Whether its first family of addresses is IPv6.
    pub(super) prefers_ipv6: bool,
    /// What of `dubmesh.io/services` is no name of a service.
    pub(super) wrong: Vec<String>,
}

/// One page of a list.
#[derive(Debug, Default)]
pub(super) struct Page {
    pub(super) objects: Vec<Object>,
    /// Objects that cannot be read.
    pub(super) n_bad: usize,
    /// The state that the list shows.
    pub(super) version: String,
    /// Where the next page begins, if there is one.
    pub(super) rest: Option<String>,
}

/// One line of a watch.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum WatchEvent {
    Put {
        object: Object,
        version: String,
    },
    Gone {
        name: ObjectName,
        version: String,
    },
    Bookmark {
        version: String,
    },
    /// The watch is over; 410 means that its history is.
    Failed {
        code: u16,
        message: String,
    },
}

/// Something that the API server would not write.
#[derive(Debug, thiserror::Error)]
pub(super) enum BadObject {
    #[error("{0}")]
    Json(#[from] serde_json::Error),
    #[error("an event of the unknown type {0:?}")]
    Type(String),
    #[error("an object without a name")]
    Nameless,
}

#[derive(Deserialize)]
struct ListText<T> {
    #[serde(default)]
    metadata: MetadataText,
    items: Option<Vec<Lenient<T>>>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Lenient<T> {
    Good(T),
    Bad(IgnoredAny),
}

#[derive(Deserialize)]
struct EventText<T> {
    object: T,
}

/// What all events have: an object with a version, or a status.
#[derive(Deserialize)]
struct EventHead {
    #[serde(rename = "type")]
    kind: String,
    object: ObjectHead,
}

#[derive(Deserialize)]
struct ObjectHead {
    #[serde(default)]
    metadata: MetadataText,
    code: Option<u16>,
    message: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct MetadataText {
    name: Option<String>,
    namespace: Option<String>,
    resource_version: Option<String>,
    #[serde(rename = "continue")]
    rest: Option<String>,
    labels: Option<BTreeMap<String, String>>,
    annotations: Option<BTreeMap<String, String>>,
}

#[derive(Deserialize)]
struct SliceText {
    metadata: MetadataText,
    endpoints: Option<Vec<Lenient<EndpointText>>>,
    ports: Option<Vec<Lenient<PortText>>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct EndpointText {
    addresses: Vec<String>,
    conditions: Option<ConditionsText>,
    zone: Option<String>,
    hints: Option<HintsText>,
    target_ref: Option<TargetText>,
}

#[derive(Deserialize)]
struct TargetText {
    uid: Option<String>,
    name: Option<String>,
}

#[derive(Default, Deserialize)]
struct ConditionsText {
    ready: Option<bool>,
    serving: Option<bool>,
    terminating: Option<bool>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct HintsText {
    for_zones: Option<Vec<ZoneText>>,
}

#[derive(Deserialize)]
struct ZoneText {
    name: String,
}

#[derive(Deserialize)]
struct PortText {
    name: Option<String>,
    port: Option<u16>,
    protocol: Option<String>,
}

#[derive(Deserialize)]
struct ServiceText {
    metadata: MetadataText,
    spec: Option<ServiceSpecText>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ServiceSpecText {
    ip_families: Option<Vec<String>>,
}

/// Reads one page of a list.
pub(super) fn parse_page(kind: ObjectKind, text: &[u8]) -> Result<Page, BadObject> {
    match kind {
        ObjectKind::Slices => page(serde_json::from_slice(text)?, slice),
        ObjectKind::Services => page(serde_json::from_slice(text)?, service),
    }
}

fn page<T>(list: ListText<T>, object: fn(T) -> Option<Object>) -> Result<Page, BadObject> {
    let mut page = Page {
        version: list.metadata.resource_version.unwrap_or_default(),
        rest: list.metadata.rest.filter(|rest| !rest.is_empty()),
        ..Page::default()
    };
    for item in list.items.unwrap_or_default() {
        match item {
            Lenient::Good(text) => match object(text) {
                Some(object) => page.objects.push(object),
                None => page.n_bad += 1,
            },
            Lenient::Bad(IgnoredAny) => page.n_bad += 1,
        }
    }
    Ok(page)
}

/// Reads one line of a watch.
pub(super) fn parse_event(kind: ObjectKind, line: &[u8]) -> Result<WatchEvent, BadObject> {
    let EventHead { kind: event, object } = serde_json::from_slice(line)?;
    let ObjectHead { metadata, code, message } = object;
    let version = metadata.resource_version.clone().unwrap_or_default();
    match event.as_str() {
        "ADDED" | "MODIFIED" => {
            let object = match kind {
                ObjectKind::Slices => slice(serde_json::from_slice::<EventText<_>>(line)?.object),
                ObjectKind::Services => {
                    service(serde_json::from_slice::<EventText<_>>(line)?.object)
                }
            };
            Ok(WatchEvent::Put { object: object.ok_or(BadObject::Nameless)?, version })
        }
        "DELETED" => {
            Ok(WatchEvent::Gone { name: name(&metadata).ok_or(BadObject::Nameless)?, version })
        }
        "BOOKMARK" => Ok(WatchEvent::Bookmark { version }),
        "ERROR" => {
            let (code, message) = (code.unwrap_or(500), message.unwrap_or_default());
            Ok(WatchEvent::Failed { code, message })
        }
        _ => Err(BadObject::Type(event.chars().take(32).collect())),
    }
}

fn name(metadata: &MetadataText) -> Option<ObjectName> {
    let (namespace, name) = (metadata.namespace.clone()?, metadata.name.clone()?);
    Some(ObjectName { namespace, name })
}

fn slice(text: SliceText) -> Option<Object> {
    let name = name(&text.metadata)?;
    let labels = text.metadata.labels.unwrap_or_default();
    // A slice that somebody has made by hand may belong to no Service.
    let service = labels.get(SERVICE_NAME).cloned().unwrap_or_default();
    let ports = text.ports.unwrap_or_default().into_iter().filter_map(port).collect();
    let addresses = text.endpoints.unwrap_or_default().into_iter().filter_map(address).collect();
    Some(Object { name, content: ObjectContent::Slice(Slice { service, ports, addresses }) })
}

fn port(text: Lenient<PortText>) -> Option<Port> {
    let Lenient::Good(PortText { name, port, protocol }) = text else { return None };
    let is_tcp = protocol.is_none_or(|protocol| protocol == "TCP");
    let port = port.filter(|port| is_tcp && *port != 0)?;
    Some(Port { name: name.unwrap_or_default(), port })
}

/// `None` for one that cannot be read.
fn address(text: Lenient<EndpointText>) -> Option<Address> {
    let Lenient::Good(text) = text else { return None };
    let EndpointText { addresses, conditions, zone, hints, target_ref } = text;
    let ConditionsText { ready, serving, terminating } = conditions.unwrap_or_default();
    // A Service that publishes addresses that are not ready has `ready` for all of them.
    let is_usable = ready.unwrap_or(true) && serving.unwrap_or(true) && terminating != Some(true);
    // All addresses of an endpoint lead to the same pod. Names (addressType FQDN) are not used.
    let ip = addresses.first()?.parse().ok()?;
    let pod = target_ref.and_then(|target| target.uid.or(target.name));
    let hinted = hints.and_then(|hints| hints.for_zones).unwrap_or_default();
    let is_own = |hint: &ZoneText| Some(&hint.name) == zone.as_ref();
    let zone = match hinted.first() {
        Some(first) if !hinted.iter().any(is_own) => Some(first.name.clone()),
        _ => zone,
    };
    Some(Address { ip, pod, is_usable, zone })
}

fn service(text: ServiceText) -> Option<Object> {
    let name = name(&text.metadata)?;
    let annotations = text.metadata.annotations.unwrap_or_default();
    let mut offer = Offer { port: annotations.get(PORT).cloned(), ..Offer::default() };
    let names = annotations.get(SERVICES).map_or("", String::as_str).split(',').map(str::trim);
    for name in names.filter(|name| !name.is_empty()).take(MAX_SERVICES) {
        match name.parse() {
            Ok(service) => offer.services.push(service),
            Err(_) => offer.wrong.push(name.chars().take(100).collect()),
        }
    }
    let params = annotations.get(PARAMS).map_or("", String::as_str).split('&');
    offer.params = params.filter_map(|pair| pair.split_once('=')).collect();
    let families = text.spec.and_then(|spec| spec.ip_families).unwrap_or_default();
    offer.prefers_ipv6 = families.first().is_some_and(|family| family == "IPv6");
    Some(Object { name, content: ObjectContent::Service(offer) })
}

/// What fuzz targets and tests call: whatever is read must be usable.
#[cfg(any(test, feature = "fuzzing"))]
pub(super) fn exercise(data: &[u8]) {
    for kind in [ObjectKind::Slices, ObjectKind::Services] {
        let page = parse_page(kind, data).unwrap_or_default();
        let event = parse_event(kind, data).ok();
        let put = event.and_then(|event| match event {
            WatchEvent::Put { object, .. } => Some(object),
            _ => None,
        });
        let mut state = super::state::State::new(Vec::new());
        state.replace(kind, page.objects);
        if let Some(object) = put {
            state.put(object);
        }
        let (rows, _) = state.rows();
        assert!(rows.iter().all(|row| row.listing.endpoint.port != 0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slice_of(endpoints: &str) -> Slice {
        let text = format!(
            r#"{{"type":"ADDED","object":{{"metadata":{{"name":"s","namespace":"n","resourceVersion":"7",
            "labels":{{"kubernetes.io/service-name":"orders"}}}},"addressType":"IPv4",
            "ports":[{{"name":"dubbo","port":20880,"protocol":"TCP"}},{{"name":"u","port":1,"protocol":"UDP"}},
            {{"port":null}},{{"port":99999}},7],"endpoints":{endpoints}}}}}"#
        );
        let event = parse_event(ObjectKind::Slices, text.as_bytes()).unwrap();
        match event {
            WatchEvent::Put {
                object: Object { content: ObjectContent::Slice(slice), .. },
                version,
            } => {
                assert_eq!((&*version, &*slice.service, slice.ports.len()), ("7", "orders", 1));
                slice
            }
            other => panic!("{other:?}"),
        }
    }

    fn shown(endpoints: &str) -> Vec<String> {
        let slice = slice_of(endpoints);
        let text = |it: &Address| format!("{} {}", it.ip, it.zone.as_deref().unwrap_or("-"));
        slice.addresses.iter().filter(|it| it.is_usable).map(text).collect()
    }

    #[test]
    fn conditions_say_who_gets_calls() {
        for (conditions, expected) in [
            ("null", 1),
            ("{}", 1),
            (r#"{"ready":true,"serving":true,"terminating":false}"#, 1),
            (r#"{"ready":false,"serving":true,"terminating":true}"#, 0),
            (r#"{"ready":false}"#, 0),
            (r#"{"serving":false}"#, 0),
            (r#"{"ready":true,"serving":true,"terminating":true}"#, 0),
        ] {
            let text = format!(r#"[{{"addresses":["10.0.0.1"],"conditions":{conditions}}}]"#);
            assert_eq!(shown(&text).len(), expected, "{conditions}");
        }
    }

    #[test]
    fn hints_come_before_the_own_zone() {
        let text = r#"[{"addresses":["10.0.0.1","10.9.9.9"],"zone":"a"},
            {"addresses":["10.0.0.2"],"zone":"a","hints":{"forZones":[{"name":"b"}]}},
            {"addresses":["10.0.0.3"],"zone":"a","hints":{"forZones":[{"name":"b"},{"name":"a"}]}},
            {"addresses":["fd00::1"]}]"#;
        assert_eq!(shown(text), ["10.0.0.1 a", "10.0.0.2 b", "10.0.0.3 a", "fd00::1 -"]);
    }

    #[test]
    fn what_cannot_be_read_hides_nothing_else() {
        let text = r#"[7,{"addresses":[]},{"addresses":["orders.acme.com"]},
            {"addresses":"10.0.0.9"},{"addresses":["10.0.0.1"],"more":{"x":[1]}}]"#;
        assert_eq!(shown(text), ["10.0.0.1 -"]);
        assert!(shown("null").is_empty());
        let page = br#"{"metadata":{"resourceVersion":"9","continue":"c"},"items":[5,{"metadata":7},
            {"metadata":{"name":"a"}},{"metadata":{"name":"a","namespace":"n","annotations":
            {"dubmesh.io/services":"g/a.B:1.0, , not a name,a.C","dubmesh.io/params":"timeout=9&x"}},
            "spec":{"ipFamilies":["IPv6","IPv4"]}}]}"#;
        let page = parse_page(ObjectKind::Services, page).unwrap();
        assert_eq!((page.n_bad, &*page.version, page.rest.as_deref()), (3, "9", Some("c")));
        let ObjectContent::Service(offer) = &page.objects[0].content else { panic!() };
        let names: Vec<_> = offer.services.iter().map(ToString::to_string).collect();
        assert_eq!(names, ["g/a.B:1.0", "a.C"]);
        assert_eq!((offer.wrong.len(), offer.params.len(), offer.prefers_ipv6), (1, 1, true));
    }

    #[test]
    fn the_end_of_the_history_comes_as_an_event() {
        let line = br#"{"type":"ERROR","object":{"kind":"Status","code":410,"message":"too old"}}"#;
        let event = parse_event(ObjectKind::Slices, line).unwrap();
        assert_eq!(event, WatchEvent::Failed { code: 410, message: "too old".into() });
        for line in ["", "{}", "null", r#"{"type":"NEW","object":{}}"#, r#"{"type":"ADDED"}"#] {
            assert!(parse_event(ObjectKind::Slices, line.as_bytes()).is_err(), "{line}");
            exercise(line.as_bytes());
        }
    }
}
