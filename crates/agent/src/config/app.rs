//! `app` of an export: where it is, what it speaks, and the keys that depend on that.

use std::path::Path;
use std::sync::Arc;

use dubbo_proto::{Serialization, ServiceKey};
use wire::address::UNIX;
use wire::tls::Protocols;

use super::http_app::origin::{AppOrigin, AppTransport};
use super::http_app::template::Template;
use super::http_app::{HTTP_APP_KEYS, http_app};
use super::section::Section;
use super::tls::{TLS_KEYS, tls_client};
use super::{AppConfig, defaults};

const REMEDY: &str = "if the app speaks Dubbo, write \"dubbo://127.0.0.1:20880\", \"dubbos://...\" \
                      (TLS) or \"dubbo+unix:/run/users.sock\"; if it speaks HTTP, write \
                      \"http://127.0.0.1:8080\", \"https://users.internal\" or \
                      \"unix:/run/users.sock\"";
const HTTP_PORT: u16 = 80;
const HTTPS_PORT: u16 = 443;
/// What is offered by ALPN: requests are written as HTTP/1.1.
const HTTP_PROTOCOLS: Protocols = &[b"http/1.1"];

/// What the text of `app` says.
struct Url<'d> {
    scheme: Scheme,
    host: String,
    port: u16,
    /// Of HTTP, the path; of a socket in the file system, its place.
    path: &'d str,
}

#[derive(Clone, Copy, Eq, PartialEq)]
enum Scheme {
    Dubbo,
    /// Dubbo TCP over TLS.
    Dubbos,
    Http,
    Https,
    Unix,
    /// Dubbo TCP's bytes over a socket in the file system.
    DubboUnix,
}

impl Scheme {
    fn is_dubbo(self) -> bool {
        matches!(self, Self::Dubbo | Self::Dubbos | Self::DubboUnix)
    }
}

/// The app of an export, and all keys that depend on what it speaks. `folder` is where relative
/// paths start.
pub(super) fn app(
    section: &mut Section<'_>,
    service: Option<&ServiceKey>,
    folder: &Path,
) -> AppConfig {
    let text = section.required_text("app", REMEDY);
    let url = text.and_then(url);
    if let (Some(text), None) = (text, &url) {
        section.wrong("app", format!("\"{text}\" is not the address of an app"), REMEDY);
    }
    let mut dubbo_tls = None;
    let (host, port) = match url {
        Some(url) if !url.scheme.is_dubbo() => {
            section.refuse(&["serialization"], "HTTP apps always get JSON");
            let interface = service.map_or("", |service| &service.interface);
            let origin = origin(section, url, folder);
            return AppConfig::Http(Arc::new(http_app(section, interface, origin)));
        }
        // Of an address that could not be read, nobody can say which keys belong to it.
        None if text.is_some() => {
            section.pass_over(&HTTP_APP_KEYS);
            section.pass_over(&TLS_KEYS);
            (String::new(), 0)
        }
        url => {
            section.refuse(&HTTP_APP_KEYS, "only for app = \"http://...\"");
            let is_tls = url.as_ref().is_some_and(|url| url.scheme == Scheme::Dubbos);
            if is_tls {
                dubbo_tls = tls_client(section, folder, &[]);
            } else {
                let remedy = "only for app = \"https://...\" or \"dubbos://...\"";
                section.refuse(&TLS_KEYS, remedy);
            }
            match url {
                Some(Url { scheme: Scheme::DubboUnix, path, .. }) => {
                    (format!("{UNIX}{}", folder.join(path).display()), 0)
                }
                url => url.map(|url| (url.host, url.port)).unwrap_or_default(),
            }
        }
    };
    AppConfig::Dubbo {
        host,
        port,
        tls: dubbo_tls,
        serialization: section
            .choice("serialization", &Serialization::CONFIG_NAMES)
            .unwrap_or(defaults::SERIALIZATION),
    }
}

/// Reads the text of `app`; nothing if it is not an address of an app.
fn url(text: &str) -> Option<Url<'_>> {
    let sockets = [(UNIX, Scheme::Unix), ("dubbo+unix:", Scheme::DubboUnix)];
    let socket =
        sockets.iter().find_map(|(prefix, scheme)| Some((text.strip_prefix(prefix)?, scheme)));
    if let Some((path, scheme)) = socket {
        let path = path.strip_prefix("//").unwrap_or(path);
        let url = Url { scheme: *scheme, host: String::new(), port: 0, path };
        return Some(url).filter(|_| !path.is_empty());
    }
    let (scheme, rest) = text.split_once("://")?;
    let (scheme, default_port) = match scheme {
        "dubbo" => (Scheme::Dubbo, None),
        "dubbos" => (Scheme::Dubbos, None),
        "http" => (Scheme::Http, Some(HTTP_PORT)),
        "https" => (Scheme::Https, Some(HTTPS_PORT)),
        _ => return None,
    };
    let (place, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let (host, port) = wire::address::split_optional(place).ok()?;
    let path = path.trim_end_matches('/');
    let is_path = path.is_empty()
        || !scheme.is_dubbo() && !path.contains('?') && Template::parse(path, &[], Some(0)).is_ok();
    let port = port.or(default_port)?;
    Some(Url { scheme, host: host.to_owned(), port, path }).filter(|_| is_path)
}

fn origin(section: &mut Section<'_>, url: Url<'_>, folder: &Path) -> AppOrigin {
    let tls = match url.scheme {
        Scheme::Https => tls_client(section, folder, HTTP_PROTOCOLS),
        _ => {
            section.refuse(&TLS_KEYS, "only for app = \"https://...\"");
            None
        }
    };
    match url.scheme {
        Scheme::Unix => {
            AppOrigin { way: AppTransport::Unix(folder.join(url.path)), base: "".into() }
        }
        _ => {
            let way = AppTransport::Tcp { host: url.host, port: url.port, tls };
            AppOrigin { way, base: url.path.into() }
        }
    }
}
