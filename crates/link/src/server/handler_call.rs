//! A handler at work, and what becomes of its panics.
//!
//! Invariant: what a handler leaves is dropped before its call is answered, and a panic of that
//! drop stays in here.

use std::pin::Pin;
use std::task::{Context as TaskContext, Poll, ready};

use link_proto::Status;

use super::service::{AnswerHead, Running};
use crate::panics::{contain, contain_drop};

/// A call whose handler was begun. `None` once it is done.
pub(crate) struct HandlerCall(Option<Pin<Box<dyn Running>>>);

impl HandlerCall {
    pub(crate) fn new(running: Pin<Box<dyn Running>>) -> Self {
        Self(Some(running))
    }

    /// As [`Running::poll`]. Panics as the handler does.
    pub(crate) fn poll(&mut self, cx: &mut TaskContext<'_>, out: &mut Vec<u8>) -> Poll<AnswerHead> {
        let Some(running) = &mut self.0 else {
            return Poll::Pending;
        };
        let answer = ready!(running.as_mut().poll(cx, out));
        self.0 = None;
        Poll::Ready(answer)
    }

    /// Works on. A panic is the call's answer.
    pub(crate) fn step(&mut self, cx: &mut TaskContext<'_>, out: &mut Vec<u8>) -> Poll<AnswerHead> {
        contain(|| self.poll(cx, out))
            .unwrap_or_else(|text| Poll::Ready(AnswerHead::panicked(&text)))
    }
}

impl Drop for HandlerCall {
    fn drop(&mut self) {
        if let Some(running) = self.0.take() {
            contain_drop(running);
        }
    }
}

impl AnswerHead {
    /// The answer to a call that has panicked with this text.
    pub(crate) fn panicked(text: &str) -> Self {
        Self::error(Status::SERVER_ERROR, format!("the handler panicked: {text}"))
    }

    /// An error of the link's own.
    pub(crate) fn error(status: Status, text: String) -> Self {
        Self { status, codec: 0, payload: Some(text.into()) }
    }
}
