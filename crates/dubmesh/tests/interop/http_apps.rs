//! Apps in Node and Python under Java interfaces: called by real Dubbo consumers that find them in
//! their registry, and by HTTP over a link, with interop/apps/exports.toml as the configuration.

use std::path::Path;
use std::process::Command;

use crate::support::{Agent, ConsumerAgent, Layout, PATIENCE, TYPES, common, post, wait_until};
use interop_harness::{
    Child, ConsumerOptions, DubboVersion, Etcd, HttpApp, JavaConsumer, free_port,
};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};

const USERS: &str = "org.dubmesh.interop.UserService";

/// The calls of the Java consumers that the apps know: one for each kind of value, overloads,
/// exceptions, attachments, groups, and generic calls.
const CALLS: &str = "hash,text,text_empty,text_null,text_unicode,text_70000,bytes,bytes_5000,char16,\
    bool,int8,int16,int32,int32_min,int64,int64_small,float32,float64,float64_whole,boxed_bool,\
    boxed_int,boxed_int_null,boxed_long,boxed_double,decimal,big_integer,add,int32s,int64s,text_array,\
    texts,texts_empty,text_set,counts_tree,counts,date,date_time,color,person,person_sparse,people,\
    twins,make_person,echo_text,echo_int,echo_long,echo_double,echo_texts,echo_two,nothing,null_text,\
    fail,fail_unchecked,attachments,reply_attachment,variant,variant_blue,generic_text,\
    generic_person,generic_gson_person,missing_method,one_way,one_way_arrived,\
    user,user_list,user_none,user_life";

/// An agent that offers `app` to Dubbo's consumers at this port, and to other agents.
fn exporting(etcd: &Etcd, app: &HttpApp, dubbo_port: u16) -> Agent {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../interop/apps/exports.toml");
    let exports = std::fs::read_to_string(path).unwrap();
    let exports = exports.replace("http://127.0.0.1:8080", &app.url());
    let link_port = free_port();
    let common = common("provider", etcd, Layout::Dubbo);
    Agent::start(
        "provider",
        &format!(
            "{common}[link]\nlisten = \"127.0.0.1:{link_port}\"\n\
             [dubbo]\nlisten = \"127.0.0.1:{dubbo_port}\"\n{exports}"
        ),
    )
}

fn called_by_java(app: &HttpApp) {
    let etcd = Etcd::start().unwrap();
    let port = free_port();
    let agent = exporting(&etcd, app, port);
    for (version, serialization) in [
        (DubboVersion::V2_7, "hessian2"),
        (DubboVersion::V3_3, "hessian2"),
        (DubboVersion::V3_3, "fastjson2"),
        (DubboVersion::V2_7, "fastjson"),
    ] {
        // What is preferred is what consumers find in the registry; the rest they have to ask for.
        let url = match serialization {
            "hessian2" => format!("etcd://{}", etcd.addr()),
            _ => format!("dubbo://127.0.0.1:{port}"),
        };
        let mut options = ConsumerOptions::new(&url);
        options.serialization = serialization.to_owned();
        options.calls = CALLS.split(',').map(str::to_owned).collect();
        // Dubbo's own fastjson reads no exceptions, whoever writes them, and fastjson2 no message
        // of one with fields. It also sends the numbers of enums, by which an app cannot know
        // them.
        let without: &[&str] = match serialization {
            "fastjson" => &["fail", "fail_unchecked"],
            "fastjson2" => &["fail", "person", "people", "twins"],
            _ => &[],
        };
        options.calls.retain(|call| !without.contains(&&**call));
        let consumer = JavaConsumer::start(version, &options).unwrap();
        let printed = consumer.finish(3 * PATIENCE).unwrap_or_else(|error| {
            panic!("{version:?} {serialization}: {error}\n{}", agent.tail())
        });
        let n_right = printed.lines().filter(|line| line.contains(" = ")).count();
        assert_eq!(n_right, options.calls.len(), "{printed}");
    }
}

#[test]
fn java_calls_node() {
    called_by_java(&HttpApp::node().unwrap());
}

#[test]
fn java_calls_python() {
    called_by_java(&HttpApp::python().unwrap());
}

/// By URL, for found in a registry Dubbo makes all generic calls of an interface in the way of the
/// first one.
#[test]
fn java_calls_node_by_descriptors_of_beans() {
    let etcd = Etcd::start().unwrap();
    let app = HttpApp::node().unwrap();
    let port = free_port();
    let agent = exporting(&etcd, &app, port);
    for (version, serialization) in [
        (DubboVersion::V2_6, "hessian2"),
        (DubboVersion::V2_7, "hessian2"),
        (DubboVersion::V3_3, "hessian2"),
        (DubboVersion::V3_3, "fastjson2"),
    ] {
        let mut options = ConsumerOptions::new(&format!("dubbo://127.0.0.1:{port}"));
        options.serialization = serialization.to_owned();
        options.calls = vec!["generic_bean_person".to_owned()];
        let consumer = JavaConsumer::start(version, &options).unwrap();
        let printed = consumer.finish(3 * PATIENCE).unwrap_or_else(|error| {
            panic!("{version:?} {serialization}: {error}\n{}", agent.tail())
        });
        assert!(printed.contains("generic_bean_person = "), "{printed}");
    }
}

/// An app's own paths, as a caller by HTTP sees them through two agents.
#[test]
fn http_calls_node_over_a_link() {
    let etcd = Etcd::start().unwrap();
    let mut app = HttpApp::node().unwrap();
    let _exporting = exporting(&etcd, &app, free_port());
    let consumer = ConsumerAgent { etcd: &etcd, layout: Layout::Dubbo, extra: "" }.start();
    let call = |method: &str, types: &str, body: &str| {
        let types = format!("x-dubbo-parameter-types: {types}");
        post(consumer.http(), &format!("/{USERS}/{method}"), &[&types], body)
    };
    wait_until("the first answer", || call("find", "long", "[1]").status == 200);
    let person = "org.dubmesh.interop.Person";
    for (method, types, body, expected) in [
        ("find", "long", "[1]", r#"{"name":"Ann","age":20,"id":1}"#),
        ("find", "long", "[999]", "null"),
        ("list", "java.lang.String,int", r#"["B",5]"#, r#"[{"name":"Ben","age":20,"id":2}]"#),
        ("list", "java.lang.String,int", "[null,1]", r#"[{"name":"Ann","age":20,"id":1}]"#),
        ("save", person, r#"[{"name":"Dan","age":4}]"#, r#"{"name":"Dan","age":4,"id":4}"#),
        (
            "replace",
            &format!("long,{person}"),
            r#"[4,{"name":"Dana"  ,"age":5}]"#,
            r#"{"name":"Dana","age":5,"id":4}"#,
        ),
        ("remove", "long", "[4]", "true"),
        ("remove", "long", "[4]", "false"),
        ("status", "int", "[200]", r#""status 200""#),
    ] {
        let answer = call(method, types, body);
        assert_eq!((answer.status, &*answer.body), (200, expected), "{method} {body}");
    }
    // The agent registers the methods that its configuration names.
    let described = Command::new(env!("CARGO_BIN_EXE_dubmesh"))
        .args(["describe", USERS, "--registry", &format!("etcd://{}", etcd.addr())])
        .output()
        .unwrap();
    let shown = String::from_utf8(described.stdout).unwrap();
    for name in ["find", "list", "save", "replace", "remove", "status"] {
        assert!(shown.contains(&format!("\n  {name}\n")), "{name} in {shown}");
    }
    for (method, types, body, status, code, said) in [
        ("save", person, "[{}]", 500, "exception", "BusinessException: a user needs a name"),
        ("status", "int", "[503]", 500, "exception", "java.lang.RuntimeException: status 503"),
        ("find", "int", "[1]", 404, "method_not_found", "find(long)"),
        ("find", "long", "[\"x\"]", 400, "bad_arguments", ""),
    ] {
        let answer = call(method, types, body);
        assert_eq!((answer.status, &*answer.code()), (status, code), "{answer:?}");
        assert!(answer.member("message").contains(said), "{answer:?}");
    }
    let trace = ["x-dubbo-parameter-types: ", "x-dubbo-attachment-colour: red"];
    let answer = post(consumer.http(), &format!("/{TYPES}/attachments"), &trace, "[]");
    assert_eq!(answer.body, r#"{"colour":"red"}"#);

    app.kill9();
    wait_until("the withdrawal", || call("find", "long", "[1]").code() == "no_endpoint");
    app.restart().unwrap();
    wait_until("the app's return", || call("find", "long", "[1]").status == 200);
}

/// What docs/http-apps.md shows works as it is, but for its ports.
#[test]
fn the_examples_of_the_guide() {
    let etcd = Etcd::start().unwrap();
    let consumer = ConsumerAgent { etcd: &etcd, layout: Layout::Dubbo, extra: "" }.start();
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/examples");
    let read = |file: &str| std::fs::read_to_string(docs.join(file)).unwrap();
    for (file, program) in [("users.js", "node"), ("users.py", "python3"), ("users.go", "go")] {
        let (app_port, port) = (free_port().to_string(), free_port().to_string());
        let folder = tempfile::tempdir().unwrap();
        let source = folder.path().join(file);
        let text = read(&format!("http-apps/{file}"));
        std::fs::write(&source, text.replace("8080", &app_port)).unwrap();
        let mut command = Command::new(program);
        command.arg(&source);
        if program == "go" {
            let binary = folder.path().join("users");
            let build = Command::new("go").args(["build", "-o"]).args([&binary, &source]).status();
            assert!(build.unwrap().success());
            command = Command::new(binary);
        }
        let _app = Child::spawn(file, &command).unwrap();
        let config = read("http-app.toml")
            .replace("8080", &app_port)
            .replace("127.0.0.1:9702", "127.0.0.1:0")
            .replace("20990", &port)
            .replace("30890", &free_port().to_string())
            .replace("http://127.0.0.1:2379", &etcd.client_url())
            + "[log]\nformat = \"json\"\n";
        let mut agent = Agent::start("users", &config);
        let call = |method: &str, types: &str, body: &str| {
            let types = format!("x-dubbo-parameter-types: {types}");
            post(consumer.http(), &format!("/com.acme.Users/{method}"), &[&types], body)
        };
        wait_until("the first answer", || call("find", "long", "[1]").status == 200);
        let answer = call("find", "long", "[1]");
        let born = "1990-05-01T00:00:00.000Z";
        assert_eq!(answer.body, format!(r#"{{"id":1,"name":"Ann","born":"{born}"}}"#), "{file}");
        assert_eq!(call("find", "long", "[7]").body, "null", "{file}");
        let saved = call("save", "com.acme.User", r#"[{"name":"Zoe"}]"#);
        assert!(saved.status == 200 && saved.body.contains(r#""id":2"#), "{file}: {saved:?}");
        let refused = call("save", "com.acme.User", r#"[{"born":0}]"#);
        let said = "com.acme.InvalidException: a user needs a name";
        assert_eq!(refused.member("message"), said, "{file}: {refused:?}");
        agent.terminate();
        agent.wait();
    }
}

/// An authority, and a certificate of its for 127.0.0.1 and localhost, as files.
struct HttpsFiles {
    folder: tempfile::TempDir,
    authority: CertifiedIssuer<'static, KeyPair>,
}

impl HttpsFiles {
    fn new() -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        // A name of its own, or its certificates look as if they had signed themselves.
        params.distinguished_name.push(DnType::CommonName, "Test Authority");
        let key = KeyPair::generate().unwrap();
        let authority = CertifiedIssuer::self_signed(params, key).unwrap();
        let certificates = Self { folder: tempfile::tempdir().unwrap(), authority };
        std::fs::write(certificates.path("ca.pem"), certificates.authority.pem()).unwrap();
        certificates.issue("app", &["127.0.0.1", "localhost"]);
        certificates
    }

    fn path(&self, file: &str) -> String {
        self.folder.path().join(file).display().to_string()
    }

    fn issue(&self, name: &str, hosts: &[&str]) {
        let hosts: Vec<String> = hosts.iter().map(|&host| host.to_owned()).collect();
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(hosts).unwrap();
        let certificate = params.signed_by(&key, &self.authority).unwrap();
        std::fs::write(self.path(&format!("{name}.pem")), certificate.pem()).unwrap();
        std::fs::write(self.path(&format!("{name}.key")), key.serialize_pem()).unwrap();
    }
}

/// Node's own TLS, which asks for a certificate in turn; and Node on a socket in the file system.
#[test]
fn node_by_tls_and_on_a_socket() {
    let etcd = Etcd::start().unwrap();
    let files = HttpsFiles::new();
    let path = |file: &str| files.path(file);
    let (cert, key, ca) = (path("app.pem"), path("app.key"), path("ca.pem"));
    let by_tls = ["--cert", &cert, "--key", &key, "--ca", &ca];
    let socket = path("app.sock");
    let keys = format!("ca_file = '{ca}'\ncert_file = '{cert}'\nkey_file = '{key}'\n");
    for (options, keys) in [(&by_tls[..], &*keys), (&["--socket", &*socket], "")] {
        let mut app = HttpApp::node_with(options).unwrap();
        let port = free_port();
        let _exporting = Agent::start(
            "provider",
            &format!(
                "{}[dubbo]\nlisten = \"127.0.0.1:{port}\"\n[[export]]\ninterface = \"{TYPES}\"\n\
                 app = \"{}\"\nhealth = \"/healthz\"\n{keys}",
                common("provider", &etcd, Layout::Dubbo),
                app.url()
            ),
        );
        let consumer = ConsumerAgent { etcd: &etcd, layout: Layout::Dubbo, extra: "" }.start();
        let call = |body: &str| {
            let types = "x-dubbo-parameter-types: java.lang.String";
            post(consumer.http(), &format!("/{TYPES}/text"), &[types], body)
        };
        wait_until("the first answer", || call("[\"a\"]").status == 200);
        let large = format!("\"{}\"", "ü".repeat(500_000));
        assert_eq!(call(&large).body, large);
        app.kill9();
        wait_until("the refusal", || call("\"a\"").status == 503);
        let _ = std::fs::remove_file(&socket);
        app.restart().unwrap();
        wait_until("the app's return", || call("\"a\"").status == 200);
    }
}
