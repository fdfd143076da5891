//! The load: what is posted, and wrk that posts it.
//!
//! wrk is a closed loop: a connection asks again when it was answered, so a slow answer slows the
//! load down, and latencies say nothing about a fixed arrival rate.

use std::fmt::Write as _;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use interop_harness::Child;
use serde_json::Value;
use tempfile::TempDir;

use crate::error::BenchError;

/// The service of all scenarios.
pub const INTERFACE: &str = "com.alibaba.dubbo.performance.demo.provider.IHelloService";
/// Bodies that are posted in turn.
const N_BODIES: usize = 1000;
/// The contest's parameters are 0 to 1023 bytes of random text.
const MAX_TEXT_LEN: u64 = 1023;
/// wrk ends by itself; this is for one that hangs.
const GRACE: Duration = Duration::from_secs(30);
const SAMPLE_INTERVAL: Duration = Duration::from_millis(200);

/// How a call is written.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Style {
    /// The contest's form, posted to `/`.
    Form,
    /// A JSON array of arguments, posted to `/INTERFACE/METHOD`.
    Json,
}

impl Style {
    pub(crate) fn path(self) -> String {
        match self {
            Self::Form => "/".to_owned(),
            Self::Json => format!("/{INTERFACE}/hash"),
        }
    }

    pub(crate) fn content_type(self) -> &'static str {
        match self {
            Self::Form => "application/x-www-form-urlencoded",
            Self::Json => "application/json",
        }
    }

    /// The whole of a request for `hash(text)` with a timeout.
    pub(crate) fn request(self, text: &str, timeout: Duration) -> Vec<u8> {
        let (path, kind, body) = (self.path(), self.content_type(), self.body(text));
        format!(
            "POST {path} HTTP/1.1\r\nhost: bench\r\ncontent-type: {kind}\r\n\
             x-dubbo-timeout-ms: {}\r\ncontent-length: {}\r\n\r\n{body}",
            timeout.as_millis(),
            body.len()
        )
        .into_bytes()
    }

    /// The body of a call of `hash(text)`.
    pub(crate) fn body(self, text: &str) -> String {
        match self {
            Self::Form => format!(
                "interface={INTERFACE}&method=hash&parameterTypesString={}&parameter={}",
                percent_encoded("Ljava/lang/String;"),
                percent_encoded(text)
            ),
            Self::Json => serde_json::json!([text]).to_string(),
        }
    }
}

fn percent_encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' => {
                encoded.push(char::from(byte));
            }
            // Writing to a `String` never fails.
            _ => drop(write!(encoded, "%{byte:02X}")),
        }
    }
    encoded
}

/// Letters and digits, as the contest's load had them; the same in every run.
pub(crate) fn texts() -> Vec<String> {
    const ALPHABET: &[u8; 62] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut below = |bound: u64| {
        // xorshift; any mixture will do.
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % bound
    };
    let mut text = || {
        let len = below(MAX_TEXT_LEN + 1);
        (0..len).map(|_| char::from(ALPHABET[usize::try_from(below(62)).unwrap_or(0)])).collect()
    };
    (0..N_BODIES).map(|_| text()).collect()
}

/// Drives wrk; holds the files that it reads.
#[derive(Debug)]
pub(crate) struct Wrk {
    dir: TempDir,
}

/// One run of wrk.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shot<'a> {
    pub(crate) addr: SocketAddr,
    pub(crate) style: Style,
    pub(crate) n_connections: u32,
    pub(crate) duration: Duration,
    /// Where what wrk prints is kept.
    pub(crate) raw: Option<&'a Path>,
}

/// What wrk measured.
#[derive(Clone, Debug)]
pub(crate) struct WrkFigures {
    pub(crate) n_calls: f64,
    pub(crate) calls_per_s: f64,
    pub(crate) p50_ms: f64,
    pub(crate) p99_ms: f64,
    pub(crate) p999_ms: f64,
    pub(crate) max_ms: f64,
    /// Connections that failed, reads, writes, answers with another status than 2xx or 3xx,
    /// and answers that took over two seconds.
    pub(crate) errors: u64,
    /// Bytes of an answer with its head, on average: shows answers without a body.
    pub(crate) answer_len: f64,
    /// CPU time of wrk itself.
    pub(crate) cpu: Duration,
}

impl Wrk {
    pub(crate) fn new() -> Result<Self, BenchError> {
        let dir = TempDir::with_prefix("bench-").map_err(BenchError::io("a temporary folder"))?;
        let wrk = Self { dir };
        let script = wrk.path("wrk.lua");
        fs::write(&script, include_str!("wrk.lua")).map_err(BenchError::file(script))?;
        Ok(wrk)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Loads a server, and calls `sample` now and then while it does.
    pub(crate) fn run(
        &self,
        shot: &Shot<'_>,
        mut sample: impl FnMut(),
    ) -> Result<WrkFigures, BenchError> {
        let bodies = self.path("bodies.lua");
        fs::write(&bodies, bodies_lua(shot)).map_err(BenchError::file(&bodies))?;
        let cores =
            thread::available_parallelism().map_or(1, |n| u32::try_from(n.get()).unwrap_or(1));
        let n_threads = cores.min(shot.n_connections);
        let mut command = Command::new("wrk");
        command
            .args(["--latency", "--timeout", "2s", "--threads", &n_threads.to_string()])
            .args(["--connections", &shot.n_connections.to_string()])
            .args(["--duration", &format!("{}s", shot.duration.as_secs())])
            .arg("--script")
            .arg(self.path("wrk.lua"))
            .arg(format!("http://{}{}", shot.addr, shot.style.path()))
            .arg("--")
            .arg(bodies);
        let mut child = Child::spawn("wrk", &command)?;
        let deadline = Instant::now() + shot.duration + GRACE;
        while child.try_wait().is_none() && Instant::now() < deadline {
            thread::sleep(SAMPLE_INTERVAL);
            if child.try_wait().is_none() {
                sample();
            }
        }
        let output = child.finish(Duration::from_secs(1))?;
        if let Some(raw) = shot.raw {
            fs::write(raw, &output).map_err(BenchError::file(raw))?;
        }
        WrkFigures::parse(&output).ok_or(BenchError::NoResult { output })
    }
}

impl WrkFigures {
    fn parse(output: &str) -> Option<Self> {
        let line = output.lines().find_map(|line| line.strip_prefix("RESULT "))?;
        let result: Value = serde_json::from_str(line).ok()?;
        let number = |name: &str| result[name].as_f64();
        let count = |name: &str| result[name].as_u64();
        let n_calls = number("requests")?;
        let mut errors = 0;
        for kind in ["connect", "read", "write", "status", "timeout"] {
            errors += count(kind)?;
        }
        Some(Self {
            n_calls,
            calls_per_s: n_calls / (number("duration_us")? / 1e6),
            p50_ms: number("p50_us")? / 1e3,
            p99_ms: number("p99_us")? / 1e3,
            p999_ms: number("p999_us")? / 1e3,
            max_ms: number("max_us")? / 1e3,
            errors,
            answer_len: number("bytes")? / n_calls.max(1.0),
            cpu: Duration::from_millis(count("ticks")? * 10),
        })
    }
}

/// The bodies as a Lua table. All of them are ASCII.
fn bodies_lua(shot: &Shot<'_>) -> String {
    let Shot { addr, style, .. } = shot;
    let mut lua = format!(
        "return {{ host = \"{addr}\", path = \"{}\", content_type = \"{}\", bodies = {{\n",
        style.path(),
        style.content_type()
    );
    for text in texts() {
        let body = style.body(&text).replace('\\', "\\\\").replace('"', "\\\"");
        lua += &format!("\"{body}\",\n");
    }
    lua + "}}\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_have_all_lengths() {
        let texts = texts();
        let mean = texts.iter().map(String::len).sum::<usize>() / texts.len();
        assert!((480..545).contains(&mean), "{mean}");
        assert!(texts.iter().all(|text| text.len() <= 1023));
    }

    #[test]
    fn bodies_are_encoded() {
        let body = Style::Form.body("a b&\u{e4}");
        assert!(body.ends_with("Ljava%2Flang%2FString%3B&parameter=a%20b%26%C3%A4"), "{body}");
        assert_eq!(Style::Json.body("a\"b"), r#"["a\"b"]"#);
    }
}
