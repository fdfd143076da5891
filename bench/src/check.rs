//! Whether answers are right. An empty 200, or a 200 with the hash of another text, is a failure
//! that no figure of wrk would show.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use crate::error::BenchError;
use crate::http::{Client, HttpResponse};
use crate::load::{Style, texts};

/// What the load does not have: everything that one of the encodings on the way must escape.
const HARD_TEXTS: [&str; 8] = [
    "",
    " ",
    "a b+c%41&d=e",
    "\"quoted\" and \\back\\slashed",
    "line\nbreak\r\n\ttab",
    "\u{e4}\u{f6}\u{fc}\u{df}",
    "\u{4f60}\u{597d}",
    "\u{1f600} beyond 16 bits",
];

/// A virtual machine that has just been started answers its first calls slowly.
const TIMEOUT_MS: u32 = 5000;

/// What is called how, to see whether it answers rightly.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Check<'a> {
    /// Its name in the error.
    pub(crate) program: &'a str,
    pub(crate) addr: SocketAddr,
    pub(crate) style: Style,
    pub(crate) n_calls: usize,
    pub(crate) n_connections: usize,
    /// Whether a refusal that says so is good enough, as it is from one who is overloaded.
    pub(crate) may_refuse: bool,
}

impl Check<'_> {
    /// Makes the calls, and ends at the first wrong answer.
    pub(crate) fn run(&self) -> Result<(), BenchError> {
        let mut wanted: Vec<String> = HARD_TEXTS.map(str::to_owned).into();
        wanted.extend(texts());
        let next = AtomicUsize::new(0);
        let problem = thread::scope(|scope| {
            let calls = |_| scope.spawn(|| self.calls(&wanted, &next));
            let threads: Vec<_> = (0..self.n_connections).map(calls).collect();
            threads.into_iter().find_map(|thread| {
                thread.join().unwrap_or_else(|_| Err("the check panicked".to_owned())).err()
            })
        });
        let program = self.program.to_owned();
        problem.map_or(Ok(()), |problem| Err(BenchError::WrongAnswer { program, problem }))
    }

    /// One connection's part of the calls.
    fn calls(&self, wanted: &[String], next: &AtomicUsize) -> Result<(), String> {
        let mut client = Client::connect(self.addr).map_err(|error| error.to_string())?;
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            if self.n_calls <= index {
                return Ok(());
            }
            match call(&mut client, self.style, &wanted[index % wanted.len()]) {
                Ok(()) => {}
                Err(Problem::Refused { .. }) if self.may_refuse => {}
                Err(problem) => {
                    next.fetch_max(self.n_calls, Ordering::Relaxed);
                    return Err(format!("call {index}: {problem}"));
                }
            }
        }
    }
}

/// Why an answer is not the hash.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Problem {
    #[error("no answer: {0}")]
    NoAnswer(#[from] io::Error),
    #[error("refused: status {status}, body {body:?}")]
    Refused { status: u16, body: String },
    #[error("status {status}, body {body:?} where {wanted} belongs")]
    Wrong { status: u16, body: String, wanted: i32 },
}

/// Makes one call of `hash(text)`.
pub(crate) fn call(client: &mut Client, style: Style, text: &str) -> Result<(), Problem> {
    let (path, content_type) = (style.path(), style.content_type());
    let head = format!(
        "POST {path} HTTP/1.1\r\ncontent-type: {content_type}\r\nx-dubbo-timeout-ms: {TIMEOUT_MS}"
    );
    let HttpResponse { status, body } = client.request(&head, &style.body(text))?;
    let wanted = java_hash(text);
    match status {
        200 if body == wanted.to_string() => Ok(()),
        400.. if !body.is_empty() => Err(Problem::Refused { status, body }),
        _ => Err(Problem::Wrong { status, body, wanted }),
    }
}

/// `String.hashCode()` of Java.
#[must_use]
pub fn java_hash(text: &str) -> i32 {
    text.encode_utf16().fold(0, |hash: i32, unit| hash.wrapping_mul(31).wrapping_add(unit.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_as_java_does() {
        assert_eq!(java_hash(""), 0);
        assert_eq!(java_hash("hello"), 99_162_322);
        // The JDK's own example of a hash below zero.
        assert_eq!(java_hash("polygenelubricants"), i32::MIN);
    }
}
