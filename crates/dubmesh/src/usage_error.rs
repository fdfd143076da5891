//! What clap says of wrong arguments, without the secrets that stand in them.
//!
//! clap repeats an argument that it refuses. A URL may hold a password, and what a command prints
//! goes into logs of jobs, and into tickets.

use std::borrow::Cow;
use std::env;
use std::io::{self, Write};

use clap::error::{ContextKind, ContextValue};
use dubbo_proto::is_secret_parameter;

use crate::{Exit, output};

/// What clap shows in the place of a value that is an address, perhaps without its `scheme://`.
const ADDRESSES: [&str; 4] = ["<URL>", "<ADDRESS>", "<HOST:PORT>", "<ADDR>"];

/// Prints the error, or the help that was asked for, and gives the exit status that clap has for
/// it.
pub(crate) fn show(error: &clap::Error) -> Exit {
    if !error.use_stderr() {
        let printed = error.print().and_then(|()| io::stdout().flush());
        return match output::outcome(printed) {
            Ok(_) => Exit::Ok,
            Err(message) => {
                output::say(format_args!("dubmesh: {message}"));
                Exit::Failure
            }
        };
    }
    let arguments: Vec<String> =
        env::args_os().map(|argument| argument.to_string_lossy().into_owned()).collect();
    let said = error.render().to_string();
    let shown = without_secrets(&said, secrets(error, &arguments));
    if shown == said {
        // With the colours of a terminal. That nobody reads it changes nothing.
        let _ = error.print();
    } else {
        output::say(shown.trim_end());
    }
    Exit::Usage
}

/// A part of an argument that holds a secret, and what is shown in its place.
#[derive(Debug)]
struct Hidden {
    part: String,
    shown: String,
}

fn secrets(error: &clap::Error, arguments: &[String]) -> Vec<Hidden> {
    let mut hidden: Vec<Hidden> =
        arguments.iter().flat_map(|argument| url_secrets(argument)).collect();
    let is_address = |arg: &str| ADDRESSES.iter().any(|name| arg.contains(name));
    if let Some(ContextValue::String(arg)) = error.get(ContextKind::InvalidArg)
        && let Some(ContextValue::String(value)) = error.get(ContextKind::InvalidValue)
        && is_address(arg)
        && let Some((user, _)) = value.rsplit_once('@')
        && !user.is_empty()
        && !value.contains("://")
    {
        hidden.push(Hidden { part: format!("{user}@"), shown: "***@".to_owned() });
    }
    hidden
}

/// What stands before the `@` of a URL, and its parameters that are secrets by their names.
fn url_secrets(argument: &str) -> Vec<Hidden> {
    let Some((_, rest)) = argument.split_once("://") else { return Vec::new() };
    let mut hidden = Vec::new();
    if let Some((user, _)) = rest.rsplit_once('@') {
        hidden.push(Hidden { part: format!("://{user}@"), shown: "://***@".to_owned() });
    }
    let query = rest.split_once('?').map_or("", |(_, query)| query);
    let parameters = query.split('&').filter_map(|parameter| parameter.split_once('='));
    let secrets = parameters.filter(|(name, value)| is_secret_parameter(name) && !value.is_empty());
    hidden.extend(secrets.map(|(name, value)| Hidden {
        part: format!("{name}={value}"),
        shown: format!("{name}=***"),
    }));
    hidden
}

fn without_secrets(said: &str, hidden: Vec<Hidden>) -> String {
    let hide = |text: Cow<'_, str>, Hidden { part, shown }: Hidden| {
        Cow::<str>::Owned(text.replace(&part, &shown))
    };
    hidden.into_iter().fold(Cow::Borrowed(said), hide).into_owned()
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::cli::Cli;

    fn said(arguments: &[&str]) -> String {
        let error = Cli::try_parse_from(arguments).unwrap_err();
        let arguments: Vec<String> = arguments.iter().map(|it| (*it).to_owned()).collect();
        without_secrets(&error.render().to_string(), secrets(&error, &arguments))
    }

    #[test]
    fn a_refused_argument_is_shown_without_its_secret() {
        let list = ["dubmesh", "list", "--registry"];
        for (url, shown) in [
            ("zookeeper://u:s3cret@h:1", "'zookeeper://***@h:1' for '--registry <URL>'"),
            ("zookeeper://u:s3/cr?e@cret@h:1", "'zookeeper://***@h:1' for '--registry <URL>'"),
            ("zookeeper://u:s3,cret@h:1", "'zookeeper://***@h:1' for '--registry <URL>'"),
            ("u:s3cret@h:1", "'***@h:1' for '--registry <URL>'"),
            ("etcd://h:1?password=s3cret", "'etcd://h:1?password=***' for '--registry <URL>'"),
            ("nacos://h:1?access_token=s3cret&x=1", "?access_token=***&x=1'"),
            ("nacos://u:s3cret@h:1?secret_key=s3cret", "'nacos://***@h:1?secret_key=***'"),
        ] {
            let said = said(&[&list[..], &[url]].concat());
            assert!(said.contains(shown), "{said}");
            assert!(!said.contains("s3") && !said.contains("cret@"), "{said}");
        }
        for arguments in [
            &["dubmesh", "list", "zookeeper://u:s3cret@h:1"][..],
            &["dubmesh", "list", "--regstry=zookeeper://u:s3cret@h:1"],
            &["dubmesh", "zookeeper://u:s3cret@h:1"],
            &["dubmesh", "call", "a.B", "c", "--url", "http://u:s3cret@h:1"],
            &["dubmesh", "call", "a.B", "c", "--url=dubbo://u:s3cret@h:port"],
            &["dubmesh", "transfer", "fetch", "a:1", "zookeeper://u:s3cret@h:1", "more"],
        ] {
            let said = said(arguments);
            assert!(!said.contains("s3cret"), "{said}");
        }
    }

    #[test]
    fn other_arguments_are_shown_as_they_are() {
        for (arguments, shown) in [
            (&["--json", "longs=txt@id"], "'longs=txt@id' for '--json <OPTIONS>'"),
            (&["--url", "http://h:1?password_file=x"], "'http://h:1?password_file=x'"),
            (&["--timeout-ms", "@x"], "'@x' for"),
        ] {
            let said = said(&[&["dubmesh", "call", "a.B", "c"], &arguments[..]].concat());
            assert!(said.contains(shown), "{said}");
        }
    }
}
