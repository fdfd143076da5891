//! What the tests of this crate share: waiting for conditions, and short forms.

#![allow(dead_code, reason = "each test binary uses a part of it")]

pub(crate) mod etcd;
pub(crate) mod nacos;
pub(crate) mod proxy;
pub(crate) mod zookeeper;

use std::fs;
use std::path::Path;
use std::time::Duration;

use dubbo_proto::ServiceKey;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use registry::{
    Endpoint, Freshness, Protocol, Registration, Registry, RegistryStatus, RuleDocument,
    RuleSubscription, Subscription,
};
use tokio::time::timeout;

/// Far above what anything here takes, on a machine that is busy building.
pub(crate) const LONG: Duration = Duration::from_secs(40);

/// Writes an authority, a certificate of it for a server at 127.0.0.1 and one for a
/// client into `folder`.
pub(crate) fn make_certificates(folder: &Path) {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let ca = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    fs::write(folder.join("ca.pem"), ca.pem()).unwrap();
    for (name, host) in [("server", "127.0.0.1"), ("client", "agent.test")] {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new([host.to_owned()]).unwrap();
        let (certificate, key) = (params.signed_by(&key, &ca).unwrap().pem(), key.serialize_pem());
        fs::write(folder.join(format!("{name}.pem")), &certificate).unwrap();
        fs::write(folder.join(format!("{name}.key")), &key).unwrap();
        fs::write(folder.join(format!("{name}-both.pem")), key + &certificate).unwrap();
    }
}

pub(crate) fn service(text: &str) -> ServiceKey {
    text.parse().unwrap()
}

pub(crate) fn link(port: u16) -> Endpoint {
    Endpoint::new(Protocol::Link, "10.0.0.1", port)
}

pub(crate) fn registration(text: &str, endpoint: Endpoint) -> Registration {
    Registration { service: service(text), endpoint, methods: Vec::new(), app_address: None }
}

/// Waits until the list is exactly `expected` and has that status.
pub(crate) async fn shows(subscription: &Subscription, status: Freshness, expected: &[&str]) {
    let mut snapshots = subscription.snapshots();
    let list = |endpoints: &[Endpoint]| -> Vec<String> {
        endpoints.iter().map(|endpoint| endpoint.key().to_string()).collect()
    };
    let wait = snapshots
        .wait_for(|snapshot| snapshot.status == status && list(&snapshot.endpoints) == expected);
    let arrived = timeout(LONG, wait).await.is_ok();
    assert!(
        arrived,
        "waited in vain for {status:?} {expected:?}, got {:?} {:?}",
        subscription.current().status,
        list(&subscription.current().endpoints),
    );
}

/// Waits until a document is as it should be.
pub(crate) async fn rule_says(rule: &RuleSubscription, is_so: impl Fn(&RuleDocument) -> bool) {
    let mut document = rule.document();
    let found = timeout(LONG, document.wait_for(|document| is_so(document))).await;
    let shown = rule.document().borrow().clone();
    assert!(found.is_ok_and(|found| found.is_ok()), "{shown:?}");
}

/// Waits until the registry's own status is as asked for.
pub(crate) async fn status_is(
    registry: &Registry,
    what: &str,
    is: impl FnMut(&RegistryStatus) -> bool,
) {
    let mut status = registry.status();
    let arrived = timeout(LONG, status.wait_for(is)).await.is_ok();
    assert!(arrived, "waited in vain for {what}, got {:?}", *registry.status().borrow());
}
