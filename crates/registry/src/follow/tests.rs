//! A scripted store: it says what the test tells it to say.

use tokio::sync::mpsc;
use tokio::time::timeout;

use super::*;
use crate::address::parse_listing;
use crate::endpoint::{Freshness, Snapshot};
use crate::entry_list::KeptList;
use crate::store::{Change, Item, News, Wait};
use crate::view::View;

const LONG: Duration = Duration::from_secs(40);

struct Scripted {
    script: mpsc::UnboundedReceiver<Result<News, StoreError>>,
    reports: mpsc::UnboundedSender<String>,
}

impl Watch for Scripted {
    fn ready(&mut self) -> Wait<'_, bool> {
        Box::pin(async { !self.script.is_closed() })
    }

    fn next(&mut self) -> Wait<'_, Result<News, StoreError>> {
        Box::pin(async { self.script.recv().await.unwrap_or(Err(StoreError::Away)) })
    }

    fn report(&mut self, error: &str) -> bool {
        self.reports.send(error.to_owned()).is_ok()
    }
}

struct Fixture {
    script: mpsc::UnboundedSender<Result<News, StoreError>>,
    reports: mpsc::UnboundedReceiver<String>,
    snapshots: watch::Receiver<Snapshot>,
}

fn start(grace: Duration) -> Fixture {
    let (script, receiver) = mpsc::unbounded_channel();
    let (sender, reports) = mpsc::unbounded_channel();
    let watch = Box::new(Scripted { script: receiver, reports: sender });
    let kept = KeptList::new("a.B".to_owned(), grace);
    let (sender, list) = watch::channel(kept.show());
    tokio::spawn(follow(watch, kept, sender.into()));
    let view = View::new("a.B".parse().unwrap(), list, None, None);
    let (sender, snapshots) = watch::channel(view.snapshot());
    tokio::spawn(view.run(sender.into()));
    Fixture { script, reports, snapshots }
}

impl Fixture {
    fn say(&self, news: Result<News, StoreError>) {
        self.script.send(news).unwrap();
    }

    async fn shows(&mut self, status: Freshness, ports: &[u16]) {
        let is = |snapshot: &Snapshot| {
            let shown = snapshot.endpoints.iter().map(|endpoint| endpoint.port);
            snapshot.status == status && shown.eq(ports.iter().copied())
        };
        let arrived = timeout(LONG, self.snapshots.wait_for(is)).await.is_ok();
        assert!(arrived, "waited for {status:?} {ports:?}, got {:?}", *self.snapshots.borrow());
    }
}

fn item(port: u16) -> Item {
    let listing = parse_listing(&format!("dubbo://h:{port}/a.B")).unwrap();
    Item { key: port.to_be_bytes().to_vec(), read: Ok(Some(listing.into())) }
}

fn whole(ports: &[u16], history_lost: bool) -> Result<News, StoreError> {
    Ok(News::Whole {
        items: ports.iter().copied().map(item).collect(),
        n_cut: 0,
        history_lost,
        refusal: None,
    })
}

#[tokio::test]
async fn errors_keep_the_list_and_only_failures_are_reported() {
    let mut store = start(LONG * 2);
    store.shows(Freshness::Pending, &[]).await;
    store.say(whole(&[1, 2], false));
    store.say(Ok(News::Changes(vec![Change::Put(item(3))])));
    store.shows(Freshness::Current, &[1, 2, 3]).await;
    store.say(Err(StoreError::Away));
    store.shows(Freshness::Stale, &[1, 2, 3]).await;
    store.say(whole(&[1], false));
    store.shows(Freshness::Current, &[1]).await;
    store.say(Err(StoreError::Failed("no permission".into())));
    store.shows(Freshness::Stale, &[1]).await;
    let refused = store.snapshots.borrow().unused.iter().map(ToString::to_string).next();
    assert_eq!(refused.as_deref(), Some("the list of its providers (no permission)"));
    store.say(whole(&[2], true));
    store.shows(Freshness::Stale, &[1, 2]).await;
    assert!(store.snapshots.borrow().unused.is_empty());
    assert_eq!(store.reports.try_recv().unwrap(), "watching a.B: no permission");
    assert!(store.reports.try_recv().is_err());
}

/// Nobody who calls notices that a list is read again.
#[tokio::test]
async fn a_gap_is_not_an_outage() {
    let mut store = start(LONG);
    store.say(whole(&[1], false));
    store.shows(Freshness::Current, &[1]).await;
    let mut snapshots = store.snapshots.clone();
    snapshots.borrow_and_update();
    store.say(Err(StoreError::Gap));
    store.say(whole(&[1, 2], false));
    timeout(LONG, snapshots.changed()).await.unwrap().unwrap();
    let snapshot = snapshots.borrow_and_update().clone();
    assert_eq!((snapshot.status, snapshot.endpoints.len()), (Freshness::Current, 2));
}

/// The store says nothing more: the grace runs out while its next news is waited for.
#[tokio::test]
async fn the_grace_runs_out_while_a_store_is_quiet() {
    let mut store = start(Duration::from_millis(50));
    store.say(whole(&[1, 2], false));
    store.shows(Freshness::Current, &[1, 2]).await;
    store.say(whole(&[2], true));
    store.shows(Freshness::Current, &[2]).await;
    store.say(Ok(News::Changes(vec![Change::Put(item(3))])));
    store.shows(Freshness::Current, &[2, 3]).await;
}

#[tokio::test]
async fn a_flapping_store_ends_with_what_it_said_last() {
    let mut store = start(LONG);
    for round in 1..5 {
        store.say(whole(&[round], false));
        store.say(Err(StoreError::Away));
    }
    store.say(whole(&[7, 8], false));
    store.shows(Freshness::Current, &[7, 8]).await;
}
