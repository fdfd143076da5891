//! The sections of listeners: for calls of local programs, for other agents, for Dubbo's
//! consumers.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use dubbo_proto::ServiceKey;
use wire::ListenAddress;
use wire::tls::Protocols;

use super::check::{hosts, registry};
use super::conflicts::{FoundSections, IngressSection, ListenKey, ListenerPlace, ListenerSection};
use super::defaults;
use super::heartbeat::heartbeat;
use super::registries::RegistryDraft;
use super::section::Section;
use super::socket::listening;
use super::tls::listener_tls;
use super::{
    Advertise, Cors, DubboIngressConfig, DubboLimits, DubboListenerConfig, HttpIngressConfig,
    LinkListenerConfig,
};

/// Stands in for an address that could not be read.
const NO_ADDRESS: ListenAddress =
    ListenAddress::Tcp(SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0));

/// What callers by HTTP may name by ALPN.
const HTTP_PROTOCOLS: Protocols = &[b"h2", b"http/1.1"];

#[derive(Clone, Copy)]
enum Protocol {
    Http,
    Dubbo,
}

/// Reads the `[[ingress]]` sections, by protocol.
pub(super) fn ingresses(
    sections: Vec<Section<'_>>,
    folder: &Path,
    registries: &[RegistryDraft],
    places: &mut FoundSections,
) -> (Vec<HttpIngressConfig>, Vec<DubboIngressConfig>) {
    let (mut http, mut dubbo) = (Vec::new(), Vec::new());
    for mut section in sections {
        section.required_text("protocol", "write protocol = \"http\" or \"dubbo\"");
        let protocols = [("http", Protocol::Http), ("dubbo", Protocol::Dubbo)];
        let protocol = section.choice("protocol", &protocols).unwrap_or(Protocol::Http);
        let listen = listen(&mut section, places).unwrap_or(NO_ADDRESS);
        let registry = registry(&mut section, registries);
        places.ingresses.push(IngressSection {
            registry,
            listen: listen.clone(),
            is_dubbo: matches!(protocol, Protocol::Dubbo),
            place: section.head().clone(),
            listen_place: section.place("listen"),
        });
        let registry = registry.unwrap_or_default();
        match protocol {
            Protocol::Http => http.push(http_ingress(section, folder, listen, registry)),
            Protocol::Dubbo => dubbo.push(dubbo_ingress(section, folder, listen, registry)),
        }
    }
    (http, dubbo)
}

fn http_ingress(
    mut section: Section<'_>,
    folder: &Path,
    listen: ListenAddress,
    registry: usize,
) -> HttpIngressConfig {
    let ingress = HttpIngressConfig {
        listen,
        socket: listening(section.table_as("socket", "ingress.socket")),
        registry,
        max_connections: section.number(
            "max_connections",
            1..=defaults::MAX_CONNECTIONS,
            defaults::INGRESS_CONNECTIONS,
        ),
        max_body_len: max_body_len(&mut section),
        max_head_len: section.number(
            "max_head_bytes",
            defaults::MIN_HEAD_LEN..=defaults::MAX_HEAD_LEN,
            defaults::HEAD_LEN,
        ),
        head_timeout: section.ms("head_timeout_ms", defaults::LONGEST, defaults::HEAD_TIMEOUT),
        body_timeout: body_timeout(&mut section),
        idle_timeout: section.ms("idle_timeout_ms", defaults::LONGEST, defaults::IDLE_TIMEOUT),
        hosts: hosts(&mut section),
        cors: cors(section.table_as("cors", "ingress.cors")),
        tls: listener_tls(section.table_as("tls", "ingress.tls"), folder, HTTP_PROTOCOLS),
        write_timeout: write_timeout(&mut section),
        heartbeat: heartbeat(&mut section).unwrap_or(defaults::HTTP2_HEARTBEAT),
    };
    section.finish();
    ingress
}

/// Reads `[ingress.cors]`: which web pages of other origins may call.
fn cors(mut section: Section<'_>) -> Option<Cors> {
    const REMEDY: &str = "write it as browsers do, such as \"https://shop.example\" or \
        \"http://localhost:5173\"; \
                          \"*\" alone for all";
    if !section.is_present() {
        return None;
    }
    let texts = section.texts("origins").unwrap_or_default();
    if !section.has("origins") {
        section.wrong("origins", "is missing", REMEDY);
    }
    let is_for_all = texts.contains(&"*");
    let origins: Vec<String> = texts.iter().map(|text| text.to_ascii_lowercase()).collect();
    for origin in origins.iter().filter(|origin| *origin != "*" && !is_origin(origin)) {
        section.wrong("origins", format!("\"{origin}\" is not an origin"), REMEDY);
    }
    if is_for_all && 1 < origins.len() {
        section.wrong(
            "origins",
            "\"*\" already allows all origins, but others are listed, too",
            REMEDY,
        );
    }
    let headers: Vec<String> = section
        .optional_texts("headers")
        .unwrap_or_default()
        .into_iter()
        .map(str::to_owned)
        .collect();
    for name in headers.iter().filter(|name| name.parse::<http::HeaderName>().is_err()) {
        let remedy = "write names such as \"x-tenant\"";
        section.wrong("headers", format!("\"{name}\" is not the name of a header"), remedy);
    }
    let max_age_s = section.number("max_age_s", 0..=defaults::LONGEST_CORS_S, defaults::CORS_S);
    let credentials = section.flag("credentials", false);
    if credentials && is_for_all {
        let problem = "would let every web page use the cookies of its visitors";
        section.wrong("credentials", problem, "name the origins, or write credentials = false");
    }
    section.finish();
    let max_age = Duration::from_secs(max_age_s);
    Some(Cors { is_for_all, origins, headers, max_age, credentials })
}

/// Whether a browser would write an origin so: `SCHEME://HOST[:PORT]`, no port that the scheme has
/// anyway.
fn is_origin(text: &str) -> bool {
    let Some((scheme, place)) = text.split_once("://") else { return text == "null" };
    let usual_port = match scheme {
        "http" => Some("80"),
        "https" => Some("443"),
        _ => None,
    };
    let (_, port) = wire::address::split_authority(place);
    let is_scheme =
        scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte));
    let is_usual = port.is_some_and(|port| port.is_empty() || Some(port) == usual_port);
    // A star is a character of names by the standard, but whoever writes it means a pattern.
    let is_place = !place.is_empty() && wire::address::is_authority(place) && !place.contains('*');
    !scheme.is_empty() && is_scheme && is_place && !is_usual
}

fn dubbo_ingress(
    mut section: Section<'_>,
    folder: &Path,
    listen: ListenAddress,
    registry: usize,
) -> DubboIngressConfig {
    let default_service = section.text("default_service").and_then(|text| {
        let service: Option<ServiceKey> = text.parse().ok();
        if service.as_ref().is_none_or(|service| service.interface.contains('*')) {
            let remedy = "write GROUP/INTERFACE:VERSION, such as \"com.acme.Orders\" or \
                          \"blue/com.acme.Orders:2.0.0\"";
            section.wrong("default_service", format!("\"{text}\" is not a service"), remedy);
        }
        service
    });
    let limits = limits(&mut section);
    // Dubbo TCP has no name that ALPN knows.
    let tls = listener_tls(section.table_as("tls", "ingress.tls"), folder, &[]);
    let socket = listening(section.table_as("socket", "ingress.socket"));
    let ingress = DubboIngressConfig { listen, socket, registry, default_service, limits, tls };
    section.finish();
    ingress
}

fn limits(section: &mut Section<'_>) -> DubboLimits {
    DubboLimits {
        max_connections: section.number(
            "max_connections",
            1..=defaults::MAX_CONNECTIONS,
            defaults::INGRESS_CONNECTIONS,
        ),
        max_body_len: max_body_len(section),
        body_timeout: body_timeout(section),
        write_timeout: write_timeout(section),
        heartbeat: heartbeat(section).unwrap_or(defaults::DUBBO_HEARTBEAT),
    }
}

fn max_body_len(section: &mut Section<'_>) -> usize {
    section.number("max_body_bytes", 1..=defaults::MAX_BODY_LEN, defaults::BODY_LEN)
}

fn body_timeout(section: &mut Section<'_>) -> Duration {
    section.ms("body_timeout_ms", defaults::LONGEST, defaults::BODY_TIMEOUT)
}

fn write_timeout(section: &mut Section<'_>) -> Duration {
    section.ms("write_timeout_ms", defaults::LONGEST, defaults::WRITE_TIMEOUT)
}

/// Reads `[dubbo]`, where Dubbo's own consumers find what is exported.
pub(super) fn dubbo_exports(
    mut section: Section<'_>,
    folder: &Path,
    agent_name: &str,
    places: &mut FoundSections,
) -> Option<DubboListenerConfig> {
    let (listen, advertise) = advertised_listener(&mut section, places);
    let application = section.text("application").unwrap_or(agent_name).to_owned();
    // In a registered URL a parameter ends at these.
    if section.is_present()
        && application
            .contains(|c: char| c.is_control() || c.is_whitespace() || "&=?#%".contains(c))
    {
        let remedy = "write a plain name such as \"orders\"";
        section.wrong("application", format!("\"{application}\" is not a name"), remedy);
    }
    let limits = limits(&mut section);
    let tls = listener_tls(section.table_as("tls", "dubbo.tls"), folder, &[]);
    let socket = listening(section.table_as("socket", "dubbo.socket"));
    let config = DubboListenerConfig { listen, socket, advertise, application, limits, tls };
    let is_present = section.is_present();
    if is_present {
        places.dubbo = listener_at(&section, &config.listen);
    }
    section.finish();
    is_present.then_some(config)
}

fn listen(section: &mut Section<'_>, places: &mut FoundSections) -> Option<ListenAddress> {
    let address = section.required_address("listen")?;
    places.listens.push(ListenKey {
        address: address.clone(),
        place: section.place("listen"),
        is_default: false,
    });
    Some(address)
}

/// Reads `[link]`, where other agents find what is exported.
pub(super) fn link(
    mut section: Section<'_>,
    folder: &Path,
    places: &mut FoundSections,
) -> Option<LinkListenerConfig> {
    let (listen, advertise) = advertised_listener(&mut section, places);
    let config = LinkListenerConfig {
        listen,
        socket: listening(section.table_as("socket", "link.socket")),
        advertise,
        max_connections: section.number(
            "max_connections",
            1..=defaults::MAX_CONNECTIONS,
            defaults::LINK_CONNECTIONS,
        ),
        window: section.number("window", 1..=defaults::MAX_LINK_WINDOW, defaults::LINK_WINDOW),
        max_body_len: max_body_len(&mut section),
        body_timeout: body_timeout(&mut section),
        write_timeout: write_timeout(&mut section),
        heartbeat: heartbeat(&mut section).unwrap_or(defaults::LINK_HEARTBEAT),
        tls: listener_tls(section.table_as("tls", "link.tls"), folder, &[link::tls::ALPN]),
    };
    let is_present = section.is_present();
    if is_present {
        places.link = listener_at(&section, &config.listen);
    }
    section.finish();
    is_present.then_some(config)
}

fn listener_at(section: &Section<'_>, listen: &ListenAddress) -> ListenerSection {
    ListenerSection::At(ListenerPlace {
        place: section.head().clone(),
        listen: listen.clone(),
        listen_place: section.place("listen"),
        is_advertised: section.has("advertise"),
    })
}

/// The address to listen on, and the one that others are told.
fn advertised_listener(
    section: &mut Section<'_>,
    places: &mut FoundSections,
) -> (ListenAddress, Advertise) {
    let listen = listen_if_present(section, places);
    let advertise = section.text("advertise").and_then(|text| advertise(section, text));
    let is_unix = matches!(listen, Some(ListenAddress::Unix { .. }));
    if section.is_present() {
        places.offers_tcp |= !is_unix || section.has("advertise");
        places.offers_unix |= is_unix;
    }
    if is_unix && matches!(&advertise, Some((_, None))) {
        let remedy = "write HOST:PORT where others reach this socket, or remove it";
        section.wrong("advertise", "has no port, and the Unix socket has none either", remedy);
    }
    let ip = listen.as_ref().and_then(ListenAddress::tcp).map(|address| address.ip());
    if let Some(what) = ip.and_then(unreachable)
        && !section.has("advertise")
    {
        let problem = format!("is missing; it is required because listen {what}");
        let remedy = "write the host that others reach, such as advertise = \"10.0.0.5\"";
        section.wrong("advertise", problem, remedy);
    }
    let (host, port) = advertise.map_or((None, None), |(host, port)| (Some(host), port));
    (listen.unwrap_or(NO_ADDRESS), Advertise { host, port })
}

fn listen_if_present(
    section: &mut Section<'_>,
    places: &mut FoundSections,
) -> Option<ListenAddress> {
    // Makes the key known, should the section be there without it.
    if section.is_present() { listen(section, places) } else { None }
}

/// `HOST` or `HOST:PORT`, as others shall connect to it.
fn advertise(section: &Section<'_>, text: &str) -> Option<(String, Option<u16>)> {
    const REMEDY: &str = "write HOST or HOST:PORT such as \"10.0.0.5\" or \"10.0.0.5:30880\"";
    let (host, port) = match wire::address::split_optional(text) {
        Ok((host, port)) => (host.to_owned(), port),
        Err(error) => {
            section.wrong("advertise", format!("\"{text}\" is not a host: {error}"), REMEDY);
            return None;
        }
    };
    let (address, zone) = host.split_once('%').map_or((&*host, None), |(a, z)| (a, Some(z)));
    let of_zone = zone.map(|_| "has a zone, which is an interface of one machine");
    if let Some(what) = address.parse().ok().and_then(unreachable).or(of_zone) {
        let problem = format!("others cannot connect to {host}: it {what}");
        section.wrong("advertise", problem, REMEDY);
    }
    Some((host, port))
}

/// What an address means that others cannot connect to.
fn unreachable(ip: IpAddr) -> Option<&'static str> {
    match ip.to_canonical() {
        ip if ip.is_unspecified() => Some("means all interfaces"),
        IpAddr::V6(ip) if ip.is_unicast_link_local() => {
            Some("is a link-local address, which needs the name of an interface of the caller")
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests;
