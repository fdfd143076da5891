//! Calls from a program that is not an agent: a worker without listeners.
//!
//! Everything between the call and the endpoint is the same as in an agent, so what such a program
//! finds out about a service is what an agent would.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use hessian::transcode::JsonOptions;
use registry::Registry;
use wire::{Account, Budget, Group};

use crate::config::{ClusterPolicy, ClusterRules};
use crate::error::{CallError, Code};
use crate::gate::DirectGates;
use crate::invocation::Invocation;
use crate::invoke::invoke;
use crate::journal::Journal;
use crate::metrics::Hub;
use crate::offload::Threads;
use crate::reply::{ReplyReader, read_in_place, read_offloaded};
use crate::traffic::Traffic;
use crate::worker::{Worker, WorkerSetup};

/// Makes calls to the services of one registry. Lives on a tokio `LocalRuntime`, or in a
/// `LocalSet`.
pub struct Client(Rc<Worker>, Rc<Account>);

impl Client {
    /// A client called `name` towards its peers. `registry_name` is in errors.
    pub fn new(name: &str, registry_name: &str, registry: Registry, policy: ClusterPolicy) -> Self {
        // One caller that asks for itself: what it is answered is limited call by call.
        let budget = Budget::new(usize::MAX);
        let account = Account::shared(&budget.lease(), &Group::new(), &Group::new());
        let worker = Worker::new(WorkerSetup {
            journal: Journal::default(),
            index: 0,
            name: name.to_owned(),
            registries: vec![(registry_name.to_owned(), registry)],
            rules: Arc::new(ClusterRules { default: policy, rules: Vec::new() }),
            exports: Vec::new(),
            hub: Hub::new(&Code::NAMES),
            budget,
            endpoints: Group::new(),
            threads: Threads::one_per_core(),
            direct_gates: Arc::new(DirectGates::new(1)),
            traffic: Traffic::default(),
            own_ingresses: Arc::default(),
        });
        Self(worker, account)
    }

    /// Makes a call; its result as JSON text, in the form that `options` ask for.
    ///
    /// # Errors
    /// Whatever the table in [`crate::error`] lists.
    pub async fn call(
        &self,
        invocation: &Invocation<'_>,
        options: &JsonOptions,
    ) -> Result<Vec<u8>, CallError> {
        let reply = invoke(&self.0.outbound, 0, invocation, Instant::now()).await?;
        let json = |reader: &ReplyReader<'_>| reader.json();
        match read_in_place(&reply, options, json)? {
            Some(json) => Ok(json),
            None => read_offloaded(&reply, options, &self.1, self.0.threads(), json).await,
        }
    }

    /// Does what an agent's worker does every 100 ms: opens and closes connections as calls need
    /// them, and forgets what nobody uses.
    pub fn tend(&self) {
        self.0.outbound.sweep(Instant::now());
    }

    /// Ends all connections. Comes back when all that was sent is written.
    ///
    /// # Errors
    /// [`Code::ConnectionBroken`] if a connection broke before that, or before it was known.
    pub async fn close(self) -> Result<(), CallError> {
        self.0.close_connections().await.map_or(Ok(()), Err)
    }
}
