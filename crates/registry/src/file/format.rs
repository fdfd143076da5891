//! The text of a registry file. Pure.

use std::path::Path;

use dubbo_proto::{DubboUrl, ServiceKey};
use serde::Deserialize;
use toml::Spanned;

use crate::address;
use crate::error::RegistryError;
use crate::memory::Row;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileText {
    #[serde(default)]
    service: Vec<ServiceText>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ServiceText {
    interface: Spanned<String>,
    #[serde(default)]
    version: String,
    #[serde(default)]
    group: String,
    endpoints: Vec<Spanned<String>>,
}

/// Where in the text, and what is wrong there.
struct Mistake {
    offset: usize,
    reason: String,
}

/// Reads the whole file or nothing of it.
pub(super) fn parse(path: &Path, text: &str) -> Result<Vec<Row>, RegistryError> {
    rows(text).map_err(|mistake| {
        let before = text.get(..mistake.offset).unwrap_or(text);
        let line = before.bytes().filter(|byte| *byte == b'\n').count() + 1;
        RegistryError::File { path: path.to_owned(), line, reason: mistake.reason }
    })
}

fn rows(text: &str) -> Result<Vec<Row>, Mistake> {
    if text.trim().is_empty() {
        // An editor may have emptied the file on its way to writing it.
        let reason = "the file is empty: to list no service at all, write `service = []`";
        return Err(Mistake { offset: 0, reason: reason.into() });
    }
    let file: FileText = toml::from_str(text).map_err(|error| Mistake {
        offset: error.span().map_or(0, |span| span.start),
        reason: error.message().trim().to_owned(),
    })?;
    let mut rows = Vec::new();
    for service in file.service {
        let interface = service.interface;
        let key = ServiceKey::new(interface.get_ref(), &service.version, &service.group);
        let key = key.map_err(|error| Mistake {
            offset: interface.span().start,
            reason: error.to_string(),
        })?;
        for endpoint in service.endpoints {
            rows.extend(row(&key, &endpoint)?);
        }
    }
    Ok(rows)
}

fn row(service: &ServiceKey, endpoint: &Spanned<String>) -> Result<Option<Row>, Mistake> {
    let mistake = |reason| Mistake { offset: endpoint.span().start, reason };
    let text = endpoint.get_ref();
    let url: DubboUrl = text.parse().map_err(|error| mistake(format!("{text:?}: {error}")))?;
    if url.host.is_empty() || url.port == 0 {
        return Err(mistake(format!("{text:?}: an endpoint has a host and a port")));
    }
    let enabled = url.is_enabled();
    let Some(mut listing) = address::listing(url) else {
        return Err(mistake(format!("{text:?}: expected link://HOST:PORT or dubbo://HOST:PORT")));
    };
    listing.version.clone_from(&service.version);
    listing.group.clone_from(&service.group);
    let (interface, url) = (service.interface.clone(), text.clone());
    Ok(enabled.then_some(Row { id: 0, interface, listing, url }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse_text(text: &str) -> Result<Vec<Row>, String> {
        parse(Path::new("services.toml"), text).map_err(|error| error.to_string())
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
            ("link://[::1]:30000", "http://x:1", 6, "expected link://"),
            ("link://[::1]:30000", "link://x", 6, "a host and a port"),
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
