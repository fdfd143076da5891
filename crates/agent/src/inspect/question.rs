//! Asks all workers a question, and puts their answers together.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use tokio::sync::oneshot;

use super::Filter;
use super::snapshot::{
    ConnectionSnapshot, EndpointSnapshot, ExplanationSnapshot, Page, RouteSnapshot,
    ServiceSnapshot, WorkerSnapshot,
};

/// How long a worker may take for an answer. It answers between two turns of its event loop.
pub const DEADLINE: Duration = Duration::from_millis(500);
/// Questions that one worker may owe an answer to. One that does not answer is asked no more.
pub const MAX_OPEN: usize = 8;

/// A question to a worker.
pub enum Question {
    /// The services that it calls.
    Services(Query<ServiceSnapshot>),
    /// Their endpoints.
    Endpoints(Query<EndpointSnapshot>),
    /// What is in its table of connections.
    Connections(Query<ConnectionSnapshot>),
    /// The routes that its callers have used.
    Routes(Query<RouteSnapshot>),
    /// What would become of a call.
    Explain(Query<ExplanationSnapshot>),
}

/// One worker's answer.
#[derive(Debug)]
pub struct WorkerAnswer<T> {
    /// The first ones that the question is about, in the order of their keys.
    pub items: Vec<T>,
    /// How many there are.
    pub n_all: usize,
}

/// Which things are asked for, and who waits for them.
pub struct Query<T> {
    filter: Arc<Filter>,
    reply: oneshot::Sender<WorkerAnswer<T>>,
    _open: OpenQuestion,
}

impl<T> Query<T> {
    /// Answers, unless nobody waits any more.
    pub fn answer(self, look: impl FnOnce(&Filter) -> WorkerAnswer<T>) {
        if !self.reply.is_closed() {
            // Who has gone meanwhile misses nothing.
            let _ = self.reply.send(look(&self.filter));
        }
    }
}

/// Counts a question that is not answered.
struct OpenQuestion(Arc<AtomicUsize>);

impl Drop for OpenQuestion {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

/// Hands a question to a worker.
pub type QuestionSender = Box<dyn Fn(Question) + Send + Sync>;

/// Asks the workers of an agent. A clone asks the same ones.
#[derive(Clone)]
pub struct Inspector(Arc<[AskedWorker]>);

struct AskedWorker {
    hand: QuestionSender,
    n_open: Arc<AtomicUsize>,
}

impl Inspector {
    /// For these workers, in the order of their numbers.
    pub fn new(hands: impl IntoIterator<Item = QuestionSender>) -> Self {
        let worker = |hand| AskedWorker { hand, n_open: Arc::default() };
        Self(hands.into_iter().map(worker).collect())
    }

    /// Asks all workers at once. `question` says what.
    pub async fn ask<T: WorkerSnapshot>(
        &self,
        filter: Filter,
        question: impl Fn(Query<T>) -> Question,
    ) -> Page<T> {
        let (limit, filter) = (filter.limit, Arc::new(filter));
        let deadline = tokio::time::Instant::now() + DEADLINE;
        let replies: Vec<_> = self.0.iter().map(|it| it.ask(&filter, &question)).collect();
        let mut gathered = Gathered::default();
        for (worker, reply) in replies.into_iter().enumerate() {
            let part = match reply {
                Some(reply) => tokio::time::timeout_at(deadline, reply).await.ok(),
                None => None,
            };
            match part {
                Some(Ok(part)) => gathered.add(part),
                // It is busy, or has ended.
                _ => gathered.silent_workers.push(worker),
            }
        }
        gathered.page(limit)
    }
}

impl AskedWorker {
    /// What comes back by the channel is the answer; nothing is asked of one that owes too many.
    fn ask<T: WorkerSnapshot>(
        &self,
        filter: &Arc<Filter>,
        question: impl Fn(Query<T>) -> Question,
    ) -> Option<oneshot::Receiver<WorkerAnswer<T>>> {
        let open = OpenQuestion(Arc::clone(&self.n_open));
        if MAX_OPEN <= self.n_open.fetch_add(1, Relaxed) {
            return None;
        }
        let (reply, answer) = oneshot::channel();
        (self.hand)(question(Query { filter: Arc::clone(filter), reply, _open: open }));
        Some(answer)
    }
}

/// What has been answered so far.
struct Gathered<T: WorkerSnapshot> {
    items: BTreeMap<T::Key, T>,
    /// How many things the workers have, all together and at most.
    n_sum: usize,
    n_most: usize,
    is_cut: bool,
    silent_workers: Vec<usize>,
}

impl<T: WorkerSnapshot> Default for Gathered<T> {
    fn default() -> Self {
        let items = BTreeMap::new();
        Self { items, n_sum: 0, n_most: 0, is_cut: false, silent_workers: Vec::new() }
    }
}

impl<T: WorkerSnapshot> Gathered<T> {
    fn add(&mut self, part: WorkerAnswer<T>) {
        self.n_sum += part.n_all;
        self.n_most = self.n_most.max(part.n_all);
        self.is_cut |= part.items.len() < part.n_all;
        for item in part.items {
            match self.items.get_mut(&item.key()) {
                Some(known) => known.merge(item),
                None => drop(self.items.insert(item.key(), item)),
            }
        }
    }

    fn page(self, limit: usize) -> Page<T> {
        let total = match (T::IS_SHARED, self.is_cut) {
            (false, _) => self.n_sum,
            (true, false) => self.items.len(),
            (true, true) => self.n_most.max(self.items.len()),
        };
        let items: Vec<T> =
            self.items.into_values().take(limit).map(WorkerSnapshot::finished).collect();
        let truncated = items.len() < total;
        Page { total, truncated, silent_workers: self.silent_workers, items }
    }
}
