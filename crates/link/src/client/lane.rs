//! A lane: one connection to the server, and the next one when that ends.
//!
//! A lane always has a session that takes calls: while its connection is being made they wait in
//! it. When a session takes no more calls, because the server leaves or the connection failed, the
//! first one to notice puts the next into its place, be it a caller or the driver; the old one
//! ends in its own time.
//!
//! Invariants:
//! - A session's runner, and nobody else, sees to it that the next one has a runner.
//! - A lane whose runner was aborted is closed.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::task::Poll;
use std::time::Instant;

use arc_swap::ArcSwap;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Sleep;
use tracing::{debug, warn};
use wire::Backoff;

use super::config::ClientConfig;
use super::dialer::Dialer;
use super::lanes::Lanes;
use super::session::{SessionEvent, SessionMachine};
use crate::link_stream::LinkStream;
use crate::panics;
use wire::{Ending, Machine, SharedMachine, SyncConn, drive_slices, linger};

/// The calls of one connection, shared by its callers and its driver.
pub(crate) type ClientSession = SyncConn<SessionMachine>;

/// One connection to the server, and its successors.
pub(crate) struct Lane {
    dialer: Arc<Dialer>,
    config: Arc<ClientConfig>,
    lanes: Weak<Lanes>,
    current: ArcSwap<ClientSession>,
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
        dialer: Arc<Dialer>,
        config: Arc<ClientConfig>,
        lanes: Weak<Lanes>,
    ) -> Arc<Self> {
        let session = Arc::new(ClientSession::new(SessionMachine::new(Arc::clone(&config))));
        let lane = Arc::new(Self {
            dialer,
            config,
            lanes,
            current: ArcSwap::new(Arc::clone(&session)),
            load: AtomicUsize::new(0),
            is_closed: AtomicBool::new(false),
            state: watch::Sender::new(LaneState::Connecting),
            tasks: Mutex::default(),
        });
        lane.spawn(Arc::clone(&lane).run(session, false));
        lane
    }

    /// The session that takes calls.
    #[inline]
    pub(crate) fn session(&self) -> Arc<ClientSession> {
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
    fn run_on(
        self: Arc<Self>,
        session: Arc<ClientSession>,
        pauses: bool,
    ) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(self.run(session, pauses))
    }

    /// Keeps the lane connected until it is closed, or until the server left this runner's
    /// connection and another runner took over. `pauses` before it connects, if the last
    /// connection was left too soon.
    async fn run(self: Arc<Self>, mut session: Arc<ClientSession>, mut pauses: bool) {
        let mut backoff = Backoff::new(self.config.min_backoff, self.config.max_backoff);
        loop {
            let mut ending = RunnerEnd { lane: &self, session: Arc::clone(&session), reason: None };
            if pauses {
                // If the lane was closed meanwhile, connecting will find out.
                let _ = pause(&mut backoff, &session).await;
            }
            let Some(stream) = self.connect(&session, &mut backoff).await else {
                ending.reason = Some("the client is closed".into());
                return;
            };
            let start = Instant::now();
            let Served { reason, was_ready, is_succeeded } = self.serve(&session, stream).await;
            backoff.note_lifetime(start.elapsed());
            let next = self.next(&session).filter(|_| !is_succeeded);
            if let Some(next) = &next {
                warn!(endpoint = %self.dialer, %reason, "the connection ended; connecting again");
                self.state.send_replace(LaneState::Down(Arc::clone(&reason)));
                if !was_ready {
                    next.lock(|next| next.handle_connect_error(Arc::clone(&reason)));
                }
            }
            ending.reason = Some(reason);
            drop(ending);
            let Some(next) = next else {
                return;
            };
            (session, pauses) = (next, true);
        }
    }

    /// Connects, however often it takes. `None` if the lane was closed and nobody waits.
    async fn connect(&self, session: &ClientSession, backoff: &mut Backoff) -> Option<LinkStream> {
        loop {
            match meanwhile(session, self.dialer.connect(self.config.connect_timeout)).await? {
                Ok(stream) => return Some(stream),
                Err(error) => {
                    let reason: Arc<str> = error.to_string().into();
                    debug!(endpoint = %self.dialer, %reason, "cannot connect");
                    self.state.send_replace(LaneState::Down(Arc::clone(&reason)));
                    session.lock(|session| session.handle_connect_error(reason));
                    pause(backoff, session).await?;
                }
            }
        }
    }

    /// Runs one connection to its end.
    async fn serve(
        self: &Arc<Self>,
        session: &Arc<ClientSession>,
        mut stream: LinkStream,
    ) -> Served {
        let start = Instant::now();
        session.lock(|session| session.handle_connected(start));
        let (mut was_ready, mut is_succeeded) = (false, false);
        let ending = drive_slices(&mut stream, &**session, SessionMachine::slice_len, |events| {
            for event in events.drain(..) {
                match event {
                    SessionEvent::Wake(waker) => panics::wake(waker),
                    SessionEvent::Ready => {
                        was_ready = true;
                        self.state.send_replace(LaneState::Ready);
                    }
                    SessionEvent::Leaving if is_succeeded => {}
                    SessionEvent::Leaving => {
                        if let Some(next) = self.next(session) {
                            debug!(endpoint = %self.dialer, "the server is leaving; connecting \
                                                             again");
                            // A server that leaves again and again is not called in a tight loop.
                            let pauses = start.elapsed() < self.config.min_backoff;
                            self.spawn(Arc::clone(self).run_on(next, pauses));
                            is_succeeded = true;
                            self.state.send_replace(LaneState::Connecting);
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
        let ending = ending.await;
        let failure = session.lock(|session| session.failure());
        if matches!(ending, Ending::Finished) && failure.is_none() {
            linger(stream).await;
        }
        let reason = match (ending, failure) {
            (Ending::Finished, Some(failure)) => failure.to_string().into(),
            (ending, _) => ending.to_string().into(),
        };
        Served { reason, was_ready, is_succeeded }
    }

    /// The session after this one, which takes no more calls. `None` if the lane is closed and
    /// there is no other.
    pub(crate) fn next(&self, session: &Arc<ClientSession>) -> Option<Arc<ClientSession>> {
        let current = self.session();
        if !Arc::ptr_eq(&current, session) {
            return Some(current);
        }
        if self.is_closed() {
            return None;
        }
        let next = Arc::new(ClientSession::new(SessionMachine::new(Arc::clone(&self.config))));
        let found = self.current.compare_and_swap(session, Arc::clone(&next));
        if !Arc::ptr_eq(&found, session) {
            return Some(self.session());
        }
        if self.is_closed() {
            // Closed just now, when nobody knew of the new session.
            next.with(SessionMachine::close);
        }
        Some(next)
    }
}

/// How one connection went.
struct Served {
    /// Why it ended.
    reason: Arc<str>,
    /// Its handshake was done.
    was_ready: bool,
    /// Another runner has the next session.
    is_succeeded: bool,
}

/// Ends a session when it is dropped; without a reason its runner was aborted, and the lane ends,
/// too.
struct RunnerEnd<'a> {
    lane: &'a Lane,
    session: Arc<ClientSession>,
    reason: Option<Arc<str>>,
}

impl Drop for RunnerEnd<'_> {
    fn drop(&mut self) {
        let end = |session: &ClientSession, reason| {
            session.lock(|session| session.end(reason));
            take_events(session).for_each(wake);
        };
        if let Some(reason) = &self.reason {
            return end(&self.session, reason);
        }
        let reason = "the client is closed".into();
        self.lane.is_closed.store(true, Ordering::SeqCst);
        end(&self.session, &reason);
        end(&self.lane.session(), &reason);
    }
}

/// Polls `work` and sees to the calls that wait in a session without a connection. `None` as soon
/// as the session is closed and nobody waits.
async fn meanwhile<T>(session: &ClientSession, work: impl Future<Output = T>) -> Option<T> {
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

fn take_events(session: &ClientSession) -> impl Iterator<Item = SessionEvent> + use<> {
    let events: Vec<_> =
        session.lock(|session| std::iter::from_fn(|| session.poll_event()).collect());
    events.into_iter()
}

fn wake(event: SessionEvent) {
    if let SessionEvent::Wake(waker) = event {
        panics::wake(waker);
    }
}

/// Waits before the next attempt. `None` if the lane was closed meanwhile and nobody waits.
async fn pause(backoff: &mut Backoff, session: &ClientSession) -> Option<()> {
    meanwhile(session, tokio::time::sleep(backoff.next_wait())).await
}
