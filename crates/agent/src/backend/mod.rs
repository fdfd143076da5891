//! The local apps behind exported services, whatever they speak.
//!
//! A Dubbo app gets the arguments of a call as they came, through its connection
//! ([`crate::upstream`]). An HTTP app ([`http`]) gets them as JSON, and what it answers becomes
//! the body of a Dubbo reply.

pub mod http;

use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

use dubbo_proto::{BodyLimits, Request, Serialization, ServiceKey};
use tokio::task::AbortHandle;

pub use self::http::HttpApp;
use crate::call::{Call, Encoded, Outcome, Whole};
use crate::config::{AppConfig, ClusterRules, ExportConfig};
use crate::error::{CallError, Code};
use crate::metrics::{CallStats, Hub};
use crate::upstream::{EndpointAddress, Lanes, Pool, Setup, Standing};

/// One exported service and the way to the app.
pub struct Backend {
    /// What is offered.
    pub service: ServiceKey,
    /// What counts its calls.
    pub stats: Arc<CallStats>,
    /// The app.
    pub app: App,
}

/// An app, by what it speaks.
pub enum App {
    /// A Dubbo provider.
    Dubbo(DubboApp),
    /// A program with an HTTP endpoint.
    Http(Rc<HttpApp>),
}

/// An app that is a Dubbo provider itself.
#[derive(Clone)]
pub struct DubboApp {
    /// What the app speaks.
    pub serialization: Serialization,
    /// The connections to it.
    pub upstream: Rc<Lanes>,
}

/// What a worker exports, by service key as text.
pub type Backends = HashMap<String, Rc<Backend>>;

/// A method as an HTTP app's callers name it.
#[derive(Clone, Copy, Debug)]
pub struct AppMethod<'a> {
    /// Its name, which may be `$invoke` or `$echo`.
    pub name: &'a str,
    /// JVM descriptors of its parameters; empty for none.
    pub descriptor: &'a str,
    /// Whether the caller understands attachments in its reply.
    pub takes_attachments: bool,
}

/// A call of an HTTP app. The serialization is also the reply's.
pub type AppCall<'a> = Call<'a, AppMethod<'a>, Encoded<'a>>;

impl Backend {
    /// The app of an export. Must be called on a worker's runtime.
    pub fn start(export: &ExportConfig, pool: &Pool, rules: &ClusterRules, hub: &Hub) -> Self {
        let policy = rules.policy(&export.service.interface);
        let setup = Setup::new(policy);
        let app = match &export.app {
            AppConfig::Dubbo { host, port, tls, serialization } => App::Dubbo(DubboApp {
                serialization: *serialization,
                upstream: pool
                    .dubbo(EndpointAddress { host, port: *port, tls: tls.as_ref() }, setup),
            }),
            AppConfig::Http(config) => {
                let worker =
                    http::pool::Holder { account: pool.account(), connections: pool.connections() };
                App::Http(HttpApp::start(&export.service, Arc::clone(config), setup, Some(worker)))
            }
        };
        let stats = hub.export(&export.service.to_string());
        Self { service: export.service.clone(), stats, app }
    }

    /// The app's state.
    pub fn standing(&self) -> Standing {
        match &self.app {
            App::Dubbo(app) => app.upstream.standing(),
            App::Http(app) => app.health().standing(),
        }
    }

    /// Waits until [`Backend::standing`] may have changed.
    pub async fn changed(&self) {
        match &self.app {
            App::Dubbo(app) => app.upstream.changed().await,
            App::Http(app) => app.health().changed().await,
        }
    }

    /// The app is known to be there: an attempt to reach it that is due later is made now.
    pub fn connect_soon(&self) {
        match &self.app {
            App::Dubbo(app) => app.upstream.connect_soon(),
            App::Http(app) => app.health().check_soon(),
        }
    }
}

/// Calls an HTTP app as a whole Dubbo request asks. `done` is called as [`HttpApp::call`] says.
pub fn call_whole(
    app: &Rc<HttpApp>,
    call: &Call<'_, (), Whole<'_>>,
    done: impl FnOnce(Outcome) + 'static,
) -> Option<AbortHandle> {
    let Whole { serialization, body } = call.payload;
    let request = match Request::decode(serialization, body.clone(), &BodyLimits::default()) {
        Ok(request) => request,
        Err(error) => {
            let message = format!("Fail to decode request due to: {error}");
            done(Err(CallError::new(Code::BadRequest, message)));
            return None;
        }
    };
    let attachments: Vec<(&str, &str)> = request.attachments().collect();
    let method = AppMethod {
        name: request.method(),
        descriptor: request.descriptor(),
        takes_attachments: request.takes_reply_attachments(),
    };
    let args = request.args_bytes();
    let payload = Encoded { serialization: request.serialization(), bytes: &args };
    let call = Call { attachments: &attachments, ..call.with(method, payload) };
    app.call(&call, done)
}
