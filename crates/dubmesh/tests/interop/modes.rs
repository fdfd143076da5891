//! How calls are spread over real Java providers where a method says so, and what stands for
//! their failures.

use std::time::{Duration, Instant};

use crate::support::{Agent, HELLO, HttpResponse, TYPES, java, post, wait_until};
use interop_harness::{DubboVersion, JavaProvider};

/// `hash` takes so long at the slow provider.
const SLOW: Duration = Duration::from_secs(8);

/// One that is fast, and one of another version that is slow.
struct FastAndSlowProviders {
    fast: JavaProvider,
    slow: JavaProvider,
}

impl FastAndSlowProviders {
    fn start() -> Self {
        Self {
            fast: java(DubboVersion::V3_3, None, Duration::ZERO),
            slow: java(DubboVersion::V2_7, None, SLOW),
        }
    }

    fn both(&self) -> Agent {
        consumer(&[&self.fast, &self.slow])
    }

    /// How often each has carried `note` out with this key.
    fn noted(&self, key: &str) -> [u64; 2] {
        [&self.fast, &self.slow].map(|provider| noted(&consumer(&[provider]), key))
    }
}

fn noted(agent: &Agent, key: &str) -> u64 {
    types(agent, "noted", &format!("[\"{key}\"]")).body.parse().unwrap()
}

/// How calls of the two services are made.
const RULES: &str = r#"
[agent]
workers = 1
[log]
format = "json"
[admin]
listen = "127.0.0.1:0"
[[ingress]]
protocol = "http"
listen = "127.0.0.1:0"
[defaults]
timeout_ms = 20000
balance = "round-robin"
eject_max_percent = 0
[[cluster]]
interface = "com.alibaba.dubbo.performance.demo.provider.IHelloService"
idempotent = ["hash"]
[[cluster.method]]
names = ["hash"]
cluster = "hedging"
hedge_after_ms = 50
[[cluster]]
interface = "org.dubmesh.interop.TypesService"
idempotent = ["textOfLen", "text"]
[[cluster.method]]
names = ["note"]
cluster = "broadcast"
[[cluster.method]]
names = ["textOfLen"]
cluster = "forking"
forks = 2
[[cluster.method]]
names = ["sleep", "failUnchecked"]
cluster = "failsafe"
[[cluster.method]]
names = ["int32"]
mock = "force:return 42"
[[cluster.method]]
names = ["bool"]
mock = "throw org.dubmesh.interop.BusinessException"
[[cluster.method]]
names = ["add"]
mirror_percent = 100
mirror_group = "blue"
mirror_version = "2.0.0"
[[cluster.method]]
names = ["text"]
rate_limit = 1
rate_burst = 2
"#;

/// An agent that calls these providers.
fn consumer(providers: &[&JavaProvider]) -> Agent {
    let section = |interface: &str, variant: &str, params: &str| {
        let urls: Vec<_> = providers.iter().map(|it| format!("\"{}{params}\"", it.url())).collect();
        let urls = urls.join(", ");
        format!(
            "[[registry.service]]\ninterface = \"{interface}\"\n{variant}endpoints = [{urls}]\n"
        )
    };
    let blue = "group = \"blue\"\nversion = \"2.0.0\"\n";
    let services = [
        section(HELLO, "", ""),
        section(TYPES, "", ""),
        section(TYPES, blue, "?group=blue&version=2.0.0"),
    ];
    let services = services.concat();
    Agent::start("consumer", &format!("{RULES}[[registry]]\nkind = \"static\"\n{services}"))
}

fn types(agent: &Agent, method: &str, arguments: &str) -> HttpResponse {
    post(agent.http(), &format!("/{TYPES}/{method}"), &[], arguments)
}

/// How often something came of the rules of a service's methods.
fn n_events(agent: &Agent, event: &str) -> u64 {
    let wanted = format!("event=\"{event}\"");
    let metrics = agent.metrics();
    let lines = metrics.lines().filter(|it| it.starts_with("dubmesh_upstream_method_events_total"));
    let counts = lines.filter(|line| line.contains(&wanted)).filter_map(|line| {
        let (_, count) = line.rsplit_once(' ')?;
        count.parse::<u64>().ok()
    });
    counts.sum()
}

#[test]
fn modes_hold_with_java_providers() {
    let providers = FastAndSlowProviders::start();
    let agent = providers.both();
    several_are_asked(&providers, &agent);
    failures_are_replaced(&agent);
    // The copy goes to another version of the service.
    assert_eq!(&*types(&agent, "add", "[1,2]").body, "3");
    wait_until("the copy is answered", || 1 <= n_events(&agent, "mirror_answered"));
    let statuses = [(); 3].map(|()| types(&agent, "text", "[\"a\"]").status);
    assert_eq!(statuses, [200, 200, 429], "the rate limit");
    providers_go(providers, &agent);
}

fn several_are_asked(providers: &FastAndSlowProviders, agent: &Agent) {
    // Hedging: whichever provider is asked first, the answer is that of the fast one.
    wait_until("a hedge", || {
        let began = Instant::now();
        let answer = post(agent.http(), &format!("/{HELLO}/hash"), &[], "[\"a\"]");
        assert_eq!((answer.status, &*answer.body), (200, "97"));
        assert!(began.elapsed() < SLOW, "{:?}", began.elapsed());
        1 <= n_events(agent, "hedged")
    });
    // Broadcast: each has carried it out once.
    let answer = types(agent, "note", "[\"everybody\"]");
    assert_eq!((answer.status, &*answer.body), (200, "null"));
    assert_eq!(providers.noted("everybody"), [1, 1]);
    // Forking: one answer.
    let answer = types(agent, "textOfLen", "[5]");
    assert_eq!((answer.status, answer.body.len()), (200, 7), "{answer:?}");
}

fn failures_are_replaced(agent: &Agent) {
    // Failsafe: null for a failure, but a service's own exception is told.
    let timeout = ["x-dubbo-timeout-ms: 200"];
    let answer = post(agent.http(), &format!("/{TYPES}/sleep"), &timeout, "[5000]");
    assert_eq!((answer.status, &*answer.body), (200, "null"));
    let answer = types(agent, "failUnchecked", "[\"bad\"]");
    assert_eq!(answer.code(), "exception", "{answer:?}");
    let answer = types(agent, "int32", "[1]");
    assert_eq!((answer.status, &*answer.body), (200, "42"));
    assert_eq!(&*types(agent, "bool", "[true]").body, "true", "only failures are mocked");
}

fn providers_go(providers: FastAndSlowProviders, agent: &Agent) {
    let FastAndSlowProviders { fast, mut slow } = providers;
    slow.kill9();
    wait_until("a broadcast fails", || types(agent, "note", "[\"half\"]").status != 200);
    drop(fast);
    wait_until("a mock where nobody is left", || {
        types(agent, "bool", "[true]").body.contains("BusinessException")
    });
    assert_eq!(&*types(agent, "int32", "[1]").body, "42");
}
