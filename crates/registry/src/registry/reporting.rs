//! Writes what a service of ours looks like into Dubbo's metadata report, as Dubbo's providers do
//! that have one: then callers elsewhere need no types for it, and tools can show its methods.
//!
//! Known is what the folder of definitions has of the service. It is read again from time to time.
//! As Dubbo leaves it, a document stays when its service goes.

use std::sync::Arc;
use std::time::Duration;

use dubbo_proto::application::is_application;
use dubbo_proto::{ServiceDefinition, ServiceKey};
use serde_json::{Map, Value};
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use wire::jitter;

use crate::definitions::{DocumentFolder, own_documents};
use crate::endpoint::Registration;
use crate::layout::Placed;
use crate::store::{Applications, Withdraw};

/// How old a document becomes before the folder is read again.
const MAX_AGE: Duration = Duration::from_secs(60);

/// The report of one service, until this is dropped.
pub(super) struct DefinitionReport {
    _task: JoinSet<()>,
}

/// A document that is kept.
struct Reported {
    placed: Placed,
    withdraw: Option<Withdraw>,
}

impl Drop for Reported {
    fn drop(&mut self) {
        if let Some(withdraw) = self.withdraw.take() {
            withdraw(oneshot::channel().0);
        }
    }
}

impl DefinitionReport {
    /// `None` if there is no folder, or the application has no name.
    pub(super) fn start(
        folder: Option<&DocumentFolder>,
        source: Arc<dyn Applications>,
        registration: &Registration,
        runtime: &Handle,
    ) -> Option<Self> {
        let folder = folder?.clone();
        let application = registration.endpoint.params.get("application");
        let application = application.filter(|name| is_application(name))?.to_owned();
        let service = registration.service.clone();
        let mut task = JoinSet::new();
        let report = async move {
            let mut reported: Option<Reported> = None;
            loop {
                let documents = own_documents(&folder, &service).await;
                let full = |text: &Vec<u8>| full_definition(text, &service, &application);
                let full = documents.iter().find_map(full);
                if let Some(text) = full {
                    let placed = source.place_definition(&service, &application, text.into());
                    if reported.as_ref().is_none_or(|it| it.placed != placed) {
                        // The old one first: both have one path.
                        drop(reported.take());
                        let (_, withdraw) = source.keep(placed.clone());
                        reported = Some(Reported { placed, withdraw: Some(withdraw) });
                    }
                }
                tokio::time::sleep(jitter(MAX_AGE)).await;
            }
        };
        task.spawn_on(report, runtime);
        Some(Self { _task: task })
    }
}

/// A document with parameters of the provider, as Dubbo's `FullServiceDefinition` has them, unless
/// it has its own. They are the same for each address at which the service is offered.
fn full_definition(text: &[u8], service: &ServiceKey, application: &str) -> Option<String> {
    ServiceDefinition::parse(text).ok()?;
    let mut document: Map<String, Value> = serde_json::from_slice(text).ok()?;
    document.entry("parameters").or_insert_with(|| {
        let ServiceKey { interface, version, group } = service;
        let params = [
            ("application", application),
            ("interface", interface),
            ("version", version),
            ("group", group),
            ("side", "provider"),
        ];
        let params = params.into_iter().filter(|(_, value)| !value.is_empty());
        Value::Object(params.map(|(name, value)| (name.to_owned(), value.into())).collect())
    });
    Some(Value::Object(document).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_gets_the_parameters_of_its_provider() {
        let service = ServiceKey::new("a.B", "1", "").unwrap();
        let full_definition = |text: &[u8]| full_definition(text, &service, "orders");
        let text = br#"{"canonicalName":"a.B","methods":[{"name":"m","parameterTypes":[],
            "returnType":"int"}],"types":[]}"#;
        let full = full_definition(text).unwrap();
        let read: Value = serde_json::from_str(&full).unwrap();
        assert_eq!(read["parameters"]["version"], "1");
        let definition = ServiceDefinition::parse(full.as_bytes()).unwrap();
        assert_eq!(definition.variant.unwrap().version, "1");
        // One that has its own keeps them, and what is none is not written.
        let own = full.replace("\"version\":\"1\"", "\"version\":\"2\"");
        assert_eq!(full_definition(own.as_bytes()).as_deref(), Some(&*own));
        assert_eq!(full_definition(b"[]"), None);
        let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
        assert_eq!(full_definition(deep.as_bytes()), None);
    }
}
