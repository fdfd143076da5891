//! How what is shown of a service comes about: from the list that it shares with others, what is
//! found at application level, and what is remembered.

use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::SystemTime;

use dubbo_proto::ServiceKey;
use tokio::sync::watch;
use tokio::task::AbortHandle;

use super::{Registry, RegistryActivity, Shared};
use crate::application::ApplicationSearch;
use crate::endpoint::{Freshness, Snapshot};
use crate::entry_list::{ListFeed, listed_as};
use crate::patience::Patience;
use crate::remembered::follow_lists;
use crate::view::View;

/// What is shown of a service, shared by its subscriptions.
#[derive(Debug)]
pub(super) struct ServiceFeed {
    pub(super) snapshots: watch::Receiver<Snapshot>,
    task: AbortHandle,
    _list: Arc<ListFeed>,
    _finding: Option<Arc<ApplicationSearch>>,
}

impl Drop for ServiceFeed {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Registry {
    pub(super) fn start_feed(&self, service: &ServiceKey) -> ServiceFeed {
        let Shared { applications, remembered, runtime, .. } = &*self.shared;
        let list = self.list(service);
        let finding = applications.as_ref().map(|level| level.find(&service.interface));
        let found = finding.as_ref().map(|finding| finding.found());
        let fallback = remembered.as_ref().and_then(|it| it.fallback(service));
        let view = View::new(service.clone(), list.list(), found, fallback.clone());
        let (sender, snapshots) = watch::channel(view.snapshot());
        let sender = Arc::new(sender);
        if let Some(remembered) = remembered.clone() {
            let (sender, status) = (Arc::clone(&sender), self.status());
            let patience = Arc::clone(self.lists_patience());
            let lists =
                follow_lists(remembered, service.clone(), sender, fallback, status, patience);
            runtime.spawn(lists);
        }
        let task = runtime.spawn(view.run(sender)).abort_handle();
        ServiceFeed { snapshots, task, _list: list, _finding: finding }
    }

    /// The list that has the entries of a service.
    fn list(&self, service: &ServiceKey) -> Arc<ListFeed> {
        let Shared { store, counts, runtime, lists, .. } = &*self.shared;
        let listed = listed_as(store.as_ref(), service);
        let mut lists = lists.lock().unwrap_or_else(PoisonError::into_inner);
        lists.get(&listed).and_then(Weak::upgrade).unwrap_or_else(|| {
            lists.retain(|_, list| 0 < list.strong_count());
            let list = ListFeed::start(store.as_ref(), &listed, Arc::clone(counts), runtime);
            let list = Arc::new(list);
            lists.insert(listed, Arc::downgrade(&list));
            list
        })
    }
}

/// Counts the lists that arrive, until the feed ends.
pub(super) async fn count_changes(
    mut snapshots: watch::Receiver<Snapshot>,
    activity: Arc<Mutex<RegistryActivity>>,
    patience: Arc<Patience>,
) {
    let change = |change: &dyn Fn(&mut RegistryActivity)| {
        change(&mut activity.lock().unwrap_or_else(PoisonError::into_inner));
    };
    let mut is_known = snapshots.borrow().status != Freshness::Pending;
    let mut n_counted = 0;
    loop {
        let (n_unused, status) = {
            let snapshot = snapshots.borrow_and_update();
            (snapshot.unused.len(), snapshot.status)
        };
        if status == Freshness::Current {
            patience.handle_word();
        }
        change(&|activity| {
            activity.unused = activity.unused - n_counted + n_unused;
            if is_known {
                activity.changes += 1;
                activity.last_change = Some(SystemTime::now());
            }
        });
        (is_known, n_counted) = (true, n_unused);
        if snapshots.changed().await.is_err() {
            return change(&|activity| activity.unused -= n_counted);
        }
    }
}
