//! Records what Java peers say to each other, one file per Dubbo frame.
//!
//! `cargo run -p interop-harness --example capture -- crates/dubbo-proto/vectors [PREFIX]` starts
//! a provider and a consumer for each version and serialization, relays their connection, and
//! writes `{java26|java27|java32|java33}_{serialization}_{call}_{request|response}.bin` and the
//! events. The relay cuts the bytes into frames by the length in their headers and changes
//! nothing.

use std::collections::HashMap;
use std::error::Error;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use interop_harness::{
    ConsumerOptions, DubboVersion, HarnessError, JavaConsumer, JavaProvider, ProviderOptions,
    wait_until,
};

const HEADER_LEN: usize = 16;
const FLAG_REQUEST: u8 = 0x80;
const FLAG_EVENT: u8 = 0x20;
const TIMEOUT: Duration = Duration::from_secs(60);

/// Dubbo version, the file names' prefix, and serialization of each recording.
const RECORDINGS: [(DubboVersion, &str, &str); 9] = [
    (DubboVersion::V2_6, "java26", "hessian2"),
    (DubboVersion::V2_6, "java26", "fastjson"),
    (DubboVersion::V2_7, "java27", "hessian2"),
    (DubboVersion::V2_7, "java27", "fastjson"),
    (DubboVersion::V3_2, "java32", "hessian2"),
    (DubboVersion::V3_2, "java32", "fastjson2"),
    (DubboVersion::V3_3, "java33", "hessian2"),
    (DubboVersion::V3_3, "java33", "fastjson"),
    (DubboVersion::V3_3, "java33", "fastjson2"),
];

fn main() -> Result<(), Box<dyn Error>> {
    let dir = std::env::args().nth(1).ok_or("usage: capture FOLDER [PREFIX]")?;
    let dir = PathBuf::from(dir);
    std::fs::create_dir_all(&dir)?;
    let only = std::env::args().nth(2);
    for (version, prefix, serialization) in RECORDINGS {
        let prefix = format!("{prefix}_{serialization}");
        if only.as_ref().is_some_and(|only| !prefix.starts_with(only.as_str())) {
            continue;
        }
        let n_calls = write_frames(&record_calls(version, serialization)?, &dir, &prefix)?;
        let n_refusals = write_frames(&record_exhaustion(version, serialization)?, &dir, &prefix)?;
        println!("{prefix}: {} files", n_calls + n_refusals);
    }
    Ok(())
}

/// Lets a consumer make every call, idle, and see the provider leave.
fn record_calls(version: DubboVersion, serialization: &str) -> Result<Recording, Box<dyn Error>> {
    // Requests are named after the calls in their order: this one fails before it is sent.
    let is_fastjson = serialization == "fastjson";
    let unsent = if is_fastjson { vec!["generic_bean_person".to_owned()] } else { Vec::new() };
    let mut provider = start_provider(version, serialization, 200)?;
    let relay = Relay::start(provider.addr())?;
    let mut consumer = JavaConsumer::start(
        version,
        &ConsumerOptions {
            serialization: serialization.to_owned(),
            calls: vec!["recordable".to_owned()],
            except: unsent,
            heartbeat: Duration::from_secs(1),
            linger: TIMEOUT,
            ..ConsumerOptions::new(&relay.url())
        },
    )?;
    consumer.wait_done(TIMEOUT)?;
    wait_until("a heartbeat's reply", TIMEOUT, || {
        relay.frames().iter().any(|frame| frame.is_event() && !frame.is_request())
    });
    provider.begin_graceful_stop();
    wait_until("the readonly event", TIMEOUT, || {
        relay.frames().iter().any(|frame| frame.event() == Some("readonly"))
    });
    Ok(Recording { frames: relay.take_frames(), stdout: consumer.stdout() })
}

/// Lets a consumer call a provider whose only thread is busy.
fn record_exhaustion(
    version: DubboVersion,
    serialization: &str,
) -> Result<Recording, Box<dyn Error>> {
    let provider = start_provider(version, serialization, 1)?;
    let relay = Relay::start(provider.addr())?;
    let consumer = JavaConsumer::start(
        version,
        &ConsumerOptions {
            serialization: serialization.to_owned(),
            calls: vec!["occupy".to_owned(), "exhausted".to_owned()],
            ..ConsumerOptions::new(&relay.url())
        },
    )?;
    let stdout = consumer.finish(TIMEOUT)?;
    Ok(Recording { frames: relay.take_frames(), stdout })
}

fn start_provider(
    version: DubboVersion,
    serialization: &str,
    threads: u32,
) -> Result<JavaProvider, HarnessError> {
    let options = ProviderOptions {
        serialization: serialization.to_owned(),
        threads,
        hash_sleep: Duration::ZERO,
        ..ProviderOptions::default()
    };
    JavaProvider::start(version, options)
}

/// What went over the wire, and the consumer's own account of it.
struct Recording {
    frames: Vec<Frame>,
    stdout: String,
}

/// The name of the call that a line of the consumer's output tells about.
fn call_name(line: &str) -> Option<&str> {
    let (name, rest) = line.split_once(' ')?;
    (rest.starts_with("= ") || rest.starts_with("FAILED: ")).then_some(name)
}

/// One frame, as it was seen.
struct Frame {
    is_from_consumer: bool,
    bytes: Vec<u8>,
}

impl Frame {
    fn is_request(&self) -> bool {
        self.bytes[2] & FLAG_REQUEST != 0
    }

    fn is_event(&self) -> bool {
        self.bytes[2] & FLAG_EVENT != 0
    }

    /// The request's id, which its response repeats.
    fn id(&self) -> &[u8] {
        &self.bytes[4..12]
    }

    /// What an event says: its body is the serialization's null, or "R".
    fn event(&self) -> Option<&'static str> {
        let is_readonly = self.bytes[HEADER_LEN..].contains(&b'R');
        self.is_event().then_some(if is_readonly { "readonly" } else { "heartbeat" })
    }
}

/// Names the n-th request after the n-th call, and each response after its request.
fn write_frames(recording: &Recording, dir: &Path, prefix: &str) -> Result<usize, Box<dyn Error>> {
    let mut call_names = recording.stdout.lines().filter_map(call_name);
    let mut name_by_id = HashMap::new();
    let mut files = HashMap::new();
    for frame in &recording.frames {
        let name = match frame.event() {
            Some(event) => {
                let side = if frame.is_from_consumer { "consumer" } else { "provider" };
                format!("{event}_of_{side}")
            }
            None if frame.is_request() => {
                let name = call_names.next().ok_or("more requests than calls")?;
                name_by_id.insert(frame.id().to_vec(), name);
                name.to_owned()
            }
            None => {
                let name = name_by_id.get(frame.id()).ok_or("a response without a request")?;
                (*name).to_owned()
            }
        };
        let kind = if frame.is_request() { "request" } else { "response" };
        // The first one of each kind of event is enough.
        files.entry(format!("{prefix}_{name}_{kind}.bin")).or_insert(&frame.bytes);
    }
    for (name, bytes) in &files {
        std::fs::write(dir.join(name), bytes)?;
    }
    Ok(files.len())
}

/// A TCP relay that keeps a copy of every frame.
struct Relay {
    addr: SocketAddr,
    tape: Tape,
}

type Tape = Arc<Mutex<Vec<Frame>>>;

impl Relay {
    /// Relays every connection to `provider`.
    fn start(provider: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let addr = listener.local_addr()?;
        let tape = Tape::default();
        let relay = Self { addr, tape: Arc::clone(&tape) };
        thread::spawn(move || {
            while let Ok((consumer, _)) = listener.accept() {
                let Ok(provider) = TcpStream::connect(provider) else { continue };
                let Ok(ways) = both_ways(&consumer, &provider) else { continue };
                for (from, to, is_from_consumer) in ways {
                    let tape = Arc::clone(&tape);
                    thread::spawn(move || {
                        let _ = relay_frames(&from, &to, is_from_consumer, &tape);
                        let _ = to.shutdown(Shutdown::Both);
                    });
                }
            }
        });
        Ok(relay)
    }

    fn url(&self) -> String {
        format!("dubbo://{}", self.addr)
    }

    fn frames(&self) -> MutexGuard<'_, Vec<Frame>> {
        lock(&self.tape)
    }

    fn take_frames(&self) -> Vec<Frame> {
        std::mem::take(&mut *self.frames())
    }
}

fn both_ways(
    consumer: &TcpStream,
    provider: &TcpStream,
) -> io::Result<[(TcpStream, TcpStream, bool); 2]> {
    Ok([
        (consumer.try_clone()?, provider.try_clone()?, true),
        (provider.try_clone()?, consumer.try_clone()?, false),
    ])
}

fn relay_frames(
    mut from: &TcpStream,
    mut to: &TcpStream,
    is_from_consumer: bool,
    tape: &Mutex<Vec<Frame>>,
) -> io::Result<()> {
    loop {
        let mut bytes = vec![0; HEADER_LEN];
        from.read_exact(&mut bytes)?;
        let body_len = u32::from_be_bytes([bytes[12], bytes[13], bytes[14], bytes[15]]);
        from.take(u64::from(body_len)).read_to_end(&mut bytes)?;
        // First the tape: the answer must not be on it before the request.
        lock(tape).push(Frame { is_from_consumer, bytes: bytes.clone() });
        to.write_all(&bytes)?;
    }
}

fn lock(tape: &Mutex<Vec<Frame>>) -> MutexGuard<'_, Vec<Frame>> {
    tape.lock().unwrap_or_else(PoisonError::into_inner)
}
