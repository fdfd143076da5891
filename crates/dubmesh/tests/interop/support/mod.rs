//! What the tests against real Dubbo and etcd share: agents as processes of their own, an HTTP
//! client that tells a lost connection from an answer, and callers that never pause.

#![allow(
    dead_code,
    unreachable_pub,
    unused_imports,
    reason = "each test file uses its own part of this"
)]

mod agents;
mod cable;
pub mod discovery;
mod http;
mod load;

pub use agents::{Agent, ConsumerAgent, Layout, Offer, common};
pub use cable::Cable;
pub use http::{Http, HttpResponse, encoded, get, post};
pub use load::{HelloLoad, Summary};

use std::ffi::OsString;
use std::time::Duration;

use interop_harness::{DubboVersion, Etcd, JavaProvider, ProviderOptions};

/// No test waits longer for anything; a machine that also compiles is slow.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// How long a registration outlives its provider. On a machine that also compiles etcd itself may
/// stand still for a few seconds, and a lease that ends meanwhile is the end of a test; Dubbo 3.3
/// does not even register again.
pub const SESSION: Duration = Duration::from_secs(10);

pub const HELLO: &str = "com.alibaba.dubbo.performance.demo.provider.IHelloService";
pub const TYPES: &str = "org.dubmesh.interop.TypesService";

/// Polls until `check` is content.
///
/// # Panics
/// After [`PATIENCE`].
pub fn wait_until(what: &str, check: impl FnMut() -> bool) {
    interop_harness::wait_until(what, PATIENCE, check);
}

/// A Java provider whose `hash` takes `hash_sleep`; it registers itself in `etcd`, if there is
/// one.
pub fn java(version: DubboVersion, etcd: Option<&Etcd>, hash_sleep: Duration) -> JavaProvider {
    let options = ProviderOptions {
        registry: etcd.map(|etcd| format!("etcd://{}", etcd.addr())),
        registry_session: SESSION,
        hash_sleep,
        ..ProviderOptions::default()
    };
    JavaProvider::start(version, options).unwrap()
}

/// A provider that registers this serialization, and of fastjson2 takes nothing else: neither
/// Dubbo's own preference nor its default, hessian2, is left.
pub fn speaking(serialization: &str) -> ProviderOptions {
    let only_fastjson2 = [
        "-Ddubbo.protocol.prefer-serialization=fastjson2",
        "-DDUBBO_DEFAULT_SERIALIZATION=fastjson2",
    ];
    ProviderOptions {
        serialization: serialization.to_owned(),
        jvm_args: match serialization {
            "fastjson2" => only_fastjson2.map(OsString::from).into(),
            _ => Vec::new(),
        },
        ..ProviderOptions::default()
    }
}

/// What Java's `String.hashCode` gives.
pub fn java_hash(text: &str) -> i32 {
    text.encode_utf16()
        .fold(0, |hash: i32, unit| hash.wrapping_mul(31).wrapping_add(i32::from(unit)))
}
