//! `dubmesh provider`: an embedded provider until a signal ends it.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::num::NonZeroUsize;
use std::ops::RangeInclusive;
use std::time::Duration;

use agent::config::{LogConfig, LogFormat};
use clap::Args;
use dubbo_proto::{DEFAULT_PAYLOAD_LIMIT, MAX_PAYLOAD_LIMIT, Serialization, ServiceKey};
use registry::{Endpoint, Protocol, Registered, Registration, Registry};
use tokio::signal::unix::{SignalKind, signal};

use lab::provider::{HELLO, METHODS, Provider, ProviderConfig};

use crate::Exit;
use crate::from_one::from_one;
use crate::logging::Logging;
use crate::output;
use crate::registry_url::RegistryUrl;

/// What stands below the options in `--help`.
pub(crate) const HELP: &str = "\
It offers hash(String), which is Java's String.hashCode, echo(String), and
twice(String), for plain and for generic calls. It answers in the caller's
serialization: hessian2, fastjson or fastjson2. If all threads are busy, it
rejects calls like Dubbo, with status 100. Once it listens, it prints one line
on standard output: READY dubbo://HOST:PORT.

On SIGTERM and SIGINT it tells all callers that it is leaving, answers the calls
in flight, and ends.

Examples:
  dubmesh provider
  dubmesh provider --listen 127.0.0.1:20881 --threads 50 \\
      --registry etcd://127.0.0.1:2379
  dubmesh provider --listen 127.0.0.1:0 --work-ms 0
  dubmesh provider --threads 1000 --work-ms 0..300

Exit status:
  0  ended by a signal; every call in flight was answered
  1  could not start, or calls were cut off
  2  the arguments are wrong";

/// No caller waits longer.
const MAX_WORK_MS: u64 = 3_600_000;

/// The arguments of `dubmesh provider`.
#[derive(Args, Debug)]
pub(crate) struct ProviderArgs {
    /// Where to listen; port 0 means any free port
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:20880",
          value_parser = listen)]
    listen: SocketAddr,
    /// Calls that are worked on at the same time; further calls are rejected
    #[arg(long, value_name = "N", default_value = "200", value_parser = from_one::<NonZeroUsize>)]
    threads: NonZeroUsize,
    /// How long each call takes, or MIN..MAX for any time between; 0 answers calls at once and
    /// never rejects one
    #[arg(long, value_name = "MS", default_value = "50", value_parser = work)]
    work_ms: RangeInclusive<Duration>,
    /// Longest body of a request or reply, in bytes; it is registered as Dubbo's `payload`
    #[arg(long, value_name = "BYTES", default_value_t = DEFAULT_PAYLOAD_LIMIT,
          value_parser = payload)]
    payload: usize,
    /// Threads that serve connections
    #[arg(long, value_name = "N", default_value = "1", value_parser = from_one::<NonZeroUsize>)]
    workers: NonZeroUsize,
    /// The service to offer: an interface, or GROUP/INTERFACE:VERSION; by default the
    /// IHelloService of the Dubbo Mesh contest
    #[arg(long, value_name = "SERVICE", default_value = HELLO, hide_default_value = true)]
    interface: ServiceKey,
    /// Register here, in Dubbo's layout: etcd://HOST:PORT, or zookeeper or nacos in its place
    #[arg(long, value_name = "URL")]
    registry: Option<RegistryUrl>,
    /// The serialization that the registration prefers: hessian2, fastjson or fastjson2; the
    /// provider understands all of them
    #[arg(long, value_name = "NAME", requires = "registry", value_parser = registered)]
    serialization: Option<Serialization>,
}

/// Reads `HOST:PORT`. Of several addresses of a name, the first counts.
fn listen(text: &str) -> Result<SocketAddr, String> {
    const REMEDY: &str = "write HOST:PORT such as 127.0.0.1:20880";
    if let Ok(address) = text.parse() {
        return Ok(address);
    }
    let split = text.rsplit_once(':').and_then(|(host, port)| Some((host, port.parse().ok()?)));
    let Some((host, port)) = split.filter(|(host, _): &(&str, u16)| !host.is_empty()) else {
        return Err(REMEDY.to_owned());
    };
    let found = (host, port).to_socket_addrs();
    let found = found.map_err(|error| format!("cannot resolve {host}: {error}; {REMEDY}"))?.next();
    found.ok_or_else(|| format!("{host} has no address; {REMEDY}"))
}

/// Reads `MS`, or `MIN..MAX`.
fn work(text: &str) -> Result<RangeInclusive<Duration>, String> {
    let (least, most) = text.split_once("..").unwrap_or((text, text));
    match (least.parse(), most.parse()) {
        (Ok(least), Ok(most)) if least <= most && most <= MAX_WORK_MS => {
            Ok(Duration::from_millis(least)..=Duration::from_millis(most))
        }
        _ => Err(format!("write milliseconds up to {MAX_WORK_MS} such as 50, or 0..300")),
    }
}

/// Reads a length that Java has.
fn payload(text: &str) -> Result<usize, String> {
    let known = text.parse().ok().filter(|len| (1..=MAX_PAYLOAD_LIMIT).contains(len));
    known.ok_or_else(|| format!("write a number of bytes from 1 to {MAX_PAYLOAD_LIMIT}"))
}

/// Reads the name of a serialization that a registration can tell.
fn registered(name: &str) -> Result<Serialization, String> {
    match Serialization::from_config_name(name) {
        Some(known) if Serialization::NAMED.contains(&known) => Ok(known),
        _ => Err("write hessian2, fastjson or fastjson2".to_owned()),
    }
}

/// Runs a provider until a signal ends it.
pub(crate) fn provider(args: &ProviderArgs) -> Exit {
    let _logging =
        Logging::start(&LogConfig { filter: "warn".to_owned(), format: LogFormat::Text });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let ran = runtime.map_err(|error| error.to_string()).and_then(|rt| rt.block_on(serve(args)));
    match ran {
        Ok(true) => Exit::Ok,
        Ok(false) => {
            output::say(format_args!("dubmesh provider: ended before all calls were answered"));
            Exit::Failure
        }
        Err(message) => {
            output::say(format_args!("dubmesh provider: {message}"));
            Exit::Failure
        }
    }
}

/// Returns whether every call was answered.
async fn serve(args: &ProviderArgs) -> Result<bool, String> {
    let no_signals = |error: io::Error| format!("cannot watch for signals: {error}");
    let mut terminate = signal(SignalKind::terminate()).map_err(no_signals)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(no_signals)?;
    let provider = Provider::start(&ProviderConfig {
        listen: args.listen,
        service: args.interface.clone(),
        threads: args.threads,
        work: args.work_ms.clone(),
        workers: args.workers,
        payload_limit: args.payload,
    })
    .map_err(|error| error.to_string())?;
    let registered = args.registry.as_ref().map(|url| register(args, url, provider.addr()));
    let registered = registered.transpose()?;
    output::write(format!("READY dubbo://{}\n", provider.addr()).as_bytes())?;
    let announced = async {
        if let Some(registered) = &registered {
            registered.established().await;
            output::say(format_args!(
                "dubmesh provider: registered {} as {}",
                args.interface,
                registered.endpoint()
            ));
        }
        std::future::pending::<()>().await;
    };
    tokio::select! {
        () = announced => {}
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    if let Some(registered) = registered
        && let Err(error) = registered.withdraw().await
    {
        output::say(format_args!("dubmesh provider: {error}"));
    }
    Ok(provider.drain().await)
}

fn register(
    args: &ProviderArgs,
    url: &RegistryUrl,
    addr: SocketAddr,
) -> Result<Registered, String> {
    let fail = |error: registry::RegistryError| format!("cannot register in {}: {error}", url.text);
    let mut endpoint = Endpoint::new(Protocol::Dubbo, &addr.ip().to_string(), addr.port());
    endpoint.serializations = args.serialization.into_iter().collect();
    if args.payload != DEFAULT_PAYLOAD_LIMIT {
        endpoint.params = endpoint.params.with("payload", &args.payload.to_string());
    }
    let registration = Registration {
        service: args.interface.clone(),
        endpoint,
        methods: METHODS.map(str::to_owned).to_vec(),
        app_address: None,
    };
    let registry = Registry::open(url.config.clone()).map_err(fail)?;
    registry.register(&registration).map_err(fail)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listener_has_an_address_or_a_name() {
        for (text, port) in [("127.0.0.1:0", 0), ("[::1]:20880", 20880), ("localhost:7", 7)] {
            let address = listen(text).unwrap();
            assert!(address.ip().is_loopback() && address.port() == port, "{address}");
        }
        for text in ["localhost", "localhost:", ":20880", "localhost:99999", ""] {
            assert!(listen(text).unwrap_err().starts_with("write HOST:PORT"), "{text}");
        }
        let unknown = listen("name.invalid:1").unwrap_err();
        assert!(unknown.starts_with("cannot resolve name.invalid: "), "{unknown}");
    }
}
