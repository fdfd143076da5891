//! The ZooKeeper registry while a real ZooKeeper is killed, stands still or is cut off.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use interop_harness::{ZooKeeper, free_port, wait_until};
use registry::{Freshness, Registry, RuleDocument, ZooKeeperConfig};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;
use tokio::time::timeout;

use crate::support::proxy::Proxy;
use crate::support::zookeeper::*;
use crate::support::{LONG, link, registration, rule_says, service, shows, status_is};

#[tokio::test(flavor = "multi_thread")]
async fn zookeeper_may_come_later() {
    let mut zookeeper = ZooKeeper::start().unwrap();
    zookeeper.kill9();
    let registry = plain(&zookeeper);
    let subscription = registry.subscribe(&service("a.B"));
    let registered = registry.register(&registration("a.B", link(1))).unwrap();
    let address = zookeeper.addr().to_string();
    status_is(&registry, "an error with the address", |status| {
        !status.connected && status.last_error.as_ref().is_some_and(|text| text.contains(&address))
    })
    .await;
    assert_eq!(subscription.current().status, Freshness::Pending);
    assert!(!registered.is_established());

    zookeeper.restart_keeping_data().unwrap();
    registered.established().await;
    shows(&subscription, Freshness::Current, &[HERE]).await;
    status_is(&registry, "the connection", |status| status.connected).await;
}

/// The session goes on: nothing is registered again, and watches are set anew.
#[tokio::test(flavor = "multi_thread")]
async fn a_killed_zookeeper_with_its_data_kept() {
    let mut zookeeper = ZooKeeper::start().unwrap();
    let mut slow = config(zookeeper.addr());
    slow.session_timeout = LONG;
    let registry = open(slow);
    let subscription = registry.subscribe(&service("a.B"));
    let registered = registry.register(&registration("a.B", link(1))).unwrap();
    shows(&subscription, Freshness::Current, &[HERE]).await;
    let first = owner(&mut zookeeper.client().unwrap(), AGENTS);
    for port in 2..4 {
        zookeeper.kill9();
        shows(&subscription, Freshness::Stale, &[HERE]).await;
        zookeeper.restart_keeping_data().unwrap();
        shows(&subscription, Freshness::Current, &[HERE]).await;
        let mut client = zookeeper.client().unwrap();
        assert_eq!(owner(&mut client, AGENTS), first);
        // The watch runs again.
        let node = provider(&format!("dubbo://10.0.0.1:{port}/a.B"));
        client.create(&node, b"").unwrap();
        let both = [HERE, &format!("dubbo://10.0.0.1:{port}")];
        shows(&subscription, Freshness::Current, &both).await;
        client.delete(&node).unwrap();
        shows(&subscription, Freshness::Current, &[HERE]).await;
    }
    registered.withdraw().await.unwrap();
    assert!(zookeeper.client().unwrap().children(AGENTS).unwrap().is_empty());
}

/// The server refuses a client that has seen more than itself; we begin anew.
#[tokio::test(flavor = "multi_thread")]
async fn a_killed_zookeeper_that_comes_back_empty() {
    let mut zookeeper = ZooKeeper::start().unwrap();
    let mut config = config(zookeeper.addr());
    config.grace = Duration::from_secs(1);
    let registry = open(config);
    let subscription = registry.subscribe(&service("a.B"));
    let registered = registry.register(&registration("a.B", link(1))).unwrap();
    let mut client = zookeeper.client().unwrap();
    client.create(&provider("dubbo://10.0.0.1:2/a.B"), b"").unwrap();
    let both = [HERE, "dubbo://10.0.0.1:2"];
    shows(&subscription, Freshness::Current, &both).await;
    drop(client);
    let mut snapshots = subscription.snapshots();
    snapshots.borrow_and_update();

    zookeeper.restart_empty().unwrap();
    // We register again; who does not is dropped, after the grace. We are never missing.
    let mut seen = Vec::new();
    let settled = async {
        loop {
            snapshots.changed().await.unwrap();
            let snapshot = snapshots.borrow_and_update().clone();
            seen.push(snapshot.endpoints.len());
            if snapshot.status == Freshness::Current {
                break;
            }
        }
    };
    timeout(LONG, settled).await.unwrap();
    assert!(!seen.contains(&0), "{seen:?}");
    shows(&subscription, Freshness::Current, &[HERE]).await;
    timeout(LONG, registered.established()).await.unwrap();
    assert_eq!(zookeeper.client().unwrap().children(AGENTS).unwrap().len(), 1);
}

/// As in etcd: somebody has to write rules again.
#[tokio::test(flavor = "multi_thread")]
async fn rules_outlive_a_zookeeper_that_comes_back_empty() {
    const PATH: &str = "/dubbo/config/dubbo/shop.condition-router";
    let mut zookeeper = ZooKeeper::start().unwrap();
    let config = ZooKeeperConfig { grace: LONG, ..config(zookeeper.addr()) };
    let registry = open(config);
    let rule = registry.rule("shop.condition-router").unwrap();
    let mut client = zookeeper.client().unwrap();
    client.create(PATH, b"one").unwrap();
    rule_says(&rule, |document| document.text.as_deref() == Some("one")).await;
    drop(client);
    zookeeper.restart_empty().unwrap();
    rule_says(&rule, |document| {
        document.text.as_deref() == Some("one") && document.refusal.is_some()
    })
    .await;
    let mut client = zookeeper.client().unwrap();
    client.create(PATH, b"two").unwrap();
    rule_says(&rule, |document| document.text.as_deref() == Some("two")).await;
    client.delete(PATH).unwrap();
    rule_says(&rule, |document| document.text.is_none() && document.refusal.is_none()).await;
}

/// Cut off for longer than the session lives: registered again, and watched anew.
#[tokio::test(flavor = "multi_thread")]
async fn an_expired_session_is_made_good() {
    let zookeeper = ZooKeeper::start().unwrap();
    let mut client = zookeeper.client().unwrap();
    let proxy = Proxy::start(zookeeper.addr()).await;
    let registry = open(config(proxy.addr()));
    let subscription = registry.subscribe(&service("a.B"));
    let registered = registry.register(&registration("a.B", link(1))).unwrap();
    shows(&subscription, Freshness::Current, &[HERE]).await;
    let first = owner(&mut client, AGENTS);

    proxy.cut();
    wait_until("the session's end", LONG, || client.children(AGENTS).unwrap().is_empty());
    shows(&subscription, Freshness::Stale, &[HERE]).await;
    client.create(&provider("dubbo://10.0.0.1:2/a.B"), b"").unwrap();
    proxy.mend();
    let both = [HERE, "dubbo://10.0.0.1:2"];
    shows(&subscription, Freshness::Current, &both).await;
    timeout(LONG, registered.established()).await.unwrap();
    assert_ne!(owner(&mut client, AGENTS), first);
    client.delete(&provider("dubbo://10.0.0.1:2/a.B")).unwrap();
    shows(&subscription, Freshness::Current, &[HERE]).await;
}

/// The server stands still for longer than the session lives.
#[tokio::test(flavor = "multi_thread")]
async fn a_stall_longer_than_the_session_is_made_good() {
    let mut zookeeper = ZooKeeper::start().unwrap();
    let registry = plain(&zookeeper);
    let subscription = registry.subscribe(&service("a.B"));
    let registered = registry.register(&registration("a.B", link(1))).unwrap();
    shows(&subscription, Freshness::Current, &[HERE]).await;
    registered.established().await;
    zookeeper.suspend();
    let began = Instant::now();
    shows(&subscription, Freshness::Stale, &[HERE]).await;
    // The stall itself, twice as long as the session.
    tokio::time::sleep(Duration::from_secs(4).saturating_sub(began.elapsed())).await;
    zookeeper.resume();
    shows(&subscription, Freshness::Current, &[HERE]).await;
    timeout(LONG, registered.established()).await.unwrap();
    let mut client = zookeeper.client().unwrap();
    client.create(&provider("dubbo://10.0.0.1:2/a.B"), b"").unwrap();
    shows(&subscription, Freshness::Current, &[HERE, "dubbo://10.0.0.1:2"]).await;
    assert_eq!(client.children(AGENTS).unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_node_is_made_again() {
    let zookeeper = ZooKeeper::start().unwrap();
    let mut client = zookeeper.client().unwrap();
    let registry = plain(&zookeeper);
    let subscription = registry.subscribe(&service("a.B"));
    let _registered = registry.register(&registration("a.B", link(1))).unwrap();
    shows(&subscription, Freshness::Current, &[HERE]).await;
    let name = client.children(AGENTS).unwrap().remove(0);
    client.delete(&format!("{AGENTS}/{name}")).unwrap();
    shows(&subscription, Freshness::Current, &[]).await;
    shows(&subscription, Freshness::Current, &[HERE]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_of_several_servers_is_enough() {
    let (mut first, second) = (ZooKeeper::start().unwrap(), ZooKeeper::start().unwrap());
    let dead = format!("127.0.0.1:{}", free_port());
    // Two separate ones here, where real ones would be members of one ensemble.
    for zookeeper in [&first, &second] {
        let mut client = zookeeper.client().unwrap();
        client.create(&provider("dubbo://10.0.0.1:2/a.B"), b"").unwrap();
    }
    let servers = [dead, first.addr().to_string(), second.addr().to_string()];
    let registry = open(ZooKeeperConfig { servers: servers.into(), ..config(first.addr()) });
    let subscription = registry.subscribe(&service("a.B"));
    shows(&subscription, Freshness::Current, &["dubbo://10.0.0.1:2"]).await;
    first.kill9();
    shows(&subscription, Freshness::Current, &["dubbo://10.0.0.1:2"]).await;
    second.client().unwrap().create(&provider("dubbo://10.0.0.1:3/a.B"), b"").unwrap();
    let both = ["dubbo://10.0.0.1:2", "dubbo://10.0.0.1:3"];
    shows(&subscription, Freshness::Current, &both).await;
}

/// A flood of changes reaches the list, whole in the end, without a read for each of them.
#[tokio::test(flavor = "multi_thread")]
async fn a_flood_of_changes_ends_in_the_right_list() {
    let zookeeper = ZooKeeper::start().unwrap();
    let mut client = zookeeper.client().unwrap();
    client.create(PROVIDERS, b"").unwrap();
    let registry = plain(&zookeeper);
    let subscription = registry.subscribe(&service("a.B"));
    shows(&subscription, Freshness::Current, &[]).await;
    let path = |n: usize| provider(&format!("dubbo://10.0.0.1:{}/a.B", n + 1));
    let mut left = BTreeSet::new();
    for n in 0..2000 {
        client.create_all(&[&path(n)], false).unwrap();
        left.insert(n);
        if n % 3 == 0 {
            client.delete(&path(n / 2)).unwrap_or_default();
            left.remove(&(n / 2));
        }
    }
    let expected = client.children(PROVIDERS).unwrap().len();
    assert_eq!(expected, left.len());
    let mut snapshots = subscription.snapshots();
    let wait = snapshots.wait_for(|snapshot| snapshot.endpoints.len() == expected);
    assert!(timeout(LONG, wait).await.is_ok());
}

/// Peers that are not ZooKeeper, and a message over the limit.
#[tokio::test(flavor = "multi_thread")]
async fn nonsense_is_refused_and_said() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await;
        }
    });
    let says = async |registry: &Registry, expected: &str| {
        status_is(registry, expected, |status| {
            status.last_error.as_ref().is_some_and(|error| error.contains(expected))
        })
        .await;
    };
    says(&open(config(address)), "a frame of 1213486160 bytes; the limit is 67108864").await;

    let zookeeper = ZooKeeper::start().unwrap();
    let mut client = zookeeper.client().unwrap();
    for n in 0..100 {
        client.create(&provider(&format!("dubbo://10.0.0.1:{}/a.B", n + 1)), b"").unwrap();
    }
    let small = open(ZooKeeperConfig { max_message_len: 1000, ..config(zookeeper.addr()) });
    let _subscription = small.subscribe(&service("a.B"));
    says(&small, "the limit is 1000 (max_message_bytes)").await;
}

/// A document of the configuration is told of at once, whether it is there or not; its changes
/// come by a watch, also those that were made while ZooKeeper was away.
#[tokio::test(flavor = "multi_thread")]
async fn rules_are_watched_in_the_configuration() {
    const NAME: &str = "a.B::.condition-router";
    let mut zookeeper = ZooKeeper::start().unwrap();
    let path = format!("/dubbo/config/dubbo/{NAME}");
    let registry = plain(&zookeeper);
    let rule = registry.rule(NAME).unwrap();
    let mut document = rule.document();
    let mut says = async |wanted: Option<&str>| {
        let is_wanted =
            |document: &RuleDocument| document.is_settled && document.text.as_deref() == wanted;
        let wait = timeout(LONG, document.wait_for(is_wanted)).await;
        assert!(wait.is_ok_and(|found| found.is_ok()), "{wanted:?}");
    };
    says(None).await;
    let mut client = zookeeper.client().unwrap();
    client.create(&path, b"one").unwrap();
    says(Some("one")).await;
    client.set(&path, b"two").unwrap();
    says(Some("two")).await;
    drop(client);
    zookeeper.kill9();
    zookeeper.restart_keeping_data().unwrap();
    let mut client = zookeeper.client().unwrap();
    client.set(&path, b"three").unwrap();
    says(Some("three")).await;
    client.delete(&path).unwrap();
    says(None).await;
    client.create(&path, b"four").unwrap();
    says(Some("four")).await;
    drop((rule, document));
    wait_until("the watch's end", LONG, || n_watches(&zookeeper) == 0);
}

/// Of an ensemble of three, each member in turn is killed, and then one stands still. The session
/// goes on at another one, and so does the watch.
#[tokio::test(flavor = "multi_thread")]
async fn each_member_of_an_ensemble_may_fail() {
    let mut members = ZooKeeper::start_ensemble(3).unwrap();
    let servers = members.iter().map(|member| member.addr().to_string()).collect();
    let registry =
        open(ZooKeeperConfig { servers, session_timeout: LONG / 2, ..config(members[0].addr()) });
    let subscription = registry.subscribe(&service("a.B"));
    let registered = registry.register(&registration("a.B", link(1))).unwrap();
    timeout(LONG, registered.established()).await.unwrap();
    shows(&subscription, Freshness::Current, &[HERE]).await;
    let first = owner(&mut members[0].client().unwrap(), AGENTS);
    for failing in 0..4 {
        let (failing, is_killed) = (failing % 3, failing < 3);
        match is_killed {
            true => members[failing].kill9(),
            false => members[failing].suspend(),
        }
        // The others elect a leader first, if they have to.
        let other = (failing + 1) % 3;
        let node = provider("dubbo://10.0.0.1:2/a.B");
        wait_until("a write", LONG, || {
            members[other].client().is_ok_and(|mut client| client.create(&node, b"").is_ok())
        });
        shows(&subscription, Freshness::Current, &[HERE, "dubbo://10.0.0.1:2"]).await;
        let mut client = members[other].client().unwrap();
        assert_eq!(owner(&mut client, AGENTS), first, "the same session");
        client.delete(&node).unwrap();
        shows(&subscription, Freshness::Current, &[HERE]).await;
        drop(client);
        match is_killed {
            true => members[failing].restart_keeping_data().unwrap(),
            false => members[failing].resume(),
        }
        wait_until("its return", LONG, || members[failing].client().is_ok());
    }
    registered.withdraw().await.unwrap();
}
