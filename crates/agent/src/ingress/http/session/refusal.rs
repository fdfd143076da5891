//! Requests that are refused before they are any: those whose head hyper cannot read, and those
//! that never come whole. The journal is told of them, with what is known.

use std::time::Instant;

use super::{FramePace, HttpSession, LAST_READ, prepared_answers};
use crate::error::{CallError, Code};
use crate::ingress::http::note_path;
use crate::ingress::http::prepared_answers::PreparedAnswer;
use crate::worker::Worker;

const REFUSED_STREAM: &str = "a request of HTTP/2 was refused: its head is broken or over the \
     limit (max_head_bytes), or too many requests of the connection are in flight";

/// What was refused, of which at most one is the last of its connection.
#[derive(Debug)]
pub(super) struct RefusedHead {
    answer: &'static PreparedAnswer,
    path: Option<Box<str>>,
    came: Instant,
}

impl HttpSession {
    /// The request whose head is arriving is answered like this, and the connection ends.
    #[cold]
    pub(super) fn refuse(&self, answer: &'static PreparedAnswer) {
        let path = LAST_READ.with_borrow(|last| {
            // If all of the head has come in one read, it begins there.
            let head = last.bytes_of(self).filter(|head| head.len() == self.head_len.get())?;
            path_of(head).map(Into::into)
        });
        // Who is slow, or one of too many, is not waited for.
        if !matches!(answer.code, Code::RequestTimeout | Code::Overloaded) {
            self.expects_rest();
        }
        self.refusal.set(Some(Box::new(RefusedHead { answer, path, came: self.since.get() })));
    }

    /// Tells the journal of requests of HTTP/2 that h2 has refused: nothing else is known of them.
    /// To be called when h2 has looked at all that was read.
    pub(super) fn tell_refused_streams(&self, worker: &Worker) {
        if self.taking.is_blocked() {
            // h2 does not look at more before it has written what it has to.
            return;
        }
        for _ in 0..self.pace(FramePace::take_refused_heads) {
            let Some(entry) = worker.journal.begin("http", Some(self.peer()), Instant::now())
            else {
                continue;
            };
            entry.failed(&CallError::new(Code::BadRequest, REFUSED_STREAM), None);
        }
    }

    /// Tells the journal of the request that was refused, if one was. `error` is what hyper says.
    pub(super) fn tell_refusal(&self, worker: &Worker, error: Option<&hyper::Error>) {
        let parse_error = error.filter(|error| error.is_parse());
        let refusal = self.refusal.take().map(|refusal| *refusal).or_else(|| {
            // Behind another request in the same read, it was answered by hyper itself.
            let answer = match parse_error?.is_parse_too_large() {
                true => &prepared_answers::HEAD_TOO_LARGE,
                false => &prepared_answers::BAD_REQUEST,
            };
            Some(RefusedHead { answer, path: None, came: self.since.get() })
        });
        let Some(RefusedHead { answer, path, came }) = refusal else { return };
        let Some(mut entry) = worker.journal.begin("http", Some(self.peer()), came) else { return };
        if let Some(path) = path.filter(|_| entry.is_told()) {
            note_path(&mut entry, &path, 0, |_| None);
        }
        let message = match parse_error {
            Some(error) => format!("{}: {error}", answer.message),
            None => answer.message.to_owned(),
        };
        entry.failed(&CallError::new(answer.code, message), None);
    }
}

/// The path that a head asks for, if it begins with a request's line.
fn path_of(head: &[u8]) -> Option<&str> {
    let line = head.split(|byte| *byte == b'\r' || *byte == b'\n').next()?;
    let mut parts = line.split(|byte| *byte == b' ');
    let (_method, target, version) = (parts.next()?, parts.next()?, parts.next()?);
    if parts.next().is_some() || !version.starts_with(b"HTTP/") || !target.starts_with(b"/") {
        return None;
    }
    let path = target.split(|byte| *byte == b'?').next()?;
    std::str::from_utf8(path).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_known_where_the_line_is_one() {
        for (head, path) in [
            ("POST /a.B/c HTTP/1.1\r\nhost: x\r\n", Some("/a.B/c")),
            ("G\u{1}T /a?b=/c HTTP/3.7\n", Some("/a")),
            ("POST /a", None),
            ("POST /a b HTTP/1.1\r\n", None),
            ("POST a HTTP/1.1\r\n", None),
            ("\r\nPOST / HTTP/1.1\r\n", None),
            ("", None),
        ] {
            assert_eq!(path_of(head.as_bytes()), path, "{head:?}");
        }
        assert_eq!(path_of(b"POST /\xff HTTP/1.1\r\n"), None);
    }
}
