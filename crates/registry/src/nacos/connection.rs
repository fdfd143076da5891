//! The connections to Nacos, and the tasks that keep them: one for naming, one for documents, as
//! Nacos wants it.
//!
//! Everything that a server keeps for us belongs to a connection: instances, subscriptions,
//! documents that are listened to. Whoever wants something back after a new connection asks anew.

use std::fmt;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use futures_util::{Stream, StreamExt, TryFutureExt, TryStreamExt};
use nacos_proto::{
    ASK_PATH, Answer, Ask, BadPayload, Credentials, Heard, HeardKind, Module, Payload, Refusal,
    STREAM_PATH,
};
use tokio::runtime::Handle;
use tokio::sync::{Notify, mpsc};
use tokio::time::{Instant, timeout};
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::Channel;
use tonic::{Code, Request};
use tonic_prost::ProstCodec;
use wire::jitter;

use crate::grpc_words::words_of;
use crate::lent::{
    ConnectionName, ConnectionTerms, Connector, ConnectorTask, GOOD_AFTER, Lender, Lent,
    keep_connected,
};

use super::channel::connect;
use super::error::{NacosError, words_of_status};
use super::hub::Hub;
use super::login::Login;
use super::settings::{NacosServer, NacosSettings};

/// A connection that has been silent for this long is asked whether it is alive. Source:
/// `DefaultGrpcClientConfig.connectionKeepAlive`.
const SILENCE: Duration = Duration::from_secs(5);

/// How long a server that does not say when a connection can be used takes for it. Source:
/// `GrpcClient.connectToServer`.
const SETUP_PAUSE: Duration = Duration::from_millis(100);

/// Answers to pushes that wait to be sent.
const MAX_REPLIES: usize = 1024;

/// How often a user logs in again on a connection that is told that it may not do something: its
/// token may not be taken any more, or the user may really not. Source: `NacosNamingService`,
/// whose login is looked at this often.
const LOG_IN_EVERY: Duration = Duration::from_secs(5);

/// Services, or documents, that are read at the same time.
const MAX_READS: usize = 32;

/// How often in a row a server may want a new connection, each after a moment, before we wait.
const MAX_RESETS: usize = 3;

/// A shared handle on a connection.
pub(super) type SharedConnection = Lent<Live>;

/// A connection that can be used.
pub(super) struct Live {
    grpc: Grpc<Channel>,
    settings: Arc<NacosSettings>,
    credentials: Mutex<Credentials>,
    /// The server has said that we may not do something.
    is_denied: AtomicBool,
    /// A user of the connection has found that it is no good.
    is_given_up: AtomicBool,
    /// The number of the last question.
    last_id: AtomicU64,
    /// When the server was heard last.
    heard_at: Mutex<Instant>,
    pub(super) hub: Hub,
    /// Wakes the task that keeps the connection: something about it is wrong.
    suspect: Notify,
}

/// Starts the task that connects, and connects again.
pub(super) fn start(
    module: Module,
    settings: &Arc<NacosSettings>,
    login: &Arc<Login>,
    runtime: &Handle,
) -> (SharedConnection, ConnectorTask) {
    let terms = ConnectionTerms {
        name: ConnectionName { store: "Nacos", module: Some(module.name()) },
        servers: settings.servers.clone(),
        request_timeout: settings.request_timeout,
        max_beginnings: MAX_READS,
    };
    let (settings, login) = (Arc::clone(settings), Arc::clone(login));
    keep_connected(
        NacosConnector { module, settings, login, resets: Resets::default() },
        terms,
        runtime,
    )
}

impl Live {
    /// Asks, and waits for the answer, but not for ever.
    pub(super) async fn ask(&self, ask: &Ask) -> Result<Answer, NacosError> {
        let what = ask.words();
        match self.try_ask(ask).await? {
            Ok(answer) => Ok(answer),
            Err(refusal) => {
                if refusal.is_forbidden() {
                    // A token may not be taken any more.
                    self.is_denied.store(true, Ordering::Relaxed);
                }
                if refusal.is_unregistered() || refusal.is_forbidden() {
                    // The server may have forgotten us.
                    self.suspect.notify_one();
                }
                Err(NacosError::Refused { what, subject: ask.subject(), refusal })
            }
        }
    }

    /// The same, where a refusal is an answer.
    pub(super) async fn try_ask(&self, ask: &Ask) -> Result<Result<Answer, Refusal>, NacosError> {
        let what = ask.words();
        let id = self.last_id.fetch_add(1, Ordering::Relaxed);
        let now_ms = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let now_ms = u64::try_from(now_ms.as_millis()).unwrap_or(u64::MAX);
        let namespace = &self.settings.namespace;
        let headers = self.credentials().headers(&ask.resource(namespace.clone()), now_ms);
        let payload = ask.payload(namespace, id, headers);
        let mut grpc = self.grpc.clone();
        let call = async {
            let failed = |words| NacosError::Grpc { what, words };
            grpc.ready().await.map_err(|error| failed(words_of(&error)))?;
            let path = PathAndQuery::from_static(ASK_PATH);
            let codec = ProstCodec::<Payload, Payload>::default();
            let answer = grpc.unary(Request::new(payload), path, codec).await;
            answer.map(tonic::Response::into_inner).map_err(|status| match status.code() {
                Code::OutOfRange => NacosError::TooLong { what, subject: ask.subject() },
                _ => failed(words_of_status(&status)),
            })
        };
        let after = self.settings.request_timeout;
        // It is large, and a watch rests without one: there may be thousands.
        let Ok(answer) = timeout(after, Box::pin(call)).await else {
            self.suspect.notify_one();
            return Err(NacosError::Timeout { what, after });
        };
        let answer = answer.inspect_err(|error| {
            if !matches!(error, NacosError::TooLong { .. }) {
                self.suspect.notify_one();
            }
        })?;
        self.note_heard();
        Answer::read(answer).map_err(|source| NacosError::Bad { what, source })
    }

    /// How long an answer may take.
    pub(super) fn request_timeout(&self) -> Duration {
        self.settings.request_timeout
    }

    /// When a list is asked for again that nobody pushes: a push may be lost. Agents that start
    /// together do not ask together. Source: `ServiceInfoUpdateService`, which asks once a minute
    /// at the latest.
    pub(super) fn ask_again_at(&self) -> Instant {
        Instant::now() + jitter(self.settings.ask_again_every)
    }

    /// An error of an answer that cannot be read.
    pub(super) fn bad(what: &'static str) -> impl FnOnce(BadPayload) -> NacosError {
        move |source| NacosError::Bad { what, source }
    }

    /// The server does not keep what is registered on this connection: it is made anew.
    pub(super) fn give_up(&self) {
        self.is_given_up.store(true, Ordering::Relaxed);
        self.suspect.notify_one();
    }

    fn credentials(&self) -> MutexGuard<'_, Credentials> {
        self.credentials.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note_heard(&self) {
        *self.heard_at.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    fn silent_until(&self) -> Instant {
        *self.heard_at.lock().unwrap_or_else(PoisonError::into_inner) + SILENCE
    }
}

impl fmt::Debug for Live {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Live").finish_non_exhaustive()
    }
}

struct NacosConnector {
    module: Module,
    settings: Arc<NacosSettings>,
    login: Arc<Login>,
    resets: Resets,
}

/// Connections in a row that were to be made anew, each after a moment.
#[derive(Default)]
struct Resets(usize);

/// The two ends of the stream.
struct Talk {
    /// Opens the stream, too: a server may send the headers of its answer with its first message.
    heard: Pin<Box<dyn Stream<Item = Result<Payload, NacosError>> + Send>>,
    replies: mpsc::Sender<Payload>,
}

/// How a connection ended.
struct Ended {
    error: NacosError,
    /// The server wants us to connect elsewhere.
    to: Option<NacosServer>,
    /// Whether the server has asked for a new connection.
    is_reset: bool,
}

impl Connector for NacosConnector {
    type Server = NacosServer;
    type Live = Live;

    /// Follows a server that sends us elsewhere, or wants a new connection.
    async fn attempt(&mut self, server: &NacosServer, lender: &mut Lender<Live>) -> String {
        let mut sent_to = None::<NacosServer>;
        loop {
            let at = sent_to.as_ref().unwrap_or(server);
            let ended = match self.connect(at).await {
                Ok((live, talk)) => self.serve(at, live, talk, lender).await,
                Err(error) => Ended { error, to: None, is_reset: false },
            };
            if self.resets.is_over(ended.is_reset, lender.lasted()) {
                return match sent_to {
                    Some(at) => format!("it has sent us to {at}: {}", ended.error),
                    None => ended.error.to_string(),
                };
            }
            lender.take_back();
            tracing::info!(server = %at, to = ?ended.to, "Nacos asks for a new connection");
            sent_to = ended.to;
        }
    }
}

impl Resets {
    /// Whether to wait before the next connection: the last one failed, or is one too many that
    /// was to be made anew after a moment.
    fn is_over(&mut self, is_reset: bool, lasted: Option<Duration>) -> bool {
        let is_good = lasted.is_some_and(|lasted| GOOD_AFTER <= lasted);
        self.0 = if is_reset && !is_good { self.0 + 1 } else { 0 };
        !is_reset || MAX_RESETS < self.0
    }
}

impl NacosConnector {
    async fn connect(&self, server: &NacosServer) -> Result<(Live, Talk), NacosError> {
        let after = self.settings.connect_timeout;
        let set_up = timeout(after, self.set_up(server)).await;
        set_up.unwrap_or_else(|_| Err(NacosError::Connect(self.settings.no_answer(server))))
    }

    /// The handshake. Source: `GrpcClient.connectToServer`.
    async fn set_up(&self, server: &NacosServer) -> Result<(Live, Talk), NacosError> {
        let settings = &self.settings;
        if let Some(tls) = &settings.tls {
            tls.renew(settings.connect_timeout).await;
        }
        let token = self.login.token(server).await.map_err(NacosError::Connect)?;
        let access_key = settings.access_key().await;
        let access_key = access_key.map_err(|error| NacosError::Connect(error.to_string()))?;
        let credentials = Credentials { token, access_key };
        let channel = connect(settings.grpc(server), settings.connect_timeout).await;
        let channel = channel.map_err(|error| {
            NacosError::Connect(settings.grpc_is_closed(server, &words_of(&error)))
        })?;
        let grpc = Grpc::new(channel).max_decoding_message_size(settings.max_message_len);
        let live = Live {
            grpc: grpc.clone(),
            settings: Arc::clone(settings),
            credentials: Mutex::new(credentials),
            is_denied: AtomicBool::new(false),
            is_given_up: AtomicBool::new(false),
            last_id: AtomicU64::new(1),
            heard_at: Mutex::new(Instant::now()),
            hub: Hub::default(),
            suspect: Notify::new(),
        };
        let check = live.ask(&Ask::ServerCheck).await.map_err(|error| match error {
            // Who expects TLS hangs up on whoever begins without.
            NacosError::Grpc { what, words } if settings.tls.is_none() => NacosError::Grpc {
                what,
                words: format!("{words}; if it speaks TLS, set tls = true"),
            },
            error => error,
        })?;
        let check = check.handshake().map_err(Live::bad(Ask::ServerCheck.words()))?;
        let setup = Ask::Setup(self.module);
        let headers = live.credentials().headers(&setup.resource(String::new()), 0);
        let (replies, mut to_send) = mpsc::channel(MAX_REPLIES);
        // There is room for it.
        let _ = replies.try_send(setup.payload(&settings.namespace, 0, headers));
        let outgoing = futures_util::stream::poll_fn(move |context| to_send.poll_recv(context));
        let heard = Box::pin(open_stream(grpc, outgoing).try_flatten_stream());
        let mut talk = Talk { heard, replies };
        talk.wait_for_setup(&live, check.support_ability_negotiation).await?;
        Ok((live, talk))
    }

    /// Lends the connection out until it is over; returns why that is.
    async fn serve(
        &self,
        server: &NacosServer,
        live: Live,
        mut talk: Talk,
        lender: &mut Lender<Live>,
    ) -> Ended {
        let mut expires = self.login.expires_at().await;
        let mut log_in_at = Instant::now();
        let live = Arc::new(live);
        if lender.give(Arc::clone(&live)) {
            tracing::info!(%server, module = self.module.name(), "connected to Nacos");
        }
        let mut to = None;
        let mut is_reset = false;
        let error = loop {
            let heard = tokio::select! {
                heard = talk.next(&live) => heard,
                () = tokio::time::sleep_until(live.silent_until()) => {
                    match live.ask(&Ask::HealthCheck).await {
                        Ok(_) => continue,
                        Err(error) => break error,
                    }
                }
                () = live.suspect.notified() => {
                    if live.is_given_up.load(Ordering::Relaxed) {
                        break NacosError::Forgetful;
                    }
                    if let Err(error) = live.ask(&Ask::HealthCheck).await {
                        break error;
                    }
                    let is_denied = live.is_denied.swap(false, Ordering::Relaxed);
                    if is_denied && log_in_at <= Instant::now() {
                        self.log_in_again(server, &live).await;
                        expires = self.login.expires_at().await;
                        log_in_at = Instant::now() + LOG_IN_EVERY;
                    }
                    continue;
                }
                () = sleep_until_option(expires) => {
                    is_reset = true;
                    break NacosError::Connect("the login is about to run out".to_owned());
                }
            };
            match heard {
                Ok(Some(HeardKind::Reset { to: other })) => {
                    (to, is_reset) = (other, true);
                    break NacosError::SentAway;
                }
                Ok(Some(HeardKind::Unknown(kind))) => {
                    tracing::debug!(%server, %kind, "Nacos sent a message of an unknown kind");
                }
                Ok(_) => {}
                Err(error) => break error,
            }
        };
        if matches!(&error, NacosError::Refused { refusal, .. } if refusal.is_forbidden()) {
            self.login.forget().await;
        }
        let to = to.map(|(host, port)| NacosServer { host, port });
        Ended { error, to, is_reset }
    }

    /// The server says that the user may not do something, though the connection is well: the
    /// token may be one of before it was started again. Nothing is lost if that is not the reason.
    async fn log_in_again(&self, server: &NacosServer, live: &Live) {
        let refused = live.credentials().token.clone();
        match self.login.another(server, refused.as_ref()).await {
            Ok(token) => live.credentials().token = token,
            Err(error) => tracing::debug!(%server, %error, "cannot log in to Nacos again"),
        }
    }
}

async fn sleep_until_option(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}

async fn open_stream(
    mut grpc: Grpc<Channel>,
    outgoing: impl Stream<Item = Payload> + Send + 'static,
) -> Result<impl Stream<Item = Result<Payload, NacosError>>, NacosError> {
    let failed = |what, words| NacosError::Grpc { what, words };
    let what = "opening the stream";
    grpc.ready().await.map_err(|error| failed(what, words_of(&error)))?;
    let path = PathAndQuery::from_static(STREAM_PATH);
    let codec = ProstCodec::<Payload, Payload>::default();
    let opened = grpc.streaming(Request::new(outgoing), path, codec).await;
    let heard = opened.map_err(|status| failed(what, words_of_status(&status)))?.into_inner();
    let what = "listening to the server";
    Ok(heard.map_err(move |status| failed(what, words_of_status(&status))))
}

impl Talk {
    /// Waits until the connection can be used. Servers before Nacos 2.3 do not say when, and say
    /// nothing at all until they have news.
    async fn wait_for_setup(&mut self, live: &Live, is_told: bool) -> Result<(), NacosError> {
        let assumed_at = Instant::now() + SETUP_PAUSE;
        loop {
            let heard = tokio::select! {
                heard = self.next(live) => heard?,
                () = tokio::time::sleep_until(assumed_at), if !is_told => return Ok(()),
            };
            match heard {
                Some(HeardKind::SetupDone) => return Ok(()),
                Some(HeardKind::Reset { .. }) => return Err(NacosError::SentAway),
                _ => {}
            }
        }
    }

    /// Waits for what the server says next, answers it, and passes it on. `None` if that was
    /// all, or it cannot be read.
    async fn next(&mut self, live: &Live) -> Result<Option<HeardKind>, NacosError> {
        let ended = || NacosError::Connect("the server has ended the stream".to_owned());
        let payload = self.heard.next().await.ok_or_else(ended)??;
        live.note_heard();
        let heard = match Heard::read(&payload) {
            Ok(heard) => heard,
            Err(error) => {
                tracing::warn!(%error, "cannot read a message from Nacos; ignored");
                return Ok(None);
            }
        };
        // Nothing here may wait: who calls may stop to.
        if let Some(reply) = heard.reply
            && self.replies.try_send(reply).is_err()
        {
            let words = "the server does not read our answers".to_owned();
            return Err(NacosError::Connect(words));
        }
        Ok(live.hub.take(heard.kind))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A login that runs out wants a new connection every few hours, and nothing is wrong.
    #[test]
    fn only_connections_that_end_after_a_moment_are_waited_for() {
        let mut resets = Resets::default();
        assert!((0..100).all(|_| !resets.is_over(true, Some(GOOD_AFTER))));
        assert!((0..MAX_RESETS).all(|_| !resets.is_over(true, Some(Duration::ZERO))));
        assert!(resets.is_over(true, Some(Duration::ZERO)), "one too many");
        assert!(!resets.is_over(true, Some(GOOD_AFTER)));
        assert!(resets.is_over(false, None), "it failed");
    }
}
