//! A client that blocks, for what tests write into ZooKeeper and look for in it.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use bytes::BytesMut;
use zookeeper_proto::{
    Acl, Answer, Connection, Event, Identity, Refusal, Request, Session, Settings, Stat, Watcher,
};

use crate::error::HarnessError;

/// Longer than any test needs its nodes without talking to the server.
const SESSION_TIMEOUT: Duration = Duration::from_secs(60);
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);

/// A session in ZooKeeper. Its nodes go when it is dropped.
#[derive(Debug)]
pub struct ZooKeeperClient {
    stream: TcpStream,
    connection: Connection<(), Watched>,
    session: Option<Session>,
    input: BytesMut,
    acl: Acl,
    /// A watch has fired since this was looked at last.
    has_fired: bool,
}

#[derive(Debug)]
struct Watched;

impl Watcher for Watched {
    fn is_wanted(&self) -> bool {
        true
    }
}

type Outcome = Result<Answer, Refusal>;

impl ZooKeeperClient {
    pub(super) fn connect(addr: SocketAddr, user: Option<String>) -> Result<Self, HarnessError> {
        let acl = if user.is_some() { Acl::Creator } else { Acl::Open };
        let secret = user.map(String::into_bytes);
        let identity = secret.map(|secret| Identity { scheme: "digest".to_owned(), secret });
        let settings = Settings {
            session: None,
            session_timeout: SESSION_TIMEOUT,
            last_zxid: 0,
            identities: identity.into_iter().collect(),
            max_frame_len: 256 << 20,
            answer_timeout: ANSWER_TIMEOUT,
        };
        let stream = TcpStream::connect(addr).and_then(|stream| {
            stream.set_nodelay(true)?;
            stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
            Ok(stream)
        });
        let stream = stream.map_err(|error| failed(&error))?;
        let connection = Connection::new(settings, Instant::now());
        let (session, input, has_fired) = (None, BytesMut::new(), false);
        let mut client = Self { stream, connection, session, input, acl, has_fired };
        while client.session.is_none() {
            client.turn(&mut Vec::new())?;
        }
        Ok(client)
    }

    /// The number of the session.
    #[must_use]
    pub fn session_id(&self) -> i64 {
        self.session.map_or(0, |session| session.id)
    }

    /// Makes a node, and those above it.
    ///
    /// # Errors
    /// When the server does not answer, or refuses.
    pub fn create(&mut self, path: &str, data: &[u8]) -> Result<(), HarnessError> {
        for (at, _) in path.match_indices('/').skip(1) {
            self.make(&[&path[..at]], b"", false, true)?;
        }
        self.make(&[path], data, false, false)
    }

    /// Makes nodes in an existing folder, all with one turn to the server. They go with this
    /// client if they are ephemeral.
    ///
    /// # Errors
    /// When the server does not answer, or refuses.
    pub fn create_all(&mut self, paths: &[&str], is_ephemeral: bool) -> Result<(), HarnessError> {
        self.make(paths, b"", is_ephemeral, false)
    }

    fn make(
        &mut self,
        paths: &[&str],
        data: &[u8],
        is_ephemeral: bool,
        may_exist: bool,
    ) -> Result<(), HarnessError> {
        let (acl, data) = (self.acl, data.to_vec());
        let requests = paths.iter().map(|path| Request::Create {
            path: (*path).to_owned(),
            data: data.clone(),
            acl,
            is_ephemeral,
        });
        for outcome in self.ask_all(requests.collect())? {
            match outcome {
                Err(Refusal::NodeExists) if may_exist => {}
                outcome => {
                    outcome.map_err(|refusal| failed(&refusal))?;
                }
            }
        }
        Ok(())
    }

    /// Deletes a node.
    ///
    /// # Errors
    /// When the server does not answer, or refuses.
    pub fn delete(&mut self, path: &str) -> Result<(), HarnessError> {
        let request = Request::Delete { path: path.to_owned(), version: -1 };
        self.ask(request)?.map(|_| ()).map_err(|refusal| failed(&refusal))
    }

    /// Writes other data into a node, by deleting it and making it again.
    ///
    /// # Errors
    /// When the server does not answer, or refuses.
    pub fn set(&mut self, path: &str, data: &[u8]) -> Result<(), HarnessError> {
        self.delete(path)?;
        self.make(&[path], data, false, false)
    }

    /// The names in a folder, in order. One that does not exist is empty.
    ///
    /// # Errors
    /// When the server does not answer, or refuses.
    pub fn children(&mut self, path: &str) -> Result<Vec<String>, HarnessError> {
        match self.ask(Request::Children { path: path.to_owned(), watcher: None })? {
            Ok(Answer::Children { mut names, .. }) => {
                names.sort_unstable();
                Ok(names)
            }
            Ok(_) | Err(Refusal::NoNode) => Ok(Vec::new()),
            Err(refusal) => Err(failed(&refusal)),
        }
    }

    /// Waits until there is a node of this name in a folder that exists, as a client does that
    /// follows the folder: it is read again whenever its watch fires.
    ///
    /// # Errors
    /// When the server does not answer, refuses, or has no news for long.
    pub fn wait_for_child(&mut self, folder: &str, name: &str) -> Result<(), HarnessError> {
        loop {
            self.has_fired = false;
            let request = Request::Children { path: folder.to_owned(), watcher: Some(Watched) };
            match self.ask(request)? {
                Ok(Answer::Children { names, .. }) if names.iter().any(|it| it == name) => {
                    return Ok(());
                }
                Ok(_) => {}
                Err(refusal) => return Err(failed(&refusal)),
            }
            while !self.has_fired {
                self.turn(&mut Vec::new())?;
            }
        }
    }

    /// What is known of a node, if it exists.
    ///
    /// # Errors
    /// When the server does not answer, or refuses.
    pub fn stat(&mut self, path: &str) -> Result<Option<Stat>, HarnessError> {
        match self.ask(Request::Exists { path: path.to_owned(), watcher: None })? {
            Ok(Answer::Stat(stat)) => Ok(Some(stat)),
            Ok(_) | Err(Refusal::NoNode) => Ok(None),
            Err(refusal) => Err(failed(&refusal)),
        }
    }

    fn ask(&mut self, request: Request<Watched>) -> Result<Outcome, HarnessError> {
        let outcome = self.ask_all(vec![request])?.pop();
        outcome.ok_or_else(|| failed(&"no answer"))
    }

    fn ask_all(&mut self, requests: Vec<Request<Watched>>) -> Result<Vec<Outcome>, HarnessError> {
        let n_requests = requests.len();
        for request in requests {
            self.connection.send(request, (), Instant::now());
        }
        let mut outcomes = Vec::with_capacity(n_requests);
        while outcomes.len() < n_requests {
            self.turn(&mut outcomes)?;
        }
        Ok(outcomes)
    }

    /// Writes what waits, and reads what comes next.
    fn turn(&mut self, outcomes: &mut Vec<Outcome>) -> Result<(), HarnessError> {
        let out = self.connection.transmit().split();
        self.stream.write_all(&out).map_err(|error| failed(&error))?;
        let mut chunk = vec![0; 64 << 10];
        let len = self.stream.read(&mut chunk).map_err(|error| failed(&error))?;
        if len == 0 {
            return Err(failed(&"the connection was closed"));
        }
        self.input.extend_from_slice(&chunk[..len]);
        let taken = self.connection.handle_bytes(Instant::now(), &mut self.input);
        taken.map_err(|error| failed(&error))?;
        while let Some(event) = self.connection.poll_event() {
            match event {
                Event::Ready { session } => self.session = Some(session),
                Event::Answered { outcome, .. } => outcomes.push(outcome),
                Event::Fired(_) => self.has_fired = true,
                Event::Expired => {}
            }
        }
        Ok(())
    }
}

impl Drop for ZooKeeperClient {
    fn drop(&mut self) {
        // A server that is killed or stands still is not waited for.
        let _ = self.stream.set_read_timeout(Some(Duration::from_secs(2)));
        let _ = self.ask(Request::Close);
    }
}

fn failed(error: &dyn std::fmt::Display) -> HarnessError {
    HarnessError::ZooKeeper { error: error.to_string() }
}
