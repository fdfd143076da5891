//! Keeps what is registered in step with what the app behind it can do.
//!
//! Invariants:
//! - A service is registered only after every worker has reached its app: a link may be given to
//!   any of them.
//! - It is withdrawn when no worker has reached the app for a while, and first thing in a drain.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use dubbo_proto::{DEFAULT_PAYLOAD_LIMIT, PROTOCOL_VERSION, Serialization, ServiceKey};
use parameters::Parameters;
use registry::{Endpoint, Protocol, Registered, Registration, Registry};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tracing::{error, info, warn};

use super::WorkerHandle;
use super::gates::ProcessGates;
use crate::admin::Readiness;
use crate::cluster::TLS;
use crate::config::{AppConfig, Config, DubboListenerConfig, ExportChange, ExportConfig};
use crate::listening::Addresses;
use crate::map_form::{APP, DUBBO_APP, HTTP_APP};
use crate::metrics::{Hub, RegistryStats};
use crate::worker::{AppHealth, OfferedExport, ToWorker};

/// How long an app may be away before its service is withdrawn: a restart of its connection is no
/// reason, a restart of the app is. The agents on our links hear of either at once.
const GRACE: Duration = Duration::from_millis(250);

/// The version of Dubbo that consumers are told: of those whose formats are all read here, the
/// last one that has the name `fastjson` stand for one text a line.
const RELEASE: &str = "2.7.23";

/// How long callers may take to hear from the registry that a service is withdrawn. Until then
/// their calls are answered.
const FAREWELL: Duration = Duration::from_secs(2);

/// The exported services of this agent.
pub(super) struct Exports {
    /// Where other agents, and where Dubbo's own consumers are to connect to.
    link: Option<(String, u16)>,
    dubbo: Option<(String, u16)>,
    provider: ProviderFacts,
    is_link_tls: bool,
    is_dubbo_tls: bool,
    registries: Vec<(String, Registry)>,
    workers: Vec<WorkerHandle>,
    readiness: Readiness,
    hub: Hub,
    exported: HashMap<ServiceKey, Exported>,
    /// Services that are being withdrawn: true once they are.
    leaving: HashMap<ServiceKey, watch::Receiver<bool>>,
    farewells: JoinSet<()>,
    gates: ProcessGates,
    n_offers: u64,
}

/// One service that is offered.
struct Exported {
    generation: u64,
    export: watch::Sender<ExportConfig>,
    health: AppHealth,
    leave: watch::Sender<bool>,
    keepers: JoinSet<()>,
}

impl Exports {
    /// Offers nothing yet. Listeners are bound to these addresses.
    pub(super) fn new(
        config: &Config,
        bound: &Addresses,
        registries: Vec<(String, Registry)>,
        readiness: Readiness,
        hub: Hub,
    ) -> Self {
        let (link, dubbo) = (&config.link, &config.dubbo_exports);
        let link_at = link.as_ref().and_then(|link| link.advertise.address(bound.link));
        let dubbo_at =
            dubbo.as_ref().and_then(|dubbo| dubbo.advertise.address(bound.dubbo_exports));
        if link_at.is_none() && dubbo_at.is_none() && !config.exports.is_empty() {
            info!("services are not registered, because they can be reached only by Unix sockets");
        }
        Self {
            link: link_at,
            dubbo: dubbo_at,
            provider: dubbo.as_ref().map(ProviderFacts::of).unwrap_or_default(),
            is_link_tls: link.as_ref().is_some_and(|link| link.tls.is_some()),
            is_dubbo_tls: dubbo.as_ref().is_some_and(|dubbo| dubbo.tls.is_some()),
            registries,
            workers: Vec::new(),
            readiness,
            gates: ProcessGates::new(hub.clone(), config.process.workers.get()),
            hub,
            exported: HashMap::new(),
            leaving: HashMap::new(),
            farewells: JoinSet::new(),
            n_offers: 0,
        }
    }

    /// An offer, for workers that are not there yet. They have to be told of by
    /// [`Exports::start`].
    pub(super) fn offer(&mut self, export: &ExportConfig) -> OfferedExport {
        self.n_offers += 1;
        let gate = self.gates.before(export);
        let health = AppHealth::new(0);
        OfferedExport { export: export.clone(), generation: self.n_offers, health, gate }
    }

    /// Begins to watch the apps of these offers. Listeners must be open already.
    pub(super) fn start(&mut self, offers: Vec<OfferedExport>, workers: &[WorkerHandle]) {
        self.workers = workers.to_vec();
        for offer in offers {
            self.keep(offer, true);
        }
    }

    /// Has the gates be those of the apps that are exported now, with the capacities of now.
    pub(super) fn follow_apps(&mut self, config: &Config) {
        self.gates.follow(config, &self.registries);
    }

    /// Carries a reload's changes out.
    pub(super) fn change(&mut self, change: ExportChange) {
        match change {
            ExportChange::Added(export) => self.add(&export),
            ExportChange::Changed(export) => {
                let Some(known) = self.exported.get(&export.service) else { return };
                let before = known.export.borrow().clone();
                if before.registry != export.registry {
                    self.remove(&export.service);
                    self.add(&export);
                    return;
                }
                if before.app != export.app {
                    self.n_offers += 1;
                    let (generation, health) = (self.n_offers, known.health.clone());
                    let gate = self.gates.before(&export);
                    let offer = OfferedExport { export: export.clone(), generation, health, gate };
                    self.tell(&offer);
                    if let Some(known) = self.exported.get_mut(&export.service) {
                        known.generation = generation;
                    }
                }
                if let Some(known) = self.exported.get(&export.service) {
                    known.export.send_replace(export);
                }
            }
            ExportChange::Removed(service) => self.remove(&service),
        }
    }

    fn add(&mut self, export: &ExportConfig) {
        let offer = self.offer(export);
        self.tell(&offer);
        self.keep(offer, false);
    }

    /// Tells all workers of an offer.
    fn tell(&self, offer: &OfferedExport) {
        for worker in &self.workers {
            let _ = worker.inbox.send(ToWorker::Offer(offer.clone()));
        }
    }

    /// Keeps a service registered. A new one `blocks` the agent's readiness until it is.
    fn keep(&mut self, offer: OfferedExport, blocks: bool) {
        let OfferedExport { export, generation, health, gate: _ } = offer;
        let Some((name, registry)) = self.registries.get(export.registry) else { return };
        let service = export.service.clone();
        let (export, leave) = (watch::Sender::new(export), watch::Sender::new(false));
        let mut keepers = JoinSet::new();
        let (dubbo_stays, dubbo_ends) = watch::channel(());
        let mut dubbo_stays = Some(dubbo_stays);
        for (protocol, address, is_tls) in [
            (Protocol::Link, &self.link, self.is_link_tls),
            (Protocol::Dubbo, &self.dubbo, self.is_dubbo_tls),
        ] {
            let Some((host, port)) = address.clone() else { continue };
            let keeper = Keeper {
                registry: registry.clone(),
                stats: self.hub.registry(name),
                service: service.clone(),
                export: export.subscribe(),
                protocol,
                is_tls,
                provider: self.provider.clone(),
                host,
                port,
                health: health.subscribe(),
                n_workers: self.workers.len(),
                leave: leave.subscribe(),
                after: self.leaving.get(&service).cloned(),
                leaves_after: protocol.is_of_agents().then(|| dubbo_ends.clone()),
                _stays: dubbo_stays.take_if(|_| !protocol.is_of_agents()),
                readiness: self.readiness.clone(),
            };
            if blocks {
                self.readiness.block(&keeper.part(), "is not registered yet");
            }
            keepers.spawn(keeper.run());
        }
        let exported = Exported { generation, export, health, leave, keepers };
        self.exported.insert(service, exported);
    }

    /// Withdraws a service, and has workers forget it when callers have heard of that.
    fn remove(&mut self, service: &ServiceKey) {
        let Some(exported) = self.exported.remove(service) else { return };
        let Exported { generation, leave, mut keepers, .. } = exported;
        leave.send_replace(true);
        let withdrawn = watch::Sender::new(false);
        self.leaving.retain(|_, withdrawn| !*withdrawn.borrow());
        self.leaving.insert(service.clone(), withdrawn.subscribe());
        let (workers, service) = (self.workers.clone(), service.clone());
        let readiness = self.readiness.clone();
        while self.farewells.try_join_next().is_some() {}
        self.farewells.spawn(async move {
            while keepers.join_next().await.is_some() {}
            withdrawn.send_replace(true);
            for protocol in Protocol::ALL {
                readiness.clear(&part(&service, protocol));
            }
            tokio::time::sleep(FAREWELL).await;
            for worker in workers {
                let _ = worker.inbox.send(ToWorker::Withdraw(service.clone(), generation));
            }
        });
    }

    /// Withdraws everything; each withdrawal is bounded in time.
    pub(super) async fn withdraw(&mut self) {
        for exported in self.exported.values() {
            exported.leave.send_replace(true);
        }
        for exported in self.exported.values_mut() {
            while exported.keepers.join_next().await.is_some() {}
        }
        // What a reload has withdrawn is not in the registry any more, or soon.
        for leaving in self.leaving.values_mut() {
            let _ = leaving.wait_for(|is_withdrawn| *is_withdrawn).await;
        }
    }
}

/// What an export is called where the agent says whether it is ready.
fn part(service: &ServiceKey, protocol: Protocol) -> String {
    format!("export {service} by {protocol}")
}

/// How long a registration that takes another one's place waits for the registry.
const HAND_OVER_TIMEOUT: Duration = Duration::from_secs(5);

/// Why a registration ends.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum RegistrationEnd {
    /// The agent drains.
    Leaving,
    /// It is to be registered in another way.
    Changed,
    /// No worker reaches the app any more.
    AppAway,
}

/// What a provider's URL says of the listener for Dubbo's consumers.
#[derive(Clone, Default)]
struct ProviderFacts {
    application: String,
    max_body_len: usize,
}

impl ProviderFacts {
    fn of(listener: &DubboListenerConfig) -> Self {
        let max_body_len = listener.limits.max_body_len;
        Self { application: listener.application.clone(), max_body_len }
    }
}

/// Keeps one service registered, for those who speak one protocol.
struct Keeper {
    registry: Registry,
    stats: Arc<RegistryStats>,
    service: ServiceKey,
    export: watch::Receiver<ExportConfig>,
    protocol: Protocol,
    /// Its listener speaks TLS.
    is_tls: bool,
    provider: ProviderFacts,
    host: String,
    port: u16,
    health: watch::Receiver<usize>,
    n_workers: usize,
    leave: watch::Receiver<bool>,
    /// True when an earlier registration of the service is withdrawn, if there was one.
    after: Option<watch::Receiver<bool>>,
    /// Closed when the registration for Dubbo's consumers has ended, which goes first. Other
    /// agents then hear of the end by their links: a Dubbo connection cannot say that one service
    /// ends.
    leaves_after: Option<watch::Receiver<()>>,
    _stays: Option<watch::Sender<()>>,
    readiness: Readiness,
}

impl Keeper {
    async fn run(mut self) {
        let (mut leave, n_workers) = (self.leave.clone(), self.n_workers);
        if let Some(mut before) = self.after.take() {
            // It may have the same place in the registry.
            let _ = before.wait_for(|is_withdrawn| *is_withdrawn).await;
        }
        loop {
            tokio::select! {
                _ = leave.wait_for(|leave| *leave) => return,
                // More of them while one app takes another one's place.
                reached = self.health.wait_for(|n_ready| n_workers <= *n_ready) => {
                    if reached.is_err() { return }
                }
            }
            let Some(mut registered) = self.register() else { return };
            let end = loop {
                match self.while_healthy(&registered).await {
                    RegistrationEnd::Changed => registered = self.register_anew(registered).await,
                    end => break end,
                }
            };
            self.readiness.block(&self.part(), "is withdrawn, because its app cannot be reached");
            if let (RegistrationEnd::Leaving, Some(other)) = (end, &mut self.leaves_after) {
                let _has_ended = tokio::time::timeout(HAND_OVER_TIMEOUT, other.changed()).await;
            }
            self.withdraw(registered).await;
            if end == RegistrationEnd::Leaving {
                return;
            }
        }
    }

    /// Registers as the configuration is now. The old registration goes only when the new one is
    /// there, so that callers always see one.
    async fn register_anew(&mut self, old: Registered) -> Registered {
        let Some(new) = self.register() else { return old };
        if tokio::time::timeout(HAND_OVER_TIMEOUT, new.established()).await.is_err() {
            let service = &self.service;
            warn!(%service, "the registry cannot be reached; the registration changes later");
        }
        self.withdraw(old).await;
        new
    }

    async fn withdraw(&self, registered: Registered) {
        self.stats.withdrawn();
        let service = &self.service;
        match registered.withdraw().await {
            Ok(()) => info!(%service, "withdrawn"),
            Err(error) => warn!(%service, %error, "withdrawal is not confirmed"),
        }
    }

    fn part(&self) -> String {
        part(&self.service, self.protocol)
    }

    fn register(&mut self) -> Option<Registered> {
        let export = self.export.borrow_and_update().clone();
        let mut endpoint = Endpoint::new(self.protocol, &self.host, self.port);
        endpoint.weight = export.weight;
        endpoint.serializations = export.app.serializations();
        // A provider lists its own methods; of an app that is none nobody else can tell them.
        let methods = match &export.app {
            AppConfig::Http(app) => app.methods.names(),
            AppConfig::Dubbo { .. } => Vec::new(),
        };
        if !self.protocol.is_of_agents() {
            let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
            let preferred = endpoint.serializations.first().copied();
            endpoint.params =
                dubbo_params(&self.provider, preferred, since_1970.unwrap_or_default());
            if let AppConfig::Http(app) = &export.app {
                endpoint.timeout = app.timeout;
            }
        }
        let kind = if matches!(export.app, AppConfig::Http(_)) { HTTP_APP } else { DUBBO_APP };
        endpoint.params = endpoint.params.with(APP, kind);
        if self.is_tls {
            endpoint.params = endpoint.params.with(TLS, "true");
        }
        let registration = Registration {
            service: self.service.clone(),
            endpoint,
            methods,
            app_address: Some(export.app.address()),
        };
        match self.registry.register(&registration) {
            Ok(registered) => {
                self.stats.registered();
                Some(registered)
            }
            Err(error) => {
                error!(service = %self.service, %error, "cannot be registered");
                None
            }
        }
    }

    /// Waits until the registration is to end.
    async fn while_healthy(&self, registered: &Registered) -> RegistrationEnd {
        let mut announced = false;
        let (mut leave, mut export) = (self.leave.clone(), self.export.clone());
        let mut health = self.health.clone();
        loop {
            tokio::select! {
                () = registered.established(), if !announced => {
                    announced = true;
                    self.readiness.clear(&self.part());
                    info!(service = %self.service, at = %registered.endpoint(), "registered");
                }
                _ = leave.wait_for(|leave| *leave) => return RegistrationEnd::Leaving,
                Ok(()) = export.changed() => return RegistrationEnd::Changed,
                Ok(()) = stays_down(&mut health) => {
                    warn!(service = %self.service, "the app cannot be reached; withdrawing \
                                                           its registration");
                    return RegistrationEnd::AppAway;
                }
            }
        }
    }
}

/// What Dubbo's consumers look for in a provider's URL besides the service. `since_1970` is the
/// time of the registration.
fn dubbo_params(
    provider: &ProviderFacts,
    preferred: Option<Serialization>,
    since_1970: Duration,
) -> Parameters {
    let params: Parameters = [
        ("application", &*provider.application),
        ("category", "providers"),
        ("dubbo", PROTOCOL_VERSION),
        ("release", RELEASE),
        ("dynamic", "true"),
        ("generic", "false"),
        ("serialization", preferred.unwrap_or(Serialization::DEFAULT).name()),
        ("timestamp", &since_1970.as_millis().to_string()),
    ]
    .into();
    // A consumer sends nothing longer, and takes no longer reply.
    match provider.max_body_len {
        ..=DEFAULT_PAYLOAD_LIMIT => params,
        longer => params.with("payload", &longer.to_string()),
    }
}

/// Waits until no worker has reached the app for [`GRACE`].
async fn stays_down(health: &mut watch::Receiver<usize>) -> Result<(), watch::error::RecvError> {
    loop {
        health.wait_for(|n_ready| *n_ready == 0).await?;
        let back = tokio::time::timeout(GRACE, health.wait_for(|n_ready| 0 < *n_ready)).await;
        if back.is_err() {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use registry::{MemoryHub, RegistryConfig};
    use tokio::sync::mpsc;

    use super::*;
    use crate::error::Code;
    use crate::testing::{exporting, on_worker};

    /// Consumers choose the serialization by this parameter, and read times in milliseconds.
    #[test]
    fn consumers_find_what_they_look_for() {
        let mut provider = ProviderFacts { application: "shop".to_owned(), max_body_len: 1000 };
        let preferred = Some(Serialization::Fastjson2);
        let params = dubbo_params(&provider, preferred, Duration::from_secs(7));
        for (name, value) in [
            ("application", "shop"),
            ("category", "providers"),
            ("serialization", "fastjson2"),
            ("timestamp", "7000"),
            ("dynamic", "true"),
        ] {
            assert_eq!(params.get(name), Some(value), "{name}");
        }
        assert_eq!(params.get("payload"), None, "a consumer takes longer replies");
        provider.max_body_len = 16 << 20;
        let long = dubbo_params(&provider, preferred, Duration::ZERO);
        assert_eq!(long.get("payload"), Some("16777216"));
        let unknown = dubbo_params(&ProviderFacts::default(), None, Duration::ZERO);
        assert_eq!(unknown.get("serialization"), Some("hessian2"));
    }

    /// A service is withdrawn only if no worker reaches its app, and not for a short break.
    #[test]
    fn a_short_break_is_no_reason_to_withdraw() {
        on_worker(async || {
            let health = watch::Sender::new(1);
            let mut watched = health.subscribe();
            let mut down = pin!(stays_down(&mut watched));
            let mut poll = || down.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            assert!(poll().is_pending(), "one worker reaches it");
            health.send_replace(0);
            assert!(poll().is_pending(), "the app may be back at once");
            health.send_replace(2);
            assert!(poll().is_pending());
            let since = std::time::Instant::now();
            health.send_replace(0);
            assert!(poll().is_pending(), "the wait begins again");
            down.await.unwrap();
            assert!(GRACE <= since.elapsed());
        });
    }

    #[test]
    fn a_worker_that_ends_ends_the_wait() {
        let health = watch::Sender::new(1);
        let mut watched = health.subscribe();
        let mut down = pin!(stays_down(&mut watched));
        drop(health);
        let polled = down.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        assert!(matches!(polled, Poll::Ready(Err(_))));
    }

    /// An export that comes and goes with each reload leaves nothing behind.
    #[test]
    fn farewells_that_are_over_are_forgotten() {
        on_worker(async || {
            let config = exporting("dubbo://127.0.0.1:1");
            let memory = RegistryConfig::Memory(MemoryHub::new());
            let registries = vec![("main".to_owned(), Registry::open(memory).unwrap())];
            let (addresses, hub) = (Addresses::default(), Hub::new(&Code::NAMES));
            let mut exports = Exports::new(&config, &addresses, registries, Readiness::new(), hub);
            let (inbox, mut told) = mpsc::unbounded_channel();
            exports.start(Vec::new(), &[WorkerHandle { inbox }]);
            let [export] = &config.exports[..] else { panic!("there is one") };
            for _ in 0..2 {
                exports.change(ExportChange::Added(export.clone()));
                exports.change(ExportChange::Removed(export.service.clone()));
                assert_eq!(exports.farewells.len(), 1);
                while !matches!(told.recv().await.unwrap(), ToWorker::Withdraw(..)) {}
            }
        });
    }
}
