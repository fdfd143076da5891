//! A real ZooKeeper in which somebody writes what no part of Dubbo would, while a good provider is
//! there: it is never lost, whatever comes beside it.

use std::time::Duration;

use dubbo_proto::application::{Instance, Metadata, OfferedService, Storage};
use dubbo_proto::url::encode_key;
use interop_harness::{ZooKeeper, ZooKeeperClient, ZooKeeperOptions};
use registry::{Freshness, Presence, Snapshot, ZooKeeperConfig};
use tokio::time::timeout;

use crate::support::zookeeper::*;
use crate::support::{LONG, service, shows, status_is};

const GOOD: &str = "dubbo://10.0.0.1:1";
const MAPPING: &str = "/dubbo/mapping/a.B";

fn metadata() -> Metadata {
    let service = OfferedService {
        service: service("a.B"),
        protocol: "dubbo".to_owned(),
        path: "a.B".to_owned(),
        ..OfferedService::default()
    };
    Metadata::new("orders", vec![service])
}

/// An instance whose metadata are in the report, so that nobody asks it.
fn record(port: u16, revision: &str) -> String {
    let (storage, params) = (Storage::Remote, Default::default());
    Instance::offering("orders", "10.0.0.1", port, revision, storage, &params).curator_record(1)
}

/// A good instance of the application `orders`, which offers `a.B`.
fn write_instance(client: &mut ZooKeeperClient) {
    let metadata = metadata();
    client.create(MAPPING, b"orders").unwrap();
    let report = format!("/dubbo/metadata/orders/{}", metadata.revision);
    client.create(&report, metadata.to_json().as_bytes()).unwrap();
    let good = record(1, &metadata.revision);
    client.create("/services/orders/10.0.0.1:1", good.as_bytes()).unwrap();
}

/// A node that belongs to somebody else hides no other instance, and is read once it may be.
#[tokio::test(flavor = "multi_thread")]
async fn an_instance_that_may_not_be_read_hides_no_other_one() {
    let zookeeper = ZooKeeper::start().unwrap();
    let mut client = zookeeper.client().unwrap();
    write_instance(&mut client);
    let mut somebody = zookeeper.client_of("somebody", "else").unwrap();
    let (secret, other) = ("/services/orders/10.0.0.1:2", metadata().revision);
    somebody.create(secret, record(2, &other).as_bytes()).unwrap();
    let registry = plain(&zookeeper);
    let subscription = registry.subscribe(&service("a.B"));
    shows(&subscription, Freshness::Current, &[GOOD]).await;
    let unused = subscription.current().unused;
    assert!(unused.iter().any(|it| it.to_string().contains("NoAuth")), "{unused:?}");
    assert_eq!(registry.activity().refused, 1);
    // Changes still come.
    let third = record(3, &other);
    client.create("/services/orders/10.0.0.1:3", third.as_bytes()).unwrap();
    shows(&subscription, Freshness::Current, &[GOOD, "dubbo://10.0.0.1:3"]).await;
    somebody.delete(secret).unwrap();
    client.create(secret, record(2, &other).as_bytes()).unwrap();
    let all = [GOOD, "dubbo://10.0.0.1:2", "dubbo://10.0.0.1:3"];
    shows(&subscription, Freshness::Current, &all).await;
}

/// One interface that may not be read says nothing about others.
#[tokio::test(flavor = "multi_thread")]
async fn a_service_that_may_not_be_read_hides_no_other_one() {
    let zookeeper = ZooKeeper::start().unwrap();
    let mut client = zookeeper.client().unwrap();
    client.create(&provider(&format!("{GOOD}/a.B")), b"").unwrap();
    let mut somebody = zookeeper.client_of("somebody", "else").unwrap();
    somebody.create("/dubbo/a.Secret/providers/x", b"").unwrap();
    let registry = plain(&zookeeper);
    assert_eq!(presence(&registry, "a.Secret").await, Presence::Offered);
    assert_eq!(presence(&registry, "a.B").await, Presence::Offered);
    assert_eq!(presence(&registry, "a.X").await, Presence::Absent);
    let secret = registry.subscribe(&service("a.Secret"));
    status_is(&registry, "what is not allowed", |status| {
        status.last_error.as_ref().is_some_and(|error| error.contains("NoAuth"))
    })
    .await;
    drop(secret);
}

/// Whoever asks for a service hears what may not be read, and of which folder: with digest
/// authentication that is the most common mistake.
#[tokio::test(flavor = "multi_thread")]
async fn what_may_not_be_read_is_said_to_who_asks() {
    const PLACES: [(&str, &str); 3] = [
        ("/dubbo/a.B/providers", "the list of its providers"),
        (MAPPING, "the applications of a.B"),
        ("/services/orders", "the instances of application orders"),
    ];
    for (secret, what) in PLACES {
        let zookeeper = ZooKeeper::start().unwrap();
        let mut client = zookeeper.client().unwrap();
        let mut somebody = zookeeper.client_of("somebody", "else").unwrap();
        client.create("/dubbo/a.B", b"").unwrap();
        if secret != MAPPING {
            client.create(MAPPING, b"orders").unwrap();
        }
        somebody.create(secret, b"orders").unwrap();
        let registry = plain(&zookeeper);
        let subscription = registry.subscribe(&service("a.B"));
        let mut snapshots = subscription.snapshots();
        let is_said = |snapshot: &Snapshot| {
            let mut unused = snapshot.unused.iter().map(ToString::to_string);
            unused.any(|it| it.contains(what) && it.contains("NoAuth") && it.contains(secret))
        };
        let said = timeout(LONG, snapshots.wait_for(is_said)).await;
        assert!(said.is_ok(), "{secret}: {:?}", subscription.current());
    }
}

/// A folder whose names are longer together than an answer may be takes the connection from
/// nobody: other services are found and registered, and their changes come.
#[tokio::test(flavor = "multi_thread")]
async fn a_list_that_is_too_long_hides_no_other_one() {
    let zookeeper = ZooKeeper::start().unwrap();
    let mut client = zookeeper.client().unwrap();
    for n in 0..5 {
        let name = format!("{n}{}", "x".repeat(300_000));
        client.create(&format!("/dubbo/a.Long/providers/{name}"), b"").unwrap();
    }
    client.create(&provider(&format!("{GOOD}/a.B")), b"").unwrap();
    let registry = open(ZooKeeperConfig { max_message_len: 1 << 20, ..config(zookeeper.addr()) });
    let long = registry.subscribe(&service("a.Long"));
    status_is(&registry, "the length", |status| {
        status.connected
            && status.last_error.as_ref().is_some_and(|error| error.contains("max_message_bytes"))
    })
    .await;
    let subscription = registry.subscribe(&service("a.B"));
    shows(&subscription, Freshness::Current, &[GOOD]).await;
    assert_eq!(long.current().status, Freshness::Pending);
    client.create(&provider("dubbo://10.0.0.1:2/a.B"), b"").unwrap();
    shows(&subscription, Freshness::Current, &[GOOD, "dubbo://10.0.0.1:2"]).await;
    // Once it is shorter, it is read.
    for name in client.children("/dubbo/a.Long/providers").unwrap().into_iter().take(3) {
        client.delete(&format!("/dubbo/a.Long/providers/{name}")).unwrap();
    }
    shows(&long, Freshness::Current, &[]).await;
}

/// Documents that are longer together than an agent reads, and one that it may not read.
#[tokio::test(flavor = "multi_thread")]
async fn long_and_secret_definitions_take_no_other_ones_away() {
    const BASE: &str = "/dubbo/metadata/a.B";
    let options = ZooKeeperOptions { max_node_len: Some(4 << 20), ..Default::default() };
    let zookeeper = ZooKeeper::start_with(options).unwrap();
    let mut client = zookeeper.client().unwrap();
    let good = br#"{"canonicalName":"a.B",
        "methods":[{"name":"good","parameterTypes":[],"returnType":"void"}]}"#;
    client.create(&format!("{BASE}/provider/good"), good).unwrap();
    let mut somebody = zookeeper.client_of("somebody", "else").unwrap();
    somebody.create(&format!("{BASE}/provider/secret"), good).unwrap();
    somebody.create(&format!("{BASE}/1.0/provider/secret"), good).unwrap();
    client.create(&format!("{BASE}/provider/longer"), &vec![b'x'; 3 << 20]).unwrap();
    for n in 0..20 {
        client.create(&format!("{BASE}/provider/long{n}"), &vec![b'x'; 900_000]).unwrap();
    }
    let registry = plain(&zookeeper);
    let mut watch = registry.definition(&service("a.B"));
    let found = timeout(LONG, watch.settled()).await.expect("an answer");
    let definition = found.found().expect("the good definition");
    assert_eq!(&*definition.service.methods[0].name, "good");
    // Two that are secret, one that is longer, 18 that are read and no JSON, two without room.
    assert_eq!(registry.activity().refused, 23);
}

/// What comes and goes, and what changes all the time, beside a good provider at both levels.
#[tokio::test(flavor = "multi_thread")]
async fn a_flood_of_garbage_never_takes_a_good_provider_away() {
    let zookeeper = ZooKeeper::start().unwrap();
    let mut client = zookeeper.client().unwrap();
    client.create(&provider(&format!("{GOOD}/a.B?weight=7")), b"").unwrap();
    client.create(&provider("dubbo://10.0.0.1:9/a.B"), b"").unwrap();
    write_instance(&mut client);
    let registry = plain(&zookeeper);
    let subscription = registry.subscribe(&service("a.B"));
    shows(&subscription, Freshness::Current, &[GOOD, "dubbo://10.0.0.1:9"]).await;
    let mut snapshots = subscription.snapshots();
    let never_lost = tokio::spawn(async move {
        let is_lost = |snapshot: &registry::Snapshot| {
            !snapshot.endpoints.iter().any(|it| it.key().to_string() == GOOD)
        };
        let lost = snapshots.wait_for(is_lost).await.map(|it| it.clone());
        panic!("{lost:?}");
    });
    tokio::task::spawn_blocking(move || flood(&mut client)).await.unwrap();
    shows(&subscription, Freshness::Current, &[GOOD]).await;
    assert!(!never_lost.is_finished());
    never_lost.abort();
    // A new reader finds it as well, beside all that was left.
    let fresh = plain(&zookeeper).subscribe(&service("a.B"));
    shows(&fresh, Freshness::Current, &[GOOD]).await;
}

/// Ends with the good provider alone, and much that cannot be used.
fn flood(client: &mut ZooKeeperClient) {
    let names: Vec<_> = [
        "%",
        "%zz",
        "%00%01",
        "dubbo%3A%2F%2F",
        "dubbo%3A%2F%2Fh%3A99999%2Fa.B",
        "\u{2028}é",
        "dubbo%3A%2F%2F10.0.0.1%3A-1%2Fa.B",
        "dubbo%3A%2F%2Fx%20y%3A1%2Fa.B",
        "{",
        "empty%3A%2F%2F",
    ]
    .into_iter()
    .map(str::to_owned)
    .chain([encode_key(&format!("dubbo://h/{}", "a".repeat(700_000)))])
    .collect();
    let revision = metadata().revision;
    for round in 0..30 {
        for (n, name) in names.iter().enumerate() {
            let path = format!("{PROVIDERS}/{name}");
            match round % 2 {
                0 => client.create(&path, b"x").unwrap(),
                _ => client.delete(&path).unwrap(),
            }
            let instance = format!("/services/orders/bad{n}");
            let text = match n % 4 {
                0 => "[".repeat(50_000),
                1 => "{\"name\":\"orders\",\"address\":\"\u{0}\",\"port\":1}".to_owned(),
                2 => record(1, &format!("{round}x{n}")),
                _ => record(1, &"r".repeat(300)),
            };
            match round % 2 {
                0 => client.create(&instance, text.as_bytes()).unwrap(),
                _ => client.delete(&instance).unwrap(),
            }
        }
        // The good instance itself says something else for a while, and so does the mapping.
        let (good, bad) = (record(1, &revision), record(1, "gone"));
        for text in [bad, "null".to_owned(), good] {
            client.set("/services/orders/10.0.0.1:1", text.as_bytes()).unwrap();
        }
        let apps: Vec<_> = (0..50_000).map(|n| format!("a{n}")).collect();
        client.set(MAPPING, format!("{},orders", apps.join(",")).as_bytes()).unwrap();
        std::thread::sleep(Duration::from_millis(10));
    }
    for n in 0..2000 {
        client.create_all(&[&format!("{PROVIDERS}/bad{n}")], false).unwrap();
    }
    client.delete(&provider("dubbo://10.0.0.1:9/a.B")).unwrap();
}

/// An agent with a user closes the folder of agents to others. They call the providers that
/// everybody may see.
#[tokio::test(flavor = "multi_thread")]
async fn a_closed_folder_of_agents_takes_no_provider_away() {
    let zookeeper = ZooKeeper::start().unwrap();
    let mut client = zookeeper.client().unwrap();
    client.create(&provider(&format!("{GOOD}/a.B")), b"").unwrap();
    let mut somebody = zookeeper.client_of("somebody", "else").unwrap();
    let hidden = format!("{AGENTS}/x");
    somebody.create(&hidden, b"").unwrap();
    let registry = plain(&zookeeper);
    let subscription = registry.subscribe(&service("a.B"));
    shows(&subscription, Freshness::Stale, &[GOOD]).await;
    let unused: Vec<_> = subscription.current().unused.iter().map(ToString::to_string).collect();
    assert!(unused.iter().any(|it| it.contains("NoAuth") && it.contains(AGENTS)), "{unused:?}");
    // Changes of the other folder still come.
    client.create(&provider("dubbo://10.0.0.1:2/a.B"), b"").unwrap();
    shows(&subscription, Freshness::Stale, &[GOOD, "dubbo://10.0.0.1:2"]).await;
    // Once it may be read, the list is whole.
    somebody.delete(&hidden).unwrap();
    somebody.delete(AGENTS).unwrap();
    let agent = encode_key("link://10.0.0.1:3/a.B?interface=a.B");
    client.create(&format!("{AGENTS}/{agent}"), b"").unwrap();
    let all = ["link://10.0.0.1:3", GOOD, "dubbo://10.0.0.1:2"];
    shows(&subscription, Freshness::Current, &all).await;
    assert!(subscription.current().unused.is_empty());
}

/// The server tells no change of a folder to who may not read it at that moment.
#[tokio::test(flavor = "multi_thread")]
async fn a_change_that_nobody_was_told_is_found() {
    let zookeeper = ZooKeeper::start().unwrap();
    let mut client = zookeeper.client().unwrap();
    client.create(&provider(&format!("{GOOD}/a.B")), b"").unwrap();
    let compare_every = Duration::from_millis(200);
    let registry = open(ZooKeeperConfig { compare_every, ..config(zookeeper.addr()) });
    let subscription = registry.subscribe(&service("a.B"));
    shows(&subscription, Freshness::Current, &[GOOD]).await;
    zookeeper.java_client(&["setAcl", PROVIDERS, "world:anyone:cdwa"]).unwrap();
    client.create(&provider("dubbo://10.0.0.1:2/a.B"), b"").unwrap();
    // What was known before stays.
    shows(&subscription, Freshness::Stale, &[GOOD]).await;
    zookeeper.java_client(&["setAcl", PROVIDERS, "world:anyone:cdrwa"]).unwrap();
    shows(&subscription, Freshness::Current, &[GOOD, "dubbo://10.0.0.1:2"]).await;
}

/// Who may not read which applications offer what still sees everything else.
#[tokio::test(flavor = "multi_thread")]
async fn closed_mappings_take_no_service_from_the_list() {
    let zookeeper = ZooKeeper::start().unwrap();
    let mut client = zookeeper.client().unwrap();
    client.create(&provider(&format!("{GOOD}/a.B")), b"").unwrap();
    let mut somebody = zookeeper.client_of("somebody", "else").unwrap();
    somebody.create("/dubbo/mapping/a.C", b"orders").unwrap();
    let registry = plain(&zookeeper);
    let catalogue = registry.catalogue(|_| true).await.unwrap();
    let names: Vec<_> = catalogue.services.iter().map(|it| it.service.interface.as_str()).collect();
    assert_eq!(names, ["a.B"]);
    assert_eq!(presence(&registry, "a.B").await, Presence::Offered);
    assert_eq!(presence(&registry, "a.X").await, Presence::Unknown, "an application may offer it");
}
