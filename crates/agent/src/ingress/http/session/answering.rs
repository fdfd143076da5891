//! How the requests of a connection are answered.
//!
//! The future of a call takes kilobytes. hyper keeps room for that of a request in each connection
//! of HTTP/1, and moves it there. So one future answers all requests of such a connection, and
//! each call is made in place; hyper has a short one that waits for it. A connection that is idle
//! has neither.

use std::cell::{Cell, RefCell};
use std::convert::Infallible;
use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::header::CONTENT_LENGTH;
use http::request::Parts;
use http::{HeaderMap, Method, Request, Response};
use hyper::body::Incoming;
use wire::Hold;

use super::{Active, HttpSession};
use crate::error::CallError;
use crate::ingress::http::outgoing_answer::{Leaving, StreamAnswer};
use crate::ingress::http::{HttpAnswer, HttpListener, handle};
use crate::worker::Worker;

/// A request, and what lasts until its answer leaves.
pub(super) struct AcceptedRequest {
    /// In a box, since a request goes from hand to hand until it is answered.
    head: Box<Parts>,
    body: Incoming,
    active: Active,
    stream: Option<Rc<StreamAnswer>>,
    room: Result<Option<Hold>, CallError>,
}

impl AcceptedRequest {
    /// A request that has just come.
    #[inline]
    pub(super) fn new(session: &Rc<HttpSession>, request: Request<Incoming>) -> Self {
        let active = Active::begin(session);
        let (head, body) = request.into_parts();
        session.expects(&body);
        let mut head = Box::new(head);
        let (stream, room) = (session.begin_stream(), session.hold_head(&head.headers));
        if room.is_err() {
            // It is refused, and need not be kept until it is its turn.
            head.headers = HeaderMap::new();
        }
        Self { head, body, active, stream, room }
    }

    /// Answers it.
    pub(super) async fn answer(
        self,
        worker: &Worker,
        listener: &HttpListener,
    ) -> Response<Leaving> {
        let Self { head, body, active, stream, room } = self;
        let (_hold, room) = match room {
            Ok(hold) => (hold, Ok(())),
            Err(error) => (None, Err(error)),
        };
        let answer = handle(worker, listener, &active, room, &head, body).await;
        // hyper leaves out the body of an answer to HEAD itself, but for HTTP/2.
        let has_no_body = stream.is_some() && head.method == Method::HEAD;
        active.leave(if has_no_body { without_body(answer) } else { answer }, stream)
    }
}

/// The answer to HEAD: all but its body, whose length it tells.
#[cold]
fn without_body(mut answer: HttpAnswer) -> HttpAnswer {
    let len = std::mem::take(answer.body_mut()).len();
    answer.headers_mut().entry(CONTENT_LENGTH).or_insert_with(|| len.into());
    answer
}

/// What answers the requests of a connection of HTTP/1, one after the other.
type Work = Pin<Box<dyn Future<Output = Infallible>>>;

/// The request that is to be answered, and its answer.
#[derive(Default)]
struct Exchange {
    asked: RefCell<Option<AcceptedRequest>>,
    answer: RefCell<Option<Response<Leaving>>>,
}

/// The answers of a connection of HTTP/1.
pub(super) struct Answering {
    worker: Rc<Worker>,
    listener: Arc<HttpListener>,
    exchange: Rc<Exchange>,
    /// While requests come.
    work: Cell<Option<Work>>,
}

impl Answering {
    pub(super) fn new(worker: Rc<Worker>, listener: Arc<HttpListener>) -> Self {
        Self { worker, listener, exchange: Rc::default(), work: Cell::new(None) }
    }

    /// Gives back what it takes to answer: no request is being answered, and none has come for a
    /// while.
    pub(super) fn rest(&self) {
        self.work.set(None);
    }

    fn begin(&self) -> Work {
        let (worker, listener) = (Rc::clone(&self.worker), Arc::clone(&self.listener));
        let exchange = Rc::clone(&self.exchange);
        Box::pin(async move {
            loop {
                poll_fn(|_| match exchange.asked.borrow().is_some() {
                    true => Poll::Ready(()),
                    false => Poll::Pending,
                })
                .await;
                let Some(asked) = exchange.asked.take() else { continue };
                let answer = asked.answer(&worker, &listener).await;
                *exchange.answer.borrow_mut() = Some(answer);
            }
        })
    }

    fn poll(&self, cx: &mut Context<'_>) -> Poll<Response<Leaving>> {
        let mut work = self.work.take().unwrap_or_else(|| self.begin());
        // It never ends; what it has made is in the exchange.
        let _ = work.as_mut().poll(cx);
        self.work.set(Some(work));
        self.exchange.answer.take().map_or(Poll::Pending, Poll::Ready)
    }
}

/// The answer to a request of HTTP/1. Dropped, its call is given up.
pub(super) struct Answered {
    session: Rc<HttpSession>,
    is_done: bool,
}

impl Answered {
    /// The answer to the only request of the connection that is under way.
    pub(super) fn new(session: &Rc<HttpSession>, request: Request<Incoming>) -> Self {
        if let Some(answering) = session.answering.get() {
            *answering.exchange.asked.borrow_mut() = Some(AcceptedRequest::new(session, request));
        }
        Self { session: Rc::clone(session), is_done: false }
    }
}

impl Future for Answered {
    type Output = Result<Response<Leaving>, Infallible>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(answering) = self.session.answering.get() else { return Poll::Pending };
        let polled = answering.poll(cx);
        self.is_done = polled.is_ready();
        polled.map(Ok)
    }
}

impl Drop for Answered {
    fn drop(&mut self) {
        if let (false, Some(answering)) = (self.is_done, self.session.answering.get()) {
            answering.rest();
            answering.exchange.asked.take();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::time::Instant;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::UnixStream;
    use wire::{Connection, Group, Peer};

    use super::super::REST_AFTER;
    use super::*;
    use crate::config;
    use crate::connections::Session;
    use crate::error::Code;
    use crate::metrics::Hub;
    use crate::testing::{account, on_worker, until, worker_setup};

    const CONFIG: &str = r#"
        [[ingress]]
        protocol = "http"
        listen = "127.0.0.1:0"
        [[registry]]
        kind = "file"
        path = "services.toml"
    "#;
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
        let session = HttpSession::new(account(), Peer::Unix);
        let config = config::parse(CONFIG, "test.toml").unwrap().http.remove(0);
        let stats = vec![Hub::new(&Code::NAMES).ingress("test")];
        let listener = Arc::new(HttpListener { config, stats, memory: Group::new() });
        let (serving, worker) = (Rc::clone(&session), Worker::new(worker_setup(Vec::new())));
        tokio::task::spawn_local(async move {
            let connection = Connection::outgoing_unix(ours, "test");
            let mut serving = pin!(serving.serve(worker, &listener, connection));
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

    fn has_work(session: &HttpSession) -> bool {
        let answering = session.answering.get().unwrap();
        let work = answering.work.take();
        let has = work.is_some();
        answering.work.set(work);
        has
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
    fn an_idle_connection_keeps_nothing_to_answer_with_and_answers_again() {
        on_worker(async || {
            let (session, mut caller) = served();
            for _ in 0..2 {
                for _ in 0..2 {
                    let answer = answer_to(&mut caller, REQUEST).await;
                    assert!(answer.starts_with("HTTP/1.1 405 "), "{answer}");
                }
                until(|| (session.activity().doing == "idle").then_some(())).await;
                assert!(has_work(&session));
                session.check_time(Instant::now());
                assert!(has_work(&session), "the next request may come soon");
                session.check_time(Instant::now() + REST_AFTER);
                assert!(!has_work(&session));
            }
        });
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
