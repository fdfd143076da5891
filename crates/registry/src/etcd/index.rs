//! The services that etcd holds, read and watched as a whole.
//!
//! This costs a range of keys and one watch, whatever callers ask for.

use std::convert::Infallible;
use std::sync::Arc;

use dubbo_proto::ServiceKey;
use etcd_client::{EventType, GetOptions, WatchFilterType, WatchOptions};
use wire::Backoff;

use crate::directory::{Directory, Presence};
use crate::index::{IndexReader, IndexTask, ServiceIndex, ServiceList};
use crate::layout::Paths;
use crate::on_demand::Progress;

use super::connection::{EtcdError, Live};
use super::stream::{MAX_MESSAGE_LEN, Range};

/// Keys of one answer; those of Java providers have about a kilobyte.
const PAGE_LEN: i64 = 4000;

/// Keys that are read at most: a registry of more is not asked for its services.
const MAX_KEYS: usize = 500_000;

/// A handle on the task.
pub(super) type EtcdIndex = ServiceIndex<EtcdReader, Live>;

/// The services of all keys.
#[derive(Default)]
pub(super) struct EtcdServices(Directory);

impl ServiceList for EtcdServices {
    type Answer = Infallible;

    fn is_full(&self) -> bool {
        self.0.is_full()
    }

    fn presence(&self, wanted: &ServiceKey, progress: Progress) -> Option<Presence> {
        Some(if self.0.offers(wanted) { Presence::Offered } else { progress.denied() })
    }

    fn offers(answer: &Infallible, _: &ServiceKey) -> bool {
        match *answer {}
    }

    fn interfaces(&self) -> Vec<String> {
        self.0.interfaces()
    }
}

/// Reads keys.
#[derive(Clone)]
pub(super) struct EtcdReader {
    pub(super) paths: Paths,
    /// What the keys of mappings begin with, if there are any.
    pub(super) mappings: Option<String>,
}

impl IndexReader<Live> for EtcdReader {
    type List = EtcdServices;
    type Error = EtcdError;

    async fn read_and_watch(
        &self,
        live: &Arc<Live>,
        index: &IndexTask<EtcdServices>,
        backoff: &mut Backoff,
    ) -> Result<(), EtcdError> {
        let revision = self.read(live, index).await?;
        backoff.reset();
        let options = WatchOptions::new().with_prefix().with_start_revision(revision + 1);
        let options = options.with_filters([WatchFilterType::NoDelete]).with_fragment();
        let keys = [Some(self.prefix()), self.other_prefix().map(str::to_owned)];
        let range = |key| Range { key, options: options.clone() };
        let mut open = live.watches().open(keys.into_iter().flatten().map(range).collect()).await?;
        loop {
            let message = tokio::select! {
                message = open.message() => message?,
                () = index.idle() => return Ok(()),
            };
            let puts = message.events().iter().filter(|it| it.event_type() == EventType::Put);
            index.change(|EtcdServices(directory)| {
                for kv in puts.filter_map(|event| event.kv()) {
                    self.note(kv.key(), directory);
                }
            });
        }
    }
}

impl EtcdReader {
    /// What all keys begin with.
    fn prefix(&self) -> String {
        format!("{}/", self.paths.root())
    }

    /// That of mappings, if they are elsewhere.
    fn other_prefix(&self) -> Option<&str> {
        self.mappings.as_deref().filter(|mappings| !mappings.starts_with(&self.prefix()))
    }

    fn note(&self, key: &[u8], directory: &mut Directory) {
        let mapping = self.mappings.as_deref().map(str::as_bytes);
        match mapping.and_then(|mappings| std::str::from_utf8(key.strip_prefix(mappings)?).ok()) {
            // Only the applications know which versions and groups.
            Some(interface) => directory.add(interface, None),
            None => self.paths.note(key, directory),
        }
    }

    /// Reads all keys at one revision, and returns it.
    async fn read(&self, live: &Live, index: &IndexTask<EtcdServices>) -> Result<i64, EtcdError> {
        let (mut revision, mut directory) = (0, Directory::default());
        for prefix in [Some(&*self.prefix()), self.other_prefix()].into_iter().flatten() {
            revision = self.read_below(live, prefix, revision, &mut directory).await?;
        }
        index.take(EtcdServices(directory));
        Ok(revision)
    }

    /// Reads the keys that begin with `prefix`, at `revision` unless that is 0.
    async fn read_below(
        &self,
        live: &Live,
        prefix: &str,
        mut revision: i64,
        directory: &mut Directory,
    ) -> Result<i64, EtcdError> {
        let mut client = live.kv_client().max_decoding_message_size(MAX_MESSAGE_LEN);
        let (mut from, mut n_keys) = (prefix.as_bytes().to_vec(), 0);
        let end = end_of_prefix(&from);
        loop {
            let options = GetOptions::new()
                .with_range(end.clone())
                .with_keys_only()
                .with_limit(PAGE_LEN)
                .with_revision(revision);
            let get = client.get(from, Some(options));
            let answer = live.request("reading the list of services", get).await?;
            revision = answer.header().map_or(revision, |header| match revision {
                0 => header.revision(),
                revision => revision,
            });
            for kv in answer.kvs() {
                self.note(kv.key(), directory);
            }
            n_keys += answer.kvs().len();
            if MAX_KEYS < n_keys {
                *directory = Directory::full();
            }
            match answer.kvs().last().filter(|_| answer.more() && !directory.is_full()) {
                Some(last) => from = [last.key(), &[0]].concat(),
                None => break,
            }
        }
        Ok(revision)
    }
}

/// The first key after all that begin with `prefix`, which ends with a slash.
fn end_of_prefix(prefix: &[u8]) -> Vec<u8> {
    let mut end = prefix.to_vec();
    if let Some(last) = end.last_mut() {
        *last += 1;
    }
    end
}
