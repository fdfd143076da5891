//! What a running agent shows of itself on its admin listener.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::thread;
use std::time::Instant;

use crate::support::dubbo::DubboConsumer;
use crate::support::http_app::{Does, TestApp};
use crate::support::{
    Behaviour, FakeProvider, Http, HttpResponse, SERVICE, STRING, block_on, call, consumer,
    consumer_with_metrics, exporting_with_admin, free_addr, metric, provider_agent, register,
    register_link, request, start, wait_until,
};
use agent::inspect::snapshot::{
    ConnectionSnapshot, EndpointSnapshot, ListenerSnapshot, MethodSnapshot, Page, ProcessSnapshot,
    RegistrySnapshot, RouteSnapshot, ServiceSnapshot, StagesSnapshot, VersionSnapshot,
};
use agent::{Agent, config};
use bytes::BytesMut;
use link_proto::{Config, Connection, Event, Reply, Status};
use registry::MemoryHub;
use serde::de::DeserializeOwned;

fn get_from(admin: SocketAddr, page: &str) -> HttpResponse {
    let mut http = Http::connect(admin);
    http.send(format!("GET {page} HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n"));
    http.read()
}

fn page<T: DeserializeOwned>(admin: SocketAddr, page: &str) -> T {
    let answer = get_from(admin, page);
    assert_eq!(answer.status, 200, "{page}: {answer:?}");
    assert!(answer.head.contains("content-type: application/json"), "{answer:?}");
    serde_json::from_str(&answer.body).unwrap_or_else(|error| panic!("{page}: {error}: {answer:?}"))
}

fn admin(agent: &Agent) -> SocketAddr {
    agent.addresses().admin.unwrap()
}

fn echo(agent: &Agent) -> HttpResponse {
    call(agent, "echo", &[STRING], "[\"a\"]")
}

#[test]
fn services_and_endpoints_say_how_they_stand_and_why() {
    let hub = MemoryHub::new();
    let provider = FakeProvider::start(Behaviour::Good);
    let away = free_addr();
    let (_good, _away) = (register(&hub, provider.addr), register(&hub, away));
    let policy =
        "[[cluster]]\ninterface = \"com.acme.*\"\nbalance = \"round-robin\"\ntimeout_ms = 2500\n";
    let agent = consumer_with_metrics(&hub, policy);
    // Both workers get to know the service.
    for _ in 0..8 {
        assert_eq!(echo(&agent).status, 200);
    }
    assert_eq!(call(&agent, "fail", &[STRING], "[\"a\"]").status, 500);

    let services: Page<ServiceSnapshot> = page(admin(&agent), "/services");
    assert_eq!((services.total, services.truncated), (1, false));
    let service = &services.items[0];
    assert_eq!((&*service.service, &*service.registry), (SERVICE, "main"));
    assert_eq!((&*service.freshness, service.workers, service.endpoints), ("current", 2, 2));
    assert_eq!((service.ready, service.held, service.in_flight), (1, 0, 0));
    assert_eq!((&*service.policy.balance, service.policy.timeout_ms), ("round-robin", Some(2500)));
    assert!(service.failed_without_endpoint.is_empty(), "{service:?}");

    let endpoints: Page<EndpointSnapshot> = wait_until("the other is down on both", || {
        let endpoints: Page<EndpointSnapshot> = page(admin(&agent), "/endpoints");
        let down = endpoints.items.iter().find(|it| it.address == away.to_string())?;
        (down.standing.get("down") == Some(&2)).then_some(endpoints)
    });
    assert_eq!(endpoints.total, 2);
    let find = |address: SocketAddr| {
        endpoints.items.iter().find(|it| it.address == address.to_string()).unwrap()
    };
    let (up, down) = (find(provider.addr), find(away));
    assert_eq!((up.standing.get("ready"), &*up.protocol, up.weight), (Some(&2), "dubbo", 100));
    assert_eq!((up.why.len(), up.held, up.calls.ok, up.calls.in_flight), (0, false, 8, 0));
    assert_eq!(up.calls.failed, [("exception".to_owned(), 1)].into());
    assert!(up.calls.p50_ms.is_some() && up.calls.p99_ms >= up.calls.p50_ms, "{up:?}");
    assert!(up.calls.average_ms.is_some());
    assert_eq!(down.calls.ok, 0);
    assert!(down.why.iter().any(|why| why.contains("cannot connect")), "{down:?}");

    let address = provider.addr;
    for (query, n_found) in [
        (format!("?address={address}"), 1),
        ("?service=com.acme.*".to_owned(), 2),
        (format!("?service={SERVICE}&limit=1"), 1),
        ("?service=com.other.*".to_owned(), 0),
        ("?protocol=link".to_owned(), 0),
    ] {
        let found: Page<EndpointSnapshot> = page(admin(&agent), &format!("/endpoints{query}"));
        assert_eq!(found.items.len(), n_found, "{query}");
        assert_eq!(found.truncated, query.contains("limit"), "{query}");
    }
}

/// The provider's agent says how long the app took; without one it is the network's time.
#[test]
fn where_the_time_of_calls_goes_is_known_of_each_that_is_timed() {
    let every = |agent: &str| format!("[agent]\nstage_sample = 1\n{agent}");
    for has_agent in [true, false] {
        let (hub, provider) = (MemoryHub::new(), FakeProvider::start(Behaviour::Slow));
        let export = format!("interface = \"{SERVICE}\"\napp = \"dubbo://{}\"\n", provider.addr);
        let exporting = has_agent.then(|| {
            let text = format!(
                "workers = 1\n[admin]\nlisten = \"127.0.0.1:0\"\n[[registry]]\nname = \"main\"\n\
                 kind = \"etcd\"\nendpoints = [\"http://127.0.0.1:1\"]\n\
                 [link]\nlisten = \"127.0.0.1:0\"\n[[export]]\n{export}"
            );
            start(&every(&text), &hub)
        });
        let _direct = (!has_agent).then(|| register(&hub, provider.addr));
        let text = "workers = 1\n[admin]\nlisten = \"127.0.0.1:0\"\n[[registry]]\nname = \"main\"\n\
                    kind = \"file\"\npath = \"x\"\n\
                    [[ingress]]\nprotocol = \"http\"\nlisten = \"127.0.0.1:0\"\n\
                    [[ingress]]\nprotocol = \"dubbo\"\nlisten = \"127.0.0.1:0\"\n";
        let agent = start(&every(text), &hub);
        wait_until("the service", || (echo(&agent).status == 200).then_some(()));
        let mut dubbo = DubboConsumer::to(&agent);
        let stages = wait_until("both calls", || {
            // One more each time: a busy machine may note late that a call was written.
            assert_eq!(dubbo.call("echo", "x", &[]).status, dubbo_proto::Status::Ok);
            let stages: Page<StagesSnapshot> = page(admin(&agent), "/stages?service=com.acme.*");
            // One that came before the service was there counts, too, and was never sent.
            let is_sent = |it: &StagesSnapshot| 40.0 <= it.total_ms["app"] + it.total_ms["network"];
            let is_known = |it: &StagesSnapshot| it.service == SERVICE && 2 <= it.calls;
            stages.items.into_iter().find(|it| is_known(it) && is_sent(it))
        });
        assert_eq!(stages.place, "ingress");
        // The app takes 20 ms for each.
        let (app, network) = (stages.total_ms["app"], stages.total_ms["network"]);
        let (work, none) = if has_agent { (app, network) } else { (network, app) };
        assert!(40.0 <= work, "{stages:?}");
        assert!(has_agent || none == 0.0, "{stages:?}");
        for stage in ["wait", "encode", "write", "decode", "answer"] {
            assert!(0.0 < stages.total_ms[stage], "{stage} of {stages:?}");
        }
        let labels = format!("place=\"ingress\",service=\"{SERVICE}\"");
        assert!(2 <= metric(&agent, &format!("dubmesh_stage_calls_total{{{labels}}}")));
        // Of each endpoint, whoever called it.
        let endpoints: Page<EndpointSnapshot> = page(admin(&agent), "/endpoints");
        let calls = &endpoints.items[0].calls;
        assert_eq!(2 <= calls.app_timed, has_agent, "{calls:?}");
        assert!(20.0 * calls.app_timed as f64 <= calls.app_total_ms, "{calls:?}");
        assert!(calls.app_total_ms <= calls.app_timed_total_ms, "{calls:?}");
        if let Some(exporting) = exporting {
            let stages = wait_until("the app's calls", || {
                let stages: Page<StagesSnapshot> = page(admin(&exporting), "/stages");
                stages.items.into_iter().find(|it| 2 <= it.calls)
            });
            assert_eq!((&*stages.place, &*stages.service), ("export", SERVICE));
            assert!(40.0 <= stages.total_ms["app"], "{stages:?}");
        }
    }
}

/// A caller's agent gives a call up at its deadline, too; only then is the app late. Nobody waits
/// for the answer any more, so that takes no time.
#[test]
fn calls_that_are_given_up_have_ended() {
    let app = TestApp::start(|request| match request.path.ends_with("hang") {
        true => Does::Hang,
        false => Does::json("1"),
    });
    let hub = MemoryHub::new();
    let exporting = start(
        &format!(
            "[agent]\nstage_sample = 1\nworkers = 1\n[admin]\nlisten = \"127.0.0.1:0\"\n\
             [[registry]]\nname = \"main\"\nkind = \"etcd\"\n\
             endpoints = [\"http://127.0.0.1:1\"]\n[link]\nlisten = \"127.0.0.1:0\"\n\
             [[export]]\ninterface = \"{SERVICE}\"\napp = \"http://{}\"\n",
            app.addr
        ),
        &hub,
    );
    let consumer = consumer(&hub, "");
    wait_until("the export", || (echo(&consumer).status == 200).then_some(()));
    let ended = |code: &str| {
        let labels = format!("service=\"{SERVICE}\",code=\"{code}\"");
        metric(&exporting, &format!("dubmesh_export_calls_total{{{labels}}}"))
    };
    for nth in 1..=2 {
        let answer = call(&consumer, "hang", &[STRING, "x-dubbo-timeout-ms: 300"], "[\"a\"]");
        assert_eq!(answer.status, 504, "{answer:?}");
        wait_until("the app is late", || (ended("timeout") == nth).then_some(()));
    }
    assert_eq!(ended("cancelled"), 0);
    let n_requests = app.requests().len();
    let mut leaving = Http::to(&consumer);
    let headers = [STRING, "x-dubbo-timeout-ms: 60000"];
    leaving.send(request(&format!("/{SERVICE}/hang"), &headers, "[\"a\"]"));
    wait_until("the request", || (n_requests < app.requests().len()).then_some(()));
    drop(leaving);
    wait_until("the caller has left", || (ended("cancelled") == 1).then_some(()));
    assert_eq!(ended("timeout"), 2);
    let stages = wait_until("all calls", || {
        let stages: Page<StagesSnapshot> = page(admin(&exporting), "/stages");
        stages.items.into_iter().find(|it| it.calls == ended("ok") + 3)
    });
    assert!(stages.total_ms["answer"] < 200.0, "{stages:?}");
    assert!(600.0 <= stages.total_ms["app"] + stages.total_ms["network"], "{stages:?}");
}

/// An agent of the version before calls were timed: it ignores that it is asked for times, and
/// puts nothing beside its answers. It knows no credits either.
fn older_agent() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let config = Config { features: 0, ..Config::default() };
        let mut machine = Connection::<()>::server(config, Instant::now());
        let (mut input, mut bytes) = (BytesMut::new(), [0; 4096]);
        while let Ok(len @ 1..) = stream.read(&mut bytes) {
            input.extend_from_slice(&bytes[..len]);
            machine.handle_bytes(Instant::now(), &mut input).unwrap();
            while let Some(event) = machine.poll_event() {
                match event {
                    // 2 is hessian2.
                    Event::Defined { route, .. } => machine.accept_route(route, 2),
                    Event::Request { id, codec, payload, .. } => {
                        // A value follows: the argument.
                        let body = [b"\x91", &payload[..]].concat();
                        let payload = body.as_slice().into();
                        machine.respond(id, Reply { codec, payload, ..Reply::new(Status::OK) });
                    }
                    _ => {}
                }
            }
            stream.write_all(&machine.transmit().split()).unwrap();
        }
    });
    address
}

/// What the app took is then part of the network's time, as without an agent.
#[test]
fn calls_to_an_older_agent_are_timed_as_far_as_it_can_tell() {
    let hub = MemoryHub::new();
    let _registered = register_link(&hub, older_agent());
    let text = "[agent]\nstage_sample = 1\nworkers = 1\n[admin]\nlisten = \"127.0.0.1:0\"\n\
                [[registry]]\nname = \"main\"\nkind = \"file\"\npath = \"x\"\n\
                [[ingress]]\nprotocol = \"http\"\nlisten = \"127.0.0.1:0\"\n";
    let agent = start(text, &hub);
    wait_until("the service", || (echo(&agent).status == 200).then_some(()));
    assert_eq!(echo(&agent).body, "\"a\"");
    let stages = wait_until("two calls", || {
        let stages: Page<StagesSnapshot> = page(admin(&agent), "/stages");
        stages.items.into_iter().find(|it| 2 <= it.calls)
    });
    assert_eq!(stages.total_ms["app"], 0.0, "{stages:?}");
    assert!(0.0 < stages.total_ms["network"], "{stages:?}");
}

#[test]
fn failures_are_counted_by_their_code() {
    let hub = MemoryHub::new();
    let provider = FakeProvider::start(Behaviour::Busy);
    let _registered = register(&hub, provider.addr);
    let agent = consumer_with_metrics(&hub, "");
    let answer = echo(&agent);
    let endpoints: Page<EndpointSnapshot> = page(admin(&agent), "/endpoints");
    let calls = &endpoints.items[0].calls;
    assert_eq!((calls.ok, calls.failed.get(&answer.code())), (0, Some(&1)), "{calls:?}");
    assert_eq!((calls.p50_ms, calls.p99_ms), (None, None));
}

#[test]
fn connections_of_both_directions_are_in_one_table() {
    let hub = MemoryHub::new();
    let app = FakeProvider::start(Behaviour::Good);
    let exporting = provider_agent(&hub, app.addr);
    let agent = consumer_with_metrics(&hub, "");
    let mut http = Http::to(&agent);
    wait_until("the service is there", || {
        (http.post(&format!("/{SERVICE}/echo"), &[STRING], "[\"a\"]").status == 200).then_some(())
    });
    let all: Page<ConnectionSnapshot> = page(admin(&agent), "/connections");
    let [down, up] = ["downstream", "upstream"]
        .map(|way| all.items.iter().find(|it| it.direction == way).unwrap());
    assert_eq!((&*down.protocol, &*down.doing, down.in_flight), ("http", "idle", 0));
    assert_eq!(down.peer, http.0.local_addr().unwrap().to_string());
    let link = exporting.addresses().link.unwrap();
    assert_eq!((&*up.protocol, &*up.doing), ("link", "idle"));
    assert_eq!((up.peer.clone(), up.worker), (link.to_string(), down.worker));
    assert!(up.peer_name.is_some(), "an agent says its name");
    for connection in [down, up] {
        assert!(0 < connection.bytes_read && 0 < connection.bytes_written, "{connection:?}");
        assert!(connection.tcp.is_some(), "{connection:?}");
    }
    assert_ne!(up.id, down.id);
    for (query, n_found) in [
        ("?direction=upstream".to_owned(), 1),
        ("?protocol=http".to_owned(), 1),
        (format!("?address={link}"), 1),
        ("?address=127.0.0.1".to_owned(), 2),
        ("?address=10.0.0.1".to_owned(), 0),
        (format!("?worker={}", down.worker), 2),
        (format!("?worker={}", 1 - down.worker), 0),
    ] {
        let found: Page<ConnectionSnapshot> = page(admin(&agent), &format!("/connections{query}"));
        assert_eq!((found.items.len(), found.total), (n_found, n_found), "{query}");
    }
    drop(http);
    wait_until("it is shown no more", || {
        let found: Page<ConnectionSnapshot> =
            page(admin(&agent), "/connections?direction=downstream");
        found.items.is_empty().then_some(())
    });
}

#[test]
fn connections_to_http_apps_are_shown_with_what_passes_through_them() {
    let (release, released) = std::sync::mpsc::channel::<()>();
    let released = std::sync::Mutex::new(released);
    let app = TestApp::start(move |request| {
        if request.path.ends_with("slow") {
            let _ = released.lock().unwrap().recv();
        }
        Does::json(request.body.clone())
    });
    let hub = MemoryHub::new();
    let exporting = exporting_with_admin(
        &hub,
        &format!("interface = \"{SERVICE}\"\napp = \"http://{}\"\n", app.addr),
    );
    let consumer = consumer_with_metrics(&hub, "");
    wait_until("the export", || (echo(&consumer).status == 200).then_some(()));
    let to_app = || {
        let all: Page<ConnectionSnapshot> =
            page(admin(&exporting), "/connections?direction=upstream&protocol=http");
        all.items
    };
    let [idle] = &to_app()[..] else { panic!("one connection: {:?}", to_app()) };
    assert_eq!((idle.peer.clone(), &*idle.doing), (app.addr.to_string(), "idle"));
    assert_eq!((idle.in_flight, idle.held_bytes), (0, 0));
    assert!(0 < idle.bytes_written && 0 < idle.bytes_read, "{idle:?}");
    let tcp = idle.tcp.as_ref().expect("it is TCP");
    if cfg!(target_os = "linux") {
        assert!(tcp.cwnd_segments > Some(0) && tcp.rtt_us > Some(0), "{tcp:?}");
        assert_eq!((tcp.retransmits, tcp.unacked_segments.is_some()), (Some(0), true), "{tcp:?}");
    }

    std::thread::scope(|scope| {
        let slow = scope.spawn(|| call(&consumer, "slow", &[STRING], "[\"a\"]"));
        let busy = wait_until("the call is under way", || {
            let busy = to_app().into_iter().find(|it| it.in_flight == 1)?;
            (idle.bytes_written < busy.bytes_written).then_some(busy)
        });
        assert_eq!((busy.id, &*busy.doing), (idle.id, "calling"));
        assert!(0 < busy.held_bytes, "the request is held: {busy:?}");
        release.send(()).unwrap();
        assert_eq!(slow.join().unwrap().status, 200);
    });
    wait_until("it is idle again", || to_app().iter().all(|it| it.in_flight == 0).then_some(()));
    drop(app);
    wait_until("it is shown no more", || to_app().is_empty().then_some(()));
}

#[test]
fn routes_say_how_often_they_are_called() {
    let hub = MemoryHub::new();
    let provider = FakeProvider::start(Behaviour::Good);
    let _registered = register(&hub, provider.addr);
    let agent = consumer_with_metrics(&hub, "");
    for _ in 0..5 {
        assert_eq!(echo(&agent).status, 200);
    }
    assert_eq!(call(&agent, "other", &[], "[\"a\"]").status, 200);
    let routes: Page<RouteSnapshot> = page(admin(&agent), "/routes");
    let echo = routes.items.iter().find(|route| route.method == "echo").unwrap();
    assert_eq!((&*echo.types, &*echo.call, echo.calls), ("Ljava/lang/String;", "direct", 5));
    assert_eq!((&*echo.registry, &echo.serializations[..]), ("main", &["hessian2".to_owned()][..]));
    let other = routes.items.iter().find(|route| route.method == "other").unwrap();
    assert_eq!((&*other.types, &*other.call, other.calls), ("", "generic", 1));
}

#[test]
fn many_routes_are_shown_in_part() {
    let hub = MemoryHub::new();
    let provider = FakeProvider::start(Behaviour::Good);
    let _registered = register(&hub, provider.addr);
    let agent = consumer_with_metrics(&hub, "");
    // On one connection, so that one worker has them all; more than it keeps.
    let mut http = Http::to(&agent);
    for n in 0..4100 {
        let path = format!("/{SERVICE}/method{n:04}");
        assert_eq!(http.post(&path, &[STRING], "[\"a\"]").status, 200);
    }
    let routes: Page<RouteSnapshot> = page(admin(&agent), "/routes?limit=1000");
    assert_eq!((routes.items.len(), routes.total, routes.truncated), (1000, 4096, true));
    assert!(routes.items.is_sorted_by_key(|route| route.method.clone()));
    let routes: Page<RouteSnapshot> = page(admin(&agent), "/routes");
    assert_eq!((routes.items.len(), routes.total), (100, 4096));
}

#[test]
fn registries_and_version_are_shown() {
    let hub = MemoryHub::new();
    let provider = FakeProvider::start(Behaviour::Good);
    let _registered = register(&hub, provider.addr);
    let agent = consumer_with_metrics(&hub, "");
    assert_eq!(echo(&agent).status, 200);
    let registries: Page<RegistrySnapshot> = page(admin(&agent), "/registries");
    let registry = &registries.items[0];
    assert_eq!((&*registry.name, registry.connected, registries.total), ("main", true, 1));
    assert!(registry.watched_services >= 1 && registry.changes >= 1, "{registry:?}");
    assert!(registry.since_unix_s > 1_600_000_000 && registry.last_change_unix_s.is_some());
    let version: VersionSnapshot = page(admin(&agent), "/version");
    assert_eq!((&*version.program, &*version.version), ("dubmesh", env!("CARGO_PKG_VERSION")));
    let root = get_from(admin(&agent), "/");
    for listed in root.body.lines() {
        let path = listed.split(' ').next().unwrap();
        let expected = match path {
            // Nobody has given this agent what tells the log's filter.
            "/loglevel" => 404,
            // It wants to know of which service.
            "/describe" => 400,
            _ => 200,
        };
        assert_eq!(get_from(admin(&agent), path).status, expected, "{path}");
    }
}

#[test]
fn an_agent_that_drains_still_answers() {
    let hub = MemoryHub::new();
    let provider = FakeProvider::start(Behaviour::Hang);
    let _registered = register(&hub, provider.addr);
    let agent = consumer_with_metrics(&hub, "");
    let admin = admin(&agent);
    let mut http = Http::to(&agent);
    http.send(request(
        &format!("/{SERVICE}/echo"),
        &[STRING, "x-dubbo-timeout-ms: 60000"],
        "[\"a\"]",
    ));
    wait_until("the call is there", || (provider.n_requests() == 1).then_some(()));
    let drained = std::thread::spawn(move || block_on(agent.drain()));
    wait_until("the drain is shown", || {
        let all: Page<ConnectionSnapshot> = page(admin, "/connections");
        let down = all.items.iter().find(|it| it.direction == "downstream")?;
        let up = all.items.iter().find(|it| it.direction == "upstream")?;
        (down.doing == "draining" && (down.in_flight, up.in_flight) == (1, 1)).then_some(())
    });
    provider.kill();
    assert_eq!(http.read().status, 502);
    assert!(drained.join().unwrap().unwrap().complete);
}

#[test]
fn the_configuration_is_shown_without_secrets() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("password");
    std::fs::write(&file, "secret-in-a-file").unwrap();
    let pem = folder.path().join("key.pem");
    let key = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    std::fs::write(&pem, key.signing_key.serialize_pem()).unwrap();
    let certificate = folder.path().join("cert.pem");
    std::fs::write(&certificate, key.cert.pem()).unwrap();
    let (file, pem, cert) = (file.display(), pem.display(), certificate.display());
    let text = format!(
        "[agent]\nname = \"shop-1\"\n[admin]\nlisten = \"127.0.0.1:0\"\nhosts = [\"mesh.example\"]\n\
         [[registry]]\nname = \"one\"\nkind = \"etcd\"\nendpoints = [\"http://127.0.0.1:1\"]\n\
         user = \"root\"\npassword = \"secret-in-line\"\n\
         [[registry]]\nname = \"two\"\nkind = \"etcd\"\nendpoints = [\"https://127.0.0.1:1\"]\n\
         user = \"root\"\npassword_file = \"{file}\"\n\
         ca_file = \"{cert}\"\ncert_file = \"{cert}\"\nkey_file = \"{pem}\"\n\
         [link]\nlisten = \"127.0.0.1:0\"\n\
         [[ingress]]\nprotocol = \"http\"\nlisten = \"127.0.0.1:0\"\nregistry = \"one\"\n\
         [[export]]\ninterface = \"com.acme.Web\"\nregistry = \"one\"\napp = \"https://127.0.0.1:1\"\n\
         ca_file = \"{cert}\"\ncert_file = \"{cert}\"\nkey_file = \"{pem}\"\n\
         headers = {{ authorization = \"Bearer secret-header\" }}\n\
         health = \"/health?key=secret-health\"\n\
         [[export.method]]\nname = \"find\"\npath = \"GET /find?key=secret-path\"\n\
         headers = {{ x-token = \"secret-of-a-method\" }}\n"
    );
    let config = config::parse(&text, "test.toml").unwrap_or_else(|error| panic!("{error}"));
    let secrets = ["secret", "PRIVATE KEY"];
    let agent = Agent::start(config).unwrap();
    for path in ["/config", "/registries", "/services", "/endpoints", "/connections", "/routes"] {
        let answer = get_from(admin(&agent), path);
        assert_eq!(answer.status, 200, "{path}");
        for secret in secrets {
            assert!(!answer.body.contains(secret), "{path}: {}", answer.body);
        }
    }
    let shown: serde_json::Value = page(admin(&agent), "/config");
    assert_eq!(shown["agent"]["name"], "shop-1");
    assert_eq!(shown["registry"][0]["user"], "root");
    assert_eq!(shown["registry"][0]["endpoints"][0], "http://127.0.0.1:1");
    assert_eq!(shown["ingress"][0]["registry"], "one");
    assert_eq!(shown["export"][0]["app"]["headers"][0], "authorization");
    assert_eq!(shown["export"][0]["app"]["method"][0]["name"], "find");
    assert_eq!(shown["defaults"]["max_attempts"], 3);
    assert_eq!(shown["log"]["level"], "info");
}

#[test]
fn a_reload_is_seen_in_the_configuration_and_in_the_policy() {
    let hub = MemoryHub::new();
    let provider = FakeProvider::start(Behaviour::Good);
    let _registered = register(&hub, provider.addr);
    let agent = consumer_with_metrics(&hub, "");
    assert_eq!(echo(&agent).status, 200);
    let text = "[admin]\nlisten = \"127.0.0.1:0\"\n[[registry]]\nname = \"main\"\nkind = \"file\"\npath = \"x\"\n\
                [[ingress]]\nprotocol = \"http\"\nlisten = \"127.0.0.1:0\"\n\
                [defaults]\nmax_attempts = 7\n";
    let config = config::parse(text, "test.toml").unwrap_or_else(|error| panic!("{error}"));
    block_on(agent.reload(config)).unwrap();
    let shown: serde_json::Value = page(admin(&agent), "/config");
    assert_eq!(shown["defaults"]["max_attempts"], 7);
    let services: Page<ServiceSnapshot> = page(admin(&agent), "/services");
    assert_eq!(services.items[0].policy.max_attempts, 7);
}

/// What the process has, and what its callers saw.
#[test]
fn the_process_its_listeners_and_methods_are_shown() {
    let (hub, provider) = (MemoryHub::new(), FakeProvider::start(Behaviour::Good));
    let _registered = register(&hub, provider.addr);
    let agent = consumer_with_metrics(&hub, "");
    wait_until("the service", || (echo(&agent).status == 200).then_some(()));
    let process: ProcessSnapshot = page(admin(&agent), "/process");
    assert!(process.cpu_ms.is_some() && process.run_queue_ms.is_some(), "{process:?}");
    assert!(process.open_files.is_some_and(|n| 3 < n) && process.memory.is_some(), "{process:?}");
    let methods: Page<MethodSnapshot> = page(admin(&agent), &format!("/methods?service={SERVICE}"));
    let echo = methods.items.iter().find(|it| it.method == "echo").unwrap();
    assert_eq!((&*echo.service, echo.calls.ok), (SERVICE, 1));
    let others: Page<MethodSnapshot> = page(admin(&agent), "/methods?service=com.acme.Other");
    assert_eq!(others.items, []);
    let listeners: Page<ListenerSnapshot> = page(admin(&agent), "/listeners?limit=9");
    let taken: Vec<u64> =
        listeners.items.iter().filter_map(|it| Some(it.calls.as_ref()?.ok)).collect();
    assert_eq!(taken, [1], "{listeners:?}");
    assert!(listeners.items.iter().all(|it| it.refused_full + it.refused_no_files == 0));
}
