//! The watch of one service: read it whole, then follow the changes, and begin anew whenever that
//! chain may have a gap.

use std::collections::BTreeMap;
use std::time::Duration;

use dubbo_proto::ServiceKey;
use etcd_client::{
    Event, EventType, GetOptions, KeyValue, Txn, TxnOp, TxnOpResponse, WatchOptions, WatchResponse,
    WatchStream,
};
use tokio::sync::watch;
use tokio::time::Instant;
use wire::Backoff;

use crate::endpoint::{Freshness, NotUsed, Snapshot, Unused};
use crate::listing::{Leftover, Listing, resolve, unused};
use crate::memory::publish;

use super::connection::{Connection, EtcdError, Live};
use super::layout::{BadKey, Entry, Keys};
use super::new_backoff;

/// The longest answer that we read. 64 MiB are some fifty thousand Java providers of one service.
const MAX_MESSAGE_LEN: usize = 64 << 20;

/// As much of a key that cannot be read as callers are shown.
const MAX_SHOWN_LEN: usize = 200;

/// How often a quiet watch is asked to show that it still runs.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(30);

/// How long it may take to answer that.
const PROGRESS_TIMEOUT: Duration = Duration::from_secs(10);

pub(super) struct Follower {
    keys: Keys,
    connection: Connection,
    grace: Duration,
    wanted: ServiceKey,
    snapshots: watch::Sender<Snapshot>,
    /// All keys of the service. `None` for a key that is not for us.
    entries: BTreeMap<Vec<u8>, Option<Entry>>,
    /// Endpoints of a history that etcd has lost, kept until their owners had time to register again.
    ghosts: BTreeMap<Vec<u8>, Listing>,
    ghosts_until: Option<Instant>,
    /// The revision up to which `entries` is complete.
    revision: i64,
}

/// What ended one watch in good order.
#[derive(Debug, Eq, PartialEq)]
enum Gap {
    /// The history that we would need is compacted.
    Compacted,
}

impl Follower {
    pub(super) fn new(
        keys: Keys,
        connection: Connection,
        grace: Duration,
        wanted: ServiceKey,
        snapshots: watch::Sender<Snapshot>,
    ) -> Self {
        Self {
            keys,
            connection,
            grace,
            wanted,
            snapshots,
            entries: BTreeMap::new(),
            ghosts: BTreeMap::new(),
            ghosts_until: None,
            revision: 0,
        }
    }

    /// Runs until its task is aborted, or there will never be a connection again.
    pub(super) async fn run(mut self) {
        let mut backoff = new_backoff();
        while let Some(live) = self.connection.live().await {
            let connection = self.connection.clone();
            let outcome = tokio::select! {
                outcome = self.read_and_watch(&live, &mut backoff) => outcome,
                () = connection.lost(&live) => Err(EtcdError::Lost),
            };
            match outcome {
                // Not an error, but nothing to do in a tight loop either.
                Ok(Gap::Compacted) => tracing::debug!(service = %self.wanted, "watch compacted"),
                Err(error) => self.fail(&error),
            }
            tokio::time::sleep(backoff.next_wait()).await;
        }
    }

    fn fail(&mut self, error: &EtcdError) {
        self.snapshots.send_if_modified(|snapshot| {
            let was_current = snapshot.status == Freshness::Current;
            if was_current {
                snapshot.status = Freshness::Stale;
            }
            was_current
        });
        if matches!(error, EtcdError::Lost) {
            return;
        }
        let text = format!("watching {}: {error}", self.wanted);
        if self.connection.report(&text) {
            tracing::warn!(service = %self.wanted, %error, "watch failed, trying again");
        }
        self.connection.suspect();
    }

    async fn read_and_watch(
        &mut self,
        live: &Live,
        backoff: &mut Backoff,
    ) -> Result<Gap, EtcdError> {
        self.read(live).await?;
        backoff.reset();
        self.watch(live).await
    }

    /// Follows the changes since the last revision that is known.
    async fn watch(&mut self, live: &Live) -> Result<Gap, EtcdError> {
        let mut stream = self.open_watch(live).await?;
        let mut quiet = Quiet::default();
        loop {
            let message = tokio::select! {
                message = stream.message() => Some(message),
                () = tokio::time::sleep_until(quiet.deadline()) => None,
                () = sleep_until_option(self.ghosts_until) => {
                    self.forget_ghosts();
                    continue;
                }
            };
            let Some(message) = message else {
                if quiet.is_overdue() {
                    let (what, after) = ("waiting for a sign of the watch", PROGRESS_TIMEOUT);
                    return Err(EtcdError::Timeout { what, after });
                }
                let ask = stream.request_progress();
                self.connection.request("asking the watch for its progress", ask).await?;
                quiet.asked();
                continue;
            };
            let message =
                message.map_err(|source| EtcdError::Client { what: "watching", source })?;
            let Some(message) = message else {
                return Err(EtcdError::Ended { reason: "end of stream".into() });
            };
            quiet.heard(&message);
            if message.canceled() {
                return end_of(&message);
            }
            self.apply(&message);
        }
    }

    /// Reads all prefixes at one revision.
    async fn read(&mut self, live: &Live) -> Result<(), EtcdError> {
        let prefixes = self.keys.prefixes(&self.wanted.interface);
        let get = |prefix: String| TxnOp::get(prefix, Some(GetOptions::new().with_prefix()));
        let gets: Vec<_> = prefixes.into_iter().map(get).collect();
        let mut client = live.client.kv_client().max_decoding_message_size(MAX_MESSAGE_LEN);
        let read = client.txn(Txn::new().and_then(gets));
        let answer = self.connection.request("reading", read).await?;
        let revision = answer.header().map_or(0, etcd_client::ResponseHeader::revision);

        let mut entries = BTreeMap::new();
        for response in answer.op_responses() {
            let TxnOpResponse::Get(response) = response else { continue };
            for kv in response.kvs() {
                let entry = self.read_key(kv);
                entries.insert(kv.key().to_vec(), entry);
            }
        }
        let before = std::mem::replace(&mut self.entries, entries);
        if revision < self.revision {
            self.keep_as_ghosts(before);
        }
        self.ghosts.retain(|key, _| !self.entries.contains_key(key));
        self.revision = revision;
        self.publish();
        Ok(())
    }

    /// One key, with a warning if it is bad and was not so before.
    fn read_key(&self, kv: &KeyValue) -> Option<Entry> {
        match self.keys.read(&self.wanted, kv.key(), kv.value()) {
            Ok(entry) => entry,
            Err(error) => {
                let leftover = self.unreadable(kv.key(), &error);
                let entry = Some(Entry::Leftover(leftover));
                if self.entries.get(kv.key()) != Some(&entry) {
                    let key = String::from_utf8_lossy(kv.key());
                    tracing::warn!(%key, %error, "registry key skipped");
                }
                entry
            }
        }
    }

    /// Nobody knows for which version and group it was meant, so whoever asks is told of it.
    fn unreadable(&self, key: &[u8], error: &BadKey) -> Leftover {
        let key = String::from_utf8_lossy(key);
        let what = key.chars().take(MAX_SHOWN_LEN).collect();
        let unused = Unused { what, address: None, reason: NotUsed::Unreadable(error.to_string()) };
        let ServiceKey { version, group, .. } = self.wanted.clone();
        Leftover { version, group, unused }
    }

    fn keep_as_ghosts(&mut self, before: BTreeMap<Vec<u8>, Option<Entry>>) {
        tracing::warn!(
            service = %self.wanted,
            grace = ?self.grace,
            "etcd came back without its history, endpoints known before are kept for a while",
        );
        let usable = before.into_iter().filter_map(|(key, entry)| match entry? {
            Entry::Listing(listing) => Some((key, listing)),
            Entry::Leftover(_) => None,
        });
        self.ghosts.extend(usable);
        self.ghosts_until = Some(Instant::now() + self.grace);
    }

    fn forget_ghosts(&mut self) {
        self.ghosts.clear();
        self.ghosts_until = None;
        self.publish();
    }

    /// One watch per prefix on one stream, all from the revision after the one that was read.
    async fn open_watch(&self, live: &Live) -> Result<WatchStream, EtcdError> {
        let options = || {
            let options = WatchOptions::new().with_prefix().with_start_revision(self.revision + 1);
            Some(options.with_fragment())
        };
        let mut prefixes = self.keys.prefixes(&self.wanted.interface).into_iter();
        let first = prefixes.next().unwrap_or_default();
        let mut client = live.client.watch_client().max_decoding_message_size(MAX_MESSAGE_LEN);
        let open = async {
            let mut stream = client.watch(first, options()).await?;
            for prefix in prefixes {
                stream.watch(prefix, options()).await?;
            }
            Ok(stream)
        };
        self.connection.request("starting to watch", open).await
    }

    fn apply(&mut self, message: &WatchResponse) {
        if let Some(header) = message.header() {
            self.revision = self.revision.max(header.revision());
        }
        if message.events().is_empty() {
            return;
        }
        for event in message.events() {
            self.apply_event(event);
        }
        self.publish();
    }

    fn apply_event(&mut self, event: &Event) {
        let Some(kv) = event.kv() else { return };
        self.ghosts.remove(kv.key());
        match event.event_type() {
            EventType::Put => {
                let entry = self.read_key(kv);
                self.entries.insert(kv.key().to_vec(), entry);
            }
            EventType::Delete => {
                self.entries.remove(kv.key());
            }
        }
    }

    fn publish(&mut self) {
        if self.ghosts.is_empty() {
            self.ghosts_until = None;
        }
        let status = match self.ghosts_until {
            None => Freshness::Current,
            Some(_) => Freshness::Stale,
        };
        // The living come last: of two with one address, the last one counts.
        let listed = self.entries.values().flatten().filter_map(|entry| match entry {
            Entry::Listing(listing) => Some(listing),
            Entry::Leftover(_) => None,
        });
        let leftovers = self.entries.values().flatten().filter_map(|entry| match entry {
            Entry::Leftover(leftover) => Some(leftover),
            Entry::Listing(_) => None,
        });
        let endpoints = resolve(&self.wanted, self.ghosts.values().chain(listed));
        let unused = unused(&self.wanted, leftovers);
        publish(&self.snapshots, Snapshot { status, endpoints, unused });
    }
}

fn end_of(message: &WatchResponse) -> Result<Gap, EtcdError> {
    if 0 < message.compact_revision() {
        return Ok(Gap::Compacted);
    }
    let reason = match message.cancel_reason() {
        "" => "without a reason".to_owned(),
        reason => reason.to_owned(),
    };
    Err(EtcdError::Ended { reason })
}

async fn sleep_until_option(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}

/// Whether a watch that says nothing is alive. An etcd before 3.4 does not answer to the question, and
/// so a missing answer counts only once there has been one.
struct Quiet {
    heard_at: Instant,
    asked_at: Option<Instant>,
    answers: bool,
}

impl Default for Quiet {
    fn default() -> Self {
        Self { heard_at: Instant::now(), asked_at: None, answers: false }
    }
}

impl Quiet {
    fn deadline(&self) -> Instant {
        match self.asked_at {
            Some(asked_at) => asked_at + PROGRESS_TIMEOUT,
            None => self.heard_at + PROGRESS_INTERVAL,
        }
    }

    fn asked(&mut self) {
        self.asked_at = Some(Instant::now());
    }

    fn heard(&mut self, message: &WatchResponse) {
        self.answers |= self.asked_at.is_some() && message.events().is_empty();
        self.heard_at = Instant::now();
        self.asked_at = None;
    }

    fn is_overdue(&self) -> bool {
        self.asked_at.is_some() && self.answers
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use interop_harness::Etcd;
    use tokio::runtime::Handle;

    use super::*;
    use crate::config::{EtcdConfig, Layout};
    use crate::etcd::settings::Settings;

    /// The history is compacted between reading and watching: the watch says so, and reading anew
    /// finds what has happened.
    #[tokio::test(flavor = "multi_thread")]
    async fn a_compacted_history_is_read_anew() {
        let etcd = Etcd::start().unwrap();
        let keys = Keys::new(&Layout::contest()).unwrap();
        let config = EtcdConfig::new([etcd.client_url()], Layout::contest());
        let settings = Arc::new(Settings::new(config).unwrap());
        let (connection, _connector) = Connection::start(&settings, &keys, &Handle::current());
        let live = connection.live().await.unwrap();
        let (sender, snapshots) = watch::channel(Snapshot::default());
        let wanted = "a.B".parse().unwrap();
        let mut follower = Follower::new(keys, connection, settings.grace, wanted, sender);

        follower.read(&live).await.unwrap();
        for port in 1..4 {
            etcd.etcdctl(&["put", &format!("/dubbomesh/a.B/h:{port}"), "1"]).unwrap();
        }
        let revision = (follower.revision + 3).to_string();
        etcd.etcdctl(&["compact", "--physical", &revision]).unwrap();
        assert_eq!(follower.watch(&live).await.unwrap(), Gap::Compacted);
        follower.read(&live).await.unwrap();
        assert_eq!(snapshots.borrow().endpoints.len(), 3);
    }
}
