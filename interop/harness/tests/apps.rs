//! The apps without Java: both answer alike, cope with a restart, and finish before they leave.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use interop_harness::{HttpApp, wait_until};

const TYPES: &str = "/org.dubmesh.interop.TypesService";
const USERS: &str = "/org.dubmesh.interop.UserService";
const HELLO: &str = "/com.alibaba.dubbo.performance.demo.provider.IHelloService";

#[test]
fn the_node_app_answers() {
    answers(HttpApp::node().unwrap());
}

#[test]
fn the_python_app_answers() {
    answers(HttpApp::python().unwrap());
}

fn answers(mut app: HttpApp) {
    let addr = app.addr();
    let post = |path: &str, body: &str| ask(addr, "POST", path, "", body);
    let get = |path: &str| ask(addr, "GET", path, "", "");
    let expect = |(head, body): (String, String), status: &str, expected: &str| {
        assert!(head.starts_with(&format!("HTTP/1.1 {status} ")), "{head}{body}");
        assert_eq!(body, expected);
    };
    expect(post(&format!("{HELLO}/hash"), r#"["hello"]"#), "200", "99162322");
    let decimal = "12345678901234567890.123456789";
    expect(post(&format!("{TYPES}/decimal"), &format!("[{decimal}]")), "200", decimal);
    expect(post(&format!("{TYPES}/text"), "[null]"), "200", "null");
    expect(post(&format!("{TYPES}/add"), "[2,3]"), "200", "5");
    let failed = r#"{"message":"no luck","code":42}"#;
    expect(post(&format!("{TYPES}/fail"), r#"["no luck"]"#), "422", failed);
    expect(get("/users/2"), "200", r#"{"name":"Ben","age":20,"id":2}"#);
    expect(get("/users/99"), "404", r#"{"message":"no user 99"}"#);
    let zoe = r#"{"name":"Zoe","age":1,"id":4}"#;
    expect(post("/users", r#"{"name":"Zoe","age":1}"#), "201", zoe);
    expect(post(&format!("{USERS}/list"), r#"["Z",5]"#), "200", &format!("[{zoe}]"));
    expect(get("/status/503"), "503", r#"{"message":"status 503"}"#);
    let (head, body) = ask(
        addr,
        "POST",
        &format!("{TYPES}/attachments"),
        "x-dubbo-attachment-colour: red\r\ntraceparent: 00-1\r\n",
        "[]",
    );
    assert_eq!(body, r#"{"colour":"red"}"#);
    assert!(head.contains("x-dubbo-attachment-colour: red"), "{head}");
    assert!(head.contains("traceparent: 00-1"), "{head}");

    app.restart().unwrap();
    assert_eq!(app.addr(), addr);
    // What was begun is finished: the request is on its way before the signal.
    let mut stream = TcpStream::connect(addr).unwrap();
    send(&mut stream, "GET", "/sleep/300", "", "");
    wait_until("the call's begin", Duration::from_secs(20), || {
        ask(addr, "GET", "/active", "", "").1 == "2"
    });
    let status = app.stop_gracefully().unwrap();
    assert!(status.success(), "{status}: {}", app.tail());
    expect(receive(&mut stream), "200", "300");
}

fn ask(addr: SocketAddr, method: &str, path: &str, more: &str, body: &str) -> (String, String) {
    let mut stream = TcpStream::connect(addr).unwrap();
    send(&mut stream, method, path, more, body);
    receive(&mut stream)
}

fn send(stream: &mut TcpStream, method: &str, path: &str, more: &str, body: &str) {
    let len = body.len();
    let head = format!("{method} {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n{more}");
    write!(stream, "{head}content-length: {len}\r\n\r\n{body}").unwrap();
}

/// The head and the body of an answer, after which the connection closes.
fn receive(stream: &mut TcpStream) -> (String, String) {
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    (head.to_lowercase().replace("http/", "HTTP/"), body.to_owned())
}
