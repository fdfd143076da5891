//! Services: names, and a handler for each method.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context as TaskContext, Poll, ready};

use bytes::{Bytes, BytesMut};
use link_proto::Status;
use pin_project_lite::pin_project;

use super::context::Context;
use super::in_place::{self, Answerer};
use super::streams::CallStreams;
use crate::codec::{CodecError, Codecs};
use crate::error::SetupError;
use crate::method::{Method, StreamMethod, StreamParts};
use crate::streaming::{Receiver, Sender, StreamEnd};

/// What a server offers under one name. A service in which two methods have one name, or with a
/// method of another service, is refused by [`Server::listen`](crate::Server::listen).
///
/// Usually made by the `service` macro; or by hand:
///
/// ```
/// use link::codec::Serde;
/// use link::{Method, Service};
///
/// const ADD: Method<(i64, i64), i64> = Method::new::<Serde>("demo.Sums", "add");
/// let sums = Service::new("demo.Sums").method(&ADD, |_, (a, b)| async move { a + b });
/// ```
pub struct Service {
    pub(crate) name: String,
    pub(crate) methods: HashMap<String, Arc<ServedMethod>>,
    /// The first method that cannot be offered, for [`Server::listen`](crate::Server::listen).
    pub(crate) mistake: Option<SetupError>,
}

/// A method as the server keeps it.
pub(crate) struct ServedMethod {
    pub service: String,
    pub method: String,
    pub handler: Box<dyn Handler>,
    /// Its first step took so long, or is so new, that it does not share a task with other calls.
    is_slow: AtomicBool,
}

impl ServedMethod {
    pub(crate) fn is_slow(&self) -> bool {
        self.is_slow.load(Ordering::Relaxed)
    }

    pub(crate) fn set_slow(&self, is_slow: bool) {
        if self.is_slow() != is_slow {
            self.is_slow.store(is_slow, Ordering::Relaxed);
        }
    }
}

/// Begins calls of one method.
pub(crate) trait Handler: Send + Sync {
    /// Whether calls run in the pool of threads that may block.
    fn is_blocking(&self) -> bool {
        false
    }

    /// The method, if it may be answered in place.
    fn in_place(&self) -> Option<&dyn Answerer> {
        None
    }

    /// Begins a call: decodes its arguments, and makes the future of its answer. Nothing but
    /// decoding is done before that is polled.
    ///
    /// # Errors
    /// The answer to arguments that cannot be read.
    fn begin(
        &self,
        context: Context,
        codec: u8,
        payload: Bytes,
    ) -> Result<Pin<Box<dyn Running>>, CallRefusal>;

    /// As [`Handler::begin`], of a call with streams.
    ///
    /// # Errors
    /// The answer to arguments that cannot be read, or to a method that does not stream.
    fn begin_stream(
        &self,
        context: Context,
        codec: u8,
        payload: Bytes,
        end: Arc<CallStreams>,
    ) -> Result<Pin<Box<dyn Running>>, CallRefusal> {
        let _ = (context, codec, payload, end);
        let text = "this method does not stream".to_owned();
        Err(CallRefusal { status: Status::BAD_REQUEST, text })
    }
}

/// A call at work.
pub(crate) trait Running: Send {
    /// Works on; when it is done, its answer is appended to `out` or given as bytes. In the
    /// latter case `out` may hold the beginning of something that failed.
    fn poll(self: Pin<&mut Self>, cx: &mut TaskContext<'_>, out: &mut Vec<u8>) -> Poll<AnswerHead>;
}

/// An answer, but for a payload that was appended to a buffer.
pub(crate) struct AnswerHead {
    pub status: Status,
    pub codec: u8,
    /// The payload, if it is not in the buffer.
    pub payload: Option<Bytes>,
}

/// An answer that is an error of the link's own.
#[derive(Debug)]
pub(crate) struct CallRefusal {
    pub status: Status,
    pub text: String,
}

impl CallRefusal {
    fn bad_arguments(error: &CodecError) -> Self {
        Self { status: Status::BAD_REQUEST, text: format!("cannot decode the arguments: {error}") }
    }
}

impl Service {
    /// A service without methods.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), methods: HashMap::new(), mistake: None }
    }

    /// Adds a method of this service. `owner` is the service that the method says it is of.
    fn add(&mut self, owner: &str, method: &str, handler: Box<dyn Handler>) {
        if owner == self.name {
            return self.insert(method, handler);
        }
        let (service, method, owner) = (self.name.clone(), method.to_owned(), owner.to_owned());
        self.mistake.get_or_insert(SetupError::ForeignMethod { service, method, owner });
    }

    fn insert(&mut self, method: &str, handler: Box<dyn Handler>) {
        let (service, method) = (self.name.clone(), method.to_owned());
        match self.methods.entry(method.clone()) {
            Entry::Vacant(place) => {
                let is_slow = AtomicBool::new(true);
                place.insert(Arc::new(ServedMethod { service, method, handler, is_slow }));
            }
            Entry::Occupied(_) => {
                self.mistake.get_or_insert(SetupError::TwoMethods { service, method });
            }
        }
    }

    /// Adds a method that always gives a reply.
    #[must_use]
    pub fn method<Req, Resp, F, Fut>(mut self, method: &Method<Req, Resp>, handle: F) -> Self
    where
        Req: Send + 'static,
        Resp: Send + 'static,
        F: Fn(Context, Req) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Resp> + Send + 'static,
    {
        let encode = encode_reply::<Resp>(method.responses);
        let handler = Async { requests: method.requests, handle, encode };
        self.add(&method.service, &method.name, Box::new(handler));
        self
    }

    /// Adds a method that may answer with an error of its own.
    #[must_use]
    pub fn fallible<Req, Resp, E, F, Fut>(
        mut self,
        method: &Method<Req, Resp, E>,
        handle: F,
    ) -> Self
    where
        Req: Send + 'static,
        Resp: Send + 'static,
        E: Send + 'static,
        F: Fn(Context, Req) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Resp, E>> + Send + 'static,
    {
        let encode = encode_result::<Resp, E>(method.responses, method.errors);
        let handler = Async { requests: method.requests, handle, encode };
        self.add(&method.service, &method.name, Box::new(handler));
        self
    }

    /// Adds a method that may block its thread; it runs in the server's pool of threads.
    #[must_use]
    pub fn blocking<Req, Resp, F>(mut self, method: &Method<Req, Resp>, handle: F) -> Self
    where
        Req: Send + 'static,
        Resp: Send + 'static,
        F: Fn(&Context, Req) -> Resp + Send + Sync + 'static,
    {
        let encode = encode_reply::<Resp>(method.responses);
        let handler = Blocking { requests: method.requests, handle: Arc::new(handle), encode };
        self.add(&method.service, &method.name, Box::new(handler));
        self
    }

    /// Adds a method that may block its thread and may answer with an error of its own.
    #[must_use]
    pub fn blocking_fallible<Req, Resp, E, F>(
        mut self,
        method: &Method<Req, Resp, E>,
        handle: F,
    ) -> Self
    where
        Req: Send + 'static,
        Resp: Send + 'static,
        E: Send + 'static,
        F: Fn(&Context, Req) -> Result<Resp, E> + Send + Sync + 'static,
    {
        let encode = encode_result::<Resp, E>(method.responses, method.errors);
        let handler = Blocking { requests: method.requests, handle: Arc::new(handle), encode };
        self.add(&method.service, &method.name, Box::new(handler));
        self
    }
}

impl Service {
    /// Adds a method from bytes to bytes that answers at once: it appends its reply to the buffer.
    /// It runs while requests are read, so that a call costs no task, no future and no allocation.
    /// Whatever takes longer than a few microseconds holds up its connection, deadlines are not
    /// looked at, and what fails says so in its reply. Its codec is [`Raw`](crate::codec::Raw).
    ///
    /// ```
    /// # use link::Service;
    /// let upper = Service::new("demo.Text")
    ///     .in_place("upper", |text, reply| {
    ///         reply.extend(text.iter().map(u8::to_ascii_uppercase))
    ///     });
    /// ```
    #[must_use]
    pub fn in_place<F>(mut self, method: &str, answer: F) -> Self
    where
        F: Fn(&[u8], &mut BytesMut) + Send + Sync + 'static,
    {
        self.insert(method, Box::new(in_place::InPlaceMethod(Arc::new(answer))));
        self
    }

    /// Adds a method that streams. The call ends with what the handler returns; what its
    /// sender has taken by then arrives before.
    #[must_use]
    pub fn streaming<Req, In, Out, Resp, F, Fut>(
        mut self,
        method: &StreamMethod<Req, In, Out, Resp>,
        handle: F,
    ) -> Self
    where
        Req: Send + 'static,
        In: Send + 'static,
        Out: Send + 'static,
        Resp: Send + 'static,
        F: Fn(Context, Req, Receiver<In>, Sender<Out>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Resp> + Send + 'static,
    {
        let encode = encode_reply::<Resp>(method.call.responses);
        let handler = StreamingMethod { method: method.parts(), handle, encode };
        self.add(&method.call.service, &method.call.name, Box::new(handler));
        self
    }

    /// Adds a method that streams and may end with an error of its own.
    #[must_use]
    pub fn streaming_fallible<Req, In, Out, Resp, E, F, Fut>(
        mut self,
        method: &StreamMethod<Req, In, Out, Resp, E>,
        handle: F,
    ) -> Self
    where
        Req: Send + 'static,
        In: Send + 'static,
        Out: Send + 'static,
        Resp: Send + 'static,
        E: Send + 'static,
        F: Fn(Context, Req, Receiver<In>, Sender<Out>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Resp, E>> + Send + 'static,
    {
        let encode = encode_result::<Resp, E>(method.call.responses, method.call.errors);
        let handler = StreamingMethod { method: method.parts(), handle, encode };
        self.add(&method.call.service, &method.call.name, Box::new(handler));
        self
    }
}

impl std::fmt::Debug for Service {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Service")
            .field("name", &self.name)
            .field("methods", &self.methods.keys())
            .finish()
    }
}

/// Turns what a handler returned into an answer, in the codec of the request.
pub(crate) trait EncodeAnswer<T>: Clone + Send + Sync + 'static {
    fn encode(&self, codec: u8, value: T, out: &mut Vec<u8>) -> (Status, Option<Bytes>);
}

impl<T, F> EncodeAnswer<T> for F
where
    F: Fn(u8, T, &mut Vec<u8>) -> (Status, Option<Bytes>) + Clone + Send + Sync + 'static,
{
    fn encode(&self, codec: u8, value: T, out: &mut Vec<u8>) -> (Status, Option<Bytes>) {
        self(codec, value, out)
    }
}

fn encode_reply<T: 'static>(codecs: &'static Codecs<T>) -> impl EncodeAnswer<T> {
    move |codec, value: T, out: &mut Vec<u8>| encoded(Status::OK, codecs.encode(codec, &value, out))
}

fn encode_result<T: 'static, E: 'static>(
    codecs: &'static Codecs<T>,
    errors: Option<&'static Codecs<E>>,
) -> impl EncodeAnswer<Result<T, E>> {
    move |codec, value: Result<T, E>, out: &mut Vec<u8>| match (value, errors) {
        (Ok(value), _) => encoded(Status::OK, codecs.encode(codec, &value, out)),
        (Err(error), Some(errors)) => encoded(Status::APP_ERROR, errors.encode(codec, &error, out)),
        (Err(_), None) => encoded(Status::OK, Err(CodecError::new("errors have no codec"))),
    }
}

fn encoded(status: Status, result: Result<Option<&Bytes>, CodecError>) -> (Status, Option<Bytes>) {
    match result {
        Ok(payload) => (status, payload.cloned()),
        Err(error) => {
            let text = format!("cannot encode the reply: {error}");
            (Status::SERVER_ERROR, Some(text.into()))
        }
    }
}

/// A method that is an asynchronous function.
struct Async<Req: 'static, F, N> {
    requests: &'static Codecs<Req>,
    handle: F,
    encode: N,
}

impl<Req, T, F, Fut, N> Handler for Async<Req, F, N>
where
    Req: Send + 'static,
    T: Send + 'static,
    F: Fn(Context, Req) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = T> + Send + 'static,
    N: EncodeAnswer<T>,
{
    fn begin(
        &self,
        context: Context,
        codec: u8,
        payload: Bytes,
    ) -> Result<Pin<Box<dyn Running>>, CallRefusal> {
        let args = self
            .requests
            .decode(codec, payload)
            .map_err(|error| CallRefusal::bad_arguments(&error))?;
        let future = (self.handle)(context, args);
        Ok(Box::pin(HandlerFuture { future, codec, encode: self.encode.clone() }))
    }
}

pin_project! {
    /// A handler's future, and what is needed to encode its answer.
    struct HandlerFuture<Fut, N> {
        #[pin]
        future: Fut,
        codec: u8,
        encode: N,
    }
}

impl<Fut, N> Running for HandlerFuture<Fut, N>
where
    Fut: Future + Send,
    N: EncodeAnswer<Fut::Output>,
{
    fn poll(self: Pin<&mut Self>, cx: &mut TaskContext<'_>, out: &mut Vec<u8>) -> Poll<AnswerHead> {
        let this = self.project();
        let value = ready!(this.future.poll(cx));
        let (status, payload) = this.encode.encode(*this.codec, value, out);
        Poll::Ready(AnswerHead { status, codec: *this.codec, payload })
    }
}

/// A method that streams.
struct StreamingMethod<Req: 'static, In: 'static, Out: 'static, F, N> {
    method: StreamParts<Req, In, Out>,
    handle: F,
    encode: N,
}

impl<Req, In, Out, T, F, Fut, N> Handler for StreamingMethod<Req, In, Out, F, N>
where
    Req: Send + 'static,
    In: Send + 'static,
    Out: Send + 'static,
    T: Send + 'static,
    F: Fn(Context, Req, Receiver<In>, Sender<Out>) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = T> + Send + 'static,
    N: EncodeAnswer<T>,
{
    fn begin(&self, _: Context, _: u8, _: Bytes) -> Result<Pin<Box<dyn Running>>, CallRefusal> {
        let text = "this method streams, but the call does not".to_owned();
        Err(CallRefusal { status: Status::BAD_REQUEST, text })
    }

    fn begin_stream(
        &self,
        context: Context,
        codec: u8,
        payload: Bytes,
        end: Arc<CallStreams>,
    ) -> Result<Pin<Box<dyn Running>>, CallRefusal> {
        let StreamParts { requests, inputs, outputs } = self.method;
        let args =
            requests.decode(codec, payload).map_err(|error| CallRefusal::bad_arguments(&error))?;
        let near: Arc<dyn StreamEnd> = Arc::clone(&end) as Arc<dyn StreamEnd>;
        let receiver = Receiver::new(Arc::clone(&near), inputs);
        let work = (self.handle)(context, args, receiver, Sender::new(near, outputs, codec));
        let future = async move {
            let value = work.await;
            poll_fn(|cx| end.poll_flushed(cx.waker())).await;
            value
        };
        Ok(Box::pin(HandlerFuture { future, codec, encode: self.encode.clone() }))
    }
}

/// A method that may block.
struct Blocking<Req: 'static, F, N> {
    requests: &'static Codecs<Req>,
    handle: Arc<F>,
    encode: N,
}

impl<Req, T, F, N> Handler for Blocking<Req, F, N>
where
    Req: Send + 'static,
    T: Send + 'static,
    F: Fn(&Context, Req) -> T + Send + Sync + 'static,
    N: EncodeAnswer<T>,
{
    fn is_blocking(&self) -> bool {
        true
    }

    fn begin(
        &self,
        context: Context,
        codec: u8,
        payload: Bytes,
    ) -> Result<Pin<Box<dyn Running>>, CallRefusal> {
        let args = self
            .requests
            .decode(codec, payload)
            .map_err(|error| CallRefusal::bad_arguments(&error))?;
        let (handle, encode) = (Arc::clone(&self.handle), self.encode.clone());
        Ok(Box::pin(Once(Some(move |out: &mut Vec<u8>| {
            let value = handle(&context, args);
            let (status, payload) = encode.encode(codec, value, out);
            AnswerHead { status, codec, payload }
        }))))
    }
}

/// Work that is done in one step.
pub(crate) struct Once<F>(pub Option<F>);

impl<F> Unpin for Once<F> {}

impl<F: FnOnce(&mut Vec<u8>) -> AnswerHead + Send> Running for Once<F> {
    fn poll(
        mut self: Pin<&mut Self>,
        _: &mut TaskContext<'_>,
        out: &mut Vec<u8>,
    ) -> Poll<AnswerHead> {
        match self.0.take() {
            Some(work) => Poll::Ready(work(out)),
            None => Poll::Pending,
        }
    }
}
