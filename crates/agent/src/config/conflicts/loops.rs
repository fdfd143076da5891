//! Calls that come back to the agent that sent them.
//!
//! Names are not resolved here, but for `localhost`, so a loop over a name is not found.

use std::path::Path;

use wire::ListenAddress;
use wire::address::unix_path;

use super::{ExportSection, FoundSections, IngressSection, ListenerPlace};
use crate::config::error::Problems;
use crate::config::registries::RegistryDraft;
use crate::own_ingresses::is_reached_at;

pub(super) fn check(places: &FoundSections, registries: &[RegistryDraft], problems: &Problems<'_>) {
    for export in &places.exports {
        let listeners = [("[dubbo]", &places.dubbo), ("[link]", &places.link)];
        let own = listeners.into_iter().find_map(|(section, listener)| {
            let at = listener.at()?;
            is_at(&at.listen, &export.app).then_some((section, at))
        });
        match own {
            Some((section, at)) => own_listener(export, section, at, problems),
            None => own_ingress(export, &places.ingresses, problems),
        }
    }
    for ingress in places.ingresses.iter().filter(|ingress| ingress.is_dubbo) {
        own_list(ingress, registries, problems);
    }
}

/// What the listener takes goes to the app, which is the listener: each call comes back at once,
/// again and again.
fn own_listener(
    export: &ExportSection,
    section: &str,
    at: &ListenerPlace,
    problems: &Problems<'_>,
) {
    let line = problems.line(&at.place);
    let problem = format!("{} is this agent's own {section} listener in line {line}", export.app);
    let remedy = "write the address of the app, and give one of them another port";
    problems.add(&export.app_place, problem, remedy);
}

/// That is good where the ingress leads to another registry, but calls go round if it leads back.
fn own_ingress(export: &ExportSection, ingresses: &[IngressSection], problems: &Problems<'_>) {
    let is_app = |ingress: &&IngressSection| {
        ingress.is_dubbo == export.is_dubbo_app && is_at(&ingress.listen, &export.app)
    };
    if let Some(ingress) = ingresses.iter().find(is_app) {
        let line = problems.line(&ingress.place);
        let problem = format!(
            "{} is this agent's own [[ingress]] in line {line}, which sends calls where its \
             registry says; if that is here, they come back again and again",
            export.app
        );
        let remedy = "write the address of the app, unless this export is a bridge between two \
                      registries";
        problems.warn(&export.app_place, problem, remedy);
    }
}

/// The list of an ingress has the ingress itself.
fn own_list(ingress: &IngressSection, registries: &[RegistryDraft], problems: &Problems<'_>) {
    let Some(listen) = ingress.listen.tcp() else { return };
    let Some(draft) = ingress.registry.and_then(|index| registries.get(index)) else { return };
    let members = draft.members.iter().filter_map(|index| registries.get(*index));
    let listed = std::iter::once(draft).chain(members).flat_map(|draft| &draft.dubbo_listed);
    for listed in listed.filter(|it| is_reached_at(listen, &it.host, it.port)) {
        let (address, line) =
            (wire::address::join(&listed.host, listed.port), problems.line(&ingress.place));
        let problem = format!(
            "{address} is this agent's own [[ingress]] in line {line}, so calls come back there \
             again and again"
        );
        problems.warn(&listed.place, problem, "remove it");
    }
}

/// Whether a connection to `address` surely ends at the listener.
fn is_at(listen: &ListenAddress, address: &str) -> bool {
    match listen {
        ListenAddress::Tcp(listen) => wire::address::split(address)
            .is_ok_and(|(host, port)| is_reached_at(*listen, host, port)),
        ListenAddress::Unix { path, .. } => unix_path(address).map(Path::new) == Some(path),
    }
}
