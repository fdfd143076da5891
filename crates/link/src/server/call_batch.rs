//! The calls that came together begin together, in one task: their arguments are decoded, their
//! handlers do their first step, and answers that are there by then leave in one write. A handler
//! that waits gets a task of its own.
//!
//! Invariants:
//! - Every call that wants an answer gets exactly one, also if its handler panics.
//! - Every place that a call takes in the server is given back, however its task ends.
//! - A handler that takes long holds up no others for longer than one first step of its own: from
//!   then on its calls have tasks of their own.

use std::cell::RefCell;
use std::future::poll_fn;
use std::ops::Range;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll, Waker};
use std::time::{Duration, Instant};

use bytes::Bytes;
use link_proto::{CallId, Meta, Payload, RouteId, Status};

use super::context::{Context, Scope};
use super::handler_call::HandlerCall;
use super::observed_call::{CallWatch, WatchedCall};
use super::service::{AnswerHead, CallRefusal, ServedMethod};
use super::session::{Routes, ServerSession};
use super::streams::CallStreams;
use crate::observe::Observer;
use crate::panics::contain;

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
pub(crate) struct IncomingCall {
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
pub(crate) struct CallBatch {
    pub session: Arc<ServerSession>,
    pub scope: Arc<Scope>,
    pub routes: Arc<Routes>,
    pub jobs: Vec<IncomingCall>,
}

/// A call that has begun.
struct BegunCall {
    id: CallId,
    one_way: bool,
    entry: Arc<ServedMethod>,
    scope: Arc<Scope>,
}

impl CallBatch {
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
            let taken = CountedCalls { session: Arc::clone(&self.session), n_calls: n_taken };
            tokio::spawn(async move {
                SCRATCH.with_borrow_mut(|scratch| self.run(taken, scratch));
            });
        }
    }

    fn run(mut self, mut taken: CountedCalls, scratch: &mut Vec<u8>) {
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
                    taken.give_back();
                    continue;
                }
                _ => {
                    taken.give_back();
                    continue;
                }
            };
            if job.streams {
                self.begin_alone(job, received, entry, taken.split());
                continue;
            }
            if entry.handler.is_blocking() {
                self.begin_blocking(job, received, entry, taken.split());
                continue;
            }
            if entry.is_slow() {
                self.begin_alone(job, received, entry, taken.split());
                // A second task has the runtime wake another of its threads. Should the handler
                // wrongly block this one, that one looks after sockets and timers; else nobody
                // may.
                drop(tokio::spawn(async {}));
                continue;
            }
            self.step(entry, job, received, &mut taken, &mut answers);
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

    fn context(&self, job: &mut IncomingCall, received: Instant) -> Context {
        let deadline = job.timeout.and_then(|timeout| received.checked_add(timeout));
        Context::new(&self.scope, job.id.to_wire(), std::mem::take(&mut job.meta), deadline)
    }

    fn begun(&self, job: &IncomingCall, entry: &Arc<ServedMethod>) -> BegunCall {
        let (entry, scope) = (Arc::clone(entry), Arc::clone(&self.scope));
        BegunCall { id: job.id, one_way: job.one_way, entry, scope }
    }

    /// Does the first step of a call here.
    fn step(
        &self,
        entry: &Arc<ServedMethod>,
        mut job: IncomingCall,
        received: Instant,
        taken: &mut CountedCalls,
        answers: &mut Answers<'_>,
    ) {
        let (id, one_way) = (job.id, job.one_way);
        let first = CallStart {
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
                taken.give_back();
                if !one_way {
                    answers.push(id, answer, start);
                }
            }
            HandlerRun::Waits(call) => {
                answers.scratch.truncate(start);
                let (entry, scope) = (Arc::clone(entry), Arc::clone(&self.scope));
                let begun = BegunCall { id, one_way, entry, scope };
                self.spawn(begun, CallTask::Begun(call), taken.split());
            }
        }
    }

    /// Begins a call in a task of its own.
    fn begin_alone(
        &self,
        mut job: IncomingCall,
        received: Instant,
        entry: &Arc<ServedMethod>,
        taken: CountedCalls,
    ) {
        let begun = self.begun(&job, entry);
        let context = self.context(&mut job, received);
        let streams = job.streams.then(|| CallStreams::new(Arc::clone(&self.session), job.id));
        let first = CallStart { context, codec: job.codec, payload: job.payload, streams };
        self.spawn(begun, CallTask::New(first), taken);
    }

    /// Begins a call in a thread that may block.
    fn begin_blocking(
        &self,
        mut job: IncomingCall,
        received: Instant,
        entry: &Arc<ServedMethod>,
        taken: CountedCalls,
    ) {
        let begun = self.begun(&job, entry);
        let context = self.context(&mut job, received);
        let first = CallStart { context, codec: job.codec, payload: job.payload, streams: None };
        let work = move || {
            if !begun.one_way && !taken.session.is_open(begun.id) {
                // Given up while it waited for a thread.
                return;
            }
            let mut out = Vec::new();
            let observer = taken.session.server.config.observer.as_ref();
            let mut cx = TaskContext::from_waker(Waker::noop());
            if let HandlerRun::Done(answer) = first.step(&begun.entry, observer, &mut cx, &mut out)
            {
                taken.session.answer(begun.id, begun.one_way, answer, &begun.scope, out);
            }
        };
        if let Err(full) = self.session.server.pool.submit(Box::new(work))
            && !job.one_way
        {
            let refusal = CallRefusal { status: Status::OVERLOADED, text: full.to_string() };
            self.session.refuse(job.id, &refusal);
        }
    }

    fn spawn(&self, begun: BegunCall, work: CallTask, taken: CountedCalls) {
        let (id, one_way) = (begun.id, begun.one_way);
        let task = async move {
            let mut out = Vec::new();
            let answer = finish(&taken.session, &begun.entry, work, &mut out).await;
            taken.session.answer(id, one_way, answer, &begun.scope, out);
            if !one_way {
                taken.session.unset_running(id);
            }
        };
        match one_way {
            // Nobody can give it up: its caller has forgotten it.
            true => drop(tokio::spawn(task)),
            false => self.session.spawn_running(id, task),
        }
    }
}

/// Calls that the server counts as at work, until this is dropped.
struct CountedCalls {
    session: Arc<ServerSession>,
    n_calls: usize,
}

impl CountedCalls {
    /// One of the calls has ended.
    fn give_back(&mut self) {
        self.n_calls -= 1;
        self.session.server.calls.give_back(1);
    }

    /// One of the calls goes on by itself.
    fn split(&mut self) -> Self {
        self.n_calls -= 1;
        Self { session: Arc::clone(&self.session), n_calls: 1 }
    }
}

impl Drop for CountedCalls {
    fn drop(&mut self) {
        if self.n_calls != 0 {
            self.session.server.calls.give_back(self.n_calls);
        }
    }
}

/// What a call needs to begin.
struct CallStart {
    context: Context,
    codec: u8,
    payload: Bytes,
    streams: Option<Arc<CallStreams>>,
}

enum HandlerRun {
    Done(AnswerHead),
    Waits(HandlerCall),
}

impl CallStart {
    /// Decodes the arguments and works until the handler waits for something. A panic becomes the
    /// call's answer.
    fn step(
        self,
        entry: &Arc<ServedMethod>,
        observer: Option<&Arc<dyn Observer>>,
        cx: &mut TaskContext<'_>,
        out: &mut Vec<u8>,
    ) -> HandlerRun {
        contain(|| self.work(entry, observer, cx, out))
            .unwrap_or_else(|text| HandlerRun::Done(AnswerHead::panicked(&text)))
    }

    fn work(
        self,
        entry: &Arc<ServedMethod>,
        observer: Option<&Arc<dyn Observer>>,
        cx: &mut TaskContext<'_>,
        out: &mut Vec<u8>,
    ) -> HandlerRun {
        let watch = observer.map(|observer| CallWatch::begin(observer, entry, &self.context));
        let begin = || match self.streams {
            None => entry.handler.begin(self.context, self.codec, self.payload),
            Some(end) => entry.handler.begin_stream(self.context, self.codec, self.payload, end),
        };
        let begun = match &watch {
            None => begin(),
            Some(watch) => watch.span().in_scope(begin),
        };
        let mut call = match (begun, watch) {
            (Ok(running), None) => HandlerCall::new(running),
            (Ok(running), Some(watch)) => {
                let call = HandlerCall::new(running);
                HandlerCall::new(Box::pin(WatchedCall { call, watch }))
            }
            (Err(refusal), watch) => {
                if let Some(mut watch) = watch {
                    watch.end(refusal.status);
                }
                return HandlerRun::Done(AnswerHead::error(refusal.status, refusal.text));
            }
        };
        match call.poll(cx, out) {
            Poll::Ready(answer) => HandlerRun::Done(answer),
            Poll::Pending => HandlerRun::Waits(call),
        }
    }
}

/// A call with a task of its own.
enum CallTask {
    New(CallStart),
    Begun(HandlerCall),
}

/// Works on a call until it is done. Tells the method's entry how long its first step took.
async fn finish(
    session: &ServerSession,
    entry: &Arc<ServedMethod>,
    work: CallTask,
    out: &mut Vec<u8>,
) -> AnswerHead {
    let (mut first, mut call) = match work {
        CallTask::New(first) => (Some(first), None),
        CallTask::Begun(call) => (None, Some(call)),
    };
    poll_fn(|cx| {
        if let Some(first) = first.take() {
            let start = Instant::now();
            let result = first.step(entry, session.server.config.observer.as_ref(), cx, out);
            entry.set_slow(SLOW_STEP < start.elapsed());
            match result {
                HandlerRun::Done(answer) => return Poll::Ready(answer),
                HandlerRun::Waits(waits) => call = Some(waits),
            }
            return Poll::Pending;
        }
        match call.as_mut() {
            Some(call) => call.step(cx, out),
            None => Poll::Pending,
        }
    })
    .await
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
