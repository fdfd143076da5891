//! What a worker's calls to other services go by: clusters, routes, definitions, and the rules
//! that calls are made by.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use dubbo_proto::ServiceKey;
use registry::Registry;

use crate::backend::{Backend, GateSetup};
use crate::cluster::{Cluster, describe_unoffered};
use crate::clusters::{ClusterLookup, Clusters};
use crate::config::{ClusterPolicy, ClusterRules, ExportConfig};
use crate::definitions::WorkerDefinitions;
use crate::error::{CallError, Code};
use crate::inspect::Filter;
use crate::inspect::snapshot::ServiceSnapshot;
use crate::metrics::Hub;
use crate::route::{ParameterTypes, Plan, RouteName, WHOLE};
use crate::routes::{ClusterRoute, NewRoute, RouteTable};
use crate::unoffered::UnofferedServices;
use crate::upstream::UpstreamPool;

/// One worker's part of it.
pub struct Outbound {
    pub(crate) clusters: Clusters,
    /// The routes that callers have used.
    pub routes: RouteTable,
    /// What the called services look like.
    pub definitions: WorkerDefinitions,
    rules: RefCell<Arc<ClusterRules>>,
    pool: Rc<UpstreamPool>,
    hub: Hub,
    unoffered: UnofferedServices,
    stopped: Cell<bool>,
}

impl Outbound {
    /// Without any cluster yet. `registries` are those of the configuration, in its order.
    pub fn new(
        registries: Vec<(String, Registry)>,
        rules: Arc<ClusterRules>,
        pool: Rc<UpstreamPool>,
        hub: Hub,
    ) -> Self {
        Self {
            clusters: Clusters::new(registries),
            routes: RouteTable::default(),
            definitions: WorkerDefinitions::default(),
            rules: RefCell::new(rules),
            pool,
            unoffered: UnofferedServices::new(hub.clone()),
            hub,
            stopped: Cell::new(false),
        }
    }

    /// Calls are made by these rules from now on.
    pub fn set_rules(&self, rules: Arc<ClusterRules>) {
        self.clusters.each(|cluster| {
            cluster.set_policy(rules.policy(&cluster.service.interface));
        });
        *self.rules.borrow_mut() = rules;
    }

    /// How calls of an interface are made.
    pub fn policy(&self, interface: &str) -> ClusterPolicy {
        self.rules.borrow().policy(interface).clone()
    }

    /// Begins to connect to the app of an export. Must be called on a worker's runtime.
    pub fn backend(&self, export: &ExportConfig, gate: &GateSetup<'_>) -> Backend {
        Backend::start(export, &self.pool, &self.rules.borrow(), &self.hub, gate)
    }

    /// New calls are refused from now on.
    pub fn stop(&self) {
        self.stopped.set(true);
    }

    /// Whether new calls are refused.
    pub fn is_stopped(&self) -> bool {
        self.stopped.get()
    }

    /// Ends the connections to endpoints, after what waits to be written; the failure of one that
    /// broke before.
    pub async fn close(&self) -> Option<CallError> {
        self.pool.close().await
    }

    /// Forgets what is not used any more, or no longer true.
    pub fn sweep(&self, now: Instant) {
        self.definitions.sweep(&self.routes);
        self.clusters.sweep(now, |cluster| self.routes.forget(cluster));
        self.unoffered.sweep(now);
        self.pool.tend(now);
    }

    /// All registries, in the order of the configuration.
    pub fn registries(&self) -> impl Iterator<Item = &Registry> {
        self.clusters.registries()
    }

    /// A registry by its number.
    pub fn registry(&self, index: usize) -> Option<&Registry> {
        self.clusters.registry(index)
    }

    /// The cluster of a service, if it was looked up in a registry before.
    pub fn known_cluster(&self, registry: usize, service: ServiceKey) -> Option<Rc<Cluster>> {
        self.clusters.known(registry, service)
    }

    /// Counts a call that came at `started` and failed, as it has no route.
    #[cold]
    pub fn count_without_route(
        &self,
        registry: usize,
        service: &ServiceKey,
        started: Instant,
        code: Code,
    ) {
        match self.known_cluster(registry, service.clone()) {
            Some(cluster) => cluster.count_without_endpoint(started, code),
            None => self.unoffered.count(registry, service, started, code),
        }
    }

    /// The services that are called, that nobody offers, and that are not looked up: as they are
    /// shown.
    pub fn describe_unoffered(&self, filter: &Filter) -> Vec<ServiceSnapshot> {
        let mut all = Vec::new();
        self.unoffered.each(|label, registry, key| {
            let is_wanted = match key {
                Some(key) => filter.has_service(key, label),
                None => filter.service.is_none(),
            };
            let is_known =
                key.is_some_and(|key| self.clusters.known(registry, key.clone()).is_some());
            if is_wanted && !is_known {
                let interface = key.map_or("", |key| &*key.interface);
                let registry = self.clusters.registry_name(registry);
                all.push(describe_unoffered(label, registry, &self.policy(interface)));
            }
        });
        all
    }

    /// The cluster of a service, looked up in a registry from now on if it was not before.
    ///
    /// # Errors
    /// As [`Clusters::find`], and [`Code::Overloaded`] while the registry is asked whether such a
    /// service exists at all.
    pub fn cluster(&self, registry: usize, service: ServiceKey) -> Result<Rc<Cluster>, CallError> {
        self.look_up(registry, service)?.ok_or_else(|| {
            let message = "many unknown services are being called; the agent is asking the \
                           registry which ones exist; try again at once";
            CallError::new(Code::Overloaded, message)
        })
    }

    /// The same for a caller that waits for the registry's word.
    ///
    /// # Errors
    /// As [`Clusters::find`], and [`Code::RegistryUnavailable`] without that word by `deadline`.
    pub async fn cluster_by(
        &self,
        registry: usize,
        service: ServiceKey,
        deadline: Instant,
    ) -> Result<Rc<Cluster>, CallError> {
        loop {
            if let Some(cluster) = self.look_up(registry, service.clone())? {
                return Ok(cluster);
            }
            let Some(known) = self.registry(registry) else { continue };
            if tokio::time::timeout_at(deadline.into(), known.settled()).await.is_err() {
                let message = "the registry has not answered yet which services exist";
                return Err(CallError::new(Code::RegistryUnavailable, message));
            }
        }
    }

    /// The route of a service's whole requests.
    ///
    /// # Errors
    /// As [`Outbound::cluster`], and [`Code::Overloaded`] if there are too many routes.
    pub fn whole_route(
        &self,
        registry: usize,
        key: &ServiceKey,
    ) -> Result<Rc<ClusterRoute>, CallError> {
        let ServiceKey { interface, version, group } = key;
        let name =
            RouteName { interface, version, group, method: WHOLE, types: None, generic: None };
        let known = self.routes.find(registry, &name, 0);
        if let Some(route) = known.filter(|route| !route.cluster.is_forgotten()) {
            return Ok(route);
        }
        let cluster = self.cluster(registry, key.clone())?;
        self.routes.insert(
            registry,
            &name,
            0,
            NewRoute { cluster, parameters: ParameterTypes::Unknown, plan: Plan::default() },
        )
    }

    fn look_up(
        &self,
        registry: usize,
        service: ServiceKey,
    ) -> Result<Option<Rc<Cluster>>, CallError> {
        let make = |name: &str, service: &ServiceKey| {
            let policy = self.policy(&service.interface);
            Cluster::new(service.clone(), name, &policy, Rc::clone(&self.pool), self.hub.clone())
        };
        match self.clusters.find(registry, service, make)? {
            ClusterLookup::Cluster(cluster) => Ok(Some(cluster)),
            ClusterLookup::Asking => Ok(None),
        }
    }
}
