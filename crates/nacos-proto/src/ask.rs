//! What a client asks.

use std::collections::HashMap;

use serde_json::{Value, json};

use crate::auth::Resource;
use crate::instance::Instance;
use crate::key::{ConfigKey, ServiceName};
use crate::payload::Payload;

/// The namespace of services that nobody gave another one. To a server it is a name like others:
/// what is registered without one is not in it.
const PUBLIC: &str = "public";

/// What a connection is for. A server keeps instances and subscriptions of connections for naming,
/// and no others.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Module {
    /// Services and their instances.
    Naming,
    /// Documents.
    Config,
}

impl Module {
    /// As the label `module` of a connection has it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Naming => "naming",
            Self::Config => "config",
        }
    }
}

/// A document that is listened to.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Listened {
    /// Which.
    pub key: ConfigKey,
    /// The MD5 of what is known of it; empty if it is not there.
    pub md5: String,
}

/// A question of a client.
#[derive(Clone, Debug, PartialEq)]
pub enum Ask {
    /// What server this is, and the number of the connection.
    ServerCheck,
    /// The first message on the stream: who we are.
    Setup(Module),
    /// Whether the connection is still good.
    HealthCheck,
    /// This connection has this one instance of a service.
    Register(ServiceName, Box<Instance>),
    /// This connection has these instances of a service, and no others.
    RegisterAll(ServiceName, Vec<Instance>),
    /// This connection has no instance of a service any more.
    Deregister(ServiceName, Box<Instance>),
    /// Instances of a service, now and whenever they change.
    Subscribe(ServiceName),
    /// No more news of a service.
    Unsubscribe(ServiceName),
    /// Instances of a service, once.
    Query(ServiceName),
    /// One page, from 1, of the names of services in a group.
    List {
        /// The group.
        group: String,
        /// Counted from 1.
        page: u32,
        /// Names in each page.
        page_len: u32,
    },
    /// Tell whenever these documents differ from what is known of them.
    Listen(Vec<Listened>),
    /// No more news of a document.
    Unlisten(ConfigKey),
    /// A document, once.
    Document(ConfigKey),
    /// Write a document.
    Publish {
        /// Which.
        key: ConfigKey,
        /// Its new text.
        content: String,
        /// Only if this is the MD5 of the text that it has: `0` if there must be none.
        cas_md5: String,
    },
}

impl Ask {
    /// What is asked for, in words, for errors.
    #[must_use]
    pub fn words(&self) -> &'static str {
        match self {
            Self::ServerCheck => "asking what server it is",
            Self::Setup(_) => "setting the connection up",
            Self::HealthCheck => "asking whether it is alive",
            Self::Register(..) | Self::RegisterAll(..) => "registering",
            Self::Deregister(..) => "withdrawing",
            Self::Subscribe(_) => "subscribing to",
            Self::Unsubscribe(_) => "unsubscribing from",
            Self::Query(_) => "reading",
            Self::List { .. } => "listing services",
            Self::Listen(_) => "listening to",
            Self::Unlisten(_) => "no longer listening to",
            Self::Document(_) => "reading",
            Self::Publish { .. } => "writing",
        }
    }

    /// What it is about, for errors; empty if it is about the server.
    #[must_use]
    pub fn subject(&self) -> String {
        match self.resource(String::new()) {
            Resource::None => String::new(),
            Resource::Service(name) => format!("{}@@{}", name.group, name.name),
            Resource::Document { group, .. } => match self {
                Self::Listen(listened) => format!("{} documents", listened.len()),
                Self::Unlisten(key) | Self::Document(key) | Self::Publish { key, .. } => {
                    format!("{}/{}", key.group, key.data_id)
                }
                _ => group,
            },
        }
    }

    /// What the signature of an access key has to cover.
    #[must_use]
    pub fn resource(&self, namespace: String) -> Resource {
        let document = |group: &str| Resource::Document { namespace, group: group.to_owned() };
        match self {
            Self::ServerCheck | Self::Setup(_) | Self::HealthCheck => Resource::None,
            Self::Register(name, _)
            | Self::RegisterAll(name, _)
            | Self::Deregister(name, _)
            | Self::Subscribe(name)
            | Self::Unsubscribe(name)
            | Self::Query(name) => Resource::Service(name.clone()),
            Self::List { group, .. } => {
                Resource::Service(ServiceName { group: group.clone(), name: String::new() })
            }
            Self::Document(key) | Self::Publish { key, .. } => document(&key.group),
            // As Java's client does: `ClientWorker.resourceBuild` names neither of the two.
            Self::Listen(_) | Self::Unlisten(_) => {
                Resource::Document { namespace: String::new(), group: String::new() }
            }
        }
    }

    /// The message. `namespace` is empty for the one that is called `public`. Services have to
    /// name it, and documents must not. Source: `InitUtils.initNamespaceForNaming`,
    /// `ParamUtil.parseNamespace`.
    #[must_use]
    pub fn payload(
        &self,
        namespace: &str,
        request_id: u64,
        headers: HashMap<String, String>,
    ) -> Payload {
        let (kind, mut body) = self.body(namespace);
        if let Value::Object(body) = &mut body {
            body.insert("requestId".to_owned(), Value::String(request_id.to_string()));
            let module = match self {
                Self::ServerCheck | Self::Setup(_) | Self::HealthCheck => "internal",
                Self::Listen(_) | Self::Unlisten(_) | Self::Document(_) | Self::Publish { .. } => {
                    Module::Config.name()
                }
                _ => Module::Naming.name(),
            };
            body.insert("module".to_owned(), Value::String(module.to_owned()));
        }
        Payload::new(kind, headers, &body)
    }

    fn body(&self, namespace: &str) -> (&'static str, Value) {
        let of_service = |service: &ServiceName| {
            json!({
                "namespace": if namespace.is_empty() { PUBLIC } else { namespace },
                "serviceName": service.name,
                "groupName": service.group,
            })
        };
        let of_document = |key: &ConfigKey| json!({"tenant": namespace, "group": key.group, "dataId": key.data_id});
        let listen = |is_wanted: bool, listened: &[Listened]| {
            let contexts: Vec<_> = listened
                .iter()
                .map(|it| with(of_document(&it.key), json!({"md5": it.md5})))
                .collect();
            json!({"listen": is_wanted, "configListenContexts": contexts})
        };
        match self {
            Self::ServerCheck => ("ServerCheckRequest", json!({})),
            Self::HealthCheck => ("HealthCheckRequest", json!({})),
            Self::Setup(module) => ("ConnectionSetupRequest", setup(*module, namespace)),
            Self::Register(service, instance) => {
                let more = json!({"type": "registerInstance", "instance": instance});
                ("InstanceRequest", with(of_service(service), more))
            }
            Self::Deregister(service, instance) => {
                let more = json!({"type": "deregisterInstance", "instance": instance});
                ("InstanceRequest", with(of_service(service), more))
            }
            Self::RegisterAll(service, instances) => {
                let more = json!({"type": "batchRegisterInstance", "instances": instances});
                ("BatchInstanceRequest", with(of_service(service), more))
            }
            Self::Subscribe(service) => {
                let more = json!({"subscribe": true, "clusters": ""});
                ("SubscribeServiceRequest", with(of_service(service), more))
            }
            Self::Unsubscribe(service) => {
                let more = json!({"subscribe": false, "clusters": ""});
                ("SubscribeServiceRequest", with(of_service(service), more))
            }
            Self::Query(service) => {
                let more = json!({"cluster": "", "healthyOnly": false, "udpPort": 0});
                ("ServiceQueryRequest", with(of_service(service), more))
            }
            Self::List { group, page, page_len } => {
                let service = ServiceName { group: group.clone(), name: String::new() };
                let more = json!({"pageNo": page, "pageSize": page_len, "selector": ""});
                ("ServiceListRequest", with(of_service(&service), more))
            }
            Self::Listen(listened) => ("ConfigBatchListenRequest", listen(true, listened)),
            Self::Unlisten(key) => {
                let listened = Listened { key: key.clone(), md5: String::new() };
                ("ConfigBatchListenRequest", listen(false, &[listened]))
            }
            Self::Document(key) => ("ConfigQueryRequest", of_document(key)),
            Self::Publish { key, content, cas_md5 } => {
                let more = json!({"content": content, "casMd5": cas_md5, "additionMap": {}});
                ("ConfigPublishRequest", with(of_document(key), more))
            }
        }
    }
}

fn setup(module: Module, namespace: &str) -> Value {
    json!({
        // Servers look at the number to learn what a client can do: batches came with 2.1.
        "clientVersion": concat!("Nacos-Rust-Client:v2.5.1+dubmesh-", env!("CARGO_PKG_VERSION")),
        "tenant": namespace,
        "labels": {"source": "sdk", "module": module.name(), "AppName": "dubmesh"},
        "abilityTable": {},
    })
}

/// Adds the members of an object to another one.
fn with(mut object: Value, more: Value) -> Value {
    if let (Value::Object(object), Value::Object(more)) = (&mut object, more) {
        object.extend(more);
    }
    object
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(ask: &Ask) -> (String, Value) {
        let payload = ask.payload("ns", 7, HashMap::new());
        (payload.kind().to_owned(), payload.read().unwrap())
    }

    #[test]
    fn each_question_has_the_names_that_javas_classes_have() {
        let service = ServiceName { group: "G".into(), name: "s".into() };
        let instance = Box::new(Instance::new("10.0.0.1", 1));
        let (kind, register) = body(&Ask::Register(service.clone(), instance));
        assert_eq!(kind, "InstanceRequest");
        assert_eq!(register["type"], "registerInstance");
        assert_eq!((&register["namespace"], &register["requestId"]), (&json!("ns"), &json!("7")));
        assert_eq!(register["instance"]["ip"], "10.0.0.1");
        let (kind, subscribe) = body(&Ask::Subscribe(service));
        assert_eq!(kind, "SubscribeServiceRequest");
        assert_eq!((&subscribe["groupName"], &subscribe["subscribe"]), (&json!("G"), &json!(true)));
        let key = ConfigKey { group: "mapping".into(), data_id: "a.B".into() };
        let (kind, listen) = body(&Ask::Listen(vec![Listened { key, md5: "x".into() }]));
        assert_eq!(kind, "ConfigBatchListenRequest");
        let context = json!({"tenant": "ns", "group": "mapping", "dataId": "a.B", "md5": "x"});
        assert_eq!(listen["configListenContexts"], json!([context]));
        let key = ConfigKey { group: "mapping".into(), data_id: "a.B".into() };
        let nothing = Resource::Document { namespace: String::new(), group: String::new() };
        assert_eq!(Ask::Unlisten(key.clone()).resource("ns".into()), nothing);
        let one = Resource::Document { namespace: "ns".into(), group: "mapping".into() };
        assert_eq!(Ask::Document(key).resource("ns".into()), one);
        let public = |ask: Ask| ask.payload("", 7, HashMap::new()).read::<Value>().unwrap();
        let service = ServiceName { group: "G".into(), name: "s".into() };
        assert_eq!(public(Ask::Query(service))["namespace"], "public");
        let key = ConfigKey { group: "mapping".into(), data_id: "a.B".into() };
        assert_eq!(public(Ask::Document(key))["tenant"], "");
        let (kind, setup) = body(&Ask::Setup(Module::Naming));
        assert_eq!(kind, "ConnectionSetupRequest");
        assert_eq!(
            (&setup["labels"]["module"], &setup["module"]),
            (&json!("naming"), &json!("internal"))
        );
    }
}
