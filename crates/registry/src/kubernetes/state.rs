//! What is known of slices and Services, and the endpoints that follow from it. Pure.
//!
//! Invariant: at most [`MAX_ADDRESSES`] addresses are kept, whatever the API server lists.

use std::collections::{BTreeMap, HashMap, HashSet};

use dubbo_proto::ServiceKey;
use parameters::Parameters;

use crate::endpoint::{Endpoint, Level, NotUsed, Protocol, Unused};
use crate::listing::{Leftover, Listing};
use crate::table::Row;

use super::objects::{Address, Object, ObjectContent, ObjectKind, ObjectName, Offer, Port, Slice};

/// More than any cluster of Kubernetes has pods.
const MAX_ADDRESSES: usize = 200_000;

/// Rows of all services. A pod that offers many services has a row for each.
const MAX_ROWS: usize = 500_000;

/// The port where the app's Dubbo is, unless something else is said.
const DUBBO: &str = "dubbo";

/// The port where an agent beside the app takes links.
const LINK: &str = "link";

/// A Dubbo service of a Service of Kubernetes, by the configuration.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Mapped {
    pub(super) service: ServiceKey,
    pub(super) of: ObjectName,
    /// Name or number.
    pub(super) port: Option<String>,
}

/// All slices and Services.
#[derive(Debug)]
pub(super) struct State {
    slices: BTreeMap<ObjectName, Slice>,
    offers: BTreeMap<ObjectName, Offer>,
    mapped: Vec<Mapped>,
    n_addresses: usize,
}

impl State {
    pub(super) fn new(mapped: Vec<Mapped>) -> Self {
        Self { slices: BTreeMap::new(), offers: BTreeMap::new(), mapped, n_addresses: 0 }
    }

    /// Takes a whole list over.
    pub(super) fn replace(&mut self, kind: ObjectKind, objects: Vec<Object>) {
        match kind {
            ObjectKind::Slices => {
                self.slices.clear();
                self.n_addresses = 0;
            }
            ObjectKind::Services => self.offers.clear(),
        }
        for object in objects {
            self.put(object);
        }
    }

    /// Takes an object over that is new or has changed; false if nothing follows from it.
    pub(super) fn put(&mut self, Object { name, content }: Object) -> bool {
        match content {
            ObjectContent::Slice(mut slice) => {
                let n_before = self.slices.get(&name).map_or(0, |it| it.addresses.len());
                let n_others = self.n_addresses - n_before;
                slice.addresses.truncate(MAX_ADDRESSES - n_others);
                self.n_addresses = n_others + slice.addresses.len();
                self.slices.insert(name, slice.clone()) != Some(slice)
            }
            // Most Services have nothing to do with Dubbo.
            ObjectContent::Service(offer)
                if offer.services.is_empty() && offer.wrong.is_empty() =>
            {
                self.offers.remove(&name).is_some()
            }
            ObjectContent::Service(offer) => self.offers.insert(name, offer.clone()) != Some(offer),
        }
    }

    /// An object is gone; false if nothing follows from that.
    pub(super) fn remove(&mut self, kind: ObjectKind, name: &ObjectName) -> bool {
        match kind {
            ObjectKind::Slices => self.slices.remove(name).is_some_and(|slice| {
                self.n_addresses -= slice.addresses.len();
                true
            }),
            ObjectKind::Services => self.offers.remove(name).is_some(),
        }
    }

    /// The endpoints of all services, and what cannot be used, by interface.
    pub(super) fn rows(&self) -> (Vec<Row>, Vec<(String, Leftover)>) {
        let (mut rows, mut leftovers) = (Vec::new(), Vec::new());
        let none = Parameters::default();
        let doubles = self.doubles();
        for (name, slice) in &self.slices {
            let of = slice.of(name);
            let doubles = doubles.get(&of);
            let usable = slice.addresses.iter().filter(|address| address.is_usable);
            let usable = usable.filter(|it| doubles.is_none_or(|doubles| !doubles.hide(it)));
            let offer = self.offers.get(&of);
            let annotated = offer.into_iter().flat_map(|offer| {
                offer.services.iter().map(move |it| (it, offer.port.as_deref(), &offer.params))
            });
            let mapped = self.mapped.iter().filter(|mapped| mapped.of == of);
            let mapped = mapped.map(|it| (&it.service, it.port.as_deref(), &none));
            for (service, wanted, params) in annotated.chain(mapped) {
                let ports = ports(&slice.ports, wanted);
                if ports.is_none() && usable.clone().next().is_some() {
                    leftovers.push((service.interface.clone(), without_port(service, &of, wanted)));
                }
                let Some(ports) = ports else { continue };
                for address in usable.clone() {
                    if rows.len() < MAX_ROWS {
                        push(&mut rows, service, address, ports, params);
                    }
                }
            }
        }
        (rows, leftovers)
    }

    /// The Services whose pods have addresses of two families.
    fn doubles(&self) -> HashMap<ObjectName, Doubles<'_>> {
        let mut families = HashMap::<ObjectName, [bool; 2]>::new();
        for (name, slice) in &self.slices {
            // A slice has addresses of one family.
            if let Some(address) = slice.addresses.first() {
                families.entry(slice.of(name)).or_default()[usize::from(address.ip.is_ipv6())] =
                    true;
            }
        }
        let both = families.into_iter().filter(|(_, families)| *families == [true, true]);
        let mut doubles: HashMap<_, _> = both
            .map(|(of, _)| {
                let is_ipv6 = self.offers.get(&of).is_some_and(|offer| offer.prefers_ipv6);
                (of, Doubles { is_ipv6, pods: HashSet::new() })
            })
            .collect();
        for (name, slice) in &self.slices {
            let Some(doubles) = doubles.get_mut(&slice.of(name)) else { continue };
            let preferred = slice.addresses.iter().filter(|it| it.ip.is_ipv6() == doubles.is_ipv6);
            doubles.pods.extend(preferred.filter_map(|it| it.pod.as_deref()));
        }
        doubles
    }
}

/// The pods of a Service that have addresses of two families: each is taken once.
struct Doubles<'a> {
    /// The preferred family.
    is_ipv6: bool,
    /// Who has an address of that family, also if it may get no calls: one that leaves must not
    /// come back with its other address.
    pods: HashSet<&'a str>,
}

impl Doubles<'_> {
    fn hide(&self, address: &Address) -> bool {
        let is_other = address.ip.is_ipv6() != self.is_ipv6;
        is_other && address.pod.as_deref().is_some_and(|pod| self.pods.contains(pod))
    }
}

impl Slice {
    /// The Service whose slice it is, in the namespace of that name.
    fn of(&self, name: &ObjectName) -> ObjectName {
        ObjectName { namespace: name.namespace.clone(), name: self.service.clone() }
    }
}

/// Where a pod is called.
#[derive(Clone, Copy)]
struct Ports {
    dubbo: Option<u16>,
    link: Option<u16>,
}

/// The port that is wanted or called `dubbo`, else the only one beside the agent's.
fn ports(ports: &[Port], wanted: Option<&str>) -> Option<Ports> {
    let named = |name: &str| ports.iter().find(|port| port.name == name).map(|port| port.port);
    let link = named(LINK);
    let dubbo = match wanted {
        Some(wanted) => named(wanted).or_else(|| wanted.parse().ok().filter(|port| *port != 0)),
        None => named(DUBBO).or_else(|| {
            let mut others = ports.iter().filter(|port| port.name != LINK);
            others.next().filter(|_| others.next().is_none()).map(|port| port.port)
        }),
    };
    let dubbo = dubbo.filter(|port| Some(*port) != link);
    (dubbo.is_some() || link.is_some()).then_some(Ports { dubbo, link })
}

fn without_port(service: &ServiceKey, of: &ObjectName, wanted: Option<&str>) -> Leftover {
    let port = wanted.unwrap_or(DUBBO);
    let reason = NotUsed::Unreadable(format!("it has no port named {port:?}"));
    let what = format!("Service {}/{}", of.namespace, of.name);
    let unused = Unused { what, address: None, reason };
    Leftover { version: service.version.clone(), group: service.group.clone(), unused }
}

fn push(
    rows: &mut Vec<Row>,
    service: &ServiceKey,
    address: &Address,
    ports: Ports,
    params: &Parameters,
) {
    let host = address.ip.to_string();
    let mut params = params.clone();
    if let Some(zone) = &address.zone {
        params = params.with("zone", zone);
    }
    let app = ports.dubbo.map(|port| wire::address::join(&host, port));
    let both = [(Protocol::Dubbo, ports.dubbo), (Protocol::Link, ports.link)];
    for (protocol, port) in both {
        let Some(port) = port else { continue };
        let stands_for = app.clone().filter(|_| protocol.is_of_agents());
        let endpoint = Endpoint::of_params(protocol, &host, port, params.clone());
        let url = endpoint.key().to_string();
        let (version, group) = (service.version.clone(), service.group.clone());
        let listing = Listing {
            version,
            group,
            is_of_all: false,
            endpoint,
            stands_for,
            level: Level::Interface,
        };
        let interface = service.interface.clone();
        rows.push(Row { id: 0, interface, listing: listing.into(), url });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(name: &str) -> ObjectName {
        ObjectName { namespace: "shop".into(), name: name.into() }
    }

    fn slice(name: &str, ports: &[(&str, u16)], ips: &[&str]) -> Object {
        let ports = ports.iter().map(|(name, port)| Port { name: (*name).into(), port: *port });
        let addresses = ips.iter().map(|ip| address(ip, None));
        let slice = Slice {
            service: "orders".into(),
            ports: ports.collect(),
            addresses: addresses.collect(),
        };
        Object { name: named(name), content: ObjectContent::Slice(slice) }
    }

    fn address(ip: &str, pod: Option<&str>) -> Address {
        let (ip, pod) = (ip.parse().unwrap(), pod.map(str::to_owned));
        Address { ip, pod, is_usable: true, zone: None }
    }

    fn offer(services: &[&str], port: Option<&str>) -> Object {
        let services = services.iter().map(|it| it.parse().unwrap()).collect();
        let offer = Offer { services, port: port.map(str::to_owned), ..Offer::default() };
        Object { name: named("orders"), content: ObjectContent::Service(offer) }
    }

    fn urls(state: &State) -> Vec<String> {
        let row = |row: Row| format!("{} {}", row.interface, row.url);
        state.rows().0.into_iter().map(row).collect()
    }

    #[test]
    fn annotations_and_configuration_name_services() {
        let service = "a.C".parse().unwrap();
        let mut state = State::new(vec![Mapped { service, of: named("orders"), port: None }]);
        state.put(slice("orders-1", &[("dubbo", 20880), ("http", 80)], &["10.0.0.1"]));
        assert_eq!(urls(&state), ["a.C dubbo://10.0.0.1:20880"]);
        assert!(state.put(offer(&["a.B"], Some("20881"))));
        assert!(!state.put(offer(&["a.B"], Some("20881"))), "nothing new");
        assert_eq!(urls(&state), ["a.B dubbo://10.0.0.1:20881", "a.C dubbo://10.0.0.1:20880"]);
        assert!(state.put(offer(&[], None)), "the annotation is gone");
        assert!(state.remove(ObjectKind::Slices, &named("orders-1")));
        assert!(!state.remove(ObjectKind::Slices, &named("orders-1")));
        assert_eq!((urls(&state).len(), state.n_addresses), (0, 0));
    }

    #[test]
    fn ports_are_chosen_by_name() {
        for (ports, wanted, expected) in [
            (&[("", 20880)][..], None, "dubbo://10.0.0.1:20880"),
            (&[("rpc", 1), ("link", 2)], None, "dubbo://10.0.0.1:1 link://10.0.0.1:2"),
            (&[("link", 2)], None, "link://10.0.0.1:2"),
            (&[("a", 1), ("b", 2)], Some("b"), "dubbo://10.0.0.1:2"),
            (&[("a", 1), ("b", 2)], None, ""),
            (&[("a", 1), ("b", 2)], Some("c"), ""),
        ] {
            let mut state = State::new(Vec::new());
            state.replace(ObjectKind::Services, vec![offer(&["a.B"], wanted)]);
            state.replace(ObjectKind::Slices, vec![slice("s", ports, &["10.0.0.1"])]);
            let (rows, leftovers) = state.rows();
            let urls: Vec<_> = rows.into_iter().map(|row| row.url).collect();
            assert_eq!(urls.join(" "), expected);
            assert_eq!(leftovers.len(), usize::from(expected.is_empty()), "{ports:?}");
        }
    }

    #[test]
    fn an_endpoint_in_two_slices_stays_until_it_left_both() {
        let mut state = State::new(Vec::new());
        state.put(offer(&["a.B"], None));
        let ports = [("dubbo", 20880)];
        state.replace(
            ObjectKind::Slices,
            vec![slice("s1", &ports, &["10.0.0.1"]), slice("s2", &ports, &["10.0.0.1"])],
        );
        state.remove(ObjectKind::Slices, &named("s1"));
        assert_eq!(urls(&state), ["a.B dubbo://10.0.0.1:20880"]);
        state.replace(ObjectKind::Slices, Vec::new());
        assert!(urls(&state).is_empty());
    }

    #[test]
    fn a_pod_with_addresses_of_two_families_is_taken_once() {
        let slice = |name: &str, addresses: &[Address]| {
            let ports = vec![Port { name: "dubbo".into(), port: 1 }];
            let addresses = addresses.to_vec();
            let slice = Slice { service: "orders".into(), ports, addresses };
            Object { name: named(name), content: ObjectContent::Slice(slice) }
        };
        let ipv6 = [address("fd00::1", Some("p1")), address("fd00::2", Some("p2"))];
        let mut state = State::new(Vec::new());
        state.put(offer(&["a.B"], None));
        state.put(slice("ipv6", &ipv6));
        assert_eq!(urls(&state), ["a.B dubbo://[fd00::1]:1", "a.B dubbo://[fd00::2]:1"]);
        // Nobody knows whose the second one is.
        state.put(slice("ipv4", &[address("10.0.0.1", Some("p1")), address("10.0.0.9", None)]));
        let expected =
            ["a.B dubbo://10.0.0.1:1", "a.B dubbo://10.0.0.9:1", "a.B dubbo://[fd00::2]:1"];
        assert_eq!(urls(&state), expected);
        // One that leaves does not come back with its other address.
        let leaving = Address { is_usable: false, ..address("10.0.0.1", Some("p1")) };
        state.put(slice("ipv4", &[leaving]));
        assert_eq!(urls(&state), ["a.B dubbo://[fd00::2]:1"]);

        let mut preferring = offer(&["a.B"], None);
        let ObjectContent::Service(offer) = &mut preferring.content else { panic!() };
        offer.prefers_ipv6 = true;
        state.put(preferring);
        assert_eq!(urls(&state), ["a.B dubbo://[fd00::1]:1", "a.B dubbo://[fd00::2]:1"]);
    }
}
