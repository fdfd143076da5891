//! One connection and the questions that its callers ask on it. When it breaks there is soon
//! another one, and every question that was out has failed: whoever asked it asks again.
//!
//! A turn: answers are read, and each caller takes its own where it lies in what was read, and
//! asks its next question; then all these questions are sent in one write.
//!
//! Invariants:
//! - A caller has one question at most, and questions are sent in the order in which they were
//!   asked.
//! - An answer is kept for its caller only if that cannot take it at once.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::BytesMut;
use link::{Address, ClientConfig, Conn, Failure, Machine, Status, drive, socket};
use link_proto::{
    Event, GoAwayReason, InPlace, LinkError, RequestOut, RouteDef, RouteId, SendError,
};
use wire::Backoff;

use super::caller_tasks::Crew;
use crate::TransferError;
use crate::messages::NextRequest;
use crate::methods::{NEXT, NUMBER, SERVICE};

/// A question, encoded.
pub(super) type EncodedRequest = [u8; NextRequest::LEN];

/// An answer's payload, or why there is none.
pub(super) type PayloadResult<'a> = Result<&'a [u8], &'a Arc<Failure>>;

/// See the module.
pub(super) struct FetchConnection {
    config: ClientConfig,
    address: String,
    patience: Duration,
    /// What is to be sent.
    questions: RefCell<VecDeque<(u32, EncodedRequest)>>,
    current: Current,
    /// Answers that their callers could not take at once.
    kept: RefCell<Vec<Option<Box<[u8]>>>>,
}

/// The answer of the caller that is polled.
#[derive(Default)]
struct Current {
    is_there: Cell<bool>,
    payload: RefCell<Vec<u8>>,
    failure: RefCell<Option<Arc<Failure>>>,
}

impl FetchConnection {
    /// For `n_callers` callers, with numbers from 0. It is given up when there was none for
    /// `patience`.
    pub(super) fn new(
        address: &str,
        config: ClientConfig,
        patience: Duration,
        n_callers: usize,
    ) -> Self {
        Self {
            address: address.to_owned(),
            config,
            patience,
            questions: RefCell::default(),
            current: Current::default(),
            kept: RefCell::new(vec![None; n_callers]),
        }
    }

    /// Asks a caller's question. To be followed by [`FetchConnection::answered`].
    #[inline]
    pub(super) fn ask(&self, caller: u32, question: EncodedRequest) {
        self.questions.borrow_mut().push_back((caller, question));
    }

    /// Waits for the answer to a caller's question. `take` may take it later; until then it is
    /// kept.
    pub(super) async fn answered<T>(
        &self,
        caller: u32,
        take: impl Fn(PayloadResult<'_>, &mut Context<'_>) -> Poll<T>,
    ) -> T {
        poll_fn(|cx| {
            // A caller is polled right where its answer comes in.
            if self.current.is_there.take() {
                if let Some(failure) = self.current.failure.take() {
                    return take(Err(&failure), cx);
                }
                let payload = self.current.payload.borrow();
                let taken = take(Ok(payload.as_slice()), cx);
                if taken.is_pending() {
                    self.keep_answer(caller, Some(payload.as_slice().into()));
                }
                return taken;
            }
            // Or later, if it could not take it then.
            let Some(kept) = self.keep_answer(caller, None) else { return Poll::Pending };
            let taken = take(Ok(&kept), cx);
            if taken.is_pending() {
                self.keep_answer(caller, Some(kept));
            }
            taken
        })
        .await
    }

    #[cold]
    fn keep_answer(&self, caller: u32, answer: Option<Box<[u8]>>) -> Option<Box<[u8]>> {
        let mut kept = self.kept.borrow_mut();
        index(caller)
            .and_then(|index| kept.get_mut(index))
            .and_then(|place| std::mem::replace(place, answer))
    }

    /// Keeps connected and lets the crew work until all of it has ended.
    ///
    /// # Errors
    /// What ended the first caller with an error, or why there is no connection.
    pub(super) async fn work<F>(&self, crew: &Crew<F>) -> Result<(), TransferError>
    where
        F: Future<Output = Result<(), TransferError>>,
    {
        let mut keeping = pin!(self.keep(crew));
        crew.poll_all();
        poll_fn(|cx| {
            // What they ask leaves when the connection is driven, next.
            crew.poll_woken(cx);
            let kept = keeping.as_mut().poll(cx);
            match crew.ended() {
                Some(ended) => Poll::Ready(ended),
                None => kept,
            }
        })
        .await
    }

    async fn keep<F>(&self, crew: &Crew<F>) -> Result<(), TransferError>
    where
        F: Future<Output = Result<(), TransferError>>,
    {
        let address = Address::from(&self.address);
        let mut lost = Instant::now();
        let mut backoff = Backoff::new(self.config.min_backoff, self.config.max_backoff);
        loop {
            let reason = match socket::dial(&address, &self.config).await {
                Ok(stream) => {
                    let conn = Conn::new(ClientEnd::new(self, crew));
                    let ending = drive(stream, &conn, |event| conn.with(|link| link.handle(event)));
                    let ending = ending.await.to_string();
                    let reason = conn
                        .look(|link| link.trouble)
                        .map_or(ending, |trouble| trouble.to_string());
                    // One that was closed before it brought a line is none, whatever the server
                    // greeted with.
                    if conn.look(|link| link.callers.is_useful) {
                        lost = Instant::now();
                        backoff.reset();
                    } else if conn.look(|link| link.link.in_flight()) == 0
                        && self.questions.borrow().is_empty()
                    {
                        // Nobody missed it: all callers wait for room.
                        lost = Instant::now();
                    }
                    self.fail(&conn, &reason, crew);
                    reason
                }
                Err(error) => error.to_string(),
            };
            let address = &self.address;
            tracing::debug!(address, reason, "the connection ended; connecting again");
            if self.patience < lost.elapsed() {
                let (address, waited) = (address.clone(), lost.elapsed());
                return Err(TransferError::NoAnswer { address, waited, reason });
            }
            tokio::time::sleep(backoff.next_wait()).await;
        }
    }

    /// The connection is gone: all that is out on it has failed.
    fn fail<F>(&self, conn: &Conn<ClientEnd<'_, F>>, reason: &str, crew: &Crew<F>)
    where
        F: Future<Output = Result<(), TransferError>>,
    {
        let failure = Arc::new(Failure::Broken(reason.to_owned()));
        let out: Vec<u32> = conn.with(|link| link.link.drain_pending().collect());
        for caller in out {
            self.give(caller, Err(&failure), crew);
        }
    }

    /// Lets a caller work on its answer.
    #[inline]
    fn give<F>(&self, caller: u32, answer: PayloadResult<'_>, crew: &Crew<F>)
    where
        F: Future<Output = Result<(), TransferError>>,
    {
        let Some(index) = index(caller) else { return };
        match answer {
            Ok(answer) => {
                let mut payload = self.current.payload.borrow_mut();
                payload.clear();
                payload.extend_from_slice(answer);
            }
            Err(failure) => *self.current.failure.borrow_mut() = Some(Arc::clone(failure)),
        }
        self.current.is_there.set(true);
        crew.poll(index);
        debug_assert!(!self.current.is_there.get(), "a caller takes its answer, or keeps it");
    }
}

/// The client's end of a link, with the callers on it.
struct ClientEnd<'a, F> {
    link: link_proto::Connection<u32>,
    /// Once the server has greeted.
    route: Option<RouteId>,
    /// Why there is no route.
    trouble: Option<SendError>,
    /// For calls without a deadline, to which it does not matter how late it is.
    start: Instant,
    callers: Callers<'a, F>,
}

struct Callers<'a, F> {
    connection: &'a FetchConnection,
    crew: &'a Crew<F>,
    /// An answer has come.
    is_useful: bool,
}

impl<F: Future<Output = Result<(), TransferError>>> InPlace<u32> for Callers<'_, F> {
    #[inline]
    fn takes_responses(&self) -> bool {
        true
    }

    #[inline]
    fn response(&mut self, caller: u32, status: Status, _: u8, payload: &[u8]) {
        let Self { connection, crew, is_useful } = self;
        match status {
            Status::OK => {
                *is_useful = true;
                connection.give(caller, Ok(payload), crew);
            }
            status => connection.give(caller, Err(&refused(status, payload)), crew),
        }
    }
}

impl<F> Drop for ClientEnd<'_, F> {
    fn drop(&mut self) {
        if let Some(traffic) = &self.callers.connection.config.traffic {
            traffic.count_link(&self.link);
        }
    }
}

impl<'a, F: Future<Output = Result<(), TransferError>>> ClientEnd<'a, F> {
    fn new(connection: &'a FetchConnection, crew: &'a Crew<F>) -> Self {
        let start = Instant::now();
        let link = link_proto::Connection::client(connection.config.link(), start);
        let callers = Callers { connection, crew, is_useful: false };
        Self { link, route: None, trouble: None, start, callers }
    }

    fn handle(&mut self, event: Event<u32>) {
        match event {
            Event::Ready(_) => {
                let def = RouteDef {
                    service: SERVICE.to_owned(),
                    method: NEXT.to_owned(),
                    descriptor: String::new(),
                    attachments: Vec::new(),
                };
                match self.link.define(&def) {
                    Ok(route) => self.route = Some(route),
                    Err(error) => {
                        self.trouble = Some(error);
                        self.link.go_away(GoAwayReason::SHUTDOWN);
                    }
                }
            }
            // An answer of more than one frame.
            Event::Response { token, status, payload, codec, .. } => {
                self.callers.response(token, status, codec, &payload);
            }
            _ => {}
        }
    }

    /// Sends what was asked, as far as there is room.
    fn send_questions(&mut self) {
        let Some(route) = self.route else { return };
        let mut questions = self.callers.connection.questions.borrow_mut();
        while let Some((caller, question)) = questions.front() {
            let request = RequestOut {
                codec: NUMBER,
                payload: question.as_slice().into(),
                ..RequestOut::new(route)
            };
            if self.link.send_request(self.start, request, *caller).is_err() {
                return;
            }
            questions.pop_front();
        }
    }
}

impl<F: Future<Output = Result<(), TransferError>>> Machine for ClientEnd<'_, F> {
    type Event = Event<u32>;
    type Error = LinkError;

    fn handle_bytes(&mut self, now: Instant, input: &mut BytesMut) -> Result<(), LinkError> {
        self.link.handle_bytes_with(now, input, &mut self.callers)
    }

    fn has_backlog(&self) -> bool {
        self.link.has_backlog()
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.link.handle_timeout(now);
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.link.poll_timeout()
    }

    fn poll_event(&mut self) -> Option<Event<u32>> {
        self.link.poll_event()
    }

    fn has_events(&self) -> bool {
        self.link.has_events()
    }

    fn transmit(&mut self) -> &mut BytesMut {
        self.send_questions();
        self.link.transmit()
    }

    fn is_finished(&self) -> bool {
        self.link.is_finished()
    }

    fn is_broken(&self) -> bool {
        self.link.failure().is_some()
    }
}

fn index(caller: u32) -> Option<usize> {
    usize::try_from(caller).ok()
}

#[cold]
fn refused(status: Status, text: &[u8]) -> Arc<Failure> {
    Arc::new(Failure::Refused { status, text: String::from_utf8_lossy(text).into_owned() })
}
