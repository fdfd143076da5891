//! Endpoints that answer what nobody can read, or exceptions: how that counts.

use crate::support::dubbo::DubboConsumer;
use crate::support::{
    Behaviour, FakeProvider, Http, SERVICE, STRING, consumer_with_metrics, exporting_with_admin,
    metric, n_calls, register, start, wait_until,
};
use agent::Agent;
use dubbo_proto::Status;
use registry::MemoryHub;

/// No call goes to a second endpoint.
const BASE: &str = "[defaults]\nbalance = \"round-robin\"\nmax_attempts = 1\n";
const NEVER_OUT: &str = "eject_max_percent = 0\n";
const EJECTS: &str = "eject_failures = 2\neject_ms = 600000\neject_max_ms = 600000\n";
const BREAKS: &str = "[[defaults.method]]\nnames = [\"echo\"]\nbreaker = true\n\
                      breaker_failures = 2\nbreaker_open_ms = 600000\n\
                      breaker_max_open_ms = 600000\n";

fn echo(agent: &Agent) -> u16 {
    Http::to(agent).post(&format!("/{SERVICE}/echo"), &[STRING], "[\"a\"]").status
}

/// Two workers find out by themselves. Of a value that breaks off further on, each sees one more.
#[test]
fn who_answers_what_nobody_can_read_is_left_out() {
    for behaviour in [Behaviour::BrokenKind, Behaviour::BrokenValue] {
        let hub = MemoryHub::new();
        let [bad, good] = [behaviour, Behaviour::Good].map(FakeProvider::start);
        let _registered = [&bad, &good].map(|provider| register(&hub, provider.addr));

        let agent = consumer_with_metrics(&hub, &format!("{BASE}{EJECTS}"));
        let ejected = format!("dubmesh_endpoints_ejected{{service=\"{SERVICE}\"}}");
        wait_until("it is ejected", || {
            // Failures within a millisecond count once.
            std::thread::sleep(std::time::Duration::from_millis(2));
            let _ = echo(&agent);
            (metric(&agent, &ejected) == 1 && (0..20).all(|_| echo(&agent) == 200)).then_some(())
        });
        assert!(4 <= n_calls(&agent, bad.addr, "bad_reply"), "{behaviour:?}");
        assert_eq!(n_calls(&agent, good.addr, "bad_reply"), 0);

        let agent = consumer_with_metrics(&hub, &format!("{BASE}{NEVER_OUT}{BREAKS}"));
        let labels = format!("service=\"{SERVICE}\",event=\"circuit_opened\"");
        let opened = format!("dubmesh_upstream_method_events_total{{{labels}}}");
        wait_until("both circuits are open", || {
            let _ = echo(&agent);
            (metric(&agent, &opened) == 2).then_some(())
        });
        let n_requests = bad.n_requests();
        assert!((0..20).all(|_| echo(&agent) == 200));
        assert_eq!(bad.n_requests(), n_requests, "it is left out");
    }
}

/// An agent with both kinds of listeners, and one worker.
fn both_listeners(hub: &MemoryHub, extra: &str) -> Agent {
    let text = format!(
        "[admin]\nlisten = \"127.0.0.1:0\"\n[agent]\nworkers = 1\n\
         [[registry]]\nname = \"main\"\nkind = \"file\"\npath = \"x\"\n\
         [[ingress]]\nprotocol = \"http\"\nlisten = \"127.0.0.1:0\"\n\
         [[ingress]]\nprotocol = \"dubbo\"\nlisten = \"127.0.0.1:0\"\n{extra}"
    );
    start(&text, hub)
}

/// The same numbers for callers of both kinds, directly and behind the provider's agent.
#[test]
fn failures_in_replies_are_counted_by_their_names() {
    // What a broken value counts as is seen only once one was read.
    for (behaviour, status, code, n_unseen) in [
        (Behaviour::Throws, 500, "exception", 0),
        (Behaviour::BrokenKind, 502, "bad_reply", 0),
        (Behaviour::BrokenValue, 502, "bad_reply", 1),
    ] {
        for with_agent in [false, true] {
            let hub = MemoryHub::new();
            let provider = FakeProvider::start(behaviour);
            let (registered, behind) = match with_agent {
                false => (Some(register(&hub, provider.addr)), None),
                true => {
                    let lines =
                        format!("interface = \"{SERVICE}\"\napp = \"dubbo://{}\"\n", provider.addr);
                    (None, Some(exporting_with_admin(&hub, &lines)))
                }
            };
            let agent = both_listeners(&hub, &format!("{BASE}{NEVER_OUT}"));
            wait_until("the provider is there", || (echo(&agent) == status).then_some(()));
            let of = |name: &str, labels: &str| {
                metric(&agent, &format!("dubmesh_{name}{{service=\"{SERVICE}\",{labels}}}"))
            };
            let endpoint = match &behind {
                Some(behind) => behind.addresses().link.unwrap(),
                None => provider.addr,
            };
            let counts = || {
                let upstream = ["ok", code].map(|code| n_calls(&agent, endpoint, code));
                let method = ["ok", code].map(|code| {
                    of("method_calls_total", &format!("method=\"echo\",code=\"{code}\""))
                });
                let took = ["ok", "failed"].map(|outcome| {
                    let labels = format!("endpoint=\"{endpoint}\",outcome=\"{outcome}\"");
                    of("upstream_latency_seconds_count", &labels)
                });
                (upstream, method, took)
            };
            let what = format!("{behaviour:?} {with_agent}");
            let (upstream, method, took) = counts();
            assert_eq!((upstream[0], method[0], took[0]), (n_unseen, n_unseen, n_unseen), "{what}");
            let n_failed = upstream[1];
            for _ in 0..3 {
                assert_eq!(echo(&agent), status, "{what}");
            }
            let (upstream, method, took) = counts();
            assert_eq!(upstream, [n_unseen, n_failed + 3], "{what}");
            assert_eq!((method, took), (upstream, upstream), "{what}");

            // A consumer of Dubbo's own gets the reply as it is.
            let mut consumer = DubboConsumer::to(&agent);
            assert_eq!(consumer.call("echo", "a", &[]).status, Status::Ok, "{what}");
            assert_eq!(n_calls(&agent, endpoint, code), n_failed + 4, "{what}");
            let listener = agent.addresses().dubbo[0];
            let labels = format!("listener=\"{listener}\",code=\"{code}\"");
            assert_eq!(metric(&agent, &format!("dubmesh_ingress_calls_total{{{labels}}}")), 1);
            // The provider's agent looks at no more than the front.
            if let Some(behind) = &behind {
                let shown = if n_unseen == 0 { code } else { "ok" };
                let labels = format!("service=\"{SERVICE}\",code=\"{shown}\"");
                let n_seen = metric(behind, &format!("dubmesh_export_calls_total{{{labels}}}"));
                assert_eq!(n_seen, provider.n_requests() as u64, "{what}");
            }
            drop((registered, behind));
        }
    }
}
