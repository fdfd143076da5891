//! `dubmesh list` and what `describe` says of services that are not there, on every kind of
//! registry.

use std::fs;
use std::process::Command;

use dubbo_proto::url::encode_key;
use interop_harness::{Etcd, ZooKeeper, free_port};
use serde_json::Value;

const PROVIDER: &str = "dubbo://10.0.0.1:20880/a.Orders?application=orders&group=g&release=3.3.6\
                        &version=1.0&weight=200";
const AGENT: &str = "link://10.0.0.2:30880/a.Orders?for=10.0.0.1:20880&group=g&version=1.0";
const OTHER: &str = "dubbo://10.0.0.3:20880/a.Users";
const TRIPLE: &str = "tri://10.0.0.1:50051/a.Orders?group=g&version=1.0";

/// Exit status, standard output and standard error.
fn dubmesh(args: &[&str]) -> (Option<i32>, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_dubmesh")).args(args).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

/// Where these stand in Dubbo's layout.
fn paths() -> Vec<String> {
    let path = |interface: &str, category: &str, url: &str| {
        format!("/dubbo/{interface}/{category}/{}", encode_key(url))
    };
    vec![
        path("a.Orders", "providers", PROVIDER),
        path("a.Orders", "agents", AGENT),
        path("a.Orders", "providers", TRIPLE),
        path("a.Orders", "consumers", "consumer://10.0.0.9/a.Orders"),
        path("a.Users", "providers", OTHER),
        "/dubbo/a.Users/providers/%zz".to_owned(),
        path("a.Wanted", "consumers", "consumer://10.0.0.9/a.Wanted"),
    ]
}

fn lists_all(registry: &str) {
    let (status, out, err) = dubmesh(&["list", "--registry", registry]);
    assert_eq!((status, &*err), (Some(0), ""), "{out}");
    let expected = "g/a.Orders:1.0\n  \
                    link://10.0.0.2:30880  weight 100  level interface  agent-of 10.0.0.1:20880\n  \
                    dubbo://10.0.0.1:20880  weight 200  level interface  \
                    application orders  dubbo 3.3.6\n  \
                    not used: tri://10.0.0.1:50051 (protocol tri is not supported, only dubbo and \
                    link)\na.Users\n  dubbo://10.0.0.3:20880  weight 100  level interface\n  \
                    not used: ";
    let lines = |text: &str| {
        let mut lines: Vec<_> = text.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    let (before, unreadable) = out.split_at(out.rfind("not used: ").unwrap() + "not used: ".len());
    assert_eq!(lines(before), lines(expected));
    assert!(unreadable.starts_with("/dubbo/a.Users/providers/%zz"), "{out}");

    let (status, out, _) = dubmesh(&["list", "orders", "--registry", registry, "--json"]);
    assert_eq!(status, Some(0));
    let json: Value = serde_json::from_str(&out).unwrap();
    let services = json["services"].as_array().unwrap();
    assert_eq!(services.len(), 1, "{json}");
    assert_eq!(services[0]["service"], "g/a.Orders:1.0");
    assert_eq!(services[0]["endpoints"].as_array().unwrap().len(), 2);
    let (status, out, err) = dubmesh(&["list", "Nobody", "--registry", registry]);
    assert_eq!((status, &*out), (Some(0), ""));
    assert!(err.contains("nothing like \"Nobody\" is registered in"), "{err}");

    // What was asked for is not there, but something like it is.
    for (args, hint) in [
        (&["a.Orders"][..], "it is registered as g/a.Orders:1.0"),
        (&["a.Orders", "--group", "g"], "it is registered as g/a.Orders:1.0"),
        (&["com.acme.Orders"], "did you mean g/a.Orders:1.0?"),
        (&["a.Nothing"], "nothing is registered for its interface"),
    ] {
        let (status, _, err) = dubmesh(&[&["describe"], args, &["--registry", registry]].concat());
        assert_eq!(status, Some(3), "{err}");
        assert!(err.contains(hint), "{args:?}: {err}");
    }
}

#[test]
fn of_etcd() {
    let etcd = Etcd::start().unwrap();
    for path in paths() {
        etcd.etcdctl(&["put", &path, ""]).unwrap();
    }
    lists_all(&format!("etcd://{}", etcd.addr()));
}

#[test]
fn of_zookeeper() {
    let mut zookeeper = ZooKeeper::start().unwrap();
    let mut client = zookeeper.client().unwrap();
    for path in paths() {
        client.create(&path, b"").unwrap();
    }
    client.create("/dubbo/metadata/a.Orders/provider/orders", b"{}").unwrap();
    lists_all(&format!("zookeeper://{}", zookeeper.addr()));
    drop(client);
    zookeeper.kill9();
    let address = zookeeper.addr().to_string();
    let (status, out, err) = dubmesh(&["list", "--registry", &format!("zookeeper://{address}")]);
    assert_eq!((status, &*out), (Some(1), ""));
    assert!(err.contains("cannot be read: ZooKeeper at") && err.contains(&address), "{err}");
}

#[test]
fn of_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("services.toml");
    let text = "[[service]]\ninterface = \"a.B\"\nversion = \"1.0\"\nendpoints = [\n\
                \"dubbo://10.0.0.1:20880?weight=7\", \"tri://10.0.0.1:50051\"]\n";
    fs::write(&path, text).unwrap();
    let (status, out, err) = dubmesh(&["list", "--registry", &format!("file:{}", path.display())]);
    assert_eq!((status, &*err), (Some(0), ""));
    assert!(
        out.starts_with("a.B:1.0\n  dubbo://10.0.0.1:20880  weight 7  level interface\n"),
        "{out}"
    );
    assert!(out.contains("  not used: tri://10.0.0.1:50051 (protocol tri is not"), "{out}");
    let (status, _, err) = dubmesh(&["list", "--registry", "file:/no/such/file.toml"]);
    assert_eq!(status, Some(1), "{err}");
    assert!(
        err.contains("read: cannot read /no/such/file.toml") && err.contains("No such"),
        "{err}"
    );
    assert!(err.ends_with("; check the path of --registry\n"), "{err}");
}

#[test]
fn of_nobody() {
    let url = format!("zookeeper://127.0.0.1:{}", free_port());
    for wrong in [&["list"][..], &["list", "--registry", "redis://h:1"]] {
        assert_eq!(dubmesh(wrong).0, Some(2), "{wrong:?}");
    }
    let said = dubmesh(&["list"]).2;
    assert!(said.contains("<--registry <URL>|--admin <ADDRESS>>"), "{said}");
    let (status, _, err) = dubmesh(&["describe", "a.B", "--registry", &url]);
    assert_eq!(status, Some(1), "{err}");
}
