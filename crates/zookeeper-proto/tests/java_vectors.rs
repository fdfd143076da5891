//! The frames are those that Java's own records write; interop/vectors-zookeeper has the recipe.

#![expect(clippy::disallowed_methods, reason = "a test needs some instant to begin with")]

use std::collections::HashMap;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use zookeeper_proto::{
    Acl, Answer, Connection, Event, Identity, Refusal, Request, Session, Settings, Stat, Watcher,
};

#[derive(Debug)]
struct TestWatcher;

impl Watcher for TestWatcher {
    fn is_wanted(&self) -> bool {
        true
    }
}

/// The frames by their names.
fn vectors() -> HashMap<&'static str, BytesMut> {
    let frame = |line: &'static str| {
        let (name, digits) = line.split_once(' ').unwrap();
        let byte = |at: usize| u8::from_str_radix(&digits[at..at + 2], 16).unwrap();
        (name, (0..digits.len()).step_by(2).map(byte).collect())
    };
    include_str!("../vectors/java.txt").lines().map(frame).collect()
}

const PASSWORD: [u8; 16] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15];
const S: Duration = Duration::from_secs(1);

fn settings() -> Settings {
    let session = Session { id: 0x1234, password: PASSWORD, timeout: 30 * S };
    let identity = Identity { scheme: "digest".into(), secret: b"user:password".to_vec() };
    Settings {
        session: Some(session),
        session_timeout: 30 * S,
        last_zxid: 7,
        identities: vec![identity],
        max_frame_len: 1000,
        answer_timeout: 5 * S,
    }
}

/// What is to be written now.
fn written(connection: &mut Connection<&'static str, TestWatcher>) -> BytesMut {
    connection.transmit().split()
}

fn requests() -> [(&'static str, Request<TestWatcher>); 10] {
    let path = || "/a".to_owned();
    let create = |path: &str, data: &str, acl, is_ephemeral| Request::Create {
        path: path.into(),
        data: data.into(),
        acl,
        is_ephemeral,
    };
    let data = "é".as_bytes().to_vec();
    [
        ("children", Request::Children { path: path(), watcher: Some(TestWatcher) }),
        ("exists", Request::Exists { path: path(), watcher: Some(TestWatcher) }),
        ("data", Request::Data { path: path(), watcher: None }),
        ("create", create("/a/é", "é", Acl::Open, true)),
        ("create-creator", create("/a", "", Acl::Creator, false)),
        ("create-readers", create("/a", "", Acl::CreatorAndReaders, false)),
        ("take-over", Request::TakeOver { path: path(), data, acl: Acl::Open, version: 3 }),
        ("delete", Request::Delete { path: path(), version: 3 }),
        ("set-data", Request::SetData { path: path(), data: "é".into(), version: 3 }),
        ("close", Request::Close),
    ]
}

#[test]
fn writes_and_reads_what_java_writes() {
    let (mut vectors, now) = (vectors(), Instant::now());
    let mut take = |name: &str| vectors.remove(name).unwrap_or_else(|| panic!("no {name}"));
    let mut connection = Connection::new(settings(), now);
    assert_eq!(written(&mut connection), take("connect"));
    connection.handle_bytes(now, &mut take("connected")).unwrap();
    assert_eq!(written(&mut connection), take("auth"));
    connection.handle_bytes(now, &mut take("authenticated")).unwrap();
    let session = Session { id: 0x5678, password: PASSWORD, timeout: 20 * S };
    let ready = connection.poll_event();
    assert!(matches!(ready, Some(Event::Ready { session: it }) if it == session), "{ready:?}");
    connection.handle_timeout(now + 7 * S);
    assert_eq!(written(&mut connection), take("ping"));

    for (name, request) in requests() {
        connection.send(request, name, now);
        assert_eq!(written(&mut connection), take(name), "{name}");
    }
    let stat = Stat {
        made_zxid: 1,
        changed_zxid: 2,
        made_at_ms: 3,
        version: 5,
        owner: 8,
        data_len: 9,
        children_zxid: 11,
    };
    let (names, data) = (vec!["b".to_owned(), "é".to_owned()], "é".as_bytes().to_vec());
    for (name, expected) in [
        ("children", Ok(Answer::Children { names, stat })),
        ("exists", Ok(Answer::Stat(stat))),
        ("data", Ok(Answer::Data { data, stat })),
        ("create", Ok(Answer::Done)),
        ("create-creator", Err(Refusal::NodeExists)),
        ("create-readers", Err(Refusal::NoAuth)),
        ("take-over", Err(Refusal::BadVersion)),
        ("delete", Ok(Answer::Done)),
        ("set-data", Ok(Answer::Stat(stat))),
    ] {
        connection.handle_bytes(now, &mut take(&format!("answer-{name}"))).unwrap();
        let event = connection.poll_event();
        let is_it = matches!(&event, Some(Event::Answered { to, outcome })
            if *to == name && *outcome == expected);
        assert!(is_it, "{name}: {event:?}");
    }
    assert_eq!(connection.last_zxid(), 99);
    connection.handle_bytes(now, &mut take("event")).unwrap();
    assert!(matches!(connection.poll_event(), Some(Event::Fired(TestWatcher))));

    let mut expired = Connection::<&str, TestWatcher>::new(settings(), now);
    expired.handle_bytes(now, &mut take("expired")).unwrap();
    assert!(matches!(expired.poll_event(), Some(Event::Expired)));
    assert_eq!(vectors.into_keys().collect::<Vec<_>>(), ["remove-watches"]);
}

/// A watch that nobody wants is taken back.
#[test]
fn takes_watches_back_as_java_does() {
    struct Unwanted;
    impl Watcher for Unwanted {
        fn is_wanted(&self) -> bool {
            false
        }
    }
    let (vectors, now) = (vectors(), Instant::now());
    let mut connection = Connection::<(), Unwanted>::new(settings(), now);
    for name in ["connected", "authenticated"] {
        connection.handle_bytes(now, &mut vectors[name].clone()).unwrap();
    }
    for _ in 0..8 {
        connection.send(Request::Exists { path: "/a".into(), watcher: Some(Unwanted) }, (), now);
    }
    let _ = connection.transmit().split();
    // The first answer gives the watch back, since the other requests do not want it either.
    let mut answer = vectors["answer-exists"].clone();
    answer[7] = 1;
    connection.handle_bytes(now, &mut answer).unwrap();
    assert_eq!(connection.transmit().split(), vectors["remove-watches"]);
}
