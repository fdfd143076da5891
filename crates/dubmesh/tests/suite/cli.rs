//! The program as a shell sees it: arguments, output, exit statuses.

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

fn dubmesh() -> Command {
    Command::new(env!("CARGO_BIN_EXE_dubmesh"))
}

fn output(args: &[&str]) -> Output {
    dubmesh().args(args).output().unwrap()
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

fn example(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/examples").join(name)
}

#[test]
fn check_says_what_a_good_file_does() {
    for (name, what) in [
        ("consumer.toml", "takes HTTP calls on 127.0.0.1:20000; uses registry main (etcd)"),
        ("provider.toml", "offers blue/com.acme.Orders:1.0.0, com.acme.Stock to other agents"),
        ("both.toml", "uses registry estate (etcd), inside (memory)"),
    ] {
        let path = example(name);
        let output = output(&["check", "--config", path.to_str().unwrap()]);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        let stdout = text(&output.stdout);
        assert!(stdout.contains(what), "{stdout}");
        assert_eq!(stdout.lines().count(), 1);
    }
}

/// With `--connect` what is not there is named, and what is there, too.
#[test]
fn check_tries_what_a_file_names() {
    let folder = tempfile::tempdir().unwrap();
    let app = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let (app, busy) = (app.local_addr().unwrap(), taken.local_addr().unwrap());
    let services =
        "[[service]]\ninterface = 'com.acme.Stock'\nendpoints = ['dubbo://127.0.0.1:1']\n";
    fs::write(folder.path().join("services.toml"), services).unwrap();
    let check = |listen: &str, app: &str| {
        let config = format!(
            "[admin]\nenabled = false\n[[registry]]\nname = 'main'\nkind = 'etcd'\nendpoints = \
             ['http://127.0.0.1:1']\n[[registry]]\nname = 'inside'\nkind = 'file'\npath = \
             'services.toml'\n[link]\nlisten = '{listen}'\n[[export]]\ninterface = \
             'com.acme.Echo'\nregistry = 'main'\napp = 'dubbo://{app}'\n"
        );
        let path = folder.path().join("agent.toml");
        fs::write(&path, config).unwrap();
        let output = output(&["check", "--connect", "--config", path.to_str().unwrap()]);
        (output.status.code(), text(&output.stdout).to_owned(), text(&output.stderr).to_owned())
    };
    let (status, out, err) = check("127.0.0.1:0", &app.to_string());
    assert_eq!(status, Some(1), "{out}{err}");
    assert!(out.contains("registry inside (file): connected in "), "{out}");
    assert!(out.contains("; 1 interface is registered\n"), "{out}");
    assert!(out.contains(&format!("app {app} of com.acme.Echo: connected in ")), "{out}");
    assert!(out.contains("address 127.0.0.1:0: can be listened on"), "{out}");
    assert!(err.contains("registry main (etcd): not connected within 5s: "), "{err}");
    assert_eq!(err.lines().count(), 1, "{err}");
    let (status, _, err) = check(&busy.to_string(), "127.0.0.1:1");
    assert_eq!(status, Some(1));
    assert!(err.contains(&format!("address {busy}: ")), "{err}");
    assert!(err.contains("app 127.0.0.1:1 of com.acme.Echo: "), "{err}");
}

/// Whoever follows a guide runs several of them on one machine.
#[test]
fn no_two_examples_listen_on_the_same_port() {
    let mut taken = std::collections::BTreeMap::new();
    let folder = example("");
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|ending| ending != "toml") {
            continue;
        }
        let text = fs::read_to_string(&path).unwrap();
        // Where there is no section, the admin listener has its default address.
        assert!(text.contains("\n[admin]\nlisten = "), "{}", path.display());
        for line in text.lines().filter_map(|line| line.strip_prefix("listen = \"")) {
            let port = line.split('"').next().unwrap().rsplit(':').next().unwrap().to_owned();
            if let Some(other) = taken.insert(port.clone(), path.clone()) {
                panic!("{} and {} listen on port {port}", other.display(), path.display());
            }
        }
    }
    assert!(8 < taken.len(), "{taken:?}");
}

#[test]
fn check_and_run_refuse_a_bad_file_with_all_its_mistakes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bad.toml");
    fs::write(&path, "[[ingress]]\nprotocol = 'http'\nlisten = 'foo'\nmax_bdy_bytes = 1\n")
        .unwrap();
    let path = path.to_str().unwrap();
    for command in ["check", "run"] {
        let output = output(&[command, "--config", path]);
        assert_eq!(output.status.code(), Some(2));
        assert!(output.stdout.is_empty());
        let stderr = text(&output.stderr);
        assert_eq!(stderr.lines().count(), 3, "{stderr}");
        assert!(stderr.contains(&format!("{path}:3: ingress.listen: \"foo\" is not an address; ")));
        assert!(stderr.contains(&format!("{path}:4: ingress.max_bdy_bytes: unknown key; did you")));
    }
}

/// A file registry's file is part of what is checked.
#[test]
fn check_reads_the_files_of_file_registries() {
    let folder = tempfile::tempdir().unwrap();
    let (path, services) = (folder.path().join("agent.toml"), folder.path().join("services.toml"));
    let ingress = "[[ingress]]\nprotocol = 'http'\nlisten = '127.0.0.1:0'\n";
    fs::write(&path, format!("[[registry]]\nkind = 'file'\npath = 'services.toml'\n{ingress}"))
        .unwrap();
    let check = || {
        let output = output(&["check", "--config", path.to_str().unwrap()]);
        (output.status.code(), text(&output.stdout).to_owned(), text(&output.stderr).to_owned())
    };
    let (code, stdout, stderr) = check();
    assert_eq!(code, Some(0));
    assert!(
        stdout.contains("good") && stderr.contains("services.toml does not exist yet"),
        "{stderr}"
    );

    let list = |endpoint: &str| {
        format!("[[service]]\ninterface = 'a.B'\nendpoints = ['dubbo://h:1', '{endpoint}']\n")
    };
    fs::write(&services, list("tri://h:2")).unwrap();
    let (code, stdout, stderr) = check();
    assert_eq!(code, Some(0));
    let told = "services.toml:3: a.B: not used: tri://h:2 (protocol tri is not supported, only dubbo and link)";
    assert!(stdout.contains("good") && stderr.contains(told), "{stderr}");

    // The listener looks services up in this file, and finds itself.
    let own = "[[ingress]]\nprotocol = 'dubbo'\nlisten = '0.0.0.0:20881'\n";
    let registry = "[[registry]]\nkind = 'file'\npath = 'services.toml'\n";
    fs::write(&path, format!("{registry}{own}")).unwrap();
    for (endpoint, is_told) in [("dubbo://127.0.0.1:20881", true), ("dubbo://127.0.0.1:1", false)] {
        fs::write(&services, list(endpoint)).unwrap();
        let (code, _, stderr) = check();
        assert_eq!(code, Some(0));
        let told = "services.toml:3: a.B: 127.0.0.1:20881: is this agent's own Dubbo ingress";
        assert_eq!(stderr.contains(told), is_told, "{stderr}");
    }

    fs::remove_file(&services).unwrap();
    fs::create_dir(&services).unwrap();
    let (code, _, stderr) = check();
    assert_eq!(code, Some(2));
    let told = "agent.toml:3: registry.path: cannot read ";
    assert!(stderr.contains(told) && stderr.contains("it is not a regular file; "), "{stderr}");
    fs::remove_dir(&services).unwrap();

    for (broken, line) in [(list("dubbo://h"), 3), ("[[servce]]\n".into(), 1), ("".into(), 1)] {
        fs::write(&services, broken).unwrap();
        let (code, stdout, stderr) = check();
        assert_eq!((code, &*stdout), (Some(2), ""), "{stderr}");
        assert!(stderr.contains(&format!("services.toml:{line}: ")), "{stderr}");
    }
}

/// Otherwise calls are lost, or are written into what the agent reads.
#[test]
fn check_looks_where_the_access_log_goes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("agent.toml");
    fs::write(folder.path().join("services.toml"), "service = []\n").unwrap();
    for (log, expected) in [
        ("access.log", ""),
        ("/dev/null", ""),
        ("services.toml", "agent.toml:6: access_log.path: "),
        ("agent.toml", " is this configuration; "),
        ("/", "agent.toml:6: access_log.path: / is a folder; name a file"),
        (
            "/dev/null/access.log",
            "agent.toml:6: access_log.path: /dev/null is not a folder; choose another one",
        ),
        ("/dev/null/no/access.log", "the folder /dev/null/no cannot be used: Not a dir"),
        ("no/access.log", "/no does not exist; create it"),
    ] {
        let text = format!(
            "[[registry]]\nkind = 'file'\npath = 'services.toml'\n[access_log]\ncalls = 'all'\n\
             path = '{log}'\n[[ingress]]\nprotocol = 'http'\nlisten = '127.0.0.1:0'\n"
        );
        fs::write(&path, text).unwrap();
        let output = output(&["check", "--config", path.to_str().unwrap()]);
        let stderr = String::from_utf8_lossy(&output.stderr);
        let code = if expected.is_empty() { Some(0) } else { Some(2) };
        assert_eq!(output.status.code(), code, "{log}: {stderr}");
        assert!(stderr.contains(expected), "{log}: {stderr}");
    }
}

#[test]
fn a_missing_file_and_wrong_arguments() {
    let missing = output(&["check", "--config", "/no/file.toml"]);
    assert_eq!(missing.status.code(), Some(2));
    assert!(text(&missing.stderr).starts_with("/no/file.toml: cannot be read: No such file"));
    for args in [&["chekc"][..], &["run"], &["run", "--confg", "a"], &[]] {
        assert_eq!(output(args).status.code(), Some(2), "{args:?}");
    }
}

/// A pipe that nobody writes into is not waited for, and a device has no end.
#[test]
fn a_configuration_is_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe.toml");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    for path in [pipe.to_str().unwrap(), "/dev/zero"] {
        for command in ["check", "run", "reload"] {
            let refused = output(&[command, "--config", path]);
            assert_eq!(refused.status.code(), Some(2), "{command} {path}");
            let said = format!("{path}: cannot be read: it is not a regular file; ");
            assert!(text(&refused.stderr).starts_with(&said), "{}", text(&refused.stderr));
        }
    }
}

#[test]
fn a_full_disk_is_told_and_a_closed_pipe_is_none() {
    for args in [
        &["completions", "bash"][..],
        &["check", "--config", "-"],
        &["demo", "--plain"],
        &["--help"],
        &["call", "--help"],
        &["--version"],
    ] {
        let example = example("consumer.toml");
        let args = args.iter().map(|it| if *it == "-" { example.as_os_str() } else { it.as_ref() });
        let args: Vec<_> = args.collect();
        let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let output = dubmesh().args(&args).stdout(full).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{args:?}");
        let err = text(&output.stderr);
        assert!(err.contains("cannot write to standard output"), "{args:?}: {err}");
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let status = dubmesh().args(&args).stdout(writer).status().unwrap();
        assert_eq!(status.code(), Some(0), "{args:?}");
    }
}

/// The exit status of a command is what it would be if somebody read its standard error.
#[test]
fn standard_error_may_be_full_or_closed() {
    let folder = tempfile::tempdir().unwrap();
    let in_folder = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        path.into_os_string().into_string().unwrap()
    };
    // Good, but its list of endpoints does not exist yet, which is told.
    let ingress = "[[ingress]]\nprotocol = 'http'\nlisten = '127.0.0.1:0'\n";
    let registry = "[[registry]]\nkind = 'file'\npath = 'none.toml'\n";
    let good = in_folder("good.toml", &format!("{registry}{ingress}"));
    let empty = format!("file:{}", in_folder("empty.toml", "service = []\n"));
    let commands: [(&[&str], _); 16] = [
        (&["check", "--config", &good], 0),
        (&["check", "--config", "/no/file.toml"], 2),
        (&["run", "--config", "/no/file.toml"], 2),
        (&["reload", "--config", "/no/file.toml"], 2),
        (&["reload", "--config", &good], 1),
        (&["list", "--registry", &empty], 0),
        (&["describe", "a.B", "--registry", &empty], 3),
        (&["explain", "a.B", "c", "--registry", "file:/no", "--tags", "/no"], 2),
        (&["call", "a.B", "c", "--registry", &empty], 3),
        (&["top", "--once", "--every", "100ms", "--admin", "127.0.0.1:1"], 1),
        (&["tap", "--admin", "127.0.0.1:1"], 1),
        (&["doctor", "--for", "1ms", "--every", "1s"], 2),
        (&["provider", "--listen", "192.0.2.1:1"], 1),
        (&["transfer", "serve", "/no/file"], 1),
        (&["chekc"], 2),
        (&["list", "--registry", "zookeeper://u:secret@h:1"], 2),
    ];
    for (args, status) in commands {
        let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let (reader, closed) = std::io::pipe().unwrap();
        drop(reader);
        for (stderr, what) in [(Stdio::from(full), "full"), (Stdio::from(closed), "closed")] {
            let ended = dubmesh().args(args).stdout(Stdio::null()).stderr(stderr).status().unwrap();
            assert_eq!(ended.code(), Some(status), "{args:?} with {what} standard error");
        }
    }
}

#[test]
fn help_has_examples_and_statuses() {
    for args in [&["--help"][..], &["run", "--help"], &["check", "--help"]] {
        let help = output(args);
        assert_eq!(help.status.code(), Some(0));
        let help = text(&help.stdout);
        assert!(help.contains("Examples:\n  dubmesh ") && help.contains("Exit status:\n  0  "));
    }
    let version = output(&["--version"]);
    assert_eq!(text(&version.stdout), concat!("dubmesh ", env!("CARGO_PKG_VERSION"), "\n"));
}

#[test]
fn a_port_that_is_taken_is_told() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("agent.toml");
    let config = format!(
        "[admin]\nenabled = false\n[[registry]]\nkind = 'file'\npath = 'x'\n[[ingress]]\n\
         protocol = 'http'\nlisten = '{address}'\n"
    );
    fs::write(&path, config).unwrap();
    let output = output(&["run", "--config", path.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1));
    let stderr = text(&output.stderr);
    assert!(stderr.contains("cannot start") && stderr.contains(&address.to_string()), "{stderr}");
}
