//! Apps that speak HTTP, behind the interface of a Java service: over a link, as other agents call
//! them.

mod support;

use agent::Agent;
use registry::MemoryHub;
use support::http_app::{Does, TestApp};
use support::{Answer, SERVICE, STRING, call, consumer, exporting, wait_until};

/// A consumer's agent, and one that exports `app` with these further lines.
struct Mesh {
    consumer: Agent,
    _exporting: Agent,
}

fn mesh(app: &TestApp, lines: &str) -> Mesh {
    let hub = MemoryHub::new();
    let addr = app.addr;
    let exporting =
        exporting(&hub, &format!("interface = \"{SERVICE}\"\napp = \"http://{addr}\"\n{lines}\n"));
    let consumer = consumer(&hub, "");
    wait_until("the export", || {
        (call(&consumer, "$echo", &["x-dubbo-parameter-types: java.lang.Object"], "[1]").status
            == 200)
            .then_some(())
    });
    Mesh { consumer, _exporting: exporting }
}

impl Mesh {
    fn call(&self, method: &str, types: &str, body: &str) -> Answer {
        call(&self.consumer, method, &[&format!("x-dubbo-parameter-types: {types}")], body)
    }
}

#[test]
fn without_a_table_every_method_is_a_post() {
    let app = TestApp::start(|request| Does::json(request.body.clone()));
    let mesh = mesh(&app, "");
    let answer = mesh.call("add", "long,java.lang.String", "[9007199254740993, \"snö\"]");
    assert_eq!((answer.status, &*answer.body), (200, "[9007199254740993,\"snö\"]"));
    let request = app.last();
    assert_eq!((&*request.method, &*request.path), ("POST", &*format!("/{SERVICE}/add")));
    assert_eq!(request.header("x-dubbo-parameter-types"), Some("long,java.lang.String"));
    let generic = call(&mesh.consumer, "anything", &[], "[{\"a\":[true]}]");
    assert_eq!((generic.status, &*generic.body), (200, "[{\"a\":[true]}]"), "{generic:?}");
    assert_eq!(call(&mesh.consumer, "none", &[STRING], "[\"x\"]").body, "[\"x\"]");
}
