//! How requests are answered.
//!
//! The future of a call takes kilobytes. hyper keeps room for that of a request in each connection
//! of HTTP/1, and in the task of each stream of HTTP/2, and moves it there. So a thread has a few
//! futures that answer one request after the other, each in place; hyper has a short one that
//! waits for it. The future that was used last is used next: its memory is still in the
//! processor's caches, whichever connection it was for. A connection that is idle has none.

use std::cell::RefCell;
use std::convert::Infallible;
use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use http::request::Parts;
use http::{HeaderMap, Request, Response};
use hyper::body::Incoming;
use wire::Hold;

use super::{Active, HttpSession};
use crate::error::CallError;
use crate::ingress::http::handle;
use crate::ingress::http::outgoing_answer::{Leaving, StreamAnswer};

/// So many futures of a thread that answer nothing are kept.
const MAX_SPARE: usize = 64;

thread_local! {
    /// Those of this thread that answer nothing.
    static SPARE: RefCell<Vec<Answerer>> = const { RefCell::new(Vec::new()) };
}

/// A request, and what lasts until its answer leaves.
struct AcceptedRequest {
    /// In boxes, since a request goes from hand to hand until it is answered.
    head: Box<Parts>,
    room: Result<Option<Hold>, Box<CallError>>,
    body: Incoming,
    active: Active,
    stream: Option<Rc<StreamAnswer>>,
}

impl AcceptedRequest {
    /// A request that has just come.
    #[inline]
    fn new(session: &Rc<HttpSession>, request: Request<Incoming>) -> Self {
        let active = Active::begin(session);
        let (head, body) = request.into_parts();
        session.expects(&body);
        let mut head = Box::new(head);
        let (stream, room) = (session.begin_stream(), session.hold_head(&head.headers));
        if room.is_err() {
            // It is refused, and need not be kept until it is its turn.
            head.headers = HeaderMap::new();
        }
        Self { head, room: room.map_err(Box::new), body, active, stream }
    }

    /// Answers it.
    async fn answer(self) -> Response<Leaving> {
        let Self { head, room, body, active, stream } = self;
        let (_hold, room) = match room {
            Ok(hold) => (hold, Ok(())),
            Err(error) => (None, Err(*error)),
        };
        let session = active.session();
        let (worker, listener) = (&session.worker, &session.listener);
        let answer = handle(worker, listener, &active, room, &head, body).await;
        active.leave(answer, stream)
    }
}

/// The request that is to be answered, and its answer.
#[derive(Default)]
struct Exchange {
    asked: RefCell<Option<AcceptedRequest>>,
    answer: RefCell<Option<Response<Leaving>>>,
}

/// Answers one request after the other.
struct Answerer {
    exchange: Rc<Exchange>,
    work: Pin<Box<dyn Future<Output = Infallible>>>,
}

impl Answerer {
    fn new() -> Self {
        let exchange = Rc::<Exchange>::default();
        let own = Rc::clone(&exchange);
        let work = Box::pin(async move {
            loop {
                let asked = poll_fn(|_| own.asked.take().map_or(Poll::Pending, Poll::Ready)).await;
                let answer = asked.answer().await;
                *own.answer.borrow_mut() = Some(answer);
            }
        });
        Self { exchange, work }
    }

    /// One that answers nothing.
    fn spare() -> Self {
        SPARE.with_borrow_mut(Vec::pop).unwrap_or_else(Self::new)
    }

    /// It has answered.
    fn keep(self) {
        let one_too_many = SPARE.with_borrow_mut(|spare| {
            let has_room = spare.len() < MAX_SPARE;
            let mut this = Some(self);
            spare.extend(this.take_if(|_| has_room));
            this
        });
        drop(one_too_many);
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Response<Leaving>> {
        // It never ends; what it has made is in the exchange.
        let _ = self.work.as_mut().poll(cx);
        self.exchange.answer.take().map_or(Poll::Pending, Poll::Ready)
    }
}

/// The answer to a request. Dropped, its call is given up.
pub(super) struct Answered {
    /// Until it is there.
    answerer: Option<Answerer>,
}

impl Answered {
    pub(super) fn new(session: &Rc<HttpSession>, request: Request<Incoming>) -> Self {
        let answerer = Answerer::spare();
        *answerer.exchange.asked.borrow_mut() = Some(AcceptedRequest::new(session, request));
        Self { answerer: Some(answerer) }
    }
}

impl Future for Answered {
    type Output = Result<Response<Leaving>, Infallible>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let polled = self.answerer.as_mut().map_or(Poll::Pending, |it| it.poll(cx));
        if polled.is_ready() {
            self.answerer.take().into_iter().for_each(Answerer::keep);
        }
        polled.map(Ok)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::pin::pin;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::UnixStream;
    use wire::Connection;

    use super::super::testing::session;
    use super::*;
    use crate::connections::Session;
    use crate::testing::{on_worker, until};

    const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nhost: here\r\n\r\n";

    /// What cannot be understood once it was read, head and body.
    const POST: &[u8] = b"POST / HTTP/1.1\r\nhost: here\r\ncontent-length: 1\r\n\r\nx";

    /// A connection that is being served, and its other end.
    fn served() -> (Rc<HttpSession>, UnixStream) {
        served_in(Rc::default())
    }

    /// The same, whose turns are counted.
    fn served_in(n_turns: Rc<Cell<u32>>) -> (Rc<HttpSession>, UnixStream) {
        let (caller, ours) = UnixStream::pair().unwrap();
        let session = session();
        let serving = Rc::clone(&session);
        tokio::task::spawn_local(async move {
            let connection = Connection::outgoing_unix(ours, "test");
            let mut serving = pin!(serving.serve(connection));
            poll_fn(|cx| {
                n_turns.set(n_turns.get() + 1);
                serving.as_mut().poll(cx)
            })
            .await;
        });
        (session, caller)
    }

    async fn answer_to(caller: &mut UnixStream, request: &[u8]) -> String {
        caller.write_all(request).await.unwrap();
        let mut answer = vec![0; 4096];
        let len = caller.read(&mut answer).await.unwrap();
        String::from_utf8_lossy(&answer[..len]).into_owned()
    }

    fn n_spare() -> usize {
        SPARE.with_borrow(Vec::len)
    }

    #[test]
    fn who_was_answered_well_is_known() {
        on_worker(async || {
            let (session, mut caller) = served();
            let is_known = || Session::is_known(&*session);
            let answer = answer_to(&mut caller, REQUEST).await;
            assert!(answer.starts_with("HTTP/1.1 4") && !is_known(), "{answer}");
            let good = Response::new(bytes::Bytes::new());
            drop(Active::begin(&session).leave(good, None));
            assert!(is_known());
        });
    }

    #[test]
    fn connections_answer_in_turns_with_the_same_future() {
        on_worker(async || {
            let mut callers = [served().1, served().1];
            for _ in 0..3 {
                for caller in &mut callers {
                    let answer = answer_to(caller, REQUEST).await;
                    assert!(answer.starts_with("HTTP/1.1 405 "), "{answer}");
                    assert_eq!(n_spare(), 1);
                }
            }
        });
    }

    #[test]
    fn few_futures_are_kept_that_answer_nothing() {
        let many: Vec<_> = (0..=MAX_SPARE).map(|_| Answerer::spare()).collect();
        many.into_iter().for_each(Answerer::keep);
        assert_eq!(n_spare(), MAX_SPARE);
    }

    #[test]
    fn a_request_takes_one_turn_if_all_of_it_comes_at_once() {
        on_worker(async || {
            let n_turns = Rc::default();
            let (_session, mut caller) = served_in(Rc::clone(&n_turns));
            let mut n_before = 0;
            for n in 0..10 {
                let answer = answer_to(&mut caller, POST).await;
                assert!(answer.starts_with("HTTP/1.1 400 "), "{answer}");
                assert!(n == 0 || n_turns.get() == n_before + 1, "{} turns", n_turns.get());
                n_before = n_turns.get();
            }
        });
    }

    #[test]
    fn a_connection_ends_whose_body_is_not_read_to_its_end() {
        on_worker(async || {
            let (_session, mut caller) = served();
            let request = b"POST / HTTP/1.1\r\nhost: here\r\ncontent-length: 99999999999\r\n\r\nx";
            let answer = answer_to(&mut caller, request).await;
            assert!(answer.starts_with("HTTP/1.1 413 "), "{answer}");
            let len = until(|| caller.try_read(&mut [0]).ok()).await;
            assert_eq!(len, 0);
        });
    }
}
