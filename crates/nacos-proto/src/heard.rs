//! What a server says by itself.

use std::collections::HashMap;

use serde::Deserialize;
use serde_json::json;

use crate::instance::ServiceInfo;
use crate::key::ConfigKey;
use crate::payload::{BadPayload, Payload};

/// A message that a server sent on the stream.
#[derive(Clone, Debug, PartialEq)]
pub struct Heard {
    /// What it says.
    pub kind: HeardKind,
    /// What must be sent back, if anything: a server repeats what nobody answers, and then gives
    /// the connection up.
    pub reply: Option<Payload>,
}

/// What a server said.
#[derive(Clone, Debug, PartialEq)]
pub enum HeardKind {
    /// The instances of a service that was subscribed to.
    Instances(ServiceInfo),
    /// A document has changed; its text has to be asked for.
    DocumentChanged(ConfigKey),
    /// The connection can be used.
    SetupDone,
    /// The server asks whether we are there.
    Detection,
    /// The server wants us to connect again, to another server if it names one.
    Reset {
        /// Host and port of HTTP.
        to: Option<(String, u16)>,
    },
    /// Something that this client does not know.
    Unknown(String),
}

impl Heard {
    /// Takes a message of the stream.
    ///
    /// # Errors
    /// If it cannot be read. There is nothing to send back then.
    pub fn read(payload: &Payload) -> Result<Self, BadPayload> {
        #[derive(Default, Deserialize)]
        #[serde(rename_all = "camelCase", default)]
        struct ServerRequestJson {
            request_id: Option<String>,
            service_info: Option<ServiceInfo>,
            group: Option<String>,
            data_id: Option<String>,
            server_ip: Option<String>,
            server_port: Option<Port>,
        }
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Port {
            Number(u16),
            Text(String),
        }
        let written: ServerRequestJson = payload.read()?;
        let kind = match payload.kind() {
            "NotifySubscriberRequest" => {
                HeardKind::Instances(written.service_info.unwrap_or_default())
            }
            "ConfigChangeNotifyRequest" => HeardKind::DocumentChanged(ConfigKey {
                group: written.group.unwrap_or_default(),
                data_id: written.data_id.unwrap_or_default(),
            }),
            "SetupAckRequest" => HeardKind::SetupDone,
            "ClientDetectionRequest" => HeardKind::Detection,
            "ConnectResetRequest" => {
                let port = written.server_port.and_then(|port| match port {
                    Port::Number(port) => Some(port),
                    Port::Text(text) => text.trim().parse().ok(),
                });
                let host = written.server_ip.filter(|host| !host.trim().is_empty());
                HeardKind::Reset { to: host.zip(port) }
            }
            other => HeardKind::Unknown(other.chars().take(100).collect()),
        };
        let name = payload.kind().strip_suffix("Request");
        let name = name.filter(|_| !matches!(kind, HeardKind::SetupDone | HeardKind::Unknown(_)));
        let reply = name.map(|name| {
            let body = json!({"resultCode": 200, "errorCode": 0, "success": true,
                "requestId": written.request_id.unwrap_or_default()});
            Payload::new(&format!("{name}Response"), HashMap::new(), &body)
        });
        Ok(Self { kind, reply })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heard(kind: &str, text: &str) -> Heard {
        Heard::read(&Payload::raw(kind, HashMap::new(), text.into())).unwrap()
    }

    #[test]
    fn a_push_is_answered_under_its_number() {
        let push = heard(
            "NotifySubscriberRequest",
            r#"{"requestId":"42","serviceInfo":{"name":"s","groupName":"g","hosts":[]}}"#,
        );
        assert!(matches!(push.kind, HeardKind::Instances(info) if info.name == "s"));
        let reply = push.reply.unwrap();
        assert_eq!(reply.kind(), "NotifySubscriberResponse");
        assert_eq!(reply.read::<serde_json::Value>().unwrap()["requestId"], "42");
    }

    #[test]
    fn the_end_of_the_setup_is_not_answered() {
        let done = heard("SetupAckRequest", r#"{"requestId":"1","abilityTable":{"x":true}}"#);
        assert_eq!(done, Heard { kind: HeardKind::SetupDone, reply: None });
    }

    #[test]
    fn a_reset_may_name_another_server() {
        let to = |text| match heard("ConnectResetRequest", text).kind {
            HeardKind::Reset { to } => to,
            other => panic!("{other:?}"),
        };
        let expected = Some(("h".to_owned(), 8848));
        assert_eq!(to(r#"{"serverIp":"h","serverPort":"8848"}"#), expected);
        assert_eq!(to(r#"{"serverIp":"h","serverPort":8848}"#), expected);
        assert_eq!(to(r#"{"serverIp":"","serverPort":""}"#), None);
        assert_eq!(to(r#"{"serverIp":null}"#), None);
    }

    #[test]
    fn what_is_new_to_us_is_not_answered() {
        let heard = heard("FutureRequest", "{}");
        assert_eq!((heard.kind, heard.reply), (HeardKind::Unknown("FutureRequest".into()), None));
    }
}
