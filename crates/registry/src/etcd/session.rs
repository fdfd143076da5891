//! The session of this process in etcd: a lease that all its keys hang on.
//!
//! Invariants:
//! - A key is deleted only while it hangs on our lease.
//! - `lease` is `None`, or the lease that our keys hang on, as far as we know.

use std::time::Duration;

use dubbo_proto::application::add_application;
use etcd_client::{
    Compare, CompareOp, GetOptions, KeyValue, LeaseTimeToLiveOptions, PutOptions, Txn, TxnOp,
};

use crate::layout::{Placed, Value};
use crate::lent::SessionKeeper;

use super::connection::{EtcdError, Live};

/// A list that changes this often while a name is added to it is written later.
const MAX_TRIES: usize = 8;

/// The lease is renewed this many times in its life: two renewals may fail.
const RENEWALS: u32 = 3;

pub(super) struct EtcdSession {
    pub(super) ttl_s: i64,
    pub(super) lease: Option<i64>,
}

impl EtcdSession {
    /// Adds a name to a list that others write, too.
    async fn join(&self, live: &Live, path: &str, name: &str) -> Result<(), EtcdError> {
        for _ in 0..MAX_TRIES {
            let mut client = live.kv_client();
            let get = client.get(path, None);
            let answer = live.request("reading a mapping", get).await?;
            let known = answer.kvs().first();
            let text = known.map(|kv| String::from_utf8_lossy(kv.value()).into_owned());
            let revision = known.map_or(0, KeyValue::mod_revision);
            let text = text.unwrap_or_default();
            let Some(text) = add_application(&text, name) else { return Ok(()) };
            let put = Txn::new()
                .when([Compare::mod_revision(path, CompareOp::Equal, revision)])
                .and_then([TxnOp::put(path, text, None)]);
            let put = client.txn(put);
            if live.request("writing a mapping", put).await?.succeeded() {
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
        let lease = live.request("asking for a lease", grant).await?.id();
        self.lease = Some(lease);
        Ok(lease)
    }
}

impl SessionKeeper for EtcdSession {
    type Live = Live;
    type Error = EtcdError;

    /// A lease has nothing to do with connections.
    fn goes_on(_: &Live, _: &Live) -> bool {
        true
    }

    fn handle_end(&mut self) {
        self.lease = None;
    }

    fn keep_interval(&self, _: Option<&Live>) -> Duration {
        Duration::from_secs(self.ttl_s.unsigned_abs()) / RENEWALS
    }

    /// Renews the lease and looks which of our keys still hang on it.
    async fn keep(&mut self, live: &Live, held: &[Placed]) -> Result<Vec<Placed>, EtcdError> {
        let Some(lease) = self.lease else { return Ok(Vec::new()) };
        let mut client = live.lease_client();
        live.request("renewing the lease", client.keep_alive(lease)).await?;
        let options = Some(LeaseTimeToLiveOptions::new().with_keys());
        let ask = client.time_to_live(lease, options);
        let answer = live.request("asking for the lease's keys", ask).await?;
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
            if live.request("looking for a key", count).await?.count() == 0 {
                missing.push(entry.clone());
            }
        }
        Ok(missing)
    }

    async fn put(&mut self, live: &Live, entry: &Placed) -> Result<(), EtcdError> {
        if let Value::Member(name) = &entry.value {
            return self.join(live, &entry.path, name).await;
        }
        if let Value::Document(text) = &entry.value {
            let mut client = live.kv_client();
            let put = client.put(entry.path.as_str(), text.as_bytes(), None);
            return live.request("writing metadata", put).await.map(|_| ());
        }
        let lease = self.lease(live).await?;
        let options = Some(PutOptions::new().with_lease(lease));
        let mut client = live.kv_client();
        let put = client.put(entry.path.as_str(), entry.value.text(lease), options);
        live.request("registering", put).await.map(|_| ())
    }

    async fn remove(&mut self, live: &Live, entry: &Placed) -> Result<(), EtcdError> {
        let Some(lease) = self.lease else { return Ok(()) };
        if entry.value.stays() {
            return Ok(());
        }
        let mut client = live.kv_client();
        let delete = client.txn(delete_if_ours(&entry.path, lease));
        live.request("withdrawing", delete).await.map(|_| ())
    }

    async fn close(&mut self, live: &Live) -> Result<(), EtcdError> {
        let Some(lease) = self.lease.take() else { return Ok(()) };
        let mut client = live.lease_client();
        live.request("giving up the lease", client.revoke(lease)).await.map(|_| ())
    }
}

fn delete_if_ours(key: &str, lease: i64) -> Txn {
    Txn::new()
        .when([Compare::lease(key, CompareOp::Equal, lease)])
        .and_then([TxnOp::delete(key, None)])
}
