//! The ZooKeeper starter against the real server, and our codec against Java's client.

use interop_harness::{ZooKeeper, ZooKeeperOptions, ZooKeeperVersion};

#[test]
fn keeps_its_data_over_a_kill_and_forgets_them_on_demand() {
    for version in ZooKeeperVersion::ALL {
        let options = ZooKeeperOptions { version, ..ZooKeeperOptions::default() };
        let mut zookeeper = ZooKeeper::start_with(options).unwrap();
        let mut client = zookeeper.client().unwrap();
        client.create("/a/one", b"1").unwrap();
        client.create_all(&["/a/two"], true).unwrap();
        assert_eq!(client.children("/a").unwrap(), ["one", "two"]);
        let stat = client.stat("/a/two").unwrap().expect("a node");
        assert_eq!(stat.owner, client.session_id());

        // Java's client sees the same, and writes what ours reads.
        let listed = zookeeper.java_client(&["ls", "/a"]).unwrap();
        assert!(listed.contains("[one, two]"), "{version:?} {listed}");
        zookeeper.java_client(&["create", "/b", "x"]).unwrap();
        assert!(client.stat("/b").unwrap().is_some());
        client.delete("/b").unwrap();
        drop(client);

        zookeeper.restart_keeping_data().unwrap();
        assert_eq!(zookeeper.client().unwrap().children("/a").unwrap(), ["one"]);
        zookeeper.restart_empty().unwrap();
        let none: [&str; 0] = [];
        assert_eq!(zookeeper.client().unwrap().children("/a").unwrap(), none);
    }
}
