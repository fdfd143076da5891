//! Agents and Java peers of both levels in a registry that they share.

use std::ffi::OsString;
use std::path::Path;
use std::process::Command;

use interop_harness::{
    ConsumerOptions, DubboVersion, HarnessError, HttpApp, JavaConsumer, JavaProvider, Nacos,
    ProviderOptions, free_port,
};

use super::{Agent, PATIENCE, SESSION};

pub const DUBBO_3: [DubboVersion; 2] = [DubboVersion::V3_2, DubboVersion::V3_3];

/// How an agent may be registered, and the migration steps by which Java consumers find it then.
pub const MODES: [(&str, &[&str]); 3] = [
    ("all", &["FORCE_INTERFACE", "APPLICATION_FIRST", "FORCE_APPLICATION"]),
    ("instance", &["APPLICATION_FIRST", "FORCE_APPLICATION"]),
    ("interface", &["FORCE_INTERFACE", "APPLICATION_FIRST"]),
];

pub const TEXT_TYPES: [&str; 1] = ["x-dubbo-parameter-types: java.lang.String"];

/// The calls that an app without Java knows.
pub const CALLS: &str = "text,text_unicode,int64,add,texts,person,people,fail,attachments,variant,\
    variant_blue,generic_text,one_way";

/// What every agent's configuration begins with; `registry` is the inside of `[[registry]]`.
pub fn common(registry: &str) -> String {
    format!(
        "[agent]\nworkers = 2\n[log]\nformat = \"json\"\n[admin]\nlisten = \"127.0.0.1:0\"\n\
         [[registry]]\n{registry}[defaults]\ntimeout_ms = 20000\n"
    )
}

pub fn consumer(registry: &str) -> Agent {
    let ingress = "[[ingress]]\nprotocol = \"http\"\nlisten = \"127.0.0.1:0\"\n";
    Agent::start("consumer", &(common(registry) + ingress))
}

/// A Java provider that registers in this mode, and keeps its metadata there.
pub fn provider(version: DubboVersion, url: &str, mode: &str, storage: &str) -> JavaProvider {
    let options = ProviderOptions {
        registry: Some(url.to_owned()),
        registry_session: SESSION,
        jvm_args: [("register-mode", mode), ("metadata-type", storage)]
            .map(|(name, value)| OsString::from(format!("-Ddubbo.application.{name}={value}")))
            .into(),
        ..ProviderOptions::default()
    };
    JavaProvider::start(version, options).unwrap()
}

/// Makes all [`CALLS`] to what a Java consumer finds by this migration step.
///
/// # Errors
/// What was wrong, as the consumer printed it.
pub fn consume(version: DubboVersion, url: &str, step: &str, more: &[&str]) -> Result<(), String> {
    let mut options = ConsumerOptions::new(url);
    options.calls = CALLS.split(',').map(str::to_owned).collect();
    let migration = format!("-Ddubbo.application.service-discovery.migration={step}");
    options.jvm_args = [migration.as_str()].iter().chain(more).map(OsString::from).collect();
    let consumer = JavaConsumer::start(version, &options).unwrap();
    let printed = consumer.finish(3 * PATIENCE).map_err(|error| error.to_string())?;
    let n_right = printed.lines().filter(|line| line.contains(" = ")).count();
    if n_right == options.calls.len() { Ok(()) } else { Err(printed) }
}

/// An agent that offers an HTTP app to Dubbo's consumers, registered in this mode.
pub fn offering(app: &HttpApp, registry: &str, mode: &str) -> Agent {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../interop/apps/exports.toml");
    let exports = std::fs::read_to_string(path).unwrap();
    let exports = exports.replace("http://127.0.0.1:8080", &app.url());
    let registry = common(&format!("{registry}register_mode = \"{mode}\"\n"));
    let dubbo = format!("[dubbo]\nlisten = \"127.0.0.1:{}\"\napplication = \"web\"\n", free_port());
    Agent::start("provider", &(registry + &dubbo + &exports))
}

/// Exit status, standard output and standard error.
pub fn dubmesh(args: &[&str]) -> (Option<i32>, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_dubmesh")).args(args).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

/// A server of Nacos' protocol, if one is installed. It takes ten minutes and more to build, so
/// that only `make interop-full` installs it, and insists.
pub fn nacos() -> Option<Nacos> {
    match Nacos::start() {
        Ok(nacos) => Some(nacos),
        Err(HarnessError::NotInstalled { .. }) if std::env::var_os("INTEROP_FULL").is_none() => {
            eprintln!("rnacos is not installed (`scripts/setup.sh nacos`): Nacos takes no part");
            None
        }
        Err(error) => panic!("{error}"),
    }
}
