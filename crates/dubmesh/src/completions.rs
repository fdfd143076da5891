//! `dubmesh completions`: scripts by which shells complete what is typed.

use std::io::{self, Write};

use clap::{Args, Command};
use clap_complete::Shell;

use crate::Exit;

/// What stands below the options in `--help`.
pub(crate) const HELP: &str = "\
Examples:
  dubmesh completions bash > ~/.local/share/bash-completion/completions/dubmesh
  dubmesh completions zsh > ~/.zfunc/_dubmesh
      with fpath+=~/.zfunc before compinit in .zshrc
  dubmesh completions fish > ~/.config/fish/completions/dubmesh.fish
  dubmesh completions powershell >> $PROFILE
  dubmesh completions elvish >> ~/.config/elvish/rc.elv";

/// The arguments of `dubmesh completions`.
#[derive(Args, Debug)]
pub(crate) struct CompletionsArgs {
    /// The shell
    shell: Shell,
}

/// Prints the script that completes `command`.
pub(crate) fn completions(args: &CompletionsArgs, mut command: Command) -> Exit {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command, "dubmesh", &mut script);
    match io::stdout().write_all(&script) {
        Ok(()) => Exit::Ok,
        // As when the reader of a pipe, such as head, has seen enough.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Exit::Ok,
        Err(error) => {
            let text = format!("dubmesh completions: cannot write to standard output: {error}\n");
            // Nobody need be there to read it.
            let _ = io::stderr().write_all(text.as_bytes());
            Exit::Failure
        }
    }
}
