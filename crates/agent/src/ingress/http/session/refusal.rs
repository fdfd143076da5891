//! Requests that are refused before they are any: those whose head hyper cannot read, and those
//! that never come whole. The journal is told of them, with what is known.

use std::time::{Duration, Instant};

use super::{FramePace, HttpSession, LAST_READ, prepared_answers};
use crate::error::{CallError, Code};
use crate::ingress::http::prepared_answers::PreparedAnswer;
use crate::ingress::http::{HttpListener, SOURCE, note_path};
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
    /// What says more than hyper's `answer`, if what was read shows more. A head is at most so
    /// long.
    #[cold]
    pub(super) fn exact(
        &self,
        answer: &'static PreparedAnswer,
        max_head_len: usize,
    ) -> &'static PreparedAnswer {
        let found = LAST_READ.with_borrow(|last| {
            let head = last.bytes_of(self).filter(|head| head.len() == self.head_len.get())?;
            fault_of(head)
        });
        // hyper has the same word for both limits. It gives up as soon as it has read as much as a
        // head may have.
        let is_short = self.head_len.get() < max_head_len;
        match std::ptr::eq(answer, &raw const prepared_answers::HEAD_TOO_LARGE) && is_short {
            true => &prepared_answers::TOO_MANY_FIELDS,
            false => found.filter(|found| found.code == answer.code).unwrap_or(answer),
        }
    }

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

    /// Counts requests of HTTP/2 that h2 has refused, and tells the journal: nothing else is known
    /// of them. To be called when h2 has looked at all that was read.
    pub(super) fn tell_refused_streams(&self, worker: &Worker, listener: &HttpListener) {
        if self.taking.is_blocked() {
            // h2 does not look at more before it has written what it has to.
            return;
        }
        for _ in 0..self.pace(FramePace::take_refused_heads) {
            count(worker, listener, Duration::ZERO, Code::BadRequest);
            let Some(entry) = worker.journal.begin(SOURCE, Some(self.peer()), Instant::now())
            else {
                continue;
            };
            entry.failed(&CallError::new(Code::BadRequest, REFUSED_STREAM), None);
        }
    }

    /// Counts the request that was refused, if one was, and tells the journal. `error` is what
    /// hyper says.
    pub(super) fn tell_refusal(
        &self,
        worker: &Worker,
        listener: &HttpListener,
        error: Option<&hyper::Error>,
    ) {
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
        count(worker, listener, came.elapsed(), answer.code);
        let Some(mut entry) = worker.journal.begin(SOURCE, Some(self.peer()), came) else { return };
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

/// Counts a request that was refused before it was one.
fn count(worker: &Worker, listener: &HttpListener, latency: Duration, code: Code) {
    let stats = &listener.stats[worker.index];
    stats.started();
    stats.finished(latency, Some(code as u8));
}

/// What is wrong with a head of HTTP/1, if it is one of what callers bring about.
fn fault_of(head: &[u8]) -> Option<&'static PreparedAnswer> {
    let mut lines =
        head.split(|byte| *byte == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line));
    let version = lines.next()?.trim_ascii().rsplit(|byte| *byte == b' ').next()?;
    if version != b"HTTP/1.1" && version != b"HTTP/1.0" {
        return is_version(version).then_some(&prepared_answers::UNKNOWN_VERSION);
    }
    let (mut length, mut is_good_length) = (None, true);
    let mut is_good_coding = None;
    for line in lines.take_while(|line| !line.is_empty()) {
        if line.starts_with(b" ") || line.starts_with(b"\t") {
            return Some(&prepared_answers::FOLDED_FIELD);
        }
        let Some(colon) = line.iter().position(|byte| *byte == b':') else { continue };
        let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
        if name.eq_ignore_ascii_case(b"content-length") {
            let is_number = !value.is_empty() && value.iter().all(u8::is_ascii_digit);
            is_good_length &= is_number && length.is_none_or(|before| before == value);
            length = Some(value);
        } else if name.eq_ignore_ascii_case(b"transfer-encoding") {
            let last = value.rsplit(|byte| *byte == b',').next().unwrap_or_default();
            is_good_coding = Some(last.trim_ascii().eq_ignore_ascii_case(b"chunked"));
        }
    }
    match is_good_coding {
        Some(_) if version == b"HTTP/1.0" => Some(&prepared_answers::CODING_WITHOUT_VERSION),
        Some(false) => Some(&prepared_answers::BAD_CODING),
        _ if !is_good_length => Some(&prepared_answers::BAD_LENGTH),
        _ => None,
    }
}

/// Whether a word is written as a version of HTTP is.
fn is_version(word: &[u8]) -> bool {
    let number = word.strip_prefix(b"HTTP/").unwrap_or_default();
    !number.is_empty() && number.iter().all(|byte| byte.is_ascii_digit() || *byte == b'.')
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
    fn what_is_wrong_with_a_head_is_told() {
        let fault = |head: &str| fault_of(head.as_bytes()).map(|answer| answer.message);
        let coding = "transfer-encoding: chunked\r\n\r\n";
        for (head, expected) in [
            (format!("POST /a HTTP/1.0\r\n{coding}"), &prepared_answers::CODING_WITHOUT_VERSION),
            ("POST /a HTTP/1.2\r\nhost: x\r\n\r\n".into(), &prepared_answers::UNKNOWN_VERSION),
            ("POST /a HTTP/3\r\n\r\n".into(), &prepared_answers::UNKNOWN_VERSION),
            ("POST /a HTTP/1.1\r\na: b\r\n\tc\r\n\r\n".into(), &prepared_answers::FOLDED_FIELD),
            ("POST /a HTTP/1.1\na: b\n  c: d\n\n".into(), &prepared_answers::FOLDED_FIELD),
        ] {
            assert_eq!(fault(&head), Some(expected.message), "{head:?}");
        }
        for head in [
            &*format!("POST /a HTTP/1.1\r\n{coding}"),
            "POST /a HTTP/1.1\r\na: b\r\n\r\n c",
            "nonsense\r\n\r\n",
            "POST /a HTTP/\r\n",
            "POST /a http/1.2\r\n",
            "",
        ] {
            assert_eq!(fault(head), None, "{head:?}");
        }
    }

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
