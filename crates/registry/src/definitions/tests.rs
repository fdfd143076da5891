use std::io::{Read, Write};
use std::net::TcpListener;

use interop_harness::{Etcd, ZooKeeper};

use super::*;
use crate::{
    Endpoint, EtcdConfig, Layout, MemoryHub, Protocol, Registered, Registration, Registry,
    RegistryConfig, ZooKeeperConfig,
};

fn document(interface: &str, parameters: &str, method: &str) -> String {
    format!(
        r#"{{"canonicalName":"{interface}","parameters":{parameters},
        "methods":[{{"name":"{method}","parameterTypes":["int"],"returnType":"void"}}]}}"#
    )
}

fn method_of(lookup: &Lookup) -> String {
    let found = lookup.found().unwrap_or_else(|| panic!("{lookup:?}"));
    found.service.methods[0].to_string()
}

/// A service about which the registry knows nothing.
struct Unknown;

impl DefinitionInputs for Unknown {
    fn snapshots(&self) -> watch::Receiver<Snapshot> {
        watch::channel(Snapshot::default()).1
    }

    fn reported(&self) -> PendingDocuments<'_> {
        Box::pin(async { Ok(Vec::new()) })
    }
}

#[tokio::test]
async fn what_a_folder_had_stays_while_it_cannot_be_read() {
    let place = tempfile::tempdir().unwrap();
    std::fs::write(place.path().join("a.B.json"), document("a.B", "{}", "plain")).unwrap();
    let seeker = || Seeker {
        folder: Some(DocumentFolder::new(place.path().to_owned())),
        asks_providers: false,
        watched: Box::new(Unknown),
        service: "a.B".parse().unwrap(),
        sender: watch::channel(Lookup::Pending).0,
        suspected: Arc::default(),
        total_len: Arc::default(),
        counts: Arc::default(),
        said: Warnings::default(),
        said_away: None,
        refused: None,
    };
    let (mut had_it, mut had_nothing) = (seeker(), seeker());
    let found = had_it.look().await.unwrap();
    had_it.publish(found);
    std::fs::remove_dir_all(place.path()).unwrap();
    assert!(had_it.look().await.is_err());
    // The other sources are asked.
    assert!(had_nothing.look().await.unwrap().is_none());
}

fn memory(hub: &MemoryHub, folder: Option<PathBuf>) -> Registry {
    let sources = DefinitionSources { folder, ..DefinitionSources::default() };
    Registry::open_with(RegistryConfig::Memory(hub.clone()), sources).unwrap()
}

fn offer(registry: &Registry, addr: std::net::SocketAddr) -> Registered {
    let endpoint = Endpoint::new(Protocol::Dubbo, &addr.ip().to_string(), addr.port());
    let service = "a.B".parse().unwrap();
    let registration = Registration { service, endpoint, methods: Vec::new(), app_address: None };
    registry.register(&registration).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_folder_has_documents_of_several_variants() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    write("a.B.json", &document("a.B", "{}", "plain"));
    write("a.B@blue.json", &document("a.B", r#"{"group":"blue","version":"2.0"}"#, "blue"));
    write("a.B@broken.json", "{");
    write("a.B@long.json", &" ".repeat(3 << 20));
    write("a.B2.json", &document("a.B2", "{}", "other"));
    write("a.C.json", &document("a.D", "{}", "lost"));
    let registry = memory(&MemoryHub::new(), Some(folder.path().to_owned()));
    for (service, method) in
        [("a.B", "plain(int)"), ("blue/a.B:2.0", "blue(int)"), ("a.B2", "other(int)")]
    {
        let mut watch = registry.definition(&service.parse().unwrap());
        assert_eq!(method_of(&watch.settled().await), method);
    }
    for service in ["blue/a.B", "a.B:2.0", "a.C", "a.D", "a.X"] {
        let mut watch = registry.definition(&service.parse().unwrap());
        assert!(matches!(watch.settled().await, Lookup::Missing), "{service}");
    }
    // What is written later is found when somebody has reason to ask for it.
    let mut watch = registry.definition(&"a.B".parse().unwrap());
    let _ = watch.settled().await;
    write("a.B.json", &document("a.B", "{}", "changed"));
    watch.suspect();
    watch.lookups.wait_for(|lookup| method_of(lookup) == "changed(int)").await.unwrap();
    drop(watch);
    // Nobody looks any more.
    while registry.activity().subscriptions != 0 {
        tokio::task::yield_now().await;
    }
}

/// A service that is offered here, and of which a folder has a definition: others find it in the
/// report, also after its provider has gone.
async fn is_written_for_others(config: RegistryConfig) {
    let folder = tempfile::tempdir().unwrap();
    let text = document("a.New", r#"{"group":"g","version":"2.0"}"#, "told");
    std::fs::write(folder.path().join("a.New.json"), text).unwrap();
    let sources = DefinitionSources {
        folder: Some(folder.path().to_owned()),
        ..DefinitionSources::default()
    };
    let provider = Registry::open_with(config.clone(), sources).unwrap();
    let mut endpoint = Endpoint::new(Protocol::Link, "10.0.0.1", 1);
    endpoint.params = [("application", "orders")].into();
    let service: ServiceKey = "g/a.New:2.0".parse().unwrap();
    let methods = vec!["told".to_owned()];
    let registration =
        Registration { service: service.clone(), endpoint, methods, app_address: None };
    let registered = provider.register(&registration).unwrap();
    let reader = Registry::open(config).unwrap();
    let is_there = async {
        while reader.documents("a.New").await.is_ok_and(|found| found.is_empty()) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(40), is_there).await.expect("a document");
    registered.withdraw().await.unwrap();
    drop(provider);
    let lookup = reader.definition(&service).settled().await;
    assert_eq!(method_of(&lookup), "told(int)");
    let origin = lookup.found().unwrap().origin.to_string();
    assert_eq!(origin, "metadata report /dubbo/metadata/a.New/2.0/g/provider/orders");
}

#[tokio::test(flavor = "multi_thread")]
async fn etcd_holds_reports_and_broken_ones_are_skipped() {
    let etcd = Etcd::start().unwrap();
    let put = |key: &str, text: &str| etcd.etcdctl(&["put", key, text]).unwrap();
    let base = "/dubbo/metadata/a.B";
    put(&format!("{base}/consumer/app"), "{}");
    put(&format!("{base}/provider/old"), &document("a.B", "{}", "old"));
    put(&format!("{base}/provider/new"), &document("a.B", r#"{"version":"0.0.0"}"#, "newest"));
    put(&format!("{base}/1.0/provider/app"), &document("a.B", r#"{"version":"1.0"}"#, "one"));
    put(&format!("{base}/provider/broken"), "{{");
    put("/dubbo/metadata/a.B2/provider/app", &document("a.B2", "{}", "other"));
    let config = EtcdConfig::new([etcd.client_url()], Layout::dubbo());
    let config = RegistryConfig::Etcd(config);
    let registry = Registry::open(config.clone()).unwrap();
    for (service, method) in
        [("a.B", "newest(int)"), ("a.B:1.0", "one(int)"), ("a.B2", "other(int)")]
    {
        let mut watch = registry.definition(&service.parse().unwrap());
        let lookup = watch.settled().await;
        assert_eq!(method_of(&lookup), method);
        let origin = lookup.found().unwrap().origin.to_string();
        assert!(origin.starts_with("metadata report /dubbo/metadata/a.B"), "{origin}");
    }
    let mut missing = registry.definition(&"g/a.B".parse().unwrap());
    assert!(matches!(missing.settled().await, Lookup::Missing));
    is_written_for_others(config).await;
}

/// Documents that are longer together than an answer may be, and one that is older than what many
/// consumers write.
#[tokio::test(flavor = "multi_thread")]
async fn long_documents_in_etcd_take_no_other_ones_away() {
    let etcd = Etcd::start().unwrap();
    let options = etcd_client::ConnectOptions::new();
    let mut client =
        etcd_client::Client::connect([etcd.client_url()], Some(options)).await.unwrap();
    let mut put = async |place: &str, text: String| {
        client.put(format!("/dubbo/metadata/{place}"), text, None).await.unwrap();
    };
    put("a.Old/provider/app", document("a.Old", "{}", "old")).await;
    for n in 0..100 {
        put(&format!("a.Old/consumer/app{n}"), "{}".to_owned()).await;
    }
    put("a.B/provider/old", document("a.B", "{}", "old")).await;
    put("a.B/provider/good", document("a.B", "{}", "good")).await;
    for n in 0..13 {
        let pad = format!(r#"{{"version":"{n}","pad":"{}"}}"#, "x".repeat(1_400_000));
        put(&format!("a.B/{n}/provider/app"), document("a.B", &pad, "long")).await;
    }
    put("a.B/provider/new", document("a.B", "{}", "new")).await;
    // Keys that are longer together than an answer may be.
    put("a.Key/provider/good", document("a.Key", "{}", "good")).await;
    for n in 0..20 {
        put(&format!("a.Key/{n}{}/provider/app", "x".repeat(1_400_000)), "{}".to_owned()).await;
    }
    let config = EtcdConfig::new([etcd.client_url()], Layout::dubbo());
    let registry = Registry::open(RegistryConfig::Etcd(config)).unwrap();
    for (service, method) in [
        ("a.Old", "old(int)"),
        ("a.B", "new(int)"),
        ("a.B:12", "long(int)"),
        ("a.Key", "good(int)"),
    ] {
        let mut watch = registry.definition(&service.parse().unwrap());
        assert_eq!(method_of(&watch.settled().await), method);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn zookeeper_holds_reports_and_broken_ones_are_skipped() {
    let zookeeper = ZooKeeper::start().unwrap();
    let mut client = zookeeper.client().unwrap();
    let base = "/dubbo/metadata/a.B";
    let long = "x".repeat(900_000);
    for (path, text) in [
        ("consumer/app", "{}".to_owned()),
        ("provider/old", document("a.B", "{}", "old")),
        ("provider/new", document("a.B", r#"{"version":"0.0.0"}"#, "newest")),
        ("1.0/provider/app", document("a.B", r#"{"version":"1.0"}"#, "one")),
        ("1.0/g/provider/app", document("a.B", r#"{"version":"1.0","group":"g"}"#, "blue")),
        ("provider/broken", "{{".to_owned()),
        ("provider/long", long),
        ("a/b/c/d/provider/deep", document("a.B", "{}", "deep")),
    ] {
        client.create(&format!("{base}/{path}"), text.as_bytes()).unwrap();
    }
    let config = ZooKeeperConfig::new([zookeeper.addr().to_string()]);
    let config = RegistryConfig::ZooKeeper(config);
    let registry = Registry::open(config.clone()).unwrap();
    for (service, method) in
        [("a.B", "newest(int)"), ("a.B:1.0", "one(int)"), ("g/a.B:1.0", "blue(int)")]
    {
        let mut watch = registry.definition(&service.parse().unwrap());
        let lookup = watch.settled().await;
        assert_eq!(method_of(&lookup), method);
        let origin = lookup.found().unwrap().origin.to_string();
        assert!(origin.starts_with("metadata report /dubbo/metadata/a.B"), "{origin}");
    }
    let mut missing = registry.definition(&"g/a.B".parse().unwrap());
    assert!(matches!(missing.settled().await, Lookup::Missing));
    is_written_for_others(config).await;
}

/// A provider that answers one line of telnet per connection.
fn telnet_provider(answer: &'static str) -> std::net::SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut line = [0; 64];
            let len = stream.read(&mut line).unwrap();
            assert_eq!(&line[..len], b"ls -l a.B\r\n");
            stream.write_all(answer.as_bytes()).unwrap();
        }
    });
    addr
}

#[tokio::test(flavor = "multi_thread")]
async fn providers_of_dubbo_2_are_asked() {
    let registry = memory(&MemoryHub::new(), None);
    let deaf =
        offer(&registry, telnet_provider("Command: ls disabled for security reasons\r\ndubbo>"));
    let mut watch = registry.definition(&"a.B".parse().unwrap());
    assert!(matches!(watch.settled().await, Lookup::Missing));
    // Another provider may tell more, and is asked as soon as it is there.
    let addr = telnet_provider("int add(int,int)\r\ndubbo>");
    let _tells = offer(&registry, addr);
    drop(deaf);
    watch.lookups.wait_for(|lookup| lookup.found().is_some()).await.unwrap();
    let lookup = watch.current();
    assert_eq!(method_of(&lookup), "add(int, int)");
    assert_eq!(lookup.found().unwrap().origin, DefinitionOrigin::Provider(addr.to_string()));
}
