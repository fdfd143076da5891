//! The local apps behind exported services, whatever they speak.
//!
//! A Dubbo app gets the arguments of a call as they came, through its connection
//! ([`crate::upstream`]). An HTTP app ([`http`]) gets them as JSON, and what it answers becomes
//! the body of a Dubbo reply.

pub mod dubbo;
pub mod http;

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::Instant;

use dubbo_proto::{BodyLimits, Request, ServiceKey};
use flow::pause::PauseLook;
use tokio::sync::Notify;
use tokio::task::AbortHandle;

pub use self::dubbo::DubboApp;
pub use self::http::HttpApp;
use crate::attachments;
use crate::call::{Call, Encoded, Outcome, WholeBody};
use crate::config::{AppConfig, ClusterRules, ExportConfig};
use crate::error::{CallError, Code};
use crate::gate::{AppGate, SharedGate};
use crate::metrics::{CallStats, Hub};
use crate::upstream::{EndpointAddress, Setup, Standing, UpstreamPool};

/// One exported service and the way to the app.
pub struct Backend {
    /// What is offered.
    pub service: ServiceKey,
    /// What counts its calls.
    pub stats: Arc<CallStats>,
    /// What lets calls into the app. All exports of one app have the same.
    pub gate: Rc<AppGate>,
    /// The app.
    pub app: App,
    /// Since when the service is no longer offered by this app.
    withdrawn_at: Cell<Option<Instant>>,
    withdrawn: Notify,
}

/// An app, by what it speaks.
pub enum App {
    /// A Dubbo provider.
    Dubbo(DubboApp),
    /// A program with an HTTP endpoint.
    Http(Rc<HttpApp>),
}

/// What a worker exports, by service key as text. It changes with the configuration.
#[derive(Default)]
pub struct Backends(RefCell<HashMap<String, Offered>>);

struct Offered {
    generation: u64,
    backend: Rc<Backend>,
}

impl Backends {
    /// The backend of a service.
    pub fn get(&self, service: &str) -> Option<Rc<Backend>> {
        Some(Rc::clone(&self.0.borrow().get(service)?.backend))
    }

    /// Offers a service from now on, by this backend in place of any other. `generation` tells the
    /// offers of a service apart.
    pub fn offer(&self, generation: u64, backend: &Rc<Backend>) {
        let offered = Offered { generation, backend: Rc::clone(backend) };
        let before = self.0.borrow_mut().insert(backend.service.to_string(), offered);
        if let Some(before) = before {
            before.backend.withdraw();
        }
    }

    /// Ends an offer, unless another one has taken its place. Says whether it did.
    pub fn withdraw(&self, service: &ServiceKey, generation: u64) -> bool {
        let (mut offered, service) = (self.0.borrow_mut(), service.to_string());
        if offered.get(&service).is_none_or(|offered| offered.generation != generation) {
            return false;
        }
        if let Some(gone) = offered.remove(&service) {
            gone.backend.withdraw();
        }
        true
    }
}

/// What it takes to find the gate before an app.
pub struct GateSetup<'a> {
    /// What all workers share of it.
    pub shared: &'a Arc<SharedGate>,
    /// The worker's number.
    pub worker: usize,
    /// The worker's gates.
    pub gates: &'a WorkerGates,
}

/// One worker's gates, by app.
#[derive(Default)]
pub struct WorkerGates(RefCell<HashMap<String, Weak<AppGate>>>);

impl WorkerGates {
    /// The gate before an app, which all exports of the app have in common.
    fn before(&self, shared: &Arc<SharedGate>, worker: usize, app: &App) -> Rc<AppGate> {
        let mut gates = self.0.borrow_mut();
        gates.retain(|_, gate| 0 < gate.strong_count());
        let known = gates.get(shared.app()).and_then(Weak::upgrade);
        let gate = known.filter(|gate| gate.is_of(shared)).unwrap_or_else(|| {
            let gate = AppGate::new(shared, worker);
            gates.insert(shared.app().to_owned(), Rc::downgrade(&gate));
            gate
        });
        if let App::Dubbo(app) = app {
            // Links keep the gate for as long as they live, and must not keep the connections.
            let lanes = Rc::downgrade(&app.upstream);
            gate.set_late_ends(Box::new(move || Some(lanes.upgrade()?.late_ends())));
            let lanes = Rc::downgrade(&app.upstream);
            gate.set_pause_look(Box::new(move |now, quiet| {
                let lanes = lanes.upgrade();
                lanes.map_or(PauseLook::works(now), |lanes| lanes.look_for_pause(now, quiet))
            }));
        }
        gate
    }
}

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
    pub fn start(
        export: &ExportConfig,
        pool: &UpstreamPool,
        rules: &ClusterRules,
        hub: &Hub,
        gate: &GateSetup<'_>,
    ) -> Self {
        let policy = rules.policy(&export.service.interface);
        let setup = Setup::new(policy);
        let app = match &export.app {
            AppConfig::Dubbo { host, port, tls, serialization } => {
                let address = EndpointAddress { host, port: *port, tls: tls.as_ref() };
                let (upstream, share) = pool.dubbo(address, setup);
                App::Dubbo(DubboApp::start(&export.service, *serialization, upstream, share))
            }
            AppConfig::Http(config) => {
                let worker = http::pool::WorkerResources {
                    account: pool.account(),
                    connections: pool.connections(),
                    threads: pool.threads(),
                };
                App::Http(HttpApp::start(&export.service, Arc::clone(config), setup, Some(worker)))
            }
        };
        let gate = gate.gates.before(gate.shared, gate.worker, &app);
        Self::new(export.service.clone(), app, hub, gate)
    }

    /// A backend of this app.
    pub fn new(service: ServiceKey, app: App, hub: &Hub, gate: Rc<AppGate>) -> Self {
        let stats = hub.export(&service.to_string());
        let (withdrawn_at, withdrawn) = Default::default();
        Self { service, stats, gate, app, withdrawn_at, withdrawn }
    }

    /// The service is no longer offered by this app. Calls that are here are still made.
    fn withdraw(&self) {
        if let App::Http(app) = &self.app {
            app.health().end();
        }
        self.withdrawn_at.set(Some(Instant::now()));
        self.withdrawn.notify_waiters();
    }

    /// Since when the service is no longer offered by this app; `None` while it is.
    pub fn withdrawn_at(&self) -> Option<Instant> {
        self.withdrawn_at.get()
    }

    /// The app's state.
    pub fn standing(&self) -> Standing {
        match &self.app {
            _ if self.withdrawn_at.get().is_some() => Standing::Down,
            App::Dubbo(app) => app.standing(),
            App::Http(app) => app.health().standing(),
        }
    }

    /// Why no calls are taken, where none are.
    pub fn trouble(&self) -> String {
        let service = &self.service;
        match &self.app {
            _ if self.withdrawn_at.get().is_some() => format!("{service} is no longer exported"),
            App::Dubbo(app) => format!("the app behind {service} {}", app.trouble()),
            App::Http(_) => format!("the app behind {service} cannot be reached"),
        }
    }

    /// Waits until [`Backend::standing`] may have changed.
    pub async fn changed(&self) {
        let app_changed = async {
            match &self.app {
                App::Dubbo(app) => app.changed().await,
                App::Http(app) => app.health().changed().await,
            }
        };
        tokio::select! {
            () = app_changed => {}
            () = self.withdrawn.notified() => {}
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
    call: &Call<'_, (), WholeBody<'_>>,
    done: impl FnOnce(Outcome) + 'static,
) -> Option<AbortHandle> {
    let WholeBody { serialization, body } = call.payload;
    let request = match Request::decode(serialization, body.clone(), &BodyLimits::default()) {
        Ok(request) => request,
        Err(error) => {
            let message = format!("Fail to decode request due to: {error}");
            done(Err(CallError::new(Code::BadRequest, message)));
            return None;
        }
    };
    let typed = attachments::typed_of(&request);
    let typed = typed.iter().map(|(name, value)| (&**name, &**value));
    let attachments: Vec<(&str, &str)> = request.attachments().chain(typed).collect();
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::ClusterPolicy;
    use crate::testing::{offer, on_worker, pool, until};

    #[test]
    fn a_gate_does_not_keep_the_connections_to_an_app_that_is_gone() {
        on_worker(async || {
            let offer = offer("com.acme.Echo", 1);
            let setup =
                GateSetup { shared: &offer.gate, worker: 0, gates: &WorkerGates::default() };
            let rules = ClusterRules { default: ClusterPolicy::default(), rules: Vec::new() };
            let hub = Hub::new(&Code::NAMES);
            let backend = Backend::start(&offer.export, &pool(), &rules, &hub, &setup);
            let App::Dubbo(app) = &backend.app else { panic!("it speaks Dubbo") };
            let lanes = Rc::downgrade(&app.upstream);
            // As a link does that has credits of it.
            let _gate = Rc::clone(&backend.gate);
            drop(backend);
            until(|| (lanes.strong_count() == 0).then_some(())).await;
        });
    }
}
