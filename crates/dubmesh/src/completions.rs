//! `dubmesh completions`: scripts by which shells complete what is typed.

use clap::{Args, Command};
use clap_complete::Shell;

use crate::Exit;
use crate::output;

/// What stands below the options in `--help`.
pub(crate) const HELP: &str = "\
Examples:
  mkdir -p ~/.local/share/bash-completion/completions
  dubmesh completions bash > ~/.local/share/bash-completion/completions/dubmesh
  mkdir -p ~/.zfunc
  dubmesh completions zsh > ~/.zfunc/_dubmesh
      with fpath+=~/.zfunc before compinit in .zshrc
  mkdir -p ~/.config/fish/completions
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
    output::print("completions", &String::from_utf8_lossy(&script), Exit::Ok)
}
