//! What a request may be, by the rules of HTTP, of browsers, and of attachments.

use crate::support::{
    Behaviour, FakeProvider, Http, HttpResponse, Registered, SERVICE, STRING, call, consumer,
    provider_agent, register, request, wait_until,
};
use agent::Agent;
use registry::MemoryHub;
use serde_json::{Value, json};

/// An agent beside a provider that behaves.
struct Setup {
    agent: Agent,
    provider: FakeProvider,
    _registered: Registered,
}

fn setup(ingress: &str) -> Setup {
    let hub = MemoryHub::new();
    let provider = FakeProvider::start(Behaviour::Good);
    let registered = register(&hub, provider.addr);
    let agent = consumer(&hub, ingress);
    Setup { agent, provider, _registered: registered }
}

impl Setup {
    /// Sends bytes on a connection of their own.
    fn answer(&self, bytes: &str) -> HttpResponse {
        let mut http = Http::to(&self.agent);
        http.send(bytes);
        http.try_read().unwrap_or_else(|| panic!("no answer to {bytes:.300}"))
    }

    /// A call with these header lines and no others.
    fn with_headers(&self, headers: &str) -> HttpResponse {
        self.answer(&format!(
            "POST /{SERVICE}/echo HTTP/1.1\r\n{STRING}\r\ncontent-length: 3\r\n{headers}\r\n\"a\""
        ))
    }
}

fn error_of(answer: &HttpResponse) -> (u16, String) {
    (answer.status, answer.code())
}

#[test]
fn a_host_is_there_once_and_is_one() {
    let setup = setup("");
    for good in ["host: x\r\n", "host: \r\n", "host: [::1]:80\r\n", "Host: localhost:20000\r\n"] {
        assert_eq!(setup.with_headers(good).status, 200, "{good}");
    }
    for bad in [
        "",
        "host: x\r\nhost: x\r\n",
        "host: a b\r\n",
        "host: u@x\r\n",
        "host: x:y\r\n",
        "host: x/y\r\n",
        "host: :80\r\n",
        "host: [x]\r\n",
    ] {
        let answer = setup.with_headers(bad);
        assert_eq!(error_of(&answer), (400, "bad_request".into()), "{bad}");
        assert!(answer.body.contains("Host"), "{answer:?}");
    }
    // HTTP/1.0 had none.
    let old =
        format!("POST /{SERVICE}/echo HTTP/1.0\r\n{STRING}\r\ncontent-length: 3\r\n\r\n\"a\"");
    assert_eq!(setup.answer(&old).status, 200);
    let twice = old.replace("1.0\r\n", "1.0\r\nhost: x\r\nhost: y\r\n");
    assert_eq!(setup.answer(&twice).status, 400);
}

#[test]
fn a_body_is_plain_or_chunked_once() {
    let setup = setup("");
    let answer = |coding: &str| {
        setup.answer(&format!(
            "POST /{SERVICE}/echo HTTP/1.1\r\nhost: x\r\n{STRING}\r\n{coding}\r\n\r\n3\r\n\"a\"\r\n0\r\n\r\n"
        ))
    };
    for good in
        ["transfer-encoding: chunked", "Transfer-Encoding: Chunked", "transfer-encoding: , chunked"]
    {
        assert_eq!(answer(good).status, 200, "{good}");
    }
    for unknown in ["identity, chunked", "gzip, chunked", "gzip,chunked", "x;q=1, chunked"] {
        let answer = answer(&format!("transfer-encoding: {unknown}"));
        assert_eq!(error_of(&answer), (501, "not_implemented".into()), "{unknown}");
        assert!(answer.head.contains("connection: close"), "{answer:?}");
    }
    for twice in [
        "transfer-encoding: chunked, chunked",
        "transfer-encoding: chunked\r\ntransfer-encoding: chunked",
    ] {
        assert_eq!(error_of(&answer(twice)), (400, "bad_request".into()), "{twice}");
    }
    let split = answer("transfer-encoding: gzip\r\ntransfer-encoding: chunked");
    assert_eq!(split.status, 501);
}

#[test]
fn a_head_is_as_long_as_the_limit_and_no_longer() {
    let setup = setup("max_head_bytes = 16384");
    let head_of = |len: usize| {
        let rest = request("/x/y", &["x-pad: "], "").len();
        request("/x/y", &[&format!("x-pad: {}", "y".repeat(len - rest))], "")
    };
    assert_eq!(head_of(16_384).len(), 16_384);
    assert_eq!(setup.answer(&head_of(16_384)).status, 404);
    for len in [16_385, 17_000, 40_000] {
        let answer = setup.answer(&head_of(len));
        assert_eq!(error_of(&answer), (431, "head_too_large".into()), "{len}");
        assert!(answer.body.contains("is over the limit (max_head_bytes)"), "{answer:?}");
    }
    let long = format!("x-pad: {}", "y".repeat(20_000));
    let slow_field = format!("a: {}", "b".repeat(100));
    for (fields, said) in [
        (vec!["a: b"; 200], "has more than 100 headers"),
        // It comes in several reads.
        (vec![&*slow_field; 110], "has more than 100 headers"),
        (vec![&*long], "is over the limit (max_head_bytes)"),
        (vec!["content-length: 1", "Content-Length: 2"], "content-length must be one whole number"),
        (vec!["content-length: +1"], "content-length must be one whole number"),
        (vec!["transfer-encoding: foo"], "transfer-encoding of a request must end in chunked"),
        (vec!["a b: c"], "the head of the request is not HTTP"),
        (vec!["a: b", " c"], "a header goes on in a second line (obs-fold)"),
    ] {
        let fields: String = fields.iter().map(|field| format!("{field}\r\n")).collect();
        let answer = setup.answer(&format!("POST /x/y HTTP/1.1\r\nhost: a\r\n{fields}\r\n"));
        assert!(answer.body.contains(said), "{said}: {answer:?}");
    }
    for (head, said) in [
        (
            "POST /x/y HTTP/1.0\r\ntransfer-encoding: chunked\r\n\r\n",
            "transfer-encoding needs HTTP/1.1",
        ),
        ("POST /x/y HTTP/1.2\r\nhost: x\r\n\r\n", "the version of HTTP is unknown"),
    ] {
        let answer = setup.answer(head);
        assert_eq!(error_of(&answer), (400, "bad_request".into()), "{head:?}");
        assert!(answer.body.contains(said), "{said}: {answer:?}");
    }
    for nonsense in
        ["POST\r\n\r\n", "\x16\x03\x01\x02\r\n\r\n", "POST / HTTP/3.7\r\nhost: x\r\n\r\n"]
    {
        let answer = setup.answer(nonsense);
        assert_eq!(error_of(&answer), (400, "bad_request".into()), "{nonsense:?}");
    }
    // Also behind a request that was good.
    let mut http = Http::to(&setup.agent);
    http.send(request(&format!("/{SERVICE}/nothing"), &[], "[]"));
    assert_eq!(http.read().status, 200);
    http.send("nonsense\r\n\r\n");
    assert_eq!(error_of(&http.read()), (400, "bad_request".into()));
}

/// What is no UTF-8 would be called with other values than those that were meant.
#[test]
fn a_body_is_utf8_and_goes_where_its_form_is_read() {
    let setup = setup("");
    let form = format!("interface={SERVICE}&method=echo&parameterTypesString=Ljava/lang/String;");
    let form_type = "content-type: application/x-www-form-urlencoded";
    let text = format!("{form}&parameter=a");
    let path = format!("/{SERVICE}/echo");
    let marked_form = format!("\u{feff}{text}");
    let broken = format!("{form}&parameter=%fc");
    let latin1 = "content-type: application/x-www-form-urlencoded; charset=ISO-8859-1";
    let latin1_json = "content-type: application/json; charset=iso-8859-1";
    for (path, headers, body) in [
        ("/", vec![form_type], &*text),
        ("/", vec![latin1], &text),
        ("/", vec![form_type], &broken),
        (&path, vec![STRING, latin1_json], "[\"%fc\"]"),
        ("/", vec!["content-type: application/x-www-form-urlencoded; charset=UTF-8"], &text),
        ("/", vec![], &marked_form),
        (&path, vec![STRING, "content-type: application/json;charset=us-ascii"], "[\"a\"]"),
        (&path, vec![STRING, form_type], "[\"a\"]"),
        (&path, vec![STRING], "\u{feff}[\"a\"]"),
        (&path, vec![STRING, "content-encoding: Identity"], "[\"a\"]"),
        (&path, vec![STRING, "content-encoding: "], "[\"a\"]"),
    ] {
        let answer = setup.answer(&request(path, &headers, body));
        assert_eq!(answer.status, 200, "{headers:?} {body:?}: {answer:?}");
    }
    let escaped = format!("{form}&parameter=%c3%BC");
    let utf16 = "content-type: application/json; charset=utf-16";
    let json = "content-type: application/json";
    for (path, headers, body, status, code, said) in [
        ("/", vec![latin1], &*escaped, 415, "unsupported_media_type", "charset \\\"iso-8859-1\\\""),
        (&path, vec![latin1_json], "[\"\u{fc}\"]", 415, "unsupported_media_type", "iso-8859-1"),
        (&path, vec![utf16], "[]", 415, "unsupported_media_type", "charset \\\"utf-16\\\""),
        ("/", vec![json], "[1]", 400, "bad_request", "says JSON, which goes to /INTERFACE/METHOD"),
        (&path, vec![form_type], "parameter=1", 400, "bad_request", "forms go to /"),
    ] {
        let answer = setup.answer(&request(path, &headers, body));
        assert_eq!(error_of(&answer), (status, code.into()), "{headers:?} {body:?}");
        assert!(answer.body.contains(said), "{said}: {answer:?}");
    }
}

#[test]
fn refusals_are_short_and_say_what_is_allowed() {
    let setup = setup("max_head_bytes = 131072");
    let long = "X".repeat(60_000);
    let method = setup.answer(&format!("{long} /a/b HTTP/1.1\r\nhost: x\r\n\r\n"));
    assert_eq!(error_of(&method), (405, "method_not_allowed".into()));
    assert!(method.head.contains("allow: post\r\n"), "{}", method.head);
    assert!(method.body.len() < 1000, "{} bytes", method.body.len());
    for (headers, status) in [
        (format!("content-encoding: {long}"), 415),
        (format!("x-dubbo-timeout-ms: {long}"), 400),
        (format!("x-dubbo-generic: {long}"), 400),
        (format!("x-dubbo-json: {long}=1"), 400),
        (format!("x-dubbo-parameter-types: {long}<"), 400),
        (format!("x-dubbo-attachments: {{\"{long}\":1}}"), 400),
        (format!("x-dubbo-attachments: {{\"a\":\"{long}"), 400),
    ] {
        let answer = setup.answer(&request(&format!("/{SERVICE}/echo"), &[&headers], "[1]"));
        assert_eq!(answer.status, status, "{headers:.40}");
        assert!(answer.body.len() < 5000, "{headers:.40}: {} bytes", answer.body.len());
    }
    for path in [format!("/{long}"), format!("/{long}/x"), format!("/{SERVICE}/{long}")] {
        let answer = setup.answer(&request(&path, &[], "[1]"));
        assert!(answer.status < 500 && answer.body.len() < 5000, "{} bytes", answer.body.len());
    }
}

#[test]
fn pages_of_other_sites_are_refused() {
    let setup = setup("hosts = ['mesh.example']");
    let is_refused = |headers: &str, part: &str| {
        let answer = setup.with_headers(headers);
        assert_eq!(error_of(&answer), (403, "cross_site".into()), "{headers}");
        assert!(answer.body.contains(part), "{answer:?}");
        assert!(!answer.head.contains("access-control"), "{answer:?}");
    };
    for other in [
        "host: 127.0.0.1:20000\r\norigin: http://evil.example\r\n",
        "host: 127.0.0.1:20000\r\norigin: http://127.0.0.1:3000\r\n",
        "host: 127.0.0.1:20000\r\norigin: null\r\n",
        "host: 127.0.0.1:20000\r\norigin: null\r\nsec-fetch-site: cross-site\r\n",
        "host: 127.0.0.1:20000\r\norigin: http://127.0.0.1:20000\r\nsec-fetch-site: cross-site\r\n",
        "host: localhost\r\nsec-fetch-site: same-site\r\n",
        "host: localhost\r\norigin: http://localhost\r\nsec-fetch-site: nonsense\r\n",
    ] {
        is_refused(other, "origins of [ingress.cors]");
    }
    // A page whose server has given its own name to this machine's address.
    for rebound in [
        "host: evil.example:20000\r\norigin: http://evil.example:20000\r\n",
        "host: evil.example:20000\r\norigin: http://evil.example:20000\r\nsec-fetch-site: same-origin\r\n",
        "host: evil.example\r\nsec-fetch-site: none\r\n",
    ] {
        is_refused(rebound, "hosts of this [[ingress]]");
    }
    for own in [
        "host: 127.0.0.1:20000\r\norigin: http://127.0.0.1:20000\r\n",
        "host: [::1]:20000\r\norigin: http://[::1]:20000\r\n",
        "host: localhost:20000\r\norigin: http://localhost:20000\r\nsec-fetch-site: same-origin\r\n",
        "host: localhost:20000\r\nsec-fetch-site: none\r\n",
        "host: mesh.example\r\norigin: https://mesh.example\r\n",
        // A proxy before the agent has put another name in place of the page's.
        "host: 127.0.0.1:20000\r\norigin: https://shop.example\r\nsec-fetch-site: same-origin\r\n",
    ] {
        assert_eq!(setup.with_headers(own).status, 200, "{own}");
    }
    // No browser: any name, any type of body, none of it said.
    for plain in [
        "host: x\r\n",
        "host: agent.shop\r\ncontent-type: text/plain\r\n",
        "host: x\r\ncontent-type: application/x-www-form-urlencoded\r\nuser-agent: curl/8\r\n",
        "host: x\r\nsec-fetch-mode: cors\r\n",
    ] {
        assert_eq!(setup.with_headers(plain).status, 200, "{plain}");
    }
    let form = format!(
        "interface={SERVICE}&method=echo&parameterTypesString=Ljava/lang/String;&parameter=a"
    );
    let headers =
        ["origin: http://evil.example", "content-type: application/x-www-form-urlencoded"];
    assert_eq!(setup.answer(&request("/", &headers, &form)).status, 403);
    assert_eq!(setup.answer(&request("/", &headers[1..], &form)).status, 200);
    // What it is asked for is no question without CORS.
    let preflight = "OPTIONS / HTTP/1.1\r\nhost: x\r\norigin: http://evil.example\r\n\
                     access-control-request-method: POST\r\n\r\n";
    assert_eq!(setup.answer(preflight).status, 403);
    assert_eq!(setup.answer("OPTIONS / HTTP/1.1\r\nhost: x\r\n\r\n").status, 405);
}

#[test]
fn pages_of_configured_origins_may_call() {
    let setup = setup(
        "[ingress.cors]\norigins = ['https://Shop.example', 'null']\nheaders = ['x-tenant']\n\
         max_age_s = 7\ncredentials = true",
    );
    let preflight = |origin: &str| {
        setup.answer(&format!(
            "OPTIONS /{SERVICE}/echo HTTP/1.1\r\nhost: evil.example\r\norigin: {origin}\r\n\
             access-control-request-method: POST\r\naccess-control-request-private-network: true\r\n\
             access-control-request-headers: content-type,x-dubbo-attachment-a, X-Tenant,x-other\r\n\r\n"
        ))
    };
    let asked = preflight("https://shop.example");
    assert_eq!((asked.status, &*asked.body), (204, ""));
    for line in [
        "access-control-allow-origin: https://shop.example\r\n",
        "access-control-allow-methods: post\r\n",
        "access-control-allow-headers: content-type, x-dubbo-attachment-a, x-tenant\r\n",
        "access-control-allow-credentials: true\r\n",
        "access-control-allow-private-network: true\r\n",
        "access-control-max-age: 7\r\n",
        "vary: origin\r\n",
    ] {
        assert!(asked.head.contains(line), "{line} in {}", asked.head);
    }
    let refused = preflight("https://evil.example");
    assert_eq!(error_of(&refused), (403, "cross_site".into()));
    assert!(!refused.head.contains("access-control") && refused.head.contains("vary: origin\r\n"));

    let page = "host: x\r\norigin: https://shop.example\r\nsec-fetch-site: cross-site\r\n";
    let answer = setup.with_headers(page);
    assert_eq!((answer.status, &*answer.body), (200, "\"a\""));
    for line in [
        "access-control-allow-origin: https://shop.example\r\n",
        "vary: origin\r\n",
        "access-control-allow-credentials: true\r\n",
        "access-control-expose-headers: retry-after, x-dubbo-attachments,",
    ] {
        assert!(answer.head.contains(line), "{line} in {}", answer.head);
    }
    // It may read what went wrong, too.
    let wrong = setup.with_headers(&format!("{page}x-dubbo-timeout-ms: soon\r\n"));
    assert_eq!(wrong.status, 400);
    assert!(wrong.head.contains("access-control-allow-origin: https://shop.example\r\n"));
    assert_eq!(setup.with_headers("host: x\r\norigin: null\r\n").status, 200);
    assert_eq!(setup.with_headers("host: x\r\norigin: https://shop.example.evil\r\n").status, 403);
    let plain = setup.with_headers("host: x\r\n");
    assert!(plain.status == 200 && !plain.head.contains("access-control"), "{plain:?}");
}

#[test]
fn pages_of_all_origins_may_call_if_that_is_wanted() {
    let setup = setup("[ingress.cors]\norigins = ['*']");
    let answer = setup
        .with_headers("host: x\r\norigin: https://any.example\r\nsec-fetch-site: cross-site\r\n");
    assert_eq!(answer.status, 200);
    assert!(answer.head.contains("access-control-allow-origin: *\r\n"), "{}", answer.head);
    assert!(!answer.head.contains("credentials"), "{}", answer.head);
}

/// Straight, and through a provider's agent.
#[test]
fn attachments_have_case_and_type() {
    let setup = setup("");
    check_attachments(&setup.agent);
    let (hub, _exporting) = beside_an_agent(&setup.provider);
    check_attachments(&consumer(&hub, ""));
}

/// A provider's agent, and the registry that lists it alone: what consumers call passes it.
fn beside_an_agent(provider: &FakeProvider) -> (MemoryHub, Agent) {
    let hub = MemoryHub::new();
    let exporting = provider_agent(&hub, provider.addr);
    wait_until("its registration", || (!hub.urls().is_empty()).then_some(()));
    (hub, exporting)
}

#[test]
fn a_provider_is_told_how_much_time_is_left() {
    let attached = |agent: &Agent, limit: &str| {
        let types = "x-dubbo-parameter-types: ";
        let limit = format!("x-dubbo-timeout-ms: {limit}");
        let answer = call(agent, "attached", &[types, &limit], "[]");
        assert_eq!(answer.status, 200, "{answer:?}");
        serde_json::from_str::<Value>(&answer.body).unwrap()
    };
    let left = |attached: &Value| attached["_TO"].as_str().map(|ms| ms.parse::<u32>().unwrap());
    let untold = "\n[defaults]\ntell_time_left = false";
    let straight = setup("");
    let ms = left(&attached(&straight.agent, "20000")).unwrap();
    assert!((1..=20_000).contains(&ms), "{ms}");
    let silent = setup(untold);
    assert_eq!(left(&attached(&silent.agent, "20000")), None);
    let (hub, _exporting) = beside_an_agent(&straight.provider);
    let (agent, silent) = (consumer(&hub, ""), consumer(&hub, untold));
    let ms = left(&attached(&agent, "30000")).unwrap();
    assert!((1..=30_000).contains(&ms), "{ms}");
    let untold = attached(&silent, "30000");
    assert_eq!(left(&untold), None, "the caller's agent says so, over a link, too: {untold}");
    assert!(!untold.to_string().contains("dubmesh."), "the app has no use for it: {untold}");
    // Who knows better may say so.
    let types = "x-dubbo-parameter-types: ";
    let answer = call(&agent, "attached", &[types, "x-dubbo-attachments: {\"_TO\":\"7\"}"], "[]");
    let attached: Value = serde_json::from_str(&answer.body).unwrap();
    assert_eq!(attached["_TO"], "7", "{attached}");
}

fn check_attachments(agent: &Agent) {
    let types = "x-dubbo-parameter-types: ";
    let object = r#"x-dubbo-attachments: {"traceId":"abc","n":5,"big":7000000000,"half":0.5,"yes":true,"gr\u00f6\u00dfe":"ü"}"#;
    let headers = [types, object, "x-dubbo-attachment-Colour: red", "x-dubbo-attachment-n: 1"];
    let answer = call(agent, "attached", &headers, "[]");
    assert_eq!(answer.status, 200, "{answer:?}");
    let attached: Value = serde_json::from_str(&answer.body).unwrap();
    for (name, expected) in [
        ("traceId", json!("abc")),
        ("n", json!(5)),
        ("big", json!(7_000_000_000_i64)),
        ("half", json!(0.5)),
        ("yes", json!(true)),
        ("größe", json!("ü")),
        // A header's name has no case.
        ("colour", json!("red")),
        ("interface", json!(SERVICE)),
    ] {
        assert_eq!(attached[name], expected, "{name} in {attached}");
    }
    for (header, part) in [
        ("x-dubbo-attachments: [1]", "not a JSON object"),
        ("x-dubbo-attachments: {\"a\":[1]}", "must be a string"),
        ("x-dubbo-attachments: {\"path\":\"com.acme.Other\"}", "reserved"),
        ("x-dubbo-attachment-path: com.acme.Other", "reserved"),
        ("x-dubbo-attachment-Group: x", "x-dubbo-service-group"),
        ("x-dubbo-attachment-: x", "invalid attachment name"),
    ] {
        let answer = call(agent, "attached", &[types, header], "[]");
        assert_eq!(error_of(&answer), (400, "bad_request".into()), "{header}");
        assert!(answer.body.contains(part), "{answer:?}");
    }
    let mut http = Http::to(agent);
    let answer = http.post(&format!("/{SERVICE}/attach"), &[STRING], "[\"x\"]");
    assert_eq!(answer.status, 200, "{answer:?}");
    // (The tests' client makes all of a head small.)
    let expected =
        "x-dubbo-attachments: {\"shadeof\":\"gr\\u00fcn\",\"count\":5,\"late\":true}\r\n";
    assert!(answer.head.contains(expected), "{}", answer.head);
    assert!(answer.head.contains("x-dubbo-attachment-shadeof: grün\r\n"), "{}", answer.head);
    assert!(!answer.head.contains("x-dubbo-attachment-count"), "{}", answer.head);
    let plain = call(agent, "echo", &[STRING], "[\"x\"]");
    assert!(!plain.head.contains("attachment"), "{}", plain.head);
}

#[test]
fn an_exception_has_members() {
    let setup = setup("");
    let answer = call(&setup.agent, "fail", &["x-dubbo-parameter-types: "], "[]");
    let error: Value = serde_json::from_str(&answer.body).unwrap();
    let expected = json!({
        "class": "com.acme.Oops", "message": "it broke", "cause": null, "fields": {"code": 4001},
    });
    assert_eq!((answer.status, &error["exception"]), (500, &expected), "{answer:?}");
    assert_eq!(error["message"], "com.acme.Oops: it broke");
    let other = call(&setup.agent, "echo", &[STRING], "[]");
    assert!(!other.body.contains("exception"), "{other:?}");
}
