//! Findings that differ by nothing but the endpoint or the service, told once.

use std::collections::{BTreeMap, BTreeSet};

use agent::inspect::snapshot::EndpointSnapshot;

use super::{Cause, Finding};

/// As many services of one endpoint, or endpoints of one service, have findings of their own, and
/// as many are named.
const MAX_NAMED: usize = 3;

type Found<'a> = (&'a EndpointSnapshot, Finding);

/// What many services of one endpoint share is told once, and what many endpoints of one service
/// do.
pub(super) fn grouped(found: Vec<Found<'_>>) -> Vec<Finding> {
    let (mut left, mut findings) = (Vec::new(), Vec::new());
    for group in groups(found, |(endpoint, finding)| (finding.cause, endpoint.address.clone())) {
        let services: BTreeSet<&str> = group.iter().map(|(it, _)| &*it.service).collect();
        if services.len() <= MAX_NAMED {
            left.extend(group);
            continue;
        }
        let (address, names) = (group[0].0.address.clone(), named(&services));
        let subject = format!("{} services at {address}", services.len());
        let first = group.into_iter().map(|(_, finding)| finding).next();
        findings.extend(first.map(|it| told(it, subject, format!("this applies to {names}"))));
    }
    for group in groups(left, |it| (it.1.cause, it.0.service.clone(), sameness(it))) {
        let addresses: BTreeSet<&str> = group.iter().map(|(it, _)| &*it.address).collect();
        if addresses.len() <= MAX_NAMED {
            findings.extend(group.into_iter().map(|(_, finding)| finding));
            continue;
        }
        let (service, names) = (group[0].0.service.clone(), named(&addresses));
        let subject = format!("{service} at {} endpoints", addresses.len());
        let first = group.into_iter().map(|(_, finding)| finding).next();
        findings.extend(first.map(|it| told(it, subject, format!("these are {names}"))));
    }
    findings
}

fn groups<'a, K: Ord>(
    found: Vec<Found<'a>>,
    key: impl Fn(&Found<'a>) -> K,
) -> impl Iterator<Item = Vec<Found<'a>>> {
    let mut groups: BTreeMap<K, Vec<Found<'_>>> = BTreeMap::new();
    for one in found {
        groups.entry(key(&one)).or_default().push(one);
    }
    groups.into_values()
}

/// What findings share that are told together: an endpoint that is out says its state and the
/// reasons, without its own address. Others say what they measured, which differs, so that their
/// address is what tells them apart.
fn sameness((endpoint, finding): &Found<'_>) -> Vec<String> {
    if finding.cause != Cause::EndpointOut {
        return vec![endpoint.address.clone()];
    }
    let state = endpoint.standing.keys().cloned();
    let why = finding.evidence.iter().map(|reason| reason.replace(&endpoint.address, "it"));
    state.chain(why).collect()
}

/// The first of some names, and how many more there are.
fn named(all: &BTreeSet<&str>) -> String {
    let named: Vec<&str> = all.iter().take(MAX_NAMED).copied().collect();
    format!("{}, and {} more", named.join(", "), all.len() - named.len())
}

fn told(finding: Finding, subject: String, line: String) -> Finding {
    let mut evidence = finding.evidence;
    evidence.push(line);
    Finding { subject, evidence, ..finding }
}
