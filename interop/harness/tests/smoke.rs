//! The real peers together: both Dubbo versions register in etcd, answer, and leave.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use interop_harness::{
    ConsumerOptions, DubboVersion, Etcd, JavaConsumer, JavaProvider, ProviderOptions, wait_until,
};

const HELLO: &str = "/dubbo/com.alibaba.dubbo.performance.demo.provider.IHelloService/providers/";
const TYPES: &str = "/dubbo/org.dubmesh.interop.TypesService/providers/";
/// Request, two-way, event, hessian2; id 7; one byte of body: null.
const HEARTBEAT: [u8; 17] = *b"\xda\xbb\xe2\x00\0\0\0\0\0\0\0\x07\0\0\0\x01N";
/// Event, hessian2, status OK; id 7; one byte of body: null.
const HEARTBEAT_REPLY: [u8; 17] = *b"\xda\xbb\x22\x14\0\0\0\0\0\0\0\x07\0\0\0\x01N";

#[test]
fn dubbo_2_7_registers_answers_and_leaves() {
    registers_answers_and_leaves(DubboVersion::V2_7);
}

#[test]
fn dubbo_3_3_registers_answers_and_leaves() {
    registers_answers_and_leaves(DubboVersion::V3_3);
}

fn registers_answers_and_leaves(version: DubboVersion) {
    let etcd = Etcd::start().unwrap();
    let options = ProviderOptions {
        registry: Some(format!("etcd://{}", etcd.addr())),
        registry_session: Duration::from_secs(3),
        ..ProviderOptions::default()
    };
    let mut provider = JavaProvider::start(version, options).unwrap();
    let addr_in_key = format!("dubbo%3A%2F%2F127.0.0.1%3A{}%2F", provider.addr().port());
    let n_keys = |prefix| {
        let keys = etcd.keys(prefix).unwrap();
        keys.iter().filter(|key| key[prefix.len()..].starts_with(&addr_in_key)).count()
    };
    assert_eq!((n_keys(HELLO), n_keys(TYPES)), (1, 2));
    let mut stream = TcpStream::connect(provider.addr()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    assert_eq!(heartbeat(&mut stream).unwrap(), HEARTBEAT_REPLY);

    provider.kill9();
    assert_eq!(n_keys(HELLO), 1, "the lease outlives the provider");
    wait_until("the end of the lease", Duration::from_secs(20), || n_keys(HELLO) == 0);

    provider.restart().unwrap();
    assert_eq!(n_keys(HELLO), 1, "it registers again");
    let status = provider.stop_gracefully().unwrap();
    assert!(status.success(), "{status}: {}", provider.tail());
    assert_eq!((n_keys(HELLO), n_keys(TYPES)), (0, 0), "it withdraws");
}

#[test]
fn a_suspended_provider_answers_when_it_goes_on() {
    let mut provider = JavaProvider::start(DubboVersion::V2_7, ProviderOptions::default()).unwrap();
    let mut stream = TcpStream::connect(provider.addr()).unwrap();
    assert_eq!(heartbeat(&mut stream).unwrap(), HEARTBEAT_REPLY);

    provider.suspend();
    stream.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    assert_eq!(heartbeat(&mut stream).unwrap_err().kind(), ErrorKind::WouldBlock);

    provider.resume();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let mut reply = [0; 17];
    stream.read_exact(&mut reply).unwrap();
    assert_eq!(reply, HEARTBEAT_REPLY);
}

#[test]
fn a_serialization_that_a_version_lacks_is_refused() {
    let options =
        ProviderOptions { serialization: "fastjson2".to_owned(), ..ProviderOptions::default() };
    let error = JavaProvider::start(DubboVersion::V2_7, options).unwrap_err().to_string();
    assert!(error.contains("has no serialization 'fastjson2'"), "{error}");
}

#[test]
fn dubbo_2_7_calls_itself_by_hessian2() {
    calls_itself(DubboVersion::V2_7, "hessian2");
}

#[test]
fn dubbo_2_7_calls_itself_by_fastjson() {
    calls_itself(DubboVersion::V2_7, "fastjson");
}

#[test]
fn dubbo_3_3_calls_itself_by_hessian2() {
    calls_itself(DubboVersion::V3_3, "hessian2");
}

fn calls_itself(version: DubboVersion, serialization: &str) {
    let serialization = serialization.to_owned();
    let options =
        ProviderOptions { serialization: serialization.clone(), ..ProviderOptions::default() };
    let provider = JavaProvider::start(version, options).unwrap();
    let options = ConsumerOptions { serialization, ..ConsumerOptions::new(&provider.url()) };
    let consumer = JavaConsumer::start(version, &options).unwrap();
    let stdout = consumer.finish(Duration::from_secs(60)).unwrap();
    assert!(stdout.contains("hash = 99162322\n"), "{stdout}");
}

fn heartbeat(stream: &mut TcpStream) -> std::io::Result<[u8; 17]> {
    stream.write_all(&HEARTBEAT)?;
    let mut reply = [0; 17];
    stream.read_exact(&mut reply)?;
    Ok(reply)
}
