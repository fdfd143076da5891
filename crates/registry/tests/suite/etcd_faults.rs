//! The etcd registry against a real etcd that is killed, hangs, forgets and is replaced.

use std::sync::Arc;
use std::time::Duration;

use interop_harness::{Etcd, wait_until};
use registry::{Freshness, Layout, RuleDocument};

use crate::support::etcd::*;
use crate::support::proxy::Proxy;
use crate::support::{LONG, link, registration, rule_says, service, shows, status_is};

#[tokio::test(flavor = "multi_thread")]
async fn etcd_may_come_later() {
    let mut etcd = Etcd::start().unwrap();
    etcd.kill9();
    let registry = contest(&etcd);
    let subscription = registry.subscribe(&service("a.IFoo"));
    let registered = registry.register(&registration("a.IFoo", link(1))).unwrap();
    let url = etcd.client_url();
    status_is(&registry, "an error with the address", |status| {
        !status.connected && status.last_error.as_ref().is_some_and(|error| error.contains(&url))
    })
    .await;
    assert_eq!(subscription.current().status, Freshness::Pending);
    assert!(!registered.is_established());

    etcd.restart_keeping_data().unwrap();
    registered.established().await;
    shows(&subscription, Freshness::Current, &[HERE]).await;
    status_is(&registry, "the connection", |status| status.connected).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_etcd_with_its_data_kept() {
    let mut etcd = Etcd::start().unwrap();
    let registry = contest(&etcd);
    let subscription = registry.subscribe(&service("a.IFoo"));
    let registered = registry.register(&registration("a.IFoo", link(1))).unwrap();
    shows(&subscription, Freshness::Current, &[HERE]).await;
    for round in 2..4 {
        etcd.kill9();
        shows(&subscription, Freshness::Stale, &[HERE]).await;
        status_is(&registry, "the loss", |status| !status.connected).await;
        etcd.restart_keeping_data().unwrap();
        shows(&subscription, Freshness::Current, &[HERE]).await;
        registered.established().await;
        // The watch runs again.
        let key = format!("/dubbomesh/a.IFoo/10.0.0.1:{round}");
        etcd.etcdctl(&["put", &key, "1"]).unwrap();
        shows(&subscription, Freshness::Current, &[HERE, &format!("link://10.0.0.1:{round}")])
            .await;
        etcd.etcdctl(&["del", &key]).unwrap();
        shows(&subscription, Freshness::Current, &[HERE]).await;
    }
    registered.withdraw().await.unwrap();
    assert_eq!(etcd.keys("/").unwrap(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_etcd_that_comes_back_empty() {
    let mut etcd = Etcd::start().unwrap();
    let mut config = config(&etcd.client_url(), Layout::contest());
    config.grace = Duration::from_secs(1);
    let registry = open(config);
    let subscription = registry.subscribe(&service("a.IFoo"));
    let registered = registry.register(&registration("a.IFoo", link(1))).unwrap();
    etcd.etcdctl(&["put", "/dubbomesh/a.IFoo/10.0.0.1:2", "1"]).unwrap();
    let both = [HERE, "link://10.0.0.1:2"];
    shows(&subscription, Freshness::Current, &both).await;
    let mut snapshots = subscription.snapshots();
    snapshots.borrow_and_update();

    etcd.restart_empty().unwrap();
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
    tokio::time::timeout(LONG, settled).await.unwrap();
    assert!(!seen.contains(&0), "{seen:?}");
    shows(&subscription, Freshness::Current, &[HERE]).await;
    tokio::time::timeout(LONG, registered.established()).await.unwrap();
    assert_eq!(etcd.keys("/").unwrap(), [KEY]);
}

/// Rules are not of those who register again: somebody has to write them again, and until then
/// nobody is to call what they forbid.
#[tokio::test(flavor = "multi_thread")]
async fn rules_outlive_an_etcd_that_comes_back_empty() {
    const KEY: &str = "/dubbo/config/dubbo/shop.condition-router";
    let mut etcd = Etcd::start().unwrap();
    let mut config = config(&etcd.client_url(), Layout::dubbo());
    config.grace = LONG;
    let registry = open(config.clone());
    config.grace = Duration::from_millis(500);
    let hasty = open(config);
    let rules = [&registry, &hasty].map(|it| it.rule("shop.condition-router").unwrap());
    etcd.etcdctl(&["put", KEY, "one"]).unwrap();
    for rule in &rules {
        rule_says(rule, |document| document.text.as_deref() == Some("one")).await;
    }
    etcd.restart_empty().unwrap();
    rule_says(&rules[0], |document| {
        let told = |why: &Arc<str>| why.contains("came back without it");
        document.text.as_deref() == Some("one") && document.refusal.as_ref().is_some_and(told)
    })
    .await;
    rule_says(&rules[1], |document| document.text.is_none() && document.refusal.is_none()).await;
    etcd.etcdctl(&["put", KEY, "two"]).unwrap();
    for rule in &rules {
        let back = RuleDocument { is_settled: true, text: Some("two".into()), refusal: None };
        rule_says(rule, |document| *document == back).await;
    }
    etcd.etcdctl(&["del", KEY]).unwrap();
    rule_says(&rules[0], |document| document.text.is_none()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_and_a_compaction_while_the_connection_is_cut() {
    let etcd = Etcd::start().unwrap();
    let proxy = Proxy::start(etcd.addr()).await;
    let registry = open(config(&format!("http://{}", proxy.addr()), Layout::contest()));
    let subscription = registry.subscribe(&service("a.IFoo"));
    etcd.etcdctl(&["put", "/dubbomesh/a.IFoo/10.0.0.1:2", "1"]).unwrap();
    shows(&subscription, Freshness::Current, &["link://10.0.0.1:2"]).await;

    proxy.cut();
    shows(&subscription, Freshness::Stale, &["link://10.0.0.1:2"]).await;
    etcd.etcdctl(&["del", "/dubbomesh/a.IFoo/10.0.0.1:2"]).unwrap();
    etcd.etcdctl(&["put", "/dubbomesh/a.IFoo/10.0.0.1:3", "1"]).unwrap();
    let json = etcd.etcdctl(&["get", "/x", "-w", "json"]).unwrap();
    let (_, rest) = json.split_once("\"revision\":").unwrap();
    let revision: String = rest.chars().take_while(char::is_ascii_digit).collect();
    etcd.etcdctl(&["compact", "--physical", &revision]).unwrap();
    proxy.mend();
    shows(&subscription, Freshness::Current, &["link://10.0.0.1:3"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_etcd_that_hangs_is_found_out() {
    let mut etcd = Etcd::start().unwrap();
    let registry = contest(&etcd);
    let subscription = registry.subscribe(&service("a.IFoo"));
    let _registered = registry.register(&registration("a.IFoo", link(1))).unwrap();
    shows(&subscription, Freshness::Current, &[HERE]).await;
    etcd.suspend();
    shows(&subscription, Freshness::Stale, &[HERE]).await;
    let registered = registry.register(&registration("a.IFoo", link(2))).unwrap();
    let error = registered.withdraw().await.unwrap_err().to_string();
    assert!(error.contains("ends with its lease"), "{error}");
    etcd.resume();
    shows(&subscription, Freshness::Current, &[HERE]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_lease_and_a_deleted_key_are_made_good() {
    let etcd = Etcd::start().unwrap();
    let registry = contest(&etcd);
    let subscription = registry.subscribe(&service("a.IFoo"));
    let registered = registry.register(&registration("a.IFoo", link(1))).unwrap();
    registered.established().await;
    shows(&subscription, Freshness::Current, &[HERE]).await;

    let lease = lease_of(&etcd, KEY);
    etcd.etcdctl(&["lease", "revoke", &lease]).unwrap();
    shows(&subscription, Freshness::Current, &[]).await;
    shows(&subscription, Freshness::Current, &[HERE]).await;
    let new_lease = lease_of(&etcd, KEY);
    assert_ne!(new_lease, lease);

    etcd.etcdctl(&["del", KEY]).unwrap();
    shows(&subscription, Freshness::Current, &[]).await;
    shows(&subscription, Freshness::Current, &[HERE]).await;
    assert_eq!(lease_of(&etcd, KEY), new_lease, "the lease was still good");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_successor_keeps_the_key_that_it_took_over() {
    let etcd = Etcd::start().unwrap();
    let (old, new) = (contest(&etcd), contest(&etcd));
    let first = old.register(&registration("a.IFoo", link(1))).unwrap();
    first.established().await;
    let lease = lease_of(&etcd, KEY);
    let second = new.register(&registration("a.IFoo", link(1))).unwrap();
    second.established().await;
    let new_lease = lease_of(&etcd, KEY);
    assert_ne!(new_lease, lease);
    // The old one neither takes the key back when it renews its lease, nor deletes it.
    let canary = old.register(&registration("a.Canary", link(1))).unwrap();
    canary.established().await;
    etcd.etcdctl(&["del", "--prefix", "/dubbomesh/a.Canary/"]).unwrap();
    wait_until("a renewal", LONG, || !etcd.keys("/dubbomesh/a.Canary/").unwrap().is_empty());
    first.withdraw().await.unwrap();
    drop((old, canary));
    wait_until("the old lease's end", LONG, || {
        etcd.etcdctl(&["lease", "list"]).unwrap().contains("found 1 leases")
    });
    assert_eq!(lease_of(&etcd, KEY), new_lease);
    drop(second);
    wait_until("the withdrawal by drop", LONG, || etcd.keys("/").unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn dropping_the_registry_gives_up_the_lease() {
    let etcd = Etcd::start().unwrap();
    let mut config = config(&etcd.client_url(), Layout::contest());
    config.lease_ttl = Duration::from_secs(3600);
    let registry = open(config);
    let registered = registry.register(&registration("a.IFoo", link(1))).unwrap();
    registered.established().await;
    assert!(etcd.etcdctl(&["lease", "list"]).unwrap().contains("found 1 leases"));
    drop(registry);
    drop(registered);
    wait_until("the lease's end", LONG, || {
        etcd.etcdctl(&["lease", "list"]).unwrap().contains("found 0 leases")
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn one_of_several_members_is_enough() {
    let (mut first, second) = (Etcd::start().unwrap(), Etcd::start().unwrap());
    let mut config = config(&first.client_url(), Layout::contest());
    let dead = format!("http://127.0.0.1:{}", interop_harness::free_port());
    config.endpoints = vec![dead, first.client_url()];
    let registry = open(config.clone());
    status_is(&registry, "the living member", |status| status.connected).await;

    // Two separate ones here, where real ones would be members of one cluster.
    config.endpoints = vec![first.client_url(), second.client_url()];
    config.grace = Duration::ZERO;
    for etcd in [&first, &second] {
        etcd.etcdctl(&["put", "/dubbomesh/a.IFoo/10.0.0.1:2", "1"]).unwrap();
    }
    first.kill9();
    let registry = open(config);
    let subscription = registry.subscribe(&service("a.IFoo"));
    shows(&subscription, Freshness::Current, &["link://10.0.0.1:2"]).await;
}
