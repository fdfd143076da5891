//! The text of a registry file. Pure.

use std::path::Path;

use dubbo_proto::{DubboUrl, ProtoError, ServiceKey, without_credentials};
use serde::{Deserialize, Serialize};
use toml::Spanned;
use wire::MAX_SOCKET_PATH_LEN;
use wire::address::unix_path;

use super::doubts::doubts;
use crate::address;
use crate::endpoint::Protocol;
use crate::error::RegistryError;
use crate::listing::{Leftover, Listing};
use crate::table::Row;

/// Stands between the protocol and the path of a Unix socket.
const UNIX: &str = "+unix:";

/// A whole file. `T` is a text: with its place where a file is read.
#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FileText<T> {
    #[serde(default = "Vec::new")]
    pub(crate) service: Vec<FileService<T>>,
}

/// A service in it.
#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FileService<T> {
    pub(crate) interface: T,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) version: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) group: String,
    pub(crate) endpoints: Vec<T>,
}

/// Where in the text, and what is wrong there.
struct Mistake {
    offset: usize,
    reason: String,
}

/// What a file lists.
#[derive(Debug, Default)]
pub(super) struct FileContent {
    pub(super) rows: Vec<OnLine<Row>>,
    /// What is written well and cannot be used, by interface.
    pub(super) leftovers: Vec<OnLine<(String, Leftover)>>,
    /// What is used in another way than it is written.
    pub(super) doubts: Vec<OnLine<IgnoredParameter>>,
}

/// Something, and the line of the file where it is written, counted from 1.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct OnLine<T> {
    /// The line.
    pub line: usize,
    /// What is there.
    pub it: T,
}

/// A parameter of an endpoint that does not count.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct IgnoredParameter {
    /// The interface that the endpoint offers.
    pub interface: String,
    /// The endpoint.
    pub endpoint: String,
    /// What is wrong with it, and what counts instead.
    pub what: String,
}

/// Reads the whole file or nothing of it.
pub(super) fn parse(path: &Path, text: &str) -> Result<FileContent, RegistryError> {
    content(text).map_err(|mistake| {
        let line = Lines::of(text).at(mistake.offset);
        RegistryError::File { path: path.to_owned(), line, reason: mistake.reason }
    })
}

/// Where the lines of a text end.
struct Lines(Vec<usize>);

impl Lines {
    fn of(text: &str) -> Self {
        Self(text.match_indices('\n').map(|(end, _)| end).collect())
    }

    /// The line of an offset, counted from 1.
    fn at(&self, offset: usize) -> usize {
        self.0.partition_point(|end| *end < offset) + 1
    }
}

fn content(text: &str) -> Result<FileContent, Mistake> {
    if text.trim().is_empty() {
        // An editor may have emptied the file on its way to writing it.
        let reason = "the file is empty: to list no service at all, write `service = []`";
        return Err(Mistake { offset: 0, reason: reason.into() });
    }
    let file: FileText<Spanned<String>> = toml::from_str(text).map_err(|error| {
        let offset = error.span().map_or(0, |span| span.start);
        Mistake { offset, reason: explain(text, offset, error.message().trim()) }
    })?;
    let lines = Lines::of(text);
    let mut content = FileContent::default();
    for service in file.service {
        let interface = service.interface;
        let key = ServiceKey::new(interface.get_ref(), &service.version, &service.group);
        let key = key.map_err(|error| Mistake {
            offset: interface.span().start,
            reason: error.to_string(),
        })?;
        for endpoint in service.endpoints {
            let parsed = parse_endpoint(&key, endpoint.get_ref());
            let mistake = |reason| Mistake { offset: endpoint.span().start, reason };
            let line = lines.at(endpoint.span().start);
            match parsed.map_err(mistake)? {
                Ok(row) => {
                    content.doubts.extend(doubts_of(&row).map(|it| OnLine { line, it }));
                    content.rows.push(OnLine { line, it: row });
                }
                Err(leftover) => {
                    let it = (key.interface.clone(), leftover);
                    content.leftovers.push(OnLine { line, it });
                }
            }
        }
    }
    Ok(content)
}

const ENDPOINTS: &str = "endpoints must be a list: write it in [ ], such as endpoints = \
                         [\"dubbo://10.0.0.7:20880\"]";

/// What the parser says, or what to write where a value is of another kind.
fn explain(text: &str, offset: usize, said: &str) -> String {
    let start = text.get(..offset).and_then(|before| before.rfind('\n')).map_or(0, |end| end + 1);
    let line = text.get(start..).and_then(|rest| rest.lines().next()).unwrap_or_default();
    let (key, value) = line.split_once('=').map_or((line.trim(), ""), |(k, v)| (k.trim(), v));
    let value = value.split('#').next().unwrap_or_default().trim();
    match key {
        "endpoints" if said.contains("expected a sequence") => ENDPOINTS.to_owned(),
        "[service]" => "write [[service]], with double brackets".to_owned(),
        "interface" | "version" | "group" if said.contains("expected a string") => {
            format!("{key} must be a text: write {key} = \"{value}\"")
        }
        _ => said.to_owned(),
    }
}

pub(super) fn doubts_of(row: &Row) -> impl Iterator<Item = IgnoredParameter> {
    let endpoint = &row.listing.endpoint;
    doubts(&endpoint.params).into_iter().map(move |what| IgnoredParameter {
        interface: row.interface.clone(),
        endpoint: endpoint.key().to_string(),
        what,
    })
}

/// An endpoint of a service, or the reason why it cannot be used.
///
/// # Errors
/// What is wrong with the text.
pub(crate) fn parse_endpoint(
    service: &ServiceKey,
    text: &str,
) -> Result<Result<Row, Leftover>, String> {
    let shown = without_credentials(text);
    let url = match text.split_once(UNIX) {
        Some((scheme, rest)) => {
            unix_url(scheme, rest).map_err(|why| format!("{shown:?}: {why}"))?
        }
        None if !text.is_empty()
            && !text.contains("://")
            && text.chars().all(|c| c.is_ascii_graphic()) =>
        {
            return Err(without_protocol(&shown));
        }
        None => text.parse().map_err(|error| format!("{shown:?}: {error}"))?,
    };
    let is_unix = unix_path(&url.host).is_some();
    if !is_unix && (url.host.is_empty() || url.port == 0) {
        return Err(format!("{shown:?}: {}", incomplete(text, &url)));
    }
    let ServiceKey { interface, version, group } = service.clone();
    Ok(match address::offer(url) {
        Ok(listing) => {
            let (listing, url) = (Listing { version, group, ..listing }, text.to_owned());
            Ok(Row { id: 0, interface, listing: listing.into(), url })
        }
        Err(unused) => Err(Leftover { version, group, unused }),
    })
}

fn without_protocol(shown: &str) -> String {
    let known = |scheme: &&str| Protocol::from_scheme(scheme).is_some();
    match shown.split_once(':').filter(|(scheme, _)| known(scheme)) {
        Some((scheme, rest)) => {
            let rest = rest.trim_start_matches('/');
            format!("{shown:?}: write {scheme}://{rest}, with two slashes")
        }
        None => format!(
            "{shown:?} has no protocol: write dubbo://{shown} for a provider, or link://{shown} \
             for its agent"
        ),
    }
}

/// What a URL without a host, or without a port, should be.
fn incomplete(text: &str, url: &DubboUrl) -> String {
    let (protocol, host) = (&url.protocol, &url.host);
    let place = text.split_once("://").map_or(text, |(_, rest)| rest);
    let place = place.split(['/', '?']).next().unwrap_or_default();
    match host.contains(':') {
        _ if host.is_empty() => format!("the host is missing; write {protocol}://HOST:PORT"),
        _ if place.ends_with(":0") => "a port is a number from 1 to 65535".to_owned(),
        true => format!("the port is missing; write {protocol}://[{host}]:PORT"),
        false => format!("the port is missing; write {protocol}://{host}:PORT"),
    }
}

/// `link+unix:/run/orders.sock?weight=200`: the path goes on to the question mark.
fn unix_url(scheme: &str, rest: &str) -> Result<DubboUrl, String> {
    let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
    if !path.starts_with('/') {
        return Err(format!("write a whole path, such as {scheme}{UNIX}/run/orders.sock"));
    }
    if MAX_SOCKET_PATH_LEN < path.len() {
        let len = path.len();
        return Err(format!(
            "a path of {len} bytes; that of a socket has at most {MAX_SOCKET_PATH_LEN}"
        ));
    }
    // Host and port stand in, so that the rest is read as it always is.
    let url = format!("{scheme}://unix:1?{query}");
    let url: DubboUrl = url.parse().map_err(|error: ProtoError| error.to_string())?;
    Ok(DubboUrl { host: format!("unix:{path}"), port: 0, ..url })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse_text(text: &str) -> Result<Vec<Row>, String> {
        let content = parse(Path::new("services.toml"), text);
        let rows = content.map(|content| content.rows.into_iter().map(|row| row.it).collect());
        rows.map_err(|error| error.to_string())
    }

    /// What is written for others does not keep us from the rest.
    #[test]
    fn what_cannot_be_used_is_left_out_and_told() {
        let text = GOOD.replace("link://[::1]:30000", "tri://[::1]:50051");
        let content = parse(Path::new("services.toml"), &text).unwrap();
        assert_eq!(content.rows.len(), 2);
        let told = content.leftovers.iter().map(|OnLine { line, it: (name, leftover) }| {
            format!("{line}: {name}: {}", leftover.unused)
        });
        let told: Vec<String> = told.collect();
        let expected = [
            "6: a.B: tri://[::1]:50051 (protocol tri is not supported, only dubbo and link)",
            "10: a.C: dubbo://h:1 (disabled)",
        ];
        assert_eq!(told, expected);
        let of_b = &content.leftovers[0].it.1;
        assert_eq!((of_b.version.as_str(), of_b.group.as_str()), ("1.0", "g"));
    }

    #[test]
    fn parameters_that_do_not_count_are_told_with_their_endpoint() {
        let text = GOOD.replace("weight=200", "weight=abc&timeout=-5");
        let content = parse(Path::new("services.toml"), &text).unwrap();
        assert_eq!(content.rows[0].it.listing.endpoint.weight, 100);
        let [OnLine { line: 6, it: weight }, OnLine { line: 6, it: timeout }] = &content.doubts[..]
        else {
            panic!("{:?}", content.doubts)
        };
        assert_eq!((&*weight.interface, &*weight.endpoint), ("a.B", "dubbo://127.0.0.1:20880"));
        assert!(weight.what.contains("weight=abc") && timeout.what.contains("timeout=-5"));
    }

    const GOOD: &str = r#"
[[service]]
interface = "a.B"
version = "1.0"
group = "g"
endpoints = ["dubbo://127.0.0.1:20880?serialization=hessian2&weight=200", "link://[::1]:30000"]

[[service]]
interface = "a.C"
endpoints = ["dubbo://h:1?disabled=true", "dubbo://h:2/a.C?version=9"]
"#;

    #[test]
    fn mistakes_of_newcomers_are_told_with_what_to_write() {
        let of = |endpoints: &str| {
            let text = format!("[[service]]\ninterface = \"a.B\"\nendpoints = {endpoints}\n");
            parse_text(&text).unwrap_err()
        };
        for (endpoints, told) in [
            ("\"dubbo://h:1\"", "endpoints must be a list: write it in [ ], such as endpoints = ["),
            ("[\"\"]", "begins with protocol://"),
            ("[\"dubbo:/127.0.0.1:1\"]", "write dubbo://127.0.0.1:1, with two slashes"),
            ("[\"link:127.0.0.1:1\"]", "write link://127.0.0.1:1, with two slashes"),
            ("[\"dubbo://127.0.0.1\"]", "the port is missing; write dubbo://127.0.0.1:PORT"),
            ("[\"dubbo://[::1]/a.B\"]", "the port is missing; write dubbo://[::1]:PORT"),
            ("[\"dubbo://127.0.0.1:0\"]", "a port is a number from 1 to 65535"),
            ("[\"dubbo://:1\"]", "the host is missing; write dubbo://HOST:PORT"),
            ("[\"127.0.0.1:41880\"]", "has no protocol: write dubbo://127.0.0.1:41880 for a"),
        ] {
            let mistake = of(endpoints);
            assert!(mistake.contains("services.toml:3: ") && mistake.contains(told), "{mistake}");
        }
        for (text, told) in [
            (
                "[service]\ninterface = \"a.B\"\nendpoints = []\n",
                "1: write [[service]], with double",
            ),
            (
                "[[service]]\ninterface = \"a.B\"\nversion=1.0 # old\nendpoints = []\n",
                "3: version must be a text: write version = \"1.0\"",
            ),
        ] {
            let mistake = parse_text(text).unwrap_err();
            assert!(mistake.starts_with(&format!("services.toml:{told}")), "{mistake}");
        }
    }

    #[test]
    fn reads_services() {
        let rows = parse_text(GOOD).unwrap();
        let shown: Vec<_> = rows
            .iter()
            .map(|row| {
                let listing = &row.listing;
                let address = listing.endpoint.key();
                format!("{} {} {} {address}", row.interface, listing.version, listing.group)
            })
            .collect();
        let expected = [
            "a.B 1.0 g dubbo://127.0.0.1:20880",
            "a.B 1.0 g link://[::1]:30000",
            "a.C   dubbo://h:2",
        ];
        assert_eq!(shown, expected);
        assert_eq!(rows[0].listing.endpoint.weight, 200);
        assert!(parse_text("service = []").unwrap().is_empty());
    }

    #[test]
    fn names_the_line_of_a_mistake() {
        for (from, to, line, word) in [
            ("link://[::1]:30000", "no url", 6, "no url"),
            ("link://[::1]:30000", "link://x", 6, "the port is missing"),
            ("\"a.C\"", "\"a..C\"", 9, "interface"),
            ("group", "gruop", 5, "unknown field `gruop`"),
            ("interface = \"a.C\"", "", 8, "missing field `interface`"),
            ("[[service]]\ninterface = \"a.C\"", "[[serv", 8, ""),
        ] {
            let error = parse_text(&GOOD.replace(from, to)).unwrap_err();
            assert!(error.starts_with(&format!("services.toml:{line}: ")), "{error}");
            assert!(error.contains(word), "{error}");
        }
    }

    #[test]
    fn an_empty_file_is_a_mistake() {
        assert!(parse_text("\n  \n").unwrap_err().contains("service = []"));
    }
}
