//! The trace context of a call reaches the service, whatever protocols it passes.

use crate::support::dubbo::DubboConsumer;
use crate::support::http_app::{Does, TestApp};
use crate::support::{
    Behaviour, FakeProvider, SERVICE, STRING, call, consumer, dubbo_consumer, dubbo_exporting,
    exporting, provider_agent, register, wait_until,
};
use agent::Agent;
use dubbo_proto::Status;
use registry::MemoryHub;

/// W3C Trace Context and Baggage.
const TRACE: [(&str, &str); 3] = [
    ("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
    ("tracestate", "congo=t61rcWkgMzE,rojo=00f067aa0ba902b7"),
    ("baggage", "userId=alice,serverNode=DF%2028"),
];

/// Where a call can end.
enum TracedApp {
    Dubbo(FakeProvider),
    Http(TestApp),
}

impl TracedApp {
    fn dubbo() -> Self {
        Self::Dubbo(FakeProvider::start(Behaviour::Good))
    }

    fn http() -> Self {
        Self::Http(TestApp::start(|_| Does::json("\"\"")))
    }

    /// Asserts that the last call came with the trace. A Dubbo service returns what was attached.
    fn has_seen_trace(&self, returned: &[u8], way: &str) {
        for (name, value) in TRACE {
            let is_there = match self {
                Self::Dubbo(_) => {
                    let has =
                        |part: &str| returned.windows(part.len()).any(|w| w == part.as_bytes());
                    has(name) && has(value)
                }
                Self::Http(app) => app.last().header(name) == Some(value),
            };
            assert!(is_there, "{way}: no {name}");
        }
    }
}

fn by_http(agent: &Agent, service: &TracedApp, way: &str) {
    let headers = TRACE.map(|(name, value)| format!("{name}: {value}"));
    let mut all: Vec<&str> = headers.iter().map(String::as_str).collect();
    all.push(STRING);
    let answer = wait_until("an answer", || {
        let answer = call(agent, "attached", &all, "[\"x\"]");
        (answer.status == 200).then_some(answer)
    });
    service.has_seen_trace(answer.body.as_bytes(), way);
}

fn by_dubbo(consumer: &mut DubboConsumer, service: &TracedApp, way: &str) {
    let answer = wait_until("an answer", || {
        let answer = consumer.call("attached", "x", &TRACE);
        (answer.status == Status::Ok).then_some(answer)
    });
    service.has_seen_trace(answer.value(), way);
}

#[test]
fn straight_to_a_dubbo_provider() {
    let hub = MemoryHub::new();
    let service = TracedApp::dubbo();
    let TracedApp::Dubbo(provider) = &service else { unreachable!() };
    let _registered = register(&hub, provider.addr);
    by_http(&consumer(&hub, ""), &service, "http, dubbo");
    let agent = dubbo_consumer(&hub, "");
    by_dubbo(&mut DubboConsumer::to(&agent), &service, "dubbo, dubbo");
}

#[test]
fn over_a_link() {
    for service in [TracedApp::dubbo(), TracedApp::http()] {
        let hub = MemoryHub::new();
        let (_exporting, app) = match &service {
            TracedApp::Dubbo(provider) => (provider_agent(&hub, provider.addr), "a Dubbo app"),
            TracedApp::Http(app) => {
                let export = format!("interface = \"{SERVICE}\"\napp = \"http://{}\"\n", app.addr);
                (exporting(&hub, &export), "an HTTP app")
            }
        };
        by_http(&consumer(&hub, ""), &service, &format!("http, link, {app}"));
        let agent = dubbo_consumer(&hub, "");
        by_dubbo(&mut DubboConsumer::to(&agent), &service, &format!("dubbo, link, {app}"));
    }
}

#[test]
fn from_a_dubbo_consumer_to_the_app_beside_the_agent() {
    for service in [TracedApp::dubbo(), TracedApp::http()] {
        let app = match &service {
            TracedApp::Dubbo(provider) => format!("dubbo://{}", provider.addr),
            TracedApp::Http(app) => format!("http://{}", app.addr),
        };
        let export = format!("interface = \"{SERVICE}\"\napp = \"{app}\"\n");
        let agent = dubbo_exporting(&MemoryHub::new(), &export);
        let mut consumer = DubboConsumer::connect(agent.addresses().dubbo_exports.unwrap());
        by_dubbo(&mut consumer, &service, &format!("dubbo, {app}"));
    }
}
