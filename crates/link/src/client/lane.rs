//! A lane: one connection to the server, and the next one when that ends.
//!
//! A lane always has a session that takes calls: while its connection is being made they wait in it. When
//! the server leaves, a new session takes over at once, and the old one ends in its own time.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::task::Poll;
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use rand::Rng;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Sleep;
use tracing::{debug, warn};

use super::config::ClientConfig;
use super::lanes::Lanes;
use super::session::{SessionEvent, SessionMachine};
use crate::io::{Machine, Share, SyncConn, drive_slices};
use crate::stream::{Stream, Target};

/// The calls of one connection, shared by its callers and its driver.
pub(crate) type Session = SyncConn<SessionMachine>;

/// Callers that are woken in one turn, before what they send is written.
pub(crate) const SLICE_LEN: usize = 32;

/// One connection to the server, and its successors.
pub(crate) struct Lane {
    target: Arc<Target>,
    config: Arc<ClientConfig>,
    lanes: Weak<Lanes>,
    current: ArcSwap<Session>,
    /// Calls that were begun on this lane and have not ended.
    load: AtomicUsize,
    is_closed: AtomicBool,
    state: watch::Sender<LaneState>,
    /// The lane's runner, and those that finish older sessions.
    tasks: Mutex<JoinSet<()>>,
}

/// How far a lane is.
#[derive(Clone, Debug)]
pub(crate) enum LaneState {
    Connecting,
    Ready,
    Down(Arc<str>),
}

impl Lane {
    /// A lane that connects from now on, on the runtime that this is called on.
    pub(crate) fn open(
        target: Arc<Target>,
        config: Arc<ClientConfig>,
        lanes: Weak<Lanes>,
    ) -> Arc<Self> {
        let session = Arc::new(Session::new(SessionMachine::new(Arc::clone(&config))));
        let lane = Arc::new(Self {
            target,
            config,
            lanes,
            current: ArcSwap::new(Arc::clone(&session)),
            load: AtomicUsize::new(0),
            is_closed: AtomicBool::new(false),
            state: watch::Sender::new(LaneState::Connecting),
            tasks: Mutex::default(),
        });
        lane.spawn(Arc::clone(&lane).run(session));
        lane
    }

    /// The session that takes calls.
    #[inline]
    pub(crate) fn session(&self) -> Arc<Session> {
        self.current.load_full()
    }

    /// Calls that have not ended, by which the least busy lane is found.
    pub(crate) fn load(&self) -> &AtomicUsize {
        &self.load
    }

    /// Whether calls can be sent at once.
    pub(crate) fn is_ready(&self) -> bool {
        matches!(*self.state.borrow(), LaneState::Ready)
    }

    /// Whether bytes have to wait too long to be written.
    pub(crate) fn is_standing(&self, now: Instant) -> bool {
        self.current.load().lock(|session| session.queueing().is_standing(now))
    }

    /// Waits for the first connection.
    ///
    /// # Errors
    /// Why the first attempt failed.
    pub(crate) async fn first_attempt(&self) -> Result<(), Arc<str>> {
        let mut state = self.state.subscribe();
        let settled = state.wait_for(|state| !matches!(state, LaneState::Connecting)).await;
        match settled.as_deref() {
            Ok(LaneState::Down(reason)) => Err(Arc::clone(reason)),
            _ => Ok(()),
        }
    }

    /// Takes no more calls; finishes those that are here, then leaves the server.
    pub(crate) fn close(&self) {
        self.is_closed.store(true, Ordering::SeqCst);
        self.current.load().with(SessionMachine::close);
    }

    /// Waits until all has ended after [`Lane::close`].
    pub(crate) async fn closed(&self) {
        loop {
            let mut tasks =
                std::mem::take(&mut *self.tasks.lock().unwrap_or_else(PoisonError::into_inner));
            if tasks.is_empty() {
                return;
            }
            while tasks.join_next().await.is_some() {}
        }
    }

    /// Ends everything now; calls that are out are broken.
    pub(crate) fn abort(&self) {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner).abort_all();
    }

    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        while tasks.try_join_next().is_some() {}
        tasks.spawn(task);
    }

    fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::SeqCst)
    }

    /// As `run`, as a type that has a name: a runner starts the next one.
    fn run_on(self: Arc<Self>, session: Arc<Session>) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(self.run(session))
    }

    /// Keeps the lane connected until it is closed, or until the server left this runner's
    /// connection and another runner took over.
    async fn run(self: Arc<Self>, mut session: Arc<Session>) {
        let mut backoff = Backoff::new(&self.config);
        loop {
            let mut ending =
                End { session: Arc::clone(&session), reason: "the client is closed".into() };
            let reason = match self.connect(&session, &mut backoff).await {
                None => "the client is closed".into(),
                Some(stream) => {
                    let start = Instant::now();
                    let reason = self.serve(&session, stream).await;
                    backoff.note_lifetime(start.elapsed());
                    reason
                }
            };
            let next = self.replace(&session);
            if next.is_some() {
                warn!(endpoint = %self.target, %reason, "the connection ended; connecting again");
                self.state.send_replace(LaneState::Down(Arc::clone(&reason)));
            }
            ending.reason = reason;
            drop(ending);
            let Some(next) = next else {
                return;
            };
            session = next;
            // If the lane was closed meanwhile, connecting will find out.
            let _ = backoff.pause(&session).await;
        }
    }

    /// Connects, however often it takes. `None` if the lane was closed and nobody waits.
    async fn connect(&self, session: &Session, backoff: &mut Backoff) -> Option<Stream> {
        loop {
            match meanwhile(session, self.target.connect(self.config.connect_timeout)).await? {
                Ok(stream) => return Some(stream),
                Err(error) => {
                    let reason: Arc<str> = error.to_string().into();
                    debug!(endpoint = %self.target, %reason, "cannot connect");
                    self.state.send_replace(LaneState::Down(Arc::clone(&reason)));
                    session.lock(|session| session.handle_connect_error(reason));
                    backoff.pause(session).await?;
                }
            }
        }
    }

    /// Runs one connection to its end, and tells why it ended.
    async fn serve(self: &Arc<Self>, session: &Arc<Session>, stream: Stream) -> Arc<str> {
        session.lock(|session| session.handle_connected(Instant::now()));
        let ending = drive_slices(stream, &**session, SLICE_LEN, |events| {
            for event in events.drain(..) {
                match event {
                    SessionEvent::Wake(waker) => waker.wake(),
                    SessionEvent::Ready => {
                        self.state.send_replace(LaneState::Ready);
                    }
                    SessionEvent::Leaving => {
                        if let Some(next) = self.replace(session) {
                            debug!(endpoint = %self.target, "the server leaves; connecting again");
                            self.spawn(Arc::clone(self).run_on(next));
                        }
                    }
                    SessionEvent::Standing => {
                        if let Some(lanes) = self.lanes.upgrade() {
                            lanes.grow(Instant::now());
                        }
                    }
                }
            }
        });
        ending.await.to_string().into()
    }

    /// Puts a new session into this one's place. `None` if there is another one already, or if the
    /// lane is closed.
    fn replace(&self, session: &Arc<Session>) -> Option<Arc<Session>> {
        if self.is_closed() || !Arc::ptr_eq(&self.current.load(), session) {
            return None;
        }
        let next = Arc::new(Session::new(SessionMachine::new(Arc::clone(&self.config))));
        self.current.store(Arc::clone(&next));
        if self.is_closed() {
            // Closed just now, when nobody knew of the new session.
            next.with(SessionMachine::close);
        }
        Some(next)
    }
}

/// Ends a session when it is dropped, also because its runner was aborted.
struct End {
    session: Arc<Session>,
    reason: Arc<str>,
}

impl Drop for End {
    fn drop(&mut self) {
        self.session.lock(|session| session.end(&self.reason));
        take_events(&self.session).for_each(wake);
    }
}

/// Polls `work` and sees to the calls that wait in a session without a connection. `None` as soon
/// as the session is closed and nobody waits.
async fn meanwhile<T>(session: &Session, work: impl Future<Output = T>) -> Option<T> {
    let mut work = pin!(work);
    let mut timer: Option<Pin<Box<Sleep>>> = None;
    poll_fn(|cx| {
        loop {
            session.attend(cx.waker());
            let now = Instant::now();
            let (due, is_done) = session.lock(|session| {
                session.handle_timeout(now);
                (session.poll_timeout(), session.is_closed_and_idle())
            });
            take_events(session).for_each(wake);
            session.rest();
            if is_done {
                return Poll::Ready(None);
            }
            if let Poll::Ready(result) = work.as_mut().poll(cx) {
                return Poll::Ready(Some(result));
            }
            timer = due.map(|due| Box::pin(tokio::time::sleep_until(due.into())));
            match timer.as_mut().map(|timer| timer.as_mut().poll(cx)) {
                Some(Poll::Ready(())) => {}
                Some(Poll::Pending) | None => return Poll::Pending,
            }
        }
    })
    .await
}

fn take_events(session: &Session) -> impl Iterator<Item = SessionEvent> + use<> {
    let events: Vec<_> =
        session.lock(|session| std::iter::from_fn(|| session.poll_event()).collect());
    events.into_iter()
}

fn wake(event: SessionEvent) {
    if let SessionEvent::Wake(waker) = event {
        waker.wake();
    }
}

/// The pauses between attempts to connect: doubling, with jitter, so that many clients of one
/// server do not come back all at once.
struct Backoff {
    min: Duration,
    max: Duration,
    next: Duration,
}

impl Backoff {
    fn new(config: &ClientConfig) -> Self {
        let min = config.min_backoff.max(Duration::from_millis(1));
        Self { min, max: config.max_backoff.max(min), next: min }
    }

    /// A connection that lived for longer than the pause before it was a good one.
    fn note_lifetime(&mut self, lifetime: Duration) {
        if self.next < lifetime {
            self.next = self.min;
        }
    }

    async fn pause(&mut self, session: &Session) -> Option<()> {
        let pause = self.next.mul_f64(rand::rng().random_range(0.5..1.0));
        self.next = (self.next * 2).min(self.max);
        meanwhile(session, tokio::time::sleep(pause)).await
    }
}
