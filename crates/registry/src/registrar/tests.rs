//! A scripted session: what is in it, and what goes wrong, is up to the test.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::time::Duration;

use tokio::time::timeout;

use super::*;
use crate::layout::Value;
use crate::store::Wait;

const LONG: Duration = Duration::from_secs(40);

/// The store as the test sees it.
#[derive(Default)]
struct StoreContents {
    entries: BTreeSet<String>,
    /// What the next requests fail with.
    errors: Vec<StoreError>,
    n_closed: usize,
    /// What may not be written.
    refused: Option<String>,
}

#[derive(Clone)]
struct Scripted {
    state: Arc<Mutex<StoreContents>>,
    is_there: watch::Sender<bool>,
    reports: mpsc::UnboundedSender<String>,
}

impl Scripted {
    fn request<T>(&self, act: impl FnOnce(&mut StoreContents) -> T) -> Result<T, StoreError> {
        let mut state = self.state.lock().unwrap();
        if !*self.is_there.borrow() {
            return Err(StoreError::Away);
        }
        match state.errors.pop() {
            Some(error) => Err(error),
            None => Ok(act(&mut state)),
        }
    }

    /// Waits until the store is as asked for.
    async fn shows(&self, is: impl Fn(&StoreContents) -> bool) {
        let wait = async {
            while !self.change(|state| is(state)) {
                tokio::task::yield_now().await;
            }
        };
        timeout(LONG, wait).await.unwrap();
    }

    fn change<T>(&self, change: impl FnOnce(&mut StoreContents) -> T) -> T {
        change(&mut self.state.lock().unwrap())
    }
}

impl StoreSession for Scripted {
    fn ready(&mut self) -> Wait<'_, bool> {
        let mut is_there = self.is_there.subscribe();
        Box::pin(async move { is_there.wait_for(|is| *is).await.is_ok() })
    }

    fn lost(&mut self) -> Wait<'_, ()> {
        let mut is_there = self.is_there.subscribe();
        Box::pin(async move {
            let _ = is_there.wait_for(|is| !*is).await;
        })
    }

    fn keep_interval(&self) -> Duration {
        Duration::from_millis(20)
    }

    fn keep<'a>(&'a mut self, held: &'a [Placed]) -> Wait<'a, Result<Vec<Placed>, StoreError>> {
        let missing = self.request(|state| {
            held.iter().filter(|it| !state.entries.contains(&it.path)).cloned().collect()
        });
        Box::pin(std::future::ready(missing))
    }

    fn put<'a>(&'a mut self, entry: &'a Placed) -> Wait<'a, Result<(), StoreError>> {
        let put = self.request(|state| match state.refused.as_ref() == Some(&entry.path) {
            true => Err(StoreError::Failed(format!("may not write {}", entry.path))),
            false => {
                state.entries.insert(entry.path.clone());
                Ok(())
            }
        });
        Box::pin(std::future::ready(put.flatten()))
    }

    fn remove<'a>(&'a mut self, entry: &'a Placed) -> Wait<'a, Result<(), StoreError>> {
        let removed = self.request(|state| {
            state.entries.remove(&entry.path);
        });
        Box::pin(std::future::ready(removed))
    }

    fn close(&mut self) -> Wait<'_, ()> {
        self.change(|state| {
            state.entries.clear();
            state.n_closed += 1;
        });
        Box::pin(std::future::ready(()))
    }

    fn report(&mut self, error: &str) -> bool {
        self.reports.send(error.to_owned()).is_ok()
    }
}

fn start() -> (Registrar, Scripted, mpsc::UnboundedReceiver<String>) {
    let (reports, receiver) = mpsc::unbounded_channel();
    let (state, is_there) = (Arc::default(), watch::Sender::new(true));
    let session = Scripted { state, is_there, reports };
    let registrar = Registrar::start(Box::new(session.clone()), &Handle::current());
    (registrar, session, receiver)
}

fn placed(path: &str) -> Placed {
    Placed { path: path.to_owned(), value: Value::SessionId }
}

async fn is(established: &mut watch::Receiver<bool>, expected: bool) {
    timeout(LONG, established.wait_for(|is| *is == expected)).await.unwrap().unwrap();
}

async fn withdraw(withdraw: Withdraw) {
    let (done, confirmed) = oneshot::channel();
    withdraw(done);
    timeout(LONG, confirmed).await.unwrap().unwrap();
}

#[tokio::test]
async fn what_gets_lost_is_written_again() {
    let (registrar, store, _reports) = start();
    let (mut established, withdrawal) = registrar.add(placed("a"));
    is(&mut established, true).await;
    // Somebody deletes it.
    store.change(|state| state.entries.clear());
    store.shows(|state| state.entries.contains("a")).await;
    is(&mut established, true).await;
    // The session is over, and with it the entry.
    store.change(|state| {
        state.entries.clear();
        state.errors.push(StoreError::SessionLost);
    });
    store.shows(|state| state.errors.is_empty() && state.entries.contains("a")).await;
    is(&mut established, true).await;
    withdraw(withdrawal).await;
    assert!(store.change(|state| state.entries.is_empty()));
}

#[tokio::test]
async fn a_store_that_is_away_gets_everything_when_it_is_back() {
    let (registrar, store, mut reports) = start();
    store.is_there.send_replace(false);
    let (mut kept, _withdrawal) = registrar.add(placed("kept"));
    let (given_up, withdrawal) = registrar.add(placed("given up"));
    let (done, confirmed) = oneshot::channel();
    withdrawal(done);
    store.is_there.send_replace(true);
    is(&mut kept, true).await;
    timeout(LONG, confirmed).await.unwrap().unwrap();
    assert!(!*given_up.borrow());
    assert_eq!(store.change(|state| state.entries.clone()), BTreeSet::from(["kept".into()]));
    // To be away is in the store's status already; what fails is said.
    assert!(reports.try_recv().is_err());
    store.change(|state| state.errors.push(StoreError::Failed("no space".into())));
    let said = timeout(LONG, reports.recv()).await.unwrap().unwrap();
    assert_eq!(said, "registering: no space");
}

/// As by an access list that allows some paths and not others.
#[tokio::test]
async fn what_is_refused_keeps_nothing_else_from_being_written() {
    let (registrar, store, mut reports) = start();
    store.change(|state| state.refused = Some("b".to_owned()));
    let (mut first, _withdraw_first) = registrar.add(placed("a"));
    let (refused, _withdraw_refused) = registrar.add(placed("b"));
    let (mut last, _withdraw_last) = registrar.add(placed("c"));
    is(&mut first, true).await;
    is(&mut last, true).await;
    assert!(!*refused.borrow());
    let said = timeout(LONG, reports.recv()).await.unwrap().unwrap();
    assert_eq!(said, "registering: may not write b");
    store.change(|state| state.refused = None);
    store.shows(|state| state.entries.contains("b")).await;
}

#[tokio::test]
async fn what_two_have_in_common_goes_with_the_last() {
    let (registrar, store, _reports) = start();
    let (mut first, withdraw_first) = registrar.add(placed("a"));
    let (mut second, withdraw_second) = registrar.add(placed("a"));
    is(&mut first, true).await;
    is(&mut second, true).await;
    withdraw(withdraw_first).await;
    assert!(store.change(|state| state.entries.contains("a")));
    withdraw(withdraw_second).await;
    assert!(store.change(|state| state.entries.is_empty()));
}

#[tokio::test]
async fn the_session_is_closed_with_the_last_handle() {
    let (registrar, store, _reports) = start();
    let (mut established, withdrawal) = registrar.add(placed("a"));
    is(&mut established, true).await;
    drop((registrar, withdrawal));
    store.shows(|state| state.n_closed == 1).await;
    assert!(store.change(|state| state.entries.is_empty()));
}

#[tokio::test]
async fn the_session_is_closed_when_a_handle_says_so() {
    let (registrar, store, _reports) = start();
    let (mut established, _withdrawal) = registrar.add(placed("a"));
    is(&mut established, true).await;
    timeout(LONG, registrar.close()).await.unwrap();
    store.change(|state| assert!(state.n_closed == 1 && state.entries.is_empty()));
    timeout(LONG, registrar.close()).await.expect("it is closed");
    let (late, _withdrawal) = registrar.add(placed("b"));
    assert!(!*late.borrow());
}

#[tokio::test]
async fn a_session_is_closed_while_its_store_is_away() {
    let (registrar, store, _reports) = start();
    store.is_there.send_replace(false);
    let _waits = registrar.add(placed("a"));
    timeout(LONG, registrar.close()).await.unwrap();
    assert_eq!(store.change(|state| state.n_closed), 1);
}
