//! What a server answers.

use serde::Deserialize;

use crate::instance::{MAX_NAMES, ServiceInfo};
use crate::key::ConfigKey;
use crate::payload::{BadPayload, Payload};

/// The result of what went well. Source: `ResponseCode`.
const SUCCESS: i64 = 200;

/// There is no such document. Source: `ConfigQueryResponse.CONFIG_NOT_FOUND`.
const NOT_FOUND: i64 = 300;

/// The connection is not known to the server. Source: `NacosException.UN_REGISTER`.
const UNREGISTERED: i64 = 301;

/// The user may not do this. Source: `NacosException.NO_RIGHT`.
const NO_RIGHT: i64 = 403;

/// As much of a server's words as is kept, in characters.
const MAX_SAID_LEN: usize = 300;

/// Why a server did not do what it was asked for.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{message} (code {code})")]
pub struct Refusal {
    /// `errorCode`, or `resultCode` if there is none.
    pub code: i64,
    /// What the server says.
    pub message: String,
}

impl Refusal {
    /// Whether the connection is not, or not yet, known to the server.
    #[must_use]
    pub fn is_unregistered(&self) -> bool {
        self.code == UNREGISTERED
    }

    /// Whether who asks is not known, or may not ask this.
    #[must_use]
    pub fn is_forbidden(&self) -> bool {
        self.code == NO_RIGHT || self.code == 401
    }
}

/// An answer whose result was read.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer(Payload);

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ResultHead {
    result_code: Option<i64>,
    error_code: Option<i64>,
    success: Option<bool>,
    message: Option<String>,
}

impl ResultHead {
    fn is_good(&self) -> bool {
        self.success.unwrap_or(true) && self.result_code.is_none_or(|code| code == SUCCESS)
    }

    fn refusal(self) -> Refusal {
        let code = self.error_code.filter(|code| *code != 0).or(self.result_code);
        let said = self.message.filter(|said| !said.is_empty());
        let said = said.unwrap_or_else(|| "refused without giving a reason".to_owned());
        let message = said.chars().take(MAX_SAID_LEN).collect();
        Refusal { code: code.unwrap_or_default(), message }
    }
}

/// What a server says of itself when a connection begins.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "camelCase", default)]
pub struct Handshake {
    /// The number of the connection.
    pub connection_id: Option<String>,
    /// The server will say on the stream when the connection can be used.
    pub support_ability_negotiation: bool,
}

/// One page of the names of services.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct ServiceNames {
    /// How many services there are in all pages.
    pub n_all: usize,
    /// Those of this page, without their group.
    pub names: Vec<String>,
}

/// A document.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ConfigAnswer {
    /// Its text.
    pub content: String,
    /// The MD5 of the text, as the server has it.
    pub md5: String,
    /// When it was written, in milliseconds since 1970.
    pub last_modified: i64,
}

impl Answer {
    /// Takes an answer.
    ///
    /// # Errors
    /// The outer one if it cannot be read, the inner one if the server has refused.
    pub fn read(payload: Payload) -> Result<Result<Self, Refusal>, BadPayload> {
        let head: ResultHead = payload.read()?;
        Ok(match head.is_good() && payload.kind() != "ErrorResponse" {
            true => Ok(Self(payload)),
            false => Err(head.refusal()),
        })
    }

    /// The answer to [`Ask::ServerCheck`](crate::Ask::ServerCheck).
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn handshake(&self) -> Result<Handshake, BadPayload> {
        self.0.read()
    }

    /// The list in the answer to a subscription or a query. `None` if it has none.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn service_info(&self) -> Result<Option<ServiceInfo>, BadPayload> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct ServiceResponseJson {
            #[serde(default)]
            service_info: Option<ServiceInfo>,
        }
        Ok(self.0.read::<ServiceResponseJson>()?.service_info)
    }

    /// A page of names. Names with a group in front lose it.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn service_names(&self) -> Result<ServiceNames, BadPayload> {
        #[derive(Default, Deserialize)]
        #[serde(rename_all = "camelCase", default)]
        struct ServiceListJson {
            count: Option<u64>,
            service_names: Option<Vec<String>>,
        }
        let ServiceListJson { count, service_names } = self.0.read()?;
        let names = service_names.unwrap_or_default().into_iter().take(MAX_NAMES);
        let bare = |name: String| match name.split_once("@@") {
            Some((_, name)) => name.to_owned(),
            None => name,
        };
        let n_all = usize::try_from(count.unwrap_or_default()).unwrap_or(usize::MAX);
        Ok(ServiceNames { n_all, names: names.map(bare).collect() })
    }

    /// The document in the answer to a query.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn document(&self) -> Result<ConfigAnswer, BadPayload> {
        #[derive(Default, Deserialize)]
        #[serde(rename_all = "camelCase", default)]
        struct ConfigQueryJson {
            content: Option<String>,
            md5: Option<String>,
            last_modified: Option<i64>,
        }
        let ConfigQueryJson { content, md5, last_modified } = self.0.read()?;
        let content = content.unwrap_or_default();
        let md5 = md5.unwrap_or_else(|| crate::md5(&content));
        Ok(ConfigAnswer { content, md5, last_modified: last_modified.unwrap_or_default() })
    }

    /// The documents, of those listened to, that differ from what we said of them.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn changed(&self) -> Result<Vec<ConfigKey>, BadPayload> {
        #[derive(Default, Deserialize)]
        #[serde(rename_all = "camelCase", default)]
        struct ChangedConfigsJson {
            changed_configs: Option<Vec<Key>>,
        }
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Key {
            group: String,
            data_id: String,
        }
        let changed = self.0.read::<ChangedConfigsJson>()?.changed_configs.unwrap_or_default();
        let key = |Key { group, data_id }| ConfigKey { group, data_id };
        Ok(changed.into_iter().take(MAX_NAMES).map(key).collect())
    }
}

impl Refusal {
    /// Whether there is no such document.
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        self.code == NOT_FOUND
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    fn answer(kind: &str, text: &str) -> Result<Result<Answer, Refusal>, BadPayload> {
        Answer::read(Payload::raw(kind, HashMap::new(), text.into()))
    }

    #[test]
    fn the_result_is_read_before_anything_else() {
        let text = r#"{"resultCode":500,"errorCode":403,"message":"no","success":false}"#;
        let refusal = answer("SubscribeServiceResponse", text).unwrap().unwrap_err();
        assert!(refusal.is_forbidden());
        assert_eq!(refusal.to_string(), "no (code 403)");
        let refusal = answer("ErrorResponse", r#"{"errorCode":301}"#).unwrap().unwrap_err();
        assert!(refusal.is_unregistered());
        let text = r#"{"resultCode":500,"errorCode":300,"success":false,"message":"none"}"#;
        assert!(answer("ConfigQueryResponse", text).unwrap().unwrap_err().is_not_found());
        assert!(answer("X", "[").is_err());
    }

    #[test]
    fn reads_each_answer() {
        let good = |text| answer("X", text).unwrap().unwrap();
        let handshake =
            good(r#"{"resultCode":200,"connectionId":"17_1","supportAbilityNegotiation":true}"#);
        assert!(handshake.handshake().unwrap().support_ability_negotiation);
        let names = good(r#"{"success":true,"count":9,"serviceNames":["G@@a","b"]}"#);
        assert_eq!(
            names.service_names().unwrap(),
            ServiceNames { n_all: 9, names: vec!["a".into(), "b".into()] }
        );
        assert_eq!(good("{}").service_info().unwrap(), None);
        let document = good(r#"{"content":"x","lastModified":3}"#).document().unwrap();
        assert_eq!((document.md5, document.last_modified), (crate::md5("x"), 3));
        let changed = good(r#"{"changedConfigs":[{"group":"g","dataId":"d","tenant":""}]}"#);
        assert_eq!(
            changed.changed().unwrap(),
            [ConfigKey { group: "g".into(), data_id: "d".into() }]
        );
    }
}
