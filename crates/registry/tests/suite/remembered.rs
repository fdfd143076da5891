//! What a registry listed last, for who starts while it is away.

use std::fs;
use std::path::Path;

use crate::support::{link, registration, service, shows};
use registry::{
    DefinitionSources, EtcdConfig, Freshness, Layout, MemoryHub, Registry, RegistryConfig,
    SeveralConfig, several,
};

fn open(config: RegistryConfig, snapshot: &Path) -> Registry {
    Registry::open_remembering(config, DefinitionSources::default(), snapshot.to_owned()).unwrap()
}

/// A registry where nobody listens.
fn away() -> RegistryConfig {
    let layout = Layout::Dubbo { root: "dubbo".to_owned() };
    RegistryConfig::Etcd(EtcdConfig::new(vec!["http://127.0.0.1:1".to_owned()], layout))
}

#[tokio::test]
async fn lists_are_written_as_they_change() {
    let folder = tempfile::tempdir().unwrap();
    let snapshot = folder.path().join("snapshot.toml");
    let hub = MemoryHub::new();
    let registry = open(RegistryConfig::Memory(hub), &snapshot);
    let subscription = registry.subscribe(&service("a.B"));
    let registered = registry.register(&registration("a.B", link(1))).unwrap();
    shows(&subscription, Freshness::Current, &["link://10.0.0.1:1"]).await;
    let has = async |text: &str| {
        while !fs::read_to_string(&snapshot).is_ok_and(|written| written.contains(text)) {
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
    };
    has("link://10.0.0.1:1").await;
    // Nobody offers it any more: the registry has said so.
    registered.withdraw().await.unwrap();
    has("service = []").await;
}

#[tokio::test]
async fn what_was_listed_last_counts_while_the_registry_is_away() {
    let folder = tempfile::tempdir().unwrap();
    let snapshot = folder.path().join("snapshot.toml");
    let text = "[[service]]\ninterface = \"a.B\"\nendpoints = [\"dubbo://h:1?weight=7\"]\n";
    fs::write(&snapshot, text).unwrap();
    let registry = open(away(), &snapshot);
    assert!(registry.remembers());
    let known = registry.subscribe(&service("a.B"));
    shows(&known, Freshness::Stale, &["dubbo://h:1"]).await;
    assert_eq!(known.current().endpoints[0].weight, 7);
    let unknown = registry.subscribe(&service("a.C"));
    assert_eq!(unknown.current().status, Freshness::Pending);
    assert_eq!(fs::read_to_string(&snapshot).unwrap(), text, "nothing was learnt");
}

/// An agent over several registries is ready once one of them knows something.
#[tokio::test]
async fn several_remember_what_one_of_them_does() {
    let folder = tempfile::tempdir().unwrap();
    let snapshot = folder.path().join("snapshot.toml");
    let text = "[[service]]\ninterface = \"a.B\"\nendpoints = [\"dubbo://h:1\"]\n";
    fs::write(&snapshot, text).unwrap();
    let (remembering, other) = (open(away(), &snapshot), Registry::open(away()).unwrap());
    let of = vec!["one".to_owned(), "two".to_owned()];
    let (mode, shares, zones) = Default::default();
    let config = SeveralConfig { of, mode, shares, zones };
    let both = |one: &Registry, two: &Registry| {
        let member = |name: &str| Some(if name == "one" { one.clone() } else { two.clone() });
        several(&config, member, DefinitionSources::default()).unwrap()
    };
    assert!(!both(&other, &other).remembers());
    let both = both(&other, &remembering);
    assert!(both.remembers());
    shows(&both.subscribe(&service("a.B")), Freshness::Stale, &["dubbo://h:1"]).await;
}
