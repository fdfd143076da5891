//! What a reload changes, and what needs a restart.

use crate::config::tests::{GOOD, changed};

#[test]
fn reload_tells_what_changes_at_once() {
    let plan = changed(GOOD, GOOD);
    assert!(plan.is_empty(), "{plan:?}");
    let link = "[link]\nlisten = '127.0.0.1:3'\n";
    let export = "[[export]]\ninterface = 'a.B'\napp = 'dubbo://h:1'\n";
    let old = format!("{GOOD}{link}{export}");
    let new = format!(
        "{old}weight = 7\n[log]\nlevel = 'debug'\n[defaults]\nmax_attempts = 1\n[[cluster]]\n\
         interface = 'a.B'"
    );
    let plan = changed(&old, &new);
    assert_eq!(plan.changed, ["log.level", "defaults", "cluster", "export.weight of a.B"]);
    assert_eq!(plan.needs_restart, [""; 0]);
}

#[test]
fn reload_tells_what_needs_a_restart() {
    let link = "[link]\nlisten = '127.0.0.1:3'\n";
    let export = "[[export]]\ninterface = 'a.B'\napp = 'dubbo://h:1'\n";
    let other = "[[export]]\ninterface = 'a.C'\napp = 'dubbo://h:1'\n";
    let old = format!("{GOOD}{link}{export}");
    let new = format!("{GOOD}{link}{export}{other}[agent]\nname = 'new'\n[log]\nformat = 'json'\n[admin]\nenabled = false")
        .replace("\"etcd\"", "\"etcd\"\nlease_ttl_s = 20")
        .replace(":20000", ":20001")
        .replace("0.1:3", "0.1:4")
        .replace("h:1", "h:2");
    let plan = changed(&old, &new);
    assert_eq!(plan.changed, [""; 0]);
    assert_eq!(
        plan.needs_restart,
        [
            "agent.name",
            "log.format",
            "admin",
            "registry.lease_ttl_s of main",
            "ingress.listen of 127.0.0.1:20000",
            "link.listen",
            "export of a.B",
            "export of a.C"
        ]
    );
    let plan = changed(&new, &old);
    assert_eq!(plan.changed, ["removed export of a.C"]);
    // What is not shown, and what is there more often, is told by its section.
    let head = "[[ingress]]\nprotocol = 'http'\nlisten = '127.0.0.1:4'\nhead_timeout_ms = 100\n";
    let user = |password: &str| {
        GOOD.replace("\"etcd\"", &format!("\"etcd\"\nuser = 'u'\npassword = '{password}'"))
    };
    let with_head = format!("{GOOD}{head}");
    for (old, new, expected) in [
        (&with_head, &with_head.replace("100", "200"), "ingress.head_timeout_ms of 127.0.0.1:4"),
        (&GOOD.to_owned(), &with_head, "ingress"),
        (&user("one"), &user("two"), "registry"),
    ] {
        assert_eq!(changed(old, new).needs_restart, [expected]);
    }
}

#[test]
fn exports_change_while_running() {
    let link = "[link]\nlisten = '127.0.0.1:3'\n";
    let export = |name: &str, app: &str| {
        format!("[[export]]\ninterface = '{name}'\napp = 'dubbo://{app}'\n")
    };
    let old = format!("{GOOD}{link}{}{}", export("a.B", "h:1"), export("a.C", "h:1"));
    let new = format!("{GOOD}{link}{}{}", export("a.D", "h:1"), export("a.B", "h:2"));
    let plan = changed(&old, &new);
    assert_eq!(plan.needs_restart, [""; 0]);
    assert_eq!(plan.changed, ["new export of a.D", "export of a.B", "removed export of a.C"]);
    // Nobody could come for it.
    let plan = changed(GOOD, &old);
    assert_eq!(plan.needs_restart, ["link", "export of a.B", "export of a.C"]);
}

#[test]
fn lists_change_while_running() {
    let list = |name: &str, endpoint: &str| {
        format!(
            "[[registry]]\nname = '{name}'\nkind = 'static'\n[[registry.service]]\n\
             interface = 'a.B'\nendpoints = ['dubbo://{endpoint}']\n"
        )
    };
    let old = format!("{}{GOOD}registry = 'one'\n", list("one", "10.0.0.1:1"));
    let plan = changed(&old, &old.replace("10.0.0.1", "10.0.0.2"));
    assert_eq!(plan.changed, ["registry.service of one"]);
    assert_eq!(plan.needs_restart, [""; 0]);
    // A registry of another name is another registry.
    let plan = changed(&old, &old.replace("'one'", "'two'").replace("10.0.0.1", "10.0.0.2"));
    assert_eq!(plan.changed, [""; 0]);
    assert!(plan.needs_restart.contains(&"registry".to_owned()), "{plan:?}");
    // One more waits, and the list that is there changes nevertheless.
    let new = format!("{}{}", old.replace("10.0.0.1", "10.0.0.2"), list("two", "10.0.0.3:1"));
    let plan = changed(&old, &new);
    assert_eq!(plan.changed, ["registry.service of one"]);
    assert_eq!(plan.needs_restart, ["registry"]);
}
