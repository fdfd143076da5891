//! What `/config` shows, with the keys of the file and with the defaults filled in.

use serde_json::{Value, json};

use crate::config::parse;

fn shown(keys: &str) -> Value {
    parse(keys, "agent.toml").unwrap().shown(None)
}

/// Each member of `expected` is in `shown`.
#[track_caller]
fn assert_has(shown: &Value, expected: &Value) {
    for (key, value) in expected.as_object().unwrap() {
        assert_eq!(&shown[key], value, "{key} of {shown}");
    }
}

#[test]
fn an_http_app_has_all_its_keys() {
    let text = "[[registry]]\nkind = 'etcd'\n[link]\nlisten = '127.0.0.1:0'\n\
                [[export]]\ninterface = 'a.Users'\napp = 'http://h:1'\ndates = 'millis'\n\
                headers = { x-key = 's3cret' }\nerrors = { 404 = 'null', 5xx = 'busy' }\n\
                [[export.method]]\nname = 'find'\n\
                types = ['long', 'java.util.List<java.lang.Long>']\n\
                params = ['id', 'by']\nreturns = 'java.util.List<java.lang.String>'\n\
                path = 'GET /users/{id}?key=s3cret&by={by}'\ntimeout_ms = 7\n\
                errors = { default = 'a.Oops' }\n[[export.method]]\nname = 'add'\n";
    let shown = shown(text);
    let app = &shown["export"][0]["app"];
    let of_export = json!({ "404": "null", "5xx": "busy" });
    assert_has(
        app,
        &json!({
            "dates": "millis", "enums": "name", "big_numbers": "number", "class_names": false,
            "headers": ["x-key"], "errors": of_export,
        }),
    );
    assert_has(
        &app["method"][0],
        &json!({
            "name": "add", "types": null, "params": [], "returns": null, "body": "array",
            "timeout_ms": null, "headers": ["x-key"], "errors": of_export,
        }),
    );
    assert_has(
        &app["method"][1],
        &json!({
            "name": "find", "types": ["long", "java.util.List<java.lang.Long>"],
            "params": ["id", "by"],
            "returns": "java.util.List<java.lang.String>", "body": "none", "timeout_ms": 7,
            "errors": { "404": "null", "5xx": "busy", "default": "a.Oops" },
        }),
    );
    assert!(!shown.to_string().contains("s3cret"), "{shown}");
    assert!(shown["agent"]["reserved_files"].is_u64(), "{shown}");
}

#[test]
fn a_split_says_where_its_calls_go_by_the_keys_of_the_file() {
    let split = |keys: &str| {
        let text = "[[registry]]\nkind = 'etcd'\n[[ingress]]\nprotocol = 'http'\n\
                    listen = '127.0.0.1:0'\n[[defaults.split]]\nname = 'a'\npercent = 5\n";
        shown(&format!("{text}{keys}\n"))["defaults"]["split"][0].clone()
    };
    assert_has(&split("tag = 'gray'"), &json!({ "tag": "gray", "force": false }));
    let subset = split("endpoints = { env = 'new' }\nforce = true");
    assert_has(&subset, &json!({ "endpoints": { "env": "new" }, "force": true }));
    assert_has(&split("version = '2.0'"), &json!({ "version": "2.0", "group": null }));
}

#[test]
fn registries_have_their_own_keys_and_defaults() {
    let registry = |keys: &str| {
        let ingress = "[[ingress]]\nprotocol = 'http'\nlisten = '127.0.0.1:0'\n";
        shown(&format!("[[registry]]\n{keys}\n{ingress}"))["registry"][0].clone()
    };
    let zookeeper = "kind = 'zookeeper'\nendpoints = ['h:1']\n";
    assert_has(&registry(zookeeper), &json!({ "acl": "open", "metadata_root": "dubbo" }));
    let with_user = format!("{zookeeper}user = 'u'\npassword = 'p'\n");
    assert_has(&registry(&with_user), &json!({ "acl": "creator" }));
    let kubernetes = registry("kind = 'kubernetes'\nserver = 'http://127.0.0.1:1'\n");
    assert_has(&kubernetes, &json!({ "namespace": "default" }));
    let list = "kind = 'static'\n[[registry.service]]\ninterface = 'a.B'\nendpoints = []";
    for kind in ["kind = 'file'\npath = 'x'", list] {
        assert!(registry(kind).get("metadata_root").is_none(), "{kind}");
    }
}
