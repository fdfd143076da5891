//! h2spec, the conformance test of HTTP/2 by other people, against the port that speaks HTTP/1 as
//! well. `scripts/setup.sh attack` installs it; `H2SPEC_BIN` names another one.

use std::io;
use std::process::Command;

use bench::target::Target;
use interop_harness::find_program;

use crate::attacks::{Attack, COMMON};
use crate::peer::{Aim, count};
use crate::runner::Seen;

/// Seconds that h2spec waits for an answer.
const TIMEOUT_S: &str = "2";

/// Cases that cannot hold here, with the reason. Any other one that fails breaks the limit.
const CANNOT_HOLD: [(&str, &str, &str); 1] = [(
    "http2/3.5",
    "Sends invalid connection preface",
    "what does not begin as HTTP/2 does is HTTP/1 here, and gets an answer in HTTP/1 before the connection ends, \
     which h2spec tries to read as a frame",
)];

/// Some cases break the rules of a stream while its request is being answered. The agent may have
/// answered before it reads the offence, and is right both times. Such a case holds if it passes
/// once in so many tries by itself.
const N_TRIES: u32 = 10;

const PASSED: &str = "passed";
/// Of those that passed.
const RACED: &str = "passed in another try";
const CANNOT: &str = "cannot hold";
/// Stands before the name of a case that should not have failed.
const UNEXPECTED: &str = "unexpected: ";

pub(crate) const ALL: &[Attack] = &[Attack {
    name: "h2spec",
    about: "every case of h2spec, the conformance test of HTTP/2",
    peer: |aim| Box::pin(async move { run(&aim) }),
    goals,
    ..COMMON
}];

#[expect(clippy::cast_precision_loss, reason = "at most 146 cases")]
fn goals(seen: &Seen) -> Vec<Target> {
    let n_unexpected = seen.tally.keys().filter(|name| name.starts_with(UNEXPECTED)).count();
    vec![
        Target::at_most("cases that failed and should hold", n_unexpected as f64, 0.0, ""),
        Target::at_least("cases that passed", seen.count(PASSED), 140.0, ""),
    ]
}

/// Runs it to its end: it has its own timeouts, and whoever started this process ends it if it
/// hangs.
fn run(aim: &Aim) {
    match report(aim, None) {
        Ok(report) => {
            aim.add(count::CONNECTIONS, 1);
            for case in cases(&report) {
                judge(aim, &case);
            }
        }
        Err(error) => {
            eprintln!("attack: h2spec: {error}");
            // Whoever started this process then shows why.
            std::process::exit(1);
        }
    }
}

fn judge(aim: &Aim, case: &Case<'_>) {
    let passes_again = || {
        let only = format!("{}/{}", case.package, case.number);
        report(aim, Some(&only)).is_ok_and(|report| cases(&report).any(|again| again.passed(case)))
    };
    if !case.has_failed {
        aim.add(PASSED, 1);
    } else if case.cannot_hold() {
        aim.add(CANNOT, 1);
    } else if (0..N_TRIES).any(|_| passes_again()) {
        aim.add(PASSED, 1);
        aim.add(RACED, 1);
    } else {
        // One process, a few names: they may stay for ever.
        aim.add(format!("{UNEXPECTED}{} {}", case.package, case.name).leak(), 1);
    }
}

/// What h2spec reports of all cases, or of one.
fn report(aim: &Aim, only: Option<&str>) -> io::Result<String> {
    let program = find_program("h2spec", "H2SPEC_BIN", "run scripts/setup.sh attack");
    let program = program.map_err(io::Error::other)?;
    let folder = tempfile::TempDir::with_prefix("attack-")?;
    let report = folder.path().join("report.xml");
    let (host, port) = (aim.addr.ip().to_string(), aim.addr.port().to_string());
    let mut command = Command::new(program);
    command.args(only).args(["--host", &host, "--port", &port, "--timeout", TIMEOUT_S]);
    // Its status says whether all cases passed, which the report does better.
    command.arg("--junit-report").arg(&report).output()?;
    std::fs::read_to_string(report)
}

/// A case of the report.
#[derive(Debug, Eq, PartialEq)]
struct Case<'a> {
    package: &'a str,
    name: &'a str,
    /// Which one of its package, from 1 up.
    number: u32,
    has_failed: bool,
}

impl Case<'_> {
    /// Whether this is that case, and it passed.
    fn passed(&self, case: &Case<'_>) -> bool {
        !self.has_failed && self.package == case.package && self.name == case.name
    }

    fn cannot_hold(&self) -> bool {
        CANNOT_HOLD.iter().any(|(package, name, _)| *package == self.package && *name == self.name)
    }
}

/// The cases of a report in JUnit's form, as h2spec writes it.
fn cases(report: &str) -> impl Iterator<Item = Case<'_>> {
    let suites = report.split("<testsuite ").skip(1);
    suites.flat_map(|suite| suite.split("<testcase ").skip(1).zip(1..).filter_map(read_case))
}

fn read_case((text, number): (&str, u32)) -> Option<Case<'_>> {
    let (head, rest) = text.split_once('>')?;
    let body = rest.split("</testcase>").next().unwrap_or_default();
    let has_failed = body.contains("<failure") || body.contains("<error");
    let (package, name) = (attribute(head, "package")?, attribute(head, "classname")?);
    Some(Case { package, name, number, has_failed })
}

fn attribute<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = head.split_once(&format!("{name}=\""))?;
    Some(rest.split_once('"')?.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cases_are_numbered_within_their_package() {
        let report = "<testsuites><testsuite name=\"1\" package=\"http2/3.5\" id=\"3.5\">\
            <testcase package=\"http2/3.5\" classname=\"one\" time=\"0.1\"></testcase>\
            <testcase package=\"http2/3.5\" classname=\"Sends invalid connection preface\" time=\"0.1\">\
            <failure>no</failure></testcase></testsuite>\
            <testsuite name=\"2\"><testcase package=\"hpack/2\" classname=\"one\"></testcase></testsuite>";
        let found: Vec<_> = cases(report).collect();
        let case = |package, name, number, has_failed| Case { package, name, number, has_failed };
        let invalid = case("http2/3.5", "Sends invalid connection preface", 2, true);
        let one = case("http2/3.5", "one", 1, false);
        assert_eq!(found, [one, invalid, case("hpack/2", "one", 1, false)]);
        assert!(found[1].cannot_hold() && !found[2].cannot_hold());
    }
}
