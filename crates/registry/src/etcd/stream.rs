//! All watches of one connection, on one stream.
//!
//! A stream for each watch would cost the agent and etcd some 30 KB, and what stands between them
//! may allow few streams on a connection.
//!
//! Invariants:
//! - Watchers hear of their own watches alone, and of each message once.
//! - A watcher that takes nothing holds up the others for [`PATIENCE`] at most. Then it is
//!   dropped: it has to read again.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use etcd_client::{
    Client, WatchOptions, WatchRequestSender, WatchResponse, WatchResponseStream, WatchStream,
};
use tokio::sync::{Notify, mpsc};
use tokio::time::{Instant, timeout};

use super::connection::EtcdError;
use super::dispatch::{About, Dispatch, Heard, WatcherId};

/// The longest answer that we read. 64 MiB are some fifty thousand Java providers of one service.
pub(super) const MAX_MESSAGE_LEN: usize = 64 << 20;

/// How often a quiet stream is asked to show that it still runs.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(30);

/// How long it may take to answer that.
const PROGRESS_TIMEOUT: Duration = Duration::from_secs(10);

/// Messages that wait for a watcher.
const QUEUE_LEN: usize = 16;

/// How long a watcher with so many may take none of them.
const PATIENCE: Duration = Duration::from_secs(1);

/// Keys to watch.
#[derive(Clone, Debug)]
pub(super) struct Range {
    /// The key, or what keys begin with.
    pub(super) key: String,
    pub(super) options: WatchOptions,
}

/// What a watcher is told; the text says why nothing more will come.
type Message = Result<WatchResponse, String>;

/// What the task of a stream is asked to do.
enum StreamCommand {
    Open { watcher: WatcherId, ranges: Vec<Range>, to: mpsc::Sender<Message> },
    Close { watcher: WatcherId },
}

/// There are at most two orders of each watcher.
type StreamCommands = mpsc::UnboundedSender<StreamCommand>;

/// The watches of a connection.
pub(super) struct Watches {
    client: Client,
    request_timeout: Duration,
    /// Has the connection checked: a stream has failed, or does not begin.
    suspect: Arc<Notify>,
    current: Mutex<Option<StreamCommands>>,
    n_watchers: AtomicU64,
}

impl Watches {
    /// Of the connection that `client` has.
    pub(super) fn new(client: Client, request_timeout: Duration, suspect: Arc<Notify>) -> Self {
        let (current, n_watchers) = Default::default();
        Self { client, request_timeout, suspect, current, n_watchers }
    }

    /// Watches some ranges of keys. Comes back when etcd has all of the watches.
    ///
    /// # Errors
    /// When etcd refuses one, or does not answer.
    pub(super) async fn open(&self, ranges: Vec<Range>) -> Result<OpenWatch, EtcdError> {
        let (orders, is_new) = self.stream(None);
        let opened = match self.open_on(orders.clone(), ranges.clone()).await {
            // The stream has the rights of the moment at which it began.
            Err(EtcdError::Ended { .. }) if !is_new => {
                self.open_on(self.stream(Some(&orders)).0, ranges).await
            }
            outcome => outcome,
        };
        opened.inspect_err(|_| self.suspect.notify_one())
    }

    /// The stream that takes further watches, and whether it begins with this; not `refused`.
    fn stream(&self, refused: Option<&StreamCommands>) -> (StreamCommands, bool) {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        let is_refused =
            |orders: &StreamCommands| refused.is_some_and(|it| it.same_channel(orders));
        if let Some(orders) = current.as_ref().filter(|it| !it.is_closed() && !is_refused(it)) {
            return (orders.clone(), false);
        }
        let (orders, receiver) = mpsc::unbounded_channel();
        *current = Some(orders.clone());
        let (client, suspect) = (self.client.clone(), Arc::clone(&self.suspect));
        let run = run(client, self.request_timeout, receiver);
        tokio::spawn(async move {
            run.await;
            suspect.notify_one();
        });
        (orders, true)
    }

    async fn open_on(
        &self,
        orders: StreamCommands,
        ranges: Vec<Range>,
    ) -> Result<OpenWatch, EtcdError> {
        let watcher = self.n_watchers.fetch_add(1, Ordering::Relaxed);
        let (to, messages) = mpsc::channel(QUEUE_LEN);
        let n_ranges = ranges.len();
        let mut watch = OpenWatch { watcher, orders, messages, first: VecDeque::new() };
        if watch.orders.send(StreamCommand::Open { watcher, ranges, to }).is_err() {
            return Err(EtcdError::Ended { reason: "its stream has ended".into() });
        }
        let (what, after) = ("starting to watch", self.request_timeout);
        let opened = timeout(after, watch.created(n_ranges)).await;
        opened.unwrap_or(Err(EtcdError::Timeout { what, after }))?;
        Ok(watch)
    }
}

/// Some watches that go together. They end when this is dropped.
#[derive(Debug)]
pub(super) struct OpenWatch {
    watcher: WatcherId,
    orders: StreamCommands,
    messages: mpsc::Receiver<Message>,
    /// What came of the first watches before the last one was there.
    first: VecDeque<WatchResponse>,
}

impl OpenWatch {
    /// Waits until all of its watches are there.
    async fn created(&mut self, n: usize) -> Result<(), EtcdError> {
        let mut n_created = 0;
        while n_created < n {
            let message = self.receive().await?;
            match message.created() {
                true => n_created += 1,
                false => self.first.push_back(message),
            }
        }
        Ok(())
    }

    /// The next message. May be dropped at any time.
    pub(super) async fn message(&mut self) -> Result<WatchResponse, EtcdError> {
        match self.first.pop_front() {
            Some(message) => Ok(message),
            None => self.receive().await,
        }
    }

    async fn receive(&mut self) -> Result<WatchResponse, EtcdError> {
        match self.messages.recv().await {
            Some(Ok(message)) if message.canceled() => Err(end_of(&message)),
            Some(Ok(message)) => Ok(message),
            Some(Err(reason)) => Err(EtcdError::Ended { reason }),
            // It has taken no message for too long, so that one is missing.
            None => Err(EtcdError::Compacted),
        }
    }
}

impl Drop for OpenWatch {
    fn drop(&mut self) {
        let _its_stream_may_have_ended =
            self.orders.send(StreamCommand::Close { watcher: self.watcher });
    }
}

fn end_of(message: &WatchResponse) -> EtcdError {
    if 0 < message.compact_revision() {
        return EtcdError::Compacted;
    }
    let reason = match message.cancel_reason() {
        "" => "without a reason".to_owned(),
        reason => reason.to_owned(),
    };
    EtcdError::Ended { reason }
}

/// Runs a stream until it ends, or until nobody watches on it or may do so.
async fn run(
    client: Client,
    request_timeout: Duration,
    mut orders: mpsc::UnboundedReceiver<StreamCommand>,
) {
    let Some(StreamCommand::Open { watcher, ranges, to }) = orders.recv().await else { return };
    let mut ranges = VecDeque::from(ranges);
    // A stream begins with a watch.
    let Some(Range { key, options }) = ranges.pop_front() else { return };
    let mut client = client.watch_client().max_decoding_message_size(MAX_MESSAGE_LEN);
    let opened = match timeout(request_timeout, client.watch(key, Some(options))).await {
        Ok(Ok(stream)) => Ok(stream),
        Ok(Err(source)) => Err(EtcdError::Client { what: "watching", source }.to_string()),
        Err(_) => Err(format!("etcd did not begin it within {request_timeout:?}")),
    };
    match opened {
        Ok(stream) => {
            let mut running = Stream::new(stream);
            running.watchers.insert(watcher, to);
            running.dispatch.ask(watcher);
            running.requests.extend(ranges.into_iter().map(|range| Request::Watch(watcher, range)));
            let reason = running.serve(&mut orders).await;
            for to in running.watchers.into_values() {
                let _ = to.try_send(Err(reason.clone()));
            }
            end(orders, &reason);
        }
        Err(reason) => {
            let _ = to.try_send(Err(reason.clone()));
            end(orders, &reason);
        }
    }
}

/// Tells those why nothing will come who have just asked.
fn end(mut orders: mpsc::UnboundedReceiver<StreamCommand>, reason: &str) {
    orders.close();
    while let Ok(order) = orders.try_recv() {
        if let StreamCommand::Open { to, .. } = order {
            let _ = to.try_send(Err(reason.to_owned()));
        }
    }
}

/// What waits to be sent.
#[derive(Clone)]
enum Request {
    Watch(WatcherId, Range),
    Cancel(i64),
    Progress,
}

/// A stream that runs.
struct Stream {
    sender: WatchRequestSender,
    responses: WatchResponseStream,
    /// To wait until one is taken, and take no message meanwhile, could stop both sides for ever.
    requests: VecDeque<Request>,
    dispatch: Dispatch,
    watchers: HashMap<WatcherId, mpsc::Sender<Message>>,
    quiet: Quiet,
}

impl Stream {
    fn new(stream: WatchStream) -> Self {
        let (sender, responses) = stream.split();
        let (requests, dispatch, watchers, quiet) = Default::default();
        Self { sender, responses, requests, dispatch, watchers, quiet }
    }

    /// Serves its watchers to its end, and says why it ended.
    async fn serve(&mut self, orders: &mut mpsc::UnboundedReceiver<StreamCommand>) -> String {
        loop {
            let next = self.requests.front().cloned();
            tokio::select! {
                order = orders.recv() => match order {
                    Some(order) => self.handle_order(order),
                    None => return "nobody watches any more".to_owned(),
                },
                message = self.responses.message() => match message {
                    Ok(Some(message)) => self.handle_message(message).await,
                    Ok(None) => return "end of stream".to_owned(),
                    Err(source) => {
                        return EtcdError::Client { what: "watching", source }.to_string();
                    }
                },
                // Nothing is sent if this is dropped before it ends.
                sent = send(&mut self.sender, next.clone()), if next.is_some() => {
                    if let Err(source) = sent {
                        return EtcdError::Client { what: "watching", source }.to_string();
                    }
                    self.requests.pop_front();
                    if let Some(Request::Watch(watcher, _)) = next {
                        self.dispatch.ask(watcher);
                    }
                }
                () = tokio::time::sleep_until(self.quiet.deadline()) => {
                    if self.quiet.is_overdue() {
                        let (what, after) = ("waiting for a sign of the watch", PROGRESS_TIMEOUT);
                        return EtcdError::Timeout { what, after }.to_string();
                    }
                    self.requests.push_back(Request::Progress);
                    self.quiet.asked();
                }
            }
        }
    }

    fn handle_order(&mut self, order: StreamCommand) {
        match order {
            StreamCommand::Open { watcher, ranges, to } => {
                self.watchers.insert(watcher, to);
                let ranges = ranges.into_iter().map(|range| Request::Watch(watcher, range));
                self.requests.extend(ranges);
            }
            StreamCommand::Close { watcher } => self.forget(watcher),
        }
    }

    async fn handle_message(&mut self, message: WatchResponse) {
        self.quiet.heard(&message);
        let about = About {
            watch: message.watch_id(),
            is_created: message.created(),
            is_canceled: message.canceled(),
        };
        match self.dispatch.hear(about) {
            Heard::For(watcher) => self.tell(watcher, message).await,
            Heard::Cancel(watch) => self.requests.push_back(Request::Cancel(watch)),
            Heard::Nothing => {}
        }
    }

    async fn tell(&mut self, watcher: WatcherId, message: WatchResponse) {
        let Some(to) = self.watchers.get(&watcher) else { return };
        let told = timeout(PATIENCE, to.send(Ok(message))).await;
        if !matches!(told, Ok(Ok(()))) {
            self.forget(watcher);
        }
    }

    fn forget(&mut self, watcher: WatcherId) {
        self.watchers.remove(&watcher);
        // What has not been sent need not be canceled.
        let is_of = |it: &Request| matches!(it, Request::Watch(of, _) if *of == watcher);
        self.requests.retain(|request| !is_of(request));
        let left = self.dispatch.forget(watcher);
        self.requests.extend(left.into_iter().map(Request::Cancel));
    }
}

async fn send(
    sender: &mut WatchRequestSender,
    request: Option<Request>,
) -> Result<(), etcd_client::Error> {
    match request {
        Some(Request::Watch(_, Range { key, options })) => sender.watch(key, Some(options)).await,
        Some(Request::Cancel(watch)) => sender.cancel(watch).await,
        Some(Request::Progress) => sender.request_progress().await,
        None => Ok(()),
    }
}

/// Whether a stream that says nothing is alive. An etcd before 3.4 does not answer to the
/// question, and so a missing answer counts only once there has been one.
struct Quiet {
    heard_at: Instant,
    asked_at: Option<Instant>,
    answers: bool,
}

impl Default for Quiet {
    fn default() -> Self {
        Self { heard_at: Instant::now(), asked_at: None, answers: false }
    }
}

impl Quiet {
    fn deadline(&self) -> Instant {
        match self.asked_at {
            Some(asked_at) => asked_at + PROGRESS_TIMEOUT,
            None => self.heard_at + PROGRESS_INTERVAL,
        }
    }

    fn asked(&mut self) {
        self.asked_at = Some(Instant::now());
    }

    fn heard(&mut self, message: &WatchResponse) {
        self.answers |= self.asked_at.is_some() && message.events().is_empty();
        self.heard_at = Instant::now();
        self.asked_at = None;
    }

    fn is_overdue(&self) -> bool {
        self.asked_at.is_some() && self.answers
    }
}

#[cfg(test)]
mod tests;
