//! The etcd registry against a real etcd, which each test starts, kills and restarts itself.

mod support;

use std::time::Duration;

use dubbo_proto::url::encode_key;
use interop_harness::{Etcd, wait_until};
use registry::{EtcdConfig, Freshness, Layout, Presence, Registry, RegistryConfig, RuleDocument};

use support::proxy::Proxy;
use support::{LONG, link, registration, service, shows, status_is};

fn config(url: &str, layout: Layout) -> EtcdConfig {
    let mut config = EtcdConfig::new([url], layout);
    config.lease_ttl = Duration::from_secs(2);
    config.connect_timeout = Duration::from_secs(5);
    config.request_timeout = Duration::from_secs(2);
    config
}

fn open(config: EtcdConfig) -> Registry {
    Registry::open(RegistryConfig::Etcd(config)).unwrap()
}

fn contest(etcd: &Etcd) -> Registry {
    open(config(&etcd.client_url(), Layout::contest()))
}

fn dubbo(etcd: &Etcd) -> Registry {
    open(config(&etcd.client_url(), Layout::dubbo()))
}

/// The number of the lease that a key hangs on, as etcdctl writes leases.
fn lease_of(etcd: &Etcd, key: &str) -> String {
    let json = etcd.etcdctl(&["get", key, "-w", "json"]).unwrap();
    let (_, rest) = json.split_once("\"lease\":").expect("a key with a lease");
    let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
    format!("{:x}", digits.parse::<i64>().unwrap())
}

const HERE: &str = "link://10.0.0.1:1";
const KEY: &str = "/dubbomesh/a.IFoo/10.0.0.1:1";

#[tokio::test(flavor = "multi_thread")]
async fn contest_layout_end_to_end() {
    let etcd = Etcd::start().unwrap();
    let (provider, consumer) = (contest(&etcd), contest(&etcd));
    let subscription = consumer.subscribe(&service("a.IFoo"));
    shows(&subscription, Freshness::Current, &[]).await;

    let mut endpoint = link(1);
    endpoint.weight = 3;
    let registered = provider.register(&registration("a.IFoo", endpoint)).unwrap();
    registered.established().await;
    shows(&subscription, Freshness::Current, &[HERE]).await;
    assert_eq!(subscription.current().endpoints[0].weight, 3);
    assert_eq!(etcd.etcdctl(&["get", KEY, "--print-value-only"]).unwrap().trim(), "3");

    // What another program writes, good and bad, and another service with a longer name.
    for (key, value) in [
        ("/dubbomesh/a.IFoo2/10.0.0.9:9", "1"),
        ("/dubbomesh/a.IFoo/nonsense", "1"),
        ("/dubbomesh/a.IFoo/10.0.0.1:7", "heavy"),
        ("/dubbomesh/a.IFoo/10.0.0.1:2", "5"),
    ] {
        etcd.etcdctl(&["put", key, value]).unwrap();
    }
    shows(&subscription, Freshness::Current, &[HERE, "link://10.0.0.1:2"]).await;
    etcd.etcdctl(&["del", "/dubbomesh/a.IFoo/10.0.0.1:2"]).unwrap();
    shows(&subscription, Freshness::Current, &[HERE]).await;

    registered.withdraw().await.unwrap();
    assert_eq!(etcd.keys(KEY).unwrap(), Vec::<String>::new());
    shows(&subscription, Freshness::Current, &[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn dubbo_layout_end_to_end() {
    let etcd = Etcd::start().unwrap();
    let registry = dubbo(&etcd);
    let subscription = registry.subscribe(&service("g/a.B:1.0"));
    // As Java does it: parents as empty keys, the lease's number as the value.
    let url = "dubbo://10.0.0.1:20880/a.B?group=g&interface=a.B&version=1.0&weight=200";
    let provider = format!("/dubbo/a.B/providers/{}", encode_key(url));
    let other = "dubbo://10.0.0.2:20880/a.B?group=g&interface=a.B&version=2.0";
    let other = format!("/dubbo/a.B/providers/{}", encode_key(other));
    for (key, value) in [
        ("/dubbo/a.B", ""),
        ("/dubbo/a.B/providers", ""),
        (provider.as_str(), "7587"),
        (other.as_str(), ""),
        ("/dubbo/a.B/providers/%zz", ""),
        ("/dubbo/a.B/consumers/consumer%3A%2F%2F10.0.0.3%2Fa.B", ""),
    ] {
        etcd.etcdctl(&["put", key, value]).unwrap();
    }
    shows(&subscription, Freshness::Current, &["dubbo://10.0.0.1:20880"]).await;

    let mut agent = registration("g/a.B:1.0", link(1));
    agent.app_address = Some("10.0.0.1:20880".into());
    let agent = registry.register(&agent).unwrap();
    shows(&subscription, Freshness::Current, &[HERE]).await;
    let endpoint = subscription.current().endpoints[0].clone();
    assert_eq!(endpoint.weight, 200, "what the app says about itself");
    let keys = etcd.keys("/dubbo/a.B/agents/").unwrap();
    assert_eq!(keys.len(), 1, "{keys:?}");
    let value = etcd.etcdctl(&["get", &keys[0], "--print-value-only"]).unwrap();
    let lease = format!("{:x}", value.trim().parse::<i64>().unwrap());
    assert_eq!(lease, lease_of(&etcd, &keys[0]), "as Java's providers write it");

    agent.withdraw().await.unwrap();
    shows(&subscription, Freshness::Current, &["dubbo://10.0.0.1:20880"]).await;
}

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

#[tokio::test(flavor = "multi_thread")]
async fn user_and_password() {
    let mut etcd = Etcd::start().unwrap();
    etcd.enable_auth("secret").unwrap();
    let with = |user: Option<(&str, &str)>| {
        let mut config = config(&etcd.client_url(), Layout::contest());
        config.user = user.map(|(user, _)| user.to_owned());
        config.password = user.map(|(_, password)| password.to_owned());
        open(config)
    };
    for (user, expected) in
        [(Some(("root", "wrong")), "authentication failed"), (None, "user name is empty")]
    {
        let registry = with(user);
        status_is(&registry, expected, |status| {
            status.last_error.as_ref().is_some_and(|error| error.contains(expected))
        })
        .await;
        assert!(!registry.status().borrow().connected);
    }
    let registry = with(Some(("root", "secret")));
    let subscription = registry.subscribe(&service("a.IFoo"));
    let registered = registry.register(&registration("a.IFoo", link(1))).unwrap();
    shows(&subscription, Freshness::Current, &[HERE]).await;
    // Tokens live in etcd's memory: after a restart ours is worth nothing.
    etcd.kill9();
    shows(&subscription, Freshness::Stale, &[HERE]).await;
    etcd.restart_keeping_data().unwrap();
    shows(&subscription, Freshness::Current, &[HERE]).await;
    registered.withdraw().await.unwrap();
    shows(&subscription, Freshness::Current, &[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_user_may_not_read_is_said_and_the_rest_works() {
    let mut etcd = Etcd::start().unwrap();
    for args in [
        &["role", "add", "mesh"][..],
        &["role", "grant-permission", "mesh", "--prefix=true", "readwrite", "/dubbomesh/a.IFoo/"],
        &["user", "add", "agent:pw"],
        &["user", "grant-role", "agent", "mesh"],
    ] {
        etcd.etcdctl(args).unwrap();
    }
    etcd.enable_auth("secret").unwrap();
    let mut config = config(&etcd.client_url(), Layout::contest());
    (config.user, config.password) = (Some("agent".into()), Some("pw".into()));
    let registry = open(config);
    let allowed = registry.subscribe(&service("a.IFoo"));
    let denied = registry.subscribe(&service("a.Secret"));
    let _registered = registry.register(&registration("a.IFoo", link(1))).unwrap();
    shows(&allowed, Freshness::Current, &[HERE]).await;
    status_is(&registry, "the denial", |status| {
        let names_it =
            |error: &String| error.contains("a.Secret") && error.contains("permission denied");
        status.connected && status.last_error.as_ref().is_some_and(names_it)
    })
    .await;
    assert_eq!(denied.current().status, Freshness::Pending);
    // It may not list services, so nothing is denied.
    assert_eq!(presence(&registry, "a.Other").await, Presence::Unknown);
}

/// What is known of a service once etcd has been asked.
async fn presence(registry: &Registry, text: &str) -> Presence {
    match registry.presence(&service(text)) {
        Presence::Asking => {
            tokio::time::timeout(LONG, registry.settled()).await.expect("etcd's answer");
            registry.presence(&service(text))
        }
        known => known,
    }
}

/// How many watches etcd has.
fn n_watches(etcd: &Etcd) -> u64 {
    use std::io::{Read, Write};
    let mut stream = std::net::TcpStream::connect(etcd.addr()).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let line = answer.lines().find(|line| line.starts_with("etcd_debugging_mvcc_watcher_total "));
    line.and_then(|line| line.split(' ').nth(1)?.parse().ok()).expect("a count of watches")
}

/// A hundred thousand made-up names cost etcd one watch, and a service that comes up is found.
#[tokio::test(flavor = "multi_thread")]
async fn made_up_names_cost_one_watch() {
    let etcd = Etcd::start().unwrap();
    let put = |key: &str| etcd.etcdctl(&["put", key, "1"]).unwrap();
    let provider = |url: &str| format!("/dubbo/a.IFoo/providers/{}", encode_key(url));
    put(&provider("dubbo://10.0.0.1:20880/a.IFoo?version=1.0&group=g"));
    put("/dubbo/a.Called/consumers/x");
    put("/dubbomesh/a.IBar/10.0.0.1:1");
    let (dubbo, contest) = (dubbo(&etcd), contest(&etcd));
    for (registry, text, expected) in [
        (&dubbo, "g/a.IFoo:1.0", Presence::Offered),
        (&dubbo, "*/a.IFoo:*", Presence::Offered),
        (&dubbo, "a.IFoo:1.0", Presence::Absent),
        (&dubbo, "a.Called", Presence::Absent),
        (&dubbo, "a.IBar", Presence::Absent),
        (&contest, "a.IBar:7", Presence::Offered),
        (&contest, "a.IFoo", Presence::Absent),
    ] {
        assert_eq!(presence(registry, text).await, expected, "{text}");
    }
    let began = std::time::Instant::now();
    for n in 0..100_000 {
        assert_eq!(dubbo.presence(&service(&format!("made.up.S{n}"))), Presence::Absent);
    }
    println!("100000 made-up names in {:?}", began.elapsed());
    assert_eq!(n_watches(&etcd), 2, "one a registry");
    assert_eq!(dubbo.activity().subscriptions, 0);

    put("/dubbo/a.Late/providers/not%20a%20URL");
    put(&provider("dubbo://10.0.0.1:20880/a.IFoo?version=2.0"));
    for text in ["a.Late:9", "a.IFoo:2.0"] {
        let found = async {
            while dubbo.presence(&service(text)) != Presence::Offered {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(LONG, found).await.expect(text);
    }
}

/// More keys than one answer holds.
#[tokio::test(flavor = "multi_thread")]
async fn a_long_list_of_services_is_read_whole() {
    let etcd = Etcd::start().unwrap();
    let registry = contest(&etcd);
    let mut client = etcd_client::Client::connect([etcd.client_url()], None).await.unwrap();
    for from in (0..9000).step_by(100) {
        let puts = (from..from + 100)
            .map(|n| etcd_client::TxnOp::put(format!("/dubbomesh/a.S{n}/10.0.0.1:1"), "1", None));
        client.txn(etcd_client::Txn::new().and_then(puts.collect::<Vec<_>>())).await.unwrap();
    }
    for n in [0, 3999, 4000, 8999] {
        assert_eq!(presence(&registry, &format!("a.S{n}")).await, Presence::Offered, "{n}");
    }
    assert_eq!(presence(&registry, "a.S9000").await, Presence::Absent);
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_denied_while_etcd_is_away() {
    let mut etcd = Etcd::start().unwrap();
    let registry = contest(&etcd);
    etcd.etcdctl(&["put", "/dubbomesh/a.IBar/10.0.0.1:1", "1"]).unwrap();
    assert_eq!(presence(&registry, "a.IFoo").await, Presence::Absent);
    etcd.kill9();
    let becomes = async |expected: Presence| {
        let reached = async {
            while registry.presence(&service("a.IFoo")) != expected {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(LONG, reached).await.expect("another answer");
    };
    becomes(Presence::Unknown).await;
    assert_eq!(registry.presence(&service("a.IBar")), Presence::Offered, "as far as is known");
    etcd.restart_keeping_data().unwrap();
    becomes(Presence::Absent).await;
}

/// A document of the configuration is told of at once, whether it is there or not; its changes
/// come by a watch, also those that were made while etcd was away.
#[tokio::test(flavor = "multi_thread")]
async fn rules_are_watched_in_the_configuration() {
    const NAME: &str = "a.B::.condition-router";
    let mut etcd = Etcd::start().unwrap();
    let key = format!("/dubbo/config/dubbo/{NAME}");
    assert!(contest(&etcd).rule(NAME).is_none(), "the contest's layout has none");
    let registry = dubbo(&etcd);
    let rule = registry.rule(NAME).unwrap();
    let mut document = rule.document();
    let mut says = async |wanted: Option<&str>| {
        let is_wanted =
            |document: &RuleDocument| document.is_settled && document.text.as_deref() == wanted;
        let wait = tokio::time::timeout(LONG, document.wait_for(is_wanted)).await;
        assert!(wait.is_ok_and(|found| found.is_ok()), "{wanted:?}");
    };
    says(None).await;
    etcd.etcdctl(&["put", &key, "one"]).unwrap();
    says(Some("one")).await;
    let other = registry.rule(NAME).unwrap();
    assert_eq!(other.document().borrow().text.as_deref(), Some("one"), "they share one watch");
    etcd.kill9();
    etcd.restart_keeping_data().unwrap();
    etcd.etcdctl(&["put", &key, "two"]).unwrap();
    says(Some("two")).await;
    etcd.etcdctl(&["del", &key]).unwrap();
    says(None).await;
}
