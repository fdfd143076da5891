use interop_harness::Etcd;

use super::*;

const SOON: Duration = Duration::from_secs(20);

async fn watches(etcd: &Etcd) -> Watches {
    let client = Client::connect([etcd.client_url()], None).await.unwrap();
    Watches::new(client, SOON, Arc::default())
}

fn range(key: &str) -> Range {
    let options = WatchOptions::new().with_prefix().with_fragment();
    Range { key: key.to_owned(), options }
}

fn put(etcd: &Etcd, key: &str) {
    etcd.etcdctl(&["put", key, "x"]).unwrap();
}

/// The keys of the next changes, until there are as many.
async fn keys(watch: &mut OpenWatch, n: usize) -> Vec<String> {
    let mut keys = Vec::new();
    while keys.len() < n {
        let message = timeout(SOON, watch.message()).await.expect("a message").unwrap();
        let kvs = message.events().iter().filter_map(etcd_client::Event::kv);
        keys.extend(kvs.map(|kv| kv.key_str().unwrap().to_owned()));
    }
    keys
}

const STREAMS: &str = "etcd_debugging_mvcc_watch_stream_total";
const WATCHES: &str = "etcd_debugging_mvcc_watcher_total";

async fn wait_for(etcd: &Etcd, figure: &str, expected: u64) {
    let by = Instant::now() + SOON;
    while etcd.metric(figure) != Some(expected) {
        assert!(Instant::now() < by, "{figure} is {:?}", etcd.metric(figure));
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn many_watches_take_one_stream_and_end_with_those_who_want_them() {
    let etcd = Etcd::start().unwrap();
    let watches = watches(&etcd).await;
    let opened = (0..300).map(|n| watches.open(vec![range(&format!("/a/{n}/")), range("/b/")]));
    let mut opened = futures_util::future::join_all(opened).await;
    wait_for(&etcd, STREAMS, 1).await;
    wait_for(&etcd, WATCHES, 600).await;
    for key in ["/a/7/x", "/a/70/x", "/b/x", "/c/x", "/b/y"] {
        put(&etcd, key);
    }
    for (n, watch) in opened.iter_mut().enumerate() {
        let watch = watch.as_mut().unwrap();
        let expected: &[&str] = match n {
            7 => &["/a/7/x", "/b/x", "/b/y"],
            70 => &["/a/70/x", "/b/x", "/b/y"],
            _ => &["/b/x", "/b/y"],
        };
        assert_eq!(keys(watch, expected.len()).await, expected);
    }
    opened.truncate(1);
    wait_for(&etcd, WATCHES, 2).await;
    drop(watches);
    put(&etcd, "/b/z");
    assert_eq!(keys(opened[0].as_mut().unwrap(), 1).await, ["/b/z"]);
    opened.clear();
    wait_for(&etcd, STREAMS, 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_takes_nothing_has_to_read_again_and_holds_up_nobody() {
    let etcd = Etcd::start().unwrap();
    let watches = watches(&etcd).await;
    let mut lazy = watches.open(vec![range("/a/")]).await.unwrap();
    let mut busy = watches.open(vec![range("/a/")]).await.unwrap();
    let all: Vec<_> = (0..QUEUE_LEN + 2).map(|n| format!("/a/{n}")).collect();
    all.iter().for_each(|key| put(&etcd, key));
    assert_eq!(keys(&mut busy, all.len()).await, all);
    assert_eq!(keys(&mut lazy, QUEUE_LEN).await, all[..QUEUE_LEN]);
    assert!(matches!(lazy.message().await, Err(EtcdError::Compacted)));
    wait_for(&etcd, WATCHES, 1).await;
}

/// A refusal may be the stream's, so that another one is tried. None of them piles up.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_refused_leaves_the_others_alone_and_no_streams_behind() {
    let mut etcd = Etcd::start().unwrap();
    for args in [
        &["role", "add", "some"][..],
        &["role", "grant-permission", "some", "--prefix=true", "read", "/a/"],
        &["user", "add", "agent:pw"],
        &["user", "grant-role", "agent", "some"],
    ] {
        etcd.etcdctl(args).unwrap();
    }
    etcd.enable_auth("secret").unwrap();
    let options = etcd_client::ConnectOptions::new().with_user("agent", "pw");
    let client = Client::connect([etcd.client_url()], Some(options)).await.unwrap();
    let watches = Watches::new(client, SOON, Arc::default());
    let mut allowed = watches.open(vec![range("/a/")]).await.unwrap();
    for _ in 0..5 {
        let refused = watches.open(vec![range("/a/"), range("/b/")]).await;
        let reason = refused.expect_err("it may not be read").to_string();
        assert!(reason.contains("permission denied"), "{reason}");
    }
    let mut other = watches.open(vec![range("/a/")]).await.unwrap();
    wait_for(&etcd, WATCHES, 2).await;
    wait_for(&etcd, STREAMS, 2).await;
    put(&etcd, "/a/x");
    for watch in [&mut allowed, &mut other] {
        assert_eq!(keys(watch, 1).await, ["/a/x"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn all_are_told_why_nothing_more_comes() {
    let etcd = Etcd::start().unwrap();
    let watches = watches(&etcd).await;
    let mut one = watches.open(vec![range("/a/")]).await.unwrap();
    let mut other = watches.open(vec![range("/b/")]).await.unwrap();
    drop(etcd);
    for watch in [&mut one, &mut other] {
        let ended = timeout(SOON, watch.message()).await.expect("its end");
        assert!(matches!(ended, Err(EtcdError::Ended { .. })), "{ended:?}");
    }
    let after = timeout(2 * SOON, watches.open(vec![range("/a/")])).await.expect("an end");
    assert!(matches!(after, Err(EtcdError::Ended { .. })), "{after:?}");
}
