//! Discovery at application level in a real ZooKeeper and a real etcd, with what a test writes
//! there. Real Java peers are in dubmesh's own tests.

use dubbo_proto::application::{Instance, Metadata, OfferedService, Storage};
use interop_harness::{Etcd, ZooKeeper, ZooKeeperClient};
use registry::{
    ApplicationConfig, Endpoint, Freshness, Layout, Level, Presence, Protocol, RegisterMode,
    Registry, Subscription,
};
use tokio::time::timeout;

use crate::support::{LONG, etcd, registration, service, shows, zookeeper};

/// Either store, as a test writes into it.
trait Store {
    fn put(&mut self, path: &str, text: &str);
    fn delete(&mut self, path: &str);
    fn record(&self, instance: &Instance) -> String;
    fn registry(&self) -> Registry;
    /// One that registers at application level alone, with its metadata in the report.
    fn reporting(&self) -> Registry;
}

fn remote() -> ApplicationConfig {
    let register = RegisterMode::Instance;
    ApplicationConfig { register, metadata: Storage::Remote, ..ApplicationConfig::default() }
}

struct InZooKeeper(ZooKeeper, ZooKeeperClient);

impl InZooKeeper {
    fn start() -> Self {
        let zookeeper = ZooKeeper::start().unwrap();
        let client = zookeeper.client().unwrap();
        Self(zookeeper, client)
    }
}

impl Store for InZooKeeper {
    fn put(&mut self, path: &str, text: &str) {
        if self.1.stat(path).unwrap().is_some() {
            self.1.delete(path).unwrap();
        }
        self.1.create(path, text.as_bytes()).unwrap();
    }

    fn delete(&mut self, path: &str) {
        self.1.delete(path).unwrap();
    }

    fn record(&self, instance: &Instance) -> String {
        instance.curator_record(1)
    }

    fn registry(&self) -> Registry {
        zookeeper::plain(&self.0)
    }

    fn reporting(&self) -> Registry {
        let mut config = zookeeper::config(self.0.addr());
        config.applications = remote();
        zookeeper::open(config)
    }
}

struct InEtcd(Etcd);

impl Store for InEtcd {
    fn put(&mut self, path: &str, text: &str) {
        self.0.etcdctl(&["put", path, text]).unwrap();
    }

    fn delete(&mut self, path: &str) {
        self.0.etcdctl(&["del", path]).unwrap();
    }

    fn record(&self, instance: &Instance) -> String {
        instance.plain_record()
    }

    fn registry(&self) -> Registry {
        etcd::open(etcd::config(&self.0.client_url(), Layout::dubbo()))
    }

    fn reporting(&self) -> Registry {
        let mut config = etcd::config(&self.0.client_url(), Layout::dubbo());
        config.applications = remote();
        etcd::open(config)
    }
}

const MAPPING: &str = "/dubbo/mapping/a.B";

fn instance(port: u16, revision: &str) -> Instance {
    let params = Default::default();
    Instance::offering("orders", "10.0.0.1", port, revision, Storage::Remote, &params)
}

fn metadata(params: &[(&str, &str)]) -> Metadata {
    let params = params.iter().copied().collect();
    let offered = |text: &str, protocol: &str| OfferedService {
        service: service(text),
        protocol: protocol.into(),
        port: 0,
        path: "a.B".into(),
        params,
    };
    let plain: OfferedService = offered("a.B", "dubbo");
    let other = OfferedService { service: service("blue/a.B:2"), ..plain.clone() };
    let triple = OfferedService { protocol: "tri".into(), port: 50051, ..plain.clone() };
    Metadata::new("orders", vec![plain, other, triple])
}

fn report(metadata: &Metadata) -> String {
    format!("/dubbo/metadata/orders/{}", metadata.revision)
}

async fn says(subscription: &Subscription, what: &str) {
    let mut snapshots = subscription.snapshots();
    let said = |snapshot: &registry::Snapshot| {
        snapshot.unused.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let wait = snapshots.wait_for(|it| said(it).iter().any(|unused| unused.contains(what)));
    let arrived = timeout(LONG, wait).await.is_ok();
    assert!(arrived, "waited in vain for {what:?}, got {:?}", said(&subscription.current()));
}

/// Each step that is missing is named, and each that comes is followed.
async fn finds_step_by_step(mut store: impl Store) {
    let registry = store.registry();
    let subscription = registry.subscribe(&service("a.B"));
    let blue = registry.subscribe(&service("blue/a.B:2"));
    shows(&subscription, Freshness::Current, &[]).await;
    says(&subscription, "a.B (no application is mapped to it)").await;
    assert_eq!(zookeeper::presence(&registry, "a.B").await, Presence::Absent);
    store.put(MAPPING, "orders");
    says(&subscription, "application orders (the mapping names it, but no instance").await;
    let first = metadata(&[("weight", "200")]);
    let path = |port: u16| format!("/services/orders/10.0.0.1:{port}");
    store.put(&path(1), &store.record(&instance(1, "0")));
    says(&subscription, "application orders (its instances have no revision").await;
    store.put(&path(1), &store.record(&instance(1, &first.revision)));
    says(&subscription, "instance 10.0.0.1:1 of application orders").await;
    says(&subscription, &format!("the metadata report has no revision {}", first.revision)).await;
    store.put(&report(&first), &first.to_json());
    shows(&subscription, Freshness::Current, &["dubbo://10.0.0.1:1"]).await;
    shows(&blue, Freshness::Current, &["dubbo://10.0.0.1:1"]).await;
    says(&subscription, "tri://10.0.0.1:50051 (protocol tri is not supported").await;
    assert_eq!(subscription.current().endpoints[0].weight, 200);
    let offered = async {
        while zookeeper::presence(&registry, "a.B").await != Presence::Offered {
            tokio::task::yield_now().await;
        }
    };
    timeout(LONG, offered).await.expect("the mapping");

    // A second one of the same revision, and one of a revision that nobody knows: it keeps what it
    // had while that is so.
    store.put(&path(2), &store.record(&instance(2, &first.revision)));
    shows(&subscription, Freshness::Current, &["dubbo://10.0.0.1:1", "dubbo://10.0.0.1:2"]).await;
    let second = metadata(&[("weight", "300")]);
    store.put(&path(2), &store.record(&instance(2, &second.revision)));
    store.put(&report(&second), &second.to_json());
    let mut snapshots = subscription.snapshots();
    let heavy = snapshots.wait_for(|it| it.endpoints.iter().any(|it| it.weight == 300));
    timeout(LONG, heavy).await.expect("the new revision").unwrap();

    // What is registered for the interface counts before it, and both are there once.
    let provider = "dubbo://10.0.0.1:1/a.B?weight=7&application=orders";
    store.put(&format!("/dubbo/a.B/providers/{}", dubbo_proto::url::encode_key(provider)), "");
    let light = snapshots.wait_for(|it| it.endpoints.iter().any(|it| it.weight == 7));
    timeout(LONG, light).await.expect("the other level").unwrap();
    assert_eq!(subscription.current().endpoints.len(), 2);
    let listed = registry.catalogue(|name| name == "a.B").await.unwrap().services;
    let plain = listed.iter().find(|listed| listed.service == service("a.B")).unwrap();
    let levels: Vec<_> = plain.endpoints.iter().map(|it| it.levels.clone()).collect();
    assert_eq!(levels, [vec![Level::Interface, Level::Application], vec![Level::Application]]);

    store.delete(&path(1));
    store.delete(&path(2));
    shows(&subscription, Freshness::Current, &["dubbo://10.0.0.1:1"]).await;
    shows(&blue, Freshness::Current, &[]).await;
    says(&blue, "a.B (offered with another version or group)").await;

    // What we offer is found without asking us: nobody listens there.
    let ours = store.reporting();
    let params = [("application", "mine")];
    let endpoint = Endpoint::new(Protocol::Dubbo, "10.0.0.9", 9).with_params(params.into());
    let registered = ours.register(&registration("a.C", endpoint)).unwrap();
    timeout(LONG, registered.established()).await.expect("our instance");
    let found = registry.subscribe(&service("a.C"));
    shows(&found, Freshness::Current, &["dubbo://10.0.0.9:9"]).await;
    registered.withdraw().await.unwrap();
    shows(&found, Freshness::Current, &[]).await;

    hasty_one_goes(&ours).await;
}

/// One that goes before anything was written of it is not waited for.
async fn hasty_one_goes(ours: &Registry) {
    let params = [("application", "hasty")];
    let endpoint = Endpoint::new(Protocol::Dubbo, "10.0.0.8", 8).with_params(params.into());
    let hasty = ours.register(&registration("a.D", endpoint)).unwrap();
    hasty.withdraw().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn zookeeper_step_by_step() {
    finds_step_by_step(InZooKeeper::start()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn etcd_step_by_step() {
    finds_step_by_step(InEtcd(Etcd::start().unwrap())).await;
}

/// A mapping begins with names that somebody has made up, and more than are followed.
async fn finds_the_last_of_many(mut store: impl Store) {
    let made_up: Vec<_> = (0..130).map(|n| format!("made-up-{n}")).collect();
    store.put(MAPPING, &format!("{},orders", made_up.join(",")));
    let known = metadata(&[]);
    store.put(&report(&known), &known.to_json());
    store.put("/services/orders/10.0.0.1:1", &store.record(&instance(1, &known.revision)));
    let registry = store.registry();
    let subscription = registry.subscribe(&service("a.B"));
    shows(&subscription, Freshness::Current, &["dubbo://10.0.0.1:1"]).await;
    // It stays, while the others take turns.
    says(&subscription, "application made-up-0 (").await;
    shows(&subscription, Freshness::Current, &["dubbo://10.0.0.1:1"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_last_of_many_is_found_in_zookeeper() {
    let mut store = InZooKeeper::start();
    for path in ["/services", "/services/orders"] {
        store.1.create(path, b"").unwrap();
    }
    finds_the_last_of_many(store).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_last_of_many_is_found_in_etcd() {
    finds_the_last_of_many(InEtcd(Etcd::start().unwrap())).await;
}

/// What Dubbo does not write is skipped and named; the rest stays.
async fn skips_garbage(mut store: impl Store, most_len: usize) {
    let good = metadata(&[("weight", "-99999999999999999999"), ("timeout", "1e999")]);
    let deep = "[".repeat(100_000);
    let path = |name: &str| format!("/services/orders/{name}");
    store.put(MAPPING, "orders,,no/name, orders ,../up,absent");
    for (name, text) in [
        ("empty", String::new()),
        ("text", "not JSON".to_owned()),
        ("deep", deep),
        ("null", "null".to_owned()),
        ("port", store.record(&instance(1, "1")).replace("\"port\":1", "\"port\":99999")),
        ("long", store.record(&instance(1, &"x".repeat(most_len)))),
        ("10.0.0.1:2", store.record(&instance(2, &good.revision))),
        ("10.0.0.1:3", store.record(&instance(3, "bad"))),
        ("10.0.0.1:4", store.record(&instance(4, "cyclic"))),
        ("10.0.0.1:5", store.record(&instance(5, "0"))),
    ] {
        store.put(&path(name), &text);
    }
    store.put(&report(&good), &good.to_json());
    store.put("/dubbo/metadata/orders/bad", "{\"services\": 7}");
    let cyclic = "{\"services\":{\"a\":{\"$ref\":\"$\"},\"b\":{\"$ref\":\"..\"}}}";
    store.put("/dubbo/metadata/orders/cyclic", cyclic);
    let registry = store.registry();
    let subscription = registry.subscribe(&service("a.B"));
    shows(&subscription, Freshness::Current, &["dubbo://10.0.0.1:2"]).await;
    let endpoint = &subscription.current().endpoints[0];
    assert_eq!((endpoint.weight, endpoint.timeout), (100, None), "as if nothing were said");
    for what in ["/empty", "/text", "/deep", "/null", "/port", "/long"] {
        says(&subscription, &format!("/services/orders{what} (not an instance")).await;
    }
    says(&subscription, "10.0.0.1:3 of application orders (its services are unknown").await;
    says(&subscription, "application absent").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn garbage_in_zookeeper_is_skipped() {
    skips_garbage(InZooKeeper::start(), 300_000).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn garbage_in_etcd_is_skipped() {
    // The longest argument of a command.
    skips_garbage(InEtcd(Etcd::start().unwrap()), 120_000).await;
}
