//! `dubmesh call`: one call of a Dubbo service from the shell, by the same path as an agent's.
//!
//! `tap` keeps the bytes that go through and `dump` shows them, `layout` is JSON for people, and
//! `outcome` says how a failed call ends.

mod dump;
mod json_layout;
mod outcome;
mod tap;

use std::fs::File;
use std::io::{self, IsTerminal, Read};
use std::time::{Duration, Instant};

use agent::args::{ArgumentList, parse_types};
use agent::call::ONE_WAY;
use agent::client::Client;
use agent::config::ClusterPolicy;
use agent::error::{CallError, Code, SEE_REGISTRIES};
use agent::invocation::{CallOrigin, Invocation};
use agent::route::{Generic, RouteName};
use agent::terminal::escaped;
use clap::Args;
use dubbo_proto::{DEFAULT_PAYLOAD_LIMIT, Serialization, ServiceKey};
use hessian::transcode::{JsonOptions, RefStyle};
use registry::{Freshness, MemoryHub, Registered, Registration, Registry, RegistryConfig};

use self::outcome::{add_similar, exit_of, remedy};
use self::tap::Tap;
use crate::Exit;
use crate::output::{self, OutputReader};
use crate::service_location::{LocationArgs, ServiceLocation, VariantArgs};

/// A connection that takes longer will not come.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// The longest `--timeout-ms`.
const MAX_TIMEOUT: Duration = Duration::from_secs(60 * 60);
/// How long it may take to send a one-way call, unless `--timeout-ms` says. The service's own
/// timeout is for an answer, and may be shorter than connecting takes.
const SEND_TIMEOUT: Duration = Duration::from_secs(10);
/// How long the registry and the definition are waited for before bytes can be shown.
const LOOKUP_TIMEOUT: Duration = Duration::from_secs(5);

/// What stands below the options in `--help`.
pub(crate) const HELP: &str = r#"How the arguments are read:
  A JSON array holds all arguments of the method. Any other JSON value is the
  only argument. If the only parameter is a list, write [[...]].
  Without --types, the types come from the service's definition, if there is
  one (see dubmesh describe). Otherwise the provider finds the method by its
  name, in a generic call. Methods of the same name may need --types.

How the result is written:
  --json has the options of the header x-dubbo-json: big-numbers=text,
  longs=text, floats=float, dates=millis, enums=object, class=yes, refs=path;
  docs/json-mapping.md explains them. Values go to standard output, on one line
  unless that is a terminal. Everything else goes to standard error.

Examples:
  dubmesh call com.acme.Orders find '[42]' --url dubbo://127.0.0.1:20880
  dubmesh call com.acme.Orders find 42 --types long \
      --registry etcd://127.0.0.1:2379
  dubmesh call com.acme.Orders add @order.json --registry file:services.toml
  jq -c .order all.json | dubmesh call com.acme.Orders add - \
      --registry file:services.toml
  dubmesh call com.acme.Orders find 42 --url dubbo://127.0.0.1:20880 \
      --json 'class=yes; dates=millis'
  dubmesh call com.acme.Orders add '{"id":1}' --generic gson \
      --url dubbo://127.0.0.1:20880
  dubmesh call com.acme.Orders find 42 --group blue --version 2.0.0 \
      --attachment tenant=7 --registry etcd://127.0.0.1:2379 --verbose
  dubmesh call com.acme.Orders find 42 --url dubbo://127.0.0.1:20880 \
      --attachments '{"traceId":"abc","n":5}'
  dubmesh call com.acme.Orders touch 42 --types long --one-way \
      --url dubbo://127.0.0.1:20880
  dubmesh call com.alibaba.dubbo.performance.demo.provider.IHelloService hash \
      '"hello"' --types 'Ljava/lang/String;' --serialization fastjson \
      --url dubbo://127.0.0.1:20880

Exit status:
  0  the call succeeded; its value is on standard output, as JSON; with
     --one-way: it was sent
  1  the call was made and failed: an exception (standard error has its class,
     message, cause and fields as JSON), a provider's error, a broken
     connection
  2  the arguments are wrong, or do not fit the types
  3  refused before it began: no endpoint, unreachable, no such service or
     method, overloaded
  4  no answer in time; with --one-way: it could not be sent in time"#;

/// The arguments of `dubmesh call`.
#[derive(Args, Debug)]
#[command(
    override_usage = "dubmesh call <--url URL|--registry URL> [OPTIONS] INTERFACE METHOD [JSON]"
)]
pub(crate) struct CallArgs {
    /// The Java interface
    interface: String,
    /// The method
    method: String,
    /// The arguments, in JSON: an array, or a single value; @FILE reads a file, - standard input
    #[arg(value_name = "JSON", allow_hyphen_values = true)]
    arguments: Option<String>,
    #[command(flatten)]
    place: LocationArgs,
    #[command(flatten)]
    variant: VariantArgs,
    /// The parameter types: Java names between commas, or JVM descriptors
    #[arg(long, value_name = "TYPES")]
    types: Option<String>,
    /// Make a generic call: true (objects are maps) or gson (objects are JSON texts; Dubbo 3)
    #[arg(long, value_name = "MODE", value_parser = generic)]
    generic: Option<Generic>,
    /// How long to wait for the answer; by default the service's own timeout, or 1000. With
    /// --one-way: how long sending may take, with connecting; by default 10000
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u64).range(1..=3_600_000))]
    timeout_ms: Option<u64>,
    /// An attachment of the call; may be given several times
    #[arg(long, value_name = "NAME=VALUE", value_parser = attachment)]
    attachment: Vec<(String, String)>,
    /// Attachments of the call as a JSON object of texts, numbers and booleans
    #[arg(long, value_name = "JSON", value_parser = attachments)]
    attachments: Option<Attachments>,
    /// Make a one-way call: send it, and wait for no answer
    #[arg(long)]
    one_way: bool,
    /// hessian2, fastjson2, fastjson (of Dubbo 2) or fastjson-sized (of Dubbo 3), for a
    /// provider whose registration does not name one; hessian2 by default
    #[arg(long, value_name = "NAME", value_parser = serialization)]
    serialization: Option<Serialization>,
    /// The form of the result, such as 'dates=millis; longs=text'
    #[arg(long, value_name = "OPTIONS", value_parser = json_options)]
    json: Option<JsonOptions>,
    /// Print the value on one line, unchanged, even on a terminal
    #[arg(long)]
    raw: bool,
    /// Print the value on several lines, even if the output is not a terminal
    #[arg(long, conflicts_with = "raw")]
    pretty: bool,
    /// Show the call on standard error, with every frame in both directions
    #[arg(long, short)]
    verbose: bool,
    /// Show on standard error how long the call took
    #[arg(long)]
    timing: bool,
}

impl CallArgs {
    fn is_one_way(&self) -> bool {
        let (name, value) = ONE_WAY;
        self.one_way || self.all_attachments().any(|(own, it)| own == name && it == value)
    }

    fn all_attachments(&self) -> impl Iterator<Item = (&str, &str)> {
        let object = self.attachments.iter().flat_map(|Attachments(pairs)| pairs);
        self.attachment.iter().chain(object).map(|(name, value)| (&**name, &**value))
    }
}

fn generic(text: &str) -> Result<Generic, String> {
    Generic::from_name(text).ok_or_else(|| "write true or gson".to_owned())
}

fn json_options(text: &str) -> Result<JsonOptions, String> {
    JsonOptions::parse(text).map_err(|error| error.to_string())
}

fn attachment(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("write NAME=VALUE".to_owned()),
    }
}

/// Attachments of one JSON object.
#[derive(Clone, Debug)]
struct Attachments(Vec<(String, String)>);

fn attachments(text: &str) -> Result<Attachments, String> {
    agent::attachments::read(text.as_bytes()).map(Attachments).map_err(|error| error.to_string())
}

/// Why no value came.
enum CallFailure {
    /// What the user wrote is wrong.
    Usage(String),
    /// The call failed; what the registry says about itself may explain it.
    Call(CallError, Option<String>),
    /// Our own side failed.
    Local(String),
}

/// Makes the call and prints what comes of it.
pub(crate) fn call(args: &CallArgs) -> Exit {
    let failure = match value_of(args) {
        Ok(_) if args.is_one_way() => {
            output::say("sent; a one-way call has no answer");
            return Exit::Ok;
        }
        Ok(json) => match print(args, &json) {
            Ok(_) => return Exit::Ok,
            Err(message) => CallFailure::Local(message),
        },
        Err(failure) => failure,
    };
    let (exit, message) = match failure {
        CallFailure::Usage(message) => (Exit::Usage, message),
        CallFailure::Local(message) => (Exit::Failure, message),
        CallFailure::Call(error, reason) => {
            let reason = reason.map_or(String::new(), |reason| format!("; it says: {reason}"));
            let exception = error.exception.as_ref();
            let exception =
                exception.map_or(String::new(), |it| format!("\nexception: {}", shown(it)));
            let remedy = match error.code {
                // A part of a message is of no use to anybody.
                Code::Timeout if args.is_one_way() => "it will not be carried out",
                Code::RegistryUnavailable => args.place.remedy(),
                code => remedy(code, &error.message),
            };
            let remedy = if remedy.is_empty() { String::new() } else { format!("; {remedy}") };
            let message = format!("{error}{reason}{remedy}{exception}");
            (exit_of(error.code), message)
        }
    };
    output::say(format_args!("dubmesh call: {message}"));
    exit
}

/// JSON as it is, or on several lines where a person reads it.
fn shown(json: &str) -> String {
    match io::stderr().is_terminal() {
        true => String::from_utf8_lossy(&json_layout::pretty(json.as_bytes(), false)).into_owned(),
        false => json.to_owned(),
    }
}

fn print(args: &CallArgs, json: &[u8]) -> Result<OutputReader, String> {
    let is_terminal = io::stdout().is_terminal();
    if args.pretty || is_terminal && !args.raw {
        let is_wanted = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        let has_colour = is_wanted && is_terminal;
        // Within JSON, that means the same.
        let json = String::from_utf8_lossy(json);
        output::write(&json_layout::pretty(escaped(&json).as_bytes(), has_colour))?;
    } else {
        output::write(json)?;
    }
    output::write(b"\n")
}

fn value_of(args: &CallArgs) -> Result<Vec<u8>, CallFailure> {
    let body = body(args)?;
    let list = ArgumentList::json(&body).map_err(|error| {
        // A shell takes quotes away.
        let is_typed = args.arguments.as_ref().is_some_and(|it| it != "-" && !it.starts_with('@'));
        let hint = if is_typed { ", all in single quotes" } else { "" };
        CallFailure::Usage(format!("{}{hint}", error.message))
    })?;
    if let Some(types) = &args.types {
        parse_types(types).map_err(|error| CallFailure::Usage(error.message.into()))?;
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build_local(tokio::runtime::LocalOptions::default())
        .map_err(|error| CallFailure::Local(format!("cannot start an event loop: {error}")))?;
    runtime.block_on(make_call(args, list))
}

/// The text of the arguments; empty if there are none.
fn body(args: &CallArgs) -> Result<Vec<u8>, CallFailure> {
    let Some(text) = &args.arguments else {
        return Ok(Vec::new());
    };
    // No JSON begins so.
    let path = text.strip_prefix('@');
    if path.is_none() && text != "-" {
        return Ok(text.clone().into_bytes());
    }
    let mut body = Vec::new();
    let limit = DEFAULT_PAYLOAD_LIMIT;
    let read = match path {
        Some(path) => File::open(path).and_then(|it| read_up_to(limit + 1, it, &mut body)),
        None => read_up_to(limit + 1, io::stdin(), &mut body),
    };
    read.map_err(|error| {
        let place = path.unwrap_or("standard input");
        CallFailure::Usage(format!("cannot read the arguments from {place}: {error}"))
    })?;
    if limit < body.len() {
        return Err(CallFailure::Usage(format!(
            "the arguments are over Dubbo's limit of {limit} bytes"
        )));
    }
    Ok(body)
}

fn read_up_to(limit: usize, from: impl Read, body: &mut Vec<u8>) -> io::Result<usize> {
    from.take(limit as u64).read_to_end(body)
}

async fn make_call(args: &CallArgs, list: ArgumentList<'_>) -> Result<Vec<u8>, CallFailure> {
    let wrong = |error: &dyn std::fmt::Display| CallFailure::Usage(error.to_string());
    let started = Instant::now();
    let service =
        args.place.service(&args.interface, &args.variant).map_err(|error| wrong(&error))?;
    let place = args
        .place
        .open(&service, &args.variant, args.serialization)
        .map_err(|error| wrong(&error))?;
    let status = place.registry.status();
    let tapped = match args.verbose {
        true => Some(Tapped::start(&place, &service, started).await?),
        false => None,
    };
    let registry = tapped.as_ref().map_or(&place.registry, |tapped| &tapped.registry);
    let default = args.is_one_way().then_some(SEND_TIMEOUT);
    let timeout = args.timeout_ms.map(Duration::from_millis).or(default);
    let policy = policy(args.serialization, timeout);
    let client = Client::new("dubmesh-call", &place.name, registry.clone(), policy);
    let json = args.json.clone().unwrap_or_default();
    let list = if json.refs == RefStyle::Path { list.with_refs() } else { list };
    let one_way = args.one_way.then_some(ONE_WAY);
    let attachments: Vec<_> = args.all_attachments().chain(one_way).collect();
    let invocation = Invocation {
        name: route_name(args, &service),
        args: list,
        timeout,
        timeout_key: "--timeout-ms",
        attachments,
        origin: CallOrigin::default(),
        clock: None,
        is_copy: false,
        not_at: None,
    };
    let began = Instant::now();
    let mut result = client.call(&invocation, &json).await;
    if let (Some(limit), true, true) = (timeout, args.is_one_way(), result.is_ok()) {
        let taps = tapped.as_ref().map_or(&[][..], |tapped| &tapped.taps);
        let sent = write_all(client, taps);
        let left = limit.saturating_sub(began.elapsed());
        let sent = tokio::time::timeout(left, sent).await;
        result = sent.unwrap_or_else(|_| Err(cut_off(limit))).and(result);
    }
    let took = began.elapsed();
    if let Some(tapped) = &tapped {
        output::say(tapped.show().trim_end_matches('\n'));
    }
    if args.timing || args.verbose {
        let (took, before) = (ms(took), ms(began - started));
        output::say(format_args!(
            "the call took {took} ms, connecting included; preparing it took {before} ms"
        ));
    }
    if let Err(error) = &mut result
        && error.code == Code::ServiceNotFound
    {
        add_similar(error, &place.registry, &service).await;
    }
    result.map_err(|error| {
        let error = match &tapped {
            Some(tapped) => tapped.with_real_addresses(error),
            None => error,
        };
        let error = without_agent(error);
        let is_away = error.code == Code::RegistryUnavailable;
        let reason = is_away.then(|| status.borrow().trouble().map(str::to_owned)).flatten();
        CallFailure::Call(error, reason)
    })
}

fn route_name<'a>(args: &'a CallArgs, service: &'a ServiceKey) -> RouteName<'a> {
    RouteName {
        interface: &service.interface,
        version: &service.version,
        group: &service.group,
        method: &args.method,
        types: args.types.as_deref(),
        generic: args.generic,
    }
}

/// An error without what it says of an agent: there is none here.
fn without_agent(mut error: CallError) -> CallError {
    if let Some(rest) = error.message.strip_suffix(SEE_REGISTRIES) {
        error.message = rest.into();
    }
    error
}

fn policy(serialization: Option<Serialization>, timeout: Option<Duration>) -> ClusterPolicy {
    ClusterPolicy {
        // One call needs no other connection.
        long_len: usize::MAX,
        max_timeout: MAX_TIMEOUT,
        connect_timeout: CONNECT_TIMEOUT.min(timeout.unwrap_or(CONNECT_TIMEOUT)),
        serialization: serialization.unwrap_or(Serialization::DEFAULT),
        ..ClusterPolicy::default()
    }
}

/// Writes what was sent: a process that ends takes along what it has not written.
async fn write_all(client: Client, taps: &[Tap]) -> Result<(), CallError> {
    client.close().await?;
    for tap in taps {
        tap.pass_all().await?;
    }
    Ok(())
}

/// The failure of a one-way call that was begun, and not written to its end in time.
fn cut_off(limit: Duration) -> CallError {
    let ms = limit.as_millis();
    let text = format!(
        "the one-way call was not completely sent within {ms} ms: the provider does not read it, \
         or the network is slow; give it more time by --timeout-ms"
    );
    CallError::new(Code::Timeout, text)
}

fn ms(duration: Duration) -> String {
    format!("{:.1}", duration.as_secs_f64() * 1000.0)
}

/// A copy of the registry in which relays stand for the endpoints.
struct Tapped {
    registry: Registry,
    /// What there is to tell before the frames.
    head: String,
    taps: Vec<Tap>,
    _registered: Vec<Registered>,
}

impl Tapped {
    async fn start(
        place: &ServiceLocation,
        service: &ServiceKey,
        started: Instant,
    ) -> Result<Self, CallFailure> {
        let local =
            |error: &dyn std::fmt::Display| CallFailure::Local(format!("cannot relay: {error}"));
        let subscription = place.registry.subscribe(service);
        let mut snapshots = subscription.snapshots();
        let known = snapshots.wait_for(|snapshot| snapshot.status != Freshness::Pending);
        let snapshot = match tokio::time::timeout(LOOKUP_TIMEOUT, known).await {
            Ok(Ok(snapshot)) => snapshot.clone(),
            _ => subscription.current(),
        };
        let mut watch = place.registry.definition(service);
        let lookup =
            tokio::time::timeout(LOOKUP_TIMEOUT, watch.settled()).await.unwrap_or_default();
        let mut head = format!("service {service} of {}\n", place.name);
        head += &match lookup.found() {
            Some(found) => format!("definition: {}\n", found.origin),
            None => "definition: none\n".to_owned(),
        };
        let hub = RegistryConfig::Memory(MemoryHub::new());
        let registry = Registry::open_defined(hub, lookup).map_err(|error| local(&error))?;
        let (mut taps, mut registered) = (Vec::new(), Vec::new());
        for endpoint in snapshot.endpoints.iter() {
            let tap = Tap::start(endpoint.address(), endpoint.protocol, started);
            let tap = tap.await.map_err(|error| local(&error))?;
            head += &format!("endpoint: {}\n", endpoint.key());
            let mut endpoint = endpoint.clone();
            // The one that is used: a registration with both hessian2 and fastjson2 prefers the
            // first.
            endpoint.serializations.truncate(1);
            if let Some(tap) = tap {
                (endpoint.host, endpoint.port) = ("127.0.0.1".into(), tap.port);
                taps.push(tap);
            }
            let service = service.clone();
            let registration =
                Registration { service, endpoint, methods: Vec::new(), app_address: None };
            registered.push(registry.register(&registration).map_err(|error| local(&error))?);
        }
        Ok(Self { registry, head, taps, _registered: registered })
    }

    fn show(&self) -> String {
        let frames: String = self.taps.iter().map(dump::show).collect();
        format!("{}{frames}", self.head)
    }

    fn with_real_addresses(&self, mut error: CallError) -> CallError {
        for tap in &self.taps {
            let relay = format!("127.0.0.1:{}", tap.port);
            error.message = error.message.replace(&relay, &tap.address).into();
            if error.endpoint.as_deref() == Some(&relay) {
                error.endpoint = Some(tap.address.as_str().into());
            }
        }
        error
    }
}

/// Reads the name of a serialization that we speak, as configurations have it.
fn serialization(name: &str) -> Result<Serialization, String> {
    Serialization::from_config_name(name)
        .ok_or_else(|| "write hessian2, fastjson2, fastjson or fastjson-sized".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_does_not_speak_of_an_agent() {
        let text = format!("registry \"main\" has not answered yet{SEE_REGISTRIES}");
        let error = CallError::new(Code::RegistryUnavailable, text);
        assert_eq!(&*without_agent(error).message, "registry \"main\" has not answered yet");
    }

    #[test]
    fn attachments_are_pairs() {
        assert_eq!(attachment("a=b=c"), Ok(("a".to_owned(), "b=c".to_owned())));
        assert!(attachment("=b").is_err() && attachment("a").is_err());
        assert_eq!(generic("gson"), Ok(Generic::Gson));
        assert!(generic("bean").is_err());
        let Attachments(pairs) = attachments(r#"{"traceId":"a","n":5}"#).unwrap();
        let expected =
            [("traceId", "a"), ("\u{1}n", "5")].map(|(n, v)| (n.to_owned(), v.to_owned()));
        assert_eq!(pairs, expected);
        assert!(attachments("{\"path\":\"x\"}").unwrap_err().contains("reserved"));
    }
}
