//! A Dubbo provider with a pool of threads, which rejects calls that find all of them busy, or
//! lets them wait.

use std::collections::VecDeque;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use bytes::BytesMut;
use dubbo_proto::{ReplyKind, ReplyTo, ServerConfig, ServerConnection, ServerEvent, Status};

/// The provider. Its threads end with the process.
pub struct PoolProvider {
    pub addr: SocketAddr,
    pool: Arc<FakeThreadPool>,
}

struct FakeThreadPool {
    threads: usize,
    /// Whether calls wait that find all threads busy.
    queues: bool,
    work: Duration,
    /// How long after its answer a thread is back in the pool.
    late: Duration,
    jobs: Mutex<Jobs>,
    comes: Condvar,
    n_answered: AtomicUsize,
    n_rejected: AtomicUsize,
    most_waiting: AtomicUsize,
}

#[derive(Default)]
struct Jobs {
    n_busy: usize,
    waiting: VecDeque<(Arc<ProviderConnection>, ReplyTo, Vec<u8>)>,
}

struct ProviderConnection {
    stream: TcpStream,
    machine: Mutex<ServerConnection>,
}

impl ProviderConnection {
    fn flush(&self, machine: &mut ServerConnection) {
        let output = machine.transmit().split();
        let _ = (&self.stream).write_all(&output);
    }
}

impl PoolProvider {
    pub fn start(threads: usize, work: Duration, queues: bool) -> Self {
        Self::start_with(threads, work, queues, Duration::ZERO)
    }

    /// One without a queue, whose threads are back in the pool so long after their answers, as
    /// those of Dubbo are.
    pub fn with_late_threads(threads: usize, work: Duration, late: Duration) -> Self {
        Self::start_with(threads, work, false, late)
    }

    fn start_with(threads: usize, work: Duration, queues: bool, late: Duration) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = listener.local_addr().unwrap();
        let pool = Arc::new(FakeThreadPool {
            threads,
            queues,
            work,
            late,
            jobs: Mutex::default(),
            comes: Condvar::new(),
            n_answered: AtomicUsize::new(0),
            n_rejected: AtomicUsize::new(0),
            most_waiting: AtomicUsize::new(0),
        });
        for _ in 0..threads {
            let pool = Arc::clone(&pool);
            std::thread::spawn(move || pool.work());
        }
        let accepting = Arc::clone(&pool);
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let pool = Arc::clone(&accepting);
                std::thread::spawn(move || pool.read(stream));
            }
        });
        Self { addr, pool }
    }

    pub fn n_answered(&self) -> usize {
        self.pool.n_answered.load(SeqCst)
    }

    pub fn n_rejected(&self) -> usize {
        self.pool.n_rejected.load(SeqCst)
    }

    /// The most calls that waited for a thread at a time.
    pub fn most_waiting(&self) -> usize {
        self.pool.most_waiting.load(SeqCst)
    }
}

impl FakeThreadPool {
    fn read(&self, stream: TcpStream) {
        let machine = Mutex::new(ServerConnection::new(ServerConfig::default(), Instant::now()));
        let connection = Arc::new(ProviderConnection { stream, machine });
        let (mut input, mut buffer) = (BytesMut::new(), vec![0; 64 * 1024]);
        loop {
            if !connection.machine.lock().unwrap().has_backlog() {
                let Ok(len @ 1..) = (&connection.stream).read(&mut buffer) else { return };
                input.extend_from_slice(&buffer[..len]);
            }
            let mut machine = connection.machine.lock().unwrap();
            if machine.handle_bytes(Instant::now(), &mut input).is_err() {
                return;
            }
            while let Some(event) = machine.poll_event() {
                let ServerEvent::Request { to, request, .. } = event else { continue };
                if !self.take(&connection, to, request.args().to_vec()) {
                    self.n_rejected.fetch_add(1, SeqCst);
                    let (now, status) = (Instant::now(), Status::ServerThreadpoolExhausted);
                    machine.reply_error(now, to, status, "Thread pool is EXHAUSTED!").unwrap();
                }
            }
            connection.flush(&mut machine);
        }
    }

    fn take(&self, connection: &Arc<ProviderConnection>, to: ReplyTo, value: Vec<u8>) -> bool {
        let mut jobs = self.jobs.lock().unwrap();
        let n_waiting = (jobs.n_busy + jobs.waiting.len() + 1).saturating_sub(self.threads);
        if 0 < n_waiting && !self.queues {
            return false;
        }
        self.most_waiting.fetch_max(n_waiting, SeqCst);
        jobs.waiting.push_back((Arc::clone(connection), to, value));
        self.comes.notify_one();
        true
    }

    fn work(&self) {
        loop {
            let mut jobs = self.jobs.lock().unwrap();
            let (connection, to, value) = loop {
                match jobs.waiting.pop_front() {
                    Some(job) => break job,
                    None => jobs = self.comes.wait(jobs).unwrap(),
                }
            };
            jobs.n_busy += 1;
            drop(jobs);
            std::thread::sleep(self.work);
            if self.late.is_zero() {
                // The thread is free before anybody can know that it is.
                self.jobs.lock().unwrap().n_busy -= 1;
            }
            self.n_answered.fetch_add(1, SeqCst);
            let mut machine = connection.machine.lock().unwrap();
            let _ = machine.reply(Instant::now(), to, ReplyKind::Value, &value, &[]);
            connection.flush(&mut machine);
            drop(machine);
            if !self.late.is_zero() {
                std::thread::sleep(self.late);
                self.jobs.lock().unwrap().n_busy -= 1;
            }
        }
    }
}
