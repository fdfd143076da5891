//! What client and server agree on: a method's name and the types that go over.

use std::borrow::Cow;

use crate::codec::{CodecSet, Codecs};
use crate::error::NoError;
use crate::streaming::NoItems;

/// A method of a service: its names, and how its messages are encoded.
///
/// `Req` is what the method takes (a tuple if it is several values), `Resp` what it gives, `E`
/// its own error. Client and server must agree on all of it; only the codec is chosen call by
/// call.
///
/// ```
/// use link::Method;
/// use link::codec::Serde;
///
/// let add: Method<(i64, i64), i64> = Method::new::<Serde>("demo.Sums", "add");
/// ```
#[derive(Debug)]
pub struct Method<Req: 'static, Resp: 'static, E: 'static = NoError> {
    pub(crate) service: Cow<'static, str>,
    pub(crate) name: Cow<'static, str>,
    pub(crate) requests: &'static Codecs<Req>,
    pub(crate) responses: &'static Codecs<Resp>,
    pub(crate) errors: Option<&'static Codecs<E>>,
    pub(crate) is_idempotent: bool,
}

impl<Req: 'static, Resp: 'static, E: 'static> Clone for Method<Req, Resp, E> {
    fn clone(&self) -> Self {
        Self {
            service: self.service.clone(),
            name: self.name.clone(),
            requests: self.requests,
            responses: self.responses,
            errors: self.errors,
            is_idempotent: self.is_idempotent,
        }
    }
}

/// A method whose calls stream items beside arguments and reply, in one direction or in both.
///
/// `In` are the caller's items, `Out` the service's; [`NoItems`](crate::NoItems) where nothing
/// streams.
///
/// ```
/// use link::codec::Serde;
/// use link::{NoItems, StreamMethod};
///
/// /// Takes how far to count, gives the numbers one by one, and at the end how many they were.
/// let count: StreamMethod<u64, NoItems, u64, u64> =
///     StreamMethod::down::<Serde>("demo.Sums", "count");
/// ```
#[derive(Debug)]
pub struct StreamMethod<
    Req: 'static,
    In: 'static,
    Out: 'static,
    Resp: 'static,
    E: 'static = NoError,
> {
    pub(crate) call: Method<Req, Resp, E>,
    pub(crate) inputs: &'static Codecs<In>,
    pub(crate) outputs: &'static Codecs<Out>,
    pub(crate) streams_in: bool,
    pub(crate) streams_out: bool,
}

impl<Req: 'static, In: 'static, Out: 'static, Resp: 'static, E: 'static> Clone
    for StreamMethod<Req, In, Out, Resp, E>
{
    fn clone(&self) -> Self {
        Self { call: self.call.clone(), ..*self }
    }
}

/// The codecs of what a streaming method's handler takes and sends.
pub(crate) struct StreamParts<Req: 'static, In: 'static, Out: 'static> {
    pub(crate) requests: &'static Codecs<Req>,
    pub(crate) inputs: &'static Codecs<In>,
    pub(crate) outputs: &'static Codecs<Out>,
}

impl<Req: 'static, In: 'static, Out: 'static> Clone for StreamParts<Req, In, Out> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<Req: 'static, In: 'static, Out: 'static> Copy for StreamParts<Req, In, Out> {}

/// Nothing streams, so nothing is encoded.
const NO_ITEMS: &Codecs<NoItems> = &Codecs::new();

impl<Req: 'static, Out: 'static, Resp: 'static> StreamMethod<Req, NoItems, Out, Resp> {
    /// The service streams to the caller.
    pub const fn down<S>(service: &'static str, name: &'static str) -> Self
    where
        S: CodecSet<Req> + CodecSet<Out> + CodecSet<Resp>,
    {
        let call = Method::new::<S>(service, name);
        Self::from_method(call, NO_ITEMS, <S as CodecSet<Out>>::CODECS, false, true)
    }
}

impl<Req: 'static, In: 'static, Resp: 'static> StreamMethod<Req, In, NoItems, Resp> {
    /// The caller streams to the service.
    pub const fn up<S>(service: &'static str, name: &'static str) -> Self
    where
        S: CodecSet<Req> + CodecSet<In> + CodecSet<Resp>,
    {
        let call = Method::new::<S>(service, name);
        Self::from_method(call, <S as CodecSet<In>>::CODECS, NO_ITEMS, true, false)
    }
}

impl<Req: 'static, In: 'static, Out: 'static, Resp: 'static> StreamMethod<Req, In, Out, Resp> {
    /// Both stream.
    pub const fn both<S>(service: &'static str, name: &'static str) -> Self
    where
        S: CodecSet<Req> + CodecSet<In> + CodecSet<Out> + CodecSet<Resp>,
    {
        let call = Method::new::<S>(service, name);
        let (inputs, outputs) = (<S as CodecSet<In>>::CODECS, <S as CodecSet<Out>>::CODECS);
        Self::from_method(call, inputs, outputs, true, true)
    }

    /// The same with an error of its own, beside the reply.
    #[must_use]
    pub fn or_error<S, E>(self) -> StreamMethod<Req, In, Out, Resp, E>
    where
        E: 'static,
        S: CodecSet<E>,
    {
        let Method { service, name, requests, responses, is_idempotent, .. } = self.call;
        let errors = Some(<S as CodecSet<E>>::CODECS);
        let call = Method { service, name, requests, responses, errors, is_idempotent };
        let Self { inputs, outputs, streams_in, streams_out, .. } = self;
        StreamMethod { call, inputs, outputs, streams_in, streams_out }
    }
}

impl<Req: 'static, Out: 'static, Resp: 'static, E: 'static>
    StreamMethod<Req, NoItems, Out, Resp, E>
{
    /// The service streams to the caller, and may end with an error of its own.
    pub const fn fallible_down<S>(service: &'static str, name: &'static str) -> Self
    where
        S: CodecSet<Req> + CodecSet<Out> + CodecSet<Resp> + CodecSet<E>,
    {
        let call = Method::fallible::<S>(service, name);
        Self::from_method(call, NO_ITEMS, <S as CodecSet<Out>>::CODECS, false, true)
    }
}

impl<Req: 'static, In: 'static, Resp: 'static, E: 'static> StreamMethod<Req, In, NoItems, Resp, E> {
    /// The caller streams to the service, which may end with an error of its own.
    pub const fn fallible_up<S>(service: &'static str, name: &'static str) -> Self
    where
        S: CodecSet<Req> + CodecSet<In> + CodecSet<Resp> + CodecSet<E>,
    {
        let call = Method::fallible::<S>(service, name);
        Self::from_method(call, <S as CodecSet<In>>::CODECS, NO_ITEMS, true, false)
    }
}

impl<Req: 'static, In: 'static, Out: 'static, Resp: 'static, E: 'static>
    StreamMethod<Req, In, Out, Resp, E>
{
    /// Both stream, and the service may end with an error of its own.
    pub const fn fallible_both<S>(service: &'static str, name: &'static str) -> Self
    where
        S: CodecSet<Req> + CodecSet<In> + CodecSet<Out> + CodecSet<Resp> + CodecSet<E>,
    {
        let call = Method::fallible::<S>(service, name);
        let (inputs, outputs) = (<S as CodecSet<In>>::CODECS, <S as CodecSet<Out>>::CODECS);
        Self::from_method(call, inputs, outputs, true, true)
    }

    /// What a handler needs of it.
    pub(crate) fn parts(&self) -> StreamParts<Req, In, Out> {
        let (requests, inputs, outputs) = (self.call.requests, self.inputs, self.outputs);
        StreamParts { requests, inputs, outputs }
    }

    const fn from_method(
        call: Method<Req, Resp, E>,
        inputs: &'static Codecs<In>,
        outputs: &'static Codecs<Out>,
        streams_in: bool,
        streams_out: bool,
    ) -> Self {
        Self { call, inputs, outputs, streams_in, streams_out }
    }
}

impl<Req: 'static, Resp: 'static> Method<Req, Resp> {
    /// A method without an error of its own; `S` is the set of codecs it may be called with.
    pub const fn new<S>(service: &'static str, name: &'static str) -> Self
    where
        S: CodecSet<Req> + CodecSet<Resp>,
    {
        let requests = <S as CodecSet<Req>>::CODECS;
        let responses = <S as CodecSet<Resp>>::CODECS;
        let (service, name) = (Cow::Borrowed(service), Cow::Borrowed(name));
        Self { service, name, requests, responses, errors: None, is_idempotent: false }
    }
}

impl<Req: 'static, Resp: 'static, E: 'static> Method<Req, Resp, E> {
    /// A method that may answer with an error of its own.
    pub const fn fallible<S>(service: &'static str, name: &'static str) -> Self
    where
        S: CodecSet<Req> + CodecSet<Resp> + CodecSet<E>,
    {
        let requests = <S as CodecSet<Req>>::CODECS;
        let responses = <S as CodecSet<Resp>>::CODECS;
        let errors = Some(<S as CodecSet<E>>::CODECS);
        let (service, name) = (Cow::Borrowed(service), Cow::Borrowed(name));
        Self { service, name, requests, responses, errors, is_idempotent: false }
    }

    /// The same method of a service that is named at run time.
    #[must_use]
    pub fn of(mut self, service: impl Into<Cow<'static, str>>) -> Self {
        self.service = service.into();
        self
    }

    /// The same, and doing it again does no harm: a call that was out when its connection broke
    /// is made again, four times at most.
    #[must_use]
    pub const fn idempotent(mut self) -> Self {
        self.is_idempotent = true;
        self
    }
}
