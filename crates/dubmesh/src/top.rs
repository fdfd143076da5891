//! `dubmesh top`: services, endpoints and connections of a running agent, live.

mod sample;
mod screen;
mod table;

use std::io::{self, IsTerminal as _};
use std::time::Duration;

use clap::Args;
use ratatui::crossterm::terminal;

use self::sample::{AgentFigures, Sample};
use self::table::{Shown, SortOrder, View};
use crate::Exit;
use crate::duration::duration;
use crate::output;
use crate::service_location::plain_address;

/// What stands below the options in `--help`.
pub(crate) const HELP: &str = "\
A line for each endpoint: calls and errors a second, their mean latency
(avg), the latency of half and of 99% of all calls so far, calls in flight, how
many it may have, and why it is ejected, down or held. Other views show services
and connections.

Keys: Tab or 1 2 3 the next view, s the next column to sort by, r the other way
round, / only lines with a text, arrows to scroll, Space to stop, q or Esc to
quit.

Examples:
  dubmesh top                              the agent at 127.0.0.1:9700
  dubmesh top --admin 10.0.0.5:9700 --filter com.acme.Orders
  dubmesh top --once                       one look, as text
  dubmesh top --once --view connections --sort in/s --json

Exit status:
  0  done
  1  the agent cannot be read
  2  the arguments are wrong";

/// The width of a terminal that does not tell it.
const USUAL_WIDTH: usize = 80;

/// The arguments of `dubmesh top`.
#[derive(Args, Debug)]
pub(crate) struct TopArgs {
    /// Where the agent's admin listener is: HOST:PORT, or unix: and a path
    #[arg(
        long,
        value_name = "ADDRESS",
        value_parser = plain_address,
        default_value = "127.0.0.1:9700"
    )]
    admin: String,
    /// How often to look
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = duration)]
    every: Duration,
    /// What to show
    #[arg(long, value_enum, default_value_t = View::Endpoints)]
    view: View,
    /// The column to sort by; rate by default, and for connections in/s
    #[arg(long, value_name = "COLUMN")]
    sort: Option<String>,
    /// Show only lines with this text
    #[arg(long, value_name = "TEXT", default_value = "")]
    filter: String,
    /// Look for the time of --every, print what was seen, and end
    #[arg(long)]
    once: bool,
    /// Print JSON; only with --once
    #[arg(long, requires = "once")]
    json: bool,
}

/// Shows what an agent does.
pub(crate) fn top(args: &TopArgs) -> Exit {
    let order = match &args.sort {
        None => SortOrder::of(args.view),
        Some(name) => match SortOrder::by(args.view, name) {
            Some(order) => order,
            None => {
                let names = args.view.columns().map(|column| column.name).collect::<Vec<_>>();
                output::say(format_args!(
                    "dubmesh top: no column {name:?}; write one of {}",
                    names.join(", ")
                ));
                return Exit::Usage;
            }
        },
    };
    let shown = Shown { view: args.view, order, filter: args.filter.clone() };
    let is_terminal = io::stdout().is_terminal() && io::stdin().is_terminal();
    let is_dumb = std::env::var_os("TERM").is_none_or(|term| term.is_empty() || term == "dumb");
    if is_terminal && is_dumb && !args.once {
        output::say(format_args!(
            "dubmesh top: TERM does not support drawing; printing once, as with --once"
        ));
    }
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(1).enable_all().build();
    let done = runtime.map_err(|error| format!("cannot start an event loop: {error}")).and_then(
        |runtime| match args.once || !is_terminal || is_dumb {
            true => runtime.block_on(once(args, &shown)),
            false => screen::run(&runtime, &args.admin, args.every, shown),
        },
    );
    match done {
        Ok(()) => Exit::Ok,
        Err(message) => {
            output::say(format_args!("dubmesh top: {message}"));
            Exit::Failure
        }
    }
}

async fn once(args: &TopArgs, shown: &Shown) -> Result<(), String> {
    let before = Sample::take(&args.admin).await?;
    tokio::time::sleep(args.every).await;
    let figures = Sample::take(&args.admin).await?.since(&before);
    let text = match args.json {
        true => serde_json::to_string_pretty(&json(&figures, shown)).unwrap_or_default() + "\n",
        false => table::text(&figures, shown, width()),
    };
    output::write(text.as_bytes()).map(drop)
}

/// How many cells of a terminal a line may take; `None` if the output is no terminal.
fn width() -> Option<usize> {
    io::stdout().is_terminal().then(|| match terminal::size() {
        Ok((columns @ 1.., _)) => usize::from(columns),
        _ => USUAL_WIDTH,
    })
}

/// The view that is shown, with the agent and the totals.
fn json(figures: &AgentFigures, shown: &Shown) -> serde_json::Value {
    let columns = shown.view.columns().map(|column| column.name);
    let columns: Vec<&str> = columns.collect();
    let items = table::lines(figures, shown).into_iter().map(|line| {
        let cells = columns.iter().zip(line.cells).map(|(name, cell)| {
            ((*name).to_owned(), serde_json::to_value(cell.value).unwrap_or_default())
        });
        serde_json::Value::Object(cells.collect())
    });
    serde_json::json!({
        "agent": figures.agent,
        "seconds": figures.seconds,
        "calls_per_s": figures.rate,
        "errors_per_s": figures.errors,
        "errors_without_endpoint_per_s": figures.errors_without_endpoint,
        "in_flight": figures.in_flight,
        "unread": {
            "services": figures.missing.services,
            "endpoints": figures.missing.endpoints,
            "connections": figures.missing.connections,
        },
        "silent_workers": figures.missing.workers,
        "view": shown.view.name(),
        "items": items.collect::<Vec<_>>(),
    })
}
