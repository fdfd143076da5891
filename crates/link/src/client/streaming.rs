//! Calls that stream: what a caller opens, and holds while it is open.

use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker, ready};
use std::time::{Duration, Instant};

use bytes::Bytes;
use link_proto::{Payload, RouteDef};

use super::Bound;
use super::call::{Call, CallPlace, Reply, observed, read, settled};
use super::lanes::Lanes;
use crate::blocking::block_on;
use crate::error::{CallError, Failure, NoError};
use crate::method::{Method, StreamMethod};
use crate::observe::{self, CallInfo, Side};
use crate::streaming::{Receiver, Sender, StreamEnd};
use wire::SharedMachine;

/// A streaming method of one client's server, ready to be called.
pub struct BoundStream<Req: 'static, In: 'static, Out: 'static, Resp: 'static, E: 'static = NoError>
{
    pub(super) call: Bound<Req, Resp, E>,
    pub(super) method: Arc<StreamMethod<Req, In, Out, Resp, E>>,
}

impl<Req, In, Out, Resp, E> Clone for BoundStream<Req, In, Out, Resp, E> {
    fn clone(&self) -> Self {
        Self { call: self.call.clone(), method: Arc::clone(&self.method) }
    }
}

impl<Req, In, Out, Resp, E> BoundStream<Req, In, Out, Resp, E> {
    /// A streaming call, which begins when it is awaited.
    pub fn open(&self, args: Req) -> Open<'_, Req, In, Out, Resp, E> {
        let mut call = Call::new(&self.call, args, false).no_timeout();
        call.stream_in = self.method.streams_in;
        call.stream_out = self.method.streams_out;
        Open { call, bound: self }
    }
}

/// A streaming call that is being opened: a future of its streams.
///
/// It has no timeout unless one is set, which then holds for all of it, streams included.
#[must_use = "a call does nothing unless it is awaited"]
pub struct Open<'a, Req: 'static, In: 'static, Out: 'static, Resp: 'static, E: 'static = NoError> {
    call: Call<'a, Req, Resp, E>,
    bound: &'a BoundStream<Req, In, Out, Resp, E>,
}

impl<Req, In, Out, Resp, E> Open<'_, Req, In, Out, Resp, E> {
    /// See [`Call::timeout`].
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.call = self.call.timeout(timeout);
        self
    }

    /// See [`Call::meta`].
    pub fn meta(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.call = self.call.meta(key, value);
        self
    }

    /// See [`Call::codec`].
    pub fn codec(mut self, number: u8) -> Self {
        self.call = self.call.codec(number);
        self
    }
}

impl<Req, In, Out, Resp, E> Open<'_, Req, In, Out, Resp, E> {
    /// Opens the call from a thread that runs no asynchronous tasks; see [`Call::wait`].
    ///
    /// # Errors
    /// As of the future.
    pub fn wait(self) -> Result<Streaming<In, Out, Resp, E>, Failure> {
        block_on(self)
    }
}

impl<Req, In, Out, Resp, E> Future for Open<'_, Req, In, Out, Resp, E> {
    type Output = Result<Streaming<In, Out, Resp, E>, Failure>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if let Err(failure) = self.call.begin(cx.waker()) {
            self.call.unwatch(observe::Outcome::Failed(failure.name()));
            return Poll::Ready(Err(failure));
        }
        let Some(begun) = self.call.begun.take() else {
            return Poll::Ready(Err(Failure::Closed));
        };
        let (codec, method) = (self.call.codec, &self.bound.method);
        let lanes = Arc::clone(self.call.lanes());
        let def = Arc::clone(&self.bound.call.def);
        let watch = Mutex::new(self.call.watched.take().map(|start| StreamWatch { def, start }));
        let end = Arc::new(Handle { begun, lanes, watch });
        let (near, far) = (Arc::clone(&end), Arc::clone(&end));
        Poll::Ready(Ok(Streaming {
            sender: Sender::new(near, method.inputs, codec),
            receiver: Receiver::new(far, method.outputs),
            reply: StreamReply {
                end,
                timeout: self.call.timeout.unwrap_or_default(),
                method: Arc::clone(&self.bound.call.method) as Arc<dyn ReadReply<Resp, E>>,
                types: PhantomData,
            },
        }))
    }
}

/// A streaming call that is open. When all its parts are dropped, the call is given up.
#[derive(Debug)]
pub struct Streaming<In: 'static, Out: 'static, Resp: 'static, E: 'static = NoError> {
    /// Sends items to the server; dropping it says that there are no more.
    pub sender: Sender<In>,
    /// Receives the server's items.
    pub receiver: Receiver<Out>,
    /// The reply, with which the call ends.
    pub reply: StreamReply<Resp, E>,
}

impl<In, Out, Resp, E> Streaming<In, Out, Resp, E> {
    /// Sends no more items, ignores those that come, and waits for the reply.
    ///
    /// # Errors
    /// As any call's.
    pub async fn finish(self) -> Result<Resp, CallError<E>> {
        drop(self.sender);
        let mut receiver = self.receiver;
        // An error that ends the stream is told by the reply, too.
        while let Ok(Some(_)) = receiver.next().await {}
        self.reply.await
    }
}

/// The reply of a streaming call: a future.
#[must_use = "the reply tells whether all went well"]
pub struct StreamReply<Resp: 'static, E: 'static = NoError> {
    end: Arc<Handle>,
    timeout: Duration,
    method: Arc<dyn ReadReply<Resp, E>>,
    types: PhantomData<fn() -> (Resp, E)>,
}

impl<Resp, E> std::fmt::Debug for StreamReply<Resp, E> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StreamReply").finish_non_exhaustive()
    }
}

impl<Resp, E> StreamReply<Resp, E> {
    /// Blocks this thread until the reply is there; see [`Call::wait`].
    ///
    /// # Errors
    /// As of the future.
    pub fn wait(self) -> Result<Resp, CallError<E>> {
        block_on(self)
    }
}

/// A method, without the type of its arguments.
trait ReadReply<Resp, E>: Send + Sync {
    fn read(&self, response: super::session::Response) -> Result<Reply<Resp>, CallError<E>>;
}

impl<Req, Resp, E> ReadReply<Resp, E> for Method<Req, Resp, E> {
    fn read(&self, response: super::session::Response) -> Result<Reply<Resp>, CallError<E>> {
        read(self, response)
    }
}

impl<Resp, E> Future for StreamReply<Resp, E> {
    type Output = Result<Resp, CallError<E>>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let CallPlace { session, key, .. } = &self.end.begun;
        let outcome = ready!(session.lock(|session| session.poll_outcome(*key, cx.waker())));
        let result = match settled(outcome, self.timeout, self.end.lanes.dialer()) {
            Ok(Some(response)) => self.method.read(response).map(|reply| reply.value),
            Ok(None) => Err(Failure::Closed.into()),
            Err(failure) => Err(failure.into()),
        };
        self.end.unwatch(|| observed(&result));
        Poll::Ready(result)
    }
}

/// What the parts of a streaming call share.
struct Handle {
    begun: CallPlace,
    lanes: Arc<Lanes>,
    watch: Mutex<Option<StreamWatch>>,
}

/// A streaming call whose end an observer is to be told of.
struct StreamWatch {
    def: Arc<RouteDef>,
    start: Instant,
}

impl Handle {
    /// Tells the observer, if there is one that was not told before.
    fn unwatch(&self, outcome: impl FnOnce() -> observe::Outcome) {
        let watch = self.watch.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let (Some(StreamWatch { def, start }), Some(observer)) =
            (watch, &self.lanes.config().observer)
        {
            let (service, method, peer) = (&*def.service, &*def.method, self.lanes.dialer());
            let info = CallInfo { side: Side::Client, service, method, peer };
            observe::ended(&**observer, &info, outcome(), start.elapsed());
        }
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        let CallPlace { session, lane, key } = &self.begun;
        self.lanes.end(*lane);
        session.with(|session| session.give_up(*key));
        self.unwatch(|| observe::Outcome::Abandoned);
    }
}

impl StreamEnd for Handle {
    fn poll_item(&self, waker: &Waker) -> Poll<Result<Option<(u8, Bytes)>, Failure>> {
        self.begun.session.with(|session| session.poll_item(self.begun.key, waker))
    }

    fn poll_send(
        &self,
        codec: u8,
        payload: &Payload<'_>,
        waker: &Waker,
    ) -> Poll<Result<(), Failure>> {
        self.begun.session.with(|session| session.poll_send(self.begun.key, codec, payload, waker))
    }

    fn poll_flushed(&self, waker: &Waker) -> Poll<()> {
        self.begun.session.lock(|session| session.poll_flushed(self.begun.key, waker))
    }

    fn end_items(&self) {
        self.begun.session.with(|session| session.end_items(self.begun.key));
    }
}
