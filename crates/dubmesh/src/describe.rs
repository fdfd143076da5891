//! `dubmesh describe`: what a service looks like, who says so, and who offers it.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::time::Duration;

use agent::args::ArgumentList;
use agent::client::Client;
use agent::error::{CallError, Code};
use agent::invocation::Invocation;
use agent::route::RouteName;
use clap::Args;
use dubbo_proto::ServiceKey;
use dubbo_proto::definition::{ClassDefinition, MethodDefinition};
use hessian::transcode::JsonOptions;
use registry::{Endpoint, ListedService, Lookup, Origin, Snapshot, Unused, why_nobody};
use serde_json::{Value, json};

use crate::Exit;
use crate::service_location::{LocationArgs, ServiceLocation, VariantArgs};

/// How long the registry and the definition are waited for.
const LOOKUP_TIMEOUT: Duration = Duration::from_secs(10);
/// A connection that takes longer will not come.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);

/// What stands below the options in `--help`.
pub(crate) const HELP: &str = "\
Where methods and types come from:
  The definition of the service: a file in --definitions, Dubbo's metadata
  report in etcd or ZooKeeper, or the provider's own list (telnet ls -l on the
  Dubbo port of 2.6 and 2.7). Without a definition, only the names of the
  methods that the providers have registered are known. docs/calling.md has the
  details.

Examples:
  dubmesh describe com.acme.Orders --registry etcd://127.0.0.1:2379
  dubmesh describe com.acme.Orders --version '*' --group '*' --json \\
      --registry etcd://127.0.0.1:2379
  dubmesh describe com.acme.Orders --url dubbo://127.0.0.1:20880
  dubmesh describe com.acme.Orders --registry file:services.toml \\
      --definitions definitions/

Exit status:
  0  the service is known
  1  the registry could not be reached
  2  the arguments are wrong
  3  the service is unknown: nobody offers it, or nobody answers at --url, or
     the endpoint there does not offer it";

/// The arguments of `dubmesh describe`.
#[derive(Args, Debug)]
pub(crate) struct DescribeArgs {
    /// The Java interface
    interface: String,
    #[command(flatten)]
    place: LocationArgs,
    #[command(flatten)]
    variant: VariantArgs,
    /// Print JSON, for programs
    #[arg(long)]
    json: bool,
}

/// What was found out.
struct Description {
    service: ServiceKey,
    /// Where it was looked for.
    registry: String,
    lookup: Lookup,
    snapshot: Snapshot,
    /// Why the registry has not answered, if it has not.
    trouble: Option<String>,
    /// Why the endpoint of `--url` is of no use, if it is not.
    refusal: Option<String>,
    /// What the registry has that is like it.
    like_it: Vec<String>,
}

/// Prints what is known of a service.
pub(crate) fn describe(args: &DescribeArgs) -> Exit {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build_local(tokio::runtime::LocalOptions::default());
    let found = match runtime {
        Ok(runtime) => runtime.block_on(look(args)),
        Err(error) => {
            eprintln!("dubmesh describe: cannot start an event loop: {error}");
            return Exit::Failure;
        }
    };
    let description = match found {
        Ok(description) => description,
        Err(message) => {
            eprintln!("dubmesh describe: {message}");
            return Exit::Usage;
        }
    };
    // What a provider lists by telnet is of any version and group that it has.
    let known_without_it = description
        .lookup
        .found()
        .is_some_and(|found| !matches!(found.origin, Origin::Provider(_)));
    if let (Some(text), false) = (&description.refusal, known_without_it) {
        eprintln!("dubmesh describe: {text}");
        return Exit::Refused;
    }
    let is_known =
        description.lookup.found().is_some() || !description.snapshot.endpoints.is_empty();
    match (&description.trouble, is_known) {
        (Some(trouble), false) => {
            eprintln!("dubmesh describe: {trouble}; check --registry, and whether it is running");
            return Exit::Failure;
        }
        (None, false) => {
            eprintln!("dubmesh describe: {}", description.nobody());
            return Exit::Refused;
        }
        (_, true) => {}
    }
    let text = match args.json {
        true => format!("{:#}\n", description.json()),
        false => description.text(),
    };
    match std::io::Write::write_all(&mut std::io::stdout(), text.as_bytes()) {
        Ok(()) => Exit::Ok,
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Exit::Ok,
        Err(error) => {
            eprintln!("dubmesh describe: cannot write to standard output: {error}");
            Exit::Failure
        }
    }
}

async fn look(args: &DescribeArgs) -> Result<Description, String> {
    let text = |error: &dyn std::fmt::Display| error.to_string();
    let service =
        args.place.service(&args.interface, &args.variant).map_err(|error| text(&error))?;
    let place = args.place.open(&service, &args.variant, None).map_err(|error| text(&error))?;
    let subscription = place.registry.subscribe(&service);
    let trouble = place.first_list(&subscription, LOOKUP_TIMEOUT).await;
    let mut watch = place.registry.definition(&service);
    let lookup = tokio::time::timeout(LOOKUP_TIMEOUT, watch.settled()).await.unwrap_or_default();
    let snapshot = subscription.current();
    let refusal = match args.place.endpoint() {
        Some((host, port)) => match reach(host, port).await {
            Ok(()) => is_offered(&place, &service).await.err(),
            Err(text) => Some(text),
        },
        None => None,
    };
    let is_known = lookup.found().is_some() || !snapshot.endpoints.is_empty();
    let like_it = match is_known || trouble.is_some() || args.place.endpoint().is_some() {
        true => Vec::new(),
        false => like_it(&place, &service).await,
    };
    let registry = place.name;
    Ok(Description { service, registry, lookup, snapshot, trouble, refusal, like_it })
}

/// What is registered under the same interface, or under one of the same simple name.
async fn like_it(place: &ServiceLocation, service: &ServiceKey) -> Vec<String> {
    /// More would tell nobody more.
    const MAX_SHOWN: usize = 5;
    let simple = |name: &str| name.rsplit('.').next().unwrap_or_default().to_lowercase();
    let wanted = simple(&service.interface);
    // A hint is not worth an error of its own.
    let listed = place.registry.catalogue(|name| simple(name) == wanted).await.unwrap_or_default();
    let is_same = |it: &&ListedService| it.service.interface == service.interface;
    let of_it = |it: &ListedService| it.service.to_string();
    let same: Vec<_> = listed.iter().filter(is_same).map(of_it).take(MAX_SHOWN).collect();
    if same.is_empty() { listed.iter().map(of_it).take(MAX_SHOWN).collect() } else { same }
}

/// Asks the only endpoint whether it has the service, by the echo that Dubbo answers for every
/// service that it exports. Only a clear no is an error.
async fn is_offered(place: &ServiceLocation, service: &ServiceKey) -> Result<(), String> {
    let ServiceKey { interface, version, group } = service;
    if [version, group].iter().any(|name| name.contains('*')) {
        return Ok(());
    }
    let client =
        Client::new("dubmesh-describe", &place.name, place.registry.clone(), Default::default());
    let (types, generic) = (Some("java.lang.Object"), None);
    let invocation = Invocation {
        name: RouteName { interface, version, group, method: "$echo", types, generic },
        args: ArgumentList::Json(vec![b"0"]),
        timeout: Some(CONNECT_TIMEOUT),
        timeout_key: "",
        attachments: Vec::new(),
        origin: agent::invocation::Origin::default(),
        clock: None,
        is_copy: false,
    };
    // Dubbo 3 says only that it cannot read the request, and it can read this one for any service.
    let is_no = |error: &CallError| {
        error.code == Code::ServiceNotFound
            || error.code == Code::ProviderRejected && error.message.contains("methodName=$echo")
    };
    match client.call(&invocation, &JsonOptions::default()).await {
        Err(error) if is_no(&error) => Err(format!(
            "{} does not offer {service}; check the interface, --version and --group",
            error.endpoint.as_deref().unwrap_or(&place.name)
        )),
        _ => Ok(()),
    }
}

/// Whether somebody listens there.
async fn reach(host: &str, port: u16) -> Result<(), String> {
    match link::socket::connect(host, port, CONNECT_TIMEOUT).await {
        Ok(_) => Ok(()),
        Err(error) => {
            Err(format!("cannot connect to {host}:{port}: {error}; check that it runs there"))
        }
    }
}

impl Description {
    /// Why nothing was found, and what may have been meant.
    fn nobody(&self) -> String {
        let Self { service, registry, snapshot, like_it, .. } = self;
        let list = like_it.join(", ");
        let is_same = |text: &String| {
            text.parse().is_ok_and(|key: ServiceKey| key.interface == service.interface)
        };
        match like_it.first() {
            Some(first) if snapshot.unused.iter().all(Unused::is_hint) => {
                let meant = match is_same(first) {
                    true => format!(
                        "it is registered as {list}: check --version and --group ('*' takes any)"
                    ),
                    false => format!("did you mean {list}?"),
                };
                format!("nobody offers {service}; {meant}")
            }
            _ => why_nobody(service, registry, &snapshot.unused),
        }
    }

    /// The names that providers have registered.
    fn registered_methods(&self) -> BTreeSet<&str> {
        let lists = self.snapshot.endpoints.iter().filter_map(|it| it.params.get("methods"));
        lists.flat_map(|list| list.split(',')).filter(|name| !name.is_empty()).collect()
    }

    fn methods(&self) -> Vec<&MethodDefinition> {
        let found = self.lookup.found().into_iter();
        let mut methods: Vec<_> = found.flat_map(|found| &found.service.methods).collect();
        methods.sort_by_key(ToString::to_string);
        methods
    }

    fn text(&self) -> String {
        let mut out = format!("service {}\n", self.service);
        let methods = self.methods();
        match self.lookup.found() {
            Some(found) => {
                let _ = writeln!(out, "\nmethods (by {})", found.origin);
                for method in &methods {
                    let result = method.result.as_ref().map_or("?".to_owned(), ToString::to_string);
                    let _ = writeln!(out, "  {result} {method}");
                }
                let beans = found.service.classes.iter().filter(|(name, _)| is_of_estate(name));
                for (index, (name, class)) in beans.enumerate() {
                    out.push_str(if index == 0 { "\nclasses\n" } else { "" });
                    class_text(&mut out, name, class);
                }
            }
            None if self.registered_methods().is_empty() => out.push_str(
                "\nmethods unknown: nobody has a definition of the service; --definitions FOLDER \
                 gives one, and dubmesh call can call a method by its name alone\n",
            ),
            None => {
                out.push_str("\nmethods (as registered; types unknown)\n");
                for name in self.registered_methods() {
                    let _ = writeln!(out, "  {name}");
                }
            }
        }
        let only_registered: Vec<&str> = self
            .registered_methods()
            .into_iter()
            .filter(|name| {
                !methods.is_empty() && methods.iter().all(|method| &*method.name != *name)
            })
            .collect();
        if !only_registered.is_empty() {
            let list = only_registered.join(", ");
            let _ = writeln!(out, "\nregistered, but not in the definition: {list}");
        }
        out.push_str("\nendpoints\n");
        for endpoint in self.snapshot.endpoints.iter() {
            let _ = writeln!(out, "  {}  {}", endpoint.key(), endpoint_text(endpoint));
        }
        if let Some(refusal) = &self.refusal {
            let _ = writeln!(out, "  {refusal}");
        }
        if self.snapshot.endpoints.is_empty() {
            out.push_str("  none\n");
        }
        out
    }

    fn json(&self) -> Value {
        let methods: Vec<Value> = self
            .methods()
            .iter()
            .map(|method| {
                json!({
                    "name": &*method.name,
                    "parameterTypes": method.parameters.iter().map(ToString::to_string).collect::<Vec<_>>(),
                    "returnType": method.result.as_ref().map(ToString::to_string),
                })
            })
            .collect();
        let found = self.lookup.found();
        let classes: serde_json::Map<String, Value> = found
            .into_iter()
            .flat_map(|found| &found.service.classes)
            .filter(|(name, _)| is_of_estate(name))
            .map(|(name, class)| (name.to_string(), class_json(class)))
            .collect();
        json!({
            "service": self.service.to_string(),
            "definition": found.map(|found| found.origin.to_string()),
            "methods": methods,
            "classes": classes,
            "registeredMethods": self.registered_methods(),
            "endpoints": self.snapshot.endpoints.iter().map(endpoint_json).collect::<Vec<_>>(),
            "refusal": self.refusal,
        })
    }
}

/// The fields of the JDK's classes are nobody's business.
fn is_of_estate(class: &str) -> bool {
    !class.starts_with("java.") && !class.starts_with("javax.")
}

fn class_text(out: &mut String, name: &str, class: &ClassDefinition) {
    match class {
        ClassDefinition::Enum(values) => {
            let _ = writeln!(out, "  enum {name} {{ {} }}", values.join(", "));
        }
        ClassDefinition::Bean(fields) => {
            let _ = writeln!(out, "  {name}");
            for (field, ty) in fields {
                let _ = writeln!(out, "    {ty} {field}");
            }
        }
    }
}

fn class_json(class: &ClassDefinition) -> Value {
    match class {
        ClassDefinition::Enum(values) => {
            json!({ "values": values.iter().map(|value| &**value).collect::<Vec<&str>>() })
        }
        ClassDefinition::Bean(fields) => {
            let fields: serde_json::Map<String, Value> = fields
                .iter()
                .map(|(field, ty)| (field.to_string(), Value::String(ty.to_string())))
                .collect();
            json!({ "fields": fields })
        }
    }
}

fn serializations(endpoint: &Endpoint) -> Vec<&'static str> {
    endpoint.serializations.iter().map(|known| known.name()).collect()
}

fn param<'a>(endpoint: &'a Endpoint, name: &str) -> Option<&'a str> {
    endpoint.params.get(name).filter(|value| !value.is_empty())
}

fn endpoint_text(endpoint: &Endpoint) -> String {
    let mut parts = Vec::new();
    for name in ["release", "version", "group", "application"] {
        if let Some(value) = param(endpoint, name) {
            parts.push(format!("{name} {value}"));
        }
    }
    let serializations = serializations(endpoint).join(",");
    if !serializations.is_empty() {
        parts.push(format!("serialization {serializations}"));
    }
    parts.push(format!("weight {}", endpoint.weight));
    if let Some(timeout) = endpoint.timeout {
        parts.push(format!("timeout {} ms", timeout.as_millis()));
    }
    parts.join(", ")
}

fn endpoint_json(endpoint: &Endpoint) -> Value {
    json!({
        "url": endpoint.key().to_string(),
        "release": param(endpoint, "release"),
        "version": param(endpoint, "version"),
        "group": param(endpoint, "group"),
        "application": param(endpoint, "application"),
        "serializations": serializations(endpoint),
        "weight": endpoint.weight,
        "timeoutMs": endpoint.timeout.and_then(|timeout| u64::try_from(timeout.as_millis()).ok()),
    })
}
