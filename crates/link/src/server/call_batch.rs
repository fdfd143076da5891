//! The calls that came together begin together, in one task: their arguments are decoded, their
//! handlers do their first step, and answers that are there by then leave in one write. A handler
//! that waits gets a task of its own.
//!
//! Invariants:
//! - Every call that wants an answer gets exactly one, also if its handler panics.
//! - A handler that takes long holds up no others for longer than one first step of its own: from
//!   then on its calls have tasks of their own.

use std::any::Any;
use std::cell::RefCell;
use std::future::poll_fn;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll, Waker};
use std::time::{Duration, Instant};

use bytes::Bytes;
use link_proto::{CallId, Meta, Payload, RouteId, Status};
use tracing::Span;

use super::context::{Context, Scope};
use super::observed_call::{CallWatch, WatchedCall};
use super::service::{AnswerHead, CallRefusal, Running, ServedMethod};
use super::session::{Routes, ServerSession};
use super::streams::CallStreams;
use crate::observe::Observer;

/// A first step that takes longer than this is too slow to share a task.
const SLOW_STEP: Duration = Duration::from_micros(50);
/// The clock is read after so many steps.
const STEPS_PER_LOOK: u32 = 4;
/// Buffers for encoding that have grown beyond this are given back.
const KEEP_LEN: usize = 256 * 1024;
/// Replies from here on are handed over without a further copy.
const SHARE_LEN: usize = 32 * 1024;

thread_local! {
    /// Where replies are encoded before they are copied into the connection's buffer.
    static SCRATCH: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// A call that is to begin.
pub(crate) struct Job {
    pub id: CallId,
    pub route: RouteId,
    pub codec: u8,
    pub timeout: Option<Duration>,
    pub meta: Meta,
    pub payload: Bytes,
    pub one_way: bool,
    /// Items travel beside it.
    pub streams: bool,
}

/// Calls of one client that came together.
pub(crate) struct Slice {
    pub session: Arc<ServerSession>,
    pub scope: Arc<Scope>,
    pub routes: Arc<Routes>,
    pub jobs: Vec<Job>,
}

/// A call that has begun.
struct Begun {
    id: CallId,
    one_way: bool,
    entry: Arc<ServedMethod>,
    scope: Arc<Scope>,
}

impl Slice {
    /// Has the calls begun in a task of their own, as many of them as the server may take.
    pub(crate) fn begin(mut self) {
        let n_taken = self.session.server.calls.take(self.jobs.len());
        if n_taken < self.jobs.len() {
            let rest = self.jobs.split_off(n_taken);
            let text = "the server is working on as many calls as it allows";
            let refusal = CallRefusal { status: Status::OVERLOADED, text: text.to_owned() };
            for job in rest.iter().filter(|job| !job.one_way) {
                self.session.refuse(job.id, &refusal);
            }
        }
        if !self.jobs.is_empty() {
            tokio::spawn(async move { SCRATCH.with_borrow_mut(|scratch| self.run(scratch)) });
        }
    }

    fn run(mut self, scratch: &mut Vec<u8>) {
        scratch.clear();
        let received = Instant::now();
        let mut answers = Answers { scratch, list: Vec::with_capacity(self.jobs.len()) };
        let (mut last_look, mut n_steps) = (received, 0);
        for job in std::mem::take(&mut self.jobs) {
            let entry = match self.routes.get(job.route.index()) {
                Some(Ok(entry)) => entry,
                // It came together with the definition. Later ones are answered by the connection.
                Some(Err(refusal)) if !job.one_way => {
                    self.session.refuse(job.id, refusal);
                    self.session.server.calls.give_back(1);
                    continue;
                }
                _ => {
                    self.session.server.calls.give_back(1);
                    continue;
                }
            };
            if job.streams {
                self.begin_alone(job, received, entry);
                continue;
            }
            if entry.handler.is_blocking() {
                self.begin_blocking(job, received, entry);
                continue;
            }
            if entry.is_slow() {
                self.begin_alone(job, received, entry);
                // A second task has the runtime wake another of its threads. Should the handler
                // wrongly block this one, that one looks after sockets and timers; else nobody
                // may.
                drop(tokio::spawn(async {}));
                continue;
            }
            self.step(entry, job, received, &mut answers);
            n_steps += 1;
            if n_steps == 1 || n_steps % STEPS_PER_LOOK == 0 {
                let now = Instant::now();
                if SLOW_STEP * STEPS_PER_LOOK.min(n_steps) < now - last_look {
                    entry.set_slow(true);
                    answers.send(&self.session, &self.scope);
                }
                last_look = now;
            }
        }
        answers.send(&self.session, &self.scope);
        if answers.scratch.capacity() > KEEP_LEN {
            *answers.scratch = Vec::new();
        }
    }

    fn context(&self, job: &mut Job, received: Instant) -> Context {
        let deadline = job.timeout.and_then(|timeout| received.checked_add(timeout));
        Context::new(&self.scope, job.id.to_wire(), std::mem::take(&mut job.meta), deadline)
    }

    fn begun(&self, job: &Job, entry: &Arc<ServedMethod>) -> Begun {
        let (entry, scope) = (Arc::clone(entry), Arc::clone(&self.scope));
        Begun { id: job.id, one_way: job.one_way, entry, scope }
    }

    /// Does the first step of a call here.
    fn step(
        &self,
        entry: &Arc<ServedMethod>,
        mut job: Job,
        received: Instant,
        answers: &mut Answers<'_>,
    ) {
        let (id, one_way) = (job.id, job.one_way);
        let first = First {
            context: self.context(&mut job, received),
            codec: job.codec,
            payload: job.payload,
            streams: None,
        };
        let start = answers.scratch.len();
        let observer = self.session.server.config.observer.as_ref();
        let mut cx = TaskContext::from_waker(Waker::noop());
        match first.step(entry, observer, &mut cx, answers.scratch) {
            HandlerRun::Done(answer) => {
                self.session.server.calls.give_back(1);
                if !one_way {
                    answers.push(id, answer, start);
                }
            }
            HandlerRun::Waits(running) => {
                answers.scratch.truncate(start);
                let (entry, scope) = (Arc::clone(entry), Arc::clone(&self.scope));
                self.spawn(Begun { id, one_way, entry, scope }, CallTask::Begun(running));
            }
        }
    }

    /// Begins a call in a task of its own.
    fn begin_alone(&self, mut job: Job, received: Instant, entry: &Arc<ServedMethod>) {
        let begun = self.begun(&job, entry);
        let context = self.context(&mut job, received);
        let streams = job.streams.then(|| CallStreams::new(Arc::clone(&self.session), job.id));
        let first = First { context, codec: job.codec, payload: job.payload, streams };
        self.spawn(begun, CallTask::New(first));
    }

    /// Begins a call in a thread that may block.
    fn begin_blocking(&self, mut job: Job, received: Instant, entry: &Arc<ServedMethod>) {
        let begun = self.begun(&job, entry);
        let context = self.context(&mut job, received);
        let first = First { context, codec: job.codec, payload: job.payload, streams: None };
        let taken = Taken(Arc::clone(&self.session));
        let work = move || {
            if !begun.one_way && !taken.0.is_open(begun.id) {
                // Given up while it waited for a thread.
                return;
            }
            let mut out = Vec::new();
            let observer = taken.0.server.config.observer.as_ref();
            let mut cx = TaskContext::from_waker(Waker::noop());
            if let HandlerRun::Done(answer) = first.step(&begun.entry, observer, &mut cx, &mut out)
            {
                taken.0.answer(begun.id, begun.one_way, answer, &begun.scope, out);
            }
        };
        if let Err(full) = self.session.server.pool.submit(Box::new(work))
            && !job.one_way
        {
            let refusal = CallRefusal { status: Status::OVERLOADED, text: full.to_string() };
            self.session.refuse(job.id, &refusal);
        }
    }

    fn spawn(&self, begun: Begun, work: CallTask) {
        let taken = Taken(Arc::clone(&self.session));
        let (id, one_way) = (begun.id, begun.one_way);
        let task = async move {
            let mut out = Vec::new();
            let answer = finish(&taken.0, &begun.entry, work, &mut out).await;
            taken.0.answer(id, one_way, answer, &begun.scope, out);
            if !one_way {
                taken.0.unset_running(id);
            }
        };
        match one_way {
            // Nobody can give it up: its caller has forgotten it.
            true => drop(tokio::spawn(task)),
            false => self.session.spawn_running(id, task),
        }
    }
}

/// A call that the server counts as at work, until this is dropped.
struct Taken(Arc<ServerSession>);

impl Drop for Taken {
    fn drop(&mut self) {
        self.0.server.calls.give_back(1);
    }
}

/// What a call needs to begin.
struct First {
    context: Context,
    codec: u8,
    payload: Bytes,
    streams: Option<Arc<CallStreams>>,
}

enum HandlerRun {
    Done(AnswerHead),
    Waits(Pin<Box<dyn Running>>),
}

impl First {
    /// Decodes the arguments and works until the handler waits for something.
    fn step(
        self,
        entry: &Arc<ServedMethod>,
        observer: Option<&Arc<dyn Observer>>,
        cx: &mut TaskContext<'_>,
        out: &mut Vec<u8>,
    ) -> HandlerRun {
        let mut watch = observer.map(|observer| CallWatch::begin(observer, entry, &self.context));
        let span = watch.as_ref().map_or_else(Span::none, |watch| watch.span().clone());
        let begin = || {
            span.in_scope(|| match self.streams {
                None => entry.handler.begin(self.context, self.codec, self.payload),
                Some(end) => {
                    entry.handler.begin_stream(self.context, self.codec, self.payload, end)
                }
            })
        };
        let refused = match catch_unwind(AssertUnwindSafe(begin)) {
            Ok(Ok(running)) => {
                let running = match watch.take() {
                    None => running,
                    Some(watch) => Box::pin(WatchedCall { running, watch }),
                };
                return Self::work(running, cx, out);
            }
            Ok(Err(refusal)) => error(refusal.status, refusal.text),
            Err(panic) => panicked(&*panic),
        };
        if let Some(mut watch) = watch {
            watch.end(refused.status);
        }
        HandlerRun::Done(refused)
    }

    fn work(
        mut running: Pin<Box<dyn Running>>,
        cx: &mut TaskContext<'_>,
        out: &mut Vec<u8>,
    ) -> HandlerRun {
        match step(running.as_mut(), cx, out) {
            Poll::Ready(answer) => HandlerRun::Done(answer),
            Poll::Pending => HandlerRun::Waits(running),
        }
    }
}

/// A call with a task of its own.
enum CallTask {
    New(First),
    Begun(Pin<Box<dyn Running>>),
}

/// Works on a call until it is done. Tells the method's entry how long its first step took.
async fn finish(
    session: &ServerSession,
    entry: &Arc<ServedMethod>,
    work: CallTask,
    out: &mut Vec<u8>,
) -> AnswerHead {
    let (mut first, mut running) = match work {
        CallTask::New(first) => (Some(first), None),
        CallTask::Begun(running) => (None, Some(running)),
    };
    poll_fn(|cx| {
        if let Some(first) = first.take() {
            let start = Instant::now();
            let result = first.step(entry, session.server.config.observer.as_ref(), cx, out);
            entry.set_slow(SLOW_STEP < start.elapsed());
            match result {
                HandlerRun::Done(answer) => return Poll::Ready(answer),
                HandlerRun::Waits(waits) => running = Some(waits),
            }
            return Poll::Pending;
        }
        match running.as_mut() {
            Some(running) => step(running.as_mut(), cx, out),
            None => Poll::Pending,
        }
    })
    .await
}

fn step(
    running: Pin<&mut dyn Running>,
    cx: &mut TaskContext<'_>,
    out: &mut Vec<u8>,
) -> Poll<AnswerHead> {
    match catch_unwind(AssertUnwindSafe(|| running.poll(cx, out))) {
        Ok(poll) => poll,
        Err(panic) => Poll::Ready(panicked(&*panic)),
    }
}

pub(super) fn panicked(panic: &(dyn Any + Send)) -> AnswerHead {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    error(Status::SERVER_ERROR, format!("the handler panicked: {}", text.unwrap_or("no text")))
}

fn error(status: Status, text: String) -> AnswerHead {
    AnswerHead { status, codec: 0, payload: Some(text.into()) }
}

/// Answers that leave together.
struct Answers<'a> {
    scratch: &'a mut Vec<u8>,
    list: Vec<(CallId, AnswerHead, Range<usize>)>,
}

impl Answers<'_> {
    /// Keeps an answer whose payload, if it has none of its own, is in the buffer from `start` on.
    fn push(&mut self, id: CallId, mut answer: AnswerHead, start: usize) {
        let mut range = start..self.scratch.len();
        if answer.payload.is_none() && SHARE_LEN <= range.len() {
            answer.payload = Some(self.scratch.split_off(start).into());
            range = start..start;
        }
        self.list.push((id, answer, range));
    }

    fn send(&mut self, session: &ServerSession, scope: &Scope) {
        if self.list.is_empty() {
            return;
        }
        let scratch = &*self.scratch;
        session.respond(self.list.drain(..).map(|(id, answer, range)| {
            let AnswerHead { status, codec, payload } = answer;
            let meta = scope.take_reply_meta(id.to_wire());
            (
                id,
                status,
                codec,
                payload.map_or(Payload::Slice(&scratch[range]), Payload::Bytes),
                meta,
            )
        }));
        self.scratch.clear();
    }
}
