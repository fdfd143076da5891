//! Small calls beside calls whose replies have 5 MB: how long the small ones are held up.
//!
//! The network is that of `congestion`. Eight callers send 500 characters and get twice as many
//! back, without any work in between; beside them one caller gets replies of 5 MB, one after the
//! other, which take four fifths of the network. Nothing is tuned. Each way is measured alone and
//! mixed: straight to providers, and through an agent beside them.
//!
//! Then the floor: the small calls as if alone, while as many large replies go over bare sockets
//! of two other processes, on the same machine and network. What small calls take then is not the
//! doing of those that carry them.

use std::process::Command;
use std::time::Duration;

use interop_harness::Child;
use interop_harness::network::{Network, NetworkSide};
use serde_json::{Value, json};

use super::study::{
    EMBEDDED_PORT, GRACE, HELLO, LINK_PORT, PORT, SERVICE, start_agent, start_embedded, start_java,
    start_network,
};
use crate::error::BenchError;
use crate::picture::{with_origin, write_rows};
use crate::plan::Plan;
use crate::target::Target;

const NAME: &str = "mixed";
const BULK_PORT: &str = "20999";
const LARGE_BYTES: &str = "5000000";
const START_TIMEOUT: Duration = Duration::from_secs(20);
/// The most that the 99th percentile of small calls may grow.
const MAX_TIMES: f64 = 2.0;

/// What stands above the rows: alone, mixed, and the floor.
const HEAD: [&str; 9] =
    ["to", "p50 ms", "p99 ms", "large/s", "p50 ms", "p99 ms", "large/s", "p50 ms", "p99 ms"];

/// The way of calls: its name, the scheme and port that are called, and the service there.
const WAYS: [(&str, &str, &str, &str); 4] = [
    ("Java provider", "dubbo", PORT, SERVICE),
    ("embedded provider", "dubbo", EMBEDDED_PORT, HELLO),
    ("agent of the Java provider", "link", LINK_PORT, SERVICE),
    ("agent of the embedded provider", "link", LINK_PORT, HELLO),
];

pub(crate) fn run(plan: &Plan) -> Result<(), BenchError> {
    let network = start_network()?;
    for side in [NetworkSide::Caller, NetworkSide::Provider] {
        network.set_buffers(side, None)?;
    }
    let _java = start_java(&network, "0")?;
    let _embedded = start_embedded(plan, &network)?;
    let (_agent, _folder) =
        start_agent(plan, &network, &[(SERVICE, PORT), (HELLO, EMBEDDED_PORT)])?;
    let _bulk = start_bulk(&network)?;
    println!(
        "\n{NAME}: 8 callers of 500 bytes: alone, beside one with replies of 5 MB, and beside bare \
         sockets with as many; 1 ms, 1 Gbit/s; closed loops, {} s",
        plan.seconds.as_secs(),
    );
    let [to, names @ ..] = HEAD;
    let names: String = names.iter().map(|name| format!(" {name:>8}")).collect();
    println!("{to:<32}{names}");
    let mut rows = Vec::new();
    for way in WAYS {
        let [alone, mixed, floor] = measure(plan, &network, way)?;
        let of = |row: &Value, name: &str| row[name].as_f64().unwrap_or(f64::NAN);
        println!(
            "{:<32} {:>8.2} {:>8.2} {:>8.1} {:>8.2} {:>8.2} {:>8.1} {:>8.2} {:>8.2}",
            way.0,
            of(&alone, "p50_ms"),
            of(&alone, "p99_ms"),
            of(&mixed["large"], "calls_per_s"),
            of(&mixed, "p50_ms"),
            of(&mixed, "p99_ms"),
            of(&floor["large"], "calls_per_s"),
            of(&floor, "p50_ms"),
            of(&floor, "p99_ms"),
        );
        let base = of(&alone, "p99_ms");
        let target = Target::at_most(
            "p99 beside large replies",
            of(&mixed, "p99_ms") / base,
            MAX_TIMES,
            " x",
        );
        println!("{}; the floor is {:.2} x", target.line(), of(&floor, "p99_ms") / base);
        for (load, mut row, targets) in [
            ("alone", alone, vec![]),
            ("mixed", mixed, vec![target.json()]),
            ("floor", floor, vec![]),
        ] {
            if let Value::Object(row) = &mut row {
                row.insert("scenario".into(), NAME.into());
                row.insert("to".into(), way.0.into());
                row.insert("load".into(), load.into());
                row.insert("targets".into(), targets.into());
                row.insert("is_quick".into(), plan.is_quick.into());
            }
            rows.push(with_origin(row));
        }
    }
    let path = write_rows(plan, NAME, rows)?;
    println!("\nwritten: {}", path.display());
    Ok(())
}

fn this_program() -> Result<Command, BenchError> {
    Ok(Command::new(std::env::current_exe().map_err(BenchError::io("the path of this program"))?))
}

fn bulk_address() -> String {
    format!("{}:{BULK_PORT}", Network::address(NetworkSide::Provider))
}

fn start_bulk(network: &Network) -> Result<Child, BenchError> {
    let mut command = this_program()?;
    command.args(["raw-bulk-serve", &bulk_address()]);
    let mut child = Child::spawn("the bulk server", &network.on(NetworkSide::Provider, &command))?;
    child.wait_for_line("READY ", START_TIMEOUT)?;
    Ok(child)
}

/// The rows of small calls: alone, mixed, and the floor.
fn measure(
    plan: &Plan,
    network: &Network,
    (name, scheme, port, service): (&str, &str, &str, &str),
) -> Result<[Value; 3], BenchError> {
    let address = format!("{scheme}://{}:{port}", Network::address(NetworkSide::Provider));
    let warm_up = plan.warm_up(true).min(Duration::from_secs(4));
    let load = |large: &[&str]| -> Result<Vec<Value>, BenchError> {
        let mut command = Command::new(&plan.dubmesh);
        command
            .args(["bench", "congestion", "--connect", &address, "--service", service, "--json"])
            .args(["--callers", "8", "--request-bytes", "500", "--connections", "auto"])
            .args(large)
            .args(["--warmup", &format!("{}s", warm_up.as_secs())])
            .args(["--duration", &format!("{}s", plan.seconds.as_secs())]);
        let mut load = Child::spawn(name, &network.on(NetworkSide::Caller, &command))?;
        let printed = load.finish(2 * plan.seconds + GRACE)?;
        let rows = printed.lines().find(|line| line.starts_with('['));
        let rows = rows.and_then(|line| serde_json::from_str(line).ok());
        rows.ok_or(BenchError::NoResult { output: printed })
    };
    let rows = load(&["--large-callers", "1", "--large-bytes", LARGE_BYTES])?;
    let Ok([alone, mixed]) = <[Value; 2]>::try_from(rows) else {
        return Err(BenchError::NoResult { output: name.to_owned() });
    };
    // As many, from before the warm-up until after the measurement.
    let per_s = mixed["large"]["calls_per_s"].as_f64().unwrap_or_default().to_string();
    let seconds = (warm_up + plan.seconds + Duration::from_secs(1)).as_secs().to_string();
    let mut command = this_program()?;
    command.args(["raw-bulk-fetch", &bulk_address(), LARGE_BYTES, &per_s, &seconds]);
    let mut bulk = Child::spawn("the bulk client", &network.on(NetworkSide::Caller, &command))?;
    let mut rows = load(&[])?;
    let Some(mut floor) = rows.pop() else {
        return Err(BenchError::NoResult { output: name.to_owned() });
    };
    let printed = bulk.finish(GRACE)?;
    let came: Option<Value> = serde_json::from_str(&printed).ok();
    let came = came.ok_or(BenchError::NoResult { output: printed })?;
    floor["large"] = json!({ "calls_per_s": came["per_s"] });
    Ok([alone, mixed, floor])
}
