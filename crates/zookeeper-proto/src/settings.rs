//! What a connection begins with.

use std::time::Duration;

use crate::request::Identity;

/// Who is told of a change.
pub trait Watcher {
    /// Whether anybody still wants to know.
    fn is_wanted(&self) -> bool;
}

/// What a client keeps to be taken for the same by the next connection.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Session {
    /// Its number; 0 for none yet.
    pub id: i64,
    /// What proves that it is ours.
    pub password: [u8; 16],
    /// How long it outlives its last connection: what the server has granted.
    pub timeout: Duration,
}

/// What a connection begins with.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The session to resume; a new one is asked for if there is none.
    pub session: Option<Session>,
    /// How long a session should outlive its last connection. The server decides.
    pub session_timeout: Duration,
    /// The last change that this client has seen. A server that knows less refuses the connection.
    pub last_zxid: i64,
    /// Who the client is.
    pub identities: Vec<Identity>,
    /// The longest frame that is taken, in bytes; `jute.maxbuffer` in Java.
    pub max_frame_len: usize,
    /// How long the handshake may take, and each answer.
    pub answer_timeout: Duration,
}
