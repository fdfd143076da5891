//! `dubmesh doctor`: why calls are slow, in words.

mod sampling;
mod watching;

use std::io::{self, IsTerminal as _};
use std::time::Duration;

use clap::Args;
use doctor::{Finding, counted};
use serde::Serialize;

use self::sampling::{MIN_LOOKS, Wanted, WatchResult, watch};
use crate::Exit;
use crate::admin_pages::plain;
use crate::duration::duration;
use crate::output;
use crate::service_location::plain_address;

/// What stands below the options in `--help`.
pub(crate) const HELP: &str = "\
It watches sockets for some seconds and shows what holds calls up, how it is
known, and what to do: full buffers, peers that do not read, lost segments, full
accept queues. From an agent it also learns of full thread pools, of rejected
and failing calls and of slow providers. It changes nothing, and needs no agent:
--pid and --port look at any program, such as a Java provider or consumer.

The sockets are those of this network namespace. For a container:
  nsenter -t PID -n dubmesh doctor --port 20880
Names of other users' processes are shown to root only.

Examples:
  dubmesh doctor                          the agent at 127.0.0.1:9700
  dubmesh doctor --admin 10.0.0.5:9700    an agent elsewhere
  dubmesh doctor --port 20880             whoever is connected to port 20880
  dubmesh doctor --pid 4711 --for 1m      all connections of a process

Exit status:
  0  nothing was found
  1  the agent or the sockets cannot be read, or there was nothing to watch:
     nothing has that port, or the process has no connection
  2  the arguments are wrong
  3  something was found";

/// Where an agent answers that nobody has configured.
const DEFAULT_ADMIN: &str = "127.0.0.1:9700";
/// More looks need too much memory where there are thousands of sockets.
const MAX_LOOKS: u32 = 600;

/// The arguments of `dubmesh doctor`.
#[derive(Args, Debug)]
pub(crate) struct DoctorArgs {
    /// Where the agent's admin listener is: HOST:PORT, or unix: and a path
    /// [default: 127.0.0.1:9700, unless --pid or --port is there]
    #[arg(long, value_name = "ADDRESS", value_parser = plain_address)]
    admin: Option<String>,
    /// Watch the connections of this process; may be repeated
    #[arg(long, value_name = "PID")]
    pid: Vec<u32>,
    /// Watch connections from and to this port; may be repeated
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    port: Vec<u16>,
    /// How long to watch
    #[arg(long = "for", value_name = "TIME", default_value = "10s", value_parser = duration)]
    time: Duration,
    /// How often to look. There must be 5 to 600 looks in the time of --for
    #[arg(long, value_name = "TIME", default_value = "500ms", value_parser = duration)]
    every: Duration,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

/// The result, as `--json` shows it.
#[derive(Serialize)]
struct Report<'a> {
    seconds: f64,
    looks: usize,
    connections: usize,
    listeners: usize,
    notes: &'a [String],
    findings: &'a [Finding],
}

/// Watches, and prints what was found.
pub(crate) fn doctor(args: &DoctorArgs) -> Exit {
    let n_looks = args.time.div_duration_f64(args.every);
    if n_looks < MIN_LOOKS as f64 || f64::from(MAX_LOOKS) < n_looks {
        output::say(format_args!(
            "dubmesh doctor: --for {:?} and --every {:?} make {n_looks:.0} looks; {MIN_LOOKS} to \
             {MAX_LOOKS} are possible",
            args.time, args.every
        ));
        return Exit::Usage;
    }
    let is_alone = args.pid.is_empty() && args.port.is_empty();
    let admin = args.admin.clone().or_else(|| is_alone.then(|| DEFAULT_ADMIN.to_owned()));
    let wanted = Wanted {
        admin,
        pids: args.pid.clone(),
        ports: args.port.clone(),
        time: args.time,
        every: args.every,
    };
    if !args.json && io::stderr().is_terminal() {
        output::say(format_args!("watching for {:?}; Ctrl-C ends it earlier ...", args.time));
    }
    match watch(&wanted) {
        Ok(seen) => report(&seen, args.json),
        Err(message) => {
            output::say(format_args!("dubmesh doctor: {message}"));
            Exit::Failure
        }
    }
}

fn report(seen: &WatchResult, as_json: bool) -> Exit {
    let findings = seen.findings();
    let report = Report {
        seconds: seen.time.as_secs_f64(),
        looks: seen.n_looks,
        connections: seen.connections.len(),
        listeners: seen.listeners.len(),
        notes: &seen.notes,
        findings: &findings,
    };
    let is_blind = seen.is_blind();
    let text = if as_json {
        serde_json::to_string_pretty(&report).map(|text| text + "\n").unwrap_or_default()
    } else {
        text(&report, AskedAgent::of(seen), is_blind)
    };
    let exit = match findings.is_empty() {
        true if is_blind => Exit::Failure,
        true => Exit::Ok,
        false => Exit::Refused,
    };
    output::print("doctor", &text, exit)
}

/// What to do where sockets show no trouble.
const INSIDE: &str = "\
Sockets do not show what happens inside of a program: full thread pools, locks, slow work, or some
calls that hang while others are answered. If calls are slow all the same, look at the provider:
its log (\"Threadpool is exhausted\"), its threads (jstack PID; those of Dubbo are named
DubboServerHandler), its garbage collector.
";

/// What to do where an agent shows no trouble either.
const SELDOM: &str = "\
A cause is what lasts: a few slow calls among many, or a burst, is none. To find those, see dubmesh
top --view stages, the page /methods, and dubmesh tap --slower-than 200ms.
";
/// What else to do if the agent has only an app behind it.
const CALLERS: &str = "\
This agent sees what its app does, and not what callers wait for: ask their agents, too.
";

/// What the agent that was asked has to do with calls.
#[derive(Clone, Copy)]
enum AskedAgent {
    /// None was asked.
    None,
    /// It makes calls.
    Caller,
    /// It only has an app behind it.
    Provider,
}

impl AskedAgent {
    fn of(seen: &WatchResult) -> Self {
        match seen.agent.last() {
            None => Self::None,
            Some(last) if last.services.is_empty() && !last.apps.is_empty() => Self::Provider,
            Some(_) => Self::Caller,
        }
    }
}

/// `is_blind` if there was nothing to look at.
fn text(report: &Report<'_>, asked: AskedAgent, is_blind: bool) -> String {
    let Report { seconds, looks, connections, listeners, notes, findings } = report;
    let sockets = counted(*connections as u64, "connection", "connections");
    let listeners = counted(*listeners as u64, "listening socket", "listening sockets");
    let mut text = format!("watched {sockets} and {listeners} for {seconds:.1} s, {looks} looks\n");
    for note in *notes {
        text.push_str(&format!("note: {}\n", plain(note)));
    }
    match (findings.is_empty(), is_blind) {
        (true, true) => text.push_str("\nNothing was watched, so nothing is known.\n"),
        (true, false) => {
            text.push_str("\nNothing was found that holds calls up.\n");
            match asked {
                AskedAgent::None => text.push_str(INSIDE),
                AskedAgent::Caller => text.push_str(SELDOM),
                AskedAgent::Provider => text.extend([CALLERS, SELDOM]),
            }
        }
        (false, _) => {}
    }
    for finding in *findings {
        for line in finding.to_string().lines() {
            text.push('\n');
            text.push_str(&plain(line));
        }
        text.push('\n');
    }
    text
}
