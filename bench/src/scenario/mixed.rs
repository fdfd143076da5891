//! Small calls beside calls whose replies have 5 MB: how long the small ones are held up.
//!
//! The network is that of `congestion`. Eight callers send 500 characters and get twice as many
//! back, without any work in between; beside them one caller gets replies of 5 MB, one after the
//! other, which take four fifths of the network. Nothing is tuned. Each way is measured alone and
//! mixed: straight to providers, and through an agent beside them.

use std::fs;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use interop_harness::Child;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::congestion::{GRACE, PORT, SERVICE, SHAPE, start_provider};
use crate::error::BenchError;
use crate::machine;
use crate::network::{Network, Side};
use crate::plan::Plan;
use crate::target::Target;

const NAME: &str = "mixed";
const HELLO: &str = "com.alibaba.dubbo.performance.demo.provider.IHelloService";
const EMBEDDED_PORT: &str = "20881";
const LINK_PORT: &str = "20990";
const START_TIMEOUT: Duration = Duration::from_secs(20);
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// The most that the 99th percentile of small calls may grow.
const MAX_TIMES: f64 = 2.0;

/// What stands above the rows: alone, then mixed.
const HEAD: [&str; 8] =
    ["to", "calls/s", "p50 ms", "p99 ms", "large/s", "calls/s", "p50 ms", "p99 ms"];

/// The way of calls: its name, the scheme and port that are called, and the service there.
const WAYS: [(&str, &str, &str, &str); 4] = [
    ("Java provider", "dubbo", PORT, SERVICE),
    ("embedded provider", "dubbo", EMBEDDED_PORT, HELLO),
    ("agent of the Java provider", "link", LINK_PORT, SERVICE),
    ("agent of the embedded provider", "link", LINK_PORT, HELLO),
];

pub(crate) fn run(plan: &Plan) -> Result<(), BenchError> {
    let network = Network::start(SHAPE)?;
    for side in [Side::Caller, Side::Provider] {
        network.set_buffers(side, None)?;
    }
    let _java = start_provider(&network, "0")?;
    let _embedded = start_embedded(plan, &network)?;
    let (_agent, _folder) = start_agent(plan, &network)?;
    println!(
        "\n{NAME}: 8 callers of 500 bytes, alone and beside one with replies of 5 MB; 1 ms, 1 \
         Gbit/s; closed loops, {} s",
        plan.seconds.as_secs(),
    );
    let [to, names @ ..] = HEAD;
    let names: String = names.iter().map(|name| format!(" {name:>9}")).collect();
    println!("{to:<32}{names}");
    let mut rows = Vec::new();
    for way in WAYS {
        let (alone, mixed) = measure(plan, &network, way)?;
        let ms = |row: &Value, name: &str| row[name].as_f64().unwrap_or(f64::NAN);
        println!(
            "{:<32} {:>9.0} {:>9.2} {:>9.2} {:>9.1} {:>9.0} {:>9.2} {:>9.2}",
            way.0,
            ms(&alone, "calls_per_s"),
            ms(&alone, "p50_ms"),
            ms(&alone, "p99_ms"),
            ms(&mixed["large"], "calls_per_s"),
            ms(&mixed, "calls_per_s"),
            ms(&mixed, "p50_ms"),
            ms(&mixed, "p99_ms"),
        );
        let times = ms(&mixed, "p99_ms") / ms(&alone, "p99_ms");
        let target = Target::at_most("p99 beside large replies", times, MAX_TIMES, " x");
        println!("{}", target.line());
        for (mut row, targets) in [(alone, vec![]), (mixed, vec![target.json()])] {
            let fields = json!({
                "scenario": NAME, "to": way.0, "targets": targets, "is_quick": plan.is_quick,
            });
            for more in [fields, machine::origin()] {
                if let (Value::Object(row), Value::Object(more)) = (&mut row, more) {
                    row.extend(more);
                }
            }
            rows.push(row);
        }
    }
    let path = plan.results.join(format!("{NAME}.json"));
    fs::write(&path, format!("{:#}\n", Value::from(rows))).map_err(BenchError::file(&path))?;
    println!("\nwritten: {}", path.display());
    Ok(())
}

fn start_embedded(plan: &Plan, network: &Network) -> Result<Child, BenchError> {
    let listen = format!("{}:{EMBEDDED_PORT}", Network::address(Side::Provider));
    let mut command = Command::new(&plan.dubmesh);
    command.args(["provider", "--listen", &listen, "--work-ms", "0", "--threads", "1000"]);
    let mut child = Child::spawn("the embedded provider", &network.on(Side::Provider, &command))?;
    child.wait_for_line("READY ", START_TIMEOUT)?;
    Ok(child)
}

/// The agent beside both providers. Its registry is its own: nobody has to find it.
fn start_agent(plan: &Plan, network: &Network) -> Result<(Child, TempDir), BenchError> {
    let folder = TempDir::with_prefix("bench-").map_err(BenchError::io("a temporary folder"))?;
    let host = Network::address(Side::Provider);
    let export = |interface: &str, port: &str| {
        format!(
            "[[export]]\ninterface = \"{interface}\"\napp = \"dubbo://{host}:{port}\"\n\
             capacity = 1000\n"
        )
    };
    let config = format!(
        "[admin]\nenabled = false\n\
         [[registry]]\nname = \"own\"\nkind = \"memory\"\n\
         [[ingress]]\nprotocol = \"http\"\nlisten = \"127.0.0.1:0\"\n\
         [link]\nlisten = \"{host}:{LINK_PORT}\"\n{}{}",
        export(SERVICE, PORT),
        export(HELLO, EMBEDDED_PORT),
    );
    let path = folder.path().join("agent.toml");
    fs::write(&path, config).map_err(BenchError::file(&path))?;
    let mut command = Command::new(&plan.dubmesh);
    command.args(["run", "--config"]).arg(&path);
    let mut agent = Child::spawn("the providers' agent", &network.on(Side::Provider, &command))?;
    // Its log says when it serves.
    let deadline = Instant::now() + START_TIMEOUT;
    while agent.tail().matches("registered service=").count() < 2 {
        if agent.try_wait().is_some() || deadline < Instant::now() {
            agent.wait_ready(Duration::ZERO, || false)?;
        }
        thread::sleep(POLL_INTERVAL);
    }
    Ok((agent, folder))
}

/// The rows of small calls, alone and mixed.
fn measure(
    plan: &Plan,
    network: &Network,
    (name, scheme, port, service): (&str, &str, &str, &str),
) -> Result<(Value, Value), BenchError> {
    let address = format!("{scheme}://{}:{port}", Network::address(Side::Provider));
    let (warm_up, seconds) = (plan.warm_up(true).as_secs().min(4), plan.seconds.as_secs());
    let mut command = Command::new(&plan.dubmesh);
    command
        .args(["bench", "congestion", "--connect", &address, "--service", service, "--json"])
        .args(["--callers", "8", "--request-bytes", "500", "--connections", "auto"])
        .args(["--large-callers", "1", "--large-bytes", "5000000"])
        .args(["--warmup", &format!("{warm_up}s"), "--duration", &format!("{seconds}s")]);
    let mut load = Child::spawn(name, &network.on(Side::Caller, &command))?;
    let printed = load.finish(2 * plan.seconds + GRACE)?;
    let rows = printed.lines().find(|line| line.starts_with('['));
    let rows = rows.and_then(|line| serde_json::from_str::<Vec<Value>>(line).ok());
    match rows.map(<[Value; 2]>::try_from) {
        Some(Ok([alone, mixed])) => Ok((alone, mixed)),
        _ => Err(BenchError::NoResult { output: printed }),
    }
}
