//! The section `[access_log]`.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};

use super::error::{KeyPlace, Problems};
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
pub enum LoggedCalls {
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
    pub calls: Option<LoggedCalls>,
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
    let path = section.path("path", folder);
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
        Word::Failed => Some(LoggedCalls::Failed),
        Word::Slow => Some(LoggedCalls::Slow(slow)),
        Word::Sampled => Some(LoggedCalls::Sampled(slow, sample)),
        Word::All => Some(LoggedCalls::All),
    };
    AccessLogConfig { calls, format, path, max_len, keep }
}

/// Refuses a file that an agent reads something else from: lines of calls would be appended to it.
/// `read` are these files, with what they are.
pub(super) fn check_path<'f>(
    config: &AccessLogConfig,
    place: &KeyPlace,
    read: impl IntoIterator<Item = (&'f Path, String)>,
    problems: &Problems<'_>,
) {
    let Some(path) = &config.path else { return };
    let is_it = |(file, _): &(&Path, String)| is_same_file(path, file);
    if let Some((_, what)) = read.into_iter().find(is_it) {
        let problem = format!("{} is {what}; calls would be written into it", path.display());
        problems.add(place, problem, "give the access log a file of its own");
    }
}

/// Whether two paths lead to one file, by links, too.
fn is_same_file(a: &Path, b: &Path) -> bool {
    let of = |path: &Path| std::fs::metadata(path).ok().map(|it| (it.dev(), it.ino()));
    a == b || of(a).is_some_and(|it| of(b) == Some(it))
}

pub(super) fn shown(config: &AccessLogConfig) -> Value {
    let AccessLogConfig { calls, format, path, max_len, keep } = config;
    let ms = |limit: Duration| u64::try_from(limit.as_millis()).unwrap_or(u64::MAX);
    let (word, slow_ms, sample) = match *calls {
        None => ("off", None, None),
        Some(LoggedCalls::Failed) => ("failed", None, None),
        Some(LoggedCalls::Slow(limit)) => ("slow", Some(ms(limit)), None),
        Some(LoggedCalls::Sampled(limit, one_of)) => ("sampled", Some(ms(limit)), Some(one_of)),
        Some(LoggedCalls::All) => ("all", None, None),
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

#[cfg(test)]
mod tests {
    use crate::config::load;

    #[test]
    fn the_log_is_no_file_that_the_agent_reads() {
        let folder = tempfile::tempdir().unwrap();
        let (config, services) =
            (folder.path().join("agent.toml"), folder.path().join("services.toml"));
        std::fs::write(&services, "").unwrap();
        std::os::unix::fs::symlink(&services, folder.path().join("link")).unwrap();
        std::fs::hard_link(&services, folder.path().join("hard")).unwrap();
        let refusal = |path: &str| {
            let text = format!(
                "[access_log]\ncalls = \"all\"\npath = \"{path}\"\n[[registry]]\n\
                 name = \"main\"\nkind = \"file\"\npath = \"services.toml\"\n[[ingress]]\n\
                 protocol = \"http\"\nlisten = \"127.0.0.1:0\"\n"
            );
            std::fs::write(&config, text).unwrap();
            load(&config).err().map(|errors| errors.to_string()).unwrap_or_default()
        };
        for path in ["services.toml", "./services.toml", "link", "hard"] {
            let refusal = refusal(path);
            let what = "is the file of registry \"main\"; calls would be written into it; give";
            assert!(refusal.contains("agent.toml:3: access_log.path: "), "{refusal}");
            assert!(refusal.contains(what), "{refusal}");
        }
        assert!(refusal("agent.toml").contains("is this configuration; "));
        assert_eq!(refusal("calls.log"), "");
        // One that is not there yet is not written either.
        std::fs::remove_file(&services).unwrap();
        assert!(refusal("services.toml").contains("is the file of registry"));
    }
}
