//! The session of this process in etcd: a lease that all its keys hang on.
//!
//! Invariants:
//! - A key is deleted only while it hangs on our lease.
//! - `lease` is `None`, or the lease that our keys hang on, as far as we know.

use std::sync::Arc;
use std::time::Duration;

use dubbo_proto::application::add_application;
use etcd_client::{
    Compare, CompareOp, GetOptions, KeyValue, LeaseTimeToLiveOptions, PutOptions, Txn, TxnOp,
};

use crate::layout::{Placed, Value};
use crate::store::{StoreError, StoreSession, Wait};

use super::connection::{EtcdError, Live, SharedConnection};
use super::settings::EtcdSettings;

/// A list that changes this often while a name is added to it is written later.
const MAX_TRIES: usize = 8;

/// The lease is renewed this many times in its life: two renewals may fail.
const RENEWALS: u32 = 3;

pub(super) struct EtcdSession {
    connection: SharedConnection,
    ttl_s: i64,
    live: Option<Arc<Live>>,
    lease: Option<i64>,
}

impl EtcdSession {
    pub(super) fn new(settings: &EtcdSettings, connection: &SharedConnection) -> Self {
        let connection = connection.clone();
        Self { connection, ttl_s: settings.lease_ttl_s, live: None, lease: None }
    }

    /// Renews the lease and looks which of our keys still hang on it.
    async fn renew(&self, live: &Live, held: &[Placed]) -> Result<Vec<Placed>, EtcdError> {
        let Some(lease) = self.lease else { return Ok(Vec::new()) };
        let mut client = live.lease_client();
        self.connection.request("renewing the lease", client.keep_alive(lease)).await?;
        let options = Some(LeaseTimeToLiveOptions::new().with_keys());
        let ask = client.time_to_live(lease, options);
        let answer = self.connection.request("asking for the lease's keys", ask).await?;
        if answer.ttl() <= 0 {
            return Err(EtcdError::LeaseLost);
        }
        let mut missing = Vec::new();
        // What belongs to nobody hangs on no lease.
        for entry in held.iter().filter(|entry| !entry.value.stays()) {
            if answer.keys().iter().any(|key| key == entry.path.as_bytes()) {
                continue;
            }
            // Under another lease, it is a successor at the same address, and its to keep.
            let options = Some(GetOptions::new().with_count_only());
            let mut client = live.kv_client();
            let count = client.get(entry.path.as_str(), options);
            if self.connection.request("looking for a key", count).await?.count() == 0 {
                missing.push(entry.clone());
            }
        }
        Ok(missing)
    }

    async fn write(&mut self, live: &Live, entry: &Placed) -> Result<(), EtcdError> {
        if let Value::Member(name) = &entry.value {
            return self.join(live, &entry.path, name).await;
        }
        if let Value::Document(text) = &entry.value {
            let mut client = live.kv_client();
            let put = client.put(entry.path.as_str(), text.as_bytes(), None);
            return self.connection.request("writing metadata", put).await.map(|_| ());
        }
        let lease = self.lease(live).await?;
        let options = Some(PutOptions::new().with_lease(lease));
        let mut client = live.kv_client();
        let put = client.put(entry.path.as_str(), entry.value.text(lease), options);
        self.connection.request("registering", put).await.map(|_| ())
    }

    /// Adds a name to a list that others write, too.
    async fn join(&self, live: &Live, path: &str, name: &str) -> Result<(), EtcdError> {
        for _ in 0..MAX_TRIES {
            let mut client = live.kv_client();
            let get = client.get(path, None);
            let answer = self.connection.request("reading a mapping", get).await?;
            let known = answer.kvs().first();
            let text = known.map(|kv| String::from_utf8_lossy(kv.value()).into_owned());
            let revision = known.map_or(0, KeyValue::mod_revision);
            let text = text.unwrap_or_default();
            let Some(text) = add_application(&text, name) else { return Ok(()) };
            let put = Txn::new()
                .when([Compare::mod_revision(path, CompareOp::Equal, revision)])
                .and_then([TxnOp::put(path, text, None)]);
            let put = client.txn(put);
            if self.connection.request("writing a mapping", put).await?.succeeded() {
                return Ok(());
            }
        }
        Err(EtcdError::Compacted)
    }

    async fn lease(&mut self, live: &Live) -> Result<i64, EtcdError> {
        if let Some(lease) = self.lease {
            return Ok(lease);
        }
        let mut client = live.lease_client();
        let grant = client.grant(self.ttl_s, None);
        let lease = self.connection.request("asking for a lease", grant).await?.id();
        self.lease = Some(lease);
        Ok(lease)
    }

    async fn delete(&self, live: &Live, entry: &Placed) -> Result<(), EtcdError> {
        let Some(lease) = self.lease else { return Ok(()) };
        if entry.value.stays() {
            return Ok(());
        }
        let mut client = live.kv_client();
        let delete = client.txn(delete_if_ours(&entry.path, lease));
        self.connection.request("withdrawing", delete).await.map(|_| ())
    }

    fn outcome<T>(&mut self, result: Result<T, EtcdError>) -> Result<T, StoreError> {
        result.map_err(|error| {
            if is_lease_lost(&error) {
                self.lease = None;
                return StoreError::SessionLost;
            }
            self.connection.store_error(&error)
        })
    }
}

impl StoreSession for EtcdSession {
    fn ready(&mut self) -> Wait<'_, bool> {
        Box::pin(async {
            let live = self.connection.lent.live().await;
            let is_there = live.is_some();
            // The last one stays, so that closing can still try.
            self.live = live.or(self.live.take());
            is_there
        })
    }

    fn lost(&mut self) -> Wait<'_, ()> {
        Box::pin(async {
            if let Some(live) = &self.live {
                self.connection.lent.lost(live).await;
            }
        })
    }

    fn keep_interval(&self) -> Duration {
        Duration::from_secs(self.ttl_s.unsigned_abs()) / RENEWALS
    }

    fn keep<'a>(&'a mut self, held: &'a [Placed]) -> Wait<'a, Result<Vec<Placed>, StoreError>> {
        Box::pin(async {
            let Some(live) = self.live.clone() else { return Err(StoreError::Away) };
            let kept = self.connection.lent.while_live(&live, self.renew(&live, held)).await;
            self.outcome(kept)
        })
    }

    fn put<'a>(&'a mut self, entry: &'a Placed) -> Wait<'a, Result<(), StoreError>> {
        Box::pin(async {
            let Some(live) = self.live.clone() else { return Err(StoreError::Away) };
            let connection = self.connection.clone();
            let put = connection.lent.while_live(&live, self.write(&live, entry)).await;
            self.outcome(put)
        })
    }

    fn remove<'a>(&'a mut self, entry: &'a Placed) -> Wait<'a, Result<(), StoreError>> {
        Box::pin(async {
            let Some(live) = self.live.clone() else { return Err(StoreError::Away) };
            let removed = self.connection.lent.while_live(&live, self.delete(&live, entry)).await;
            self.outcome(removed)
        })
    }

    fn close(&mut self) -> Wait<'_, ()> {
        Box::pin(async {
            let (Some(lease), Some(live)) = (self.lease.take(), &self.live) else { return };
            let mut client = live.lease_client();
            let revoke = client.revoke(lease);
            if let Err(error) = self.connection.request("giving up the lease", revoke).await {
                tracing::debug!(%error, "registrations end with their lease");
            }
        })
    }

    fn report(&mut self, error: &str) -> bool {
        self.connection.lent.report(error)
    }
}

fn delete_if_ours(key: &str, lease: i64) -> Txn {
    Txn::new()
        .when([Compare::lease(key, CompareOp::Equal, lease)])
        .and_then([TxnOp::delete(key, None)])
}

fn is_lease_lost(error: &EtcdError) -> bool {
    match error {
        EtcdError::LeaseLost => true,
        // What the client makes of a lifetime of 0.
        EtcdError::Client { source: etcd_client::Error::LeaseKeepAliveError(_), .. } => true,
        EtcdError::Client { source: etcd_client::Error::GRpcStatus(status), .. } => {
            status.message().contains("lease not found")
        }
        _ => false,
    }
}
