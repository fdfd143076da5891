//! The kinds of registries: their words and keys, and what other sections have to know of them.

use super::{kubernetes, nacos, several, zookeeper};

/// What kind a registry is of, as far as other sections have to know.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(in crate::config) enum RegistryKind {
    Memory,
    File,
    Static,
    EtcdDubbo,
    /// Stores nothing of an endpoint but its address.
    EtcdContest,
    Kubernetes,
    ZooKeeper,
    Nacos,
    Several,
}

/// The words for the kinds of registries, with the keys that not all of them have.
pub(in crate::config) const KINDS: [(&str, RegistryKind, &[&str]); 8] = [
    ("memory", RegistryKind::Memory, &[]),
    ("file", RegistryKind::File, &FILE_KEYS),
    ("static", RegistryKind::Static, &STATIC_KEYS),
    ("etcd", RegistryKind::EtcdDubbo, &ETCD_KEYS),
    ("zookeeper", RegistryKind::ZooKeeper, &zookeeper::KEYS),
    ("nacos", RegistryKind::Nacos, &nacos::KEYS),
    ("kubernetes", RegistryKind::Kubernetes, &kubernetes::KEYS),
    ("several", RegistryKind::Several, &several::KEYS),
];

const FILE_KEYS: [&str; 1] = ["path"];

const STATIC_KEYS: [&str; 1] = ["service"];

const ETCD_KEYS: [&str; 20] = [
    "snapshot",
    "endpoints",
    "layout",
    "root",
    "user",
    "password",
    "password_file",
    "ca_file",
    "cert_file",
    "key_file",
    "server_name",
    "lease_ttl_s",
    "connect_timeout_ms",
    "request_timeout_ms",
    "grace_ms",
    "metadata_root",
    "instances_root",
    "provided_by",
    "register_mode",
    "metadata_type",
];

/// Who finds what is registered in a registry.
pub(in crate::config) enum Registrations {
    /// All who use the same registry.
    Shared,
    /// This process alone.
    OwnProcess,
    /// Those who use one of its members.
    OfMembers,
    /// Nobody: it takes none.
    Refused {
        /// What the registry is, and what follows from it.
        problem: &'static str,
        /// What an export can do instead.
        remedy: fn() -> String,
    },
}

impl RegistryKind {
    pub(in crate::config) fn registrations(self) -> Registrations {
        match self {
            Self::EtcdDubbo | Self::EtcdContest | Self::ZooKeeper | Self::Nacos => {
                Registrations::Shared
            }
            Self::Memory => Registrations::OwnProcess,
            Self::Several => Registrations::OfMembers,
            Self::File => Registrations::Refused {
                problem: "is a file; services cannot be registered in a file",
                remedy: || {
                    let elsewhere = export_elsewhere();
                    format!("{elsewhere}; for a file, write the endpoint into it by hand")
                },
            },
            Self::Static => Registrations::Refused {
                problem: "is a list; services cannot be registered in it",
                remedy: export_elsewhere,
            },
            Self::Kubernetes => Registrations::Refused {
                problem: "is Kubernetes, which registers pods itself",
                remedy: || {
                    "export into a registry of kind \"memory\", and name the agent's port \"link\" \
                     in the Service"
                        .to_owned()
                },
            },
        }
    }
}

fn export_elsewhere() -> String {
    let shared = kinds_where(|it| matches!(it, Registrations::Shared));
    format!("export into a registry of kind {shared}")
}

/// The words of the kinds that `is_wanted` says, such as `"etcd", "zookeeper" or "nacos"`.
pub(in crate::config) fn kinds_where(is_wanted: impl Fn(Registrations) -> bool) -> String {
    let kinds = KINDS.iter().filter(|(_, kind, _)| is_wanted(kind.registrations()));
    let words: Vec<_> = kinds.map(|(word, ..)| format!("\"{word}\"")).collect();
    match words.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} or {last}", rest.join(", ")),
        _ => words.concat(),
    }
}
