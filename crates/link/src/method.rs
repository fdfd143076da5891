//! What client and server agree on: a method's name and the types that go over.

use std::borrow::Cow;

use crate::codec::{CodecSet, Codecs};
use crate::error::NoError;

/// A method of a service: its names, and how its messages are encoded.
///
/// `Req` is what the method takes (a tuple if it is several values), `Resp` what it gives, `E`
/// its own error. Client and server must agree on all of it; only the codec is chosen call by call.
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

    /// The same, and doing it twice does no harm: a call that was out when its connection broke
    /// is made again.
    #[must_use]
    pub const fn idempotent(mut self) -> Self {
        self.is_idempotent = true;
        self
    }
}
