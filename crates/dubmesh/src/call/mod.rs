//! `dubmesh call`: one call of a Dubbo service from the shell, by the same path as an agent's.

mod layout;

use std::io::{self, IsTerminal, Read, Write};
use std::time::Duration;

use agent::args::{ArgumentList, parse_types};
use agent::client::Client;
use agent::config::ClusterPolicy;
use agent::error::{CallError, Code};
use agent::invoke::Invocation;
use agent::route::RouteName;
use clap::Args;
use dubbo_proto::{DEFAULT_PAYLOAD_LIMIT, DubboUrl, Serialization, ServiceKey};
use registry::{Endpoint, MemoryHub, Protocol, Registered, Registration, Registry, RegistryConfig};

use crate::Exit;
use crate::provider::serialization;
use crate::registry_url::RegistryUrl;

/// Where a provider listens unless its URL says otherwise.
const DUBBO_PORT: u16 = 20880;
/// A connection that takes longer will not come.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// The longest `--timeout-ms`.
const MAX_TIMEOUT: Duration = Duration::from_secs(60 * 60);

/// What stands below the options in `--help`.
pub(crate) const HELP: &str = r#"Arguments:
  One JSON array holds all arguments of the method; one bare value that is no array is the only
  argument. A method with one list as its parameter takes [[...]]. Without --types the provider
  finds the method by its name, in a generic call; methods of the same name need --types.

Examples:
  dubmesh call com.acme.Orders find '[42]' --url dubbo://127.0.0.1:20880
  dubmesh call com.acme.Orders find 42 --types long --registry etcd://127.0.0.1:2379
  dubmesh call com.acme.Orders add - --registry file:services.toml < order.json
  dubmesh call com.alibaba.dubbo.performance.demo.provider.IHelloService hash '"hello"' \
      --types Ljava/lang/String; --url dubbo://127.0.0.1:20880 --serialization fastjson

Exit status:
  0  the call succeeded; its value is on standard output, as JSON
  1  the call was made and failed: an exception, a provider's error, a broken connection
  2  the arguments are wrong, or do not fit the types
  3  refused before it began: no endpoint, unreachable, no such service or method, overloaded
  4  no answer in time"#;

/// The arguments of `dubmesh call`.
#[derive(Args, Debug)]
pub(crate) struct CallArgs {
    /// The Java interface
    interface: String,
    /// The method
    method: String,
    /// The arguments, in JSON: an array, or one bare value; - reads standard input
    #[arg(value_name = "JSON", allow_hyphen_values = true)]
    arguments: Option<String>,
    #[command(flatten)]
    place: PlaceArgs,
    /// The service's version
    #[arg(long = "version", value_name = "VERSION")]
    service_version: Option<String>,
    /// The service's group
    #[arg(long, value_name = "GROUP")]
    group: Option<String>,
    /// The parameter types: Java names between commas, or JVM descriptors
    #[arg(long, value_name = "TYPES")]
    types: Option<String>,
    /// How long to wait for the answer; the service's own timeout, or 1000, unless given
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u64).range(1..=3_600_000))]
    timeout_ms: Option<u64>,
    /// An attachment of the call; may be given several times
    #[arg(long, value_name = "NAME=VALUE", value_parser = attachment)]
    attachment: Vec<(String, String)>,
    /// hessian2 or fastjson, for a provider whose registration does not tell; hessian2 unless given
    #[arg(long, value_name = "NAME", value_parser = serialization)]
    serialization: Option<Serialization>,
    /// Print the value on one line, as it came, also on a terminal
    #[arg(long)]
    raw: bool,
}

/// Where the service is; one of both.
#[derive(Args, Debug)]
#[group(required = true, multiple = false)]
struct PlaceArgs {
    /// One endpoint: dubbo://HOST:PORT of a provider, or link://HOST:PORT of an agent
    #[arg(long, value_name = "URL", value_parser = endpoint_url)]
    url: Option<DubboUrl>,
    /// Where to look the endpoints up: etcd://HOST:PORT[?layout=contest], or file:PATH
    #[arg(long, value_name = "URL")]
    registry: Option<RegistryUrl>,
}

fn attachment(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("write NAME=VALUE".to_owned()),
    }
}

fn endpoint_url(text: &str) -> Result<DubboUrl, String> {
    const FORMS: &str = "write dubbo://HOST:PORT or link://HOST:PORT";
    let mut url: DubboUrl = text.parse().map_err(|error| format!("{error}; {FORMS}"))?;
    let protocol = Protocol::from_scheme(&url.protocol);
    if protocol == Some(Protocol::Dubbo) && url.port == 0 {
        url.port = DUBBO_PORT;
    }
    if protocol.is_none() || url.host.is_empty() || url.port == 0 {
        return Err(FORMS.to_owned());
    }
    Ok(url)
}

/// Why no value came.
enum Failure {
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
        Ok(json) => match print(args, &json) {
            Ok(()) => return Exit::Ok,
            Err(error) => Failure::Local(format!("cannot write to standard output: {error}")),
        },
        Err(failure) => failure,
    };
    let (exit, message) = match failure {
        Failure::Usage(message) => (Exit::Usage, message),
        Failure::Local(message) => (Exit::Failure, message),
        Failure::Call(error, reason) => {
            let reason = reason.map_or(String::new(), |reason| format!("; it says: {reason}"));
            (exit_of(error.code), format!("{error}{reason}; {}", remedy(error.code)))
        }
    };
    eprintln!("dubmesh call: {message}");
    exit
}

fn print(args: &CallArgs, json: &[u8]) -> io::Result<()> {
    let mut stdout = io::stdout();
    if !args.raw && stdout.is_terminal() {
        stdout.write_all(&layout::pretty(json))?;
    } else {
        stdout.write_all(json)?;
    }
    stdout.write_all(b"\n")?;
    stdout.flush()
}

fn value_of(args: &CallArgs) -> Result<Vec<u8>, Failure> {
    let body = body(args)?;
    let list = ArgumentList::json(&body).map_err(|error| {
        let remedy = r#"write an array such as '["a", 1]', or one value such as '"a"'"#;
        Failure::Usage(format!("cannot read the arguments: {}; {remedy}", error.message))
    })?;
    if let Some(types) = &args.types {
        parse_types(types).map_err(|error| Failure::Usage(error.message.into()))?;
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build_local(tokio::runtime::LocalOptions::default())
        .map_err(|error| Failure::Local(format!("cannot start an event loop: {error}")))?;
    runtime.block_on(make_call(args, list))
}

/// The text of the arguments; empty if there are none.
fn body(args: &CallArgs) -> Result<Vec<u8>, Failure> {
    let Some(text) = &args.arguments else {
        return Ok(Vec::new());
    };
    if text != "-" {
        return Ok(text.clone().into_bytes());
    }
    let mut body = Vec::new();
    let limit = DEFAULT_PAYLOAD_LIMIT;
    io::stdin()
        .take(limit as u64 + 1)
        .read_to_end(&mut body)
        .map_err(|error| Failure::Local(format!("cannot read standard input: {error}")))?;
    if limit < body.len() {
        return Err(Failure::Usage(format!(
            "the arguments are over Dubbo's limit of {limit} bytes"
        )));
    }
    Ok(body)
}

async fn make_call(args: &CallArgs, list: ArgumentList<'_>) -> Result<Vec<u8>, Failure> {
    let timeout = args.timeout_ms.map(Duration::from_millis);
    let policy = ClusterPolicy {
        max_timeout: MAX_TIMEOUT,
        connect_timeout: CONNECT_TIMEOUT.min(timeout.unwrap_or(CONNECT_TIMEOUT)),
        serialization: args.serialization.unwrap_or(Serialization::Hessian2),
        ..ClusterPolicy::default()
    };
    let service = service(args)?;
    let (registry, name, _registered) = open(args, &service)?;
    let status = registry.status();
    let client = Client::new("dubmesh-call", &name, registry, policy);
    let invocation = Invocation {
        name: RouteName {
            interface: &service.interface,
            version: &service.version,
            group: &service.group,
            method: &args.method,
            types: args.types.as_deref(),
            generic: None,
        },
        args: list,
        timeout,
        attachments: args.attachment.iter().map(|(name, value)| (&**name, &**value)).collect(),
    };
    client.call(&invocation).await.map_err(|error| {
        let is_away = error.code == Code::RegistryUnavailable;
        let reason = is_away.then(|| status.borrow().last_error.clone()).flatten();
        Failure::Call(error, reason)
    })
}

/// What is called. A whole URL, as it stands in a registry, tells version and group, too.
fn service(args: &CallArgs) -> Result<ServiceKey, Failure> {
    let in_url = |name| args.place.url.as_ref().and_then(|url| url.params.get(name));
    let version = args.service_version.as_ref().or_else(|| in_url("version"));
    let group = args.group.as_ref().or_else(|| in_url("group"));
    let or_none = |text: Option<&String>| text.map_or("", String::as_str).to_owned();
    ServiceKey::new(&args.interface, &or_none(version), &or_none(group))
        .map_err(|error| Failure::Usage(error.to_string()))
}

/// The registry to ask, and its name. A single endpoint is the one entry of a registry of its own,
/// which the registration keeps there.
fn open(
    args: &CallArgs,
    service: &ServiceKey,
) -> Result<(Registry, String, Option<Registered>), Failure> {
    let wrong = |error: registry::RegistryError| Failure::Usage(error.to_string());
    if let Some(url) = &args.place.registry {
        let registry = Registry::open(url.config.clone()).map_err(wrong)?;
        return Ok((registry, url.text.clone(), None));
    }
    let Some(url) = &args.place.url else {
        return Err(Failure::Usage("give --url or --registry".to_owned()));
    };
    let registry = Registry::open(RegistryConfig::Memory(MemoryHub::new())).map_err(wrong)?;
    let protocol = Protocol::from_scheme(&url.protocol).unwrap_or(Protocol::Dubbo);
    let mut endpoint = Endpoint::new(protocol, &url.host, url.port);
    let told = || url.params.get("serialization").and_then(|name| Serialization::from_name(name));
    endpoint.serializations = args.serialization.or_else(told).into_iter().collect();
    let registration =
        Registration { service: service.clone(), endpoint, methods: Vec::new(), app_address: None };
    let registered = registry.register(&registration).map_err(wrong)?;
    Ok((registry, url.to_string(), Some(registered)))
}

/// How a failed call ends the process.
fn exit_of(code: Code) -> Exit {
    match code {
        Code::BadRequest
        | Code::NoRoute
        | Code::MethodNotAllowed
        | Code::UnsupportedMediaType
        | Code::RequestTimeout
        | Code::BodyTooLarge
        | Code::BadArguments
        | Code::AmbiguousMethod => Exit::Usage,
        Code::ServiceNotFound
        | Code::MethodNotFound
        | Code::Draining
        | Code::Overloaded
        | Code::RegistryUnavailable
        | Code::NoEndpoint
        | Code::Unreachable
        | Code::Refused
        | Code::ThreadPoolExhausted => Exit::Refused,
        Code::Timeout => Exit::Timeout,
        Code::ConnectionBroken
        | Code::BadReply
        | Code::ReplyTooLarge
        | Code::ProviderRejected
        | Code::ProviderError
        | Code::Exception
        | Code::Cancelled
        | Code::Internal => Exit::Failure,
    }
}

/// What the user can do about a failed call.
fn remedy(code: Code) -> &'static str {
    match code {
        Code::BadRequest
        | Code::NoRoute
        | Code::MethodNotAllowed
        | Code::UnsupportedMediaType
        | Code::RequestTimeout => "see dubmesh call --help",
        Code::BodyTooLarge => "send less, or raise the provider's payload limit",
        Code::BadArguments => "check the JSON against the method's parameters, or give --types",
        Code::AmbiguousMethod => "give --types",
        Code::ServiceNotFound => "check the interface, --version and --group",
        Code::MethodNotFound => "check the interface, the method and --types",
        Code::Draining | Code::Refused => "it is leaving; try another endpoint",
        Code::Overloaded | Code::ThreadPoolExhausted => "try again when it is less busy",
        Code::RegistryUnavailable => "check --registry, and that it is there",
        Code::NoEndpoint | Code::Unreachable => {
            "check that it runs there, and speaks that protocol"
        }
        Code::ConnectionBroken => "it may have been carried out; look at the provider's log",
        Code::BadReply => "try the other --serialization",
        Code::ReplyTooLarge => "ask for less at a time",
        Code::Timeout => "it may still be carried out; give it more by --timeout-ms",
        Code::ProviderRejected => "check the arguments and --types",
        Code::ProviderError | Code::Exception => "look at the provider's log",
        Code::Cancelled | Code::Internal => "please report this",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_name_one_endpoint() {
        let url = endpoint_url("dubbo://10.0.0.1").unwrap();
        assert_eq!((url.host.as_str(), url.port), ("10.0.0.1", DUBBO_PORT));
        assert_eq!(endpoint_url("link://[::1]:30000").unwrap().port, 30000);
        for wrong in ["http://h:1", "link://h", "dubbo://", "h:1", "dubbo://:1"] {
            assert!(endpoint_url(wrong).unwrap_err().contains("dubbo://HOST:PORT"), "{wrong}");
        }
        assert_eq!(attachment("a=b=c"), Ok(("a".to_owned(), "b=c".to_owned())));
        assert!(attachment("=b").is_err() && attachment("a").is_err());
    }

    /// What may safely be tried elsewhere is a refusal, and nothing that may have begun is one.
    #[test]
    fn refusals_are_what_nobody_has_begun() {
        use agent::error::{Fault, Retry};
        for code in Code::ALL {
            let row = code.row();
            let begun = matches!(row.retry, Retry::IfIdempotent);
            assert!(!(begun && exit_of(code) == Exit::Refused), "{code:?}");
            if row.fault == Fault::Upstream && row.retry == Retry::Safe {
                assert_eq!(exit_of(code), Exit::Refused, "{code:?}");
            }
        }
    }
}
