//! An HTTP app on threads, whose every byte the test decides.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// A request as it came.
#[derive(Clone, Debug, Default)]
pub struct AppRequest {
    pub method: String,
    pub path: String,
    /// Names in lower case.
    pub headers: Vec<(String, String)>,
    pub body: String,
}

impl AppRequest {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

/// What the app does with a request.
pub enum Does {
    /// Answers with a status, header lines and a body.
    Answer(u16, Vec<String>, String),
    /// Writes these bytes, and goes on.
    Bytes(Vec<u8>),
    /// Writes these bytes and closes the connection.
    Close(Vec<u8>),
    /// Answers, and closes the connection without having said so.
    AnswerAndClose(String),
    /// Never answers.
    Hang,
}

impl Does {
    pub fn json(body: impl Into<String>) -> Self {
        Self::Answer(200, vec!["content-type: application/json".into()], body.into())
    }

    pub fn status(status: u16, body: &str) -> Self {
        Self::Answer(status, vec!["content-type: application/json".into()], body.into())
    }
}

type Handler = dyn Fn(&AppRequest) -> Does + Send + Sync;

pub struct TestApp {
    pub addr: SocketAddr,
    pub requests: Arc<Mutex<Vec<AppRequest>>>,
    pub n_connections: Arc<AtomicUsize>,
    /// Connections that the other side has closed.
    pub n_closed: Arc<AtomicUsize>,
    connections: Arc<Mutex<Vec<TcpStream>>>,
    stopped: Arc<AtomicBool>,
}

impl TestApp {
    pub fn start(handler: impl Fn(&AppRequest) -> Does + Send + Sync + 'static) -> Self {
        Self::start_at("127.0.0.1:0".parse().unwrap(), handler)
    }

    pub fn start_at(
        addr: SocketAddr,
        handler: impl Fn(&AppRequest) -> Does + Send + Sync + 'static,
    ) -> Self {
        let listener = link::socket::listen(addr).unwrap();
        listener.set_nonblocking(false).unwrap();
        let app = Self {
            addr: listener.local_addr().unwrap(),
            requests: Arc::default(),
            n_connections: Arc::default(),
            n_closed: Arc::default(),
            connections: Arc::default(),
            stopped: Arc::default(),
        };
        let handler: Arc<Handler> = Arc::new(handler);
        let (requests, connections) = (Arc::clone(&app.requests), Arc::clone(&app.connections));
        let (n_connections, n_closed) = (Arc::clone(&app.n_connections), Arc::clone(&app.n_closed));
        let stopped = Arc::clone(&app.stopped);
        std::thread::spawn(move || {
            while let Ok((stream, _)) = listener.accept() {
                if stopped.load(Ordering::SeqCst) {
                    return;
                }
                n_connections.fetch_add(1, Ordering::SeqCst);
                connections.lock().unwrap().push(stream.try_clone().unwrap());
                let (handler, requests) = (Arc::clone(&handler), Arc::clone(&requests));
                let n_closed = Arc::clone(&n_closed);
                std::thread::spawn(move || {
                    let _ = serve(&stream, &*handler, &requests);
                    n_closed.fetch_add(1, Ordering::SeqCst);
                    let _ = stream.shutdown(Shutdown::Both);
                });
            }
        });
        app
    }

    /// The requests that were no health checks.
    pub fn requests(&self) -> Vec<AppRequest> {
        self.requests.lock().unwrap().clone()
    }

    pub fn last(&self) -> AppRequest {
        self.requests().pop().expect("a request")
    }

    pub fn kill(&self) {
        if !self.stopped.swap(true, Ordering::SeqCst) {
            let _ = TcpStream::connect(self.addr);
            for stream in self.connections.lock().unwrap().drain(..) {
                let _ = stream.shutdown(Shutdown::Both);
            }
        }
    }
}

impl Drop for TestApp {
    fn drop(&mut self) {
        self.kill();
    }
}

fn serve(
    stream: &TcpStream,
    handler: &Handler,
    requests: &Mutex<Vec<AppRequest>>,
) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream);
    let mut writer = stream;
    while let Some(request) = read(&mut reader)? {
        let does = handler(&request);
        requests.lock().unwrap().push(request);
        match does {
            Does::Answer(status, headers, body) => {
                let headers: String = headers.iter().map(|line| format!("{line}\r\n")).collect();
                let len = body.len();
                let head = format!("HTTP/1.1 {status} X\r\n{headers}content-length: {len}\r\n\r\n");
                writer.write_all(&[head.as_bytes(), body.as_bytes()].concat())?;
            }
            Does::Bytes(bytes) => writer.write_all(&bytes)?,
            Does::Close(bytes) => return writer.write_all(&bytes),
            Does::AnswerAndClose(body) => {
                let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", body.len());
                return writer.write_all(&[head.as_bytes(), body.as_bytes()].concat());
            }
            Does::Hang => {}
        }
    }
    Ok(())
}

fn read(reader: &mut BufReader<&TcpStream>) -> std::io::Result<Option<AppRequest>> {
    let mut line = String::new();
    if reader.read_line(&mut line)? == 0 {
        return Ok(None);
    }
    let mut words = line.split_whitespace().map(str::to_owned);
    let mut request = AppRequest {
        method: words.next().unwrap_or_default(),
        path: words.next().unwrap_or_default(),
        ..AppRequest::default()
    };
    loop {
        line.clear();
        reader.read_line(&mut line)?;
        let Some((name, value)) = line.trim_end().split_once(':') else { break };
        request.headers.push((name.to_lowercase(), value.trim().to_owned()));
    }
    let len = request.header("content-length").map_or(0, |len| len.parse().unwrap());
    let mut body = vec![0; len];
    reader.read_exact(&mut body)?;
    request.body = String::from_utf8(body).unwrap();
    Ok(Some(request))
}
