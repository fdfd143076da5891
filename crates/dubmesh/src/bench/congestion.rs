//! `dubmesh bench congestion`: how connections and socket buffers decide how long calls wait.

use std::fs::OpenOptions;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::time::Duration;

use agent::config::{ClusterPolicy, ConnectionLimit};
use clap::Args;
use dubbo_proto::{DubboUrl, ServiceKey};
use lab::congestion::{
    Callee, CongestionError, CongestionOutcome, Curve, Labels, LargeLoad, LoadPlan, Setting, draw,
    embedded, heading, line, measure,
};
use registry::Protocol;
use wire::SocketOptions;

use super::seconds;
use crate::output;
use crate::service_location::endpoint_url;

/// What stands below the options in `--help`.
pub(super) const HELP: &str = "\
Without --connect, an embedded provider is called in this process: each call
takes 0 to 300 ms, and its reply is twice as long as the request. Over loopback
connections are rarely the bottleneck; measure between two machines, or network
namespaces, to see what yours need. Each caller waits for its reply before it
makes the next call (a closed loop).

With --large-callers, each row is measured alone and then beside calls with
large replies, to see how long they hold the others up. They call a method whose
argument is the length of its reply.

Examples:
  dubmesh bench congestion
  dubmesh bench congestion --connections 1,4,auto --buffers 32k,kernel \\
      --svg congestion.svg
  dubmesh bench congestion --connect dubbo://10.0.0.7:20880 \\
      --service com.acme.Orders --method echo --callers 200";

/// The longest text that is sent.
const MAX_REQUEST_LEN: u32 = 4_000_000;
/// The longest reply that large calls ask for.
const MAX_LARGE_LEN: u32 = 64 << 20;
/// What a socket option can say.
const MAX_BUFFER_LEN: usize = 1 << 30;

/// The arguments of `dubmesh bench congestion`.
#[derive(Args, Debug)]
pub(super) struct CongestionArgs {
    /// Callers, each with one call at a time
    #[arg(long, default_value_t = 800, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    callers: u32,
    /// Characters of the text that each call sends
    #[arg(long, default_value_t = 5000, value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_REQUEST_LEN)))]
    request_bytes: u32,
    /// Connections to the provider: numbers from 1 to 64, and "auto"
    #[arg(long, default_value = "1,2,4,6,8,auto", value_delimiter = ',', value_parser = connections)]
    connections: Vec<ConnectionLimit>,
    /// Send and receive buffers on this side: bytes such as 32k or 4m, and "kernel" for those that
    /// the kernel chooses
    #[arg(long, default_value = "kernel", value_delimiter = ',', value_parser = buffer)]
    buffers: Vec<Buffer>,
    /// How long to measure
    #[arg(long, default_value = "5s", value_parser = seconds)]
    duration: Duration,
    /// How long to call before each measurement begins
    #[arg(long, default_value = "5s", value_parser = seconds)]
    warmup: Duration,
    /// Call this endpoint instead: dubbo://HOST:PORT of a provider, or link://HOST:PORT of an
    /// agent
    #[arg(long, value_name = "URL", value_parser = endpoint_url, requires = "service")]
    connect: Option<DubboUrl>,
    /// The service there: an interface, or GROUP/INTERFACE:VERSION
    #[arg(long, requires = "connect")]
    service: Option<ServiceKey>,
    /// Its method; it takes one String
    #[arg(long, default_value = "twice", requires = "connect")]
    method: String,
    /// The longest that the embedded provider works on a call; the shortest is 0
    #[arg(long, default_value = "0.3s", value_parser = seconds, conflicts_with = "connect")]
    work: Duration,
    /// Callers with large replies, beside the others
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=1000))]
    large_callers: u32,
    /// Characters of each large reply
    #[arg(long, default_value_t = 5_000_000, value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_LARGE_LEN)))]
    large_bytes: u32,
    /// Their method; it takes one String: how many characters the reply is to have
    #[arg(long, default_value = "sized", requires = "connect")]
    large_method: String,
    /// Draw the mean latencies into this file
    #[arg(long, value_name = "FILE.svg")]
    svg: Option<PathBuf>,
    /// Print the rows as JSON
    #[arg(long)]
    json: bool,
}

/// The length of a buffer; `None` is the kernel's choice.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Buffer(Option<usize>);

/// Measures, and prints the rows as they come.
///
/// # Errors
/// Why nothing was measured, or cannot be printed.
pub(super) fn run(args: &CongestionArgs) -> Result<(), String> {
    if let Some(path) = &args.svg {
        check_writable(path)?;
    }
    let (_provider, callee) = match (&args.connect, &args.service) {
        (Some(url), Some(service)) => (None, remote(url, service, args)),
        _ => {
            let n_callers = args.callers + args.large_callers;
            let (provider, callee) =
                embedded(n_callers, args.work).map_err(|error| error.to_string())?;
            (Some(provider), callee)
        }
    };
    let len = |n: u32| usize::try_from(n).unwrap_or(usize::MAX);
    let alone = LoadPlan {
        callers: args.callers,
        request_len: len(args.request_bytes),
        warm_up: args.warmup,
        duration: args.duration,
        large: None,
    };
    let mut loads = vec![alone];
    if args.large_callers != 0 {
        let (callers, reply_len) = (args.large_callers, len(args.large_bytes));
        loads.push(LoadPlan { large: Some(LargeLoad { callers, reply_len }), ..alone });
    }
    if !args.json {
        say(&heading(args.large_callers != 0))?;
    }
    let mut rows = Vec::new();
    for Buffer(buffer_len) in &args.buffers {
        if let Some(problem) = buffer_len.and_then(cut) {
            // Nobody need be there to read it.
            output::say(problem);
        }
        for connections in &args.connections {
            let setting = Setting { connections: *connections, buffer_len: *buffer_len };
            for load in &loads {
                let outcome =
                    measure(&callee, &setting, load).map_err(|error| error.to_string())?;
                if !args.json {
                    say(&line(&setting, &outcome))?;
                }
                rows.push(CongestionResult { setting, load: *load, outcome });
            }
        }
    }
    if args.json {
        let rows = rows.iter().map(|row| row.outcome.to_json(&row.setting, &row.load));
        say(&serde_json::Value::Array(rows.collect()).to_string())?;
    }
    match &args.svg {
        Some(path) => plot(path, args, &rows).map_err(|error| error.to_string()),
        None => Ok(()),
    }
}

/// One measurement.
struct CongestionResult {
    setting: Setting,
    load: LoadPlan,
    outcome: CongestionOutcome,
}

fn remote(url: &DubboUrl, service: &ServiceKey, args: &CongestionArgs) -> Callee {
    Callee {
        protocol: Protocol::from_scheme(&url.protocol).unwrap_or(Protocol::Dubbo),
        host: url.host.clone(),
        port: url.port,
        service: service.clone(),
        method: args.method.clone(),
        large_method: args.large_method.clone(),
    }
}

fn plot(
    path: &Path,
    args: &CongestionArgs,
    rows: &[CongestionResult],
) -> Result<(), CongestionError> {
    let title = format!("{} callers, {} bytes a request", args.callers, args.request_bytes);
    let ms = |outcome: &CongestionOutcome| outcome.mean.as_secs_f64() * 1e3;
    let curve = |Buffer(buffer_len): &Buffer, is_mixed: bool| {
        let (mut points, mut level) = (Vec::new(), None);
        let is_it = |row: &&CongestionResult| {
            row.setting.buffer_len == *buffer_len && row.load.large.is_some() == is_mixed
        };
        for row in rows.iter().filter(is_it) {
            match row.setting.connections {
                ConnectionLimit::Fixed(n) => {
                    let n = u32::try_from(n.get()).unwrap_or(u32::MAX);
                    points.push((n, ms(&row.outcome)));
                }
                ConnectionLimit::Auto { .. } => level = Some(ms(&row.outcome)),
            }
        }
        let name = buffer_len.map_or_else(|| "kernel's buffers".to_owned(), |len| len.to_string());
        let name = if is_mixed { format!("{name}, beside large calls") } else { name };
        Curve { name, points, level }
    };
    let kinds = if args.large_callers == 0 { &[false][..] } else { &[false, true] };
    let buffers = || args.buffers.iter();
    let curves = kinds.iter().flat_map(|is_mixed| buffers().map(|it| curve(it, *is_mixed)));
    draw(path, Labels::by_connections(&title), &curves.collect::<Vec<_>>())
}

/// Measuring takes minutes: whether the plot can be written is known before.
fn check_writable(path: &Path) -> Result<(), String> {
    // What is there stays as it is until there is a plot.
    let opened = OpenOptions::new().append(true).create(true).open(path);
    opened.map(drop).map_err(|error| format!("cannot write {}: {error}", path.display()))
}

/// What is measured goes on, for the plot, when nobody reads the lines any more.
fn say(line: &str) -> Result<(), String> {
    output::write(format!("{line}\n").as_bytes()).map(drop)
}

fn connections(text: &str) -> Result<ConnectionLimit, String> {
    let n = text.parse().ok().filter(|n| (1..=64).contains(n)).and_then(NonZeroUsize::new);
    match (text, n) {
        ("auto", _) => Ok(ClusterPolicy::default().connections),
        (_, Some(n)) => Ok(ConnectionLimit::Fixed(n)),
        _ => Err("neither a number from 1 to 64 nor \"auto\"".to_owned()),
    }
}

/// What the kernel makes of buffers of that length, if it gives less.
fn cut(asked: usize) -> Option<String> {
    let options = SocketOptions {
        send_buffer_len: Some(asked),
        receive_buffer_len: Some(asked),
        ..SocketOptions::default()
    };
    let (sending, receiving) = options.granted_buffers().ok()?;
    (sending.min(receiving) < asked).then(|| {
        format!(
            "note: buffers of {asked} bytes are asked for, and this kernel gives {sending} for \
             sending and {receiving} for receiving; raise net.core.wmem_max and net.core.rmem_max \
             with sysctl"
        )
    })
}

fn buffer(text: &str) -> Result<Buffer, String> {
    if text == "kernel" {
        return Ok(Buffer(None));
    }
    let lower = text.to_ascii_lowercase();
    let (number, times) = match (lower.strip_suffix('k'), lower.strip_suffix('m')) {
        (Some(number), _) => (number, 1 << 10),
        (_, Some(number)) => (number, 1 << 20),
        _ => (&*lower, 1),
    };
    let len = number.parse::<usize>().ok().and_then(|number| number.checked_mul(times));
    match len {
        Some(len @ 4096..=MAX_BUFFER_LEN) => Ok(Buffer(Some(len))),
        _ => Err("write bytes from 4096 to 1024m, such as 32k, or \"kernel\"".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A row must not pass for one with the buffers that were asked for.
    #[test]
    fn buffers_that_the_kernel_cuts_are_told() {
        let told = cut(MAX_BUFFER_LEN).expect("no kernel gives so much");
        assert!(told.contains("1073741824 bytes are asked for, and this kernel gives "), "{told}");
        assert_eq!(cut(8192), None);
    }

    #[test]
    fn a_plot_that_cannot_be_written_is_refused_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("plot.svg");
        std::fs::write(&file, "old").unwrap();
        assert_eq!(check_writable(&file), Ok(()));
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "old", "it is kept meanwhile");
        let missing = folder.path().join("none/plot.svg");
        let error = check_writable(&missing).unwrap_err();
        assert!(error.contains("none/plot.svg: No such file"), "{error}");
        assert!(check_writable(folder.path()).is_err());
    }

    #[test]
    fn buffers_are_bytes_or_the_kernels() {
        for (text, len) in [("4096", 4096), ("32k", 32 << 10), ("4M", 4 << 20), ("1024m", 1 << 30)]
        {
            assert_eq!(buffer(text), Ok(Buffer(Some(len))), "{text}");
        }
        assert_eq!(buffer("kernel"), Ok(Buffer(None)));
        for text in ["", "k", "4095", "2g", "1025m", "-1", "99999999999999999999k"] {
            assert!(buffer(text).is_err(), "{text}");
        }
    }
}
