//! `[[cluster.split]]` and `[[defaults.split]]`: parts of a service's calls that go elsewhere.

use std::fmt;
use std::sync::Arc;

use dubbo_proto::ServiceKey;
use flow::rules::Subset;
use parameters::Parameters;

use super::clusters::{check_names, covers};
use super::section::Section;

/// Splits of one cluster: every call looks at each.
const MAX_SPLITS: usize = 64;
/// The last parameter that a Java method can have.
const MAX_INDEX: usize = 254;
const PART_REMEDY: &str = "write \"header:NAME\", \"attachment:NAME\", \"argument:0\", \
                           \"argument:0.member\", \"version\" or \"group\"";

/// A part of the calls, and where it goes.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Split {
    /// What explanations call it.
    pub name: Arc<str>,
    /// Methods: names, or beginnings and `*`.
    pub methods: Vec<String>,
    /// What a call has to be like, all of it.
    pub when: Vec<CallTest>,
    /// So many of a hundred of these calls.
    pub percent: u32,
    /// Calls with the same value here go the same way.
    pub sticky: Option<CallPart>,
    /// Where they go.
    pub to: SplitTarget,
}

/// Where a part of the calls goes.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum SplitTarget {
    /// As calls with this tag.
    Tag {
        /// The tag.
        tag: String,
        /// Whether endpoints without a tag are no substitute.
        force: bool,
    },
    /// To endpoints with certain parameters.
    Endpoints(Subset),
    /// To the same interface in another version or group.
    Service(OtherService),
}

/// The same interface in another version or group.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct OtherService {
    /// Its version, if that is another.
    pub version: Option<String>,
    /// Its group, if that is another.
    pub group: Option<String>,
}

/// What a call has to be like.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct CallTest {
    /// What is looked at.
    pub part: CallPart,
    /// Its text, or the beginning of it and `*`.
    pub pattern: String,
}

/// A part of a call that can be looked at.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum CallPart {
    /// A header of HTTP, by its name in small letters.
    Header(String),
    /// An attachment.
    Attachment(String),
    /// An argument, or what is at this path in it.
    Argument(usize, Vec<String>),
    /// The version that its caller asks for.
    Version,
    /// The group that its caller asks for.
    Group,
}

impl OtherService {
    /// The service that is meant instead of `service`.
    #[must_use]
    pub fn of(&self, service: &ServiceKey) -> ServiceKey {
        let mut other = service.clone();
        if let Some(version) = &self.version {
            other.version.clone_from(version);
        }
        if let Some(group) = &self.group {
            other.group.clone_from(group);
        }
        other
    }

    /// Reads the keys `version` and `group`, or the like, of a section.
    pub(super) fn read(
        section: &mut Section<'_>,
        version_key: &'static str,
        group_key: &'static str,
    ) -> Option<Self> {
        let mut part = |key: &'static str, is_version: bool| {
            let text = section.text(key)?;
            let (version, group) = if is_version { (text, "") } else { ("", text) };
            if let Err(error) = ServiceKey::new("a.B", version, group) {
                section.wrong(key, error.to_string(), "write one as providers register it");
            }
            Some(text.to_owned())
        };
        let (version, group) = (part(version_key, true), part(group_key, false));
        (version.is_some() || group.is_some()).then_some(Self { version, group })
    }
}

impl fmt::Display for OtherService {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.version, &self.group) {
            (Some(version), Some(group)) => write!(f, "version {version} of group {group}"),
            (Some(version), None) => write!(f, "version {version}"),
            (None, Some(group)) => write!(f, "group {group}"),
            (None, None) => f.write_str("the same service"),
        }
    }
}

impl fmt::Display for SplitTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tag { tag, .. } => write!(f, "tag {tag}"),
            Self::Endpoints(Subset { params, .. }) => {
                let params: Vec<String> =
                    params.iter().map(|(name, value)| format!("{name}={value}")).collect();
                write!(f, "endpoints with {}", params.join(", "))
            }
            Self::Service(other) => other.fmt(f),
        }
    }
}

impl fmt::Display for CallPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Header(name) => write!(f, "header:{name}"),
            Self::Attachment(name) => write!(f, "attachment:{name}"),
            Self::Version => f.write_str("version"),
            Self::Group => f.write_str("group"),
            Self::Argument(index, path) => {
                write!(f, "argument:{index}")?;
                path.iter().try_for_each(|member| write!(f, ".{member}"))
            }
        }
    }
}

impl CallPart {
    /// Reads a part as the configuration has it.
    ///
    /// # Errors
    /// What is wrong with it.
    fn parse(text: &str) -> Result<Self, String> {
        match text {
            "version" => return Ok(Self::Version),
            "group" => return Ok(Self::Group),
            _ => {}
        }
        let unknown = || format!("\"{text}\" is not known");
        let (kind, name) = text.split_once(':').ok_or_else(unknown)?;
        match (kind, name) {
            ("attachment", name) if !name.is_empty() => Ok(Self::Attachment(name.to_owned())),
            ("header", name) => match http::HeaderName::from_bytes(name.as_bytes()) {
                Ok(name) => Ok(Self::Header(name.as_str().to_owned())),
                Err(_) => Err(format!("\"{name}\" is not the name of a header")),
            },
            ("argument", name) => {
                let mut parts = name.split('.');
                let index = parts.next().and_then(|index| index.parse().ok());
                let index = index.filter(|index| *index <= MAX_INDEX);
                let path: Vec<String> = parts.map(str::to_owned).collect();
                match index {
                    Some(index) if path.iter().all(|it| !it.is_empty()) => {
                        Ok(Self::Argument(index, path))
                    }
                    _ => Err(format!("\"{name}\" is not an argument")),
                }
            }
            _ => Err(unknown()),
        }
    }
}

/// Reads the sections `[[...split]]` of a section; `None` if it has none.
pub(super) fn splits(section: &mut Section<'_>, name: &'static str) -> Option<Vec<Split>> {
    let is_ours = section.has("split");
    let sections = section.tables_as("split", name);
    if MAX_SPLITS < sections.len() {
        let problem = format!("has over {MAX_SPLITS} sections");
        section.wrong("split", problem, "put calls of the same kind into one");
    }
    let mut splits: Vec<Split> = Vec::new();
    for mut section in sections.into_iter().take(MAX_SPLITS) {
        let split = split(&mut section);
        if let Some(split) = split {
            check_order(&section, &splits, &split);
            splits.push(split);
        }
        section.finish();
    }
    is_ours.then_some(splits)
}

/// Splits of the same calls may not take more than all of them.
fn check_order(section: &Section<'_>, before: &[Split], split: &Split) {
    if before.iter().any(|it| it.name == split.name) {
        let problem = format!("\"{}\" is the name of a split before it, too", split.name);
        section.wrong("name", problem, "give each a name of its own");
    }
    let covering = before.iter().filter(|it| it.covers(split));
    let taken: u32 = covering.map(|it| it.percent).sum();
    if 100 <= taken {
        let problem = "never applies: the sections before it take all of its calls";
        section.wrong("name", problem, "lower their percent, or put the narrower section first");
    } else if 100 < taken + split.percent {
        let percent = split.percent;
        let problem = format!(
            "{percent}% are more than is left: the sections before it take {taken}% of its calls"
        );
        section.wrong("percent", problem, format!("write at most {}", 100 - taken));
    }
}

impl Split {
    /// Whether it is for a method.
    #[must_use]
    pub fn is_for(&self, method: &str) -> bool {
        self.methods.iter().any(|wide| covers(wide, method))
    }

    /// Whether all calls that `other` is for are calls that this one is for.
    fn covers(&self, other: &Self) -> bool {
        let has_method = |name: &String| self.methods.iter().any(|wide| covers(wide, name));
        let is_as_wide = |part| !self.is_for_unasked(part) || other.is_for_unasked(part);
        other.methods.iter().all(has_method)
            && self.when.iter().all(|it| other.when.contains(it))
            && [CallPart::Version, CallPart::Group].iter().all(is_as_wide)
    }

    /// Whether its calls get another version, or group, and ask for none: a caller gets what it
    /// asks for, unless a test names that.
    #[must_use]
    pub fn is_for_unasked(&self, part: &CallPart) -> bool {
        let SplitTarget::Service(other) = &self.to else { return false };
        let changed = match part {
            CallPart::Version => &other.version,
            CallPart::Group => &other.group,
            _ => return false,
        };
        changed.is_some() && !self.when.iter().any(|test| test.part == *part)
    }

    /// The subset of endpoints that its calls go to.
    #[must_use]
    pub fn subset(&self) -> Option<&Subset> {
        match &self.to {
            SplitTarget::Endpoints(subset) => Some(subset),
            _ => None,
        }
    }
}

fn split(section: &mut Section<'_>) -> Option<Split> {
    let remedy = "write a name for explanations, such as \"canary\"";
    let name: Option<Arc<str>> = section.required_text("name", remedy).map(Into::into);
    let methods = section.texts("methods").unwrap_or_else(|| vec!["*"]);
    check_names(section, "methods", &methods);
    let has_when = !section.pairs("when").is_empty();
    let when = when(section);
    let percent = section.optional_number("percent", 1..=100);
    let sticky = section.text("sticky").and_then(|text| {
        let part = CallPart::parse(text);
        part.map_err(|problem| section.wrong("sticky", problem, PART_REMEDY)).ok()
    });
    if !section.has("percent") && !has_when {
        let problem = "has neither percent nor when, and would take all calls";
        section.wrong("name", problem, "add one of them");
    }
    let is_for_all = percent == Some(100) || !section.has("percent");
    if sticky.is_some() && is_for_all {
        let problem = "has no effect: all calls of the section go the same way";
        section.wrong("sticky", problem, "add percent, or remove this key");
    }
    if matches!(sticky, Some(CallPart::Version | CallPart::Group)) {
        let problem = "is the same for all calls of a service, which would all go the same way";
        section.wrong("sticky", problem, "name a header, an attachment or an argument");
    }
    let to = target(section, name.as_ref());
    let methods = methods.into_iter().map(str::to_owned).collect();
    Some(Split { name: name?, methods, when, percent: percent.unwrap_or(100), sticky, to: to? })
}

fn when(section: &mut Section<'_>) -> Vec<CallTest> {
    let mut when = Vec::new();
    for (place, name, pattern) in section.pairs("when") {
        match CallPart::parse(name) {
            Ok(part) => when.push(CallTest { part, pattern: pattern.to_owned() }),
            Err(problem) => section.wrong_at(&place, problem, PART_REMEDY),
        }
    }
    when
}

fn target(section: &mut Section<'_>, name: Option<&Arc<str>>) -> Option<SplitTarget> {
    let tag = section.text("tag").map(str::to_owned);
    let params: Parameters =
        section.pairs("endpoints").into_iter().map(|(_, name, value)| (name, value)).collect();
    let service = OtherService::read(section, "version", "group");
    let force = section.flag("force", false);
    if force && service.is_some() {
        let problem = "is set, but calls of another version or group never come back to this one";
        section.wrong("force", problem, "remove this key");
    }
    let remedy = "write one of: tag; endpoints; version, group, or both";
    match (tag, params.is_empty(), service) {
        (Some(tag), true, None) => Some(SplitTarget::Tag { tag, force }),
        (None, false, None) => {
            let name: Arc<str> = format!("split {}", name?).into();
            Some(SplitTarget::Endpoints(Subset { name, params, force }))
        }
        (None, true, Some(other)) => Some(SplitTarget::Service(other)),
        (None, true, None) => {
            section.wrong("name", "does not say where its calls go", remedy);
            None
        }
        _ => {
            section.wrong("name", "names more than one place for its calls", remedy);
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::parse;

    const BASE: &str =
        "[[registry]]\nkind = 'etcd'\n[[ingress]]\nprotocol = 'http'\nlisten = '127.0.0.1:0'\n";

    fn read(keys: &str) -> Result<Vec<Split>, String> {
        let text = format!("{BASE}[[cluster]]\ninterface = 'a.B'\n{keys}");
        let config = parse(&text, "agent.toml").map_err(|error| error.to_string())?;
        Ok(config.clusters.policy("a.B").routing.splits.clone())
    }

    #[test]
    fn a_split_says_which_calls_go_where() {
        let keys = "[[cluster.split]]\nname = 'beta'\nmethods = ['find*']\ntag = 'gray'\n\
                    when = { 'header:X-User' = 'b*', 'argument:0.tenant.id' = 'acme' }\n\
                    [[cluster.split]]\nname = 'canary'\npercent = 10\nversion = '2.0'\n\
                    sticky = 'attachment:user'\n\
                    [[cluster.split]]\nname = 'env'\npercent = 90\nforce = true\n\
                    endpoints = { env = 'new' }\n";
        let splits = read(keys).unwrap();
        let parts: Vec<String> = splits[0].when.iter().map(|it| it.part.to_string()).collect();
        assert_eq!(parts, ["argument:0.tenant.id", "header:x-user"]);
        assert!(splits[0].is_for("findAll") && !splits[0].is_for("place"));
        assert_eq!(splits.iter().map(|it| it.percent).collect::<Vec<_>>(), [100, 10, 90]);
        let shown: Vec<String> = splits.iter().map(|it| it.to.to_string()).collect();
        assert_eq!(shown, ["tag gray", "version 2.0", "endpoints with env=new"]);
        let service = ServiceKey::new("a.B", "1.0", "east").unwrap();
        let SplitTarget::Service(other) = &splits[1].to else { panic!("{:?}", splits[1]) };
        assert_eq!(other.of(&service).to_string(), "east/a.B:2.0");
        assert!(splits[2].subset().is_some_and(|subset| subset.force));
    }

    #[test]
    fn what_can_never_be_is_refused() {
        let one = "[[cluster.split]]\nname = 'a'\n";
        for (keys, said) in [
            ("tag = 'x'\n", "neither percent nor when"),
            ("when = {}\ntag = 'x'\n", "neither percent nor when"),
            (
                "percent = 5\ntag = 'x'\nmethods = ['*x']\n",
                "split.methods: \"*x\" matches no method",
            ),
            ("percent = 5\n", "does not say where"),
            ("percent = 5\ntag = 'x'\nversion = '1'\n", "more than one place"),
            ("percent = 101\ntag = 'x'\n", "percent"),
            ("percent = 0\ntag = 'x'\n", "percent"),
            ("when = { 'headers:x' = 'y' }\ntag = 'x'\n", "\"headers:x\" is not known"),
            ("when = { 'argument:x' = 'y' }\ntag = 'x'\n", "is not an argument"),
            ("when = { 'header:a b' = 'y' }\ntag = 'x'\n", "not the name of a header"),
            ("when = { 'header:a' = 'y' }\nsticky = 'header:a'\ntag = 'x'\n", "go the same way"),
            ("percent = 5\nversion = '1'\nforce = true\n", "force"),
            ("percent = 5\ntag = 'x'\nsticky = 'version'\n", "the same for all calls"),
            (
                "percent = 60\ntag = 'x'\n[[cluster.split]]\nname = 'b'\npercent = 41\ntag = 'y'\n",
                "write at most 40",
            ),
            (
                "percent = 100\ntag = 'x'\n[[cluster.split]]\nname = 'b'\n\
              when = { 'header:a' = 'y' }\ntag = 'y'\n",
                "never applies",
            ),
            (
                "percent = 1\ntag = 'x'\n[[cluster.split]]\nname = 'a'\npercent = 1\ntag = 'y'\n",
                "is the name of a split before it",
            ),
        ] {
            let error = read(&format!("{one}{keys}")).unwrap_err();
            assert!(error.contains(said), "{keys}: {error}");
        }
        for keys in ["percent = 0\n", "percent = 0\nsticky = 'header:a'\n"] {
            let error = read(&format!("{one}tag = 'x'\n{keys}")).unwrap_err();
            assert_eq!(error.lines().count(), 1, "{keys}: {error}");
        }
        // Other methods, and narrower calls first, are calls of their own.
        let keys = "[[cluster.split]]\nname = 'a'\nmethods = ['a']\npercent = 100\ntag = 'x'\n\
                    [[cluster.split]]\nname = 'b'\nmethods = ['b']\npercent = 100\ntag = 'x'\n\
                    [[cluster.split]]\nname = 'c'\nmethods = ['c']\n\
                    when = { 'header:a' = 'y' }\ntag = 'x'\n\
                    [[cluster.split]]\nname = 'd'\nmethods = ['c']\npercent = 100\ntag = 'x'\n";
        assert_eq!(read(keys).unwrap().len(), 4);
        // Of another version are calls that ask for none, and those of the version that is named.
        let keys = "[[cluster.split]]\nname = 'a'\npercent = 100\nversion = '2.0'\n\
                    [[cluster.split]]\nname = 'b'\nwhen = { version = '1.0' }\nversion = '2.0'\n\
                    [[cluster.split]]\nname = 'c'\npercent = 100\ntag = 'x'\n";
        assert_eq!(read(keys).unwrap().len(), 3);
    }
}
