//! What the etcd registry knows of names that may be made up, against a real etcd.

use std::time::Duration;

use dubbo_proto::url::encode_key;
use interop_harness::Etcd;
use registry::Presence;

use crate::support::etcd::*;
use crate::support::{LONG, service};

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
