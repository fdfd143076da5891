//! A service that the macro made, called over a real connection in every way that it offers.

#![deny(dead_code, deprecated, unreachable_pub)]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use link::codec::Serde;
use link::{
    CallError, Client, ClientConfig, Context, Failure, Listening, Method, Server, Service, Status,
};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use tokio::sync::{Notify, mpsc};

/// For whatever should happen soon; a test that waits so long has failed.
const LONG: Duration = Duration::from_secs(30);
/// The number of JSON.
const JSON: u8 = 13;

/// Everything that a method may be.
#[link::service(name = "demo.Desk")]
trait Desk {
    async fn greet(&self, name: String) -> String;
    async fn divide(&self, a: i64, b: i64) -> Result<i64, DivideError>;
    async fn whoami(&self, cx: &Context, verbose: bool) -> String;
    async fn time_left(&self, cx: &link::Context) -> Option<Duration>;
    #[link(one_way)]
    async fn log(&self, line: String);
    #[link(idempotent)]
    async fn read(&self, id: u64) -> Vec<u8>;
    #[link(name = "getUser")]
    async fn get_user(&self, id: u64) -> User;
    #[link(codecs(Protobuf))]
    async fn find(&self, query: Query) -> Page;
    #[link(codecs(Protobuf))]
    async fn first(&self) -> Page;
    #[link(codecs(Raw))]
    async fn echo(&self, bytes: Bytes) -> Bytes;
    async fn format(&self, text: Readable) -> Result<Readable, Readable>;
    fn crunch(&self, data: Vec<u8>) -> u64;
    fn thread(&self, cx: &Context) -> Result<String, DivideError>;
    async fn fail(&self, text: String) -> u64;
    fn fail_in_the_pool(&self) -> u64;
    async fn never(&self);
    /// What it does unless an implementation says more.
    #[link(codecs(link::codec::Postcard, Json))]
    async fn names(&self, this: u8, context: u8, client: u8, r#type: u8) -> Vec<u8> {
        vec![this + context, client, r#type]
    }
}

#[derive(Clone, Debug, Deserialize, PartialEq, Serialize, thiserror::Error)]
enum DivideError {
    #[error("division by zero")]
    Zero,
    #[error("{a} / {b} is too large")]
    Overflow { a: i64, b: i64 },
}

#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
struct User {
    id: u64,
    name: String,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Query {
    #[prost(string, tag = "1")]
    text: String,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Page {
    #[prost(string, repeated, tag = "1")]
    lines: Vec<String>,
}

/// Whether it went over as text.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Readable(bool);

impl Serialize for Readable {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let is_readable = serializer.is_human_readable();
        serializer.serialize_bool(is_readable)
    }
}

impl<'de> Deserialize<'de> for Readable {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        bool::deserialize(deserializer).map(Self)
    }
}

/// The service, and what it tells the test.
struct Front {
    n_greeted: AtomicUsize,
    lines: mpsc::UnboundedSender<String>,
    /// `read` waits for ever, after it has said so.
    is_stuck: bool,
    /// Told when `never` or a `read` that is stuck has begun.
    begun: Arc<Notify>,
    /// Told when `never` was dropped.
    dropped: Arc<Notify>,
}

/// Tells that it was dropped.
struct OnDrop(Arc<Notify>);

impl Drop for OnDrop {
    fn drop(&mut self) {
        self.0.notify_one();
    }
}

impl Desk for Front {
    async fn greet(&self, name: String) -> String {
        self.n_greeted.fetch_add(1, Ordering::SeqCst);
        tokio::task::yield_now().await;
        format!("Hello, {name}!")
    }

    async fn divide(&self, a: i64, b: i64) -> Result<i64, DivideError> {
        if b == 0 {
            return Err(DivideError::Zero);
        }
        a.checked_div(b).ok_or(DivideError::Overflow { a, b })
    }

    async fn whoami(&self, cx: &Context, verbose: bool) -> String {
        cx.add_reply_meta("seen", cx.meta().iter().count().to_string());
        let color = cx.meta().value("color").unwrap_or("none");
        let address = cx.peer().address();
        if verbose { format!("{} at {address}, {color}", cx.peer().name()) } else { color.into() }
    }

    async fn time_left(&self, cx: &Context) -> Option<Duration> {
        cx.time_left()
    }

    async fn log(&self, line: String) {
        self.lines.send(line).unwrap();
    }

    async fn read(&self, id: u64) -> Vec<u8> {
        if self.is_stuck {
            self.begun.notify_one();
            std::future::pending::<()>().await;
        }
        id.to_be_bytes().into()
    }

    async fn get_user(&self, id: u64) -> User {
        User { id, name: "Ada".to_owned() }
    }

    async fn find(&self, query: Query) -> Page {
        Page { lines: vec![query.text; 2] }
    }

    async fn first(&self) -> Page {
        Page { lines: vec!["first".to_owned()] }
    }

    // An implementation may also write the future out.
    #[expect(clippy::manual_async_fn, reason = "that is what is tested")]
    fn echo(&self, bytes: Bytes) -> impl Future<Output = Bytes> + Send {
        async move { bytes }
    }

    async fn format(&self, text: Readable) -> Result<Readable, Readable> {
        if text.0 { Ok(text) } else { Err(text) }
    }

    fn crunch(&self, data: Vec<u8>) -> u64 {
        data.iter().copied().map(u64::from).sum()
    }

    fn thread(&self, cx: &Context) -> Result<String, DivideError> {
        cx.add_reply_meta("kind", "thread");
        std::thread::current().name().map(str::to_owned).ok_or(DivideError::Zero)
    }

    async fn fail(&self, text: String) -> u64 {
        tokio::task::yield_now().await;
        panic!("{text}");
    }

    fn fail_in_the_pool(&self) -> u64 {
        panic!("no pool for this")
    }

    async fn never(&self) {
        let _told = OnDrop(Arc::clone(&self.dropped));
        self.begun.notify_one();
        std::future::pending::<()>().await;
    }
}

/// A server with the service, a client of it, and what the service tells.
struct Setup {
    server: Listening,
    client: Client,
    desk: DeskClient,
    front: Arc<Front>,
    lines: mpsc::UnboundedReceiver<String>,
}

fn front(is_stuck: bool) -> (Arc<Front>, mpsc::UnboundedReceiver<String>) {
    let (lines, receiver) = mpsc::unbounded_channel();
    let (begun, dropped) = (Arc::default(), Arc::default());
    let front = Front { n_greeted: AtomicUsize::new(0), lines, is_stuck, begun, dropped };
    (Arc::new(front), receiver)
}

async fn start() -> Setup {
    let (front, lines) = front(false);
    let service = Arc::clone(&front).into_service();
    let server = Server::new().offer(service).listen("127.0.0.1:0").await.unwrap();
    let config = ClientConfig { name: "tester".to_owned(), ..ClientConfig::default() };
    let client = Client::connect_with(server.local_addr(), config).await.unwrap();
    let desk = DeskClient::new(&client);
    Setup { server, client, desk, front, lines }
}

/// Ends a test: everything must be over.
async fn end(setup: Setup) {
    setup.client.close(LONG).await;
    assert!(setup.server.shutdown(LONG).await, "a call was left over");
}

fn refusal<T: std::fmt::Debug, E: std::fmt::Debug>(
    result: Result<T, CallError<E>>,
) -> (Status, String) {
    match result {
        Err(CallError::Failed(Failure::Refused { status, text })) => (status, text),
        other => panic!("not refused: {other:?}"),
    }
}

#[tokio::test]
async fn plain_calls_give_replies() {
    let setup = start().await;
    let desk = &setup.desk;
    assert_eq!(desk.greet("Ada".to_owned()).await.unwrap(), "Hello, Ada!");
    assert_eq!(desk.get_user(7).await.unwrap(), User { id: 7, name: "Ada".to_owned() });
    assert_eq!(desk.read(258).await.unwrap(), [0, 0, 0, 0, 0, 0, 1, 2]);
    assert_eq!(desk.names(1, 2, 3, 4).await.unwrap(), [3, 3, 4]);
    assert_eq!(desk.echo(Bytes::from_static(b"\xff")).await.unwrap(), b"\xff"[..]);
    let query = Query { text: "line".to_owned() };
    assert_eq!(desk.find(query).await.unwrap().lines, ["line", "line"]);
    assert_eq!(desk.first().await.unwrap().lines, ["first"]);
    assert_eq!(setup.front.n_greeted.load(Ordering::SeqCst), 1, "the other half sees it");
    end(setup).await;
}

#[tokio::test]
async fn errors_of_the_service_are_typed() {
    let setup = start().await;
    assert_eq!(setup.desk.divide(12, -4).await.unwrap(), -3);
    let errors = [(1, 0, DivideError::Zero), {
        let (a, b) = (i64::MIN, -1);
        (a, b, DivideError::Overflow { a, b })
    }];
    for (a, b, expected) in errors {
        match setup.desk.divide(a, b).await {
            Err(CallError::Service(error)) => assert_eq!(error, expected),
            other => panic!("{other:?}"),
        }
    }
    end(setup).await;
}

#[tokio::test]
async fn the_context_says_who_calls_and_carries_metadata_both_ways() {
    let setup = start().await;
    let reply = setup.desk.whoami(true).meta("color", "green").with_reply().await.unwrap();
    assert!(reply.value.starts_with("tester at 127.0.0.1:"), "{}", reply.value);
    assert!(reply.value.ends_with(", green"), "{}", reply.value);
    assert_eq!(reply.meta.value("seen"), Some("1"));
    assert_eq!(setup.desk.whoami(false).await.unwrap(), "none");
    let reply = setup.desk.thread().with_reply().await.unwrap();
    assert_eq!(reply.meta.value("kind"), Some("thread"));
    end(setup).await;
}

#[tokio::test]
async fn handlers_know_how_long_their_caller_waits() {
    let setup = start().await;
    let minute = Duration::from_secs(60);
    let left = setup.desk.time_left().timeout(minute).await.unwrap().unwrap();
    assert!(Duration::ZERO < left && left <= minute, "{left:?}");
    assert_eq!(setup.desk.time_left().no_timeout().await.unwrap(), None);
    end(setup).await;
}

#[tokio::test]
async fn a_call_whose_time_is_over_is_dropped_on_both_sides() {
    let setup = start().await;
    let time = Duration::from_millis(30);
    let result = setup.desk.never().timeout(time).await;
    assert!(
        matches!(result, Err(CallError::Failed(Failure::Timeout(t))) if t == time),
        "{result:?}"
    );
    // It may not have begun when its time was over; a second one surely does.
    let desk = setup.desk.clone();
    let second = tokio::spawn(async move { desk.never().no_timeout().await });
    setup.front.begun.notified().await;
    second.abort();
    tokio::time::timeout(LONG, setup.front.dropped.notified()).await.unwrap();
    end(setup).await;
}

#[tokio::test]
async fn one_way_calls_arrive_without_an_answer() {
    let mut setup = start().await;
    for line in ["a", "b"] {
        setup.desk.log(line.to_owned()).await.unwrap();
    }
    let mut lines = Vec::new();
    while lines.len() < 2 {
        lines.push(tokio::time::timeout(LONG, setup.lines.recv()).await.unwrap().unwrap());
    }
    lines.sort();
    assert_eq!(lines, ["a", "b"]);
    end(setup).await;
}

#[tokio::test]
async fn plain_functions_run_in_a_thread_that_may_block() {
    let setup = start().await;
    assert_eq!(setup.desk.crunch(vec![255; 1000]).await.unwrap(), 255_000);
    assert_eq!(setup.desk.thread().await.unwrap(), "link-blocking");
    end(setup).await;
}

#[tokio::test]
async fn a_call_chooses_its_codec() {
    let setup = start().await;
    let desk = &setup.desk;
    assert_eq!(desk.format(Readable(true)).codec(JSON).await.unwrap(), Readable(true));
    // Postcard comes first; the error comes back in it, too.
    match desk.format(Readable(true)).await {
        Err(CallError::Service(error)) => assert_eq!(error, Readable(false)),
        other => panic!("{other:?}"),
    }
    // A codec that the method does not know is not used.
    assert_eq!(desk.first().codec(JSON).await.unwrap().lines, ["first"]);
    end(setup).await;
}

#[tokio::test]
async fn methods_and_services_that_are_not_there_are_named() {
    let setup = start().await;
    let no_method: Method<(), ()> = Method::new::<Serde>(DeskClient::SERVICE_NAME, "lunch");
    let (status, text) = refusal(setup.client.call(&no_method, ()).await);
    assert_eq!(status, Status::NOT_FOUND_METHOD);
    assert!(text.contains("lunch"), "{text}");
    let no_service = DeskClient::GREET.of("demo.Nobody");
    let (status, text) = refusal(setup.client.call(&no_service, "Ada".to_owned()).await);
    assert_eq!(status, Status::NOT_FOUND_SERVICE);
    assert!(text.contains("demo.Nobody"), "{text}");
    end(setup).await;
}

#[tokio::test]
async fn a_handler_that_panics_hurts_only_its_own_call() {
    let setup = start().await;
    let (desk, other) = (&setup.desk, setup.desk.clone());
    let others = tokio::spawn(async move {
        for n in 0..100 {
            assert_eq!(other.greet(n.to_string()).await.unwrap(), format!("Hello, {n}!"));
        }
    });
    for _ in 0..10 {
        let (status, text) = refusal(desk.fail("out of paper".to_owned()).await);
        assert_eq!(status, Status::SERVER_ERROR);
        assert!(text.contains("out of paper"), "{text}");
        let (status, text) = refusal(desk.fail_in_the_pool().await);
        assert_eq!(status, Status::SERVER_ERROR);
        assert!(text.contains("no pool for this"), "{text}");
    }
    others.await.unwrap();
    end(setup).await;
}

#[tokio::test]
async fn an_idempotent_call_is_made_again_when_its_connection_breaks() {
    let (stuck, _lines) = front(true);
    let begun = Arc::clone(&stuck.begun);
    let server = Server::new().offer(stuck.into_service()).listen("127.0.0.1:0").await.unwrap();
    let address = server.local_addr();
    let client = Client::connect(address).await.unwrap();
    let desk = DeskClient::new(&client);
    let reading = tokio::spawn(async move { desk.read(1).timeout(LONG).await });
    begun.notified().await;
    drop(server);
    let (quick, _lines) = front(false);
    let server = loop {
        let service = Arc::clone(&quick).into_service();
        match Server::new().offer(service).listen(address).await {
            Ok(server) => break server,
            Err(_) => tokio::task::yield_now().await,
        }
    };
    assert_eq!(reading.await.unwrap().unwrap(), [0, 0, 0, 0, 0, 0, 0, 1]);
    client.close(LONG).await;
    assert!(server.shutdown(LONG).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clones_are_shared_by_tasks_and_threads() {
    let setup = start().await;
    let tasks: Vec<_> = (0..20)
        .map(|n| {
            let desk = setup.desk.clone();
            tokio::spawn(async move { desk.divide(n * n, 1).await.unwrap() })
        })
        .collect();
    for (n, task) in (0..20).zip(tasks) {
        assert_eq!(task.await.unwrap(), n * n);
    }
    let address = setup.server.local_addr();
    let thread = std::thread::spawn(move || {
        let client = Client::connect_blocking(address, ClientConfig::default()).unwrap();
        DeskClient::new(&client).greet("thread".to_owned()).wait().unwrap()
    });
    let joined = tokio::task::spawn_blocking(|| thread.join().unwrap()).await.unwrap();
    assert_eq!(joined, "Hello, thread!");
    assert_eq!(format!("{:?}", setup.desk), "DeskClient { .. }");
    end(setup).await;
}

#[tokio::test]
async fn handlers_by_hand_and_the_macro_speak_the_same() {
    let by_hand = Service::new(DeskClient::SERVICE_NAME)
        .method(&DeskClient::GREET, |_, name| async move { format!("Hi, {name}!") })
        .fallible(&DeskClient::DIVIDE, |_, (a, b)| async move {
            i64::checked_div(a, b).ok_or(DivideError::Zero)
        });
    let server = Server::new().offer(by_hand).listen("127.0.0.1:0").await.unwrap();
    let client = Client::connect(server.local_addr()).await.unwrap();
    let desk = DeskClient::new(&client);
    assert_eq!(desk.greet("Ada".to_owned()).await.unwrap(), "Hi, Ada!");
    assert_eq!(client.call(&DeskClient::DIVIDE, (9, 3)).await.unwrap(), 3);
    let (status, _) = refusal(desk.crunch(Vec::new()).await);
    assert_eq!(status, Status::NOT_FOUND_METHOD);
    client.close(LONG).await;
    assert!(server.shutdown(LONG).await);
}
