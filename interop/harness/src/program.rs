//! Finding programs of the machine, and running them to their end.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::error::HarnessError;

/// Looks for `program` at `$variable`, in `PATH`, and in the checkout's `.tools`.
///
/// # Errors
/// When it is nowhere.
pub fn find_program(
    program: &'static str,
    variable: &'static str,
    install: &'static str,
) -> Result<PathBuf, HarnessError> {
    if let Some(path) = env::var_os(variable) {
        return Ok(path.into());
    }
    let tools = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.tools");
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path)
        .chain([tools.clone(), tools.join(program)])
        .map(|dir| dir.join(program))
        .find(|candidate| candidate.is_file())
        .ok_or(HarnessError::NotInstalled { program, install, variable })
}

/// Runs `command` to its end and returns its standard output.
pub(crate) fn run(command: &mut Command) -> Result<String, HarnessError> {
    let name = format!("{command:?}");
    let output =
        command.output().map_err(|source| HarnessError::Spawn { name: name.clone(), source })?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let both = [output.stdout, output.stderr].concat();
    Err(HarnessError::Command {
        command: name,
        status: output.status.to_string(),
        output: String::from_utf8_lossy(&both).into_owned(),
    })
}
