//! The Hessian codec beside hessian-lite and dubbo-go-hessian2: the same values, the same bytes,
//! one thread.
//!
//! Each program reads what ours wrote, and what it understood and wrote itself is compared before
//! anything is timed. Programs alternate within a round. Instructions are counted by callgrind,
//! for our program only.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::error::BenchError;
use crate::machine;
use crate::measure::{median, rounded};
use crate::plan::{Plan, build_codec_programs};
use crate::target::Target;

const NAME: &str = "codec";
/// A measurement has many small parts; together they take about as long as one of another
/// scenario.
const PARTS: f64 = 20.0;
/// What our steps end with that borrow from the message.
const BORROWED: &str = "-borrowed";
/// Runs that callgrind counts, beyond those of a first count.
const COUNTED: u64 = 20;

/// Who is measured.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Program {
    Ours,
    Java,
    Go,
}

impl Program {
    const ALL: [Self; 3] = [Self::Ours, Self::Java, Self::Go];

    fn name(self) -> &'static str {
        match self {
            Self::Ours => "dubmesh",
            Self::Java => "hessian-lite 4.0.4",
            Self::Go => "dubbo-go-hessian2 1.12.5",
        }
    }

    /// Seconds before each step is measured. A virtual machine compiles its hot methods in this
    /// time; a longer one does not make it faster.
    fn warm_up(self, plan: &Plan) -> &'static str {
        match (self, plan.is_quick) {
            (Self::Java, false) => "2",
            (Self::Java, true) => "0.3",
            _ => "0.1",
        }
    }
}

/// The built programs, and the folder with the values' bytes.
pub(crate) struct Programs {
    pub(crate) ours: PathBuf,
    pub(crate) go: PathBuf,
    /// The folder of the Maven project.
    pub(crate) java: PathBuf,
}

/// One shape and step: nanoseconds of each program by round, and what ours takes in instructions.
#[derive(Debug, Default)]
struct CodecRow {
    bytes: u64,
    ns: BTreeMap<&'static str, Vec<f64>>,
    instructions: Option<u64>,
}

impl CodecRow {
    fn ns(&self, program: Program) -> Option<f64> {
        self.ns.get(program.name()).map(|rounds| median(rounds.clone()))
    }

    /// How many times longer the other program takes.
    fn times(&self, program: Program) -> Option<f64> {
        Some(self.ns(program)? / self.ns(Program::Ours)?)
    }
}

pub(crate) fn run(plan: &Plan) -> Result<(), BenchError> {
    let programs = build_codec_programs()?;
    let folder = tempfile::tempdir().map_err(BenchError::io("a folder for the values"))?;
    let values = folder.path().join("values");
    run_ours(&programs, &["write", &values.to_string_lossy()])?;
    for program in [Program::Java, Program::Go] {
        let seen = folder.path().join(format!("{program:?}"));
        run_peer(&programs, program, "check", &values, &[&seen.to_string_lossy()])?;
        run_ours(&programs, &["compare", &seen.to_string_lossy()])?;
    }
    let mut rows: BTreeMap<String, CodecRow> = BTreeMap::new();
    let mut order = Vec::new();
    let seconds = (plan.seconds.as_secs_f64() / PARTS).to_string();
    for n_round in 1..=plan.n_rounds {
        for program in Program::ALL {
            eprintln!("codec {n_round}/{}: {}", plan.n_rounds, program.name());
            let text = match program {
                Program::Ours => run_ours(&programs, &["time", &seconds])?,
                _ => {
                    let warm_up = program.warm_up(plan);
                    run_peer(&programs, program, "time", &values, &[&seconds, warm_up])?
                }
            };
            for (name, bytes, ns) in lines(&text)? {
                if !rows.contains_key(&name) {
                    order.push(name.clone());
                }
                let row = rows.entry(name).or_default();
                row.bytes = row.bytes.max(bytes);
                row.ns.entry(program.name()).or_default().push(ns);
            }
        }
    }
    compare_borrowed(&mut rows);
    // Exact, but it takes a minute.
    if !plan.is_quick {
        count_instructions(&programs, &mut rows)?;
    }
    report(plan, &order, &rows)
}

/// Sets the peers' decoding beside our decoding into types that borrow from the message: they have
/// no such thing.
fn compare_borrowed(rows: &mut BTreeMap<String, CodecRow>) {
    let names: Vec<_> = rows.keys().filter(|name| name.ends_with(BORROWED)).cloned().collect();
    for name in names {
        let decode = name.strip_suffix(BORROWED).and_then(|name| rows.get(name));
        let peers: Vec<_> = [Program::Java, Program::Go]
            .into_iter()
            .filter_map(|peer| Some((peer.name(), decode?.ns.get(peer.name())?.clone())))
            .collect();
        if let Some(row) = rows.get_mut(&name) {
            row.ns.extend(peers);
        }
    }
}

fn run_ours(programs: &Programs, args: &[&str]) -> Result<String, BenchError> {
    output(Command::new(&programs.ours).args(args))
}

fn run_peer(
    programs: &Programs,
    program: Program,
    what: &str,
    values: &Path,
    args: &[&str],
) -> Result<String, BenchError> {
    let values = values.to_string_lossy();
    match program {
        Program::Go => output(Command::new(&programs.go).args([what, &values]).args(args)),
        _ => {
            let all = [&[what, &*values], args].concat().join(" ");
            let mut maven = Command::new("mvn");
            maven.args(["-q", "-B", "exec:exec", &format!("-Dargs={all}")]);
            output(maven.current_dir(&programs.java))
        }
    }
}

fn output(command: &mut Command) -> Result<String, BenchError> {
    let output = command.output().map_err(BenchError::io("a codec's program"))?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    if output.status.success() {
        return Ok(text(&output.stdout));
    }
    let problem = text(&output.stderr) + &text(&output.stdout);
    let program = format!("{:?}", command.get_program());
    Err(BenchError::WrongAnswer { program, problem })
}

/// Name, bytes and nanoseconds of each line that is one.
fn lines(text: &str) -> Result<Vec<(String, u64, f64)>, BenchError> {
    // Maven may set a colour first.
    let lines = text.lines().filter_map(|line| line.get(line.find('{')?..));
    let found: Vec<_> = lines
        .filter_map(|line| {
            let line: Value = serde_json::from_str(line).ok()?;
            let bytes = line["bytes"].as_u64().unwrap_or_default();
            Some((line["name"].as_str()?.to_owned(), bytes, line["ns"].as_f64()?))
        })
        .collect();
    match found.is_empty() {
        true => Err(BenchError::NoResult { output: text.to_owned() }),
        false => Ok(found),
    }
}

/// Counts what each step of our program takes: the difference of two runs, so that the start does
/// not count.
fn count_instructions(
    programs: &Programs,
    rows: &mut BTreeMap<String, CodecRow>,
) -> Result<(), BenchError> {
    if Command::new("valgrind").arg("--version").output().is_err() {
        eprintln!("codec: instructions are not counted: valgrind is not installed");
        return Ok(());
    }
    eprintln!("codec: counting instructions");
    for (name, row) in rows {
        let once = counted(programs, name, 0)?;
        let more = counted(programs, name, COUNTED)?;
        row.instructions = Some(more.saturating_sub(once) / COUNTED);
    }
    Ok(())
}

fn counted(programs: &Programs, name: &str, n: u64) -> Result<u64, BenchError> {
    let mut command = Command::new("valgrind");
    command.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]);
    command.arg(&programs.ours).args(["count", name, &n.to_string()]);
    let output = command.output().map_err(BenchError::io("valgrind"))?;
    let text = String::from_utf8_lossy(&output.stderr);
    let count = text.lines().find_map(|line| line.split_once("Collected :")?.1.trim().parse().ok());
    count.ok_or_else(|| BenchError::NoResult { output: text.clone().into_owned() })
}

fn report(
    plan: &Plan,
    order: &[String],
    rows: &BTreeMap<String, CodecRow>,
) -> Result<(), BenchError> {
    println!("\ncodec: nanoseconds a value, one thread, {} rounds, medians", plan.n_rounds);
    println!(
        "{:<22} {:>9} {:>11} {:>7} {:>12} {:>12} {:>7} {:>12} {:>7}",
        "value/step",
        "bytes",
        "dubmesh",
        "GB/s",
        "instructions",
        "hessian-lite",
        "x",
        "dubbo-go",
        "x"
    );
    let (mut values, mut targets) = (Vec::new(), Vec::new());
    for name in order {
        let Some(row) = rows.get(name) else { continue };
        let ours = row.ns(Program::Ours).unwrap_or(f64::NAN);
        #[expect(clippy::cast_precision_loss, reason = "lengths are far below 2^53")]
        let rate = row.bytes as f64 / ours;
        let figure = |value: Option<f64>, digits: usize| {
            value.map_or_else(|| "-".to_owned(), |value| format!("{value:.digits$}"))
        };
        println!(
            "{name:<22} {:>9} {ours:>11.1} {rate:>7.2} {:>12} {:>12} {:>7} {:>12} {:>7}",
            row.bytes,
            row.instructions.map_or_else(|| "-".to_owned(), |count| count.to_string()),
            figure(row.ns(Program::Java), 1),
            figure(row.times(Program::Java), 2),
            figure(row.ns(Program::Go), 1),
            figure(row.times(Program::Go), 2),
        );
        let goals = goals(name, row, rate);
        values.push(to_json(plan, name, row, rate, &goals));
        targets.extend(goals);
    }
    println!();
    for target in &targets {
        println!("dubmesh: {}", target.line());
    }
    let path = plan.results.join(format!("{NAME}.json"));
    let text = format!("{:#}\n", Value::from(values));
    fs::write(&path, text).map_err(BenchError::file(&path))?;
    println!("\nwritten: {}", path.display());
    Ok(())
}

/// What a step should reach.
fn goals(name: &str, row: &CodecRow, rate: f64) -> Vec<Target> {
    let mut goals = Vec::new();
    for (program, bound) in [(Program::Java, 5.0), (Program::Go, 3.0)] {
        if let Some(times) = row.times(program) {
            let what = format!("{name} against {}", program.name());
            goals.push(Target::at_least(&what, times, bound, " x"));
        }
    }
    if name.starts_with("text-1m/") {
        goals.push(Target::at_least(name, rate, 2.0, " GB/s"));
    }
    goals
}

fn to_json(plan: &Plan, name: &str, row: &CodecRow, rate: f64, targets: &[Target]) -> Value {
    let (shape, step) = name.split_once('/').unwrap_or((name, ""));
    let mut value = json!({
        "scenario": NAME,
        "value": shape,
        "step": step,
        "bytes": row.bytes,
        "ns": Program::ALL.map(|program| (program.name(), row.ns(program).map(rounded)))
            .into_iter().collect::<BTreeMap<_, _>>(),
        "gb_per_s": rounded(rate),
        "instructions": row.instructions,
        "x_hessian_lite": row.times(Program::Java).map(rounded),
        "x_dubbo_go": row.times(Program::Go).map(rounded),
        "rounds": row.ns,
        "is_quick": plan.is_quick,
        "targets": targets.iter().map(Target::json).collect::<Vec<_>>(),
    });
    if let (Value::Object(fields), Value::Object(origin)) = (&mut value, machine::origin()) {
        fields.extend(origin);
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_those_of_the_medians() {
        let mut row = CodecRow::default();
        row.ns.insert(Program::Ours.name(), vec![10.0, 30.0, 20.0]);
        row.ns.insert(Program::Java.name(), vec![100.0]);
        assert_eq!(row.times(Program::Java), Some(5.0));
        assert_eq!(row.times(Program::Go), None);
        assert_eq!(goals("text-1m/decode", &row, 1.0).len(), 2);
        assert!(goals("text-1m/decode", &row, 1.0)[0].is_met());
    }

    #[test]
    fn borrowed_values_are_compared_with_what_peers_decode() {
        let mut rows = BTreeMap::new();
        let ns =
            BTreeMap::from([(Program::Ours.name(), vec![4.0]), (Program::Java.name(), vec![8.0])]);
        rows.insert("a/decode".to_owned(), CodecRow { ns, ..CodecRow::default() });
        let ns = BTreeMap::from([(Program::Ours.name(), vec![2.0])]);
        rows.insert("a/decode-borrowed".to_owned(), CodecRow { ns, ..CodecRow::default() });
        compare_borrowed(&mut rows);
        assert_eq!(rows["a/decode-borrowed"].times(Program::Java), Some(4.0));
        assert_eq!(rows["a/decode-borrowed"].times(Program::Go), None);
    }

    #[test]
    fn lines_that_are_none_are_passed_over() {
        let text = "[INFO] x\n{\"name\":\"a/b\",\"bytes\":7,\"ns\":1.5}\n";
        assert_eq!(lines(text).unwrap(), [("a/b".to_owned(), 7, 1.5)]);
        assert!(lines("nothing").is_err());
    }
}
