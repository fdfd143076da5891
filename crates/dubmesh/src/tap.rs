//! `dubmesh tap`: calls of a running agent, as they end.

use std::num::{NonZeroU32, NonZeroU64};
use std::time::{Duration, Instant};

use agent::inspect::snapshot::{AppSnapshot, ServiceSnapshot};
use agent::journal::JournalLine;
use agent::terminal::escaped;
use clap::Args;
use dubbo_proto::ServiceKey;
use registry::is_similar;
use serde::Deserialize;

use crate::Exit;
use crate::admin_pages;
use crate::duration::duration;
use crate::from_one::from_one;
use crate::output::{self, OutputReader};
use crate::service_location::plain_address;

/// What stands below the options in `--help`.
pub(crate) const HELP: &str = "\
A line for each call that ends: when it came, by what, from where, the service
and method, how it ended, how long it took, where it was answered, and the bytes
of request and reply. Ctrl-C ends it. It slows no call down: if calls come
faster than they are read here, some are left out, and a line says how many.

Arguments are shown only if the agent allows it (tap_arguments of [admin]).

Examples:
  dubmesh tap                              all, of the agent at 127.0.0.1:9700
  dubmesh tap com.acme.Orders/find --admin 10.0.0.5:9700
  dubmesh tap 'com.acme.*' --failed        those that fail
  dubmesh tap com.acme.Orders --slower-than 500ms --json
  dubmesh tap --sample 1000 --count 20     one in 1,000, and end after 20

Exit status:
  0  as many calls were shown as --count says
  1  the agent cannot be read
  2  the arguments are wrong";

/// An agent is asked at most so often.
const PAUSE: Duration = Duration::from_secs(1);

/// The arguments of `dubmesh tap`.
#[derive(Args, Debug)]
pub(crate) struct TapArgs {
    /// The service, a key or an interface, with or without a method; a trailing
    /// * stands for any ending
    #[arg(value_name = "SERVICE[/METHOD]")]
    what: Option<String>,
    /// Where the agent's admin listener is: HOST:PORT, or unix: and a path
    #[arg(
        long,
        value_name = "ADDRESS",
        value_parser = plain_address,
        default_value = "127.0.0.1:9700"
    )]
    admin: String,
    /// Only calls that fail
    #[arg(long)]
    failed: bool,
    /// Only calls that take at least so long
    #[arg(long, value_name = "TIME", value_parser = duration)]
    slower_than: Option<Duration>,
    /// Only one in so many of them
    #[arg(long, value_name = "N", value_parser = from_one::<NonZeroU32>)]
    sample: Option<NonZeroU32>,
    /// Their arguments, too
    #[arg(long)]
    arguments: bool,
    /// End after so many
    #[arg(long, value_name = "N", value_parser = from_one::<NonZeroU64>)]
    count: Option<NonZeroU64>,
    /// A JSON object a line
    #[arg(long)]
    json: bool,
}

/// A line that an agent sends.
#[derive(Deserialize)]
#[serde(untagged)]
enum TapLine {
    Call(Box<JournalLine>),
    Lost { lost: u64 },
}

/// Shows calls as they end.
pub(crate) fn tap(args: &TapArgs) -> Exit {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let done = runtime
        .map_err(|error| format!("cannot start an event loop: {error}"))
        .and_then(|runtime| runtime.block_on(show_while_read(args)));
    match done {
        Ok(()) => Exit::Ok,
        Err(message) => {
            output::say(format_args!("dubmesh tap: {message}"));
            Exit::Failure
        }
    }
}

/// Calls may not come for long, and nobody may be there to see them.
async fn show_while_read(args: &TapArgs) -> Result<(), String> {
    let shown = async {
        if let Some(what) = &args.what {
            say_if_unknown(args, split(what).0).await;
        }
        show(args).await
    };
    tokio::select! {
        done = shown => done,
        () = output::reader_gone() => Ok(()),
    }
}

/// Says that nobody has called a service by this agent, so that a misspelt name does not wait for
/// ever. What keeps us from knowing is said by the page with the calls, if it matters there.
async fn say_if_unknown(args: &TapArgs, service: &str) {
    if service.contains('*') {
        return;
    }
    let (called, apps) = tokio::join!(
        admin_pages::listed::<ServiceSnapshot>(&args.admin, "services"),
        admin_pages::listed::<AppSnapshot>(&args.admin, "apps"),
    );
    let (Ok(called), Ok(apps)) = (called, apps) else { return };
    let is_whole = !called.truncated && !apps.truncated;
    let exported = apps.items.iter().flat_map(|app| &app.services);
    let keys: Vec<&String> = called.items.iter().map(|it| &it.service).chain(exported).collect();
    if let (true, Some(unknown)) = (is_whole, unknown(service, &keys)) {
        output::say(format_args!("dubmesh tap: {unknown}"));
    }
}

/// What to say of a service, a key or an interface, that is none of `keys`.
fn unknown(service: &str, keys: &[&String]) -> Option<String> {
    let interface =
        |key: &str| key.parse().map_or_else(|_| key.into(), |it: ServiceKey| it.interface);
    if keys.iter().any(|key| **key == service || interface(key) == service) {
        return None;
    }
    let wanted = interface(service);
    let similar = keys.iter().find(|key| {
        let other = interface(key);
        other == wanted || is_similar(&wanted, &other)
    });
    let meant = similar.map_or(String::new(), |key| format!("; did you mean {key}?"));
    Some(format!("no call of {service} has come to this agent yet; waiting for the first{meant}"))
}

/// An agent ends each look after a while; then it is asked again.
async fn show(args: &TapArgs) -> Result<(), String> {
    let (path, mut n_shown) = (path(args), 0);
    loop {
        // What an agent begins with.
        let (mut has_begun, mut done) = (false, None);
        let asked_at = Instant::now();
        let line = |line: &[u8]| {
            has_begun = true;
            done = print(args, &path, line, &mut n_shown).transpose();
            done.is_some()
        };
        admin_pages::lines(&args.admin, &path, line).await?;
        if let Some(done) = done {
            return done;
        }
        if !has_begun {
            return Err(format!("{}{path} is not a page of a dubmesh agent", args.admin));
        }
        // Whoever ends it at once is not asked all the time.
        tokio::time::sleep(PAUSE.saturating_sub(asked_at.elapsed())).await;
    }
}

/// Prints a line; `Some` if that is enough.
fn print(args: &TapArgs, path: &str, line: &[u8], n_shown: &mut u64) -> Result<Option<()>, String> {
    // An empty line, with which an agent begins.
    if line.is_empty() {
        return Ok(None);
    }
    let text = match serde_json::from_slice(line) {
        // An older agent escapes nothing.
        Ok(TapLine::Call(_)) if args.json => escaped(&String::from_utf8_lossy(line)).into_owned(),
        Ok(TapLine::Call(call)) => call.to_text(),
        Ok(TapLine::Lost { lost }) => {
            let calls = doctor::counted(lost, "call was", "calls were");
            output::say(format_args!("dubmesh tap: {calls} left out: they came too fast"));
            return Ok(None);
        }
        Err(error) => {
            return Err(format!(
                "{}{path}: a line is not of a dubmesh agent of this version: {error}",
                args.admin
            ));
        }
    };
    *n_shown += 1;
    let reader = output::write((text + "\n").as_bytes())?;
    let is_enough =
        reader == OutputReader::Gone || args.count.is_some_and(|count| count.get() <= *n_shown);
    Ok(is_enough.then_some(()))
}

/// The page with these calls.
fn path(args: &TapArgs) -> String {
    let mut query = form_urlencoded::Serializer::new(String::new());
    if let Some(what) = &args.what {
        let (service, method) = split(what);
        query.append_pair("service", service);
        if let Some(method) = method {
            query.append_pair("method", method);
        }
    }
    if args.failed {
        query.append_pair("failed", "true");
    }
    if let Some(time) = args.slower_than {
        query.append_pair("slower_ms", &time.as_millis().to_string());
    }
    if let Some(sample) = args.sample {
        query.append_pair("sample", &sample.to_string());
    }
    if args.arguments {
        query.append_pair("arguments", "true");
    }
    format!("/tap?{}", query.finish())
}

/// Service and method of `group/interface:version/method`, where all but the interface may be
/// missing. What stands before the only `/` is a group if no dot is in it, as every interface of a
/// package has one.
fn split(what: &str) -> (&str, Option<&str>) {
    match what.rsplit_once('/') {
        Some(("", method)) => ("*", Some(method).filter(|it| !it.is_empty())),
        Some((service, "")) => (service, None),
        Some((service, method)) if service.contains(['.', '/', '*']) => (service, Some(method)),
        _ => (what, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_that_nobody_calls_is_told() {
        let keys = ["com.acme.Orders", "blue/com.acme.Users:1.0"].map(str::to_owned);
        let keys: Vec<&String> = keys.iter().collect();
        for known in ["com.acme.Orders", "com.acme.Users", "blue/com.acme.Users:1.0"] {
            assert_eq!(unknown(known, &keys), None);
        }
        for (service, meant) in [
            ("com.acme.orders", "waiting for the first; did you mean com.acme.Orders?"),
            ("com.acme.Users:2.0", "waiting for the first; did you mean blue/com.acme.Users:1.0?"),
            ("com.acme.Carts", "waiting for the first"),
        ] {
            let told = unknown(service, &keys).unwrap();
            assert!(told.starts_with(&format!("no call of {service} has come")), "{told}");
            assert!(told.ends_with(meant), "{told}");
        }
    }

    #[test]
    fn a_service_may_have_a_group_and_a_method() {
        for (what, expected) in [
            ("com.acme.Echo", ("com.acme.Echo", None)),
            ("com.acme.Echo/echo", ("com.acme.Echo", Some("echo"))),
            ("gray/com.acme.Echo", ("gray/com.acme.Echo", None)),
            ("gray/com.acme.Echo:1.0/echo", ("gray/com.acme.Echo:1.0", Some("echo"))),
            ("com.acme.*", ("com.acme.*", None)),
            ("*/echo", ("*", Some("echo"))),
            // Where one of both is empty, any is meant.
            ("/echo", ("*", Some("echo"))),
            ("com.acme.Echo/", ("com.acme.Echo", None)),
            ("gray/com.acme.Echo/", ("gray/com.acme.Echo", None)),
            ("/", ("*", None)),
        ] {
            assert_eq!(split(what), expected, "{what}");
        }
    }
}
