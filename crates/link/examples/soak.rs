//! A soak: full load on a server in a process of its own, through a proxy that breaks connections.
//!
//! `soak SECONDS` prints what happened and how much memory both processes had, after a tenth of
//! the time and at the end. A fault ends it with a panic.

#[path = "../tests/suite/support/mod.rs"]
mod support;

use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use support::soak::{self, Done, SoakPlan, rss_kib};

fn main() {
    let argument = std::env::args().nth(1).unwrap_or_else(|| "10".to_owned());
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    match argument.as_str() {
        "serve" => runtime.block_on(serve()),
        seconds => {
            let seconds = seconds.parse().expect("how many seconds");
            runtime.block_on(run(Duration::from_secs(seconds)));
        }
    }
}

/// Serves until standard input ends; then says what is left.
async fn serve() {
    let done = Arc::<Done>::default();
    let server = soak::serve(&done).await;
    println!("{}", server.local_addr());
    let end = || std::io::stdin().read_to_end(&mut Vec::new());
    tokio::task::spawn_blocking(end).await.expect("a thread").expect("standard input");
    let deadline = Instant::now() + Duration::from_secs(10);
    while server.n_calls() + server.n_connections() != 0 && Instant::now() < deadline {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    println!(
        "server: {} done once, {} notes, {} doubled; {} calls and {} connections left",
        done.n_once.load(Ordering::SeqCst),
        done.n_notes.load(Ordering::SeqCst),
        done.n_doubled.load(Ordering::SeqCst),
        server.n_calls(),
        server.n_connections(),
    );
}

async fn run(duration: Duration) {
    let program = std::env::current_exe().expect("this program's path");
    let mut server = Command::new(program)
        .arg("serve")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("a second process");
    let mut words = BufReader::new(server.stdout.take().expect("its output"));
    let mut address = String::new();
    words.read_line(&mut address).expect("its address");
    let address = address.trim().parse().expect("an address");
    let (start, id) = (Instant::now(), server.id().to_string());
    let mut samples = Vec::new();
    let plan = SoakPlan { duration, n_tasks: 100, n_threads: 8 };
    let tally = soak::load(address, &plan, |_| {
        samples.push((start.elapsed(), rss_kib("self"), rss_kib(&id)));
    })
    .await;
    println!("{tally:?}");
    let warm = samples.len() / 10;
    for (name, range) in
        [("after warm-up", warm..warm + 5), ("at the end", samples.len() - 5..samples.len())]
    {
        let part = samples.get(range).unwrap_or(&samples);
        let mean = |of: fn(&(Duration, u64, u64)) -> u64| {
            part.iter().map(of).sum::<u64>() / part.len().max(1) as u64
        };
        println!("{name}: client {} KiB, server {} KiB", mean(|s| s.1), mean(|s| s.2));
    }
    let peak = |of: fn(&(Duration, u64, u64)) -> u64| samples.iter().map(of).max();
    println!("peak: client {:?} KiB, server {:?} KiB", peak(|s| s.1), peak(|s| s.2));
    drop(server.stdin.take());
    let mut rest = String::new();
    words.read_to_string(&mut rest).expect("its last words");
    print!("{rest}");
    server.wait().expect("its end");
}
