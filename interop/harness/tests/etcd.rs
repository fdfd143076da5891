//! The etcd starter against the real server.

use std::time::Duration;

use interop_harness::{Etcd, wait_until};

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
