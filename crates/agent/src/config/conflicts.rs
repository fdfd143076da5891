//! What contradicts itself between the sections of a file.

use std::iter::once;
use std::net::{IpAddr, SocketAddr};

use dubbo_proto::ServiceKey;
use wire::ListenAddress;

use super::AppCapacity;
use super::error::{KeyPlace, Problems};
use super::registries::{Registrations, RegistryDraft, RegistryKind, kinds_where};

mod loopback;
mod loops;

/// What was found where, for the checks that look at more than one section.
#[derive(Default)]
pub(super) struct FoundSections {
    pub(super) listens: Vec<ListenKey>,
    pub(super) ingresses: Vec<IngressSection>,
    pub(super) exports: Vec<ExportSection>,
    pub(super) link: ListenerSection,
    pub(super) dubbo: ListenerSection,
    /// What is exported is offered at an address that can be registered.
    pub(super) offers_tcp: bool,
    /// It is offered at a Unix socket.
    pub(super) offers_unix: bool,
    /// Neither calls are taken nor services offered.
    pub(super) is_idle: bool,
}

/// An address that the agent is to listen on.
pub(super) struct ListenKey {
    pub(super) address: ListenAddress,
    pub(super) place: KeyPlace,
    /// The address is nowhere in the file, so a message never points to it.
    pub(super) is_default: bool,
}

/// An `[[ingress]]` section.
pub(super) struct IngressSection {
    pub(super) registry: Option<usize>,
    pub(super) listen: ListenAddress,
    /// It takes the calls of Dubbo's consumers, and not those by HTTP.
    pub(super) is_dubbo: bool,
    pub(super) place: KeyPlace,
    pub(super) listen_place: KeyPlace,
}

/// Whether there is a section of that listener.
#[derive(Default)]
pub(super) enum ListenerSection {
    #[default]
    Nowhere,
    At(ListenerPlace),
}

/// Such a section.
pub(super) struct ListenerPlace {
    pub(super) place: KeyPlace,
    pub(super) listen: ListenAddress,
    pub(super) listen_place: KeyPlace,
    /// The section says which address is registered.
    pub(super) is_advertised: bool,
}

impl ListenerSection {
    fn at(&self) -> Option<&ListenerPlace> {
        match self {
            Self::Nowhere => None,
            Self::At(at) => Some(at),
        }
    }
}

/// An `[[export]]` section.
pub(super) struct ExportSection {
    pub(super) service: Option<ServiceKey>,
    /// Where the app is.
    pub(super) app: String,
    pub(super) app_place: KeyPlace,
    pub(super) is_dubbo_app: bool,
    pub(super) capacity: AppCapacity,
    pub(super) capacity_place: KeyPlace,
    pub(super) registry: Option<usize>,
    pub(super) place: KeyPlace,
    pub(super) registry_place: KeyPlace,
    pub(super) qualifier_place: Option<KeyPlace>,
}

/// Notes all contradictions.
pub(super) fn check(places: &FoundSections, registries: &[RegistryDraft], problems: &Problems<'_>) {
    listens(&places.listens, problems);
    purpose(places, problems);
    duplicate_exports(&places.exports, problems);
    two_capacities(&places.exports, problems);
    loops::check(places, registries, problems);
    for export in &places.exports {
        export_and_registry(export, places.offers_tcp || !places.offers_unix, registries, problems);
    }
    dubbo_and_contest(places, registries, problems);
    memory_registries(places, registries, problems);
    loopback::check(places, registries, problems);
}

/// Two listeners cannot share a port, also when one of them takes it on all interfaces.
fn listens(listens: &[ListenKey], problems: &Problems<'_>) {
    for (index, later) in listens.iter().enumerate() {
        let clash =
            listens[..index].iter().find(|earlier| overlap(&earlier.address, &later.address));
        let Some(earlier) = clash else {
            continue;
        };
        let (at, other) = if later.is_default { (earlier, later) } else { (later, earlier) };
        let problem = if other.is_default {
            format!("{} is already used by {} (the default)", at.address, other.place.key)
        } else {
            let line = problems.line(&other.place);
            format!("{} is already used by {} in line {line}", at.address, other.place.key)
        };
        let remedy = match at.address {
            ListenAddress::Tcp(_) => "give each listener its own port",
            ListenAddress::Unix { .. } => "give each listener its own path",
        };
        problems.add(&at.place, problem, remedy);
    }
}

fn overlap(a: &ListenAddress, b: &ListenAddress) -> bool {
    match (a, b) {
        (ListenAddress::Tcp(a), ListenAddress::Tcp(b)) => share_a_port(*a, *b),
        (ListenAddress::Unix { path: a, .. }, ListenAddress::Unix { path: b, .. }) => a == b,
        _ => false,
    }
}

fn share_a_port(a: SocketAddr, b: SocketAddr) -> bool {
    // Port 0 stands for any free one.
    let is_same_port = a.port() == b.port() && a.port() != 0;
    // `::ffff:0.0.0.0` is another way to write `0.0.0.0`.
    let [a, b] = [a, b].map(|it| it.ip().to_canonical());
    // `[::]` takes the port for IPv4, too; `0.0.0.0` and an IPv6 address do not meet.
    let takes = |wide: IpAddr, other: IpAddr| {
        wide.is_unspecified() && (wide.is_ipv6() || other.is_ipv4() || other.is_unspecified())
    };
    is_same_port && (a == b || takes(a, b) || takes(b, a))
}

fn purpose(places: &FoundSections, problems: &Problems<'_>) {
    let listeners = [&places.link, &places.dubbo];
    let mut present = listeners.into_iter().filter_map(ListenerSection::at).map(|at| &at.place);
    match places.exports.first() {
        Some(export) if present.next().is_none() => {
            let place = KeyPlace { key: "link".to_owned(), ..export.place.clone() };
            let remedy = "add [link] with listen = \"IP:PORT\" for other agents, or [dubbo] for \
                          Dubbo's own consumers";
            problems.add(&place, "an export needs a listener", remedy);
        }
        Some(_) => {}
        // A reload may take the last one away, and add another.
        None => present.for_each(|place| {
            let remedy = format!("add [[export]], or remove [{}]", place.key);
            problems.warn(place, "nothing is exported over this listener", remedy);
        }),
    }
    if places.is_idle {
        let remedy = "add [[ingress]] to take calls, or [link] and [[export]] to offer a service";
        problems.add_to_file("the agent has nothing to do", remedy);
    }
}

fn duplicate_exports(exports: &[ExportSection], problems: &Problems<'_>) {
    for (index, export) in exports.iter().enumerate() {
        let Some(service) = &export.service else {
            continue;
        };
        let earlier = exports[..index].iter().find(|it| it.service.as_ref() == Some(service));
        if let Some(earlier) = earlier {
            let line = problems.line(&earlier.place);
            let problem = format!("{service} is exported already, in line {line}");
            problems.add(&export.place, problem, "remove one, or give it another group or version");
        }
    }
}

/// An app has one capacity, whatever it exports.
fn two_capacities(exports: &[ExportSection], problems: &Problems<'_>) {
    let is_told = |export: &&ExportSection| export.capacity != AppCapacity::Registered;
    for (index, export) in exports.iter().enumerate().filter(|(_, export)| is_told(export)) {
        let others = exports[..index].iter().filter(is_told);
        let other =
            others.filter(|it| it.app == export.app).find(|it| it.capacity != export.capacity);
        if let Some(other) = other {
            let line = problems.line(&other.capacity_place);
            let problem = format!("the app at {} has another capacity in line {line}", export.app);
            problems.add(&export.capacity_place, problem, "write it once for each app");
        }
    }
}

fn export_and_registry(
    export: &ExportSection,
    registers: bool,
    registries: &[RegistryDraft],
    problems: &Problems<'_>,
) {
    let Some(draft) = export.registry.and_then(|index| registries.get(index)) else {
        return;
    };
    if registers && let Some((problem, remedy)) = refusal(draft, registries) {
        problems.add(&export.registry_place, problem, remedy);
        return;
    }
    let Some(place) = &export.qualifier_place else {
        return;
    };
    if let Some(contest) = contest_layout(draft, registries) {
        let problem =
            format!("layout \"contest\" of registry \"{}\" cannot store it", contest.name);
        problems.add(place, problem, "remove it, or use layout = \"dubbo\"");
    }
}

/// Why a registry takes no registrations, and what to do about it, if it takes none.
fn refusal(draft: &RegistryDraft, registries: &[RegistryDraft]) -> Option<(String, String)> {
    let name = &draft.name;
    match draft.kind?.registrations() {
        Registrations::Shared | Registrations::OwnProcess => None,
        Registrations::Refused { problem, remedy } => {
            Some((format!("registry \"{name}\" {problem}"), remedy()))
        }
        Registrations::OfMembers => {
            let mut members = draft.members.iter().filter_map(|index| registries.get(*index));
            let refuses_all = members.all(|it| refusal(it, registries).is_some());
            let shared = kinds_where(|it| matches!(it, Registrations::Shared));
            refuses_all.then(|| {
                let problem = format!("no registry that \"{name}\" is made of takes registrations");
                (problem, format!("add one of kind {shared}"))
            })
        }
    }
}

/// The registry with the contest's layout among a registry and its members.
fn contest_layout<'r>(
    draft: &'r RegistryDraft,
    registries: &'r [RegistryDraft],
) -> Option<&'r RegistryDraft> {
    let members = draft.members.iter().filter_map(|index| registries.get(*index));
    once(draft).chain(members).find(|it| it.kind == Some(RegistryKind::EtcdContest))
}

/// The contest's layout lists agents only, and Dubbo's consumers do not read it.
fn dubbo_and_contest(
    places: &FoundSections,
    registries: &[RegistryDraft],
    problems: &Problems<'_>,
) {
    let Some(ListenerPlace { place, .. }) = places.dubbo.at() else {
        return;
    };
    let used = places.exports.iter().filter_map(|export| export.registry);
    let mut used = used.filter_map(|index| registries.get(index));
    if let Some(draft) = used.find_map(|draft| contest_layout(draft, registries)) {
        let problem = format!("layout \"contest\" of registry \"{}\" cannot store it", draft.name);
        problems.add(place, problem, "remove [dubbo], or use layout = \"dubbo\"");
    }
}

/// What is in memory is seen by this process alone, so it has to write and read it.
fn memory_registries(
    places: &FoundSections,
    registries: &[RegistryDraft],
    problems: &Problems<'_>,
) {
    let is_own = |kind: RegistryKind| matches!(kind.registrations(), Registrations::OwnProcess);
    for (index, draft) in registries.iter().enumerate() {
        if !draft.kind.is_some_and(is_own) {
            continue;
        }
        let uses = |used: Option<usize>| {
            used.is_some_and(|used| {
                used == index || registries.get(used).is_some_and(|it| it.members.contains(&index))
            })
        };
        let is_written = places.exports.iter().any(|it| uses(it.registry));
        let is_read = places.ingresses.iter().any(|it| uses(it.registry));
        match (is_written, is_read) {
            // Kubernetes may say to callers where the agent is.
            (true, false) => problems.warn(
                &draft.place,
                "no ingress of this process uses this registry in memory, so no agent finds what \
                 is exported here",
                format!(
                    "use kind = {}, unless callers know this agent's address",
                    kinds_where(|it| matches!(it, Registrations::Shared))
                ),
            ),
            (false, true) => problems.add(
                &draft.place,
                "no export of this process uses this registry in memory, so nothing is ever found \
                 here",
                format!(
                    "use kind = {}",
                    kinds_where(|it| {
                        matches!(it, Registrations::Shared | Registrations::Refused { .. })
                    })
                ),
            ),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests;
