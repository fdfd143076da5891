//! `dubmesh describe` of what real providers have, and of what they do not have.

use std::process::Command;

use crate::support::{Agent, TYPES};
use interop_harness::{DubboVersion, JavaProvider, ProviderOptions, free_port};

/// Exit status, standard output and standard error.
fn describe(args: &[&str]) -> (Option<i32>, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_dubmesh"));
    let output = command.arg("describe").args(args).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

#[test]
fn a_service_that_does_not_exist_is_not_shown() {
    for version in [DubboVersion::V2_6, DubboVersion::V2_7, DubboVersion::V3_3] {
        let java = JavaProvider::start(version, ProviderOptions::default()).unwrap();
        let (link, dubbo) = (free_port(), free_port());
        let _agent = Agent::start(
            "provider",
            &format!(
                "[agent]\nworkers = 1\n[log]\nformat = \"json\"\n[admin]\nlisten = \"127.0.0.1:0\"\n\
                 [[registry]]\nkind = \"memory\"\n[link]\nlisten = \"127.0.0.1:{link}\"\n\
                 [dubbo]\nlisten = \"127.0.0.1:{dubbo}\"\napplication = \"types\"\n\
                 [[ingress]]\nprotocol = \"http\"\nlisten = \"127.0.0.1:0\"\n\
                 [[export]]\ninterface = \"{TYPES}\"\napp = \"dubbo://{}\"\n",
                java.addr()
            ),
        );
        let urls =
            [java.url(), format!("link://127.0.0.1:{link}"), format!("dubbo://127.0.0.1:{dubbo}")];
        for url in &urls {
            let (status, out, err) = describe(&[TYPES, "--url", url]);
            assert_eq!(status, Some(0), "{version:?} {url}: {out}{err}");
            assert!(out.starts_with(&format!("service {TYPES}\n")), "{out}");
            for args in [&["com.acme.Nobody"][..], &[TYPES, "--version", "9.9"]] {
                let (status, out, err) = describe(&[args, &["--url", url]].concat());
                let seen = (status, &*out);
                assert_eq!(seen, (Some(3), ""), "{version:?} {url} {args:?}: {err}");
                assert!(err.contains(" does not offer "), "{err}");
                assert!(err.contains("check the interface, --version and --group"), "{err}");
            }
        }
    }
}
