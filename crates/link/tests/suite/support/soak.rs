//! Full load while connections break: every reply must belong to its request, nothing may be done
//! twice that is not idempotent, and nothing may be left at the end.

use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytes::{Buf, Bytes};
use link::codec::{Raw, Serde};
use link::{
    Bound, BoundStream, CallError, Client, ClientConfig, Failure, Listening, Method, Server,
    Service, StreamMethod,
};
use rand::Rng;

use super::proxy::Proxy;

const AGAIN: Method<Bytes, Bytes> = Method::new::<(Raw,)>("soak.Calls", "again").idempotent();
const ONCE: Method<(u32, u64), u64> = Method::new::<Serde>("soak.Calls", "once");
const NOTE: Method<(u32, u64), ()> = Method::new::<Serde>("soak.Calls", "note");
const ITEMS: StreamMethod<u64, Bytes, Bytes, u64> =
    StreamMethod::both::<(SoakCodec,)>("soak.Calls", "items");

/// Bytes as they are, and numbers as eight bytes.
pub struct SoakCodec;

impl link::codec::Codec<Bytes> for SoakCodec {
    const NUMBER: u8 = 1;
    const NAME: &'static str = "raw";

    fn encode(value: &Bytes, out: &mut Vec<u8>) -> Result<(), link::codec::CodecError> {
        out.extend_from_slice(value);
        Ok(())
    }

    fn decode(bytes: Bytes) -> Result<Bytes, link::codec::CodecError> {
        Ok(bytes)
    }
}

impl link::codec::Codec<u64> for SoakCodec {
    const NUMBER: u8 = 1;
    const NAME: &'static str = "raw";

    fn encode(value: &u64, out: &mut Vec<u8>) -> Result<(), link::codec::CodecError> {
        out.extend_from_slice(&value.to_be_bytes());
        Ok(())
    }

    fn decode(mut bytes: Bytes) -> Result<u64, link::codec::CodecError> {
        bytes.try_get_u64().map_err(|error| link::codec::CodecError::new(error.to_string()))
    }
}

/// How much of what.
pub struct SoakPlan {
    pub duration: Duration,
    pub n_tasks: u32,
    pub n_threads: u32,
}

/// What the server counts.
#[derive(Default)]
pub struct Done {
    /// The last numbers of each caller, for calls that must not be done twice.
    last: Mutex<HashMap<u32, VecDeque<u64>>>,
    pub n_once: AtomicU64,
    pub n_notes: AtomicU64,
    pub n_doubled: AtomicU64,
}

impl Done {
    fn note(&self, caller: u32, number: u64) {
        let mut last = self.last.lock().unwrap();
        let numbers = last.entry(caller).or_default();
        if numbers.contains(&number) {
            self.n_doubled.fetch_add(1, Ordering::SeqCst);
        }
        // Connections that broke may have brought some late.
        numbers.truncate(99);
        numbers.push_front(number);
    }
}

fn service(done: &Arc<Done>) -> Service {
    let (once, notes) = (Arc::clone(done), Arc::clone(done));
    Service::new("soak.Calls")
        .method(&AGAIN, |_, bytes| async move { bytes })
        .method(&ONCE, move |_, (caller, number)| {
            once.note(caller, number);
            once.n_once.fetch_add(1, Ordering::SeqCst);
            async move { number + u64::from(caller) }
        })
        .method(&NOTE, move |_, _| {
            notes.n_notes.fetch_add(1, Ordering::SeqCst);
            async {}
        })
        .streaming(&ITEMS, |_, _, mut items, mut out| async move {
            let mut n_items = 0;
            while let Ok(Some(item)) = items.next().await {
                if out.send(&item).await.is_err() {
                    break;
                }
                n_items += 1;
            }
            n_items
        })
}

/// A server that all the load goes to.
pub async fn serve(done: &Arc<Done>) -> Listening {
    Server::new().offer(service(done)).listen("127.0.0.1:0").await.unwrap()
}

/// How calls ended.
#[derive(Debug, Default)]
pub struct SoakCounts {
    pub calls: AtomicU64,
    pub long: AtomicU64,
    pub streams: AtomicU64,
    pub one_way: AtomicU64,
    pub breaks: AtomicU64,
    /// Failures: broken, interrupted streams, and those that say that the call was not begun.
    pub broken: AtomicU64,
    pub interrupted: AtomicU64,
    pub not_begun: AtomicU64,
    /// Idempotent calls that met more breaks than one call is repeated for.
    pub idempotent_again: AtomicU64,
}

impl SoakCounts {
    fn fail(&self, failure: &Failure) {
        let kind = match failure {
            Failure::Broken(_) => &self.broken,
            Failure::Interrupted => &self.interrupted,
            failure if failure.is_not_begun() => &self.not_begun,
            other => panic!("no such failure was to be: {other}"),
        };
        add(kind);
    }
}

fn add(n: &AtomicU64) {
    n.fetch_add(1, Ordering::Relaxed);
}

/// One caller's methods.
struct Caller {
    number: u32,
    again: Bound<Bytes, Bytes>,
    once: Bound<(u32, u64), u64>,
    note: Bound<(u32, u64), ()>,
    items: BoundStream<u64, Bytes, Bytes, u64>,
    tally: Arc<SoakCounts>,
}

impl Caller {
    fn new(client: &Client, number: u32, tally: &Arc<SoakCounts>) -> Self {
        Self {
            number,
            again: client.bind(&AGAIN),
            once: client.bind(&ONCE),
            note: client.bind(&NOTE),
            items: client.bind_stream(&ITEMS),
            tally: Arc::clone(tally),
        }
    }

    /// One call after the other, of all kinds.
    async fn run(&self, goes_on: &AtomicBool) {
        let mut n = 0_u64;
        while goes_on.load(Ordering::Relaxed) {
            n += 1;
            match n % 64 {
                0 => self.echo(n, 300_000, &self.tally.long).await,
                1..3 => self.stream(n).await,
                3..8 => self.tell(n).await,
                8..24 => self.do_once(n).await,
                _ => self.echo(n, 100, &self.tally.calls).await,
            }
        }
    }

    /// An idempotent call, which has to come through.
    async fn echo(&self, n: u64, len: usize, count: &AtomicU64) {
        let request = message(self.number, n, len);
        loop {
            match self.again.call(request.clone()).timeout(Duration::from_secs(60)).await {
                Ok(reply) => {
                    assert!(reply == request, "the reply to another call");
                    return add(count);
                }
                Err(CallError::Failed(Failure::Broken(_))) => add(&self.tally.idempotent_again),
                Err(other) => panic!("an idempotent call failed: {other}"),
            }
        }
    }

    async fn do_once(&self, n: u64) {
        match self.once.call((self.number, n)).await {
            Ok(reply) => {
                assert_eq!(reply, n + u64::from(self.number), "the reply to another call");
                add(&self.tally.calls);
            }
            Err(error) => self.tally.fail(error.failure().unwrap()),
        }
    }

    async fn tell(&self, n: u64) {
        match self.note.call_one_way((self.number, n)).await {
            Ok(()) => add(&self.tally.one_way),
            Err(failure) => self.tally.fail(&failure),
        }
    }

    async fn stream(&self, n: u64) {
        const N_ITEMS: u64 = 20;
        let call = match self.items.open(n).await {
            Ok(call) => call,
            Err(failure) => return self.tally.fail(&failure),
        };
        let (mut sender, mut receiver) = (call.sender, call.receiver);
        let item = |k| message(self.number, n * 1000 + k, if k == 7 { 70_000 } else { 60 });
        let sending = async {
            for k in 0..N_ITEMS {
                if sender.send(&item(k)).await.is_err() {
                    break;
                }
            }
            drop(sender);
        };
        let receiving = async {
            let mut n_items = 0;
            while let Ok(Some(bytes)) = receiver.next().await {
                assert!(bytes == item(n_items), "another item");
                n_items += 1;
            }
            n_items
        };
        let ((), n_received) = tokio::join!(sending, receiving);
        match call.reply.await {
            Ok(n_items) => {
                assert_eq!((n_items, n_received), (N_ITEMS, N_ITEMS));
                add(&self.tally.streams);
            }
            Err(error) => self.tally.fail(error.failure().unwrap()),
        }
    }
}

/// Bytes that belong to one call alone.
fn message(caller: u32, n: u64, len: usize) -> Bytes {
    let mut bytes = Vec::with_capacity(len);
    while bytes.len() < len {
        bytes.extend_from_slice(&caller.to_be_bytes());
        bytes.extend_from_slice(&(n + bytes.len() as u64).to_be_bytes());
    }
    bytes.truncate(len);
    bytes.into()
}

/// Puts full load on a server, through a proxy that breaks all connections every 50 to 500 ms.
/// `sample` is called every second.
pub async fn load(
    server: SocketAddr,
    plan: &SoakPlan,
    mut sample: impl FnMut(&SoakCounts),
) -> Arc<SoakCounts> {
    let proxy = Proxy::start(server).await;
    let config = ClientConfig {
        timeout: Some(Duration::from_secs(60)),
        min_backoff: Duration::from_millis(5),
        max_backoff: Duration::from_millis(100),
        ..ClientConfig::default()
    };
    let client = Client::connect_with(proxy.address(), config.clone()).await.unwrap();
    let (tally, goes_on) = (Arc::<SoakCounts>::default(), Arc::new(AtomicBool::new(true)));
    let tasks: Vec<_> = (0..plan.n_tasks)
        .map(|number| {
            let caller = Caller::new(&client, number, &tally);
            let goes_on = Arc::clone(&goes_on);
            tokio::spawn(async move { caller.run(&goes_on).await })
        })
        .collect();
    let address = proxy.address();
    let (known, flag, n_threads, first) =
        (Arc::clone(&tally), Arc::clone(&goes_on), plan.n_threads, plan.n_tasks);
    let threads = std::thread::spawn(move || {
        let client = Client::connect_blocking(address, config).unwrap();
        std::thread::scope(|scope| {
            for n in 0..n_threads {
                let (caller, flag) = (Caller::new(&client, first + n, &known), &flag);
                scope.spawn(move || {
                    let mut n = 0;
                    while flag.load(Ordering::Relaxed) {
                        n += 1;
                        match caller.once.call((caller.number, n)).wait() {
                            Ok(reply) => {
                                assert_eq!(reply, n + u64::from(caller.number));
                                add(&caller.tally.calls);
                            }
                            Err(error) => caller.tally.fail(error.failure().unwrap()),
                        }
                    }
                });
            }
        });
    });
    let start = Instant::now();
    let mut next_sample = start;
    while start.elapsed() < plan.duration {
        let pause = Duration::from_millis(rand::rng().random_range(50..500));
        tokio::time::sleep(pause).await;
        proxy.break_all();
        add(&tally.breaks);
        if next_sample <= Instant::now() {
            sample(&tally);
            next_sample += Duration::from_secs(1);
        }
    }
    goes_on.store(false, Ordering::Relaxed);
    for task in tasks {
        task.await.expect("a caller found a fault");
    }
    tokio::task::spawn_blocking(|| threads.join()).await.unwrap().expect("a thread found a fault");
    client.close(Duration::from_secs(30)).await;
    tally
}

/// Resident memory of a process, in KiB.
pub fn rss_kib(process: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.trim().strip_suffix(" kB")?.trim().parse().ok()).unwrap_or(0)
}
