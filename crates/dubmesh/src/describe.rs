//! `dubmesh describe`: what a service looks like, who says so, and who offers it.

use std::fmt::Write as _;
use std::time::Duration;

use agent::args::ArgumentList;
use agent::client::Client;
use agent::description::{self, DescribedClass, DescribedEndpoint, DescribedMethod, Description};
use agent::error::{CallError, Code};
use agent::inspect::snapshot::Page;
use agent::invocation::Invocation;
use agent::route::RouteName;
use clap::Args;
use dubbo_proto::ServiceKey;
use hessian::transcode::JsonOptions;
use registry::DefinitionOrigin;
use serde_json::json;

use crate::service_location::{LocationArgs, ServiceLocation, VariantArgs, plain_address};
use crate::{Exit, admin_pages, output};

/// How long the registry and the definition are waited for.
const LOOKUP_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a running agent may look for them.
const ADMIN_TIMEOUT: Duration = Duration::from_secs(15);
/// A connection that takes longer will not come.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);

/// What stands below the options in `--help`.
pub(crate) const HELP: &str = "\
Where methods and types come from:
  The definition of the service: a file in --definitions, Dubbo's metadata
  report in etcd, ZooKeeper or Nacos, or the provider's own list (telnet ls -l
  on the Dubbo port of 2.6 and 2.7). Without a definition, only the names of
  the methods that the providers have registered are known. docs/calling.md has
  the details. With --admin, a running agent looks into its own registries,
  whether it calls the service or not.

Examples:
  dubmesh describe com.acme.Orders --registry etcd://127.0.0.1:2379
  dubmesh describe com.acme.Orders --version '*' --group '*' --json \\
      --registry etcd://127.0.0.1:2379
  dubmesh describe com.acme.Orders --url dubbo://127.0.0.1:20880
  dubmesh describe com.acme.Orders --registry file:services.toml \\
      --definitions definitions/
  dubmesh describe com.acme.Orders --admin 127.0.0.1:9700

Exit status:
  0  the service is known
  1  the registry, or the agent, could not be reached
  2  the arguments are wrong
  3  the service is unknown: nobody offers it, or nobody answers at --url, or
     the endpoint there does not offer it";

/// The arguments of `dubmesh describe`.
#[derive(Args, Debug)]
#[command(
    override_usage = "dubmesh describe <--url URL|--registry URL> [OPTIONS] INTERFACE\n       \
                      dubmesh describe --admin ADDRESS [OPTIONS] INTERFACE"
)]
pub(crate) struct DescribeArgs {
    /// The Java interface
    interface: String,
    /// A running agent instead: its admin listener, HOST:PORT or unix: and a path
    #[arg(
        long,
        value_name = "ADDRESS",
        value_parser = plain_address,
        group = "LocationArgs",
        conflicts_with_all = ["definitions", "metadata_root"]
    )]
    admin: Option<String>,
    #[command(flatten)]
    place: LocationArgs,
    #[command(flatten)]
    variant: VariantArgs,
    /// Print JSON, for programs
    #[arg(long)]
    json: bool,
}

/// Why there is no description.
enum DescribeError {
    Usage(String),
    Agent(String),
}

/// Prints what is known of a service.
pub(crate) fn describe(args: &DescribeArgs) -> Exit {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build_local(tokio::runtime::LocalOptions::default());
    let found = match runtime {
        Ok(runtime) => runtime.block_on(look(args)),
        Err(error) => {
            output::say(format_args!("dubmesh describe: cannot start an event loop: {error}"));
            return Exit::Failure;
        }
    };
    let descriptions = match found {
        Ok(descriptions) => descriptions,
        Err(DescribeError::Usage(message)) => {
            output::say(format_args!("dubmesh describe: {message}"));
            return Exit::Usage;
        }
        Err(DescribeError::Agent(message)) => {
            output::say(format_args!("dubmesh describe: {message}"));
            return Exit::Failure;
        }
    };
    if !descriptions.iter().any(Description::is_known) {
        return nothing(args, &descriptions);
    }
    let text = match (args.json, &*descriptions) {
        (true, [one]) => format!("{:#}\n", json!(one)),
        (true, several) => format!("{:#}\n", json!(several)),
        (false, [one]) => text_of(one),
        (false, several) => {
            let texts =
                several.iter().map(|it| format!("registry {}\n{}", it.registry, text_of(it)));
            texts.collect::<Vec<_>>().join("\n")
        }
    };
    output::print("describe", &text, Exit::Ok)
}

/// Says why nothing is known of the service.
fn nothing(args: &DescribeArgs, descriptions: &[Description]) -> Exit {
    if descriptions.is_empty() {
        output::say(format_args!("dubmesh describe: the agent has no registry"));
        return Exit::Refused;
    }
    let mut exit = Exit::Refused;
    for description in descriptions {
        if let Some(text) = description.refusal.as_ref().or(description.nobody.as_ref()) {
            output::say(format_args!("dubmesh describe: {text}"));
        }
        if let Some(trouble) = &description.trouble {
            exit = Exit::Failure;
            match &args.admin {
                None => output::say(format_args!(
                    "dubmesh describe: {trouble}; {}",
                    args.place.remedy()
                )),
                Some(_) => output::say(format_args!(
                    "dubmesh describe: registry {:?} of the agent has not answered: {trouble}",
                    description.registry
                )),
            }
        }
    }
    exit
}

async fn look(args: &DescribeArgs) -> Result<Vec<Description>, DescribeError> {
    let usage = |error: &dyn std::fmt::Display| DescribeError::Usage(error.to_string());
    let service =
        args.place.service(&args.interface, &args.variant).map_err(|error| usage(&error))?;
    if let Some(admin) = &args.admin {
        return ask(admin, &service).await.map_err(DescribeError::Agent);
    }
    let place = args.place.open(&service, &args.variant, None).map_err(|error| usage(&error))?;
    let looked = description::look(&place.registry, &place.name, &service, LOOKUP_TIMEOUT).await;
    let mut found = looked.describe(&service, &place.name);
    if let Some((host, port)) = args.place.endpoint() {
        found.refusal = match reach(host, port).await {
            Ok(()) => is_offered(&place, &service).await.err(),
            Err(text) => Some(text),
        };
        // What a provider lists by telnet is of any version and group that it has.
        let told = looked.lookup.found().map(|found| &found.origin);
        let known_without_it =
            told.is_some_and(|origin| !matches!(origin, DefinitionOrigin::Provider(_)));
        if let (Some(text), false) = (&found.refusal, known_without_it) {
            let nothing = Description { refusal: Some(text.clone()), ..Description::default() };
            return Ok(vec![nothing]);
        }
    }
    Ok(vec![found])
}

/// What the registries of a running agent know.
async fn ask(admin: &str, service: &ServiceKey) -> Result<Vec<Description>, String> {
    let mut query = form_urlencoded::Serializer::new(String::new());
    query.append_pair("service", &service.to_string());
    let path = format!("/describe?{}", query.finish());
    let page: Page<Description> = admin_pages::page_within(admin, &path, ADMIN_TIMEOUT).await?;
    Ok(page.items)
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
        args: ArgumentList::of_values(vec![b"0"]),
        timeout: Some(CONNECT_TIMEOUT),
        timeout_key: "",
        attachments: Vec::new(),
        origin: agent::invocation::CallOrigin::default(),
        clock: None,
        is_copy: false,
        not_at: None,
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

fn text_of(description: &Description) -> String {
    let Description { service, definition, methods, registered_methods, .. } = description;
    let mut out = format!("service {service}\n");
    match definition {
        Some(origin) => {
            let _ = writeln!(out, "\nmethods (by {origin})");
            for DescribedMethod { name, parameter_types, return_type } in methods {
                let (result, types) = (return_type.as_deref(), parameter_types.join(", "));
                let _ = writeln!(out, "  {} {name}({types})", result.unwrap_or("?"));
            }
            for (index, (name, class)) in description.classes.iter().enumerate() {
                out.push_str(if index == 0 { "\nclasses\n" } else { "" });
                class_text(&mut out, name, class);
            }
        }
        None if registered_methods.is_empty() => out.push_str(
            "\nmethods unknown: nobody has a definition of the service; --definitions FOLDER \
             gives one, and dubmesh call can call a method by its name alone\n",
        ),
        None => {
            out.push_str("\nmethods (as registered; types unknown)\n");
            for name in registered_methods {
                let _ = writeln!(out, "  {name}");
            }
        }
    }
    let is_defined = |name: &&String| methods.iter().any(|method| method.name == **name);
    let others = registered_methods.iter().filter(|name| !methods.is_empty() && !is_defined(name));
    let others: Vec<&str> = others.map(String::as_str).collect();
    if !others.is_empty() {
        let _ = writeln!(out, "\nregistered, but not in the definition: {}", others.join(", "));
    }
    out.push_str("\nendpoints\n");
    for endpoint in &description.endpoints {
        let _ = writeln!(out, "  {}  {}", endpoint.url, endpoint_text(endpoint));
    }
    if 0 < description.endpoints_left_out {
        let _ = writeln!(out, "  and {} more", description.endpoints_left_out);
    }
    if let Some(refusal) = &description.refusal {
        let _ = writeln!(out, "  {refusal}");
    }
    if description.endpoints.is_empty() {
        out.push_str("  none\n");
    }
    out
}

fn class_text(out: &mut String, name: &str, class: &DescribedClass) {
    match class {
        DescribedClass::Values(values) => {
            let _ = writeln!(out, "  enum {name} {{ {} }}", values.join(", "));
        }
        DescribedClass::Fields(fields) => {
            let _ = writeln!(out, "  {name}");
            for (field, ty) in fields {
                let _ = writeln!(out, "    {ty} {field}");
            }
        }
    }
}

fn endpoint_text(endpoint: &DescribedEndpoint) -> String {
    let DescribedEndpoint { release, version, group, application, .. } = endpoint;
    let facts = [
        ("release", release),
        ("version", version),
        ("group", group),
        ("application", application),
    ];
    let known = facts.into_iter().filter_map(|(name, value)| Some((name, value.as_ref()?)));
    let mut parts: Vec<_> = known.map(|(name, value)| format!("{name} {value}")).collect();
    if !endpoint.serializations.is_empty() {
        parts.push(format!("serialization {}", endpoint.serializations.join(",")));
    }
    parts.push(format!("weight {}", endpoint.weight));
    if let Some(timeout) = endpoint.timeout_ms {
        parts.push(format!("timeout {timeout} ms"));
    }
    parts.join(", ")
}
