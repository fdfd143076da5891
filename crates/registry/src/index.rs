//! The services that a store holds, for names that may be made up.
//!
//! A watch for each such name would cost the store as much as callers like. So one task lists all
//! services while somebody asks. What the list leaves open is looked up for one interface after
//! the other.

use std::fmt;
use std::sync::Arc;

use dubbo_proto::ServiceKey;
use tokio::runtime::Handle;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;
use wire::Backoff;

use crate::definitions::Away;
use crate::directory::Presence;
use crate::follow::new_backoff;
use crate::lent::{Lent, Lost};
use crate::lookups::Lookups;
use crate::on_demand::{LastAsked, OnDemand, Progress};

/// What a store lists of its services.
pub(crate) trait ServiceList: Default + Send + Sync + 'static {
    /// What the store says of an interface that is looked up.
    type Answer: Send + Sync;

    /// Whether there are too many to be listed.
    fn is_full(&self) -> bool;

    /// What the list says of a service. `None` if its interface has to be looked up.
    fn presence(&self, wanted: &ServiceKey, progress: Progress) -> Option<Presence>;

    /// Whether an interface of which the store says this offers the service.
    fn offers(answer: &Self::Answer, wanted: &ServiceKey) -> bool;

    /// All interfaces.
    fn interfaces(&self) -> Vec<String>;
}

/// Reads the list of a store.
pub(crate) trait IndexReader<L>: Clone + Send + Sync + 'static {
    type List: ServiceList;
    type Error: fmt::Display + Send;

    /// Reads the list and follows its changes, and looks up what is asked for, until nobody asks
    /// any more. Resets the back-off once it has read all.
    fn read_and_watch(
        &self,
        live: &Arc<L>,
        index: &IndexTask<Self::List>,
        backoff: &mut Backoff,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send;
}

/// A handle on the task.
pub(crate) struct ServiceIndex<R: IndexReader<L>, L> {
    reader: R,
    connection: Lent<L>,
    state: watch::Sender<IndexState<R::List>>,
    /// Somebody waits for an interface.
    wanted: Arc<Notify>,
    task: OnDemand,
    runtime: Handle,
}

/// What the task reads and keeps.
pub(crate) struct IndexTask<S: ServiceList> {
    state: watch::Sender<IndexState<S>>,
    wanted: Arc<Notify>,
    asked: Arc<LastAsked>,
}

struct IndexState<S: ServiceList> {
    progress: Progress,
    list: S,
    lookups: Lookups<S::Answer>,
}

impl<S: ServiceList> Default for IndexState<S> {
    fn default() -> Self {
        Self { progress: Progress::default(), list: S::default(), lookups: Lookups::default() }
    }
}

impl<S: ServiceList> IndexState<S> {
    fn presence(&self, wanted: &ServiceKey, now: Instant) -> Presence {
        if self.progress == Progress::Reading {
            return Presence::Asking;
        }
        if self.list.is_full() {
            return Presence::Unknown;
        }
        self.list.presence(wanted, self.progress).unwrap_or_else(|| {
            let offers = |answer: &S::Answer| S::offers(answer, wanted);
            self.lookups.presence(&wanted.interface, now, self.progress, offers)
        })
    }

    fn is_settled(&self) -> bool {
        self.lookups.is_settled(self.progress)
    }
}

impl<R: IndexReader<L>, L: Send + Sync + 'static> ServiceIndex<R, L> {
    pub(crate) fn new(reader: R, connection: Lent<L>, runtime: &Handle) -> Self {
        let state = watch::Sender::new(IndexState::default());
        let (wanted, task) = Default::default();
        Self { reader, connection, state, wanted, task, runtime: runtime.clone() }
    }

    /// What is known of a service now.
    pub(crate) fn presence(&self, wanted: &ServiceKey) -> Presence {
        self.keep_running();
        let (presence, is_read) = {
            let state = self.state.borrow();
            (state.presence(wanted, Instant::now()), state.progress != Progress::Reading)
        };
        if presence == Presence::Asking && is_read {
            self.state.send_if_modified(|state| state.lookups.ask(&wanted.interface));
            self.wanted.notify_one();
        }
        presence
    }

    /// Waits until [`presence`](Self::presence) need not say that it is asking.
    pub(crate) async fn settled(&self) {
        let mut state = self.state.subscribe();
        let _ends_with_the_registry = state.wait_for(IndexState::is_settled).await;
    }

    /// All interfaces that the store lists.
    pub(crate) async fn interfaces(&self) -> Result<Vec<String>, Away> {
        self.keep_running();
        self.settled().await;
        let state = self.state.borrow();
        match state.progress {
            _ if state.list.is_full() => Err(Away("it has too many services".to_owned())),
            Progress::Current => Ok(state.list.interfaces()),
            Progress::Reading | Progress::Stale => Err(self.connection.away()),
        }
    }

    fn keep_running(&self) {
        self.task.keep_running(&self.runtime, |asked| {
            self.state.send_replace(IndexState::default());
            let (state, wanted) = (self.state.clone(), Arc::clone(&self.wanted));
            run(self.reader.clone(), self.connection.clone(), IndexTask { state, wanted, asked })
        });
    }
}

impl<R: IndexReader<L>, L> fmt::Debug for ServiceIndex<R, L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.state.borrow();
        f.debug_struct("ServiceIndex").field("progress", &state.progress).finish_non_exhaustive()
    }
}

impl<S: ServiceList> IndexTask<S> {
    /// The list as the store has it now.
    pub(crate) fn take(&self, list: S) {
        self.state.send_modify(|state| (state.progress, state.list) = (Progress::Current, list));
    }

    /// Changes the list as the store has changed.
    pub(crate) fn change(&self, change: impl FnOnce(&mut S)) {
        self.state.send_modify(|state| change(&mut state.list));
    }

    /// An interface that somebody waits for.
    pub(crate) fn next(&self) -> Option<Box<str>> {
        self.state.borrow().lookups.next()
    }

    /// What the store says of an interface now.
    pub(crate) fn answer(&self, interface: Box<str>, answer: S::Answer) {
        let at = Instant::now();
        self.state.send_modify(|state| state.lookups.answer(interface, at, answer));
    }

    /// Waits until somebody waits for an interface.
    pub(crate) async fn wanted(&self) {
        self.wanted.notified().await;
    }

    /// Waits until nobody has asked for a while.
    pub(crate) async fn idle(&self) {
        self.asked.idle().await;
    }

    /// The store is away, or refuses.
    fn set_stale(&self) {
        self.state
            .send_if_modified(|IndexState { progress, lookups, .. }| lookups.set_stale(progress));
    }
}

/// Reads and watches until nobody asks any more.
async fn run<R: IndexReader<L>, L: Send + Sync>(
    reader: R,
    connection: Lent<L>,
    index: IndexTask<R::List>,
) {
    let mut backoff = new_backoff();
    while !index.asked.is_idle() {
        let Some(live) = connection.live_within_timeout().await else {
            index.set_stale();
            continue;
        };
        let read = async { Ok(reader.read_and_watch(&live, &index, &mut backoff).await) };
        match connection.while_live(&live, read).await {
            Ok(Ok(())) => break,
            Ok(Err(error)) => {
                // Whoever waits for the list is told why there is none.
                connection.report(&error.to_string());
                tracing::debug!(%error, "cannot list the services, trying again");
                index.set_stale();
            }
            // The status has the reason.
            Err(Lost) => index.set_stale(),
        }
        tokio::time::sleep(backoff.next_wait()).await;
    }
    tracing::debug!("nobody asks for unknown services any more");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::directory::Directory;

    /// Lists interfaces, whose versions and groups are looked up.
    #[derive(Default)]
    struct Names(Vec<&'static str>);

    impl ServiceList for Names {
        type Answer = Directory;

        fn is_full(&self) -> bool {
            2 < self.0.len()
        }

        fn presence(&self, wanted: &ServiceKey, progress: Progress) -> Option<Presence> {
            (!self.0.contains(&&*wanted.interface)).then(|| progress.denied())
        }

        fn offers(answer: &Directory, wanted: &ServiceKey) -> bool {
            answer.offers(wanted)
        }

        fn interfaces(&self) -> Vec<String> {
            self.0.iter().map(|&name| name.to_owned()).collect()
        }
    }

    #[test]
    fn tells_made_up_names_and_made_up_versions_from_real_ones() {
        let now = Instant::now();
        let key = |text: &str| text.parse::<ServiceKey>().unwrap();
        let mut state = IndexState::<Names>::default();
        assert_eq!(state.presence(&key("a.B"), now), Presence::Asking);
        (state.progress, state.list) = (Progress::Current, Names(vec!["a.B"]));
        assert_eq!(state.presence(&key("made.Up"), now), Presence::Absent);
        assert_eq!(state.presence(&key("a.B:1"), now), Presence::Asking);
        let mut directory = Directory::default();
        directory.add("a.B", Some(("1".into(), "".into())));
        state.lookups.answer("a.B".into(), now, directory);
        assert_eq!(state.presence(&key("a.B:1"), now), Presence::Offered);
        assert_eq!(state.presence(&key("a.B:2"), now), Presence::Absent);
        state.progress = Progress::Stale;
        assert_eq!(state.presence(&key("a.B:1"), now), Presence::Offered);
        assert_eq!(state.presence(&key("made.Up"), now), Presence::Unknown);
        state.list = Names(vec!["a.B", "a.C", "a.D"]);
        assert_eq!(state.presence(&key("a.B:1"), now), Presence::Unknown);
    }
}
