//! One measurement: a fresh server, a client, and what the kernel says of both meanwhile.

use std::collections::BTreeMap;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use interop_harness::Child;
use serde_json::{Value, json};

use super::program::{Program, Programs, Setting};
use super::row::{object, significant};
use crate::error::BenchError;
use crate::usage::{self, MachineCpu, PeakRss, Process};

pub(crate) const CLIENT: &str = "client";
pub(crate) const SERVER: &str = "server";
/// Room at both ends of the client's window for its start and for the delay of our own looks. What
/// is read within is a rate, so that the window's exact place does not matter.
const MARGIN: Duration = Duration::from_millis(150);
const SAMPLE_INTERVAL: Duration = Duration::from_millis(200);
/// A client ends by itself; this is for one that hangs.
const GRACE: Duration = Duration::from_secs(30);
/// How long system calls are counted.
const COUNT_SECONDS: u32 = 1;

/// What the client measured.
#[derive(Clone, Debug)]
pub(crate) struct ClientFigures {
    pub(crate) calls_per_s: f64,
    pub(crate) p50_ms: f64,
    pub(crate) p99_ms: f64,
    pub(crate) p999_ms: f64,
    pub(crate) errors: u64,
}

/// What one measurement showed.
#[derive(Clone, Debug)]
pub(crate) struct Round {
    pub(crate) outcome: ClientFigures,
    /// CPU microseconds per call, by process.
    pub(crate) cpu_us: BTreeMap<String, f64>,
    pub(crate) rss_mb: BTreeMap<String, f64>,
    /// Cores that were busy with what does not belong to the benchmark, on average.
    pub(crate) foreign_cores: f64,
    /// Cores that the host has taken away, on average.
    pub(crate) stolen_cores: f64,
    /// What the client printed.
    pub(crate) printed: String,
}

/// What is measured and for how long.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shot<'a> {
    pub(crate) programs: &'a Programs,
    pub(crate) program: Program,
    pub(crate) setting: Setting,
    pub(crate) warm_up: Duration,
    pub(crate) duration: Duration,
}

impl Shot<'_> {
    /// Measures once.
    pub(crate) fn run(&self) -> Result<Round, BenchError> {
        let Running { mut client, processes, started, _server } = self.start()?;
        sleep_until(started + self.warm_up + MARGIN);
        let before = Reading::take(&processes);
        let end = started + self.warm_up + self.duration.saturating_sub(MARGIN);
        let mut rss = PeakRss::default();
        while client.try_wait().is_none() && Instant::now() < end {
            rss.sample(&processes);
            sleep_until(end.min(Instant::now() + SAMPLE_INTERVAL));
        }
        let after = Reading::take(&processes);
        let printed = client.finish(GRACE)?;
        let outcome = ClientFigures::parse(&printed)
            .ok_or_else(|| BenchError::NoResult { output: printed.clone() })?;
        let elapsed = (after.at - before.at).as_secs_f64();
        let n_calls = outcome.calls_per_s * elapsed;
        let used = before.cpu.iter().zip(&after.cpu);
        let used: Vec<f64> = used.map(|(b, a)| a.saturating_sub(*b).as_secs_f64()).collect();
        let ours: f64 = used.iter().sum();
        let machine = after.machine.saturating_sub(before.machine).as_secs_f64();
        let stolen = after.stolen.saturating_sub(before.stolen).as_secs_f64();
        let per_call = processes.iter().zip(used).map(|(process, seconds)| {
            (process.name.clone(), if n_calls == 0.0 { 0.0 } else { seconds * 1e6 / n_calls })
        });
        Ok(Round {
            outcome,
            cpu_us: per_call.collect(),
            rss_mb: rss.0,
            foreign_cores: ((machine - ours) / elapsed).max(0.0),
            stolen_cores: stolen / elapsed,
            printed,
        })
    }

    /// System calls per call of each process, counted by perf; `None` where perf cannot.
    pub(crate) fn count_syscalls(&self) -> Result<Option<BTreeMap<String, f64>>, BenchError> {
        let Running { mut client, processes, started, _server } = self.start()?;
        sleep_until(started + self.warm_up + MARGIN);
        let counters: Vec<Child> = processes
            .iter()
            .map(|process| Child::spawn("perf", &perf(process.pid)))
            .collect::<Result<_, _>>()?;
        let mut counts = Vec::new();
        for mut counter in counters {
            let output = counter.finish(GRACE).unwrap_or_default();
            counts.push(parse_perf(&output));
        }
        let output = client.finish(GRACE)?;
        let outcome = ClientFigures::parse(&output).ok_or(BenchError::NoResult { output })?;
        let n_calls = outcome.calls_per_s * f64::from(COUNT_SECONDS);
        let counts = processes.into_iter().zip(counts);
        Ok(counts.map(|(process, count)| Some((process.name, count? / n_calls))).collect())
    }

    fn start(&self) -> Result<Running, BenchError> {
        let server = self.programs.start_server(self.program)?;
        let windows = [self.warm_up, self.duration];
        let client = self.programs.start_client(self.program, self.setting, &server, windows)?;
        let started = Instant::now();
        let of = |name: &str, child: &Child| {
            let group = if name == SERVER { SERVER } else { CLIENT };
            Process { name: name.to_owned(), group, pid: child.pid() }
        };
        let processes = [of(CLIENT, &client), of(SERVER, &server.child)];
        Ok(Running { client, processes, started, _server: server.child })
    }
}

/// Both processes, which end with this.
struct Running {
    client: Child,
    processes: [Process; 2],
    started: Instant,
    _server: Child,
}

/// Long enough for the counters to begin late and still end within the client's window.
pub(crate) fn counting_time() -> Duration {
    Duration::from_secs(COUNT_SECONDS.into()) + Duration::from_millis(700)
}

fn perf(pid: u32) -> Command {
    let mut command = Command::new("perf");
    command.args(["stat", "--log-fd", "1", "--field-separator", ","]);
    command.args(["--event", "raw_syscalls:sys_enter", "--pid", &pid.to_string()]);
    command.args(["--", "sleep", &COUNT_SECONDS.to_string()]);
    command
}

/// The count is the first field of the line that names the event.
fn parse_perf(output: &str) -> Option<f64> {
    let line = output.lines().find(|line| line.contains("raw_syscalls:sys_enter"))?;
    line.split(',').next()?.parse().ok()
}

fn sleep_until(then: Instant) {
    thread::sleep(then.saturating_duration_since(Instant::now()));
}

/// CPU clocks at one moment.
struct Reading {
    at: Instant,
    cpu: Vec<Duration>,
    machine: Duration,
    stolen: Duration,
}

impl Reading {
    fn take(processes: &[Process]) -> Self {
        let MachineCpu { used: machine, stolen } = usage::machine_cpu();
        let cpu = processes.iter().map(|process| usage::cpu(process.pid)).collect();
        Self { at: Instant::now(), cpu, machine, stolen }
    }
}

impl ClientFigures {
    /// The client prints one row, alone or in a list.
    fn parse(output: &str) -> Option<Self> {
        let begin = output.find(['{', '['])?;
        let value: Value = serde_json::from_str(&output[begin..]).ok()?;
        let row = value.get(0).unwrap_or(&value);
        let number = |name: &str| row[name].as_f64();
        Some(Self {
            calls_per_s: number("calls_per_s")?,
            p50_ms: number("p50_ms")?,
            p99_ms: number("p99_ms")?,
            p999_ms: number("p999_ms")?,
            errors: row["errors"].as_u64()?,
        })
    }
}

impl Round {
    pub(crate) fn json(&self) -> Value {
        let ClientFigures { calls_per_s, p50_ms, p99_ms, p999_ms, errors } = self.outcome;
        json!({
            "calls_per_s": significant(calls_per_s), "p50_ms": significant(p50_ms),
            "p99_ms": significant(p99_ms), "p999_ms": significant(p999_ms), "errors": errors,
            "cpu_us_per_call": object(&self.cpu_us), "rss_mb": object(&self.rss_mb),
            "foreign_cores": significant(self.foreign_cores),
            "stolen_cores": significant(self.stolen_cores),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_a_row_alone_or_in_a_list() {
        let row = r#"{"calls_per_s":2.5,"p50_ms":1,"p99_ms":2,"p999_ms":3,"errors":4,"more":[]}"#;
        for output in [row.to_owned(), format!("[{row}]\n"), format!("a word before\n{row}")] {
            let outcome = ClientFigures::parse(&output).unwrap();
            assert_eq!((outcome.calls_per_s, outcome.errors), (2.5, 4));
        }
        assert!(ClientFigures::parse("[]").is_none() && ClientFigures::parse("no row").is_none());
    }

    #[test]
    fn reads_the_count_of_perf() {
        let output = "\n1234,,raw_syscalls:sys_enter,1000123,100.00,,\n";
        assert_eq!(parse_perf(output), Some(1234.0));
        assert_eq!(parse_perf("<not counted>,,raw_syscalls:sys_enter,0,0.00,,\n"), None);
    }
}
