//! Asks providers of Dubbo 2.x to list the methods of a service, by telnet on their Dubbo port.

use std::time::Duration;

use dubbo_proto::ServiceDefinition;
use dubbo_proto::definition::PROMPT;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::timeout;

use crate::endpoint::{Endpoint, Protocol, Snapshot};

/// How many providers are asked. All of a service say the same, as a rule.
const MAX_ASKED: usize = 2;
/// The longest answer: some thousand methods.
const MAX_ANSWER_LEN: usize = 512 << 10;
/// The longest wait for a whole answer, with connecting.
const PATIENCE: Duration = Duration::from_secs(2);

/// Nobody has told.
pub(super) struct NotTold;

/// What a provider has told.
pub(super) struct TelnetAnswer {
    pub(super) service: ServiceDefinition,
    /// Who told it.
    pub(super) address: String,
    /// The length of the answer, in bytes.
    pub(super) len: usize,
}

/// Asks one provider after the other.
pub(super) async fn ask(snapshot: &Snapshot, interface: &str) -> Result<TelnetAnswer, NotTold> {
    for endpoint in snapshot.endpoints.iter().filter(|known| may_list(known)).take(MAX_ASKED) {
        let address = endpoint.address();
        let told = match timeout(PATIENCE, ask_one(endpoint, interface)).await {
            Ok(Ok(answer)) => match ServiceDefinition::from_telnet(interface, &answer) {
                Ok(service) => return Ok(TelnetAnswer { service, address, len: answer.len() }),
                Err(error) => error.to_string(),
            },
            Ok(Err(error)) => error.to_string(),
            Err(_) => format!("no answer within {PATIENCE:?}"),
        };
        tracing::debug!(endpoint = address, interface, "no list of methods: {told}");
    }
    Err(NotTold)
}

/// Dubbo 3 has no such command.
fn may_list(endpoint: &Endpoint) -> bool {
    let release = endpoint.params.get("release");
    endpoint.protocol == Protocol::Dubbo && !release.is_some_and(|text| text.starts_with('3'))
}

async fn ask_one(endpoint: &Endpoint, interface: &str) -> std::io::Result<String> {
    if let Some(path) = wire::address::unix_path(&endpoint.host) {
        let stream = wire::Destination::Unix(path.into()).connect("dubbo", PATIENCE).await?;
        return ask_over(stream, interface).await;
    }
    let stream = wire::socket::connect(&endpoint.host, endpoint.port, PATIENCE).await?;
    ask_over(stream, interface).await
}

async fn ask_over(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    interface: &str,
) -> std::io::Result<String> {
    stream.write_all(format!("ls -l {interface}\r\n").as_bytes()).await?;
    let mut answer = Vec::new();
    while !answer.ends_with(PROMPT.as_bytes()) && answer.len() < MAX_ANSWER_LEN {
        if stream.read_buf(&mut answer).await? == 0 {
            break;
        }
    }
    Ok(String::from_utf8_lossy(&answer).into_owned())
}
