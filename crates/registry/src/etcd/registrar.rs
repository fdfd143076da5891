//! The registrations of this process: all on one lease, written again whenever they get lost.
//!
//! Invariants:
//! - A key is deleted only while it hangs on our lease.
//! - `lease` is `None`, or the lease that our keys hang on, as far as we know.
//! - When the last handle is gone, the lease is revoked, and with it everything that is left.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use etcd_client::{Compare, CompareOp, GetOptions, LeaseTimeToLiveOptions, PutOptions, Txn, TxnOp};
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::MissedTickBehavior;
use wire::Backoff;

use crate::registry::Withdraw;

use super::connection::{Connection, EtcdError, Live};
use super::layout::Value;
use super::new_backoff;
use super::settings::Settings;

/// The lease is renewed this many times in its life: two renewals may fail.
const RENEWALS: u32 = 3;

/// The handle on the task that holds the lease.
#[derive(Clone, Debug)]
pub(super) struct Registrar {
    commands: mpsc::UnboundedSender<Command>,
    next_id: Arc<AtomicU64>,
}

#[derive(Debug)]
enum Command {
    Add { id: u64, entry: Entry },
    Remove { id: u64, done: oneshot::Sender<()> },
}

#[derive(Debug)]
struct Entry {
    key: String,
    value: Value,
    /// Whether etcd has it, on our lease.
    established: watch::Sender<bool>,
}

impl Registrar {
    pub(super) fn start(settings: &Settings, connection: &Connection, runtime: &Handle) -> Self {
        // Unbounded, because dropping a registration cannot wait; its callers bound it.
        let (commands, receiver) = mpsc::unbounded_channel();
        let keeper = Keeper {
            connection: connection.clone(),
            commands: receiver,
            ttl_s: settings.lease_ttl_s,
            lease: None,
            entries: BTreeMap::new(),
            removals: Vec::new(),
        };
        runtime.spawn(keeper.run());
        Self { commands, next_id: Arc::default() }
    }

    /// Registers a key; returns whether it is there, and how to remove it.
    pub(super) fn add(&self, key: String, value: Value) -> (watch::Receiver<bool>, Withdraw) {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let (established, receiver) = watch::channel(false);
        let entry = Entry { key, value, established };
        // If the task is gone, so is the runtime, and with it everybody who could care.
        let _ = self.commands.send(Command::Add { id, entry });
        let commands = self.commands.clone();
        let withdraw = move |done| {
            let _ = commands.send(Command::Remove { id, done });
        };
        (receiver, Box::new(withdraw))
    }
}

struct Keeper {
    connection: Connection,
    commands: mpsc::UnboundedReceiver<Command>,
    ttl_s: i64,
    lease: Option<i64>,
    entries: BTreeMap<u64, Entry>,
    /// Keys to delete, and who waits for that.
    removals: Vec<(String, oneshot::Sender<()>)>,
}

impl Keeper {
    async fn run(mut self) {
        let mut backoff = new_backoff();
        let mut last = None;
        loop {
            let connection = self.connection.clone();
            let live = tokio::select! {
                live = connection.live() => live,
                command = self.commands.recv() => match command {
                    Some(command) => {
                        self.take(command);
                        continue;
                    }
                    None => break,
                },
            };
            // With the last handle the connection's task ends, too.
            let Some(live) = live else { break };
            last = Some(live.clone());
            let outcome = tokio::select! {
                outcome = self.serve(&live, &mut backoff) => outcome,
                () = connection.lost(&live) => Err(EtcdError::Lost),
            };
            match outcome {
                Ok(()) => break,
                Err(EtcdError::Lost) => {}
                Err(error) => {
                    if self.connection.report(&format!("registering: {error}")) {
                        tracing::warn!(%error, "registration failed, trying again");
                    }
                    self.connection.suspect();
                }
            }
            tokio::time::sleep(backoff.next_wait()).await;
        }
        if let Some(live) = last {
            self.revoke(&live).await;
        }
    }

    /// Keeps everything registered over one connection. Ends well only when all handles are gone.
    async fn serve(&mut self, live: &Live, backoff: &mut Backoff) -> Result<(), EtcdError> {
        let ttl = Duration::from_secs(self.ttl_s.unsigned_abs());
        let mut renewals = tokio::time::interval(ttl / RENEWALS);
        renewals.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                command = self.commands.recv() => match command {
                    Some(command) => self.take(command),
                    None => return Ok(()),
                },
                // The first tick comes at once: what a new connection finds may be anything.
                _ = renewals.tick() => self.renew(live).await?,
            }
            self.write(live).await?;
            backoff.reset();
        }
    }

    fn take(&mut self, command: Command) {
        match command {
            Command::Add { id, entry } => {
                self.entries.insert(id, entry);
            }
            Command::Remove { id, done } => {
                let Some(entry) = self.entries.remove(&id) else { return };
                entry.established.send_replace(false);
                // Another registration of this process may have the same key.
                if self.entries.values().any(|other| other.key == entry.key) {
                    let _ = done.send(());
                    return;
                }
                self.removals.push((entry.key, done));
            }
        }
    }

    /// Renews the lease and looks which of our keys still hang on it.
    async fn renew(&mut self, live: &Live) -> Result<(), EtcdError> {
        let Some(lease) = self.lease else { return Ok(()) };
        let mut client = live.client.lease_client();
        let renewed = self.connection.request("renewing the lease", client.keep_alive(lease)).await;
        match renewed {
            Ok(_) => {}
            Err(EtcdError::Client { source, .. }) if is_lease_lost(&source) => {
                self.forget_lease();
                return Ok(());
            }
            Err(error) => return Err(error),
        }
        let options = Some(LeaseTimeToLiveOptions::new().with_keys());
        let ask = client.time_to_live(lease, options);
        let answer = self.connection.request("asking for the lease's keys", ask).await?;
        if answer.ttl() <= 0 {
            self.forget_lease();
            return Ok(());
        }
        for entry in self.entries.values() {
            let is_ours = answer.keys().iter().any(|key| key == entry.key.as_bytes());
            if is_ours || !*entry.established.borrow() {
                continue;
            }
            // Under another lease, it is a successor at the same address, and its to keep.
            let options = Some(GetOptions::new().with_count_only());
            let mut client = live.client.kv_client();
            let count = client.get(entry.key.as_str(), options);
            if self.connection.request("looking for a key", count).await?.count() == 0 {
                tracing::warn!(key = %entry.key, "registration is missing in etcd, writing it again");
                entry.established.send_replace(false);
            }
        }
        Ok(())
    }

    /// Brings etcd to what it should be: removals, the lease, the missing keys.
    async fn write(&mut self, live: &Live) -> Result<(), EtcdError> {
        while let Some((key, _)) = self.removals.last() {
            if let Some(lease) = self.lease {
                let delete = delete_if_ours(key, lease);
                let mut client = live.client.kv_client();
                self.connection.request("withdrawing", client.txn(delete)).await?;
            }
            if let Some((_, done)) = self.removals.pop() {
                let _ = done.send(());
            }
        }
        if self.entries.values().all(|entry| *entry.established.borrow()) {
            return Ok(());
        }
        let lease = self.lease(live).await?;
        for entry in self.entries.values().filter(|entry| !*entry.established.borrow()) {
            let options = Some(PutOptions::new().with_lease(lease));
            let mut client = live.client.kv_client();
            let put = client.put(entry.key.as_str(), entry.value.text(lease), options);
            match self.connection.request("registering", put).await {
                Ok(_) => entry.established.send_replace(true),
                Err(EtcdError::Client { what, source }) if is_lease_lost(&source) => {
                    self.forget_lease();
                    return Err(EtcdError::Client { what, source });
                }
                Err(error) => return Err(error),
            };
        }
        Ok(())
    }

    async fn lease(&mut self, live: &Live) -> Result<i64, EtcdError> {
        if let Some(lease) = self.lease {
            return Ok(lease);
        }
        let mut client = live.client.lease_client();
        let grant = client.grant(self.ttl_s, None);
        let lease = self.connection.request("asking for a lease", grant).await?.id();
        self.lease = Some(lease);
        Ok(lease)
    }

    fn forget_lease(&mut self) {
        if let Some(lease) = self.lease.take() {
            tracing::warn!(
                lease,
                registrations = self.entries.len(),
                "lease lost, registering again"
            );
        }
        for entry in self.entries.values() {
            entry.established.send_replace(false);
        }
    }

    async fn revoke(&mut self, live: &Live) {
        if let Some(lease) = self.lease.take() {
            let mut client = live.client.lease_client();
            let revoked =
                self.connection.request("giving up the lease", client.revoke(lease)).await;
            if let Err(error) = revoked {
                tracing::debug!(%error, "registrations end with their lease");
            }
        }
    }
}

fn delete_if_ours(key: &str, lease: i64) -> Txn {
    Txn::new()
        .when([Compare::lease(key, CompareOp::Equal, lease)])
        .and_then([TxnOp::delete(key, None)])
}

fn is_lease_lost(error: &etcd_client::Error) -> bool {
    match error {
        // What the client makes of a lifetime of 0.
        etcd_client::Error::LeaseKeepAliveError(_) => true,
        etcd_client::Error::GRpcStatus(status) => status.message().contains("lease not found"),
        _ => false,
    }
}
