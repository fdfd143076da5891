//! The section `[access_log]`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};

use super::section::Section;
const MIN_LEN: u64 = 64 * 1024;
const MAX_LEN: u64 = 1 << 40;
const DEFAULT_LEN: u64 = 100 * 1024 * 1024;
const MAX_KEEP: usize = 1000;
const DEFAULT_KEEP: usize = 5;
const LONGEST: Duration = Duration::from_secs(3600);
const DEFAULT_SLOW: Duration = Duration::from_secs(1);
const DEFAULT_SAMPLE: u32 = 100;

/// Which calls the access log tells of. Each choice includes those before it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Calls {
    /// Those that have failed.
    Failed,
    /// Also those that took at least so long.
    Slow(Duration),
    /// Also one of so many others.
    Sampled(Duration, u32),
    /// All of them.
    All,
}

/// How a line of the access log is written.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum LineFormat {
    /// For people.
    Text,
    /// One JSON object.
    Json,
}

/// Which calls are written in the access log, how, and where.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct AccessLogConfig {
    /// `None` if none is.
    pub calls: Option<Calls>,
    /// How a line is written.
    pub format: LineFormat,
    /// The file; standard output without it.
    pub path: Option<PathBuf>,
    /// The file is moved aside before it has more bytes than this.
    pub max_len: u64,
    /// How many that were moved aside are kept.
    pub keep: usize,
}

impl Default for AccessLogConfig {
    fn default() -> Self {
        Self {
            calls: None,
            format: LineFormat::Text,
            path: None,
            max_len: DEFAULT_LEN,
            keep: DEFAULT_KEEP,
        }
    }
}

/// A word for a choice of calls, which the other keys complete.
#[derive(Clone, Copy, Eq, PartialEq)]
enum Word {
    Off,
    Failed,
    Slow,
    Sampled,
    All,
}

pub(super) fn access_log(mut section: Section<'_>, folder: &Path) -> AccessLogConfig {
    let words = [
        ("off", Word::Off),
        ("failed", Word::Failed),
        ("slow", Word::Slow),
        ("sampled", Word::Sampled),
        ("all", Word::All),
    ];
    let word = section.choice("calls", &words).unwrap_or(Word::Off);
    let slow = section.ms("slow_ms", LONGEST, DEFAULT_SLOW);
    let sample = section.number("sample", 1..=u32::MAX, DEFAULT_SAMPLE);
    let formats = [("text", LineFormat::Text), ("json", LineFormat::Json)];
    let format = section.choice("format", &formats).unwrap_or(LineFormat::Text);
    let path = section.text("path").map(|path| folder.join(path));
    let max_len = section.number("max_bytes", MIN_LEN..=MAX_LEN, DEFAULT_LEN);
    let keep = section.number("keep", 0..=MAX_KEEP, DEFAULT_KEEP);
    let idle = |key: &str, is_used: bool, remedy: &str| {
        if section.has(key) && !is_used {
            section.wrong(key, "has no effect here", remedy);
        }
    };
    if section.is_present() && word == Word::Off && !section.has("calls") {
        section.wrong("calls", "is missing", "write calls = \"failed\", or \"off\" for no log");
    }
    let is_slow = matches!(word, Word::Slow | Word::Sampled | Word::Off);
    idle("slow_ms", is_slow, "write calls = \"slow\" or calls = \"sampled\", or remove it");
    let is_sampled = matches!(word, Word::Sampled | Word::Off);
    idle("sample", is_sampled, "write calls = \"sampled\", or remove it");
    for key in ["max_bytes", "keep"] {
        idle(key, path.is_some(), "it belongs to a file; give path, or remove it");
    }
    section.finish();
    let calls = match word {
        Word::Off => None,
        Word::Failed => Some(Calls::Failed),
        Word::Slow => Some(Calls::Slow(slow)),
        Word::Sampled => Some(Calls::Sampled(slow, sample)),
        Word::All => Some(Calls::All),
    };
    AccessLogConfig { calls, format, path, max_len, keep }
}

pub(super) fn shown(config: &AccessLogConfig) -> Value {
    let AccessLogConfig { calls, format, path, max_len, keep } = config;
    let ms = |limit: Duration| u64::try_from(limit.as_millis()).unwrap_or(u64::MAX);
    let (word, slow_ms, sample) = match *calls {
        None => ("off", None, None),
        Some(Calls::Failed) => ("failed", None, None),
        Some(Calls::Slow(limit)) => ("slow", Some(ms(limit)), None),
        Some(Calls::Sampled(limit, one_of)) => ("sampled", Some(ms(limit)), Some(one_of)),
        Some(Calls::All) => ("all", None, None),
    };
    json!({
        "calls": word,
        "slow_ms": slow_ms,
        "sample": sample,
        "format": match format {
            LineFormat::Text => "text",
            LineFormat::Json => "json",
        },
        "path": path.as_ref().map(|path| path.display().to_string()),
        "max_bytes": path.is_some().then_some(*max_len),
        "keep": path.is_some().then_some(*keep),
    })
}
