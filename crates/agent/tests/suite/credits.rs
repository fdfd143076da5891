//! More calls than an app can take, of several agents: the agent before the app lends them what
//! there is, and they wait where they come from.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use crate::support::pool::PoolProvider;
use crate::support::{
    Http, PATIENCE, SERVICE, STRING, StopAtEnd, block_on, consumer_with_metrics, register_link,
    start, wait_until,
};
use agent::Agent;
use agent::inspect::snapshot::{AppSnapshot, EndpointSnapshot, Page};
use bytes::BytesMut;
use link_proto::{
    Config, Connection, Credits, Event, PoolId, RequestOut, RouteDef, RouteId, Status, features,
};
use registry::MemoryHub;

const MS: Duration = Duration::from_millis(1);

fn page<T: serde::de::DeserializeOwned>(agent: &Agent, path: &str) -> Page<T> {
    let mut http = Http::connect(agent.addresses().admin.unwrap());
    http.send(format!("GET {path} HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n"));
    serde_json::from_str(&http.read().body).unwrap()
}

/// How many calls an agent may have at the only endpoint, if that is limited.
fn credits(agent: &Agent) -> Option<u32> {
    let endpoints: Page<EndpointSnapshot> = page(agent, "/endpoints");
    let it = endpoints.items.first()?;
    assert_eq!(it.capacity.is_some(), it.capacity_source.as_deref() == Some("granted"));
    it.capacity
}

/// Callers of an agent that call one call after the other until they are stopped.
#[derive(Default)]
struct Crowd {
    n_ok: AtomicUsize,
    n_shed: AtomicUsize,
    is_over: AtomicBool,
    /// Their calls may be lost on the way.
    may_be_cut: bool,
}

impl Crowd {
    fn call(&self, agent: &Agent) {
        let mut http = Http::to(agent);
        let (path, timeout) = (format!("/{SERVICE}/echo"), "x-dubbo-timeout-ms: 10000");
        while !self.is_over.load(SeqCst) {
            let answer = http.post(&path, &[STRING, timeout], "[\"a\"]");
            match answer.status {
                200 => self.n_ok.fetch_add(1, SeqCst),
                503 => {
                    assert!(answer.head.contains("retry-after"), "{answer:?}");
                    // The limit is that of the provider's agent, whoever sheds the call.
                    assert!(!answer.body.contains("endpoint_capacity"), "{answer:?}");
                    self.n_shed.fetch_add(1, SeqCst)
                }
                502 | 504 if self.may_be_cut => 0,
                _ => panic!("{answer:?}"),
            };
        }
    }

    fn run<R>(&self, agents: &[(&Agent, usize)], meanwhile: impl FnOnce() -> R) -> R {
        std::thread::scope(|scope| {
            for (agent, n_callers) in agents {
                for _ in 0..*n_callers {
                    scope.spawn(|| self.call(agent));
                }
            }
            let stop = StopAtEnd(&self.is_over);
            let result = meanwhile();
            drop(stop);
            result
        })
    }
}

/// An agent of several workers before `app`, once it is registered: who asks sooner hears that
/// there is nobody.
fn agent_before(app: &PoolProvider, hub: &MemoryHub, capacity: u32, n_workers: usize) -> Agent {
    let text = format!(
        "[admin]\nlisten = \"127.0.0.1:0\"\n[agent]\nworkers = {n_workers}\ndrain_ms = 5000\n\
         [[registry]]\nname = \"main\"\nkind = \"etcd\"\nendpoints = [\"http://127.0.0.1:1\"]\n\
         [link]\nlisten = \"127.0.0.1:0\"\n[[export]]\n\
         interface = \"{SERVICE}\"\napp = \"dubbo://{}\"\ncapacity = {capacity}",
        app.addr
    );
    let n_before = hub.urls().len();
    let agent = start(&text, hub);
    wait_until("the registration", || (n_before < hub.urls().len()).then_some(()));
    agent
}

#[test]
fn agents_share_what_an_app_can_take_and_no_call_is_rejected() {
    let hub = MemoryHub::new();
    let app = PoolProvider::start(4, 10 * MS, false);
    let provider = agent_before(&app, &hub, 4, 1);
    let consumers = [(); 2].map(|()| consumer_with_metrics(&hub, ""));
    let crowd = Crowd::default();
    crowd.run(&[(&consumers[0], 16), (&consumers[1], 16)], || {
        wait_until("both have credits", || {
            let granted = consumers.each_ref().map(credits);
            let sum = granted.iter().flatten().sum::<u32>();
            assert!(sum <= 4 + 4, "{granted:?}: two looks, between which credits may move");
            granted.iter().all(|it| it.is_some_and(|it| 0 < it)).then_some(())
        });
        wait_until("calls wait at the consumers, and none at the provider", || {
            let apps: Page<AppSnapshot> = page(&provider, "/apps");
            (apps.items[0].waiting == 0 && 300 < crowd.n_ok.load(SeqCst)).then_some(())
        });
    });
    println!("{:?} answered, {:?} shed", crowd.n_ok, crowd.n_shed);
    assert_eq!(app.n_rejected(), 0);
    wait_until("nobody needs credits any more", || {
        consumers.iter().all(|agent| credits(agent).is_none()).then_some(())
    });
    let answer = Http::to(&consumers[0]).post(&format!("/{SERVICE}/echo"), &[STRING], "[\"a\"]");
    assert_eq!(answer.status, 200);
    for agent in consumers {
        block_on(agent.drain());
    }
    block_on(provider.drain());
}

/// Four links to three workers, and two calls at a time: credits go round, and so does the
/// capacity between the workers.
#[test]
fn every_link_has_its_turn_where_there_are_more_links_than_credits() {
    let hub = MemoryHub::new();
    let app = PoolProvider::start(2, 10 * MS, false);
    let provider = agent_before(&app, &hub, 2, 3);
    let consumers = [(); 2].map(|()| consumer_with_metrics(&hub, ""));
    let crowds = [Crowd::default(), Crowd::default()];
    crowds[0].run(&[(&consumers[0], 8)], || {
        crowds[1].run(&[(&consumers[1], 8)], || {
            wait_until("calls of both are answered", || {
                crowds.iter().all(|crowd| 100 < crowd.n_ok.load(SeqCst)).then_some(())
            });
        });
    });
    assert_eq!(app.n_rejected(), 0);
    for agent in consumers {
        block_on(agent.drain());
    }
    block_on(provider.drain());
}

/// A proxy before a place. The connections over it can be cut.
struct CuttableProxy {
    address: SocketAddr,
    open: Arc<Mutex<Vec<TcpStream>>>,
}

impl CuttableProxy {
    fn to(server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let open = Arc::<Mutex<Vec<TcpStream>>>::default();
        let all = Arc::clone(&open);
        thread::spawn(move || {
            for client in listener.incoming() {
                let (client, server) = (client.unwrap(), TcpStream::connect(server).unwrap());
                let clone = |stream: &TcpStream| stream.try_clone().unwrap();
                all.lock().unwrap().push(clone(&client));
                for (mut from, mut to) in [(clone(&client), clone(&server)), (server, client)] {
                    thread::spawn(move || {
                        let _ = std::io::copy(&mut from, &mut to);
                        let _ = to.shutdown(Shutdown::Both);
                    });
                }
            }
        });
        Self { address, open }
    }

    fn n_made(&self) -> usize {
        self.open.lock().unwrap().len()
    }

    fn cut(&self, nth: usize) {
        let _ = self.open.lock().unwrap()[nth].shutdown(Shutdown::Both);
    }
}

/// Each link has credits of its own. All together they are never more than the app can take, also
/// when links are lost: an app that is asked for one call too many rejects it.
#[test]
fn several_links_of_one_agent_share_the_credits_and_give_them_back() {
    let (near, far) = (MemoryHub::new(), MemoryHub::new());
    let app = PoolProvider::start(4, 10 * MS, false);
    let provider = agent_before(&app, &far, 4, 1);
    let proxy = CuttableProxy::to(provider.addresses().link.unwrap());
    let _registered = register_link(&near, proxy.address);
    let text = "[agent]\nworkers = 1\n[admin]\nlisten = \"127.0.0.1:0\"\n\
                [[registry]]\nname = \"main\"\nkind = \"file\"\npath = \"x\"\n\
                [[ingress]]\nprotocol = \"http\"\nlisten = \"127.0.0.1:0\"\n\
                [defaults]\nconnections = 3\n";
    let consumer = start(text, &near);
    let path = format!("/{SERVICE}/echo");
    let call = || Http::to(&consumer).post(&path, &[STRING], "[\"a\"]").status;
    wait_until("an answer", || (call() == 200).then_some(()));
    wait_until("three links", || (proxy.n_made() == 3).then_some(()));
    let crowd = Crowd { may_be_cut: true, ..Crowd::default() };
    crowd.run(&[(&consumer, 16)], || {
        let n_more = |n: usize| {
            let before = crowd.n_ok.load(SeqCst);
            wait_until("answers", || (before + n <= crowd.n_ok.load(SeqCst)).then_some(()));
        };
        wait_until("credits", || credits(&consumer));
        n_more(100);
        // One that is not the first, and then the first.
        for nth in [1, 0] {
            proxy.cut(nth);
            wait_until("it is made again", || (3 + 2 - nth == proxy.n_made()).then_some(()));
            n_more(100);
        }
    });
    assert_eq!(app.n_rejected(), 0);
    wait_until("nobody needs credits any more", || credits(&consumer).is_none().then_some(()));
    block_on(consumer.drain());
    block_on(provider.drain());
}

/// A link that is spoken by hand.
struct RawLink {
    stream: TcpStream,
    machine: Connection<u32>,
    input: BytesMut,
    /// Kinds of the frames that came.
    kinds: Vec<u8>,
}

impl RawLink {
    fn to(agent: &Agent, features: u64) -> Self {
        let stream = TcpStream::connect(agent.addresses().link.unwrap()).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let config = Config { features, ..Config::default() };
        let machine = Connection::client(config, Instant::now());
        let mut link = Self { stream, machine, input: BytesMut::new(), kinds: Vec::new() };
        link.next(|event| matches!(event, Event::Ready(_)).then_some(()));
        link
    }

    fn flush(&mut self) {
        let bytes = self.machine.transmit().split();
        self.stream.write_all(&bytes).unwrap();
    }

    /// The first event that `wanted` takes.
    fn next<R>(&mut self, mut wanted: impl FnMut(&Event<u32>) -> Option<R>) -> R {
        loop {
            self.flush();
            while let Some(event) = self.machine.poll_event() {
                if let Some(found) = wanted(&event) {
                    return found;
                }
            }
            self.read().unwrap();
        }
    }

    fn read(&mut self) -> std::io::Result<()> {
        let mut buffer = vec![0; 64 * 1024];
        let len = self.stream.read(&mut buffer)?;
        assert!(len != 0, "the agent closed the link");
        self.input.extend_from_slice(&buffer[..len]);
        let mut rest = &self.input[..];
        while let Some(header) = rest.first_chunk::<16>() {
            let body_len = u32::from_be_bytes(*header.first_chunk().unwrap()) as usize;
            let Some(behind) = rest.get(16 + body_len..) else { break };
            self.kinds.push(header[4]);
            rest = behind;
        }
        self.machine.handle_bytes(Instant::now(), &mut self.input).unwrap();
        Ok(())
    }

    fn route(&mut self) -> (RouteId, Option<PoolId>) {
        let def = RouteDef {
            service: SERVICE.into(),
            method: "echo".into(),
            descriptor: "Ljava/lang/String;".into(),
            attachments: vec![("path".into(), SERVICE.into())],
        };
        let route = self.machine.define(&def).unwrap();
        self.next(|event| match event {
            Event::RouteAccepted { route: accepted, pool, .. } if *accepted == route => {
                Some((route, *pool))
            }
            _ => None,
        })
    }

    fn send(&mut self, route: RouteId, token: u32) {
        let mut payload = Vec::new();
        hessian::write_string(&mut payload, "a");
        let request = RequestOut {
            timeout: Some(10_000 * MS),
            codec: 2,
            payload: payload.as_slice().into(),
            ..RequestOut::new(route)
        };
        self.machine.send_request(Instant::now(), request, token).unwrap();
        self.flush();
    }

    /// Wants many calls of a pool until it may have so many in flight.
    fn wait_for_credits(&mut self, pool: PoolId, wanted: u32) {
        self.stream.set_read_timeout(Some(20 * MS)).unwrap();
        let mut n_seen = 0;
        wait_until("credits", || {
            self.machine.demand(pool, 100, n_seen);
            self.flush();
            let _ = self.read();
            let mut found = None;
            while let Some(event) = self.machine.poll_event() {
                if let Event::Credits { credits, .. } = event {
                    n_seen += 1;
                    found = found.or((credits == Credits::Limited(wanted)).then_some(()));
                }
            }
            found
        });
    }
}

/// An agent of the version before credits gets its calls through, beside agents that know them,
/// and never a frame that it does not know.
#[test]
fn a_peer_that_knows_no_credits_is_served_beside_others() {
    let hub = MemoryHub::new();
    let app = PoolProvider::start(2, 10 * MS, false);
    let provider = agent_before(&app, &hub, 2, 1);
    let consumer = consumer_with_metrics(&hub, "");
    let crowd = Crowd::default();
    crowd.run(&[(&consumer, 16)], || {
        wait_until("credits", || credits(&consumer));
        let mut old = RawLink::to(&provider, 0);
        let (route, pool) = old.route();
        assert_eq!(pool, None);
        let (mut token, mut n_ok) = (0, 0);
        wait_until("ten answers", || {
            token += 1;
            old.send(route, token);
            let status = old.next(|event| match event {
                Event::Response { status, .. } => Some(*status),
                _ => None,
            });
            assert!([Status::OK, Status::OVERLOADED].contains(&status), "{status:?}");
            n_ok += u32::from(status == Status::OK);
            (10 <= n_ok).then_some(())
        });
        // HELLO, answers to DEFINE, and responses.
        assert!(old.kinds.iter().all(|kind| [1, 2, 4].contains(kind)), "{:?}", old.kinds);
    });
    assert_eq!(app.n_rejected(), 0);
    block_on(consumer.drain());
    block_on(provider.drain());
}

/// What a link held is there for others as soon as it has ended.
#[test]
fn a_lost_link_gives_its_credits_back() {
    let hub = MemoryHub::new();
    let app = PoolProvider::start(4, 5 * MS, false);
    let provider = agent_before(&app, &hub, 4, 1);
    let mut first = RawLink::to(&provider, features::CREDITS);
    let (route, pool) = first.route();
    let pool = pool.expect("the peer knows credits");
    // More than there is room for, at once: then it is told what it may have.
    (0..12).for_each(|token| first.send(route, token));
    first.wait_for_credits(pool, 4);
    let mut second = RawLink::to(&provider, features::CREDITS);
    let (route, pool) = second.route();
    let pool = pool.expect("the peer knows credits");
    (0..12).for_each(|token| second.send(route, token));
    drop(first);
    second.wait_for_credits(pool, 4);
    assert_eq!(app.n_rejected(), 0);
    block_on(provider.drain());
}
