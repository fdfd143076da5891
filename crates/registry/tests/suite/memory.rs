//! The registry inside one process.

use registry::{Endpoint, Freshness, MemoryHub, Protocol, Registry, RegistryConfig, RegistryError};

use crate::support::{link, registration, service, shows, status_is};

fn open(hub: &MemoryHub) -> Registry {
    Registry::open(RegistryConfig::Memory(hub.clone())).unwrap()
}

#[tokio::test]
async fn what_one_registers_another_finds() {
    let hub = MemoryHub::new();
    let (provider, consumer) = (open(&hub), open(&hub));
    let subscription = consumer.subscribe(&service("a.B"));
    let other = consumer.subscribe(&service("a.B2"));
    let now = subscription.current();
    assert_eq!((now.status, now.endpoints.len()), (Freshness::Current, 0), "at once");

    let first = provider.register(&registration("a.B", link(1))).unwrap();
    let second = provider.register(&registration("a.B", link(2))).unwrap();
    first.established().await;
    shows(&subscription, Freshness::Current, &["link://10.0.0.1:1", "link://10.0.0.1:2"]).await;
    assert_eq!(other.current().endpoints.len(), 0);
    first.withdraw().await.unwrap();
    shows(&subscription, Freshness::Current, &["link://10.0.0.1:2"]).await;
    drop(second);
    shows(&subscription, Freshness::Current, &[]).await;
    status_is(&consumer, "the connection", |status| status.connected).await;
}

#[tokio::test]
async fn what_goes_on_is_counted() {
    let registry = open(&MemoryHub::new());
    let subscriptions = ["a.B", "a.B", "a.C"].map(|name| registry.subscribe(&service(name)));
    assert_eq!(registry.activity().subscriptions, 2, "one watch a service");
    let _registered = registry.register(&registration("a.B", link(1))).unwrap();
    shows(&subscriptions[0], Freshness::Current, &["link://10.0.0.1:1"]).await;
    let counted = async {
        while registry.activity().changes == 0 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(10), counted).await.expect("a count");
    assert!(registry.activity().last_change.is_some());
    drop(subscriptions);
    assert_eq!(registry.activity().subscriptions, 0);
}

#[tokio::test]
async fn an_agent_takes_the_place_of_its_app_while_it_is_there() {
    let registry = open(&MemoryHub::new());
    let subscription = registry.subscribe(&service("g/a.B:1.0"));
    let mut app = Endpoint::new(Protocol::Dubbo, "10.0.0.1", 20880);
    app.weight = 300;
    let _app = registry.register(&registration("g/a.B:1.0", app)).unwrap();
    shows(&subscription, Freshness::Current, &["dubbo://10.0.0.1:20880"]).await;

    let mut agent = registration("g/a.B:1.0", link(1));
    agent.app_address = Some("10.0.0.1:20880".into());
    let agent = registry.register(&agent).unwrap();
    shows(&subscription, Freshness::Current, &["link://10.0.0.1:1"]).await;
    assert_eq!(subscription.current().endpoints[0].weight, 300, "the app's own weight");
    agent.withdraw().await.unwrap();
    shows(&subscription, Freshness::Current, &["dubbo://10.0.0.1:20880"]).await;
}

#[tokio::test]
async fn the_watch_ends_with_the_last_subscription() {
    let registry = open(&MemoryHub::new());
    let first = registry.subscribe(&service("a.B"));
    let second = registry.subscribe(&service("a.B"));
    let mut snapshots = first.snapshots();
    drop(first);
    let _registered = registry.register(&registration("a.B", link(1))).unwrap();
    shows(&second, Freshness::Current, &["link://10.0.0.1:1"]).await;
    snapshots.borrow_and_update();
    drop(second);
    assert!(snapshots.changed().await.is_err());
    let third = registry.subscribe(&service("a.B"));
    assert_eq!(third.current().endpoints.len(), 1, "a new watch begins anew");
}

#[tokio::test]
async fn addresses_that_nobody_can_reach_are_refused() {
    let registry = open(&MemoryHub::new());
    for (host, port) in [("0.0.0.0", 1), ("::", 1), ("", 1), ("h", 0), ("a b", 1)] {
        let endpoint = Endpoint::new(Protocol::Link, host, port);
        let error = registry.register(&registration("a.B", endpoint)).unwrap_err();
        assert!(matches!(error, RegistryError::BadAddress { .. }), "{host}:{port}");
    }
}

#[test]
fn needs_a_runtime() {
    let error = Registry::open(RegistryConfig::Memory(MemoryHub::new())).unwrap_err();
    assert!(matches!(error, RegistryError::NoRuntime));
}

#[test]
fn handles_move_between_threads() {
    fn is_send_and_sync<T: Send + Sync>() {}
    is_send_and_sync::<Registry>();
    is_send_and_sync::<registry::Subscription>();
    is_send_and_sync::<registry::Registered>();
}
