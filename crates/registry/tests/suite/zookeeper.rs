//! The ZooKeeper registry against a real ZooKeeper while nothing goes wrong.

use std::time::{Duration, Instant};

use interop_harness::{ZooKeeper, ZooKeeperOptions, ZooKeeperVersion, wait_until};
use registry::{Freshness, Presence, ZooKeeperAcl, ZooKeeperConfig};
use tokio::time::timeout;

use crate::support::zookeeper::*;
use crate::support::{LONG, link, registration, service, shows, status_is};

#[tokio::test(flavor = "multi_thread")]
async fn finds_registers_and_withdraws_end_to_end() {
    for version in ZooKeeperVersion::ALL {
        let options = ZooKeeperOptions { version, ..ZooKeeperOptions::default() };
        let zookeeper = ZooKeeper::start_with(options).unwrap();
        let mut client = zookeeper.client().unwrap();
        let registry = plain(&zookeeper);
        let subscription = registry.subscribe(&service("g/a.B:1.0"));
        shows(&subscription, Freshness::Current, &[]).await;

        // What Java writes, and what nobody can read: it hides nothing else.
        let url = "dubbo://10.0.0.1:20880/a.B?group=g&interface=a.B&version=1.0&weight=200";
        client.create(PROVIDERS, b"").unwrap();
        client.create(&provider("dubbo://10.0.0.2:20880/a.B?group=g&version=2.0"), b"").unwrap();
        for garbage in ["%zz", "nonsense", "%00", "dubbo%3A%2F%2F%3A%2F%2F", "é"] {
            client.create(&format!("{PROVIDERS}/{garbage}"), b"").unwrap();
        }
        client.create(&provider(url), b"10.0.0.1").unwrap();
        shows(&subscription, Freshness::Current, &["dubbo://10.0.0.1:20880"]).await;
        assert!(!subscription.current().unused.is_empty());

        let mut agent = registration("g/a.B:1.0", link(1));
        agent.app_address = Some("10.0.0.1:20880".into());
        let agent = registry.register(&agent).unwrap();
        shows(&subscription, Freshness::Current, &[HERE]).await;
        assert_eq!(subscription.current().endpoints[0].weight, 200, "what the app says of itself");
        agent.established().await;
        assert_ne!(owner(&mut client, AGENTS), 0, "it goes with its session");
        let listed = zookeeper.java_client(&["ls", AGENTS]).unwrap();
        assert!(listed.contains("[link%3A%2F%2F10.0.0.1%3A1%2Fa.B"), "{listed}");

        agent.withdraw().await.unwrap();
        assert!(client.children(AGENTS).unwrap().is_empty());
        shows(&subscription, Freshness::Current, &["dubbo://10.0.0.1:20880"]).await;
        client.delete(&provider(url)).unwrap();
        shows(&subscription, Freshness::Current, &[]).await;
    }
}

/// The node of a session that is not ours is taken over, once; and nobody takes it back.
#[tokio::test(flavor = "multi_thread")]
async fn a_successor_keeps_the_node_that_it_took_over() {
    let zookeeper = ZooKeeper::start().unwrap();
    let mut client = zookeeper.client().unwrap();
    let (old, new) = (plain(&zookeeper), plain(&zookeeper));
    let first = old.register(&registration("a.B", link(1))).unwrap();
    first.established().await;
    let first_owner = owner(&mut client, AGENTS);
    let second = new.register(&registration("a.B", link(1))).unwrap();
    second.established().await;
    let new_owner = owner(&mut client, AGENTS);
    assert_ne!(new_owner, first_owner);
    // The old one neither takes the node back when it looks after its nodes, nor deletes it.
    let canary = old.register(&registration("a.Canary", link(1))).unwrap();
    canary.established().await;
    let folder = "/dubbo/a.Canary/agents";
    let name = client.children(folder).unwrap().remove(0);
    client.delete(&format!("{folder}/{name}")).unwrap();
    wait_until("a look", LONG, || !client.children(folder).unwrap().is_empty());
    first.withdraw().await.unwrap();
    drop((old, canary));
    wait_until("the old session's end", LONG, || client.children(folder).unwrap().is_empty());
    assert_eq!(owner(&mut client, AGENTS), new_owner);
    drop(second);
    wait_until("the withdrawal by drop", LONG, || client.children(AGENTS).unwrap().is_empty());
}

/// A provider that somebody has registered for good stays when we register and withdraw it.
#[tokio::test(flavor = "multi_thread")]
async fn a_persistent_node_is_left_alone() {
    let zookeeper = ZooKeeper::start().unwrap();
    let mut client = zookeeper.client().unwrap();
    let registry = plain(&zookeeper);
    let registered = registry.register(&registration("a.B", dubbo(1))).unwrap();
    registered.established().await;
    let name = client.children(PROVIDERS).unwrap().remove(0);
    registered.withdraw().await.unwrap();
    client.create(&format!("{PROVIDERS}/{name}"), b"").unwrap();
    let registered = registry.register(&registration("a.B", dubbo(1))).unwrap();
    registered.established().await;
    registered.withdraw().await.unwrap();
    assert_eq!(client.children(PROVIDERS).unwrap(), [name]);
}

/// The session ends with the registry, not when it times out.
#[tokio::test(flavor = "multi_thread")]
async fn dropping_the_registry_ends_the_session() {
    let zookeeper = ZooKeeper::start().unwrap();
    let mut client = zookeeper.client().unwrap();
    let mut config = config(zookeeper.addr());
    config.session_timeout = Duration::from_secs(3600);
    let registry = open(config);
    let registered = registry.register(&registration("a.B", link(1))).unwrap();
    registered.established().await;
    drop(registry);
    drop(registered);
    wait_until("the session's end", LONG, || client.children(AGENTS).unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chroot_and_another_root() {
    let zookeeper = ZooKeeper::start().unwrap();
    let mut client = zookeeper.client().unwrap();
    let base = config(zookeeper.addr());
    let registry =
        open(ZooKeeperConfig { chroot: "teams/blue".into(), root: "rpc".into(), ..base });
    let subscription = registry.subscribe(&service("a.B"));
    let registered = registry.register(&registration("a.B", link(1))).unwrap();
    registered.established().await;
    shows(&subscription, Freshness::Current, &[HERE]).await;
    assert_eq!(client.children("/teams/blue/rpc/a.B/agents").unwrap().len(), 1);
    assert_eq!(presence(&registry, "a.B").await, Presence::Offered);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_owns_its_nodes() {
    let zookeeper = ZooKeeper::start().unwrap();
    let of = |user: Option<&str>, acl: Option<ZooKeeperAcl>| {
        let user = user.map(str::to_owned);
        let password = user.as_ref().map(|_| "secret".into());
        open(ZooKeeperConfig { user, password, acl, ..config(zookeeper.addr()) })
    };
    let owner = of(Some("agent"), None);
    let registered = owner.register(&registration("a.B", link(1))).unwrap();
    registered.established().await;
    let seen = owner.subscribe(&service("a.B"));
    shows(&seen, Freshness::Current, &[HERE]).await;
    let stranger = of(Some("stranger"), None);
    let unseen = stranger.subscribe(&service("a.B"));
    status_is(&stranger, "the denial", |status| {
        let names_it = |error: &String| error.contains(AGENTS) && error.contains("NoAuth");
        status.connected && status.last_error.as_ref().is_some_and(names_it)
    })
    .await;
    assert_eq!(unseen.current().status, Freshness::Pending);
    // It may not list services, so nothing is denied.
    assert_eq!(presence(&stranger, "a.Other").await, Presence::Unknown);
    // Java's client with the same user reads what ours has written.
    let mut client = zookeeper.client_of("agent", "secret").unwrap();
    assert_eq!(client.children(AGENTS).unwrap().len(), 1);
    drop((registered, owner));

    let mut root = zookeeper.client_of("agent", "secret").unwrap();
    wait_until("the withdrawal", LONG, || root.children(AGENTS).unwrap().is_empty());
    for path in [AGENTS, PROVIDERS, "/dubbo/a.B", "/dubbo"] {
        let _providers_was_never_made = root.delete(path);
    }
    let readable = of(Some("agent"), Some(ZooKeeperAcl::CreatorAndReaders));
    let registered = readable.register(&registration("a.B", link(1))).unwrap();
    registered.established().await;
    let anybody = of(None, None);
    let seen = anybody.subscribe(&service("a.B"));
    shows(&seen, Freshness::Current, &[HERE]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn five_thousand_providers() {
    let zookeeper = ZooKeeper::start().unwrap();
    let mut client = zookeeper.client().unwrap();
    client.create(PROVIDERS, b"").unwrap();
    // As long as Java's are.
    let methods = "aMethodWithALongName,".repeat(40);
    let path = |n: usize| {
        let (a, b) = (n / 250, n % 250);
        provider(&format!("dubbo://10.0.{a}.{b}:20880/a.B?interface=a.B&methods={methods}"))
    };
    let paths: Vec<_> = (0..5000).map(path).collect();
    let registry = plain(&zookeeper);
    let subscription = registry.subscribe(&service("a.B"));
    shows(&subscription, Freshness::Current, &[]).await;
    let began = Instant::now();
    client.create_all(&paths.iter().map(String::as_str).collect::<Vec<_>>(), false).unwrap();
    let has = async |n: usize| {
        let mut snapshots = subscription.snapshots();
        let wait = snapshots.wait_for(|snapshot| snapshot.endpoints.len() == n);
        let arrived = timeout(LONG, wait).await.is_ok();
        assert!(arrived, "waited in vain for {n}, got {}", subscription.current().endpoints.len());
    };
    has(5000).await;
    println!("5000 providers in {:?}", began.elapsed());
    let mut latencies = Vec::new();
    for path in &paths[..20] {
        let began = Instant::now();
        client.delete(path).unwrap();
        has(4999).await;
        client.create_all(&[path], false).unwrap();
        has(5000).await;
        latencies.push(began.elapsed() / 2);
    }
    latencies.sort_unstable();
    println!("one change of them: median {:?}, worst {:?}", latencies[10], latencies[19]);
}

/// A hundred thousand made-up names cost ZooKeeper two watches, and a service that comes up is
/// found.
#[tokio::test(flavor = "multi_thread")]
async fn made_up_names_cost_two_watches() {
    let zookeeper = ZooKeeper::start().unwrap();
    let mut client = zookeeper.client().unwrap();
    client.create(&provider("dubbo://10.0.0.1:20880/a.B?version=1.0&group=g"), b"").unwrap();
    client.create("/dubbo/a.Called/consumers/x", b"").unwrap();
    let registry = plain(&zookeeper);
    for (text, expected) in [
        ("g/a.B:1.0", Presence::Offered),
        ("*/a.B:*", Presence::Offered),
        ("a.B:1.0", Presence::Absent),
        ("a.Called", Presence::Absent),
        ("a.Other", Presence::Absent),
    ] {
        assert_eq!(presence(&registry, text).await, expected, "{text}");
    }
    for n in 0..100_000 {
        assert_eq!(registry.presence(&service(&format!("made.up.S{n}"))), Presence::Absent);
        assert_eq!(registry.presence(&service(&format!("a.Called:{n}"))), Presence::Absent);
    }
    assert_eq!(n_watches(&zookeeper), 2, "on the interfaces, and on the mappings");
    client.create("/dubbo/a.Late/providers/not%20a%20URL", b"").unwrap();
    let found = async {
        while registry.presence(&service("a.Late:9")) != Presence::Offered {
            tokio::task::yield_now().await;
        }
    };
    timeout(LONG, found).await.expect("the new service");
}

/// An absent service costs a watch for each of its folders and one for its mapping, and they go
/// with the subscription.
#[tokio::test(flavor = "multi_thread")]
async fn watches_that_nobody_needs_are_taken_back() {
    let zookeeper = ZooKeeper::start().unwrap();
    let mut client = zookeeper.client().unwrap();
    client.create(&provider("dubbo://10.0.0.1:2/a.B"), b"").unwrap();
    let registry = plain(&zookeeper);
    let kept = registry.subscribe(&service("a.B"));
    shows(&kept, Freshness::Current, &["dubbo://10.0.0.1:2"]).await;
    let three = n_watches(&zookeeper);
    assert_eq!(three, 3);
    let others: Vec<_> = (0..20)
        .map(|n| registry.subscribe(&service(&format!("a.S{n}"))))
        .chain((0..20).map(|n| registry.subscribe(&service(&format!("a.B:{n}")))))
        .collect();
    for other in &others {
        shows(other, Freshness::Current, &[]).await;
    }
    assert_eq!(n_watches(&zookeeper), 63);
    drop(others);
    wait_until("the watches' end", LONG, || n_watches(&zookeeper) == three);
    client.create(&provider("dubbo://10.0.0.1:3/a.B"), b"").unwrap();
    shows(&kept, Freshness::Current, &["dubbo://10.0.0.1:2", "dubbo://10.0.0.1:3"]).await;
}
