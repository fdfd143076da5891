//! A whole mesh with load on it, in one process, shown live.
//!
//! `mesh` is what runs, `load` calls it, `tally` counts, `screen` is what is shown.

mod load;
mod mesh;
mod screen;
mod tally;

use std::future::pending;
use std::io::{self, IsTerminal, Write};
use std::num::NonZeroU32;
use std::time::{Duration, Instant};

use tokio::signal::unix::{SignalKind, signal};

pub use self::load::CallPace;
use self::load::{LoadGenerator, form};
use self::mesh::{Mesh, WORK};
use self::screen::{ProviderWork, Report};
use self::tally::Tally;
use crate::provider::HELLO;

/// Two thirds of what the providers can take, so that there is something to see and room to play.
const DEFAULT_CALLERS: NonZeroU32 = NonZeroU32::new(200).unwrap();
/// How often the figures are shown.
const INTERVAL: Duration = Duration::from_secs(1);
/// Longer than the deadline of any call of the load.
const STOP_TIMEOUT: Duration = Duration::from_secs(5);

/// What the demo does.
#[derive(Clone, Copy, Debug, Default)]
pub struct DemoPlan {
    /// How long it runs; `None`: until a signal ends it.
    pub duration: Option<Duration>,
    /// What load there is; `None`: callers without a pause, as many as fit.
    pub pace: Option<CallPace>,
    /// One line each second, even on a terminal.
    pub plain: bool,
}

/// Runs the demo to its end. Returns whether calls were answered.
///
/// # Errors
/// Why it could not start.
pub fn demo(plan: &DemoPlan) -> Result<bool, String> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build_local(tokio::runtime::LocalOptions::default());
    runtime
        .map_err(|error| format!("cannot start an event loop: {error}"))
        .and_then(|runtime| runtime.block_on(run(plan)))
}

/// Returns whether calls were answered.
async fn run(plan: &DemoPlan) -> Result<bool, String> {
    let no_signals = |error: io::Error| format!("cannot watch for signals: {error}");
    let mut interrupt = signal(SignalKind::interrupt()).map_err(no_signals)?;
    let mut terminate = signal(SignalKind::terminate()).map_err(no_signals)?;
    let mesh = Mesh::start().await.map_err(|error| error.to_string())?;
    let target = mesh.http().ok_or("the consumer's agent does not listen; please report this")?;
    let pace = plan.pace.unwrap_or(CallPace::Callers(DEFAULT_CALLERS));
    let is_plain = plan.plain || !io::stdout().is_terminal();
    let mut output = Output { is_plain, drawn: Vec::new(), end: None };
    output.print(&introduction(&mesh, pace));
    let load = LoadGenerator::new(target);
    let mut watch = ProgressDisplay::new(&mesh);
    let calls = tokio::task::spawn_local({
        let load = load.clone();
        async move { load.run(pace).await }
    });
    let end = async {
        match plan.duration {
            Some(duration) => tokio::time::sleep(duration).await,
            None => pending().await,
        }
    };
    tokio::pin!(end);
    let mut tick = tokio::time::interval_at(tokio::time::Instant::now() + INTERVAL, INTERVAL);
    loop {
        tokio::select! {
            () = &mut end => break,
            _ = interrupt.recv() => break,
            _ = terminate.recv() => break,
            _ = tick.tick() => watch.show(&load.take(), &mut output),
        }
        if output.end.is_some() {
            break;
        }
    }
    load.stop();
    let _ = tokio::time::timeout(STOP_TIMEOUT, calls).await;
    let total = watch.finish(&load.take(), &mut output);
    let complete = mesh.stop().await;
    output.print(if complete { "Everything has stopped.\n" } else { "Stopped.\n" });
    match output.end {
        Some(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(format!("cannot write to standard output: {error}"))
        }
        _ => Ok(0 < total.n_good),
    }
}

fn introduction(mesh: &Mesh, pace: CallPace) -> String {
    let show = |addr: Option<std::net::SocketAddr>| {
        addr.map_or_else(|| "nowhere".to_owned(), |addr| addr.to_string())
    };
    let (http, admin) = (show(mesh.http()), show(mesh.admin()));
    let members: String = mesh
        .members
        .iter()
        .map(|member| {
            let (name, threads) = (member.name, member.threads);
            let (app, link) = (member.provider.addr(), show(member.link()));
            format!("  {name:<7}{threads:>4} threads  dubbo://{app}, agent link://{link}\n")
        })
        .collect();
    let load = match pace {
        CallPace::Callers(n) => format!("{n} callers call without a pause"),
        CallPace::PerSecond(n) => format!("{n} calls are made each second"),
    };
    format!(
        "Dubmesh demo: three Dubbo providers of different size, an agent beside each of\n\
         them, and one agent that takes HTTP calls and spreads them. All of it runs in\n\
         this process.\n\n  \
         HTTP calls -> consumer's agent -> link -> provider's agent -> provider\n\n\
         {members}\n\
         A call takes its provider {work} ms, so together they answer {capacity} calls a second.\n\
         A provider with no free thread rejects the call, as Dubbo does.\n\
         {load}.\n\n\
         Try it from another terminal, as a form or as JSON:\n\n  \
         curl http://{http}/ \\\n    \
         {form}\n\n  \
         curl http://{http}/{HELLO}/hash -d '[\"hello\"]'\n\n\
         Metrics: http://{admin}/metrics\n\
         Ctrl-C ends the demo.\n\n",
        work = WORK.as_millis(),
        capacity = mesh.capacity(),
        form = form_arguments("hello"),
    )
}

/// Follows what the load sees and what the providers do.
struct ProgressDisplay<'a> {
    mesh: &'a Mesh,
    started: Instant,
    last_shown: Instant,
    /// What the providers had done then.
    last_works: Vec<ProviderWork>,
    total: Tally,
}

impl<'a> ProgressDisplay<'a> {
    fn new(mesh: &'a Mesh) -> Self {
        let now = Instant::now();
        let (last_works, total) = (works(mesh), Tally::default());
        Self { mesh, started: now, last_shown: now, last_works, total }
    }

    /// Shows what happened since it last did.
    fn show(&mut self, tally: &Tally, output: &mut Output) {
        let (now, works) = (Instant::now(), works(self.mesh));
        let since: Vec<ProviderWork> =
            works.iter().zip(&self.last_works).map(|(work, before)| work.since(before)).collect();
        let report = Report { tally, works: &since, took: now - self.last_shown };
        output.update(&report, now - self.started);
        self.total.add(tally);
        (self.last_shown, self.last_works) = (now, works);
    }

    /// The end: all calls, and what came of them.
    fn finish(mut self, tally: &Tally, output: &mut Output) -> Tally {
        self.total.add(tally);
        let (works, took) = (works(self.mesh), self.started.elapsed());
        let report = Report { tally: &self.total, works: &works, took };
        output.print(&report.summary(output.width()));
        self.total
    }
}

/// What the providers have done so far.
fn works(mesh: &Mesh) -> Vec<ProviderWork> {
    let work = |member: &mesh::MeshMember| {
        let counts = member.provider.counts();
        ProviderWork {
            name: member.name,
            threads: member.threads,
            n_answered: counts.answered(),
            n_rejected: counts.rejected(),
        }
    };
    mesh.members.iter().map(work).collect()
}

/// curl's arguments for the form of a call: one line for each value, so that none is long.
fn form_arguments(argument: &str) -> String {
    let form = form(argument);
    let values: Vec<String> = form.split('&').map(|value| format!("-d '{value}'")).collect();
    values.join(" \\\n    ")
}

/// Standard output.
struct Output {
    is_plain: bool,
    /// Why nothing more can be written: its reader has gone, or a disk is full.
    end: Option<io::Error>,
    /// The lengths of the lines that are drawn over by the next update.
    drawn: Vec<usize>,
}

impl Output {
    fn print(&mut self, text: &str) {
        let mut stdout = io::stdout();
        let printed = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
        self.end = self.end.take().or(printed.err());
    }

    /// How many columns there are just now; a file has as many as needed.
    fn width(&self) -> usize {
        match terminal_size::terminal_size_of(io::stdout()) {
            Some((width, _)) if !self.is_plain && width.0 != 0 => width.0.into(),
            _ => usize::MAX,
        }
    }

    fn update(&mut self, report: &Report<'_>, since_start: Duration) {
        if self.is_plain {
            return self.print(&format!("{}\n", report.line(since_start)));
        }
        let width = self.width();
        let lines = report.block(since_start, width);
        // Up to the first line; what stood there may wrap since the window became narrower. Then
        // all below is cleared.
        let n_rows: usize = self.drawn.iter().map(|len| len.div_ceil(width).max(1)).sum();
        let up = match n_rows {
            0 => String::new(),
            n => format!("\x1b[{n}A\x1b[J"),
        };
        let drawn: String = lines.iter().map(|line| format!("{line}\n")).collect();
        self.drawn = lines.iter().map(|line| line.chars().count()).collect();
        self.print(&(up + &drawn));
    }
}
