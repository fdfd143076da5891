//! `dubmesh explain`: which endpoints Dubbo's routing rules leave for a call, and why.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use dubbo_proto::ServiceKey;
use flow::rules::{CallView, ConditionRule, RuleError, RuleSet, Selection, TagRule, UrlView};
use registry::Endpoint;

use crate::Exit;
use crate::service_location::{LocationArgs, VariantArgs};

/// How long the registry is waited for.
const LOOKUP_TIMEOUT: Duration = Duration::from_secs(10);

/// What stands below the options in `--help`.
pub(crate) const HELP: &str = "\
What it is for:
  Try a rule before it is published, or find out why one does nothing. The
  answer is that of Dubbo 3.3 and of agents.

Examples:
  dubmesh explain com.acme.Orders find --registry etcd://127.0.0.1:2379 \\
      --conditions canary.yaml --consumer application=shop
  dubmesh explain com.acme.Orders find --registry file:services.toml \\
      --tags orders.tag-router.yaml --attachment dubbo.tag=gray

Exit status:
  0  at least one endpoint is left
  1  the registry could not be reached
  2  the arguments or a rule are wrong
  3  no endpoint is left, or nobody offers the service";

/// The arguments of `dubmesh explain`.
#[derive(Args, Debug)]
#[command(override_usage = "dubmesh explain <--url URL|--registry URL> [OPTIONS] INTERFACE METHOD")]
pub(crate) struct ExplainArgs {
    /// The Java interface
    interface: String,
    /// The method
    method: String,
    #[command(flatten)]
    place: LocationArgs,
    /// The service's version
    #[arg(long = "version", value_name = "VERSION")]
    service_version: Option<String>,
    /// The service's group
    #[arg(long, value_name = "GROUP")]
    group: Option<String>,
    /// The tag rule of the provider's application, in Dubbo's YAML
    #[arg(long, value_name = "FILE")]
    tags: Option<PathBuf>,
    /// A condition rule: of the service, then of the provider's application,
    /// then of the caller's
    #[arg(long, value_name = "FILE")]
    conditions: Vec<PathBuf>,
    /// An attachment of the call
    #[arg(long = "attachment", value_name = "NAME=VALUE", value_parser = pair)]
    attachments: Vec<(String, String)>,
    /// An argument of the call, as Java shows it as text; repeat it for more
    #[arg(long = "argument", value_name = "TEXT")]
    arguments: Vec<String>,
    /// A parameter of the caller, such as application=shop
    #[arg(long = "consumer", value_name = "NAME=VALUE", value_parser = pair)]
    consumer: Vec<(String, String)>,
    /// The address of the caller
    #[arg(long, value_name = "HOST", default_value = "127.0.0.1")]
    host: String,
}

/// Why there is no answer.
enum Trouble {
    Usage(String),
    Registry(String),
}

fn pair(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("write NAME=VALUE")?;
    Ok((name.to_owned(), value.to_owned()))
}

/// Prints which endpoints are left.
pub(crate) fn explain(args: &ExplainArgs) -> Exit {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build_local(tokio::runtime::LocalOptions::default());
    let explained = match runtime {
        Ok(runtime) => runtime.block_on(look(args)),
        Err(error) => {
            eprintln!("dubmesh explain: cannot start an event loop: {error}");
            return Exit::Failure;
        }
    };
    match explained {
        Ok((text, is_any_left)) => {
            // Whoever closes the pipe has read enough.
            let _ = std::io::Write::write_all(&mut std::io::stdout(), text.as_bytes());
            if is_any_left { Exit::Ok } else { Exit::Refused }
        }
        Err(Trouble::Usage(message)) => {
            eprintln!("dubmesh explain: {message}");
            Exit::Usage
        }
        Err(Trouble::Registry(message)) => {
            eprintln!("dubmesh explain: {message}; check --registry, and whether it is running");
            Exit::Failure
        }
    }
}

async fn look(args: &ExplainArgs) -> Result<(String, bool), Trouble> {
    let usage = |error: &dyn std::fmt::Display| Trouble::Usage(error.to_string());
    let rules = rules(args).map_err(Trouble::Usage)?;
    let variant = VariantArgs::of(args.service_version.clone(), args.group.clone());
    let service = args.place.service(&args.interface, &variant).map_err(|error| usage(&error))?;
    let place = args.place.open(&service, &variant, None).map_err(|error| usage(&error))?;
    let subscription = place.registry.subscribe(&service);
    if let Some(trouble) = place.first_list(&subscription, LOOKUP_TIMEOUT).await {
        return Err(Trouble::Registry(trouble));
    }
    let endpoints = subscription.current().endpoints;
    let selection = select(args, &rules, &service, &endpoints);
    let mut text = format!("service {service}\nmethod {}\n", args.method);
    show(&mut text, &selection, &endpoints);
    Ok((text, !selection.is_empty()))
}

fn rules(args: &ExplainArgs) -> Result<RuleSet, String> {
    let tags = args.tags.as_deref().map(|file| read(file, TagRule::parse)).transpose()?;
    let conditions: Result<_, _> =
        args.conditions.iter().map(|file| read(file, ConditionRule::parse)).collect();
    Ok(RuleSet { tags, conditions: conditions? })
}

fn read<T>(file: &Path, parse: fn(&str, &str) -> Result<T, RuleError>) -> Result<T, String> {
    let name = file.display().to_string();
    let text = std::fs::read_to_string(file).map_err(|error| format!("{name}: {error}"))?;
    parse(&name, &text).map_err(|error| format!("{name}: {error}"))
}

fn select(
    args: &ExplainArgs,
    rules: &RuleSet,
    service: &ServiceKey,
    endpoints: &[Endpoint],
) -> Selection {
    let mut params: BTreeMap<String, String> = args.consumer.iter().cloned().collect();
    let ServiceKey { interface, version, group } = service;
    for (name, value) in
        [("interface", &**interface), ("version", version), ("group", group), ("side", "consumer")]
    {
        if !value.is_empty() {
            params.entry(name.to_owned()).or_insert_with(|| value.to_owned());
        }
    }
    let attachment = |name: &str| {
        let mut all = args.attachments.iter().rev();
        all.find(|(key, _)| key == name).map(|(_, value)| Cow::Borrowed(value.as_str()))
    };
    let argument = |index: usize| args.arguments.get(index).map(|text| text.as_str().into());
    let call = CallView {
        consumer: UrlView {
            protocol: "consumer",
            host: &args.host,
            port: 0,
            path: interface,
            params: &params,
        },
        method: &args.method,
        attachment: &attachment,
        argument: &argument,
    };
    let views: Vec<UrlView<'_>> = endpoints
        .iter()
        .map(|endpoint| UrlView {
            protocol: endpoint.protocol.scheme(),
            host: &endpoint.host,
            port: endpoint.port,
            path: endpoint.params.get("path").map_or(interface, String::as_str),
            params: &endpoint.params,
        })
        .collect();
    rules.select(&call, &views, &mut rand::rng())
}

fn show(text: &mut String, selection: &Selection, endpoints: &[Endpoint]) {
    if !selection.steps.is_empty() {
        text.push_str("\nrules\n");
    }
    for step in &selection.steps {
        let _ = writeln!(text, "  {step}");
    }
    text.push_str("\nendpoints\n");
    if endpoints.is_empty() {
        text.push_str("  none: nobody offers the service\n");
    }
    for (index, endpoint) in endpoints.iter().enumerate() {
        let address = endpoint.key();
        let _ = match selection.removal(index) {
            None => writeln!(text, "  {address}  left"),
            Some(removal) => writeln!(text, "  {address}  removed by {removal}"),
        };
    }
}
