//! The real peers together: providers register in etcd, answer, and leave; consumers of each
//! version of Dubbo understand providers of the others.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use interop_harness::{
    ConsumerOptions, DubboVersion, Etcd, JavaConsumer, JavaProvider, LoadOptions, ProviderOptions,
    wait_until,
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
fn dubbo_2_6_has_no_registry_in_etcd() {
    let registry = Some("etcd://127.0.0.1:1".to_owned());
    let options = ProviderOptions { registry, ..ProviderOptions::default() };
    let error = JavaProvider::start(DubboVersion::V2_6, options).unwrap_err().to_string();
    assert!(error.contains("Dubbo 2.6 has no registry"), "{error}");
}

/// Consumer, provider and serialization of pairs in which each version and serialization is on
/// either side; with `INTEROP_FULL` all pairs.
#[test]
fn consumers_understand_providers() {
    use DubboVersion::{V2_6, V2_7, V3_2, V3_3};
    if std::env::var_os("INTEROP_FULL").is_none() {
        let pairs = [
            (V2_6, V3_3, "hessian2"),
            (V2_7, V2_6, "fastjson"),
            (V3_2, V2_7, "hessian2"),
            (V3_3, V3_2, "fastjson2"),
        ];
        std::thread::scope(|scope| {
            for (consumer, provider, serialization) in pairs {
                scope.spawn(move || understands(consumer, provider, serialization));
            }
        });
        return;
    }
    for provider in DubboVersion::ALL {
        for consumer in DubboVersion::ALL {
            for serialization in provider.serializations() {
                if consumer.shares(provider, serialization) {
                    understands(consumer, provider, serialization);
                }
            }
        }
    }
}

/// Makes all the calls that are right between the two.
fn understands(consumer: DubboVersion, provider: DubboVersion, serialization: &str) {
    let provider = start(provider, serialization, None);
    let options =
        ConsumerOptions::between(consumer, provider.version(), serialization, &provider.url());
    let calls = JavaConsumer::start(consumer, &options).unwrap();
    // Some seconds, or minutes on a machine that is busy; this is only for what hangs.
    let stdout = calls.finish(Duration::from_secs(600)).unwrap_or_else(|error| {
        let versions = (consumer, provider.version());
        panic!("{versions:?} by {serialization}: {error}\n{}", provider.tail())
    });
    assert!(stdout.contains("hash = 99162322\n"), "{stdout}");
}

#[test]
fn a_consumer_finds_its_provider_in_the_registry() {
    let etcd = Etcd::start().unwrap();
    let registry = format!("etcd://{}", etcd.addr());
    let provider = start(DubboVersion::V3_2, "hessian2", Some(&registry));
    let calls = ["hash", "person", "variant_blue", "missing_group", "one_way", "one_way_arrived"];
    // A provider of 3.2 registers, and consumers of other versions find it.
    for version in [DubboVersion::V2_7, DubboVersion::V3_3] {
        let options = ConsumerOptions {
            calls: calls.map(str::to_owned).to_vec(),
            ..ConsumerOptions::new(&registry)
        };
        let consumer = JavaConsumer::start(version, &options).unwrap();
        let stdout = consumer
            .finish(Duration::from_secs(60))
            .unwrap_or_else(|error| panic!("{version:?}: {error}\n{}", provider.tail()));
        assert!(stdout.contains("variant_blue = blue/2.0.0\n"), "{stdout}");
    }
}

#[test]
fn consumers_make_load() {
    for version in [DubboVersion::V2_6, DubboVersion::V3_3] {
        let provider = start(version, "hessian2", None);
        let load =
            LoadOptions { in_flight: 8, warm_up: Duration::ZERO, time: Duration::from_secs(1) };
        let options = ConsumerOptions { connections: 2, ..ConsumerOptions::new(&provider.url()) };
        let consumer = JavaConsumer::start_load(version, &options, &load).unwrap();
        let report = consumer.report(Duration::from_secs(60)).unwrap();
        assert!(report.contains("\"errors\":0,"), "{report}");
        assert!(!report.contains("\"calls\":0,"), "{report}");
    }
}

fn start(version: DubboVersion, serialization: &str, registry: Option<&str>) -> JavaProvider {
    let options = ProviderOptions {
        serialization: serialization.to_owned(),
        registry: registry.map(str::to_owned),
        hash_sleep: Duration::ZERO,
        ..ProviderOptions::default()
    };
    JavaProvider::start(version, options).unwrap()
}

fn heartbeat(stream: &mut TcpStream) -> std::io::Result<[u8; 17]> {
    stream.write_all(&HEARTBEAT)?;
    let mut reply = [0; 17];
    stream.read_exact(&mut reply)?;
    Ok(reply)
}
