//! The headers that show who asks.

use std::collections::HashMap;
use std::fmt;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use ring::hmac;

use crate::key::ServiceName;

/// A text that is not printed.
#[derive(Clone, Eq, PartialEq)]
pub struct Secret(pub String);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(hidden)")
    }
}

/// Who asks.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Credentials {
    /// The token of a user who has logged in.
    pub token: Option<Secret>,
    /// An access key and its secret, as clouds give them out.
    pub access_key: Option<(String, Secret)>,
}

/// What a signature covers.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Resource {
    /// Nothing needs one.
    None,
    /// A service.
    Service(ServiceName),
    /// Documents of a group.
    Document {
        /// Empty for the one that is called `public`.
        namespace: String,
        /// Empty for several groups.
        group: String,
    },
}

impl Credentials {
    /// The headers for a question about a resource. `now_ms` is the time since 1970 in
    /// milliseconds. Sources: `NamingResourceInjector`, `ConfigResourceInjector`, `SpasAdapter`.
    #[must_use]
    pub fn headers(&self, resource: &Resource, now_ms: u64) -> HashMap<String, String> {
        let mut headers = HashMap::new();
        let mut set = |name: &str, value: String| drop(headers.insert(name.to_owned(), value));
        if let Some(Secret(token)) = &self.token {
            set("accessToken", token.clone());
        }
        let Some((key, secret)) = &self.access_key else { return headers };
        match resource {
            Resource::None => {}
            Resource::Service(ServiceName { group, name }) => {
                let about = match (group.is_empty(), name.is_empty()) {
                    (_, true) => String::new(),
                    (true, false) => format!("@@{name}"),
                    (false, false) => format!("@@{group}@@{name}"),
                };
                let data = format!("{now_ms}{about}");
                set("signature", sign(&data, secret));
                set("data", data);
                set("ak", key.clone());
            }
            Resource::Document { namespace, group } => {
                let about = match (namespace.is_empty(), group.is_empty()) {
                    (true, true) => String::new(),
                    (true, false) => format!("{group}+"),
                    (false, true) => format!("{namespace}+"),
                    (false, false) => format!("{namespace}+{group}+"),
                };
                set("Spas-AccessKey", key.clone());
                set("Timestamp", now_ms.to_string());
                set("Spas-Signature", sign(&format!("{about}{now_ms}"), secret));
            }
        }
        headers
    }
}

/// Base64 of HMAC-SHA1, which is what the servers compare with.
fn sign(data: &str, Secret(secret): &Secret) -> String {
    let key = hmac::Key::new(hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, secret.as_bytes());
    BASE64_STANDARD.encode(hmac::sign(&key, data.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The expected text is that of RFC 2202, case 2, in base64.
    #[test]
    fn signs_as_the_standard_says() {
        let signature = sign("what do ya want for nothing?", &Secret("Jefe".into()));
        assert_eq!(signature, "7/zfauXrL6LSdBbV8YTfnCWafHk=");
    }

    #[test]
    fn each_module_has_its_own_headers() {
        let credentials = Credentials {
            token: Some(Secret("t".into())),
            access_key: Some(("ak".into(), Secret("sk".into()))),
        };
        let service = ServiceName { group: "G".into(), name: "s".into() };
        let headers = credentials.headers(&Resource::Service(service), 5);
        assert_eq!((headers["data"].as_str(), headers["ak"].as_str()), ("5@@G@@s", "ak"));
        assert_eq!(headers["accessToken"], "t");
        let document = Resource::Document { namespace: "ns".into(), group: "g".into() };
        let headers = credentials.headers(&document, 5);
        assert_eq!(headers["Spas-Signature"], sign("ns+g+5", &Secret("sk".into())));
        assert!(!format!("{credentials:?}").contains("sk"));
    }

    /// What `RamClientAuthServiceImpl` of nacos-client 2.5.1 gives for the same resources.
    #[test]
    fn signs_as_javas_client() {
        let credentials =
            Credentials { token: None, access_key: Some(("ak".into(), Secret("sk".into()))) };
        for (group, name, now, data, signature) in [
            ("G", "s", 1_795_788_766_621, "@@G@@s", "00gbP3FkcGmwrldt1L7CotBtK4Q="),
            ("", "s", 1_795_788_766_622, "@@s", "XGaBdkSl8iyVn1rJ4mG4bSVYVLI="),
        ] {
            let service = ServiceName { group: group.into(), name: name.into() };
            let headers = credentials.headers(&Resource::Service(service), now);
            let expected =
                [("ak", "ak"), ("data", &format!("{now}{data}")), ("signature", signature)];
            assert_eq!(headers, expected.map(|(name, value)| (name.into(), value.into())).into());
        }
        for (namespace, group, now, signature) in [
            ("ns", "g", 1_795_788_766_637, "fNPL3ILkDN0kWFwK/8oQuuWIPTY="),
            ("", "g", 1_795_788_766_642, "P9aaUGJWR/xFkc51x+htl51eXiU="),
            ("ns", "", 1_795_788_766_643, "3NOEz0oTqCq5COYpO1CygwPklH4="),
            ("", "", 1_795_788_766_644, "m9p3RVzobpHcKP47s9I5Ho9k5w0="),
        ] {
            let resource = Resource::Document { namespace: namespace.into(), group: group.into() };
            let headers = credentials.headers(&resource, now);
            let now = now.to_string();
            let expected =
                [("Spas-AccessKey", "ak"), ("Spas-Signature", signature), ("Timestamp", &now)];
            assert_eq!(headers, expected.map(|(name, value)| (name.into(), value.into())).into());
        }
    }
}
