//! Names that callers make up: they cost next to nothing, and services that exist are found
//! meanwhile.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crate::support::{
    Behaviour, FakeProvider, Http, SERVICE, STRING, call, consumer_with_metrics, metric,
    register_service, wait_until,
};
use agent::inspect::snapshot::{Page, ServiceSnapshot};
use agent::{Agent, config};
use registry::MemoryHub;

fn echo(http: &mut Http, service: &str) -> (u16, String) {
    let answer = http.post(&format!("/{service}/echo"), &[STRING], "[\"x\"]");
    let code = if answer.status == 200 { String::new() } else { answer.code() };
    (answer.status, code)
}

/// More made-up names than a worker ever watched, and new services that come up in between.
#[test]
fn made_up_names_keep_nobody_out() {
    let hub = MemoryHub::new();
    let provider = FakeProvider::start(Behaviour::Good);
    let agent = consumer_with_metrics(&hub, "");
    let (stop, n_asked) = (AtomicBool::new(false), AtomicUsize::new(0));
    let not_found = (404, "service_not_found".to_owned());
    std::thread::scope(|scope| {
        for caller in 0..4 {
            let (agent, stop, n_asked, not_found) = (&agent, &stop, &n_asked, &not_found);
            scope.spawn(move || {
                let mut http = Http::to(agent);
                for n in 0.. {
                    if stop.load(Ordering::SeqCst) {
                        return;
                    }
                    let made_up = format!("made.up.S{caller}x{n}");
                    assert_eq!(echo(&mut http, &made_up), *not_found, "{made_up}");
                    n_asked.fetch_add(1, Ordering::SeqCst);
                }
            });
        }
        // Both workers have far more names behind them than they ever watch.
        let mut registered = Vec::new();
        for n in 0..20 {
            let goal = n * 300;
            wait_until("names", || (goal <= n_asked.load(Ordering::SeqCst)).then_some(()));
            let service = format!("com.acme.Late{n}");
            // Asked for before it is there, and after.
            let mut http = [Http::to(&agent), Http::to(&agent)];
            for http in &mut http {
                assert_eq!(echo(http, &service), not_found);
            }
            registered.push(register_service(&hub, &service, provider.addr));
            for http in &mut http {
                // Found at once, or when the watch of it says so.
                wait_until("the service", || (echo(http, &service).0 == 200).then_some(()));
            }
        }
        stop.store(true, Ordering::SeqCst);
    });
    let n_watched = metric(&agent, "dubmesh_registry_subscriptions{registry=\"main\"}");
    assert!(n_watched <= 20 + 2 * 32, "{n_watched} services are watched");
    assert!(5700 <= n_asked.load(Ordering::SeqCst));
}

/// More services than a worker watches, and than have labels: a wiped registry must not look well.
#[test]
fn all_calls_of_services_that_nobody_offers_are_counted_and_shown() {
    let hub = MemoryHub::new();
    let agent = consumer_with_metrics(&hub, "");
    let mut http = [Http::to(&agent), Http::to(&agent)];
    let (n_services, n_rounds) = (100, 3);
    for _ in 0..n_rounds {
        for n in 0..n_services {
            assert_eq!(echo(&mut http[n % 2], &format!("com.acme.Gone{n}")).0, 404);
        }
    }
    let counted = |text: &str| {
        let mine = text.lines().filter(|line| {
            line.starts_with("dubmesh_upstream_calls_total{")
                && line.contains("code=\"service_not_found\"")
        });
        mine.filter_map(|line| line.rsplit(' ').next()?.parse::<usize>().ok()).sum::<usize>()
    };
    let mut admin = Http::connect(agent.addresses().admin.unwrap());
    let mut get = |page: &str| {
        admin.send(format!("GET {page} HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n"));
        admin.read().body
    };
    wait_until("all counts", || (counted(&get("/metrics")) == n_rounds * n_services).then_some(()));
    let services: Page<ServiceSnapshot> = serde_json::from_str(&get("/services")).unwrap();
    let n_shown: u64 =
        services.items.iter().flat_map(|it| it.failed_without_endpoint.values()).sum();
    assert_eq!(n_shown, (n_rounds * n_services) as u64);
    assert!(services.items.iter().any(|it| it.service == "other"), "{services:?}");
    assert!(services.items.len() <= 65, "{}", services.items.len());
    let one = get("/services?service=com.acme.Gone7");
    let one: Page<ServiceSnapshot> = serde_json::from_str(&one).unwrap();
    assert_eq!((one.total, one.items[0].registry.as_str()), (1, "main"));
}

/// A file may list what others can use. The rest of it counts, and callers are told what was seen.
#[test]
fn what_cannot_be_called_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let services = folder.path().join("services.toml");
    let write = |endpoints: &str| {
        let text = format!("[[service]]\ninterface = \"{SERVICE}\"\nendpoints = [{endpoints}]\n");
        std::fs::write(&services, text).unwrap();
    };
    write("\"tri://10.0.0.1:50051\", \"dubbo://10.0.0.2:1?disabled=true\"");
    let text = format!(
        "[admin]\nenabled = false\n[[registry]]\nkind = \"file\"\npath = {services:?}\n\
         [[ingress]]\nprotocol = \"http\"\nlisten = \"127.0.0.1:0\"\n"
    );
    let agent = Agent::start(config::parse(&text, "test.toml").unwrap()).unwrap();
    let answer = call(&agent, "echo", &[STRING], "[\"x\"]");
    assert_eq!((answer.status, &*answer.code()), (404, "service_not_found"));
    for part in [
        "that can be used",
        "tri://10.0.0.1:50051 (protocol tri is not supported, only dubbo and link)",
        "dubbo://10.0.0.2:1 (disabled)",
    ] {
        assert!(answer.body.contains(part), "{part} is not in {answer:?}");
    }

    let provider = FakeProvider::start(Behaviour::Good);
    write(&format!("\"tri://10.0.0.1:50051\", \"dubbo://{}\"", provider.addr));
    wait_until("a good answer", || {
        (call(&agent, "echo", &[STRING], "[\"x\"]").status == 200).then_some(())
    });

    // Switched off by hand: at once, although its connection answers.
    write(&format!("\"dubbo://{}?disabled=true\"", provider.addr));
    wait_until("its end", || {
        (call(&agent, "echo", &[STRING], "[\"x\"]").status == 503).then_some(())
    });
    let answer = call(&agent, "echo", &[STRING], "[\"x\"]");
    assert!(answer.body.contains("(disabled)"), "{answer:?}");
}
