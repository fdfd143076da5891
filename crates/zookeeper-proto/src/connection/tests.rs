//! Both ends of a connection by hand; the server's bytes are those of `zookeeper.jute`.

#![allow(clippy::disallowed_methods, reason = "tests begin at some instant")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::*;
use crate::answer::{Answer, Stat};
use crate::jute::put_text;
use crate::request::{Acl, Identity};

#[derive(Clone, Debug)]
struct NamedWatcher(&'static str, Arc<AtomicBool>);

impl Watcher for NamedWatcher {
    fn is_wanted(&self) -> bool {
        self.1.load(Ordering::Relaxed)
    }
}

fn told(name: &'static str) -> NamedWatcher {
    NamedWatcher(name, Arc::new(AtomicBool::new(true)))
}

type Client = Connection<u32, NamedWatcher>;

const S: Duration = Duration::from_secs(1);

fn settings() -> Settings {
    Settings {
        session: None,
        session_timeout: 30 * S,
        last_zxid: 7,
        identities: Vec::new(),
        max_frame_len: 1000,
        answer_timeout: 5 * S,
    }
}

fn frame(write: impl FnOnce(&mut BytesMut)) -> BytesMut {
    let (mut out, mut record) = (BytesMut::new(), BytesMut::new());
    write(&mut record);
    put_buffer(&mut out, &record);
    out
}

fn connected(id: i64, timeout_ms: i32) -> BytesMut {
    frame(|out| {
        out.put_i32(0);
        out.put_i32(timeout_ms);
        out.put_i64(id);
        put_buffer(out, &[9; 16]);
        out.put_u8(0);
    })
}

fn answer(xid: i32, zxid: i64, code: i32, record: &[u8]) -> BytesMut {
    frame(|out| {
        out.put_i32(xid);
        out.put_i64(zxid);
        out.put_i32(code);
        out.put_slice(record);
    })
}

fn event(path: &str) -> BytesMut {
    let mut record = BytesMut::new();
    record.put_i32(4);
    record.put_i32(3);
    put_text(&mut record, path);
    answer(XID_EVENT, -1, 0, &record)
}

const STAT_LEN: usize = 68;

fn ready(settings: Settings, now: Instant) -> Client {
    let mut client = Client::new(settings, now);
    client.transmit().clear();
    client.handle_bytes(now, &mut connected(5, 6000)).unwrap();
    let password = [9; 16];
    let session = Session { id: 5, password, timeout: 6 * S };
    assert!(matches!(client.poll_event(), Some(Event::Ready { session: it }) if it == session));
    client
}

/// The operations that wait to be written, and nothing of them is left.
fn sent(client: &mut Client) -> Vec<(i32, i32)> {
    let out = client.transmit();
    let mut ops = Vec::new();
    while !out.is_empty() {
        let len = out.get_u32() as usize;
        let mut frame = out.split_to(len);
        ops.push((frame.get_i32(), frame.get_i32()));
    }
    ops
}

fn children(path: &str, watcher: Option<NamedWatcher>) -> Request<NamedWatcher> {
    Request::Children { path: path.to_owned(), watcher }
}

#[test]
fn asks_for_a_session_and_says_what_it_has_seen() {
    let now = Instant::now();
    let mut client = Client::new(settings(), now);
    let mut expected = vec![0, 0, 0, 45, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0x75, 0x30];
    expected.extend([0; 8]);
    expected.extend([0, 0, 0, 16]);
    expected.extend([0; 17]);
    assert_eq!(client.transmit()[..], expected);
    // Until there is one, nothing else is sent.
    client.transmit().clear();
    client.send(children("/a", None), 1, now);
    assert!(client.transmit().is_empty());
    assert_eq!(client.poll_timeout(), Some(now + 5 * S));
    client.handle_timeout(now + 5 * S);
    assert_eq!(client.broken(), Some(Broken::NoSession { after: 5 * S }));
}

#[test]
fn an_expired_session_is_told() {
    let now = Instant::now();
    let session = Session { id: 5, password: [9; 16], timeout: S };
    let mut client = Client::new(Settings { session: Some(session), ..settings() }, now);
    client.handle_bytes(now, &mut connected(0, 0)).unwrap();
    assert!(matches!(client.poll_event(), Some(Event::Expired)));
}

#[test]
fn authenticates_before_anything_else() {
    let now = Instant::now();
    let identity = Identity { scheme: "digest".into(), secret: b"u:p".to_vec() };
    let settings = Settings { identities: vec![identity], ..settings() };
    let begin = || {
        let mut client = Client::new(settings.clone(), now);
        client.transmit().clear();
        client.handle_bytes(now, &mut connected(5, 6000)).unwrap();
        assert_eq!(sent(&mut client), [(XID_AUTH, op::AUTH)]);
        assert!(client.poll_event().is_none(), "not yet");
        client
    };
    let mut client = begin();
    client.handle_bytes(now, &mut answer(XID_AUTH, 0, 0, &[])).unwrap();
    assert!(matches!(client.poll_event(), Some(Event::Ready { .. })));
    let refused = begin().handle_bytes(now, &mut answer(XID_AUTH, 0, -115, &[]));
    assert_eq!(refused, Err(Broken::AuthFailed));
}

#[test]
fn answers_go_to_who_asked_wherever_the_bytes_are_cut() {
    let now = Instant::now();
    let mut client = ready(settings(), now);
    client.send(children("/a", None), 10, now);
    let create = Request::Create {
        path: "/a/b".into(),
        data: b"x".to_vec(),
        acl: Acl::Open,
        is_ephemeral: true,
    };
    client.send(create, 11, now);
    assert_eq!(sent(&mut client), [(1, op::GET_CHILDREN), (2, op::CREATE)]);
    let mut record = BytesMut::new();
    record.put_i32(2);
    put_text(&mut record, "b");
    put_text(&mut record, "c");
    record.put_bytes(0, STAT_LEN);
    let mut bytes = answer(1, 8, 0, &record);
    bytes.extend_from_slice(&answer(2, 9, -110, &[]));
    let mut input = BytesMut::new();
    for byte in bytes {
        input.put_u8(byte);
        client.handle_bytes(now, &mut input).unwrap();
    }
    let names = vec!["b".to_owned(), "c".to_owned()];
    let expected = Ok(Answer::Children { names, stat: Stat::default() });
    assert!(
        matches!(client.poll_event(), Some(Event::Answered { to: 10, outcome }) if outcome == expected)
    );
    let exists = Err(Refusal::NodeExists);
    assert!(
        matches!(client.poll_event(), Some(Event::Answered { to: 11, outcome }) if outcome == exists)
    );
    assert_eq!(client.last_zxid(), 9);
    // One that was not asked for.
    let broken = client.handle_bytes(now, &mut answer(3, 9, 0, &[]));
    assert_eq!(broken, Err(Broken::OutOfOrder { found: 3, expected: None }));
}

#[test]
fn a_watch_fires_once_for_all_who_have_set_it() {
    let now = Instant::now();
    let mut client = ready(settings(), now);
    let mut list = BytesMut::new();
    list.put_i32(0);
    list.put_bytes(0, STAT_LEN);
    // A change before the answer is not theirs.
    client.send(children("/a", Some(told("one"))), 1, now);
    client.handle_bytes(now, &mut event("/a")).unwrap();
    assert!(client.poll_event().is_none());
    client.handle_bytes(now, &mut answer(1, 8, 0, &list)).unwrap();
    let exists = Request::Exists { path: "/a".into(), watcher: Some(told("two")) };
    client.send(exists, 2, now);
    client.handle_bytes(now, &mut answer(2, 8, -101, &[])).unwrap();
    // There is no watch on a list that does not exist.
    client.send(children("/a", Some(told("three"))), 3, now);
    client.handle_bytes(now, &mut answer(3, 8, -101, &[])).unwrap();
    while client.poll_event().is_some() {}
    client.handle_bytes(now, &mut event("/a")).unwrap();
    let mut fired = Vec::new();
    while let Some(Event::Fired(NamedWatcher(name, _))) = client.poll_event() {
        fired.push(name);
    }
    assert_eq!(fired, ["one", "two"]);
    client.handle_bytes(now, &mut event("/a")).unwrap();
    assert!(client.poll_event().is_none());
}

#[test]
fn a_watch_that_nobody_wants_is_taken_back() {
    let now = Instant::now();
    let mut client = ready(settings(), now);
    let mut list = BytesMut::new();
    list.put_i32(0);
    list.put_bytes(0, STAT_LEN);
    let (one, two) = (told("one"), told("two"));
    for (n, watcher) in [(1, one.clone()), (2, two.clone())] {
        client.send(children("/a", Some(watcher)), 1, now);
        client.handle_bytes(now, &mut answer(n, 8, 0, &list)).unwrap();
    }
    let _ = sent(&mut client);
    one.1.store(false, Ordering::Relaxed);
    client.handle_unwanted("/a", now);
    assert_eq!(sent(&mut client), [], "somebody else wants it");
    two.1.store(false, Ordering::Relaxed);
    // Nor while it is being set for another one.
    let three = told("three");
    client.send(children("/a", Some(three.clone())), 3, now);
    client.handle_unwanted("/a", now);
    assert_eq!(sent(&mut client), [(3, op::GET_CHILDREN)]);
    three.1.store(false, Ordering::Relaxed);
    client.handle_bytes(now, &mut answer(3, 8, 0, &list)).unwrap();
    assert_eq!(sent(&mut client), [(4, op::REMOVE_WATCHES)]);
    client.handle_bytes(now, &mut answer(4, 8, -121, &[])).unwrap();
    assert!(client.watches.is_empty() && client.pending.is_empty());
}

#[test]
fn pings_and_finds_out_that_nobody_answers() {
    let now = Instant::now();
    let mut client = ready(settings(), now);
    assert_eq!(client.poll_timeout(), Some(now + 2 * S), "a third of the session");
    client.handle_timeout(now + 2 * S);
    assert_eq!(sent(&mut client), [(XID_PING, op::PING)]);
    client.handle_bytes(now + 3 * S, &mut answer(XID_PING, 9, 0, &[])).unwrap();
    client.handle_timeout(now + 5 * S);
    assert_eq!(client.broken(), None);
    client.handle_timeout(now + 7 * S);
    assert_eq!(client.broken(), Some(Broken::Silent { after: 4 * S }));
    assert_eq!(client.poll_timeout(), None);
}

#[test]
fn answers_to_pings_do_not_excuse_a_request_without_one() {
    let now = Instant::now();
    let mut client = ready(settings(), now);
    client.send(children("/a", None), 1, now);
    for s in 1..6 {
        client.handle_bytes(now + s * S, &mut answer(XID_PING, 9, 0, &[])).unwrap();
        client.handle_timeout(now + s * S);
    }
    assert_eq!(client.broken(), Some(Broken::Silent { after: 5 * S }));
    // But a long answer that is coming does.
    let mut client = ready(settings(), now);
    client.send(children("/a", None), 1, now);
    let mut input = BytesMut::from(&[0, 0, 1, 0][..]);
    for s in 1..20 {
        input.put_u8(0);
        client.handle_bytes(now + s * S, &mut input).unwrap();
        client.handle_timeout(now + s * S);
    }
    assert_eq!(client.broken(), None);
}

#[test]
fn a_frame_over_the_limit_is_refused_by_its_length() {
    let now = Instant::now();
    for len in [1001, u32::MAX, 0x4854_5450] {
        let mut client = ready(settings(), now);
        let refused = client.handle_bytes(now, &mut BytesMut::from(&len.to_be_bytes()[..]));
        assert_eq!(refused, Err(Broken::FrameTooLong { len, max_len: 1000 }));
    }
}

/// One folder with long names must not take the connection from everybody else.
#[test]
fn an_answer_over_the_limit_is_left_out_and_the_next_one_read() {
    let now = Instant::now();
    for cut in [1, 3, 19, 20, 21, 500, 3000] {
        let mut client = ready(settings(), now);
        let watcher = told("a");
        client.send(children("/a", Some(watcher.clone())), 1, now);
        client.send(Request::Exists { path: "/b".into(), watcher: None }, 2, now);
        let mut all = answer(1, 70, 0, &[1; 1985]);
        all.unsplit(answer(2, 71, -101, &[]));
        all.unsplit(event("/a"));
        let mut input = BytesMut::new();
        for piece in all.chunks(cut) {
            input.extend_from_slice(piece);
            client.handle_bytes(now, &mut input).unwrap();
            assert!(input.len() < 1000, "it is not kept");
        }
        let too_long = Refusal::TooLong { len: 2001, max_len: 1000 };
        for (n, refusal) in [(1, too_long), (2, Refusal::NoNode)] {
            let event = client.poll_event();
            let is_it = matches!(event, Some(Event::Answered { to, outcome: Err(it) })
                if to == n && it == refusal);
            assert!(is_it, "{cut}: {event:?}");
        }
        assert!(matches!(client.poll_event(), Some(Event::Fired(NamedWatcher("a", _)))), "{cut}");
        assert_eq!((client.last_zxid(), client.broken()), (71, None));
    }
    // What answers no question of ours is still refused.
    for (len, xid) in [(2001_u32, 2_i32), (u32::MAX, 1)] {
        let mut client = ready(settings(), now);
        client.send(children("/a", None), 1, now);
        let mut input = BytesMut::from(&len.to_be_bytes()[..]);
        input.put_i32(xid);
        input.put_bytes(0, 12);
        let refused = client.handle_bytes(now, &mut input);
        assert_eq!(refused, Err(Broken::FrameTooLong { len, max_len: 1000 }));
    }
}

#[test]
fn a_take_over_tells_which_part_failed() {
    let now = Instant::now();
    let take_over =
        || Request::TakeOver { path: "/a".into(), data: Vec::new(), acl: Acl::Creator, version: 3 };
    let header = |out: &mut BytesMut, op: i32, is_last: u8, code: i32| {
        out.put_i32(op);
        out.put_u8(is_last);
        out.put_i32(code);
    };
    let mut done = BytesMut::new();
    header(&mut done, op::DELETE, 0, 0);
    header(&mut done, op::CREATE, 0, 0);
    put_text(&mut done, "/a");
    header(&mut done, op::NONE, 1, -1);
    let mut failed = BytesMut::new();
    for code in [-103, -2] {
        header(&mut failed, op::NONE, 0, code);
        failed.put_i32(code);
    }
    header(&mut failed, op::NONE, 1, -1);
    for (record, expected) in [(done, Ok(Answer::Done)), (failed, Err(Refusal::BadVersion))] {
        let mut client = ready(settings(), now);
        client.send(take_over(), 1, now);
        client.handle_bytes(now, &mut answer(1, 9, 0, &record)).unwrap();
        assert!(
            matches!(client.poll_event(), Some(Event::Answered { outcome, .. }) if outcome == expected)
        );
    }
}

#[test]
fn a_session_is_ended_as_asked() {
    let now = Instant::now();
    let mut client = ready(settings(), now);
    client.send(Request::Close, 1, now);
    assert_eq!(sent(&mut client), [(1, op::CLOSE)]);
    assert!(!client.is_finished());
    client.handle_bytes(now, &mut answer(1, 9, 0, &[])).unwrap();
    assert!(client.is_finished());
}
