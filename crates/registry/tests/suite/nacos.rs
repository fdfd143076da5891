//! The Nacos registry against a server of these tests.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::time::Duration;

use dubbo_proto::application::{Metadata, Storage};
use registry::{
    Catalogue, DefinitionSources, Freshness, Level, NacosConfig, Presence, RegisterMode, Registry,
    RegistryConfig, RegistrySecret,
};
use serde_json::json;
use tokio::time::timeout;

use crate::support::nacos::{Nacos, grouped};
use crate::support::{LONG, link, registration, rule_says, service, shows, status_is};

const PROVIDERS: &str = "providers:a.B:1.0:g";
const AGENTS: &str = "agents:a.B:1.0:g";

fn open(config: NacosConfig) -> Registry {
    Registry::open(RegistryConfig::Nacos(config)).unwrap()
}

async fn until(what: &str, mut is: impl FnMut() -> bool) {
    let wait = async {
        while !is() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    assert!(timeout(LONG, wait).await.is_ok(), "waited in vain for {what}");
}

/// More instances than are read: that some are missing shows, and ends with the long list.
#[tokio::test(flavor = "multi_thread")]
async fn a_list_that_is_cut_counts_what_is_missing() {
    let nacos = Nacos::start().await;
    let registry = open(nacos.config());
    let _subscription = registry.subscribe(&service("g/a.B:1.0"));
    let list = |n: usize| -> serde_json::Value {
        (0..n).map(|n| json!({"ip": format!("10.0.{}.{}", n / 250, n % 250), "port": 1})).collect()
    };
    nacos.set(PROVIDERS, &list(nacos_proto::MAX_HOSTS + 3));
    until("what is cut", || registry.activity().left_out == 3).await;
    nacos.set(PROVIDERS, &list(1));
    until("the short list", || registry.activity().left_out == 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn finds_registers_and_withdraws_end_to_end() {
    for negotiates in [false, true] {
        let nacos = Nacos::start().await;
        nacos.state().negotiates = negotiates;
        let registry = open(nacos.config());
        let subscription = registry.subscribe(&service("g/a.B:1.0"));
        shows(&subscription, Freshness::Current, &[]).await;
        let java = json!({"ip": "10.0.0.1", "port": 20880, "weight": 2.0,
            "metadata": {"protocol": "dubbo", "path": "a.B", "version": "1.0", "group": "g"}});
        // What nobody can read hides nothing else.
        nacos.set(PROVIDERS, &json!([{"ip": 7}, "x", java, {"ip": "h", "port": 99999}]));
        shows(&subscription, Freshness::Current, &["dubbo://10.0.0.1:20880"]).await;
        assert_eq!(subscription.current().endpoints[0].weight, 200);

        let mut agent = registration("g/a.B:1.0", link(1));
        agent.app_address = Some("10.0.0.1:20880".into());
        agent.methods = vec!["m".repeat(2000)];
        let agent = registry.register(&agent).unwrap();
        shows(&subscription, Freshness::Current, &["link://10.0.0.1:1"]).await;
        agent.established().await;
        assert_eq!(nacos.state().instances(&grouped(AGENTS)).len(), 1);
        agent.withdraw().await.unwrap();
        assert!(nacos.state().instances(&grouped(AGENTS)).is_empty());
        shows(&subscription, Freshness::Current, &["dubbo://10.0.0.1:20880"]).await;
        nacos.set(PROVIDERS, &json!([]));
        shows(&subscription, Freshness::Current, &[]).await;
        assert!(nacos.state().refused.is_empty());
        until("answers to all pushes", || nacos.state().n_unanswered() == 0).await;
    }
}

/// It takes the list of all names, as Nacos tells nobody of other versions.
#[tokio::test(flavor = "multi_thread")]
async fn another_version_or_group_is_named() {
    let nacos = Nacos::start().await;
    nacos.set(PROVIDERS, &json!([{"ip": "10.0.0.9", "port": 1}]));
    let registry = open(nacos.config());
    let subscription = registry.subscribe(&service("a.B:2.0"));
    shows(&subscription, Freshness::Current, &[]).await;
    let unused = subscription.current().unused;
    let text = registry::why_nobody(&service("a.B:2.0"), "nacos", &unused);
    assert!(text.ends_with("did you mean g/a.B:1.0?"), "{text}");
    until("a count", || registry.activity().unused == unused.len()).await;
    nacos.set("providers:a.B:2.0:", &json!([{"ip": "10.0.0.9", "port": 1}]));
    shows(&subscription, Freshness::Current, &["dubbo://10.0.0.9:1"]).await;
    assert!(subscription.current().unused.is_empty());
    until("nothing to count", || registry.activity().unused == 0).await;
}

/// The server would keep the last one alone.
#[tokio::test(flavor = "multi_thread")]
async fn several_instances_of_one_service_are_registered_together() {
    let nacos = Nacos::start().await;
    let registry = open(nacos.config());
    let subscription = registry.subscribe(&service("a.B"));
    let first = registry.register(&registration("a.B", link(1))).unwrap();
    let second = registry.register(&registration("a.B", link(2))).unwrap();
    shows(&subscription, Freshness::Current, &["link://10.0.0.1:1", "link://10.0.0.1:2"]).await;
    first.withdraw().await.unwrap();
    shows(&subscription, Freshness::Current, &["link://10.0.0.1:2"]).await;
    drop(second);
    shows(&subscription, Freshness::Current, &[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn everything_is_there_again_after_a_kill() {
    let nacos = Nacos::start().await;
    let registry = open(nacos.config());
    nacos.set("providers:a.B::", &json!([{"ip": "10.0.0.9", "port": 1}]));
    let subscription = registry.subscribe(&service("a.B"));
    let registered = registry.register(&registration("a.B", link(1))).unwrap();
    registered.established().await;
    let both = ["link://10.0.0.1:1", "dubbo://10.0.0.9:1"];
    shows(&subscription, Freshness::Current, &both).await;
    let nacos = nacos.restart().await;
    // The providers of a server that has just started have not come back yet.
    nacos.set("providers:a.B::", &json!([]));
    let agents = grouped("agents:a.B::");
    until("the registration", || nacos.state().instances(&agents).len() == 1).await;
    shows(&subscription, Freshness::Stale, &both).await;
    nacos.set("providers:a.B::", &json!([{"ip": "10.0.0.8", "port": 1}]));
    let all = ["link://10.0.0.1:1", "dubbo://10.0.0.8:1", "dubbo://10.0.0.9:1"];
    shows(&subscription, Freshness::Stale, &all).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_last_list_stays_while_nacos_is_away() {
    let nacos = Nacos::start().await;
    let registry = open(nacos.config());
    nacos.set("providers:a.B::", &json!([{"ip": "10.0.0.9", "port": 1}]));
    let subscription = registry.subscribe(&service("a.B"));
    shows(&subscription, Freshness::Current, &["dubbo://10.0.0.9:1"]).await;
    drop(nacos);
    shows(&subscription, Freshness::Stale, &["dubbo://10.0.0.9:1"]).await;
    status_is(&registry, "an error", |status| status.last_error.is_some()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_stops_answering_is_left() {
    let nacos = Nacos::start().await;
    let mut config = nacos.config();
    config.request_timeout = Duration::from_millis(300);
    let registry = open(config);
    status_is(&registry, "a connection", |status| status.connected).await;
    nacos.state().is_deaf_to = vec!["HealthCheckRequest", "SubscribeServiceRequest"];
    let subscription = registry.subscribe(&service("a.B"));
    status_is(&registry, "its loss", |status| !status.connected).await;
    nacos.state().is_deaf_to.clear();
    nacos.set("providers:a.B::", &json!([{"ip": "10.0.0.9", "port": 1}]));
    shows(&subscription, Freshness::Current, &["dubbo://10.0.0.9:1"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_may_send_us_away_and_say_nonsense() {
    let nacos = Nacos::start().await;
    let other = Nacos::start().await;
    let registry = open(nacos.config());
    let subscription = registry.subscribe(&service("a.B"));
    shows(&subscription, Freshness::Current, &[]).await;
    nacos.say("NotifySubscriberRequest", "{");
    nacos.say("SomethingNewRequest", "{}");
    nacos.say("NotifySubscriberRequest", r#"{"serviceInfo":null}"#);
    nacos.set("providers:a.B::", &json!([{"ip": "10.0.0.9", "port": 1}]));
    shows(&subscription, Freshness::Current, &["dubbo://10.0.0.9:1"]).await;
    other.set("providers:a.B::", &json!([{"ip": "10.0.0.7", "port": 1}]));
    let to = other.config().servers[0].clone();
    let (host, port) = to.split_once(':').unwrap();
    nacos.say("ConnectResetRequest", &json!({"serverIp": host, "serverPort": port}).to_string());
    // What the other server does not list stays for a while.
    let both = ["dubbo://10.0.0.7:1", "dubbo://10.0.0.9:1"];
    shows(&subscription, Freshness::Stale, &both).await;
    until("the new connections", || other.state().n_connections() == 2).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn wildcards_and_old_names() {
    let nacos = Nacos::start().await;
    let registry = open(nacos.config());
    let at = |ip: &str, metadata| json!([{"ip": ip, "port": 1, "metadata": metadata}]);
    nacos.set("providers:a.B:1:g", &at("h1", json!({})));
    nacos.set("providers:a.B:x", &at("h2", json!({"group": "x"})));
    nacos.set("providers:a.BC::", &at("h3", json!({})));
    let any = registry.subscribe(&service("*/a.B:*"));
    shows(&any, Freshness::Current, &["dubbo://h1:1", "dubbo://h2:1"]).await;
    let of_group = registry.subscribe(&service("x/a.B"));
    shows(&of_group, Freshness::Current, &["dubbo://h2:1"]).await;
    let of_version = registry.subscribe(&service("a.B:x"));
    shows(&of_version, Freshness::Current, &[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tells_made_up_names_from_real_ones() {
    let nacos = Nacos::start().await;
    let registry = open(nacos.config());
    for n in 0..2500 {
        nacos.set(&format!("providers:n.S{n}:1:"), &json!([{"ip": "h", "port": 1}]));
    }
    nacos.write("mapping", "a.Mapped", "orders");
    let presence = async |text: &str| loop {
        match registry.presence(&service(text)) {
            Presence::Asking => registry.settled().await,
            presence => return presence,
        }
    };
    assert_eq!(presence("n.S2499:1").await, Presence::Offered);
    assert_eq!(presence("n.S2499:2").await, Presence::Absent);
    assert_eq!(presence("made.Up").await, Presence::Absent);
    assert_eq!(presence("a.Mapped").await, Presence::Offered);
    assert!(!nacos.state().asked.contains_key("SubscribeServiceRequest"), "it costs no watch");
}

#[tokio::test(flavor = "multi_thread")]
async fn documents_are_followed() {
    let nacos = Nacos::start().await;
    let registry = open(nacos.config());
    let name = "a.B::.condition-router";
    let subscribed = registry.rule(name).unwrap();
    let mut rule = subscribed.document();
    let is = async |rule: &mut tokio::sync::watch::Receiver<registry::RuleDocument>,
                    text: Option<&str>| {
        let wait = rule.wait_for(|it| it.is_settled && it.text.as_deref() == text);
        assert!(timeout(LONG, wait).await.is_ok(), "waited in vain for {text:?}");
    };
    is(&mut rule, None).await;
    nacos.write("dubbo", name, "one");
    is(&mut rule, Some("one")).await;
    nacos.hang_up();
    nacos.write("dubbo", name, "two");
    is(&mut rule, Some("two")).await;
    // As with lists: what is missing on a new connection may be there again in a moment.
    nacos.state().documents.clear();
    nacos.hang_up();
    rule_says(&subscribed, |document| {
        document.text.as_deref() == Some("two") && document.refusal.is_some()
    })
    .await;
    nacos.write("dubbo", name, "three");
    is(&mut rule, Some("three")).await;
}

/// As a Java provider writes it, and as an agent does whose app is none: JSON calls need no types.
#[tokio::test(flavor = "multi_thread")]
async fn definitions_are_written_and_found() {
    let nacos = Nacos::start().await;
    let definition = |method: &str| {
        json!({"canonicalName": "a.B", "types": [], "methods": [
            {"name": method, "parameterTypes": ["java.lang.String"], "returnType": "int"}]})
    };
    let mut java = definition("find");
    java["parameters"] = json!({"version": "1.0", "group": "g", "side": "provider"});
    nacos.write("dubbo", "a.B:1.0:g:provider:orders", &java.to_string());
    // One that nobody can read takes no other one away.
    nacos.write("dubbo", "a.B:1.0:g:provider:broken", "{");
    nacos.write("mapping", "a.B", "broken");
    let instance = json!({"ip": "10.0.0.1", "port": 20880, "metadata": {"application": "orders"}});
    nacos.set(PROVIDERS, &json!([instance]));
    let registry = open(nacos.config());
    let subscription = registry.subscribe(&service("g/a.B:1.0"));
    shows(&subscription, Freshness::Current, &["dubbo://10.0.0.1:20880"]).await;
    let found = methods(&registry, "g/a.B:1.0").await;
    assert_eq!(found, ("metadata report dubbo/a.B:1.0:g:provider:orders".into(), "find".into()));
    // The list is at hand: it is pushed, and may be long.
    assert!(!nacos.state().asked.contains_key("ServiceQueryRequest"));

    let folder = tempfile::tempdir().unwrap();
    std::fs::write(
        folder.path().join("a.C.json"),
        definition("add").to_string().replace("a.B", "a.C"),
    )
    .unwrap();
    let sources = DefinitionSources { folder: Some(folder.path().into()), ..Default::default() };
    let writing = Registry::open_with(RegistryConfig::Nacos(nacos.config()), sources).unwrap();
    let mut ours = registration("a.C:2", link(1));
    let application = [("application", "mine")];
    ours.endpoint.params = application.into();
    let _ours = writing.register(&ours).unwrap();
    let key = ("dubbo".to_owned(), "a.C:2::provider:mine".to_owned());
    until("our definition", || nacos.state().documents.contains_key(&key)).await;
    nacos.set(
        "providers:a.C:2:",
        &json!([{"ip": "10.0.0.2", "port": 1,
        "metadata": {"application": "mine"}}]),
    );
    let found = methods(&registry, "a.C:2").await;
    assert_eq!(found, ("metadata report dubbo/a.C:2::provider:mine".into(), "add".into()));
}

/// A document that is longer than an answer may be, and one that is longer than is read: neither
/// hides the next one.
#[tokio::test(flavor = "multi_thread")]
async fn long_definitions_take_no_other_ones_away() {
    let nacos = Nacos::start().await;
    nacos.write("mapping", "a.B", "big,good,long");
    nacos.write("dubbo", "a.B:::provider:big", &"x".repeat(5 << 20));
    nacos.write("dubbo", "a.B:::provider:long", &"x".repeat(3 << 20));
    let good = r#"{"canonicalName":"a.B","methods":[{"name":"good","parameterTypes":[],
        "returnType":"void"}]}"#;
    nacos.write("dubbo", "a.B:::provider:good", good);
    let registry = open(NacosConfig { max_message_len: 4 << 20, ..nacos.config() });
    let found = methods(&registry, "a.B").await;
    assert_eq!(found, ("metadata report dubbo/a.B:::provider:good".into(), "good".into()));
    assert_eq!(registry.activity().refused, 2);
}

/// Where the definition of a service is found, and its methods.
async fn methods(registry: &Registry, name: &str) -> (String, String) {
    let lookup = timeout(LONG, registry.definition(&service(name)).settled()).await.unwrap();
    let found = lookup.found().unwrap();
    let names: Vec<_> = found.service.methods.iter().map(|method| &*method.name).collect();
    (found.origin.to_string(), names.join(","))
}

#[tokio::test(flavor = "multi_thread")]
async fn finds_applications_and_registers_as_one() {
    let nacos = Nacos::start().await;
    let registry = open(nacos.config());
    let metadata = r#"{"app":"orders","revision":"r1","services":{"a.B:dubbo":{"name":"a.B",
        "protocol":"dubbo","path":"a.B","port":20880,"params":{}}}}"#;
    Metadata::parse(metadata.as_bytes()).unwrap();
    nacos.write("r1", "orders", metadata);
    nacos.write("mapping", "a.B", "orders");
    let instance = json!({"ip": "10.0.0.5", "port": 20880, "metadata": {
        "dubbo.metadata.revision": "r1", "dubbo.metadata.storage-type": "remote",
        "dubbo.endpoints": "[{\"port\":20880,\"protocol\":\"dubbo\"}]"}});
    nacos.set("orders", &json!([instance]));
    let subscription = registry.subscribe(&service("a.B"));
    shows(&subscription, Freshness::Current, &["dubbo://10.0.0.5:20880"]).await;

    let mut ours =
        registration("a.C", registry::Endpoint::new(registry::Protocol::Dubbo, "10.0.0.1", 7));
    let params = [("application", "mine")];
    ours.endpoint.params = params.into();
    nacos.write("mapping", "a.C", "other");
    let mut config = nacos.config();
    (config.applications.register, config.applications.metadata) =
        (RegisterMode::All, Storage::Remote);
    let publishing = open(config);
    let registered = publishing.register(&ours).unwrap();
    registered.established().await;
    until("our instance", || nacos.state().instances(&grouped("mine")).len() == 1).await;
    let mapping = ("mapping".to_owned(), "a.C".to_owned());
    until("our mapping", || nacos.state().documents[&mapping] == "other,mine").await;
    let revision =
        nacos.state().instances(&grouped("mine"))[0]["metadata"]["dubbo.metadata.revision"]
            .as_str()
            .unwrap()
            .to_owned();
    // It is written at the same time as the instance.
    let report = (revision, "mine".to_owned());
    until("our metadata", || nacos.state().documents.contains_key(&report)).await;
    let report = nacos.state().documents[&report].clone();
    assert_eq!(Metadata::parse(report.as_bytes()).unwrap().services.len(), 1);
    registered.withdraw().await.unwrap();
    assert!(nacos.state().instances(&grouped("mine")).is_empty());
}

/// Nacos lists no mappings: who offers what is asked of the applications.
#[tokio::test(flavor = "multi_thread")]
async fn interfaces_that_only_applications_offer_are_listed() {
    let nacos = Nacos::start().await;
    let instance = |port: u16, revision: Option<&str>| {
        let mut instance = json!({"ip": "10.0.0.5", "port": port, "metadata": {
            "dubbo.metadata.storage-type": "remote",
            "dubbo.endpoints": format!("[{{\"port\":{port},\"protocol\":\"dubbo\"}}]")}});
        if let Some(revision) = revision {
            instance["metadata"]["dubbo.metadata.revision"] = revision.into();
        }
        instance
    };
    for n in 0..40 {
        let (name, interface) = (format!("orders{n}"), format!("a.S{n}"));
        let metadata = json!({"app": name, "revision": "r1", "services": {"s": {
            "name": interface, "protocol": "dubbo", "path": interface, "port": 20880,
            "params": {}}}});
        nacos.write("r1", &name, &metadata.to_string());
        nacos.write("mapping", &interface, &name);
        nacos.set(&name, &json!([instance(20880, Some("r1"))]));
    }
    // Others take nothing away: without Dubbo, without metadata, without instances.
    nacos.set("cloud", &json!([instance(8080, None)]));
    nacos.set("lost", &json!([instance(20881, Some("r2"))]));
    nacos.set("gone", &json!([]));
    // It takes a connection, and never says a word.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let mut asked = instance(silent.local_addr().unwrap().port(), Some("r3"));
    asked["ip"] = "127.0.0.1".into();
    asked["metadata"]["dubbo.metadata.storage-type"] = "local".into();
    asked["metadata"]["dubbo.metadata-service.url-params"] =
        format!("{{\"protocol\":\"dubbo\",\"port\":\"{}\"}}", silent.local_addr().unwrap().port())
            .into();
    nacos.set("hanging", &json!([asked]));
    let java = json!({"ip": "10.0.0.1", "port": 20880, "metadata": {"protocol": "dubbo"}});
    nacos.set("providers:a.B::", &json!([java]));
    let registry = open(nacos.config());
    let Catalogue { services: listed, unasked } =
        timeout(LONG, registry.catalogue(|_| true)).await.unwrap().unwrap();
    let unasked: Vec<_> = unasked.iter().map(|it| (&*it.application, &*it.reason)).collect();
    let [("hanging", _), ("lost", reason)] = &unasked[..] else { panic!("{unasked:?}") };
    assert!(reason.contains("no revision r2"), "{reason}");
    let names: BTreeSet<_> = listed.iter().map(|it| it.service.to_string()).collect();
    let expected: BTreeSet<_> =
        (0..40).map(|n| format!("a.S{n}")).chain(["a.B".to_owned()]).collect();
    assert_eq!(names, expected);
    let one = listed.iter().find(|it| it.service.interface == "a.S7").unwrap();
    assert_eq!(one.endpoints.len(), 1);
    assert_eq!(one.endpoints[0].levels, [Level::Application]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_that_is_missing_is_said_aloud() {
    let nacos = Nacos::start().await;
    nacos.state().token = Some("t".into());
    let lister = open(nacos.config());
    let said = lister.catalogue(|_| true).await.unwrap_err().to_string();
    assert!(said.contains("listing services") && said.contains("who?"), "{said}");
    let registry = open(nacos.config());
    let subscription = registry.subscribe(&service("a.B"));
    status_is(&registry, "the refusal", |status| {
        status.last_error.as_deref().is_some_and(|error| error.contains("who?"))
    })
    .await;
    nacos.set("providers:a.B::", &json!([{"ip": "10.0.0.9", "port": 1}]));
    nacos.state().token = None;
    shows(&subscription, Freshness::Current, &["dubbo://10.0.0.9:1"]).await;
}

/// As Nacos 2.1 does with a connection that it has given up.
#[tokio::test(flavor = "multi_thread")]
async fn a_connection_on_which_nothing_is_kept_is_made_anew() {
    let nacos = Nacos::start().await;
    // Those of the agent for services and for documents, but no later one.
    nacos.state().forgets_until = 2;
    let mut config = nacos.config();
    config.keep_every = Duration::from_millis(50);
    let registry = open(config.clone());
    let registered = registry.register(&registration("a.B", link(1))).unwrap();
    registered.established().await;
    let looker = open(config);
    let subscription = looker.subscribe(&service("a.B"));
    shows(&subscription, Freshness::Current, &["link://10.0.0.1:1"]).await;
}

/// Pushes can be lost, and some servers are told to make none.
#[tokio::test(flavor = "multi_thread")]
async fn a_change_that_is_not_pushed_is_asked_for() {
    let nacos = Nacos::start().await;
    let mut config = nacos.config();
    config.ask_again_every = Duration::from_millis(200);
    let registry = open(config);
    nacos.set("providers:a.B::", &json!([{"ip": "10.0.0.9", "port": 1}]));
    let subscription = registry.subscribe(&service("a.B"));
    shows(&subscription, Freshness::Current, &["dubbo://10.0.0.9:1"]).await;
    nacos.set_silently("providers:a.B::", &json!([{"ip": "10.0.0.8", "port": 1}]));
    shows(&subscription, Freshness::Current, &["dubbo://10.0.0.8:1"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_hangs_up_may_want_tls() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let _ = stream.unwrap().read(&mut [0; 24]);
        }
    });
    let mut config = NacosConfig::new([address.to_string()]);
    config.grpc_port_offset = 0;
    let registry = open(config);
    let said = timeout(LONG, registry.catalogue(|_| true)).await.unwrap().unwrap_err();
    assert!(said.to_string().contains("set tls = true"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_logs_in_and_does_so_again_when_the_token_is_not_taken() {
    let nacos = Nacos::start().await;
    nacos.state().token = Some("none yet".into());
    let mut config = nacos.config();
    (config.user, config.password) = (Some("u".into()), Some("a&b".into()));
    let registry = open(config.clone());
    nacos.set("providers:a.B::", &json!([{"ip": "10.0.0.9", "port": 1}]));
    let subscription = registry.subscribe(&service("a.B"));
    shows(&subscription, Freshness::Current, &["dubbo://10.0.0.9:1"]).await;
    assert_eq!(nacos.state().n_logins, 1, "one login for all connections");
    nacos.state().token = Some("another one".into());
    let registered = registry.register(&registration("a.B", link(1))).unwrap();
    registered.established().await;
    assert_eq!(nacos.state().n_logins, 2);

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("password");
    std::fs::write(&path, "wrong").unwrap();
    config.password = Some(RegistrySecret::of_file(&path));
    let wrong = open(config);
    status_is(&wrong, "the refusal", |status| {
        status.last_error.as_deref().is_some_and(|error| error.contains("user and password"))
    })
    .await;
    std::fs::write(&path, "a&b").unwrap();
    status_is(&wrong, "what was changed meanwhile is read", |status| status.connected).await;
}

/// As an echo service does, or a proxy that shows the request that it has not passed on.
#[tokio::test(flavor = "multi_thread")]
async fn a_password_that_a_server_repeats_is_not_shown() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let mut config = NacosConfig::new([listener.local_addr().unwrap().to_string()]);
    (config.user, config.password) = (Some("u".into()), Some("hush&more".into()));
    let form = "username=u&password=hush%26more";
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let (mut asked, mut piece) = (Vec::new(), [0; 1024]);
            while !asked.ends_with(form.as_bytes()) {
                match stream.read(&mut piece) {
                    Ok(len @ 1..) => asked.extend_from_slice(&piece[..len]),
                    _ => break,
                }
            }
            let body = format!("{form} hush&more");
            let head = format!("HTTP/1.1 500 No\r\ncontent-length: {}\r\n\r\n", body.len());
            // Who has given up may have closed.
            let _ = stream.write_all(format!("{head}{body}").as_bytes());
        }
    });
    let registry = open(config);
    status_is(&registry, "the refusal", |status| {
        let error = status.last_error.as_deref();
        error.is_some_and(|error| error.ends_with("500 username=u&password=*** ***"))
    })
    .await;
}

/// A server that is asked for everything at once answers nothing in time.
#[tokio::test(flavor = "multi_thread")]
async fn hundreds_of_services_are_asked_for_in_turn() {
    let nacos = Nacos::start().await;
    nacos.state().thinks_for = Duration::from_millis(10);
    let registry = open(nacos.config());
    let services: Vec<_> = (0..200).map(|n| service(&format!("n.S{n}"))).collect();
    let subscriptions: Vec<_> = services.iter().map(|it| registry.subscribe(it)).collect();
    for subscription in &subscriptions {
        shows(subscription, Freshness::Current, &[]).await;
    }
    // 32 services, of three names each.
    let max_waiting = nacos.state().max_waiting;
    assert!((4..=96).contains(&max_waiting), "{max_waiting} at a time");
}

/// Prints how long a change of a list of 5,000 takes to show.
#[tokio::test(flavor = "multi_thread")]
async fn long_lists_and_floods_of_changes_arrive() {
    let nacos = Nacos::start().await;
    let registry = open(nacos.config());
    let instance = |n: usize, weight: f64| {
        let metadata = json!({"application": "orders", "dubbo": "2.0.2", "release": "3.3.6",
            "side": "provider", "timeout": "1000", "path": "a.B", "protocol": "dubbo"});
        json!({"ip": format!("10.1.{}.{}", n / 250, n % 250), "port": 20880, "weight": weight,
            "metadata": metadata})
    };
    let mut hosts: Vec<_> = (0..5000).map(|n| instance(n, 1.0)).collect();
    nacos.set("providers:a.B::", &hosts.clone().into());
    let subscription = registry.subscribe(&service("a.B"));
    let mut snapshots = subscription.snapshots();
    let arrived = snapshots.wait_for(|it| it.endpoints.len() == 5000);
    assert!(timeout(LONG, arrived).await.is_ok());
    let mut delays = Vec::new();
    for n in 2..22_u32 {
        hosts[0] = instance(0, f64::from(n));
        let list = hosts.clone().into();
        let began = std::time::Instant::now();
        nacos.set("providers:a.B::", &list);
        let is_new = |it: &registry::Snapshot| it.endpoints.iter().any(|it| it.weight == n * 100);
        assert!(timeout(LONG, snapshots.wait_for(is_new)).await.is_ok());
        delays.push(began.elapsed());
    }
    delays.sort();
    println!("a change of 5,000 instances shows after {:?}, at most {:?}", delays[10], delays[19]);

    let services: Vec<_> = (0..500).map(|n| service(&format!("n.S{n}"))).collect();
    let subscriptions: Vec<_> = services.iter().map(|it| registry.subscribe(it)).collect();
    for round in 1..=4_u32 {
        for n in 0..500 {
            let name = format!("providers:n.S{n}::");
            nacos.set(&name, &json!([{"ip": "h", "port": 1, "weight": round}]));
        }
    }
    for subscription in &subscriptions {
        let mut snapshots = subscription.snapshots();
        let is_last = |it: &registry::Snapshot| it.endpoints.iter().any(|it| it.weight == 400);
        assert!(timeout(LONG, snapshots.wait_for(is_last)).await.is_ok());
    }
}
