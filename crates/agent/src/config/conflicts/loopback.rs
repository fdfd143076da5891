//! Listeners for Dubbo's consumers that a Java consumer never reaches.
//!
//! Every version of Dubbo for Java takes an address that begins with `127.` for a mistake, and
//! connects to the network address of its own machine instead. Who uses a registry of one machine,
//! such as a file, or says with `advertise` what is registered, is taken at their word.

use std::net::{IpAddr, SocketAddr};

use wire::ListenAddress;

use super::FoundSections;
use crate::config::error::{KeyPlace, Problems};
use crate::config::registries::{Registrations, RegistryDraft};

pub(super) fn check(places: &FoundSections, registries: &[RegistryDraft], problems: &Problems<'_>) {
    let shared = |index: Option<usize>| shared_registry(index, registries);
    let exported = || places.exports.iter().find_map(|export| shared(export.registry));
    if let Some(at) = places.dubbo.at()
        && !at.is_advertised
        && let Some(listen) = loopback(&at.listen)
        && let Some(name) = exported()
    {
        let reached = match listen.ip().to_canonical() {
            IpAddr::V4(_) => "Java consumers do not reach it, not even on this machine",
            IpAddr::V6(_) => "consumers on other machines do not reach it",
        };
        let ip = listen.ip().to_canonical();
        let problem = format!("{ip} is registered in registry \"{name}\", but {reached}");
        let remedy = format!(
            "write listen = \"0.0.0.0:{}\", and advertise = with the address of this machine",
            listen.port()
        );
        problems.warn(&at.listen_place, problem, remedy);
    }
    for ingress in places.ingresses.iter().filter(|ingress| ingress.is_dubbo) {
        if let Some(listen) = loopback(&ingress.listen)
            && listen.ip().to_canonical().is_ipv4()
            && shared(ingress.registry).is_some()
        {
            warn_of_ingress(listen, &ingress.listen_place, problems);
        }
    }
}

fn warn_of_ingress(listen: SocketAddr, place: &KeyPlace, problems: &Problems<'_>) {
    let problem = format!(
        "Java consumers do not reach {listen}, not even on this machine: instead of an address \
         that begins with 127. they use the network address of their machine"
    );
    let remedy = format!(
        "write listen = \"0.0.0.0:{}\", unless all consumers are other programs",
        listen.port()
    );
    problems.warn(place, problem, remedy);
}

fn loopback(listen: &ListenAddress) -> Option<SocketAddr> {
    listen.tcp().filter(|listen| listen.ip().to_canonical().is_loopback())
}

/// The name of a registry that other machines share, or of its first member that they do.
fn shared_registry(index: Option<usize>, registries: &[RegistryDraft]) -> Option<&str> {
    let draft = registries.get(index?)?;
    match draft.kind?.registrations() {
        Registrations::Shared => Some(&draft.name),
        Registrations::OfMembers => {
            draft.members.iter().find_map(|index| shared_registry(Some(*index), registries))
        }
        Registrations::OwnProcess | Registrations::Refused { .. } => None,
    }
}
