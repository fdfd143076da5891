//! The rows as a table for people.

use super::program::PAYLOAD_LEN;
use super::round::{CLIENT, SERVER};
use super::row::{Ratios, RpcRow};
use crate::plan::Plan;
use crate::report::QUIET;
use crate::target::Target;

/// Prints all rows with their ratios, then the targets.
pub(crate) fn print(plan: &Plan, rows: &[(&RpcRow, Ratios, Vec<Target>)]) {
    let (seconds, n_rounds) = (plan.seconds.as_secs(), plan.n_rounds);
    println!(
        "\nrpc: closed loops, {PAYLOAD_LEN} bytes each way, {n_rounds} x {seconds} s, medians; \
         x raw: against bare sockets, x peer: against the better one of tonic and tarpc"
    );
    println!(
        "{:>7} {:>5} {:<13} {:<8} {:>10} {:>7} {:>7} {:>8} {:>8} {:>8} {:>6} {:>15} {:>15} {:>13}",
        "callers",
        "conns",
        "program",
        "codec",
        "calls/s",
        "x raw",
        "x peer",
        "p50 ms",
        "p99 ms",
        "p99.9 ms",
        "errors",
        "CPU us (c + s)",
        "syscalls (c, s)",
        "RSS MB (c, s)"
    );
    let mut last = None;
    for (row, ratios, _) in rows {
        if last.is_some_and(|setting| setting != row.setting) {
            println!();
        }
        last = Some(row.setting);
        print_row(row, *ratios);
    }
    println!();
    for (row, _, targets) in rows {
        for target in targets {
            let (name, codec) = (row.program.name(), row.program.codec());
            println!("{name}, {codec}, {}: {}", row.setting, target.line());
        }
    }
    let noise = rows.iter().map(|(row, ..)| row.median(|round| round.foreign_cores));
    let noise = noise.fold(0.0, f64::max);
    if QUIET < noise {
        println!(
            "\nNOT QUIET: other programs kept up to {noise:.2} cores busy. Do not quote this."
        );
    }
}

fn print_row(row: &RpcRow, ratios: Ratios) {
    let cpu = [CLIENT, SERVER].map(|name| row.median_of(name, |round| &round.cpu_us));
    let rss = [CLIENT, SERVER].map(|name| row.median_of(name, |round| &round.rss_mb));
    let syscalls = row.syscalls.as_ref().map_or_else(
        || "-".to_owned(),
        |counts| [CLIENT, SERVER].map(|name| format!("{:.3}", counts[name])).join(", "),
    );
    let ratio =
        |ratio: Option<f64>| ratio.map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.3}"));
    println!(
        "{:>7} {:>5} {:<13} {:<8} {:>10.0} {:>7} {:>7} {:>8.3} {:>8.3} {:>8.3} {:>6} {:>15} {:>15} \
         {:>13}",
        row.setting.n_callers,
        row.setting.n_connections,
        row.program.name(),
        row.program.codec(),
        row.calls_per_s(),
        ratio(ratios.of_ceiling),
        ratio(ratios.of_better_peer),
        row.p50_ms(),
        row.median(|round| round.outcome.p99_ms),
        row.median(|round| round.outcome.p999_ms),
        row.errors(),
        format!("{:.2} + {:.2}", cpu[0], cpu[1]),
        syscalls,
        format!("{:.1}, {:.1}", rss[0], rss[1]),
    );
}
