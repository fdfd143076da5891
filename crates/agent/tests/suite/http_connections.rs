//! Connections to an HTTP app: how many there are, what breaks on them, and whether the app is
//! well.

use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier, OnceLock};
use std::time::Duration;

use crate::support::PATIENCE;
use crate::support::backend::{BackendCall, name, until, value, with};
use crate::support::http_app::{Does, TestApp};
use agent::upstream::Standing;
use hessian::Value;

#[test]
fn connections_are_kept_and_their_end_is_noticed() {
    let app = TestApp::start(|request| match &*request.path {
        "/last" => Does::AnswerAndClose("1".into()),
        "/said" => Does::Close(
            b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 1\r\n\r\n1".to_vec(),
        ),
        _ => Does::json("1"),
    });
    let lines = "idle_timeout_ms = 60000\nhealth_interval_ms = 3600000\n\
        [[export.method]]\nname = 'get'\npath = 'GET /get'\n\
        [[export.method]]\nname = 'last'\npath = 'GET /last'\n\
        [[export.method]]\nname = 'said'\npath = '/said'\n\
        [[export.method]]\nname = 'post'\npath = '/post'\n";
    with(&app, lines, async |http| {
        let call = async |method| {
            assert_eq!(value(BackendCall::new(method, "", &[]).make(&http).await), Value::Int(1));
        };
        let count = || app.n_connections.load(Ordering::SeqCst);
        for _ in 0..10 {
            call("post").await;
        }
        // One of them is the health check's.
        assert!(count() <= 2, "{}", count());
        for n in 1..=5 {
            call("said").await;
            call("post").await;
            assert!(count() <= 2 + n, "{} of {n}", count());
        }
        // The connection ends while the next request is on its way, or not.
        for _ in 0..50 {
            call("last").await;
            call("get").await;
        }
    });
}

/// An idempotent request may be carried out twice where a kept connection ends, and not once for
/// each of them.
#[test]
fn a_request_is_repeated_once_at_most() {
    const N_KEPT: usize = 8;
    let all_at_work = Barrier::new(N_KEPT);
    let app = TestApp::start(move |request| match &*request.path {
        "/warm" => {
            all_at_work.wait();
            Does::json("1")
        }
        "/half" => Does::Close(b"HTTP/1.1 2".to_vec()),
        "/interim" => Does::Close(b"HTTP/1.1 102 Processing\r\n\r\n".to_vec()),
        _ => Does::Close(Vec::new()),
    });
    let lines = "idle_timeout_ms = 60000\nhealth_interval_ms = 3600000\n\
        [[export.method]]\nname = 'warm'\npath = 'GET /warm'\n\
        [[export.method]]\nname = 'post'\npath = '/post'\n\
        [[export.method]]\nname = 'put'\npath = 'PUT /put'\n\
        [[export.method]]\nname = 'half'\npath = 'GET /half'\n\
        [[export.method]]\nname = 'interim'\npath = 'DELETE /interim'\n";
    with(&app, lines, async |http| {
        for (method, n_requests) in [("post", 1), ("put", 2), ("half", 1), ("interim", 1)] {
            let calls = (0..N_KEPT).map(|_| BackendCall::new("warm", "", &[]).make(&http));
            for outcome in futures_util::future::join_all(calls).await {
                assert_eq!(value(outcome), Value::Int(1));
            }
            let error = BackendCall::new(method, "", &[]).make(&http).await.unwrap_err();
            assert_eq!(name(&error), "connection_broken", "{method}: {error}");
            let path = format!("/{method}");
            let seen = app.requests().iter().filter(|request| request.path == path).count();
            assert_eq!(seen, n_requests, "{method}");
        }
    });
}

/// Nobody may take a call for one that was not begun because its second try found no app.
#[test]
fn a_request_that_was_sent_and_finds_no_app_again_may_have_been_carried_out() {
    let app = Arc::new(OnceLock::<TestApp>::new());
    let itself = Arc::clone(&app);
    let started = TestApp::start(move |request| match &*request.path {
        "/put" => {
            itself.get().expect("it runs").kill();
            Does::Close(Vec::new())
        }
        _ => Does::json("1"),
    });
    let app = app.get_or_init(|| started);
    let lines = "idle_timeout_ms = 60000\nhealth_interval_ms = 3600000\n\
        [[export.method]]\nname = 'get'\npath = 'GET /get'\n\
        [[export.method]]\nname = 'put'\npath = 'PUT /put'\n";
    with(app, lines, async |http| {
        assert_eq!(value(BackendCall::new("get", "", &[]).make(&http).await), Value::Int(1));
        let error = BackendCall::new("put", "", &[]).make(&http).await.unwrap_err();
        assert_eq!(name(&error), "connection_broken", "{error}");
    });
}

/// hyper reads past interim answers without a pause, and the worker does nothing else meanwhile.
#[test]
fn interim_answers_are_limited() {
    let app = TestApp::start(|request| {
        let what = request.path.trim_start_matches("/interim/");
        let (n, ends) = what.split_once('/').unwrap();
        let mut bytes = b"HTTP/1.1 102 Processing\r\n\r\n".repeat(n.parse().unwrap());
        if ends == "answer" {
            bytes.extend_from_slice(b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\n1");
        }
        Does::Bytes(bytes)
    });
    let lines = "[[export.method]]\nname = 'interim'\npath = 'GET /interim/{0}/{1}'\n";
    with(&app, lines, async |http| {
        let call = async |n, ends| {
            let args = [Value::Int(n), Value::string(ends)];
            BackendCall::new("interim", "ILjava/lang/String;", &args).make(&http).await
        };
        for _ in 0..3 {
            assert_eq!(value(call(32, "answer").await), Value::Int(1));
        }
        for (n, ends) in [(33, "answer"), (33, "nothing"), (100_000, "nothing")] {
            let error = call(n, ends).await.unwrap_err();
            assert_eq!(name(&error), "bad_reply", "{n}: {error}");
            assert!(error.message.contains("more than 32 interim answers (1xx)"), "{error}");
        }
        until("the end of their connections", || 3 <= app.n_closed.load(Ordering::SeqCst)).await;
    });
}

#[test]
fn many_calls_share_few_connections() {
    // It answers when all four are at work.
    let all_at_work = Barrier::new(4);
    let app = TestApp::start(move |request| {
        all_at_work.wait();
        Does::json(request.body.clone())
    });
    with(&app, "max_connections = 4\nhealth_interval_ms = 3600000", async |http| {
        let calls = (0..100).map(|n| {
            let http = Rc::clone(&http);
            async move { (n, BackendCall::new("echo", "I", &[Value::Int(n)]).make(&http).await) }
        });
        for (n, outcome) in futures_util::future::join_all(calls).await {
            assert_eq!(value(outcome), Value::list(vec![Value::Int(n)]));
        }
        assert!(app.n_connections.load(Ordering::SeqCst) <= 5);
    });
}

#[test]
fn what_finds_no_connection_is_refused() {
    let app = TestApp::start(|_| Does::Hang);
    with(&app, "max_connections = 1", async |http| {
        let calls = (0..101).map(|_| {
            let mut call = BackendCall::new("hang", "", &[]);
            call.timeout = Duration::from_millis(200);
            call.make(&http)
        });
        let mut said: Vec<(&str, String)> = futures_util::future::join_all(calls)
            .await
            .into_iter()
            .map(|outcome| outcome.unwrap_err())
            .map(|error| (name(&error), error.message.to_string()))
            .collect();
        said.sort();
        said.dedup();
        let overdue =
            format!("no answer from the app at {} within 200 ms (the caller's timeout)", app.addr);
        let expected = [
            ("overloaded", "100 calls are in flight, which is the limit (max_in_flight)"),
            ("overloaded", "all 1 connections (max_connections) were busy until the deadline"),
            ("timeout", &*overdue),
        ];
        assert_eq!(said, expected.map(|(code, text)| (code, text.to_owned())));
    });
}

#[test]
fn a_call_that_is_given_up_takes_its_connection_with_it() {
    let app = TestApp::start(|_| Does::Hang);
    with(&app, "health_interval_ms = 3600000", async |http| {
        let (handle, outcome) = BackendCall::new("hang", "", &[]).begin(&http);
        until("a request", || !app.requests().is_empty()).await;
        let before = app.n_closed.load(Ordering::SeqCst);
        handle.unwrap().abort();
        assert_eq!(name(&outcome.await.unwrap().unwrap_err()), "cancelled");
        until("the end of its connection", || before < app.n_closed.load(Ordering::SeqCst)).await;
    });
}

fn chunked(body: &str) -> Does {
    Does::Bytes(format!("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n{body}").into())
}

fn chunk_of(len: usize) -> String {
    format!("{len:x}\r\n{}\r\n", "1".repeat(len))
}

#[test]
fn what_goes_wrong_on_the_way_is_told() {
    let app = TestApp::start(|request| match request.path.rsplit('/').next().unwrap() {
        "hang" => Does::Hang,
        "garbage" => Does::Bytes(b"\x16\x03\x01 this is not HTTP\r\n\r\n".to_vec()),
        "close" => Does::Close(Vec::new()),
        "half" => Does::Close(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n[1".to_vec()),
        "long" => Does::json("1".repeat(2000)),
        "chunks" => chunked(&format!("{0}{0}{0}0\r\n\r\n", chunk_of(400))),
        "no-length" => chunked("zz\r\n1"),
        "trailers" => chunked(&format!("{}0\r\n{}", chunk_of(1), "x: y\r\n".repeat(20_000))),
        "extension" => chunked(&format!("1;{}\r\n1\r\n0\r\n\r\n", "a".repeat(40_000))),
        "fields" => {
            let fields = "a: b\r\n".repeat(150);
            Does::Bytes(format!("HTTP/1.1 200 OK\r\n{fields}content-length: 0\r\n\r\n").into())
        }
        "text" => Does::Answer(200, vec!["content-type: text/html".into()], "<p>hello</p>".into()),
        "gzip" => Does::Answer(200, vec!["content-encoding: gzip".into()], "x".into()),
        _ => Does::json("[true]"),
    });
    with(&app, "max_answer_bytes = 1000", async |http| {
        for (method, code, said) in [
            ("hang", "timeout", "within 100 ms (the caller's timeout)"),
            ("garbage", "bad_reply", "the app's answer is not HTTP: invalid HTTP"),
            ("no-length", "bad_reply", "the app's answer is not HTTP: Invalid chunk size"),
            ("trailers", "bad_reply", "the chunks of the app's answer cannot be read"),
            ("extension", "bad_reply", "the chunks of the app's answer cannot be read"),
            ("fields", "bad_reply", "more than 100 fields"),
            ("close", "connection_broken", "closed"),
            ("half", "connection_broken", ""),
            ("long", "reply_too_large", "limit of 1000 bytes"),
            ("chunks", "reply_too_large", "limit of 1000 bytes"),
            ("text", "bad_reply", "it begins with \"<p>hello</p>\""),
            ("gzip", "bad_reply", "encoded (gzip)"),
        ] {
            let mut call = BackendCall::new(method, "", &[]);
            call.timeout = if method == "hang" { Duration::from_millis(100) } else { PATIENCE };
            let error = call.make(&http).await.unwrap_err();
            assert_eq!(name(&error), code, "{method}: {error}");
            assert!(error.message.contains(said), "{method}: {error}");
            assert_eq!(error.endpoint.as_deref(), Some(&*app.addr.to_string()));
            // What broke one connection does not disturb the next call.
            let outcome = BackendCall::new("fine", "", &[]).make(&http).await;
            assert_eq!(value(outcome), Value::list(vec![Value::Bool(true)]));
        }
    });
}

#[test]
fn health_is_what_the_app_says() {
    let is_well = Arc::new(AtomicBool::new(false));
    let said = Arc::clone(&is_well);
    let app = TestApp::start(move |request| match &*request.path {
        "/healthz?deep=1" if said.load(Ordering::SeqCst) => Does::json("1"),
        _ => Does::status(503, ""),
    });
    let lines = "health = '/healthz?deep=1'\nhealth_interval_ms = 1\nhealth_failures = 3";
    with(&app, lines, async |http| {
        let until = async |standing| {
            while http.health().standing() != standing {
                http.health().changed().await;
            }
        };
        assert_eq!(http.health().standing(), Standing::Connecting);
        until(Standing::Down).await;
        is_well.store(true, Ordering::SeqCst);
        until(Standing::Ready).await;
        let before = app.requests().len();
        is_well.store(false, Ordering::SeqCst);
        until(Standing::Down).await;
        assert!(before + 3 <= app.requests().len());
    });
}
