//! A registry in Kubernetes, against an API server of the test's own.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Instant;

use crate::support::{LONG, service, shows, status_is};
use registry::{Freshness, KubernetesConfig, Registry, RegistryConfig, Subscription};

/// One request that waits for its answer.
pub(crate) struct Asked {
    stream: TcpStream,
    path: String,
    token: Option<String>,
}

/// Takes requests; the test answers them one by one.
pub(crate) struct Api {
    pub(crate) addr: SocketAddr,
    asked: Receiver<Asked>,
}

impl Api {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = listener.local_addr().unwrap();
        let (sender, asked) = channel();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                if read(stream.unwrap(), &sender).is_none() {
                    return;
                }
            }
        });
        Self { addr, asked }
    }

    /// Opens a registry that reads slices only: `a.B` is the Service `orders`.
    pub(crate) fn open(
        &self,
        change: impl FnOnce(&mut KubernetesConfig),
    ) -> (Registry, Subscription) {
        let mut config = KubernetesConfig::new();
        config.server = Some(format!("http://{}", self.addr));
        config.annotations = false;
        config.services = vec![registry::KubernetesService {
            service: service("a.B"),
            namespace: None,
            name: "orders".to_owned(),
            port: None,
        }];
        change(&mut config);
        let registry = Registry::open(RegistryConfig::Kubernetes(config)).unwrap();
        let subscription = registry.subscribe(&service("a.B"));
        (registry, subscription)
    }

    /// The next request, which must hold `part`.
    fn next(&self, part: &str) -> Asked {
        let asked = self.asked.recv_timeout(LONG).expect("no request");
        assert!(asked.path.contains(part), "{} instead of {part}", asked.path);
        asked
    }

    pub(crate) fn list(&self, items: &[String], version: u32) {
        self.next("?limit=").answer("200 OK", &list(items, version));
    }

    /// The next watch, from this version on.
    pub(crate) fn watch(&self, version: u32) -> TcpStream {
        let mut asked = self.next(&format!("resourceVersion={version}&"));
        asked
            .stream
            .write_all(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n")
            .unwrap();
        asked.stream
    }
}

fn read(stream: TcpStream, sender: &Sender<Asked>) -> Option<()> {
    let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
    let path = lines.next()?.ok()?.split(' ').nth(1)?.to_owned();
    let mut token = None;
    for line in lines {
        let line = line.ok()?;
        if line.is_empty() {
            break;
        }
        if let Some(found) = line.strip_prefix("authorization: Bearer ") {
            token = Some(found.to_owned());
        }
    }
    sender.send(Asked { stream, path, token }).ok()
}

impl Asked {
    fn answer(mut self, status: &str, body: &str) {
        let len = body.len();
        let head = format!("HTTP/1.1 {status}\r\ncontent-length: {len}\r\n\r\n");
        self.stream.write_all(head.as_bytes()).unwrap();
        // Who has read enough may have closed.
        let _ = self.stream.write_all(body.as_bytes());
    }
}

fn list(items: &[String], version: u32) -> String {
    let items = items.join(",");
    format!(r#"{{"metadata":{{"resourceVersion":"{version}"}},"items":[{items}]}}"#)
}

pub(crate) fn ready(ip: &str) -> String {
    format!(r#"{{"addresses":["{ip}"],"conditions":{{"ready":true}}}}"#)
}

fn leaving(ip: &str) -> String {
    format!(
        r#"{{"addresses":["{ip}"],"conditions":{{"ready":false,"serving":true,"terminating":true}}}}"#
    )
}

pub(crate) fn slice(name: &str, version: u32, endpoints: &[String]) -> String {
    let endpoints = endpoints.join(",");
    format!(
        r#"{{"metadata":{{"name":"{name}","namespace":"default","resourceVersion":"{version}",
        "labels":{{"kubernetes.io/service-name":"orders"}}}},"ports":[{{"name":"dubbo","port":20880}},
        {{"name":"metrics","port":9090}}],"endpoints":[{endpoints}]}}"#
    )
    .replace('\n', "")
}

fn event(kind: &str, object: &str) -> String {
    format!("{{\"type\":\"{kind}\",\"object\":{object}}}\n")
}

fn bookmark(version: u32) -> String {
    event("BOOKMARK", &format!(r#"{{"metadata":{{"resourceVersion":"{version}"}}}}"#))
}

pub(crate) const A: &str = "dubbo://10.0.0.1:20880";
const B: &str = "dubbo://10.0.0.2:20880";

#[tokio::test(flavor = "multi_thread")]
async fn events_change_the_list_and_a_cut_line_comes_again() {
    let api = Api::start();
    let (_registry, orders) = api.open(|_| {});
    api.list(&[slice("s1", 3, &[ready("10.0.0.1")])], 5);
    let mut watch = api.watch(5);
    shows(&orders, Freshness::Current, &[A]).await;

    let added = event("ADDED", &slice("s2", 6, &[ready("10.0.0.2")]));
    watch.write_all(added.as_bytes()).unwrap();
    shows(&orders, Freshness::Current, &[A, B]).await;

    // One that leaves gets nothing new.
    let left = slice("s1", 7, &[leaving("10.0.0.1")]);
    watch.write_all(event("MODIFIED", &left).as_bytes()).unwrap();
    shows(&orders, Freshness::Current, &[B]).await;

    watch.write_all(bookmark(9).as_bytes()).unwrap();
    let back = event("MODIFIED", &slice("s1", 10, &[ready("10.0.0.1")]));
    watch.write_all(&back.as_bytes()[..back.len() / 2]).unwrap();
    drop(watch);
    let mut watch = api.watch(9);
    watch.write_all(back.as_bytes()).unwrap();
    shows(&orders, Freshness::Current, &[A, B]).await;

    watch.write_all(event("DELETED", &slice("s2", 11, &[])).as_bytes()).unwrap();
    shows(&orders, Freshness::Current, &[A]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_history_is_read_anew_in_both_forms() {
    let api = Api::start();
    let (_registry, orders) = api.open(|_| {});
    api.list(&[slice("s1", 3, &[ready("10.0.0.1")])], 5);
    let mut watch = api.watch(5);
    shows(&orders, Freshness::Current, &[A]).await;
    let gone = event("ERROR", r#"{"kind":"Status","code":410,"message":"too old"}"#);
    watch.write_all(gone.as_bytes()).unwrap();
    api.list(&[slice("s2", 30, &[ready("10.0.0.2")])], 50);
    shows(&orders, Freshness::Current, &[B]).await;
    api.next("resourceVersion=50&").answer("410 Gone", "{}");
    api.list(&[slice("s1", 60, &[ready("10.0.0.1")])], 70);
    shows(&orders, Freshness::Current, &[A]).await;
    drop(api.watch(70));
}

/// A version that the API server does not know, after it was restored, leads to a new list. The
/// same holds if it fails again and again.
#[tokio::test(flavor = "multi_thread")]
async fn a_watch_that_is_refused_for_good_leads_to_a_new_list() {
    let api = Api::start();
    let (_registry, orders) = api.open(|_| {});
    api.list(&[slice("s1", 3, &[ready("10.0.0.1")])], 5);
    let refuse = |version: u32, status: &str, text: &str| {
        let asked = api.next(&format!("resourceVersion={version}&"));
        asked.answer(status, &format!(r#"{{"message":"{text}"}}"#));
    };
    refuse(5, "504 Gateway Timeout", "Too large resource version");
    api.list(&[slice("s1", 1, &[ready("10.0.0.2")])], 2);
    // The list counts at once, although nobody knows yet whether it stays up to date.
    shows(&orders, Freshness::Stale, &[B]).await;
    let watch = api.watch(2);
    shows(&orders, Freshness::Current, &[B]).await;
    drop(watch);
    refuse(2, "400 Bad Request", "invalid resource version");
    api.list(&[slice("s1", 3, &[ready("10.0.0.1")])], 4);
    let watch = api.watch(4);
    shows(&orders, Freshness::Current, &[A]).await;
    drop(watch);
    for _ in 0..3 {
        refuse(4, "500 Internal Server Error", "required revision is a future revision");
    }
    api.list(&[slice("s1", 5, &[ready("10.0.0.2")])], 6);
    let _watch = api.watch(6);
    shows(&orders, Freshness::Current, &[B]).await;
}

/// One lost history is nothing to tell. That it is always lost is.
#[tokio::test(flavor = "multi_thread")]
async fn a_history_that_is_always_gone_is_told() {
    let api = Api::start();
    let (registry, orders) = api.open(|_| {});
    let gone = event("ERROR", r#"{"kind":"Status","code":410,"message":"too old"}"#);
    for version in 1..=3 {
        api.list(&[slice("s1", version, &[ready("10.0.0.1")])], version);
        api.watch(version).write_all(gone.as_bytes()).unwrap();
    }
    status_is(&registry, "the lost history", |status| {
        !status.connected && status.last_error.as_ref().is_some_and(|it| it.contains("410"))
    })
    .await;
    shows(&orders, Freshness::Stale, &[A]).await;
    api.list(&[slice("s1", 4, &[ready("10.0.0.2")])], 4);
    let _watch = api.watch(4);
    shows(&orders, Freshness::Current, &[B]).await;
    status_is(&registry, "the end of it", |status| status.connected).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_are_read_again_and_an_absent_server_keeps_the_list() {
    let api = Api::start();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("token");
    std::fs::write(&path, "old\n").unwrap();
    let (registry, orders) = api.open(|config| config.token_file = Some(path.clone()));
    let asked = api.next("?limit=");
    assert_eq!(asked.token.as_deref(), Some("old"));
    std::fs::write(&path, "new\n").unwrap();
    asked.answer("401 Unauthorized", r#"{"message":"expired"}"#);
    let asked = api.next("?limit=");
    assert_eq!(asked.token.as_deref(), Some("new"));
    asked.answer("200 OK", &list(&[slice("s1", 3, &[ready("10.0.0.1")])], 5));
    drop(api.watch(5));
    shows(&orders, Freshness::Current, &[A]).await;

    let refused = api.next("resourceVersion=5&");
    refused.answer("403 Forbidden", r#"{"message":"user may not watch with Bearer new"}"#);
    shows(&orders, Freshness::Stale, &[A]).await;
    let error = registry.status().borrow().last_error.clone().unwrap();
    assert!(
        error.contains("user may not watch with Bearer ***") && error.contains("Role"),
        "{error}"
    );
    let _watch = api.watch(5);
    shows(&orders, Freshness::Current, &[A]).await;
}

/// Nobody may ever write into a pipe.
#[tokio::test(flavor = "multi_thread")]
async fn a_pipe_in_the_place_of_the_token_is_not_waited_for() {
    let api = Api::start();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("token");
    assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
    let (registry, orders) = api.open(|config| config.token_file = Some(path.clone()));
    status_is(&registry, "what is wrong with the token", |status| {
        let said = status.last_error.as_deref().unwrap_or_default();
        said.contains("token: it is not a regular file")
    })
    .await;
    std::fs::remove_file(&path).unwrap();
    std::fs::write(&path, "good").unwrap();
    api.list(&[slice("s1", 3, &[ready("10.0.0.1")])], 5);
    let _watch = api.watch(5);
    shows(&orders, Freshness::Current, &[A]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn garbage_hides_nothing_else() {
    let api = Api::start();
    let (registry, orders) = api.open(|_| {});
    let huge = format!(r#"{{"metadata":{{"name":7,"x":"{}"}}}}"#, "x".repeat(10 << 20));
    api.list(&[huge.clone(), "null".into(), slice("s1", 3, &[ready("10.0.0.1")])], 5);
    let mut watch = api.watch(5);
    shows(&orders, Freshness::Current, &[A]).await;
    for line in [&*event("ADDED", &huge), "[[[[\n", "\n", "{\"type\":\"NEW\",\"object\":{}}\n"] {
        watch.write_all(line.as_bytes()).unwrap();
    }
    let added = event("ADDED", &slice("s2", 6, &[ready("10.0.0.2")]));
    watch.write_all(added.as_bytes()).unwrap();
    shows(&orders, Freshness::Current, &[A, B]).await;
    assert!(registry.status().borrow().connected);
    assert!(registry.status().borrow().last_error.is_some(), "it is said");
}

/// As many changes as a thousand a second make in ten seconds, as fast as they are read.
#[tokio::test(flavor = "multi_thread")]
async fn a_flood_of_changes_ends_in_the_right_list() {
    const N_CHANGES: u32 = 10_000;
    const N_SLICES: u32 = 20;
    let api = Api::start();
    let (_registry, orders) = api.open(|_| {});
    let of = |n: u32, last: u32, version: u32| {
        slice(&format!("s{n}"), version, &[ready(&format!("10.1.{n}.{last}"))])
    };
    let first: Vec<String> = (0..N_SLICES).map(|n| of(n, 0, 3)).collect();
    api.list(&first, 5);
    let mut watch = api.watch(5);
    let began = Instant::now();
    for n in 0..N_CHANGES {
        let changed = of(n % N_SLICES, n / N_SLICES % 250, 6 + n);
        watch.write_all(event("MODIFIED", &changed).as_bytes()).unwrap();
    }
    let last = (N_CHANGES / N_SLICES - 1) % 250;
    let mut expected: Vec<_> =
        (0..N_SLICES).map(|n| format!("dubbo://10.1.{n}.{last}:20880")).collect();
    expected.sort_unstable();
    let expected: Vec<&str> = expected.iter().map(String::as_str).collect();
    shows(&orders, Freshness::Current, &expected).await;
    println!("{N_CHANGES} changes after {:?}", began.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn five_thousand_endpoints_by_annotation_in_pages() {
    let api = Api::start();
    let (registry, orders) = api.open(|config| {
        config.annotations = true;
        config.services.clear();
    });
    let annotated = r#"{"metadata":{"name":"orders","namespace":"default","resourceVersion":"2",
        "annotations":{"dubmesh.io/services":"a.B, g/a.C:1.0","dubmesh.io/params":"timeout=900"}}}"#;
    let slices: Vec<String> = (0..50)
        .map(|n| {
            let all = (0..100).map(|m| ready(&format!("10.1.{n}.{m}")));
            slice(&format!("s{n}"), 3, &all.collect::<Vec<_>>())
        })
        .collect();
    let began = Instant::now();
    let mut watches = Vec::new();
    while watches.len() < 2 {
        let mut asked = api.next("");
        let body = match &*asked.path {
            path if path.contains("watch=true") => {
                asked.stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").unwrap();
                watches.push(asked.stream);
                continue;
            }
            path if path.contains("/services?") => list(&[annotated.to_owned()], 5),
            path if path.contains("continue=more") => list(&slices[25..], 5),
            _ => {
                let rest = r#"{"continue":"more","resourceVersion""#;
                list(&slices[..25], 5).replace(r#"{"resourceVersion""#, rest)
            }
        };
        asked.answer("200 OK", &body);
    }
    let mut snapshots = orders.snapshots();
    let all = snapshots.wait_for(|snapshot| snapshot.endpoints.len() == 5_000);
    let all = tokio::time::timeout(LONG, all).await.unwrap().unwrap().clone();
    println!("5,000 endpoints after {:?}", began.elapsed());
    assert_eq!(all.endpoints[0].timeout.unwrap().as_millis(), 900);
    let listed = registry.catalogue(|_| true).await.unwrap().services;
    let names: Vec<_> = listed.iter().map(|it| it.service.to_string()).collect();
    assert_eq!(names, ["a.B", "g/a.C:1.0"]);
    assert_eq!(listed[1].endpoints.len(), 5_000);
}
