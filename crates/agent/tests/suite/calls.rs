//! Calls that go well: each way in, each way out.

use std::io::Write;

use crate::support;
use crate::support::{
    Behaviour, FakeProvider, Http, SERVICE, STRING, call, consumer, provider_agent, register,
    register_with, request, wait_until,
};
use registry::MemoryHub;

/// With and without a provider's agent, the same calls have the same answers.
fn answers_as_expected(agent: &agent::Agent) {
    wait_until("the first endpoint", || {
        (call(agent, "echo", &[STRING], "[\"x\"]").status == 200).then_some(())
    });
    for (method, headers, body, expected) in [
        ("echo", &[STRING][..], "[\"snö\\n☃\"]", "\"snö\\n☃\""),
        ("echo", &[STRING], "\"bare\"", "\"bare\""),
        ("echo", &["x-dubbo-parameter-types: J"], "[9007199254740993]", "9007199254740993"),
        (
            "echo",
            &["x-dubbo-parameter-types: java.util.Map"],
            "[{\"a\":[1,null,true]}]",
            "{\"a\":[1,null,true]}",
        ),
        ("nothing", &[], "[]", "null"),
        ("nothing", &[], "", "null"),
        ("hash", &[], "[1]", "\"generic hash\""),
        ("attachment", &[STRING, "x-dubbo-attachment-colour: red"], "[\"\"]", "\"red\""),
    ] {
        let answer = call(agent, method, headers, body);
        assert_eq!((answer.status, &*answer.body), (200, expected), "{method} {body}");
        assert!(answer.head.contains("content-type: application/json"));
    }
    let failed = call(agent, "fail", &[], "[]");
    assert_eq!((failed.status, &*failed.code()), (500, "exception"), "{failed:?}");
    assert!(failed.body.contains("com.acme.Oops: it broke"), "{failed:?}");

    let form = |fields: &str| Http::to(agent).post("/", &[], fields);
    let types = "parameterTypesString=Ljava/lang/String;";
    let plain = form(&format!("interface={SERVICE}&method=echo&{types}&parameter=a b/ä"));
    assert_eq!((plain.status, &*plain.body), (200, "a b/ä"));
    let encoded = form(&format!(
        "interface={SERVICE}&method=echo&parameterTypesString=Ljava%2Flang%2FString%3B\
         &parameter=%22q%22%26%3D+1"
    ));
    assert_eq!((encoded.status, &*encoded.body), (200, "\"q\"&= 1"));
}

#[test]
fn straight_to_a_dubbo_provider() {
    let hub = MemoryHub::new();
    let provider = FakeProvider::start(Behaviour::Good);
    let _registered = register(&hub, provider.addr);
    answers_as_expected(&consumer(&hub, ""));
}

#[test]
fn through_a_providers_agent() {
    let hub = MemoryHub::new();
    let provider = FakeProvider::start(Behaviour::Good);
    let _provider_agent = provider_agent(&hub, provider.addr);
    answers_as_expected(&consumer(&hub, ""));
}

#[test]
fn a_provider_gets_its_own_token_and_path() {
    let hub = MemoryHub::new();
    let provider = FakeProvider::start(Behaviour::Good);
    let url = [("token", "s3cret"), ("path", "ctx/com.acme.Echo")];
    let _registered = register_with(&hub, provider.addr, &url);
    let agent = consumer(&hub, "");
    wait_until("the endpoint", || {
        (call(&agent, "echo", &[STRING], "[\"x\"]").status == 200).then_some(())
    });
    let seen =
        |headers: &[&str]| call(&agent, "calledAs", &[&[STRING], headers].concat(), "[\"\"]");
    // By what is written in front a provider finds the method, and by the path the service.
    assert_eq!(seen(&[]).body, format!("\"{SERVICE} ctx/com.acme.Echo s3cret\""));
    let own = seen(&["x-dubbo-attachment-token: mine"]);
    assert_eq!(own.body, format!("\"{SERVICE} ctx/com.acme.Echo mine\""));

    let provider = FakeProvider::start(Behaviour::Good);
    let hub = MemoryHub::new();
    let _registered = register(&hub, provider.addr);
    let agent = consumer(&hub, "");
    wait_until("the endpoint", || {
        (call(&agent, "echo", &[STRING], "[\"x\"]").status == 200).then_some(())
    });
    let plain = call(&agent, "calledAs", &[STRING], "[\"\"]");
    assert_eq!(plain.body, format!("\"{SERVICE} {SERVICE} none\""));
}

#[test]
fn requests_on_one_connection_are_answered_in_their_order() {
    let hub = MemoryHub::new();
    let provider = FakeProvider::start(Behaviour::Good);
    let _registered = register(&hub, provider.addr);
    let agent = consumer(&hub, "");
    let mut http = Http::to(&agent);
    let path = format!("/{SERVICE}/echo");
    let requests: String =
        (0..200).map(|n| request(&path, &[STRING], &format!("[\"{n}\"]"))).collect();
    http.send(requests);
    for n in 0..200 {
        let answer = http.read();
        assert_eq!((answer.status, answer.body), (200, format!("\"{n}\"")));
    }
}

#[test]
fn bodies_may_come_in_chunks_and_after_a_100_continue() {
    let hub = MemoryHub::new();
    let provider = FakeProvider::start(Behaviour::Good);
    let _registered = register(&hub, provider.addr);
    let agent = consumer(&hub, "");
    let mut http = Http::to(&agent);
    let head = format!("POST /{SERVICE}/echo HTTP/1.1\r\nhost: x\r\n{STRING}\r\n");
    http.send(format!("{head}transfer-encoding: chunked\r\n\r\n"));
    for piece in ["3\r\n[\"a", "\r\n2\r\nb\"\r\n", "1\r\n]\r\n0\r\n\r\n"] {
        http.0.flush().unwrap();
        http.send(piece);
    }
    assert_eq!(http.read().body, "\"ab\"");

    http.send(format!("{head}expect: 100-continue\r\ncontent-length: 5\r\n\r\n"));
    assert_eq!(http.read().status, 100);
    http.send("[\"c\"]");
    assert_eq!(http.read().body, "\"c\"");
}

#[test]
fn one_large_call_and_many_small_ones_share_a_link() {
    let hub = MemoryHub::new();
    let provider = FakeProvider::start(Behaviour::Good);
    let _provider_agent = provider_agent(&hub, provider.addr);
    let agent = consumer(&hub, "");
    let large = format!("[\"{}\"]", "x".repeat(3 << 20));
    // Longer than the second that calls have by default: the machine may be shared.
    let headers = [STRING, "x-dubbo-timeout-ms: 30000"];
    let mut on_large = Http::to(&agent);
    on_large.send(request(&format!("/{SERVICE}/echo"), &headers, &large));
    for n in 0..100 {
        let answer = call(&agent, "echo", &headers, &format!("[\"{n}\"]"));
        assert_eq!(answer.body, format!("\"{n}\""));
    }
    let answer = on_large.read();
    assert_eq!((answer.status, answer.body.len()), (200, (3 << 20) + 2));
}

#[test]
fn http_2_on_the_same_port() {
    let hub = MemoryHub::new();
    let provider = FakeProvider::start(Behaviour::Good);
    let _registered = register(&hub, provider.addr);
    let agent = consumer(&hub, "");
    let addr = agent.addresses().http[0];
    support::block_on(async {
        use http_body_util::{BodyExt, Full};
        use hyper_util::rt::{TokioExecutor, TokioIo};
        let stream = tokio::net::TcpStream::connect(addr).await.unwrap();
        let (sender, connection) =
            hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream))
                .await
                .unwrap();
        tokio::spawn(connection);
        let calls = (0..100).map(|n| {
            let mut sender = sender.clone();
            async move {
                let request = http::Request::post(format!("http://x/{SERVICE}/echo"))
                    .header("x-dubbo-parameter-types", "java.lang.String")
                    .body(Full::new(bytes::Bytes::from(format!("[\"{n}\"]"))))
                    .unwrap();
                let response = sender.send_request(request).await.unwrap();
                assert_eq!(response.status(), 200);
                let body = response.into_body().collect().await.unwrap().to_bytes();
                assert_eq!(body, format!("\"{n}\""));
            }
        });
        futures_util::future::join_all(calls).await;
    });
}

/// A client ends the connection if a body comes.
#[test]
fn head_over_http_2_is_answered_without_a_body() {
    let hub = MemoryHub::new();
    let agent = consumer(&hub, "");
    let addr = agent.addresses().http[0];
    support::block_on(async {
        use http_body_util::{BodyExt, Empty};
        use hyper_util::rt::{TokioExecutor, TokioIo};
        let stream = tokio::net::TcpStream::connect(addr).await.unwrap();
        let (mut sender, connection) =
            hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream))
                .await
                .unwrap();
        tokio::spawn(connection);
        for _ in 0..2 {
            let request = http::Request::head(format!("http://x/{SERVICE}/echo"))
                .body(Empty::<bytes::Bytes>::new())
                .unwrap();
            let response = sender.send_request(request).await.unwrap();
            assert_eq!(response.status(), 405);
            let len = response.headers()["content-length"].to_str().unwrap();
            assert_ne!(len, "0", "the length of the answer to POST");
            let body = response.into_body().collect().await.unwrap().to_bytes();
            assert!(body.is_empty(), "{body:?}");
        }
    });
}

/// A list in the configuration needs no registry at all.
#[test]
fn endpoints_may_be_listed_in_the_configuration() {
    let app = FakeProvider::start(Behaviour::Good);
    let text = format!(
        "[admin]\nenabled = false\n[agent]\nworkers = 1\n[[registry]]\nkind = \"static\"\n\
         [[registry.service]]\ninterface = \"{SERVICE}\"\nendpoints = [\"dubbo://{}\"]\n\
         [[ingress]]\nprotocol = \"http\"\nlisten = \"127.0.0.1:0\"\n",
        app.addr
    );
    let agent = agent::Agent::start(agent::config::parse(&text, "test.toml").unwrap()).unwrap();
    wait_until("an answer", || {
        (call(&agent, "echo", &[STRING], "[\"x\"]").status == 200).then_some(())
    });
    let mut http = Http::to(&agent);
    let missing = http.post("/com.acme.Nothing/echo", &[], "[]");
    assert_eq!((missing.status, &*missing.code()), (404, "service_not_found"), "{missing:?}");
}
