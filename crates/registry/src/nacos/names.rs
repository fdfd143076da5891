//! How Dubbo names services in Nacos. Pure.
//!
//! A service is `{category}:{interface}:{version}:{group}`, where version and group may be empty.
//! Old versions of Dubbo leave empty parts out. Dubbo's providers are in the category `providers`;
//! our agents are in `agents`, where no Java consumer looks. Source: `NacosServiceName`.

use dubbo_proto::ServiceKey;

use crate::directory::Directory;
use crate::endpoint::{AGENTS, PROVIDERS};

/// The parts of a service's name.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Parts<'a> {
    pub(super) category: &'a str,
    pub(super) interface: &'a str,
    pub(super) version: &'a str,
    pub(super) group: &'a str,
}

/// Takes a name apart; `None` if it is not that of an interface.
pub(super) fn parts(name: &str) -> Option<Parts<'_>> {
    let mut parts = name.split(':');
    let (category, interface) = (parts.next()?, parts.next()?);
    let (version, group) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let is_known = [PROVIDERS, AGENTS].contains(&category) && !interface.is_empty();
    (is_known && parts.next().is_none()).then_some(Parts { category, interface, version, group })
}

/// Whether a service of this name can be an application: Dubbo's names of interfaces have colons.
pub(super) fn is_application(name: &str) -> bool {
    !name.is_empty() && !name.contains(':')
}

/// The name of a service.
pub(super) fn name(category: &str, service: &ServiceKey) -> String {
    let ServiceKey { interface, version, group, .. } = service;
    format!("{category}:{interface}:{version}:{group}")
}

/// Whether the names of a wanted service can be told without asking which there are.
pub(super) fn is_concrete(wanted: &ServiceKey) -> bool {
    wanted.version != "*" && wanted.group != "*"
}

/// The names that a wanted service can have; those of agents come first.
pub(super) fn names(wanted: &ServiceKey) -> Vec<String> {
    let ServiceKey { interface, version, .. } = wanted;
    let mut names = Vec::new();
    let mut add = |name: String| {
        if !names.contains(&name) {
            names.push(name);
        }
    };
    for category in [AGENTS, PROVIDERS] {
        for group in wanted.group.split(',').map(str::trim) {
            add(format!("{category}:{interface}:{version}:{group}"));
            let parts = [category, interface, version, group];
            let legacy: Vec<_> = parts.into_iter().filter(|part| !part.is_empty()).collect();
            if category == PROVIDERS {
                add(legacy.join(":"));
            }
        }
    }
    names
}

/// Whether a service of this name may be what is wanted: an old name does not tell which of
/// version and group it leaves out.
pub(super) fn may_be(name: &str, wanted: &ServiceKey) -> bool {
    parts(name).is_some_and(|parts| parts.interface == wanted.interface)
}

/// Notes which service a name is about.
pub(super) fn note(name: &str, directory: &mut Directory) {
    let Some(parts) = parts(name) else { return };
    let variant = match name.matches(':').count() {
        3 => Some((parts.version.into(), parts.group.into())),
        1 => Some(("".into(), "".into())),
        _ => None,
    };
    directory.add(parts.interface, variant);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(text: &str) -> ServiceKey {
        text.parse().unwrap()
    }

    #[test]
    fn names_of_today_and_of_old() {
        let of = |text| names(&key(text));
        let expected = ["agents:a.B::", "providers:a.B::", "providers:a.B"];
        assert_eq!(of("a.B"), expected);
        assert_eq!(of("g/a.B:1"), ["agents:a.B:1:g", "providers:a.B:1:g"]);
        let expected = ["agents:a.B::g", "providers:a.B::g", "providers:a.B:g"];
        assert_eq!(of("g/a.B"), expected);
        assert_eq!(of("x,g/a.B:1").len(), 4);
    }

    #[test]
    fn a_name_is_taken_apart() {
        let expected = Parts { category: PROVIDERS, interface: "a.B", version: "1", group: "g" };
        assert_eq!(parts("providers:a.B:1:g"), Some(expected));
        for other in ["consumers:a.B::", "orders", "providers:", "providers:a:b:c:d", ""] {
            assert_eq!(parts(other), None, "{other}");
        }
        assert!(is_application("orders"));
        assert!(!is_application("providers:a.B") && !is_application("consumers:a.B::"));
        assert!(may_be("providers:a.B:1", &key("*/a.B:*")));
        assert!(!may_be("providers:a.C:1:", &key("*/a.B:*")));
    }

    #[test]
    fn a_directory_of_names() {
        let mut directory = Directory::default();
        for name in ["providers:a.B:1:g", "providers:a.C", "providers:a.D:x", "some-application"] {
            note(name, &mut directory);
        }
        for (wanted, expected) in
            [("g/a.B:1", true), ("a.B", false), ("a.C", true), ("a.C:1", false), ("x/a.D", true)]
        {
            assert_eq!(directory.offers(&key(wanted)), expected, "{wanted}");
        }
    }
}
