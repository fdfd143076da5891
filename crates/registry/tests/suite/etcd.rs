//! The etcd registry against a real etcd: what is read and written.

use dubbo_proto::url::encode_key;
use interop_harness::Etcd;
use registry::{Freshness, Layout, Presence, RegistrySecret, RuleDocument};
use tokio::time::timeout;

use crate::support::etcd::*;
use crate::support::{LONG, link, registration, service, shows, status_is};

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

/// How many leases etcd has.
fn n_leases(etcd: &Etcd) -> usize {
    let listed = etcd.etcdctl(&["lease", "list", "-w", "json"]).unwrap();
    listed.matches("\"id\":").count()
}

#[tokio::test(flavor = "multi_thread")]
async fn no_lease_outlives_a_registry_that_is_closed() {
    let etcd = Etcd::start().unwrap();
    let registry = contest(&etcd);
    let registered = registry.register(&registration("a.IFoo", link(1))).unwrap();
    registered.established().await;
    registered.withdraw().await.unwrap();
    assert_eq!(n_leases(&etcd), 1, "the next registration would hang on it");
    timeout(LONG, registry.close()).await.unwrap();
    assert_eq!(n_leases(&etcd), 0);
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

/// An agent is listed in place of its app, and shows what the app registers anew.
#[tokio::test(flavor = "multi_thread")]
async fn an_agents_entry_follows_its_app() {
    let etcd = Etcd::start().unwrap();
    let registry = dubbo(&etcd);
    let subscription = registry.subscribe(&service("a.B"));
    let mut agent = registration("a.B", link(1));
    agent.app_address = Some("10.0.0.1:20880".into());
    let _agent = registry.register(&agent).unwrap();
    shows(&subscription, Freshness::Current, &[HERE]).await;
    let key = |threads: u32| {
        let url = format!("dubbo://10.0.0.1:20880/a.B?interface=a.B&threads={threads}");
        format!("/dubbo/a.B/providers/{}", encode_key(&url))
    };
    let becomes = async |threads: Option<u32>| {
        let mut snapshots = subscription.snapshots();
        let seen = async {
            while snapshots.borrow_and_update().endpoints[0].threads != threads {
                snapshots.changed().await.unwrap();
            }
        };
        timeout(LONG, seen).await.unwrap_or_else(|_| panic!("{threads:?} threads"));
        let endpoints = subscription.current().endpoints.clone();
        assert_eq!((endpoints.len(), endpoints[0].provider()), (1, ("10.0.0.1", 20880)));
    };
    for threads in [6, 2, 9] {
        etcd.etcdctl(&["put", &key(threads), "x"]).unwrap();
        becomes(Some(threads)).await;
        etcd.etcdctl(&["del", &key(threads)]).unwrap();
        becomes(None).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn user_and_password() {
    let mut etcd = Etcd::start().unwrap();
    etcd.enable_auth("secret").unwrap();
    let with = |user: Option<(&str, &str)>| {
        let mut config = config(&etcd.client_url(), Layout::contest());
        config.user = user.map(|(user, _)| user.to_owned());
        config.password = user.map(|(_, password)| password.into());
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

/// A password that is changed while an agent runs is read for the next connection.
#[tokio::test(flavor = "multi_thread")]
async fn a_password_file_is_read_again() {
    let mut etcd = Etcd::start().unwrap();
    etcd.enable_auth("secret").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("password");
    std::fs::write(&path, "wrong\n").unwrap();
    let mut config = config(&etcd.client_url(), Layout::contest());
    (config.user, config.password) = (Some("root".into()), Some(RegistrySecret::of_file(&path)));
    let registry = open(config);
    status_is(&registry, "the refusal", |status| {
        let refused = |error: &String| error.contains("authentication failed");
        status.last_error.as_ref().is_some_and(refused)
    })
    .await;
    std::fs::write(&path, "secret\n").unwrap();
    status_is(&registry, "a connection", |status| status.connected).await;
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
    // What is wrong with a document is said once, whoever reads it, and again if it comes back.
    assert!(rule.is_news(Some("line 1")) && !other.is_news(Some("line 1")));
    assert!(other.is_news(Some("line 2")) && !other.is_news(None) && rule.is_news(Some("line 2")));
    etcd.kill9();
    etcd.restart_keeping_data().unwrap();
    etcd.etcdctl(&["put", &key, "two"]).unwrap();
    says(Some("two")).await;
    etcd.etcdctl(&["del", &key]).unwrap();
    says(None).await;
}
