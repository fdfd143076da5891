//! The service that is measured: it answers with as many bytes as it was asked for.
//!
//! A request's payload begins with its caller's number, and so does its reply, so that one that
//! reached the wrong caller is seen.

use std::sync::Arc;

use bytes::Bytes;
use link::codec::{Hessian2, Json, Postcard, Protobuf, Raw};
use link::{Method, Service, Traffic};
use serde::{Deserialize, Serialize};

use super::meter::Usage;

const SERVICE: &str = "dubmesh.Bench";

/// Bytes; the caller's number and the reply's length are their first eight.
pub(super) const ECHO_RAW: Method<Bytes, Bytes> = Method::new::<(Raw,)>(SERVICE, "echoRaw");
/// A text in an object, in any codec but raw.
pub(super) const ECHO: Method<Echo, Echo> =
    Method::new::<(Postcard, Json, Hessian2, Protobuf)>(SERVICE, "echo");
/// What the server has used so far.
pub(super) const USAGE: Method<(), Usage> = Method::new::<(Postcard,)>(SERVICE, "usage");

/// Request and reply.
#[derive(Clone, Deserialize, PartialEq, Serialize, prost::Message)]
pub(super) struct Echo {
    /// Length of the reply's text.
    #[prost(uint32, tag = "1")]
    pub(super) response_len: u32,
    /// The caller's number in ten digits, and filler.
    #[prost(string, tag = "2")]
    pub(super) text: String,
}

/// The service.
pub(super) fn service(traffic: Arc<Traffic>) -> Service {
    Service::new(SERVICE)
        .method(&ECHO_RAW, |_, request| async move { answer_raw(request) })
        .method(&ECHO, |_, request| async move { answer(request) })
        .method(&USAGE, move |_, ()| {
            let usage = Usage::now(&traffic);
            async move { usage }
        })
}

/// The payload of a caller's requests.
pub(super) fn raw_request(caller: u32, request_len: u32, response_len: u32) -> Bytes {
    let mut request = [caller.to_be_bytes(), response_len.to_be_bytes()].concat();
    request.resize(request_len as usize, b'x');
    request.into()
}

/// As [`raw_request`], as an object.
pub(super) fn request(caller: u32, request_len: u32, response_len: u32) -> Echo {
    let mut text = format!("{caller:010}");
    text.extend(std::iter::repeat_n('x', (request_len as usize).saturating_sub(text.len())));
    Echo { response_len, text }
}

fn answer_raw(request: Bytes) -> Bytes {
    let wanted = request.get(4..8).and_then(|len| len.try_into().ok()).map(u32::from_be_bytes);
    match wanted.map(|len| len as usize) {
        Some(len) if len <= request.len() => request.slice(..len),
        Some(len) => {
            let mut payload = request.to_vec();
            payload.resize(len, b'x');
            payload.into()
        }
        None => request,
    }
}

fn answer(mut request: Echo) -> Echo {
    let len = request.response_len as usize;
    match len.checked_sub(request.text.len()) {
        Some(missing) => request.text.extend(std::iter::repeat_n('x', missing)),
        None => request.text.truncate(len),
    }
    request
}
