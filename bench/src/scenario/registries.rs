//! An agent beside a registry with a lot in it: long lists, many services, a flood of changes, and
//! a store that is killed, all under a steady load of calls.
//!
//! The providers that make the lists long are addresses of this machine where nobody listens. One
//! real provider takes the calls. A change is seen by asking the agent's own page of endpoints: it
//! counts once the balancer of the worker that calls the service has it.

mod flood;
mod store;
mod tap;
mod watcher;

use std::env;
use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use self::flood::{Flooded, Marker, flood};
use self::store::{Store, StoreKind, Writer};
use crate::agent::{Agent, EmbeddedProvider};
use crate::error::BenchError;
use crate::estate::{start_agent, wait_for_first_answer};
use crate::http::Client;
use crate::load::{INTERFACE, Style};
use crate::machine;
use crate::measure::{median, rounded};
use crate::open_load::{self, Miss, OpenLoad, percentile_ms};
use crate::plan::Plan;
use crate::target::Target;
use crate::usage::{cpu, peak_rss_mb, rss_mb};

const NAME: &str = "registries";
const N_PROVIDERS: usize = 5_000;
const N_SERVICES: usize = 500;
const N_PER_SERVICE: usize = 3;
/// Providers that are there while others come and go, and the number of the first of them.
const N_LASTING: usize = 500;
const FIRST_LASTING: usize = 20_000;
const CALLS_PER_S: u32 = 500;
const DEADLINE: Duration = Duration::from_secs(1);
const PATIENCE: Duration = Duration::from_secs(30);
/// What a list leaves to be done later is done by then.
const SETTLE_TIME: Duration = Duration::from_secs(1);
/// An agent gives memory back that it has not used for a second.
const GIVE_BACK_TIME: Duration = Duration::from_secs(3);
/// How long the store is away.
const AWAY: Duration = Duration::from_secs(2);

const MAX_LIST_MS: f64 = 1000.0;
const MAX_LIST_MB: f64 = 40.0;
const MAX_CHANGE_MS: f64 = 100.0;

/// What one round saw.
struct Measured {
    list_ms: f64,
    list_mb: f64,
    services_ms: f64,
    services_mb: f64,
    changes: Vec<Duration>,
    /// The same from when the store's push reached the agent, where that is seen.
    from_push: Vec<Duration>,
    /// The same of a watcher that does nothing else, instead of the agent.
    bare_changes: Vec<Duration>,
    changes_per_s: f64,
    /// CPU of the agent, and of the store, a second of the flood, in cores.
    agent_cores: f64,
    store_cores: f64,
    flood_failed: u64,
    restart_failed: u64,
    n_calls: u64,
    peak_mb: f64,
}

impl Measured {
    fn n_failed(&self) -> f64 {
        (self.flood_failed + self.restart_failed) as f64
    }
}

/// An agent over a store, and a provider that it calls.
struct Estate {
    store: Store,
    writer: Writer,
    agent: Agent,
    _provider: EmbeddedProvider,
}

impl Estate {
    fn start(plan: &Plan, kind: StoreKind) -> Result<Option<Self>, BenchError> {
        let Some(store) = Store::start(kind)? else { return Ok(None) };
        let mut writer = store.writer()?;
        let args = ["--listen", "127.0.0.1:0", "--work-ms", "0", "--threads", "200"];
        let provider = EmbeddedProvider::start(&plan.dubmesh, &args)?;
        writer.make_folder(INTERFACE)?;
        let url = format!("dubbo://{}/{INTERFACE}?application=orders", provider.addr);
        writer.change(INTERFACE, &[url], &[])?;
        let section = store.section();
        let agent = start_agent(plan, "consumer", |ports| {
            format!(
                "{section}[[ingress]]\nprotocol = \"http\"\nlisten = \"127.0.0.1:{}\"\n",
                ports.http
            )
        })?;
        let http = agent.addr(agent.ports.http);
        wait_for_first_answer(kind.name(), http, Style::Form)?;
        Ok(Some(Self { store, writer, agent, _provider: provider }))
    }

    fn http(&self) -> SocketAddr {
        self.agent.addr(self.agent.ports.http)
    }

    fn admin(&self) -> Result<Client, BenchError> {
        let admin = self.agent.addr(self.agent.ports.admin);
        Client::connect(admin).map_err(BenchError::io("the admin listener"))
    }

    fn rss_mb(&self) -> f64 {
        rss_mb(self.agent.child.pid())
    }

    /// Begins to look a service up, by a call that nobody can answer.
    fn look_up(&self, client: &mut Client, interface: &str) -> Result<(), BenchError> {
        let head = format!("POST /{interface}/hash HTTP/1.1\r\ncontent-type: application/json");
        client.request(&head, "[\"a\"]").map_err(BenchError::io("the agent"))?;
        Ok(())
    }

    /// Until the worker that was asked for a service has so many endpoints of it.
    fn wait_for(&self, interface: &str, n_endpoints: usize) -> Result<(), BenchError> {
        let mut admin = self.admin()?;
        let page = format!("/services?service={interface}");
        wait(interface, || {
            let services = items(&mut admin, &page)?;
            Ok(services.iter().any(|it| it["endpoints"] == n_endpoints))
        })
    }

    /// The time from the first call until the long list is there, and how much memory it takes.
    fn long_list(&mut self, n_providers: usize) -> Result<(f64, f64), BenchError> {
        const MANY: &str = "com.acme.Many";
        self.writer.make_folder(MANY)?;
        for chunk in urls(MANY, 0..n_providers).chunks(500) {
            self.writer.change(MANY, chunk, &[])?;
        }
        thread::sleep(SETTLE_TIME);
        let (before, http) = (self.rss_mb(), self.http());
        let began = Instant::now();
        let caller = thread::spawn(move || {
            // It fails, and may wait for endpoints that do not answer.
            let head = format!("POST /{MANY}/hash HTTP/1.1\r\ncontent-type: application/json");
            let _ = Client::connect(http).and_then(|mut it| it.request(&head, "[\"a\"]"));
        });
        self.wait_for(MANY, n_providers)?;
        let list_ms = began.elapsed().as_secs_f64() * 1e3;
        let _ = caller.join();
        thread::sleep(GIVE_BACK_TIME);
        Ok((list_ms, self.rss_mb() - before))
    }

    /// The time in which all of many services are called for the first time, and the memory.
    fn many_services(&mut self, n_services: usize) -> Result<(f64, f64), BenchError> {
        let name = |n: usize| format!("com.acme.Service{n}");
        for n in 0..n_services {
            self.writer.make_folder(&name(n))?;
            let first = 10_000 + n * N_PER_SERVICE;
            self.writer.change(&name(n), &urls(&name(n), first..first + N_PER_SERVICE), &[])?;
        }
        let (before, began) = (self.rss_mb(), Instant::now());
        let mut client = Client::connect(self.http()).map_err(BenchError::io("the agent"))?;
        for n in 0..n_services {
            self.look_up(&mut client, &name(n))?;
        }
        let services_ms = began.elapsed().as_secs_f64() * 1e3;
        thread::sleep(GIVE_BACK_TIME);
        Ok((services_ms, self.rss_mb() - before))
    }

    /// How long it takes from when the store has confirmed a change until the balancer has it.
    fn flood(&mut self, duration: Duration) -> Result<Flooded, BenchError> {
        const BUSY: &str = "com.acme.Busy";
        self.writer.make_folder(BUSY)?;
        let lasting = urls(BUSY, FIRST_LASTING..FIRST_LASTING + N_LASTING);
        self.writer.change(BUSY, &lasting, &[])?;
        let mut client = Client::connect(self.http()).map_err(BenchError::io("the agent"))?;
        self.look_up(&mut client, BUSY)?;
        self.look_up(&mut client, BUSY)?;
        self.wait_for(BUSY, N_LASTING)?;
        let mut admin = self.admin()?;
        let tap = self.store.tap().cloned();
        flood(&mut self.writer, tap.as_ref(), BUSY, lasting, duration, move |marker| {
            let page = format!("/endpoints?service={BUSY}&address={}", marker.address);
            wait(&marker.address, || {
                let endpoints = items(&mut admin, &page)?;
                let states = endpoints.first().and_then(|it| it["standing"].as_object());
                let workers = states.into_iter().flatten().filter_map(|(_, n)| n.as_u64());
                Ok(0 < workers.sum::<u64>())
            })
        })
    }

    /// The same flood of a service that the agent does not know, and a watcher that does nothing
    /// else: what the store takes by itself. Nothing for a store that has no such watcher.
    fn bare_flood(&mut self, duration: Duration) -> Result<Vec<Duration>, BenchError> {
        const BARE: &str = "com.acme.Bare";
        self.writer.make_folder(BARE)?;
        let Some(mut watcher) = self.store.watcher(BARE)? else { return Ok(Vec::new()) };
        let lasting = urls(BARE, FIRST_LASTING..FIRST_LASTING + N_LASTING);
        self.writer.change(BARE, &lasting, &[])?;
        let wait = move |marker: &Marker| watcher.wait_for(BARE, &marker.url);
        Ok(flood(&mut self.writer, None, BARE, lasting, duration, wait)?.times)
    }
}

/// Calls the real provider while something else happens. Returns how many calls there were, how
/// many failed, and what came of the other thing.
fn under_load<T>(
    http: SocketAddr,
    duration: Duration,
    action: impl FnOnce() -> Result<T, BenchError>,
) -> Result<(u64, u64, T), BenchError> {
    let load = thread::spawn(move || {
        let request = Style::Form.request("hello", DEADLINE);
        let (addr, per_s, deadline) = (http, CALLS_PER_S, DEADLINE);
        open_load::run(&OpenLoad { addr, request: &request, per_s, duration, deadline })
    });
    let done = action()?;
    let outcome =
        load.join().unwrap_or_else(|_| Err(BenchError::NoResult { output: "a panic".into() }))?;
    let failed = outcome.ends.iter().filter(|it| !it.is_good).count();
    for Miss { end, said } in &outcome.misses {
        eprintln!("{NAME}: a call due after {:?} failed after {:?}: {said}", end.due, end.time);
    }
    Ok((outcome.n_offered, failed as u64, done))
}

/// How many providers the long list has, and how many services there are.
fn sizes(plan: &Plan) -> (usize, usize) {
    if plan.is_quick { (500, 50) } else { (N_PROVIDERS, N_SERVICES) }
}

/// One round; `None` if the store is not installed.
fn measure(plan: &Plan, kind: StoreKind) -> Result<Option<Measured>, BenchError> {
    let Some(mut estate) = Estate::start(plan, kind)? else { return Ok(None) };
    let (n_providers, n_services) = sizes(plan);
    let (list_ms, list_mb) = estate.long_list(n_providers)?;
    let (services_ms, services_mb) = estate.many_services(n_services)?;
    let (http, seconds) = (estate.http(), plan.seconds.max(Duration::from_secs(2)));
    let (_, _, bare_changes) = under_load(http, seconds, || estate.bare_flood(seconds))?;
    let pids = [Some(estate.agent.child.pid()), estate.store.pid()];
    let used = || pids.map(|pid| pid.map_or(Duration::ZERO, cpu).as_secs_f64());
    let (before, began) = (used(), Instant::now());
    let (n_flood, flood_failed, flooded) = under_load(http, seconds, || estate.flood(seconds))?;
    let (after, elapsed) = (used(), began.elapsed().as_secs_f64());
    let outage = AWAY * 3;
    let (n_restart, restart_failed, ()) = under_load(http, outage, || {
        thread::sleep(AWAY / 4);
        estate.store.kill9();
        thread::sleep(AWAY);
        estate.store.restart()
    })?;
    Ok(Some(Measured {
        list_ms,
        list_mb,
        services_ms,
        services_mb,
        changes: flooded.times,
        from_push: flooded.from_push,
        bare_changes,
        changes_per_s: flooded.changes_per_s,
        agent_cores: (after[0] - before[0]) / elapsed,
        store_cores: (after[1] - before[1]) / elapsed,
        flood_failed,
        restart_failed,
        n_calls: n_flood + n_restart,
        peak_mb: peak_rss_mb(estate.agent.child.pid()),
    }))
}

pub(crate) fn run(plan: &Plan) -> Result<(), BenchError> {
    let wanted = env::var("BENCH_STORES").unwrap_or_default();
    let is_wanted =
        |kind: &StoreKind| wanted.is_empty() || wanted.split(',').any(|it| it == kind.name());
    let mut rows: Vec<(StoreKind, Vec<Measured>)> =
        StoreKind::ALL.into_iter().filter(is_wanted).map(|kind| (kind, Vec::new())).collect();
    for n_round in 1..=plan.n_rounds {
        for (kind, rounds) in &mut rows {
            let measured = measure(plan, *kind)?;
            let said = if measured.is_some() { "measured" } else { "not installed" };
            eprintln!("{NAME} {n_round}/{}: {} {said}", plan.n_rounds, kind.name());
            rounds.extend(measured);
        }
    }
    rows.retain(|(_, rounds)| !rounds.is_empty());
    report(plan, &rows)
}

fn report(plan: &Plan, rows: &[(StoreKind, Vec<Measured>)]) -> Result<(), BenchError> {
    let (n_providers, n_services) = sizes(plan);
    println!(
        "\n{NAME}: {n_providers} providers of one service, {n_services} services, changes for {} \
         s, {CALLS_PER_S} calls/s meanwhile; {} rounds, medians",
        plan.seconds.as_secs(),
        plan.n_rounds
    );
    println!(
        "{:<10} {:>8} {:>8} {:>12} {:>12} {:>10} {:>14} {:>16} {:>16} {:>7} {:>7} {:>7}",
        "store",
        "list ms",
        "list MB",
        "services ms",
        "services MB",
        "changes/s",
        "p50/p99 ms",
        "from push",
        "without agent",
        "agent",
        "store",
        "failed"
    );
    let (mut values, mut lines) = (Vec::new(), Vec::new());
    for (kind, rounds) in rows {
        let of = |figure: fn(&Measured) -> f64| median(rounds.iter().map(figure).collect());
        let [p50, p99] = [0.5, 0.99].map(|share| percentile(rounds, |it| &it.changes, share));
        let [bare_p50, bare_p99] =
            [0.5, 0.99].map(|share| percentile(rounds, |it| &it.bare_changes, share));
        let [push_p50, push_p99] =
            [0.5, 0.99].map(|share| percentile(rounds, |it| &it.from_push, share));
        let failed = of(Measured::n_failed);
        let (list_ms, list_mb) = (of(|it| it.list_ms), of(|it| it.list_mb));
        println!(
            "{:<10} {list_ms:>8.0} {list_mb:>8.1} {:>12.0} {:>12.1} {:>10.0} {p50:>7.1}/{p99:<6.1} \
             {push_p50:>8.1}/{push_p99:<7.1} {bare_p50:>8.1}/{bare_p99:<7.1} {:>7.2} {:>7.2} \
             {failed:>7.0}",
            kind.name(),
            of(|it| it.services_ms),
            of(|it| it.services_mb),
            of(|it| it.changes_per_s),
            of(|it| it.agent_cores),
            of(|it| it.store_cores),
        );
        // The aim is a time from the store's push. It is shorter than the one from the write.
        let is_push_seen = rounds.iter().any(|it| !it.from_push.is_empty());
        let change_p99 = if is_push_seen { push_p99 } else { p99 };
        let targets = [
            Target::at_most("time until the long list", list_ms, MAX_LIST_MS, " ms"),
            Target::at_most("memory of the long list", list_mb, MAX_LIST_MB, " MB"),
            Target::at_most("p99 of a change", change_p99, MAX_CHANGE_MS, " ms"),
            Target::at_most("failed calls", failed, 0.0, ""),
        ];
        lines.extend(targets.iter().map(|it| format!("{}: {}", kind.name(), it.line())));
        values.push(to_json(plan, *kind, rounds, &targets));
    }
    println!("\n{}", lines.join("\n"));
    let path = plan.results.join(format!("{NAME}.json"));
    let text = format!("{:#}\n", Value::from(values));
    std::fs::write(&path, text).map_err(BenchError::file(&path))?;
    println!("\nwritten: {}", path.display());
    Ok(())
}

fn percentile(rounds: &[Measured], changes: fn(&Measured) -> &[Duration], share: f64) -> f64 {
    median(rounds.iter().map(|it| percentile_ms(changes(it), share)).collect())
}

fn to_json(plan: &Plan, kind: StoreKind, rounds: &[Measured], targets: &[Target]) -> Value {
    let (n_providers, n_services) = sizes(plan);
    let of = |figure: fn(&Measured) -> f64| rounded(median(rounds.iter().map(figure).collect()));
    let change = |share| rounded(percentile(rounds, |it| &it.changes, share));
    let push_change = |share| rounded(percentile(rounds, |it| &it.from_push, share));
    let bare_change = |share| rounded(percentile(rounds, |it| &it.bare_changes, share));
    let mut value = json!({
        "scenario": NAME,
        "program": kind.name(),
        "codec": "hessian2",
        "loop": "open",
        "offered_per_s": CALLS_PER_S,
        "seconds": plan.seconds.as_secs(),
        "providers": n_providers,
        "services": n_services,
        "list_ms": of(|it| it.list_ms),
        "list_mb": of(|it| it.list_mb),
        "services_ms": of(|it| it.services_ms),
        "services_mb": of(|it| it.services_mb),
        "changes_per_s": of(|it| it.changes_per_s),
        "changes_seen": rounds.iter().map(|it| it.changes.len()).sum::<usize>(),
        "p50_ms": change(0.5),
        "p99_ms": change(0.99),
        "push_p50_ms": push_change(0.5),
        "push_p99_ms": push_change(0.99),
        "bare_p50_ms": bare_change(0.5),
        "bare_p99_ms": bare_change(0.99),
        "agent_cores": of(|it| it.agent_cores),
        "store_cores": of(|it| it.store_cores),
        "calls": rounds.iter().map(|it| it.n_calls).sum::<u64>(),
        "errors": of(Measured::n_failed),
        "errors_in_flood": rounds.iter().map(|it| it.flood_failed).collect::<Vec<_>>(),
        "errors_in_restart": rounds.iter().map(|it| it.restart_failed).collect::<Vec<_>>(),
        "rss_mb": { "consumer-agent": of(|it| it.peak_mb) },
        "is_quick": plan.is_quick,
        "targets": targets.iter().map(Target::json).collect::<Vec<_>>(),
    });
    if let (Value::Object(fields), Value::Object(origin)) = (&mut value, machine::origin()) {
        fields.extend(origin);
    }
    value
}

/// URLs of about the length that Java's providers write.
fn urls(interface: &str, numbers: std::ops::Range<usize>) -> Vec<String> {
    let url = |n: usize| {
        format!(
            "dubbo://{}/{interface}?anyhost=true&application=orders&background=false&\
             deprecated=false&dubbo=2.0.2&dynamic=true&generic=false&interface={interface}&\
             methods=create,cancel,find,findAll,confirm,refund&pid=4711&release=3.3.6&\
             service-name-mapping=true&side=provider&timestamp=17600000{n:05}&weight=100",
            address(n)
        )
    };
    numbers.map(url).collect()
}

/// An address of this machine where nobody listens.
fn address(n: usize) -> String {
    format!("127.{}.{}.{}:1", 1 + n / 60_000, n / 250 % 240, 1 + n % 250)
}

/// The items of a page of the admin listener.
fn items(admin: &mut Client, page: &str) -> Result<Vec<Value>, BenchError> {
    let answer = admin.request(&format!("GET {page} HTTP/1.1"), "");
    let answer = answer.map_err(BenchError::io("the admin listener"))?;
    let mut page: Value = serde_json::from_str(&answer.body)
        .map_err(|_| BenchError::NoResult { output: answer.body.clone() })?;
    Ok(page["items"].as_array_mut().map(std::mem::take).unwrap_or_default())
}

fn wait(
    what: &str,
    mut is_there: impl FnMut() -> Result<bool, BenchError>,
) -> Result<(), BenchError> {
    let deadline = Instant::now() + PATIENCE;
    while !is_there()? {
        if deadline < Instant::now() {
            let output = format!("waited {PATIENCE:?} in vain for the agent to know {what}");
            return Err(BenchError::NoResult { output });
        }
        thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}
