//! The watch of one service: read it whole, then follow the changes, and begin again whenever that
//! chain may have a gap.

use std::sync::Arc;

use etcd_client::{
    Event, EventType, GetOptions, KeyValue, Txn, TxnOp, TxnOpResponse, WatchOptions,
};

use crate::layout::{Entry, Paths};
use crate::lent::{LentReader, LentWatch};
use crate::store::{Change, Item, News};

use super::connection::{EtcdError, Live, SharedConnection};
use super::stream::{MAX_MESSAGE_LEN, OpenWatch, Range};

type ReadItem<E> = Box<dyn Fn(&[u8], &[u8]) -> Item<E> + Send>;

/// The watch of all keys below some prefixes, each of which becomes an item.
pub(super) struct EtcdWatch<E> {
    /// Each ends with a slash, so that `IFoo` does not match `IFoo2`.
    prefixes: Vec<String>,
    /// Makes an item of a key and its value.
    read: ReadItem<E>,
    /// Open from the revision after the one that was read, as soon as there is time for it.
    open: Option<OpenWatch>,
    /// The revision up to which our reader knows everything.
    revision: i64,
}

impl EtcdWatch<Entry> {
    /// That of an interface.
    pub(super) fn of_service(
        paths: Paths,
        connection: SharedConnection,
        interface: &str,
    ) -> LentWatch<Self> {
        let folders = paths.folders(interface).into_iter();
        let prefixes = folders.map(|folder| folder + "/").collect();
        let read = move |key: &[u8], value: &[u8]| Item {
            key: key.to_vec(),
            read: paths.read(key, value),
        };
        Self::new(prefixes, read, connection)
    }
}

impl<E: Send> EtcdWatch<E> {
    pub(super) fn new(
        prefixes: Vec<String>,
        read: impl Fn(&[u8], &[u8]) -> Item<E> + Send + 'static,
        connection: SharedConnection,
    ) -> LentWatch<Self> {
        let read = Box::new(read);
        LentWatch::new(connection, Self { prefixes, read, open: None, revision: 0 })
    }

    fn item(&self, kv: &KeyValue) -> Item<E> {
        (self.read)(kv.key(), kv.value())
    }

    /// What to watch, from the revision after the one that was read.
    fn ranges(&self) -> Vec<Range> {
        let options = WatchOptions::new().with_prefix().with_start_revision(self.revision + 1);
        let options = options.with_fragment();
        let range = |key: &String| Range { key: key.clone(), options: options.clone() };
        self.prefixes.iter().map(range).collect()
    }

    fn change(&self, event: &Event) -> Option<Change<E>> {
        let kv = event.kv()?;
        Some(match event.event_type() {
            EventType::Put => Change::Put(self.item(kv)),
            EventType::Delete => Change::Gone(kv.key().to_vec()),
        })
    }
}

impl<E: Send> LentReader for EtcdWatch<E> {
    type Live = Live;
    type News = News<E>;
    type Error = EtcdError;

    /// Reads all folders at one revision.
    async fn begin(&mut self, live: &Arc<Live>) -> Result<News<E>, EtcdError> {
        self.open = None;
        let get = |prefix: String| TxnOp::get(prefix, Some(GetOptions::new().with_prefix()));
        let gets: Vec<_> = self.prefixes.iter().cloned().map(get).collect();
        let mut client = live.kv_client().max_decoding_message_size(MAX_MESSAGE_LEN);
        let answer = live.request("reading", client.txn(Txn::new().and_then(gets))).await?;
        let revision = answer.header().map_or(0, etcd_client::ResponseHeader::revision);
        let mut items = Vec::new();
        for response in answer.op_responses() {
            let TxnOpResponse::Get(response) = response else { continue };
            items.extend(response.kvs().iter().map(|kv| self.item(kv)));
        }
        let history_lost = revision < self.revision;
        self.revision = revision;
        Ok(News::Whole { items, n_cut: 0, history_lost, refusal: None })
    }

    async fn next(&mut self, live: &Arc<Live>) -> Result<News<E>, EtcdError> {
        if self.open.is_none() {
            self.open = Some(Box::pin(live.watches().open(self.ranges())).await?);
        }
        loop {
            let Some(open) = &mut self.open else { return Err(EtcdError::Compacted) };
            let message = open.message().await?;
            if let Some(header) = message.header() {
                self.revision = self.revision.max(header.revision());
            }
            let changes: Vec<_> =
                message.events().iter().filter_map(|event| self.change(event)).collect();
            if !changes.is_empty() {
                return Ok(News::Changes(changes));
            }
        }
    }

    fn handle_end(&mut self) {
        self.open = None;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use interop_harness::Etcd;
    use tokio::runtime::Handle;

    use super::*;
    use crate::config::EtcdConfig;
    use crate::etcd::connection;
    use crate::etcd::rule::EtcdRule;
    use crate::etcd::settings::EtcdSettings;
    use crate::layout::Layout;
    use crate::store::{StoreError, Watch};

    async fn whole_len(watch: &mut dyn Watch) -> usize {
        assert!(watch.ready().await);
        match watch.next().await {
            Ok(News::Whole { items, history_lost: false, .. }) => items.len(),
            other => panic!("{other:?}"),
        }
    }

    /// The history is compacted between reading and watching: the watch says so, and reading again
    /// finds what has happened.
    #[tokio::test(flavor = "multi_thread")]
    async fn a_compacted_history_is_read_anew() {
        let etcd = Etcd::start().unwrap();
        let paths = Paths::new(&Layout::contest()).unwrap();
        let config = EtcdConfig::new([etcd.client_url()], Layout::contest());
        let settings = Arc::new(EtcdSettings::new(config).unwrap());
        let (connection, _connector) = connection::start(&settings, &paths, &Handle::current());
        let mut watch = EtcdWatch::of_service(paths, connection, "a.B");

        assert_eq!(whole_len(&mut watch).await, 0);
        for port in 1..4 {
            etcd.etcdctl(&["put", &format!("/dubbomesh/a.B/h:{port}"), "1"]).unwrap();
        }
        let revision = (watch.reader.revision + 3).to_string();
        etcd.etcdctl(&["compact", "--physical", &revision]).unwrap();
        assert_eq!(watch.next().await, Err(StoreError::Gap));
        assert_eq!(whole_len(&mut watch).await, 3);
    }

    /// An agent with hundreds of services has thousands of watches, and each rests in one of
    /// these.
    #[tokio::test(flavor = "multi_thread")]
    async fn a_watch_that_rests_is_small() {
        let etcd = Etcd::start().unwrap();
        let paths = Paths::new(&Layout::contest()).unwrap();
        let config = EtcdConfig::new([etcd.client_url()], Layout::contest());
        let settings = Arc::new(EtcdSettings::new(config).unwrap());
        let (connection, _connector) = connection::start(&settings, &paths, &Handle::current());
        let live = connection.live().await.expect("a connection");
        let mut rule = EtcdRule::new("/a".into(), connection.clone());
        let mut watch = EtcdWatch::of_service(paths, connection, "a.B");
        assert!(size_of_val(&watch.reader.next(&live)) < 2048);
        assert!(size_of_val(&rule.reader.next(&live)) < 2048);
    }
}
