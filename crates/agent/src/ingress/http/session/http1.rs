//! HTTP/1: how a connection begins, is served, and rests.
//!
//! hyper keeps some 16 KiB for a connection for as long as it lasts. Where a worker has many, one
//! whose request was answered rests: nothing is kept for it but its socket, until more comes.
//!
//! Invariant: a connection rests only between two requests. All of the one before was read, and
//! all of its answer was written.

use std::future::poll_fn;
use std::mem::MaybeUninit;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Poll, ready};

use bytes::Bytes;
use http::Version;
use http::request::Parts;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use tokio::io::{AsyncRead, AsyncWriteExt, ReadBuf};
use wire::Connection;

use super::answering::{Answered, Answering};
use super::io::SessionIo;
use super::{HTTP2_START, HttpListener, HttpSession, MIN_BUFFER_LEN, Phase};
use crate::ingress::http::head::HeadFacts;
use crate::ingress::http::prepared_answers;
use crate::worker::Worker;

impl HttpSession {
    pub(super) async fn serve_http1(
        self: &Rc<Self>,
        worker: Rc<Worker>,
        listener: &Arc<HttpListener>,
        mut io: SessionIo,
    ) -> hyper::Result<()> {
        let answering = Answering::new(Rc::clone(&worker), Arc::clone(listener));
        let answering = self.answering.get_or_init(|| answering);
        let mut service = service_fn(|request| Answered::new(self, request));
        let tells_hang_up = io.tells_hang_up();
        self.hang_up.set_possible(tells_hang_up);
        loop {
            let mut connection = http1::Builder::new()
                // A caller that hangs up gives its call up. Unless we notice, hyper reads to find
                // out, into another 8 KiB for each request.
                .half_close(tells_hang_up)
                .max_buf_size(listener.config.max_head_len.max(MIN_BUFFER_LEN))
                .max_header_size(listener.config.max_head_len)
                .writev(true)
                .serve_connection(io, service);
            let leave = http1::Connection::graceful_shutdown;
            let rests = || worker.is_crowded() && self.may_rest();
            if let Some(ended) = self.until_end(Pin::new(&mut connection), leave, rests).await {
                let mut io = connection.into_parts().io;
                self.linger(io.stream.inner_mut().get_mut()).await;
                return ended;
            }
            answering.rest();
            let parts = connection.into_parts();
            (io, service) = (parts.io, parts.service);
            io.start = parts.read_buf;
            if io.start.is_empty() {
                let Some(start) = self.next_bytes(io.stream.inner_mut()).await else {
                    // As hyper ends one: by TLS, the peer is told.
                    let _ = io.stream.inner_mut().shutdown().await;
                    return Ok(());
                };
                io.start = start;
            }
            self.enter(Phase::Head);
            self.read_of_head(io.start.len());
        }
    }

    /// The request is read to its end.
    pub(in crate::ingress::http) fn read_whole(&self, head: &Parts, facts: &HeadFacts<'_>) {
        let is_http11 = head.version == Version::HTTP_11;
        self.hang_up.begin(is_http11);
        self.is_read_whole.set(is_http11 && !facts.has_options);
    }

    /// Whether the connection is between two requests, and leaves nothing undone.
    fn may_rest(&self) -> bool {
        self.phase.get() == Phase::Idle
            && self.is_read_whole.get()
            && !self.taking.is_blocked()
            && !self.draining.get()
            && !self.expired.get()
    }

    /// Reads until it is clear which version of HTTP this is.
    pub(super) async fn read_start(&self, stream: &mut Connection) -> Option<Bytes> {
        let mut start = Bytes::new();
        while HTTP2_START.starts_with(&start) && start.len() < HTTP2_START.len() {
            let Some(next) = self.next_bytes(stream).await else {
                if self.expired.get() {
                    // Whoever has sent nothing has asked for nothing.
                    if !start.is_empty() {
                        self.refuse(&prepared_answers::TIMEOUT);
                    }
                    let _ = stream.try_write(prepared_answers::TIMEOUT.bytes);
                }
                return None;
            };
            start = if start.is_empty() { next } else { [start, next].concat().into() };
        }
        Some(start)
    }

    /// What comes next. Nothing is kept for it until it is there. `None` if nothing will come, or
    /// the connection is to end.
    async fn next_bytes(&self, stream: &mut (impl AsyncRead + Unpin)) -> Option<Bytes> {
        let mut stream = pin!(stream);
        poll_fn(|cx| {
            self.set_task(cx);
            if self.expired.get() || self.draining.get() {
                return Poll::Ready(None);
            }
            let mut bytes = [MaybeUninit::uninit(); MIN_BUFFER_LEN];
            let mut buffer = ReadBuf::uninit(&mut bytes);
            let read = ready!(stream.as_mut().poll_read(cx, &mut buffer));
            let is_some = read.is_ok() && !buffer.filled().is_empty();
            Poll::Ready(is_some.then(|| Bytes::copy_from_slice(buffer.filled())))
        })
        .await
    }
}
