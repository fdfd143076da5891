//! The pages of the admin listener: which there are, and what they answer.

use std::collections::BTreeSet;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use dubbo_proto::ServiceKey;
use http::header::{
    ALLOW, CACHE_CONTROL, CONTENT_TYPE, HOST, HeaderName, HeaderValue, ORIGIN,
    X_CONTENT_TYPE_OPTIONS,
};
use http::{HeaderMap, Method, Request, Response, StatusCode, Version};
use http_body_util::{BodyExt, Either, Full, Limited};
use hyper::body::Incoming;
use serde::Serialize;

use super::tap::{self, TapBody};
use super::{AdminState, LogLevel, NamedRegistry, counted, describe};
use crate::config::ShownChain;
use crate::error::{Code, clip};
use crate::gate::GateFigures;
use crate::ingress::http::{head, web_pages};
use crate::inspect::snapshot::{
    AppSnapshot, Page, RegistrySnapshot, ServiceSnapshot, StagesSnapshot, VersionSnapshot,
    WorkerSnapshot,
};
use crate::inspect::{Filter, MAX_LIMIT, Query, Question};
use crate::metrics::{self, CallTotals, CertificateExpiry, ServiceEventCounts, ServiceFigures};
use crate::stages::{ServiceStages, Stage};

/// Longest filter of what is logged, in bytes.
const MAX_FILTER_LEN: usize = 1024;
/// How long the body with a filter may take to come.
const BODY_TIMEOUT: Duration = Duration::from_secs(5);
/// What is told of a registry's last error, in bytes.
const MAX_ERROR_LEN: usize = 500;

const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");
const JSON: HeaderValue = HeaderValue::from_static("application/json");
const JSON_LINES: HeaderValue = HeaderValue::from_static("application/x-ndjson");
const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

pub(super) const ROUTES: &str = "\
/metrics      metrics for Prometheus
/healthz      200 while the process is alive
/readyz       200 while calls are taken; otherwise 503 and the reasons, one a line
/services     the services that are called, and their policies; ?service= ?limit=
/endpoints    their addresses, their states and the reasons; ?service= ?address= ?protocol= ?limit=
/connections  open connections; ?direction= ?protocol= ?address= ?worker= ?limit=
/routes       the methods that are called; ?service= ?limit=
/methods      how calls of methods over HTTP went, as their callers saw them; ?service= ?limit=
/listeners    the listeners: their connections, and their calls as callers saw them; ?limit=
/explain      what would become of a call; ?service= ?method= ?attachment=NAME=VALUE ?argument= ?header=NAME=VALUE
/describe     what the registries know of a service, called or not; ?service=
/apps         the apps behind the exports: what they can take, and what waits; ?limit=
/stages       where the time of calls goes, of one in so many (stage_sample); ?service= ?limit=
/registries   the registries, and since when each is connected or not; ?limit=
/config       the configuration in force, without secrets
/process      what the process uses, and how late its event loops are
/version      the version, and how long the process has run
/tap          calls as they end, a line each; ?service= ?method= ?failed ?slower_ms= ?sample= ?arguments
/loglevel     what is logged; PUT a filter such as info,agent=debug to change it
";

pub(super) type PageResponse = Response<Full<Bytes>>;

/// Answers a request; with calls as they end, if it asks for that.
pub(super) async fn answer(
    state: &AdminState,
    request: Request<Incoming>,
) -> Response<Either<Full<Bytes>, TapBody>> {
    let is_tap = request.uri().path() == "/tap" && *request.method() == Method::GET;
    if !is_tap || known_host(&request, &state.hosts).is_err() {
        return page(state, request).await.map(Either::Left);
    }
    let answer = match tap::begin(state, request.uri().query().unwrap_or_default()) {
        Ok(lines) => return response(StatusCode::OK, JSON_LINES, Either::Right(lines)),
        Err(tap::TapRefusal::Query(problem)) => {
            text(StatusCode::BAD_REQUEST, format!("{problem}\n"))
        }
        Err(tap::TapRefusal::Forbidden(why)) => text(StatusCode::FORBIDDEN, format!("{why}\n")),
        Err(tap::TapRefusal::Full(why)) => {
            text(StatusCode::SERVICE_UNAVAILABLE, format!("{why}\n"))
        }
    };
    answer.map(Either::Left)
}

async fn page(state: &AdminState, request: Request<Incoming>) -> PageResponse {
    if let Err(host) = known_host(&request, &state.hosts) {
        let message = format!(
            "{:?} is not a known name of this agent; use an IP address, or add the name to hosts \
             of [admin]\n",
            clip(&host)
        );
        return text(StatusCode::MISDIRECTED_REQUEST, message);
    }
    let log_level = state.log_level.as_ref().filter(|_| request.uri().path() == "/loglevel");
    if let Some(log_level) = log_level {
        return match *request.method() {
            Method::GET | Method::HEAD => {
                text(StatusCode::OK, format!("{}\n", log_level.current()))
            }
            Method::PUT => change_log_level(&**log_level, request).await,
            _ => not_allowed("only GET, HEAD and PUT are allowed here\n", "GET, HEAD, PUT"),
        };
    }
    match *request.method() {
        Method::GET | Method::HEAD => get(state, &request).await,
        _ => not_allowed("only GET and HEAD are allowed here\n", "GET, HEAD"),
    }
}

async fn get(state: &AdminState, request: &Request<Incoming>) -> PageResponse {
    let query = request.uri().query().unwrap_or_default();
    match request.uri().path() {
        "/" => text(StatusCode::OK, ROUTES.to_owned()),
        "/healthz" => text(StatusCode::OK, "alive\n".to_owned()),
        "/readyz" => match state.readiness.reasons() {
            reasons if reasons.is_empty() => text(StatusCode::OK, "ready\n".to_owned()),
            reasons => text(StatusCode::SERVICE_UNAVAILABLE, reasons),
        },
        "/metrics" => {
            let (services, certificates) = tokio::join!(services(state), certificates(state));
            let shown = state.hub.render(&services, &certificates);
            let mut response = text(StatusCode::OK, shown);
            let media_type = HeaderValue::from_static(metrics::CONTENT_TYPE);
            response.headers_mut().insert(CONTENT_TYPE, media_type);
            response
        }
        "/services" => services_page(state, query).await,
        "/endpoints" => {
            let known = ["service", "address", "protocol"];
            ask(state, query, &known, Question::Endpoints).await
        }
        "/connections" => {
            let known = ["direction", "protocol", "address", "worker"];
            ask(state, query, &known, Question::Connections).await
        }
        "/routes" => ask(state, query, &["service"], Question::Routes).await,
        "/explain" => {
            let known = ["service", "method", "attachment", "argument", "header"];
            ask(state, query, &known, Question::Explain).await
        }
        "/describe" => match state.describer.answer(query).await {
            Ok(page) => json(&page),
            Err(describe::DescribeRefusal::Query(why)) => {
                text(StatusCode::BAD_REQUEST, format!("{why}\n"))
            }
            Err(describe::DescribeRefusal::Busy(why)) => {
                text(StatusCode::SERVICE_UNAVAILABLE, format!("{why}\n"))
            }
        },
        // Calls are shown to GET.
        "/tap" => match tap::read(query) {
            Ok(_) => response(StatusCode::OK, JSON_LINES, Full::new(Bytes::new())),
            Err(problem) => text(StatusCode::BAD_REQUEST, format!("{problem}\n")),
        },
        "/methods" => counted::methods(state, query),
        "/listeners" => counted::listeners(state, query),
        "/process" => json(&counted::process(state)),
        "/apps" => apps(state, query),
        "/stages" => stages(state, query),
        "/registries" => registries(state, query),
        "/config" => {
            let level = state.log_level.as_ref().map(|level| level.current());
            let config = state.config.borrow().clone();
            json(&config.shown(level.as_deref()))
        }
        "/version" => json(&VersionSnapshot {
            program: "dubmesh".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            agent: state.config.borrow().process.name.clone(),
            pid: std::process::id(),
            uptime_s: state.started.elapsed().as_secs(),
        }),
        _ => text(StatusCode::NOT_FOUND, format!("no such page; the pages are\n{ROUTES}")),
    }
}

/// Asks the workers what the query of a URL says.
async fn ask<T: WorkerSnapshot + Serialize>(
    state: &AdminState,
    query: &str,
    known: &[&str],
    question: impl Fn(Query<T>) -> Question,
) -> PageResponse {
    match Filter::of_query(query, known) {
        Ok(filter) => json(&state.inspector.ask(filter, question).await),
        Err(problem) => text(StatusCode::BAD_REQUEST, format!("{problem}\n")),
    }
}

/// What the workers say of services, with what is counted for all of them in one place.
async fn services_page(state: &AdminState, query: &str) -> PageResponse {
    let filter = match Filter::of_query(query, &["service"]) {
        Ok(filter) => filter,
        Err(problem) => return text(StatusCode::BAD_REQUEST, format!("{problem}\n")),
    };
    let mut page = state.inspector.ask(filter, Question::Services).await;
    let failed = state.hub.failed_without_endpoint();
    let names: BTreeSet<&str> = page.items.iter().map(|it| &*it.service).collect();
    let sent = state.hub.sent_to_endpoints(|service| names.contains(service));
    let events = state.hub.service_events();
    for service in &mut page.items {
        let ServiceEventCounts { by_event, retries } =
            events.get(&service.service).cloned().unwrap_or_default();
        (service.method_events, service.retries) = (by_event, retries);
        service.failed_without_endpoint = failed.get(&service.service).cloned().unwrap_or_default();
        service.calls = Some(sent.get(&service.service).cloned().unwrap_or_default().into());
    }
    json(&page)
}

/// For the metrics, of which a scraper wants all.
async fn services(state: &AdminState) -> Vec<ServiceFigures> {
    let filter = Filter { limit: MAX_LIMIT, ..Filter::default() };
    let page = state.inspector.ask(filter, Question::Services).await;
    let figures = |service: ServiceSnapshot| ServiceFigures {
        n_ready: service.connected,
        n_not_ready: service.endpoints.saturating_sub(service.connected),
        n_waiting: service.waiting,
        service: service.service,
    };
    page.items.into_iter().map(figures).collect()
}

/// When the certificates expire that the agent shows.
async fn certificates(state: &AdminState) -> Vec<CertificateExpiry> {
    let config = state.config.borrow().clone();
    let chains = state.certificate_files.shown_chains(&config).await;
    let expiry = |chain: &ShownChain| {
        let file = chain.file.display().to_string();
        Some(CertificateExpiry { file, expires_s: chain.expires_s()? })
    };
    chains.iter().filter_map(expiry).collect()
}

fn apps(state: &AdminState, query: &str) -> PageResponse {
    let filter = match Filter::of_query(query, &[]) {
        Ok(filter) => filter,
        Err(problem) => return text(StatusCode::BAD_REQUEST, format!("{problem}\n")),
    };
    let gates = state.hub.gates();
    let total = gates.len();
    let config = state.config.borrow().clone();
    let exported = state.hub.exported();
    let describe = |gate: GateFigures| {
        let of_app = config.exports.iter().filter(|export| export.app.address() == gate.app);
        let services: Vec<String> = of_app.map(|export| export.service.to_string()).collect();
        let mut calls = CallTotals::default();
        for of_service in services.iter().filter_map(|service| exported.get(service)) {
            calls.merge(of_service);
        }
        AppSnapshot {
            services,
            ok: calls.n_ok(),
            failed: calls.failed(&Code::NAMES).collect(),
            app: gate.app,
            capacity: gate.capacity,
            source: gate.source.name().to_owned(),
            in_flight: gate.in_flight,
            waiting: gate.waiting,
            shed: gate.shed,
        }
    };
    let items: Vec<_> = gates.into_iter().take(filter.limit).map(describe).collect();
    json(&Page { total, truncated: items.len() < total, silent_workers: Vec::new(), items })
}

fn stages(state: &AdminState, query: &str) -> PageResponse {
    let filter = match Filter::of_query(query, &["service"]) {
        Ok(filter) => filter,
        Err(problem) => return text(StatusCode::BAD_REQUEST, format!("{problem}\n")),
    };
    let describe = |ServiceStages { place, service, totals }| StagesSnapshot {
        place: place.name().to_owned(),
        service,
        calls: totals.n_calls,
        total_ms: Stage::ALL
            .into_iter()
            .zip(totals.spent)
            .map(|(stage, time)| (stage.name().to_owned(), time.as_secs_f64() * 1e3))
            .collect(),
    };
    let mut all = state.hub.stages();
    all.retain(|ServiceStages { service: name, .. }| {
        name.parse::<ServiceKey>().is_ok_and(|service| filter.has_service(&service, name))
    });
    let total = all.len();
    let items: Vec<_> = all.into_iter().take(filter.limit).map(describe).collect();
    json(&Page { total, truncated: items.len() < total, silent_workers: Vec::new(), items })
}

fn registries(state: &AdminState, query: &str) -> PageResponse {
    let filter = match Filter::of_query(query, &[]) {
        Ok(filter) => filter,
        Err(problem) => return text(StatusCode::BAD_REQUEST, format!("{problem}\n")),
    };
    let all =
        state.registries.iter().take(filter.limit).map(|NamedRegistry { name, kind, registry }| {
            let (status, activity) = (registry.status().borrow().clone(), registry.activity());
            let shorten =
                |error: String| error[..error.floor_char_boundary(MAX_ERROR_LEN)].to_owned();
            RegistrySnapshot {
                name: name.clone(),
                kind: (*kind).to_owned(),
                connected: status.connected,
                since_unix_s: unix_s(status.since),
                last_error: status.last_error.map(shorten),
                watched_services: activity.subscriptions,
                changes: activity.changes,
                last_change_unix_s: activity.last_change.map(unix_s),
            }
        });
    let (items, total): (Vec<_>, _) = (all.collect(), state.registries.len());
    json(&Page { total, truncated: items.len() < total, silent_workers: Vec::new(), items })
}

fn unix_s(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

async fn change_log_level(log_level: &dyn LogLevel, request: Request<Incoming>) -> PageResponse {
    if is_from_another_site(request.headers()) {
        let message = "web pages of other sites may not change the log filter\n";
        return text(StatusCode::FORBIDDEN, message.to_owned());
    }
    let body = Limited::new(request.into_body(), MAX_FILTER_LEN).collect();
    let filter = match tokio::time::timeout(BODY_TIMEOUT, body).await {
        Ok(Ok(body)) => body.to_bytes(),
        Ok(Err(_)) => {
            let message = format!("the filter is over the limit of {MAX_FILTER_LEN} bytes\n");
            return text(StatusCode::PAYLOAD_TOO_LARGE, message);
        }
        Err(_) => {
            return text(
                StatusCode::REQUEST_TIMEOUT,
                "the body did not arrive in time\n".to_owned(),
            );
        }
    };
    let changed = std::str::from_utf8(&filter)
        .map_err(|_| "the filter is not UTF-8".to_owned())
        .and_then(|filter| log_level.change(filter.trim()));
    match changed {
        Ok(()) => text(StatusCode::OK, format!("{}\n", log_level.current())),
        Err(problem) => text(StatusCode::BAD_REQUEST, format!("{problem}\n")),
    }
}

/// Whether a browser sends the request for a page that this listener has not served.
fn is_from_another_site(headers: &HeaderMap) -> bool {
    match headers.get(SEC_FETCH_SITE) {
        Some(site) => site != "same-origin" && site != "none",
        // It serves no page that would do so, and other programs send no origin.
        None => headers.contains_key(ORIGIN),
    }
}

/// Refuses a name that somebody else may have given to this machine's address, so that a web page
/// could read what is here (DNS rebinding). A browser always sends the name.
fn known_host(request: &Request<Incoming>, hosts: &[String]) -> Result<(), String> {
    let mut names = request.headers().get_all(HOST).iter();
    let Some(name) = names.next() else {
        return match request.version() {
            Version::HTTP_11 => Err(String::new()),
            _ => Ok(()),
        };
    };
    let name = name.to_str().unwrap_or_default();
    let is_known = head::is_host(name) && web_pages::is_known_host(name, hosts);
    if is_known && names.next().is_none() { Ok(()) } else { Err(name.to_owned()) }
}

fn not_allowed(message: &str, methods: &'static str) -> PageResponse {
    let mut response = text(StatusCode::METHOD_NOT_ALLOWED, message.to_owned());
    response.headers_mut().insert(ALLOW, HeaderValue::from_static(methods));
    response
}

pub(super) fn json(value: &impl Serialize) -> PageResponse {
    match serde_json::to_vec(value) {
        Ok(mut bytes) => {
            bytes.push(b'\n');
            response(StatusCode::OK, JSON, Full::new(bytes.into()))
        }
        Err(error) => text(StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")),
    }
}

pub(super) fn text(status: StatusCode, body: String) -> PageResponse {
    response(status, TEXT, Full::new(body.into()))
}

fn response<B>(status: StatusCode, media_type: HeaderValue, body: B) -> Response<B> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, media_type);
    // A proxy that keeps yesterday's health is worse than none.
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    // Callers' words are in it; a browser must not take them for a page.
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}
