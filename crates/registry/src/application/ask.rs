//! Asks an instance for its metadata, by Dubbo TCP: `MetadataService.getMetadataInfo(revision)`.
//!
//! Instances of Dubbo 3.3 may have a second such service, by Triple. It is not asked: the first
//! one is there, too, unless the instance speaks nothing but Triple.

use std::time::{Duration, Instant};

use bytes::BytesMut;
use dubbo_proto::application::{
    Instance, MAX_METADATA_LEN, METADATA_METHOD, METADATA_SERVICE, METADATA_SERVICE_VERSION,
    MetadataAddress,
};
use dubbo_proto::{
    ClientConfig, ClientConnection, ClientEvent, DubboUrl, ReadOptions, Reply, ReplyKind,
    RequestHead, RequestTemplate, Serialization, Status,
};
use java_json::JsonOptions;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

/// The longest wait for a whole answer, with connecting. Dubbo's own consumers have 5 s.
const PATIENCE: Duration = Duration::from_secs(3);

/// What it says, as JSON.
pub(super) async fn ask(instance: &Instance, revision: &str) -> Result<Vec<u8>, String> {
    let address = instance.metadata_address().map_err(|error| error.to_string())?;
    if address.protocol != "dubbo" {
        return Err(format!(
            "its MetadataService speaks {}, and only dubbo is supported; set \
             dubbo.application.metadata-service-protocol to dubbo, or use a metadata report",
            address.protocol
        ));
    }
    match timeout(PATIENCE, ask_by_dubbo(instance, &address, revision)).await {
        Ok(told) => told,
        Err(_) => Err(format!("no answer of its MetadataService within {PATIENCE:?}")),
    }
}

async fn ask_by_dubbo(
    instance: &Instance,
    address: &MetadataAddress,
    revision: &str,
) -> Result<Vec<u8>, String> {
    let (template, args) = request(instance, address, revision)?;
    let stream = wire::socket::connect(&instance.host, address.port, PATIENCE).await;
    let mut stream = stream.map_err(|error| {
        let address = wire::address::join(&instance.host, address.port);
        format!("cannot connect to its MetadataService at {address}: {error}")
    })?;
    let config = ClientConfig { max_body_len: MAX_METADATA_LEN, ..ClientConfig::default() };
    let now = Instant::now();
    let mut connection = ClientConnection::new(config, now);
    let sent = connection.send(now, &template, &args, &[], now + PATIENCE, ());
    sent.map_err(|((), error)| error.to_string())?;
    let mut input = BytesMut::new();
    loop {
        let out = connection.transmit().split();
        stream.write_all(&out).await.map_err(|error| error.to_string())?;
        while let Some(event) = connection.poll_event() {
            match event {
                ClientEvent::Reply { status, serialization, body, .. } => {
                    return read(serialization, status, &body);
                }
                ClientEvent::TooLong { len, max, .. } => {
                    return Err(format!("{len} bytes are over the limit of {max}"));
                }
                ClientEvent::Dead(reason) => return Err(reason.to_string()),
                _ => {}
            }
        }
        match stream.read_buf(&mut input).await {
            Ok(0) => return Err("its MetadataService hung up".to_owned()),
            Ok(_) => {}
            Err(error) => return Err(error.to_string()),
        }
        let handled = connection.handle_bytes(Instant::now(), &mut input);
        handled.map_err(|error| error.to_string())?;
    }
}

fn request(
    instance: &Instance,
    address: &MetadataAddress,
    revision: &str,
) -> Result<(RequestTemplate, Vec<u8>), String> {
    // What it reads, it says as in any URL of a provider.
    let url = DubboUrl { params: address.params.clone(), ..DubboUrl::default() };
    let readable = url.serializations().into_iter().find(|it| it.values().is_some());
    let serialization = readable.unwrap_or(Serialization::DEFAULT);
    let version = url.param("version").unwrap_or(METADATA_SERVICE_VERSION);
    let head = RequestHead {
        path: METADATA_SERVICE,
        version,
        method: METADATA_METHOD,
        descriptor: "Ljava/lang/String;",
    };
    let timeout = PATIENCE.as_millis().to_string();
    let attachments = [
        ("path", METADATA_SERVICE),
        ("interface", METADATA_SERVICE),
        ("version", version),
        ("group", &instance.application),
        ("timeout", &timeout),
    ];
    let template = RequestTemplate::new(serialization, &head, &attachments);
    let mut args = Vec::new();
    if let Some(values) = serialization.values() {
        values.write_string(revision, &mut args);
    }
    Ok((template.map_err(|error| error.to_string())?, args))
}

fn read(serialization: Serialization, status: Status, body: &[u8]) -> Result<Vec<u8>, String> {
    let reply = Reply::decode(serialization, status, body).map_err(|error| error.to_string())?;
    let outcome = match reply {
        Reply::Failed { status, text } => {
            let line = text.lines().next().unwrap_or_default();
            return Err(format!("its MetadataService answered {status:?}: {line}"));
        }
        Reply::Done(outcome) => outcome,
    };
    let json = JsonOptions { max_out_len: MAX_METADATA_LEN, ..JsonOptions::default() };
    let mut text = Vec::new();
    match outcome.kind() {
        ReplyKind::Null => Err("it does not know this revision".to_owned()),
        kind => {
            let written =
                outcome.write_json(None, ReadOptions { json: &json, schema: None }, &mut text);
            written.map_err(|error| format!("its answer cannot be read: {error}"))?;
            match kind {
                ReplyKind::Value => Ok(text),
                _ => Err("its MetadataService threw an exception".to_owned()),
            }
        }
    }
}
