//! One call under the eyes of an observer.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll};
use std::time::Instant;

use link_proto::Status;
use tracing::Span;

use super::context::{Context, Peer};
use super::handler_call::HandlerCall;
use super::service::{AnswerHead, Running, ServedMethod};
use crate::observe::{self, CallInfo, Observer, Outcome, Side};

/// A call that is watched; the observer is told of its end when this is dropped.
pub(crate) struct CallWatch {
    observer: Arc<dyn Observer>,
    entry: Arc<ServedMethod>,
    peer: Arc<Peer>,
    start: Instant,
    span: Span,
    outcome: Outcome,
}

impl CallWatch {
    pub(crate) fn begin(
        observer: &Arc<dyn Observer>,
        entry: &Arc<ServedMethod>,
        context: &Context,
    ) -> Self {
        let (peer, trace) = (Arc::clone(&context.scope().peer), context.trace());
        let span = observe::incoming(&**observer, &info(entry, &peer), trace.as_ref());
        let (observer, entry) = (Arc::clone(observer), Arc::clone(entry));
        Self { observer, entry, peer, start: Instant::now(), span, outcome: panicked() }
    }

    /// Remembers how the call ended.
    pub(crate) fn end(&mut self, status: Status) {
        self.outcome = match status {
            Status::OK => Outcome::Ok,
            Status::APP_ERROR => Outcome::ServiceError,
            other => Outcome::Failed(other.name()),
        };
    }

    /// The span that the handler runs in.
    pub(crate) fn span(&self) -> &Span {
        &self.span
    }
}

impl Drop for CallWatch {
    fn drop(&mut self) {
        let (info, took) = (info(&self.entry, &self.peer), self.start.elapsed());
        observe::ended(&*self.observer, &info, self.outcome, took);
    }
}

/// How a call ends unless its handler returns.
fn panicked() -> Outcome {
    Outcome::Failed(Status::SERVER_ERROR.name())
}

fn info<'a>(entry: &'a ServedMethod, peer: &'a Peer) -> CallInfo<'a> {
    let (service, method) = (&*entry.service, &*entry.method);
    CallInfo { side: Side::Server, service, method, peer: &peer.address }
}

/// A call at work that is watched.
pub(crate) struct WatchedCall {
    pub call: HandlerCall,
    pub watch: CallWatch,
}

impl Running for WatchedCall {
    fn poll(
        mut self: Pin<&mut Self>,
        cx: &mut TaskContext<'_>,
        out: &mut Vec<u8>,
    ) -> Poll<AnswerHead> {
        let span = self.watch.span.clone();
        self.watch.outcome = panicked();
        let polled = span.in_scope(|| self.call.poll(cx, out));
        match &polled {
            Poll::Ready(answer) => self.watch.end(answer.status),
            Poll::Pending => self.watch.outcome = Outcome::Abandoned,
        }
        polled
    }
}
