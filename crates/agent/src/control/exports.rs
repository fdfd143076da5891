//! Keeps what is registered in step with what the app behind it can do.
//!
//! Invariants:
//! - A service is registered only after every worker has reached its app: a link may be given to
//!   any of them.
//! - It is withdrawn when no worker has reached the app for a while, and first thing in a drain.

use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use dubbo_proto::{PROTOCOL_VERSION, Serialization, ServiceKey};
use registry::{Endpoint, Protocol, Registered, Registration, Registry};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tracing::{error, info, warn};

use crate::admin::Readiness;
use crate::cluster::TLS;
use crate::config::{AppConfig, Config, DubboListenerConfig, ExportConfig, LinkListenerConfig};
use crate::metrics::{Hub, RegistryStats};
use crate::worker::AppHealth;

/// How long an app may be away before its service is withdrawn: a restart of its connection is no
/// reason, a restart of the app is. The agents on our links hear of either at once.
const GRACE: Duration = Duration::from_millis(250);

/// The version of Dubbo that consumers are told: of those whose formats are all read here, the
/// last one that has the name `fastjson` stand for one text a line.
const RELEASE: &str = "2.7.23";

/// The exported services of this agent.
#[derive(Default)]
pub(super) struct Exports {
    /// Where other agents, and where Dubbo's own consumers are to connect to.
    link: Option<(String, u16)>,
    dubbo: Option<(String, u16)>,
    weights: HashMap<ServiceKey, watch::Sender<u32>>,
    leave: watch::Sender<bool>,
    tasks: JoinSet<()>,
}

impl Exports {
    /// Other agents are to connect to this listener.
    pub(super) fn advertise_link(
        &mut self,
        config: &LinkListenerConfig,
        bound: Option<SocketAddr>,
    ) {
        self.link = config.advertise.address(bound);
    }

    /// Dubbo's own consumers are to connect to this listener.
    pub(super) fn advertise_dubbo(
        &mut self,
        config: &DubboListenerConfig,
        bound: Option<SocketAddr>,
    ) {
        self.dubbo = config.advertise.address(bound);
    }

    /// Begins to watch the apps. Listeners must be open already.
    pub(super) fn start(
        &mut self,
        config: &Config,
        registries: &[(String, Registry)],
        health: Vec<AppHealth>,
        readiness: &Readiness,
        hub: &Hub,
    ) {
        let application = config.dubbo_exports.as_ref().map_or("", |dubbo| &dubbo.application);
        let link_tls = config.link.as_ref().is_some_and(|link| link.tls.is_some());
        let dubbo_tls = config.dubbo_exports.as_ref().is_some_and(|dubbo| dubbo.tls.is_some());
        let offers = [
            (Protocol::Link, self.link.clone(), link_tls),
            (Protocol::Dubbo, self.dubbo.clone(), dubbo_tls),
        ];
        if self.link.is_none() && self.dubbo.is_none() && !config.exports.is_empty() {
            info!("services are not registered, because they can be reached only by Unix sockets");
        }
        for (export, health) in config.exports.iter().zip(health) {
            let Some((name, registry)) = registries.get(export.registry) else { continue };
            let weight = watch::Sender::new(export.weight);
            for (protocol, address, is_tls) in &offers {
                let Some((host, port)) = address.clone() else { continue };
                let keeper = Keeper {
                    registry: registry.clone(),
                    stats: hub.registry(name),
                    export: export.clone(),
                    protocol: *protocol,
                    is_tls: *is_tls,
                    application: application.to_owned(),
                    host,
                    port,
                    health: health.subscribe(),
                    n_workers: config.process.workers.get(),
                    weight: weight.subscribe(),
                    leave: self.leave.subscribe(),
                    readiness: readiness.clone(),
                };
                readiness.block(&keeper.part(), "is not registered yet");
                self.tasks.spawn(keeper.run());
            }
            self.weights.insert(export.service.clone(), weight);
        }
    }

    /// Registers a service with another weight.
    pub(super) fn set_weight(&self, service: &ServiceKey, weight: u32) {
        if let Some(known) = self.weights.get(service) {
            known.send_if_modified(|known| std::mem::replace(known, weight) != weight);
        }
    }

    /// Withdraws everything; each withdrawal is bounded in time.
    pub(super) async fn withdraw(&mut self) {
        self.leave.send_replace(true);
        while self.tasks.join_next().await.is_some() {}
    }
}

/// How long a registration with another weight waits for the registry.
const HAND_OVER_TIMEOUT: Duration = Duration::from_secs(5);

/// Why a registration ends.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum End {
    /// The agent drains.
    Leaving,
    /// Another weight is to be registered.
    OtherWeight,
    /// No worker reaches the app any more.
    AppAway,
}

/// Keeps one service registered, for those who speak one protocol.
struct Keeper {
    registry: Registry,
    stats: Arc<RegistryStats>,
    export: ExportConfig,
    protocol: Protocol,
    /// Its listener speaks TLS.
    is_tls: bool,
    application: String,
    host: String,
    port: u16,
    health: watch::Receiver<usize>,
    n_workers: usize,
    weight: watch::Receiver<u32>,
    leave: watch::Receiver<bool>,
    readiness: Readiness,
}

impl Keeper {
    async fn run(mut self) {
        let (mut leave, n_workers) = (self.leave.clone(), self.n_workers);
        loop {
            tokio::select! {
                _ = leave.wait_for(|leave| *leave) => return,
                reached = self.health.wait_for(|n_ready| *n_ready == n_workers) => {
                    if reached.is_err() { return }
                }
            }
            let Some(mut registered) = self.register() else { return };
            let end = loop {
                match self.while_healthy(&registered).await {
                    End::OtherWeight => registered = self.register_anew(registered).await,
                    end => break end,
                }
            };
            self.readiness.block(&self.part(), "is withdrawn, because its app cannot be reached");
            self.withdraw(registered).await;
            if end == End::Leaving {
                return;
            }
        }
    }

    /// Registers with the weight of now. The old registration goes only when the new one is there,
    /// so that callers always see one.
    async fn register_anew(&mut self, old: Registered) -> Registered {
        let Some(new) = self.register() else { return old };
        if tokio::time::timeout(HAND_OVER_TIMEOUT, new.established()).await.is_err() {
            let service = &self.export.service;
            warn!(%service, "the registry cannot be reached; the weight changes later");
        }
        self.withdraw(old).await;
        new
    }

    async fn withdraw(&self, registered: Registered) {
        self.stats.withdrawn();
        let service = &self.export.service;
        match registered.withdraw().await {
            Ok(()) => info!(%service, "withdrawn"),
            Err(error) => warn!(%service, %error, "withdrawal is not confirmed"),
        }
    }

    fn part(&self) -> String {
        format!("export {} by {}", self.export.service, self.protocol)
    }

    fn register(&mut self) -> Option<Registered> {
        let mut endpoint = Endpoint::new(self.protocol, &self.host, self.port);
        endpoint.weight = *self.weight.borrow_and_update();
        endpoint.serializations = self.export.app.serializations();
        // A provider lists its own methods; of an app that is none nobody else can tell them.
        let methods = match &self.export.app {
            AppConfig::Http(app) => app.methods.names(),
            AppConfig::Dubbo { .. } => Vec::new(),
        };
        if self.protocol == Protocol::Dubbo {
            let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
            let preferred = self.export.app.serializations().first().copied();
            let params = dubbo_params(&self.application, preferred, since_1970.unwrap_or_default());
            endpoint.params = Arc::new(params);
            if let AppConfig::Http(app) = &self.export.app {
                endpoint.timeout = app.timeout;
            }
        }
        if self.is_tls {
            Arc::make_mut(&mut endpoint.params).insert(TLS.to_owned(), "true".to_owned());
        }
        let registration = Registration {
            service: self.export.service.clone(),
            endpoint,
            methods,
            app_address: Some(self.export.app.address()),
        };
        match self.registry.register(&registration) {
            Ok(registered) => {
                self.stats.registered();
                Some(registered)
            }
            Err(error) => {
                error!(service = %self.export.service, %error, "cannot be registered");
                None
            }
        }
    }

    /// Waits until the registration is to end.
    async fn while_healthy(&self, registered: &Registered) -> End {
        let mut announced = false;
        let (mut leave, mut weight) = (self.leave.clone(), self.weight.clone());
        let mut health = self.health.clone();
        loop {
            tokio::select! {
                () = registered.established(), if !announced => {
                    announced = true;
                    self.readiness.clear(&self.part());
                    info!(service = %self.export.service, at = %registered.endpoint(), "registered");
                }
                _ = leave.wait_for(|leave| *leave) => return End::Leaving,
                Ok(()) = weight.changed() => return End::OtherWeight,
                Ok(()) = stays_down(&mut health) => {
                    warn!(service = %self.export.service, "the app cannot be reached; withdrawing \
                                                           its registration");
                    return End::AppAway;
                }
            }
        }
    }
}

/// What Dubbo's consumers look for in a provider's URL besides the service. `since_1970` is the
/// time of the registration.
fn dubbo_params(
    application: &str,
    preferred: Option<Serialization>,
    since_1970: Duration,
) -> BTreeMap<String, String> {
    [
        ("application", application),
        ("category", "providers"),
        ("dubbo", PROTOCOL_VERSION),
        ("release", RELEASE),
        ("dynamic", "true"),
        ("generic", "false"),
        ("serialization", preferred.map_or("hessian2", |it| it.name())),
        ("timestamp", &since_1970.as_millis().to_string()),
    ]
    .into_iter()
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
    .collect()
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

    use super::*;
    use crate::testing::on_worker;

    /// Consumers choose the serialization by this parameter, and read times in milliseconds.
    #[test]
    fn consumers_find_what_they_look_for() {
        let params = dubbo_params("shop", Some(Serialization::Fastjson2), Duration::from_secs(7));
        for (name, value) in [
            ("application", "shop"),
            ("category", "providers"),
            ("serialization", "fastjson2"),
            ("timestamp", "7000"),
            ("dynamic", "true"),
        ] {
            assert_eq!(params.get(name).map(String::as_str), Some(value), "{name}");
        }
        let unknown = dubbo_params("", None, Duration::ZERO);
        assert_eq!(unknown["serialization"], "hessian2");
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
            health.send_replace(0);
            assert!(poll().is_pending(), "the wait begins again");
            let since = std::time::Instant::now();
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
}
