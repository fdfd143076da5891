//! An HTTP app behind an export, called as the provider's agent calls it: without a link in
//! between.

use std::num::NonZeroUsize;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use agent::backend::{AppCall, AppMethod, HttpApp};
use agent::call::{Encoded, Outcome, ProviderReply, Times};
use agent::config::{self, AppConfig, ConnectionLimit, HttpAppConfig};
use agent::error::CallError;
use agent::upstream::Setup;
use dubbo_proto::{BodyLimits, Reply as DubboReply, ReplyKind, Serialization, ServiceKey, Status};
use hessian::{Decoder, Encoder, Limits, Value};
use tokio::sync::oneshot;
use tokio::task::AbortHandle;
use wire::SocketOptions;

use super::http_app::TestApp;
use super::{PATIENCE, SERVICE};

/// What an app's connections and calls are held to.
const SETUP: Setup = Setup {
    heartbeat: None,
    connect_timeout: PATIENCE,
    max_in_flight: 100,
    max_reply_len: 1 << 20,
    long_len: 1 << 16,
    connections: ConnectionLimit::Fixed(NonZeroUsize::MIN),
    socket: SocketOptions {
        send_buffer_len: None,
        receive_buffer_len: None,
        max_unsent_len: 1 << 18,
        nodelay: true,
        keepalive: None,
        user_timeout: None,
    },
    tells_time_left: false,
};

/// A class with fields of types that JSON does not tell.
pub const USER: &str = "[[export.class]]\nname = 'com.acme.User'\n\
    fields = { born = 'java.util.Date', color = 'com.acme.Color', friends = \
    'java.util.List<com.acme.User>', balance = 'java.math.BigDecimal' }\n";

/// The export of an app at `url` with these further lines.
pub struct Export {
    pub service: ServiceKey,
    pub http: Arc<HttpAppConfig>,
}

impl Export {
    pub fn new(url: &str, lines: &str) -> Self {
        let text = format!(
            "[admin]\nenabled = false\n[[registry]]\nkind = 'etcd'\n[link]\nlisten = '127.0.0.1:0'\n\
             [[export]]\ninterface = '{SERVICE}'\nversion = '1.2'\ngroup = 'blue'\n\
             app = '{url}'\n{lines}"
        );
        let config = config::parse(&text, "test.toml").unwrap_or_else(|error| panic!("{error}"));
        let export = &config.exports[0];
        let AppConfig::Http(http) = &export.app else { panic!("no HTTP app") };
        Self { service: export.service.clone(), http: Arc::clone(http) }
    }

    pub fn start(&self) -> Rc<HttpApp> {
        HttpApp::start(&self.service, Arc::clone(&self.http), SETUP, None)
    }
}

/// Runs a test of an app as a worker of the agent would: on one thread.
pub fn on_worker(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    tokio::task::LocalSet::new().block_on(&runtime, test);
}

/// `app` behind an export with these further lines, for the time of `test`.
pub fn with(app: &TestApp, lines: &str, test: impl AsyncFnOnce(Rc<HttpApp>)) {
    let export = Export::new(&format!("http://{}", app.addr), lines);
    on_worker(async { test(export.start()).await });
}

/// Waits until something is so.
pub async fn until(what: &str, holds: impl Fn() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < PATIENCE, "{what} did not happen within {PATIENCE:?}");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// One call.
pub struct BackendCall<'a> {
    pub method: &'a str,
    pub descriptor: &'a str,
    pub serialization: Serialization,
    pub args: Vec<u8>,
    pub attachments: &'a [(&'a str, &'a str)],
    pub timeout: Duration,
}

impl<'a> BackendCall<'a> {
    pub fn new(method: &'a str, descriptor: &'a str, args: &[Value]) -> Self {
        let mut bytes = Vec::new();
        let mut encoder = Encoder::new(&mut bytes);
        args.iter().for_each(|arg| encoder.value(arg));
        Self {
            method,
            descriptor,
            serialization: Serialization::Hessian2,
            args: bytes,
            attachments: &[],
            timeout: PATIENCE,
        }
    }

    pub fn fastjson(mut self, args: &str) -> Self {
        (self.serialization, self.args) = (Serialization::Fastjson, args.into());
        self
    }

    /// Begins the call; the handle gives it up.
    pub fn begin(self, app: &Rc<HttpApp>) -> (Option<AbortHandle>, oneshot::Receiver<Outcome>) {
        let now = Instant::now();
        let call = AppCall {
            method: AppMethod {
                name: self.method,
                descriptor: self.descriptor,
                takes_attachments: true,
            },
            payload: Encoded { serialization: self.serialization, bytes: &self.args },
            attachments: self.attachments,
            times: Times { now, deadline: now + self.timeout },
            one_way: false,
            clock: None,
            headers: None,
            not_at: None,
        };
        let (done, outcome) = oneshot::channel();
        let handle = app.call(&call, move |outcome| drop(done.send(outcome)));
        (handle, outcome)
    }

    pub async fn make(self, app: &Rc<HttpApp>) -> Outcome {
        let (_handle, outcome) = self.begin(app);
        outcome.await.unwrap()
    }
}

/// The kind of a reply, its value and its attachments.
pub fn read(reply: &ProviderReply) -> (ReplyKind, Value, Vec<(String, String)>) {
    let decoded = DubboReply::decode(reply.serialization, Status::Ok, &reply.body).unwrap();
    let DubboReply::Done(outcome) = decoded else { panic!("no result") };
    let limits = BodyLimits::default();
    let value = match (outcome.kind(), outcome.serialization()) {
        (ReplyKind::Null, _) => Value::Null,
        (_, Serialization::Hessian2) => {
            Decoder::new(outcome.value_and_rest(), Limits::default()).read_value().unwrap()
        }
        _ => Value::string(std::str::from_utf8(outcome.value(&limits).unwrap()).unwrap()),
    };
    (outcome.kind(), value, outcome.attachments(&limits).unwrap())
}

/// What a method returned.
pub fn value(outcome: Outcome) -> Value {
    let (kind, value, _) = read(&outcome.unwrap());
    assert_ne!(kind, ReplyKind::Exception, "{value:?}");
    value
}

/// The stable name of an error.
pub fn name(error: &CallError) -> &'static str {
    error.code.row().name
}
