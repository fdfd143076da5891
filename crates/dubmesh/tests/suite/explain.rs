//! `dubmesh explain` as somebody runs it.

use std::io::{Read, Write};
use std::path::Path;
use std::process::Command;

use agent::{Agent, config};

const SERVICES: &str = "\
[[service]]
interface = 'com.acme.Orders'
endpoints = [
  'dubbo://10.0.0.1:20880?env=prod&region=north',
  'dubbo://10.0.0.2:20880?env=gray&region=south',
  'dubbo://10.0.0.3:20880?env=prod&region=south&dubbo.tag=blue',
]
";
const CANARY: &str = "\
force: false
conditions:
  - 'application=shop & attachments[user]=vip-* => env=gray'
  - 'method=find* => region=$region'
  - 'application=jobs =>'
";
const TAGS: &str = "\
force: false
tags:
  - name: gray
    addresses: ['10.0.0.2:20880']
";

fn explain(folder: &Path, args: &[&str]) -> (i32, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_dubmesh"))
        .current_dir(folder)
        .args(["explain", "com.acme.Orders", "findAll", "--registry", "file:services.toml"])
        .args(args)
        .output()
        .unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in [("services.toml", SERVICES), ("canary.yaml", CANARY), ("tags.yaml", TAGS)]
    {
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    folder
}

#[test]
fn every_endpoint_has_its_reason() {
    let folder = folder();
    let args = ["--conditions", "canary.yaml", "--consumer", "application=shop"];
    let vip = ["--attachment", "user=vip-1", "--consumer", "region=west"];
    let (status, out, err) = explain(folder.path(), &[&args[..], &vip].concat());
    assert_eq!((status, err.as_str()), (0, ""), "{out}");
    assert_eq!(
        out,
        "service com.acme.Orders\n\
         method findAll\n\
         \n\
         rules\n\
         \x20 dubbo.tag of endpoints, endpoints without a tag: keeps 2\n\
         \x20 canary.yaml, condition 1: keeps 1\n\
         \x20 canary.yaml, condition 2: matches no endpoint: ignored, because it is not forced\n\
         \x20 canary.yaml, condition 3: does not apply to this call\n\
         \n\
         endpoints\n\
         \x20 dubbo://10.0.0.1:20880  removed by canary.yaml, condition 1\n\
         \x20 dubbo://10.0.0.2:20880  left\n\
         \x20 dubbo://10.0.0.3:20880  removed by dubbo.tag of endpoints, endpoints without a tag\n"
    );
}

#[test]
fn tags_come_first_and_a_ban_leaves_nobody() {
    let folder = folder();
    let tag = ["--tags", "tags.yaml", "--attachment", "dubbo.tag=gray"];
    let (status, out, _) = explain(folder.path(), &tag);
    assert_eq!(status, 0);
    assert!(out.contains("tags.yaml, tag gray: keeps 1\n"), "{out}");
    assert!(out.contains("10.0.0.2:20880  left\n"), "{out}");
    let jobs = ["--conditions", "canary.yaml", "--consumer", "application=jobs"];
    let (status, out, _) = explain(folder.path(), &jobs);
    assert_eq!(status, 3);
    assert!(out.contains("canary.yaml, condition 3: bans this caller\n"), "{out}");
    assert!(!out.contains("  left\n"), "{out}");
}

/// Whatever is drawn, each destination is shown with its share, and no endpoint of one is removed.
#[test]
fn weighted_destinations_have_shares() {
    let folder = folder();
    let rule = "configVersion: v3.1\nconditions:\n- to:\n  \
                - {match: 'region=north', weight: 20}\n  \
                - {match: 'region=south', weight: 80}\n  - {match: 'region=west', weight: 0}\n";
    std::fs::write(folder.path().join("weighted.yaml"), rule).unwrap();
    for _ in 0..5 {
        let (status, out, _) = explain(folder.path(), &["--conditions", "weighted.yaml"]);
        let lines = [
            "    20% of these calls: region=north",
            "    80% of these calls: region=south",
            "    0% of these calls: region=west (no endpoint is left there)\n",
            "10.0.0.1:20880  left for 20% of such calls\n",
            "10.0.0.2:20880  left for 80% of such calls\n",
        ];
        assert!(status == 0 && lines.iter().all(|line| out.contains(line)), "{out}");
        assert_eq!(out.matches("(drawn for this answer)").count(), 1, "{out}");
    }
}

#[test]
fn wrong_rules_are_told_with_their_place() {
    let folder = folder();
    let wrong = "conditions:\n  - 'a==b => env=gray'\n";
    std::fs::write(folder.path().join("wrong.yaml"), wrong).unwrap();
    let (status, _, err) = explain(folder.path(), &["--conditions", "wrong.yaml"]);
    assert_eq!(status, 2);
    let message =
        "dubmesh explain: wrong.yaml: line 2, column 5: \"==\" before \"b\" is out of place";
    assert!(err.starts_with(message), "{err}");
    let (status, _, err) = explain(folder.path(), &["--tags", "none.yaml"]);
    assert_eq!(status, 2);
    assert!(err.contains("none.yaml: No such file"), "{err}");
}

#[test]
fn headers_are_for_agents() {
    let folder = folder();
    let (status, out, err) = explain(folder.path(), &["--header", "x=y"]);
    assert_eq!((status, out.as_str()), (2, ""), "{err}");
    assert!(err.contains("--header works only with --admin"), "{err}");
}

/// A running agent is asked for what it would do.
#[test]
fn a_running_agent_explains_itself() {
    let folder = folder();
    // Nobody listens there.
    let here = |text: &str| {
        (1..=3).fold(text.to_owned(), |text, n| {
            text.replace(&format!("10.0.0.{n}:20880"), &format!("127.0.0.1:{n}"))
        })
    };
    for (name, text) in [("services.toml", SERVICES), ("tags.yaml", TAGS)] {
        std::fs::write(folder.path().join(name), here(text)).unwrap();
    }
    let config = "[admin]\nlisten = '127.0.0.1:0'\n[agent]\nworkers = 1\n\
                  [[registry]]\nkind = 'file'\npath = 'services.toml'\n\
                  [[ingress]]\nprotocol = 'http'\nlisten = '127.0.0.1:0'\n\
                  [defaults]\ntag_rule = 'tags.yaml'\n";
    let file = folder.path().join("agent.toml");
    let config = config::parse(config, &file.display().to_string()).unwrap();
    let agent = Agent::start(config).unwrap();
    let admin = agent.addresses().admin.unwrap().to_string();
    let explain = |extra: &[&str]| {
        let args = ["explain", "com.acme.Orders", "findAll", "--admin", admin.as_str()];
        let output = Command::new(env!("CARGO_BIN_EXE_dubmesh"))
            .args(args.iter().chain(extra))
            .output()
            .unwrap();
        let text = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        (output.status.code().unwrap(), text)
    };
    let (status, text) = explain(&[]);
    assert!(status == 3 && text.contains("has not called it"), "{text}");
    // A call that nobody can answer, so that the agent gets to know the service.
    let mut stream = std::net::TcpStream::connect(agent.addresses().http[0]).unwrap();
    let request = "POST /com.acme.Orders/findAll HTTP/1.1\r\nhost: 127.0.0.1\r\n\
                   x-dubbo-timeout-ms: 1\r\nconnection: close\r\ncontent-length: 2\r\n\r\n[]";
    stream.write_all(request.as_bytes()).unwrap();
    let _answer = stream.read_to_end(&mut Vec::new());
    let (status, text) = explain(&["--attachment", "dubbo.tag=gray"]);
    assert_eq!(status, 3, "nobody is there: {text}");
    let lines = [
        "service com.acme.Orders\nmethod findAll\nregistry ",
        "rules\n  tags.yaml, tag gray: keeps 1\n",
        "  127.0.0.1:1  removed by tags.yaml, tag gray",
        "  127.0.0.1:2  0%; ",
    ];
    assert!(lines.iter().all(|line| text.contains(line)), "{text}");
    let (status, text) = explain(&["--tags", "tags.yaml"]);
    assert!(status == 2 && text.contains("cannot be used with"), "{text}");
}
