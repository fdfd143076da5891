//! The etcd starter against the real server.

use std::path::{Path, PathBuf};
use std::time::Duration;

use interop_harness::{Etcd, EtcdOptions, EtcdTls, wait_until};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};

#[test]
fn keeps_its_data_over_a_kill_and_forgets_them_on_demand() {
    let mut etcd = Etcd::start().unwrap();
    let url = etcd.client_url();
    etcd.etcdctl(&["put", "/a/one", "1"]).unwrap();
    etcd.etcdctl(&["put", "/b/two", "2"]).unwrap();
    assert_eq!(etcd.keys("/a").unwrap(), ["/a/one"]);

    etcd.kill9();
    assert_eq!(etcd.pid(), None);
    etcd.restart_keeping_data().unwrap();
    assert_eq!(etcd.keys("/").unwrap(), ["/a/one", "/b/two"]);

    etcd.restart_empty().unwrap();
    assert_eq!(etcd.keys("/").unwrap(), Vec::<String>::new());
    assert_eq!(etcd.client_url(), url);
}

#[test]
fn leases_of_one_second_end() {
    let etcd = Etcd::start().unwrap();
    let granted = etcd.etcdctl(&["lease", "grant", "1"]).unwrap();
    let lease = granted.split_whitespace().nth(1).expect("lease ID granted with ..");
    etcd.etcdctl(&["put", "--lease", lease, "/leased", "x"]).unwrap();
    assert_eq!(etcd.keys("/").unwrap(), ["/leased"]);
    wait_until("the lease's end", Duration::from_secs(20), || etcd.keys("/").unwrap().is_empty());
}

#[test]
fn authentication_refuses_strangers() {
    let mut etcd = Etcd::start().unwrap();
    etcd.enable_auth("secret").unwrap();
    etcd.etcdctl(&["put", "/a", "1"]).unwrap();
    let error = etcd.etcdctl(&["--user=root:wrong", "get", "/a"]).unwrap_err().to_string();
    assert!(error.contains("authentication failed"), "{error}");
}

#[test]
fn tls_refuses_clients_without_a_certificate() {
    let dir = tempfile::tempdir().unwrap();
    let mut ca_params = CertificateParams::new(Vec::new()).unwrap();
    ca_params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let ca = CertifiedIssuer::self_signed(ca_params, KeyPair::generate().unwrap()).unwrap();
    let ca_file = dir.path().join("ca.pem");
    std::fs::write(&ca_file, ca.pem()).unwrap();
    let (cert_file, key_file) = issue(dir.path(), "127.0.0.1", &ca);
    let mut tls = EtcdTls {
        cert_file,
        key_file,
        ca_file,
        require_client_cert: true,
        client_cert: Some(issue(dir.path(), "client", &ca)),
    };

    let etcd = Etcd::start_with(EtcdOptions { tls: Some(tls.clone()), ..EtcdOptions::default() });
    let etcd = etcd.unwrap();
    assert!(etcd.client_url().starts_with("https://127.0.0.1:"));
    etcd.etcdctl(&["put", "/a", "1"]).unwrap();

    tls.client_cert = None;
    let etcd = Etcd::start_with(EtcdOptions { tls: Some(tls), ..EtcdOptions::default() }).unwrap();
    etcd.etcdctl(&["--command-timeout=2s", "put", "/a", "1"]).unwrap_err();
}

/// Writes a certificate for `name` and its key to files, and returns their paths.
fn issue(dir: &Path, name: &str, ca: &CertifiedIssuer<'_, KeyPair>) -> (PathBuf, PathBuf) {
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
    let cert = params.signed_by(&key, ca).unwrap();
    let (cert_file, key_file) =
        (dir.join(format!("{name}.pem")), dir.join(format!("{name}.key.pem")));
    std::fs::write(&cert_file, cert.pem()).unwrap();
    std::fs::write(&key_file, key.serialize_pem()).unwrap();
    (cert_file, key_file)
}
