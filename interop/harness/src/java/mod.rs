//! The Java peers: real Dubbo providers and consumers as child processes.
//!
//! Invariant: the Maven build runs at most once at a time on a machine, and only when a jar is
//! missing or older than a source.

mod consumer;
mod provider;
mod version;

pub use consumer::{ConsumerOptions, JavaConsumer, LoadOptions};
pub use provider::{JavaProvider, ProviderOptions};
pub use version::DubboVersion;

use std::ffi::OsString;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::time::SystemTime;

use crate::error::HarnessError;
use crate::program::{find_program, run};

const MAIN_CLASS: &str = "org.dubmesh.interop.peer.Main";

/// A command that runs the peer's main class, still without its own arguments.
fn java(version: DubboVersion, jvm_args: &[OsString]) -> Result<Command, HarnessError> {
    let args_file = interop_dir().join(version.module()).join("target/java.args");
    let mut command = java_program()?;
    let mut at_file = OsString::from("@");
    at_file.push(args_file);
    command.arg(at_file).args(jvm_args).arg(MAIN_CLASS);
    Ok(command)
}

/// A command that runs the peer of `version` with arguments of interop/peer's `Main`, for those
/// who start it in a way of their own. It is built if need be.
///
/// # Errors
/// When Java or Maven is missing, or the build fails.
pub fn peer_command(
    version: DubboVersion,
    jvm_args: &[OsString],
    args: &[&str],
) -> Result<Command, HarnessError> {
    build(version)?;
    let mut command = java(version, jvm_args)?;
    command.args(args);
    Ok(command)
}

/// A command that runs Java, still without arguments.
pub(crate) fn java_program() -> Result<Command, HarnessError> {
    find_java().map(Command::new)
}

/// Where Java is.
pub(crate) fn find_java() -> Result<PathBuf, HarnessError> {
    find_program("java", "JAVA_BIN", "apt-get install openjdk-17-jdk-headless")
}

/// Builds the Maven projects if the jar of `version` is missing or older than a source.
fn build(version: DubboVersion) -> Result<(), HarnessError> {
    build_module(version.module(), "provider.jar")
}

/// Builds the Maven projects if what a module makes in its folder `target` is missing or older
/// than a source.
pub(crate) fn build_module(module: &str, product: &str) -> Result<(), HarnessError> {
    /// Keeps the threads of this process apart; the file lock does it for processes.
    static BUILDING: Mutex<()> = Mutex::new(());
    let _one_thread = BUILDING.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let dir = interop_dir();
    if is_built(&dir, module, product) {
        return Ok(());
    }
    let target = dir.join("target");
    let lock_path = target.join("build.lock");
    let file_error = |source| HarnessError::File { path: lock_path.clone(), source };
    fs::create_dir_all(&target).map_err(file_error)?;
    let lock = File::create(&lock_path).map_err(file_error)?;
    lock.lock().map_err(file_error)?;
    if is_built(&dir, module, product) {
        return Ok(());
    }
    eprintln!(
        "building the Java peers with Maven (once; the first time it downloads about 150 MB)"
    );
    let mut maven = Command::new(find_program("mvn", "MVN_BIN", "apt-get install maven")?);
    maven.args(["-q", "-B", "package"]).current_dir(&dir);
    run(&mut maven).map(|_| ())
}

fn is_built(dir: &Path, module: &str, product: &str) -> bool {
    let target = dir.join(module).join("target");
    let product = target.join(product);
    let Some(built) = modified(&product) else { return false };
    let module_pom = dir.join(module).join("pom.xml");
    if product.is_dir() {
        // Libraries alone, which depend on no source.
        let poms = [dir.join("pom.xml"), module_pom];
        return poms.iter().all(|pom| modified(pom).is_some_and(|changed| changed <= built));
    }
    // The arguments hold absolute paths: they are stale when the checkout has moved.
    let names_this_jar = fs::read_to_string(target.join("java.args"))
        .is_ok_and(|args| args.contains(&*product.to_string_lossy()));
    let sources = ["pom.xml", "service-api/pom.xml", "service-api/src", "peer/pom.xml", "peer/src"];
    names_this_jar
        && sources
            .iter()
            .map(|name| dir.join(name))
            .chain([dir.join("peer/dubbo-3/pom.xml"), module_pom])
            .all(|source| newest(&source).is_some_and(|changed| changed <= built))
}

/// When the newest file at or below `path` was changed.
fn newest(path: &Path) -> Option<SystemTime> {
    if !path.is_dir() {
        return modified(path);
    }
    let entries = fs::read_dir(path).ok()?;
    entries.filter_map(|entry| newest(&entry.ok()?.path())).max()
}

fn modified(path: &Path) -> Option<SystemTime> {
    fs::metadata(path).and_then(|metadata| metadata.modified()).ok()
}

/// The folder of the Maven projects, without `..` in it so that it equals Maven's own paths.
pub(crate) fn interop_dir() -> PathBuf {
    let harness = Path::new(env!("CARGO_MANIFEST_DIR"));
    harness.parent().unwrap_or(harness).to_path_buf()
}
