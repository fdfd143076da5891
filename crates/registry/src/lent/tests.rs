use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::FutureExt;
use futures_util::future::join_all;
use tokio::runtime::Handle;
use tokio::sync::mpsc;

use super::*;
use crate::layout::{Placed, Value};
use crate::store::{DocumentNews, RuleWatch, StoreError, StoreSession};

const NAME: ConnectionName = ConnectionName { store: "the test", module: None };

/// A connection by its number.
struct Line(usize);

fn line(n: usize) -> Arc<Line> {
    Arc::new(Line(n))
}

#[derive(Debug, thiserror::Error)]
#[error("{0:?}")]
struct TestError(StoreError);

impl From<Lost> for TestError {
    fn from(Lost: Lost) -> Self {
        Self(StoreError::Away)
    }
}

impl From<TestError> for StoreError {
    fn from(TestError(error): TestError) -> Self {
        error
    }
}

/// Comes to an end once the gate is open.
struct Gated {
    n_begun: Arc<AtomicUsize>,
    gate: Arc<Semaphore>,
}

impl LentReader for Gated {
    type Live = Line;
    type News = DocumentNews;
    type Error = TestError;

    async fn begin(&mut self, live: &Arc<Line>) -> Result<DocumentNews, TestError> {
        self.n_begun.fetch_add(1, Ordering::Relaxed);
        let _permit = self.gate.acquire().await;
        Ok(DocumentNews::Changed(Some(live.0.to_string())))
    }

    async fn next(&mut self, live: &Arc<Line>) -> Result<DocumentNews, TestError> {
        self.begin(live).await
    }
}

#[tokio::test]
async fn so_many_watches_begin_at_a_time_and_each_has_its_turn() {
    let mut lender = lend(NAME, Duration::from_secs(5), 3);
    let (n_begun, gate) = (Arc::<AtomicUsize>::default(), Arc::new(Semaphore::new(0)));
    let watch = |_| {
        let reader = Gated { n_begun: Arc::clone(&n_begun), gate: Arc::clone(&gate) };
        LentWatch::new(lender.lent.clone(), reader)
    };
    let mut watches: Vec<_> = (0..9).map(watch).collect();
    lender.give(line(1));
    for watch in &mut watches {
        assert!(RuleWatch::ready(watch).await);
    }
    let mut first = Box::pin(join_all(watches.iter_mut().map(RuleWatch::next)));
    assert!(first.as_mut().now_or_never().is_none());
    assert_eq!(n_begun.load(Ordering::Relaxed), 3);

    // Those that wait for their turn are told, too.
    lender.take_back();
    assert!(first.await.iter().all(|it| *it == Err(StoreError::Away)));

    lender.give(line(2));
    gate.add_permits(9);
    for watch in &mut watches {
        assert!(RuleWatch::ready(watch).await);
    }
    let first = join_all(watches.iter_mut().map(RuleWatch::next)).await;
    assert!(first.iter().all(|it| *it == Ok(DocumentNews::Changed(Some("2".to_owned())))));

    // Who has begun waits for changes, and for nobody's turn.
    gate.forget_permits(9);
    let n_before = n_begun.load(Ordering::Relaxed);
    let mut next = Box::pin(join_all(watches.iter_mut().map(RuleWatch::next)));
    assert!(next.as_mut().now_or_never().is_none());
    assert_eq!(n_begun.load(Ordering::Relaxed), n_before + 9);
}

#[tokio::test]
async fn who_asks_once_is_told_why_there_is_no_answer() {
    let mut lender = lend(NAME, Duration::from_millis(1), 1);
    let lent = lender.lent.clone();
    let ask = || lent.ask_once(async |live: Arc<Line>| Ok::<_, TestError>(live.0));
    assert_eq!(ask().await.unwrap_err().0, "the test has not answered");
    lender.handle_failure("h:1", "refused");
    assert_eq!(ask().await.unwrap_err().0, "the test at h:1: refused");
    lender.give(line(7));
    assert_eq!(ask().await.unwrap(), 7);
    let silent = lent.ask_once(async |_| std::future::pending::<Result<(), TestError>>().await);
    let (said, ()) = tokio::join!(silent, async { _ = lender.take_back() });
    assert_eq!(said.unwrap_err().0, "Away");
}

/// Lends what it is told to, and ends when it is told to.
struct Scripted(mpsc::Receiver<bool>, mpsc::Sender<&'static str>);

impl Connector for Scripted {
    type Server = &'static str;
    type Live = Line;

    async fn attempt(&mut self, server: &&'static str, lender: &mut Lender<Line>) -> String {
        self.1.send(server).await.unwrap();
        while self.0.recv().await == Some(true) {
            lender.give(line(1));
        }
        "over".to_owned()
    }
}

#[tokio::test]
async fn a_connection_is_made_again_until_its_task_is_dropped() {
    let (orders, script) = mpsc::channel(1);
    let (sender, mut tried) = mpsc::channel(1);
    let (request_timeout, servers) = (Duration::from_secs(5), vec!["a", "b"]);
    let terms = ConnectionTerms { name: NAME, servers, request_timeout, max_beginnings: 1 };
    let (lent, task) = keep_connected(Scripted(script, sender), terms, &Handle::current());
    let mut last = tried.recv().await.unwrap();
    for _ in 0..4 {
        orders.send(true).await.unwrap();
        let live = lent.live().await.expect("a connection");
        assert!(lent.status().borrow().connected);
        orders.send(false).await.unwrap();
        lent.lost(&live).await;
        let server = tried.recv().await.unwrap();
        assert_ne!(server, last, "the servers in turn");
        assert!(lent.current().is_none() && !lent.status().borrow().connected);
        let said = lent.status().borrow().last_error.clone();
        assert_eq!(said, Some(format!("the test at {last}: over")));
        last = server;
    }
    drop(task);
    assert!(lent.live().await.is_none());
}

/// Counts what it is asked, and says what it is told to.
#[derive(Default)]
struct Counting {
    n_ended: Arc<AtomicUsize>,
    is_over: bool,
}

impl SessionKeeper for Counting {
    type Live = Line;
    type Error = TestError;

    /// Odd ones and even ones.
    fn goes_on(old: &Line, new: &Line) -> bool {
        old.0 % 2 == new.0 % 2
    }

    fn handle_end(&mut self) {
        self.n_ended.fetch_add(1, Ordering::Relaxed);
        self.is_over = false;
    }

    fn keep_interval(&self, _: Option<&Line>) -> Duration {
        Duration::from_secs(1)
    }

    async fn keep(&mut self, _: &Line, _: &[Placed]) -> Result<Vec<Placed>, TestError> {
        Ok(Vec::new())
    }

    async fn put(&mut self, _: &Line, _: &Placed) -> Result<(), TestError> {
        if self.is_over { Err(TestError(StoreError::SessionLost)) } else { Ok(()) }
    }

    async fn remove(&mut self, _: &Line, _: &Placed) -> Result<(), TestError> {
        Ok(())
    }

    async fn close(&mut self, _: &Line) -> Result<(), TestError> {
        Ok(())
    }
}

#[tokio::test]
async fn a_session_ends_when_the_store_says_so_or_with_a_connection_that_has_another() {
    let mut lender = lend(NAME, Duration::from_secs(5), 1);
    let keeper = Counting::default();
    let n_ended = Arc::clone(&keeper.n_ended);
    let mut session = LentSession::new(lender.lent.clone(), keeper, []);
    let entry = Placed { path: "/a".to_owned(), value: Value::SessionId };
    assert_eq!(session.put(&entry).await, Err(StoreError::Away), "none yet");
    for (n, expected, n_ends) in
        [(1, Ok(()), 0), (3, Ok(()), 0), (4, Err(StoreError::SessionLost), 1), (6, Ok(()), 1)]
    {
        lender.give(line(n));
        assert!(session.ready().await);
        assert_eq!(session.put(&entry).await, expected, "{n}");
        assert_eq!(n_ended.load(Ordering::Relaxed), n_ends, "{n}");
    }
    assert_eq!(session.put(&entry).await, Ok(()));
    session.keeper.is_over = true;
    assert_eq!(session.put(&entry).await, Err(StoreError::SessionLost));
    assert_eq!(session.put(&entry).await, Ok(()), "a new one");
    assert_eq!(n_ended.load(Ordering::Relaxed), 2);
}
