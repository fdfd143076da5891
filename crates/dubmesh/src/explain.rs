//! `dubmesh explain`: which endpoints Dubbo's routing rules leave for a call, and why.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use agent::inspect::snapshot::{DestinationSnapshot, ExplainedEndpoint, ExplanationSnapshot, Page};
use clap::Args;
use dubbo_proto::ServiceKey;
use flow::rules::{CallView, Chances, Clause, ConditionRule, RuleError, RuleSet, TagRule, UrlView};
use parameters::Parameters;
use registry::Endpoint;

use crate::Exit;
use crate::admin_pages;
use crate::output;
use crate::service_location::{LocationArgs, VariantArgs, plain_address};

/// Draws of weighted destinations that are gone through.
const MAX_DRAWS: usize = 256;
/// As good as a hundred percent, but for the last digits of a sum.
const NEARLY_ALL: f64 = 99.99;
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
  dubmesh explain com.acme.Orders find --admin 127.0.0.1:9700
      what a running agent would do with such a call: its rules, and which
      endpoints are down, ejected, warming up or full

Exit status:
  0  at least one endpoint is left
  1  the registry or the agent could not be reached
  2  the arguments or a rule are wrong
  3  no endpoint is left, nobody offers the service, or the agent has not
     called it yet";

/// The arguments of `dubmesh explain`.
#[derive(Args, Debug)]
#[command(override_usage = "dubmesh explain --admin ADDRESS [OPTIONS] INTERFACE METHOD\n       \
                      dubmesh explain <--url URL|--registry URL> [OPTIONS] INTERFACE METHOD")]
pub(crate) struct ExplainArgs {
    /// The Java interface
    interface: String,
    /// The method
    method: String,
    /// The admin listener of a running agent that calls the service: HOST:PORT,
    /// or unix: and a path
    #[arg(
        long,
        value_name = "ADDRESS",
        value_parser = plain_address,
        group = "LocationArgs",
        conflicts_with_all = AGENT_KNOWS
    )]
    admin: Option<String>,
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
    /// A header of the call, with --admin: splits may look at it
    #[arg(long = "header", value_name = "NAME=VALUE", value_parser = pair)]
    headers: Vec<(String, String)>,
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

/// What a running agent has by itself.
const AGENT_KNOWS: [&str; 4] = ["tags", "conditions", "consumer", "host"];

/// Why there is no answer.
enum ExplainError {
    Usage(String),
    Registry(String),
    Agent(String),
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
            output::say(format_args!("dubmesh explain: cannot start an event loop: {error}"));
            return Exit::Failure;
        }
    };
    match explained {
        Ok((text, is_any_left)) => {
            let exit = if is_any_left { Exit::Ok } else { Exit::Refused };
            output::print("explain", &text, exit)
        }
        Err(ExplainError::Usage(message)) => {
            output::say(format_args!("dubmesh explain: {message}"));
            Exit::Usage
        }
        Err(ExplainError::Agent(message)) => {
            output::say(format_args!("dubmesh explain: {message}"));
            Exit::Failure
        }
        Err(ExplainError::Registry(message)) => {
            output::say(format_args!("dubmesh explain: {message}; {}", args.place.remedy()));
            Exit::Failure
        }
    }
}

async fn look(args: &ExplainArgs) -> Result<(String, bool), ExplainError> {
    if let Some(admin) = &args.admin {
        return ask(args, admin).await;
    }
    // clap's `requires` counts for nothing beside an argument that excludes --admin.
    if !args.headers.is_empty() {
        let text = "--header works only with --admin: rules look at attachments, and not at \
                    headers; use --attachment NAME=VALUE";
        return Err(ExplainError::Usage(text.to_owned()));
    }
    let usage = |error: &dyn std::fmt::Display| ExplainError::Usage(error.to_string());
    let rules = rules(args).map_err(ExplainError::Usage)?;
    let variant = VariantArgs::of(args.service_version.clone(), args.group.clone());
    let service = args.place.service(&args.interface, &variant).map_err(|error| usage(&error))?;
    let place = args.place.open(&service, &variant, None).map_err(|error| usage(&error))?;
    let subscription = place.registry.subscribe(&service);
    if let Some(trouble) = place.first_list(&subscription, LOOKUP_TIMEOUT).await {
        return Err(ExplainError::Registry(trouble));
    }
    let endpoints = subscription.current().endpoints;
    let chances = chances(args, &rules, &service, &endpoints);
    let mut text = format!("service {service}\nmethod {}\n", args.method);
    show(&mut text, &chances, &endpoints);
    let is_any_left = chances.all().iter().any(|chance| !chance.selection.is_empty());
    Ok((text, is_any_left))
}

/// What a running agent would do.
async fn ask(args: &ExplainArgs, admin: &str) -> Result<(String, bool), ExplainError> {
    let mut query = form_urlencoded::Serializer::new(String::new());
    let variant = VariantArgs::of(args.service_version.clone(), args.group.clone());
    let key = args.place.service(&args.interface, &variant);
    let service = key.map_err(|error| ExplainError::Usage(error.to_string()))?.to_string();
    query.append_pair("service", &service).append_pair("method", &args.method);
    for (name, value) in &args.attachments {
        query.append_pair("attachment", &format!("{name}={value}"));
    }
    for (name, value) in &args.headers {
        query.append_pair("header", &format!("{name}={value}"));
    }
    for argument in &args.arguments {
        query.append_pair("argument", argument);
    }
    let page = format!("/explain?{}", query.finish());
    let page: Page<ExplanationSnapshot> =
        admin_pages::page(admin, &page).await.map_err(ExplainError::Agent)?;
    let mut text = String::new();
    if page.items.is_empty() {
        let _ = write!(text, "service {service}\nmethod {}\n", args.method);
        text.push_str("\nthe agent has not called it lately\n");
    }
    for (index, explained) in page.items.iter().enumerate() {
        if index != 0 {
            text.push('\n');
        }
        show_agent(&mut text, explained);
    }
    let gets_calls = |one: &ExplainedEndpoint| 0.0 < one.share_percent;
    let is_left = |it: &&ExplanationSnapshot| it.endpoints.values().any(gets_calls);
    // An interface alone stands for all of its versions, unless it is a service itself.
    let has_own = page.items.iter().any(|it| it.service == service);
    let mut asked = page.items.iter().filter(|it| !has_own || it.service == service);
    Ok((text, asked.any(|it| is_left(&it))))
}

fn show_agent(text: &mut String, explained: &ExplanationSnapshot) {
    let ExplanationSnapshot { registry, balance, rules, unreadable, endpoints, .. } = explained;
    let ExplanationSnapshot { service, method, .. } = explained;
    let _ = writeln!(text, "service {service}\nmethod {method}");
    let _ = writeln!(text, "registry {registry}\nbalance {balance}");
    if !rules.is_empty() || !unreadable.is_empty() {
        text.push_str("\nrules\n");
    }
    for step in rules {
        let _ = writeln!(text, "  {}: {}", step.rule, step.why);
        for DestinationSnapshot { to, share_percent, is_drawn } in &step.destinations {
            show_destination(text, to, *share_percent, *is_drawn);
        }
    }
    for rule in unreadable {
        let _ = writeln!(text, "  cannot be read: {rule}");
    }
    if !explained.method_policy.is_empty() {
        text.push_str("\nmethod\n");
    }
    for words in &explained.method_policy {
        let _ = writeln!(text, "  {words}");
    }
    text.push_str("\nendpoints\n");
    if endpoints.is_empty() {
        text.push_str("  none: nobody offers the service\n");
    }
    for (address, endpoint) in endpoints {
        let ExplainedEndpoint { removed_by, listed_by, standing, why, share_percent, .. } =
            endpoint;
        let ExplainedEndpoint { configured, allowed_percent, .. } = endpoint;
        let _ = match removed_by {
            Some(rule) => write!(text, "  {address}  removed by {rule}"),
            None => write!(text, "  {address}  {share_percent:.0}%"),
        };
        if let Some(registry) = listed_by {
            let _ = write!(text, "  of {registry}");
        }
        for (state, _) in standing.iter().filter(|(state, _)| *state != "ready") {
            let _ = write!(text, "; {state}");
        }
        if removed_by.is_none() && *allowed_percent < NEARLY_ALL {
            let _ = write!(text, "; rules leave it for {allowed_percent:.0}% of such calls");
        }
        for reason in why.iter().chain(configured) {
            let _ = write!(text, "; {reason}");
        }
        text.push('\n');
    }
}

fn show_destination(text: &mut String, to: &str, share_percent: f64, is_drawn: bool) {
    let to = if to.is_empty() { "all endpoints" } else { to };
    let _ = write!(text, "    {share_percent:.0}% of these calls: {to}");
    text.push_str(match is_drawn {
        true => " (drawn for this answer)\n",
        false if share_percent == 0.0 => " (no endpoint is left there)\n",
        false => "\n",
    });
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

fn chances(
    args: &ExplainArgs,
    rules: &RuleSet,
    service: &ServiceKey,
    endpoints: &[Endpoint],
) -> Chances {
    let ServiceKey { interface, version, group } = service;
    let own =
        [("interface", &**interface), ("version", version), ("group", group), ("side", "consumer")];
    let own = own.into_iter().filter(|(_, value)| !value.is_empty());
    let told = args.consumer.iter().map(|(name, value)| (&**name, &**value));
    let params: Parameters = own.chain(told).collect();
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
            is_down: false,
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
            path: endpoint.params.get("path").unwrap_or(interface),
            params: &endpoint.params,
            is_down: false,
        })
        .collect();
    rules.chances(&call, &views, MAX_DRAWS)
}

fn show(text: &mut String, chances: &Chances, endpoints: &[Endpoint]) {
    let drawn = chances.draw(&mut rand::rng());
    let steps = drawn.map(|drawn| &*drawn.selection.steps).unwrap_or_default();
    if !steps.is_empty() {
        text.push_str("\nrules\n");
    }
    for step in steps {
        let _ = writeln!(text, "  {step}");
        let Clause::Destination { condition, .. } = step.clause else { continue };
        let mut draws = drawn.into_iter().flat_map(|drawn| &drawn.draws);
        let draw = draws.find(|draw| draw.rule == step.rule && draw.condition == condition);
        for (index, one) in draw.into_iter().flat_map(|draw| draw.destinations.iter().enumerate()) {
            let is_drawn = draw.and_then(|draw| draw.drawn) == Some(index);
            show_destination(text, &one.to, one.percent, is_drawn);
        }
    }
    text.push_str("\nendpoints\n");
    if endpoints.is_empty() {
        text.push_str("  none: nobody offers the service\n");
    }
    for (index, endpoint) in endpoints.iter().enumerate() {
        let address = endpoint.key();
        let percent = chances.kept_percent(index);
        let _ = match chances.removal(index) {
            None if percent < NEARLY_ALL => {
                writeln!(text, "  {address}  left for {percent:.0}% of such calls")
            }
            None => writeln!(text, "  {address}  left"),
            Some(removal) => writeln!(text, "  {address}  removed by {removal}"),
        };
    }
}
