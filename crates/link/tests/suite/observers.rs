//! What observers are told of, and how traces go from caller to handler and on.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::support::{ECHO, Gauge, LONG, NEVER, PANIC, calls, test, until};
use bytes::Bytes;
use link::codec::Serde;
use link::observe::{CallInfo, Observer, Outcome, Side, Spans};
use link::trace::TraceContext;
use link::{Client, ClientConfig, Method, NoItems, Server, ServerConfig, Service, StreamMethod};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

const FAIL: Method<(), (), String> = Method::fallible::<Serde>("test.More", "fail");
const HOP: Method<u32, String> = Method::new::<Serde>("test.More", "hop");
const ITEMS: StreamMethod<u64, NoItems, u64, ()> =
    StreamMethod::down::<Serde>("test.More", "items");

/// Counts ends by side, method and outcome.
#[derive(Default)]
struct OutcomeObserver(Mutex<BTreeMap<String, u64>>);

impl Observer for OutcomeObserver {
    fn ended(&self, call: &CallInfo<'_>, outcome: Outcome, _: Duration) {
        let key = format!("{:?} {} {}", call.side, call.method, outcome.name());
        *self.0.lock().unwrap().entry(key).or_default() += 1;
    }
}

impl OutcomeObserver {
    fn take(&self) -> String {
        let counts = std::mem::take(&mut *self.0.lock().unwrap());
        counts.into_iter().fold(String::new(), |mut text, (key, n)| {
            write!(text, "{key} {n}; ").unwrap();
            text
        })
    }
}

fn more() -> Service {
    Service::new("test.More")
        .fallible(&FAIL, |_, ()| async move { Err("no".to_owned()) })
        .streaming(&ITEMS, |_, n, _, mut out| async move {
            for n in 0..n {
                if out.send(&n).await.is_err() {
                    return;
                }
            }
        })
}

#[test]
fn each_outcome_is_told_once_on_both_sides() {
    test(|| async {
        let (near, far) = (Arc::<OutcomeObserver>::default(), Arc::<OutcomeObserver>::default());
        let config = ServerConfig { observer: Some(far.clone()), ..Default::default() };
        let server = Server::with_config(config).offer(more()).offer(calls(&Gauge::default()));
        let server = server.listen("127.0.0.1:0").await.unwrap();
        let config = ClientConfig { observer: Some(near.clone()), ..Default::default() };
        let client = Client::connect_with(server.local_addr(), config).await.unwrap();
        let counts = async |seen: &str| {
            let (near, far) = (near.take(), far.clone());
            until(|| server.n_calls() == 0).await;
            assert_eq!(format!("{near}{}", far.take()), seen);
        };
        client.call(&ECHO, Bytes::new()).await.unwrap();
        counts("Client echo ok 1; Server echo ok 1; ").await;
        client.call(&FAIL, ()).await.unwrap_err();
        counts("Client fail service_error 1; Server fail service_error 1; ").await;
        client.call(&PANIC, "x".into()).await.unwrap_err();
        counts("Client panic SERVER_ERROR 1; Server panic SERVER_ERROR 1; ").await;
        client.bind(&NEVER).call(()).timeout(Duration::from_millis(20)).await.unwrap_err();
        counts("Client never timeout 1; Server never abandoned 1; ").await;
        let long = vec![0; 9 << 20].into();
        client.bind(&ECHO).call(long).await.unwrap_err();
        counts("Client echo too_large 1; ").await;

        let items = client.bind_stream(&ITEMS);
        items.open(10).await.unwrap().finish().await.unwrap();
        counts("Client items ok 1; Server items ok 1; ").await;
        let mut call = items.open(1 << 40).await.unwrap();
        call.receiver.next().await.unwrap();
        drop(call);
        counts("Client items abandoned 1; Server items abandoned 1; ").await;

        client.close(LONG).await;
        client.call(&ECHO, Bytes::new()).await.unwrap_err();
        assert!(items.open(1).await.is_err());
        counts("Client echo closed 1; Client items closed 1; ").await;
    });
}

/// Remembers the traces that came.
#[derive(Default)]
struct Traces(Mutex<Vec<TraceContext>>);

impl Observer for Traces {
    fn outgoing(&self, call: &CallInfo<'_>) -> Option<TraceContext> {
        assert_eq!(call.side, Side::Client);
        Some(TraceContext::root(true))
    }

    fn incoming(&self, call: &CallInfo<'_>, trace: Option<&TraceContext>) -> tracing::Span {
        assert_eq!(call.side, Side::Server);
        self.0.lock().unwrap().extend(trace.cloned());
        tracing::Span::none()
    }
}

#[test]
fn a_trace_goes_from_the_caller_to_the_handler_and_on() {
    test(|| async {
        let traces = Arc::<Traces>::default();
        let config = ServerConfig { observer: Some(traces.clone()), ..Default::default() };
        // The handler calls the same method once more, on another server.
        let last = Service::new("test.More").method(&HOP, |context, _| async move {
            context.trace().expect("it came").to_string()
        });
        let last = Server::with_config(config.clone()).offer(last);
        let last = last.listen("127.0.0.1:0").await.unwrap();
        let onward = Client::connect(last.local_addr()).await.unwrap().bind(&HOP);
        let first = Service::new("test.More").method(&HOP, move |context, n| {
            let onward = onward.clone();
            async move {
                let trace = context.trace().expect("it came");
                onward.call(n + 1).trace(&trace).await.unwrap()
            }
        });
        let first = Server::with_config(config).offer(first);
        let first = first.listen("127.0.0.1:0").await.unwrap();
        let config = ClientConfig { observer: Some(traces.clone()), ..Default::default() };
        let client = Client::connect_with(first.local_addr(), config).await.unwrap();
        let seen: TraceContext = client.call(&HOP, 1).await.unwrap().parse().unwrap();
        let traces = traces.0.lock().unwrap();
        let [one, two] = &traces[..] else {
            panic!("{traces:?}");
        };
        assert_eq!(*two, seen);
        assert_eq!(one.trace_id(), two.trace_id());
        assert_ne!(one.span_id(), two.span_id());
        assert!(one.is_sampled() && two.is_sampled());
    });
}

/// Knows which spans are entered, and writes down where spans and events begin.
#[derive(Clone, Default)]
struct Nesting(Arc<(AtomicU64, Mutex<Seen>)>);

#[derive(Default)]
struct Seen {
    names: BTreeMap<u64, String>,
    entered: Vec<u64>,
    events: Vec<String>,
}

impl Subscriber for Nesting {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_span() || metadata.target() == "observers"
    }
    fn new_span(&self, attributes: &Attributes<'_>) -> Id {
        let id = self.0.0.fetch_add(1, Ordering::SeqCst) + 1;
        let mut seen = self.0.1.lock().unwrap();
        let inside = seen.entered.last().and_then(|id| seen.names.get(id)).cloned();
        let name = format!("{}>{}", inside.unwrap_or_default(), attributes.metadata().name());
        seen.names.insert(id, name);
        Id::from_u64(id)
    }
    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, _: &Event<'_>) {
        let mut seen = self.0.1.lock().unwrap();
        let inside = seen.entered.last().and_then(|id| seen.names.get(id)).cloned();
        seen.events.push(inside.unwrap_or_default());
    }
    fn enter(&self, id: &Id) {
        self.0.1.lock().unwrap().entered.push(id.into_u64());
    }
    fn exit(&self, id: &Id) {
        let last = self.0.1.lock().unwrap().entered.pop();
        assert_eq!(last, Some(id.into_u64()));
    }
}

#[test]
fn a_handler_runs_within_its_calls_span() {
    let nesting = Nesting::default();
    let default = tracing::subscriber::set_default(nesting.clone());
    test(|| async {
        let service = Service::new("test.More").method(&HOP, |_, n| async move {
            tracing::info!(target: "observers", "before");
            tokio::task::yield_now().await;
            let inner = tracing::info_span!("inner");
            inner.in_scope(|| tracing::info!(target: "observers", "within"));
            n.to_string()
        });
        let config = ServerConfig { observer: Some(Arc::new(Spans)), ..Default::default() };
        let server = Server::with_config(config).offer(service);
        let server = server.listen("127.0.0.1:0").await.unwrap();
        let client = Client::connect(server.local_addr()).await.unwrap();
        assert_eq!(client.call(&HOP, 7).await.unwrap(), "7");
    });
    drop(default);
    let seen = nesting.0.1.lock().unwrap();
    assert_eq!(seen.events, [">call", ">call>inner"]);
    assert!(seen.entered.is_empty());
}
