//! `dubmesh list`: all that is registered, and by whom.

use std::fmt::Write as _;

use clap::{ArgGroup, Args};
use registry::{Catalogue, Level, ListedEndpoint, ListedService, Registry, Unasked};
use serde_json::{Value, json};

use crate::Exit;
use crate::output;
use crate::registry_url::RegistryUrl;
use crate::service_location::plain_address;

mod running;

/// What stands below the options in `--help`.
pub(crate) const HELP: &str = "\
Each endpoint is shown as it is registered, with its weight, and with what tells
who has registered it: the application and the release of a Dubbo provider, or
the app that an agent stands for, and at which level. With --admin, a running
agent tells what it has found of the services that it calls.

Examples:
  dubmesh list --registry zookeeper://127.0.0.1:2181
  dubmesh list Orders --registry etcd://127.0.0.1:2379 --json
  dubmesh list --registry 'nacos://127.0.0.1:8848?namespace=ID'
  dubmesh list --registry file:services.toml
  dubmesh list Orders --admin 127.0.0.1:9700

Exit status:
  0  the list was read; it may be empty
  1  the registry, or the agent, could not be read
  2  the arguments are wrong";

/// The arguments of `dubmesh list`.
#[derive(Args, Debug)]
#[command(group(ArgGroup::new("place").required(true)))]
pub(crate) struct ListArgs {
    /// Only interfaces whose name contains this text, in capital or small letters
    text: Option<String>,
    /// The registry: etcd://HOST:PORT[?layout=contest],
    /// zookeeper://HOST:PORT[/CHROOT], nacos://HOST:PORT[?namespace=ID],
    /// kubernetes://HOST:PORT[/NAMESPACE], or file:PATH
    #[arg(long, value_name = "URL", group = "place", alias = "url")]
    registry: Option<RegistryUrl>,
    /// A running agent instead: its admin listener, HOST:PORT or unix: and a path
    #[arg(long, value_name = "ADDRESS", value_parser = plain_address, group = "place")]
    admin: Option<String>,
    /// Print JSON, for programs
    #[arg(long)]
    json: bool,
}

/// Prints all that is registered.
pub(crate) fn list(args: &ListArgs) -> Exit {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let read = match runtime {
        Ok(runtime) => runtime.block_on(read(args)),
        Err(error) => Err(format!("cannot start an event loop: {error}")),
    };
    let PrintedList { text, is_empty, place, unasked } = match read {
        Ok(listed) => listed,
        Err(message) => {
            output::say(format_args!("dubmesh list: {message}"));
            return Exit::Failure;
        }
    };
    if is_empty {
        let wanted = args.text.as_ref().map_or(String::new(), |text| format!(" like {text:?}"));
        output::say(format_args!("dubmesh list: nothing{wanted} {place}"));
    }
    if let Some((first, others)) = unasked.split_first() {
        let others = match others.len() {
            0 => String::new(),
            n => format!(" ({n} others have not, either)"),
        };
        let Unasked { application, reason } = first;
        output::say(format_args!(
            "dubmesh list: application {application} has not said which interfaces it offers, and \
             they may be missing: {reason}{others}"
        ));
    }
    output::print("list", &text, Exit::Ok)
}

/// What is printed.
struct PrintedList {
    text: String,
    is_empty: bool,
    /// Where it would be, for the message that it is not.
    place: String,
    /// Who has not said what it offers.
    unasked: Vec<Unasked>,
}

async fn read(args: &ListArgs) -> Result<PrintedList, String> {
    let text = args.text.as_ref().map(|text| text.to_lowercase());
    let is_wanted =
        |name: &str| text.as_ref().is_none_or(|text| name.to_lowercase().contains(text));
    let mut unasked = Vec::new();
    let (shown, texts, place): (Vec<_>, Vec<_>, _) = match (&args.registry, &args.admin) {
        (Some(url), _) => {
            let listed = registered(url, is_wanted)
                .await
                .map_err(|message| format!("{}: {message}; {}", url.text, url.remedy()))?;
            unasked = listed.unasked;
            let shown = listed.services.iter().map(|it| (json_of(it), text_of(it)));
            let (shown, texts) = shown.unzip();
            (shown, texts, format!("is registered in {}", url.text))
        }
        (None, Some(admin)) => {
            let services = running::services(admin, is_wanted).await?;
            let shown = services.iter().map(|it| (it.to_json(), it.to_text()));
            let (shown, texts) = shown.unzip();
            (shown, texts, format!("is called through the agent at {admin}"))
        }
        (None, None) => return Err("write --registry URL or --admin ADDRESS".to_owned()),
    };
    let text = match args.json {
        true => {
            let names: Vec<_> = unasked.iter().map(|it| &it.application).collect();
            format!("{:#}\n", json!({ "services": shown, "unaskedApplications": names }))
        }
        false => texts.concat(),
    };
    Ok(PrintedList { text, is_empty: shown.is_empty(), place, unasked })
}

async fn registered(
    url: &RegistryUrl,
    is_wanted: impl Fn(&str) -> bool,
) -> Result<Catalogue, String> {
    let registry = Registry::open(url.config.clone()).map_err(|error| error.to_string())?;
    registry.catalogue(is_wanted).await.map_err(|error| error.to_string())
}

fn text_of(listed: &ListedService) -> String {
    let mut out = format!("{}\n", listed.service);
    for listed in &listed.endpoints {
        let _ = write!(out, "  {}", listed.endpoint.key());
        for (name, value) in facts(listed) {
            let _ = write!(out, "  {name} {value}");
        }
        out.push('\n');
    }
    for unused in &listed.unused {
        let _ = writeln!(out, "  not used: {unused}");
    }
    out
}

/// What tells endpoints apart, and who has registered them.
fn facts(listed: &ListedEndpoint) -> Vec<(&'static str, String)> {
    let ListedEndpoint { endpoint, stands_for, levels } = listed;
    let param = |name: &str| endpoint.params.get(name).map(str::to_owned);
    let facts = [
        ("weight", Some(endpoint.weight.to_string())),
        ("level", Some(joined(levels))),
        ("application", param("application")),
        ("dubbo", param("release").filter(|release| !release.is_empty())),
        ("agent-of", stands_for.clone()),
    ];
    facts.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
}

/// `interface`, `application` or `interface+application`.
fn joined(levels: &[Level]) -> String {
    levels.iter().map(Level::to_string).collect::<Vec<_>>().join("+")
}

fn json_of(listed: &ListedService) -> Value {
    let endpoint = |listed: &ListedEndpoint| {
        let ListedEndpoint { endpoint, stands_for, levels } = listed;
        let param = |name: &str| endpoint.params.get(name);
        json!({
            "protocol": endpoint.protocol.scheme(),
            "address": endpoint.address(),
            "weight": endpoint.weight,
            "application": param("application"),
            "release": param("release"),
            "agentOf": stands_for,
            "isAgent": stands_for.is_some() || endpoint.protocol.is_of_agents(),
            "level": joined(levels),
            "parameters": endpoint.params,
        })
    };
    json!({
        "service": listed.service.to_string(),
        "interface": listed.service.interface,
        "group": listed.service.group,
        "version": listed.service.version,
        "endpoints": listed.endpoints.iter().map(endpoint).collect::<Vec<_>>(),
        "unused": listed.unused.iter().map(ToString::to_string).collect::<Vec<_>>(),
    })
}
