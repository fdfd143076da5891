//! The scripts for shells, as somebody gets them.

use std::process::{Command, Output};

fn completions(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_dubmesh")).arg("completions").args(args).output().unwrap()
}

#[test]
fn every_shell_has_a_script() {
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let output = completions(&[shell]);
        let script = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success(), "{shell}");
        for part in ["dubmesh", "transfer", "describe", "timeout-ms"] {
            assert!(script.contains(part), "{part:?} is not in the script of {shell}");
        }
    }
}

#[test]
fn bash_completes_commands_and_options() {
    let script = String::from_utf8(completions(&["bash"]).stdout).unwrap();
    let complete = |words: &str| {
        let asked = format!(
            "{script}\nCOMP_WORDS=(dubmesh {words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); \
             _dubmesh dubmesh \"${{COMP_WORDS[COMP_CWORD]}}\"; echo \"${{COMPREPLY[@]}}\""
        );
        let output = Command::new("bash").args(["--norc", "-c", &asked]).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    assert_eq!(complete("desc"), "describe\n");
    assert_eq!(complete("call --attach"), "--attachment --attachments\n");
}

#[test]
fn other_shells_are_refused() {
    let output = completions(&["tcsh"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8(output.stderr).unwrap().contains("bash, elvish, fish"));
    assert_eq!(completions(&[]).status.code(), Some(2));
}
