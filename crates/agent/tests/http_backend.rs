//! What an HTTP app gets and what becomes of its answers, call by call and byte by byte.

mod support;

use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use agent::backend::{AppCall, HttpApp};
use agent::call::{Outcome, Reply};
use agent::config::{self, AppConfig};
use agent::error::CallError;
use agent::upstream::{Setup, Standing};
use dubbo_proto::{BodyLimits, Reply as DubboReply, ReplyKind, Serialization, Status};
use hessian::{Decoder, Encoder, Limits, Value};
use support::http_app::{AppRequest, Does, TestApp};
use support::{PATIENCE, SERVICE};

/// The app behind an export with these further lines, for the time of `test`.
fn with(app: &TestApp, lines: &str, test: impl AsyncFnOnce(Rc<HttpApp>)) {
    let text = format!(
        "[admin]\nenabled = false\n[[registry]]\nkind = \"etcd\"\n[link]\nlisten = \"127.0.0.1:0\"\n\
         [[export]]\ninterface = \"{SERVICE}\"\nversion = \"1.2\"\ngroup = \"blue\"\n\
         app = \"http://{}\"\n{lines}",
        app.addr
    );
    let config = config::parse(&text, "test.toml").unwrap_or_else(|error| panic!("{error}"));
    let export = &config.exports[0];
    let AppConfig::Http(http) = &export.app else { panic!("no HTTP app") };
    let setup = Setup {
        connect_timeout: Duration::from_secs(1),
        max_in_flight: 100,
        max_reply_len: 1 << 20,
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    tokio::task::LocalSet::new().block_on(&runtime, async {
        test(HttpApp::start(&export.service, Arc::clone(http), setup)).await;
    });
}

/// One call.
struct Call<'a> {
    method: &'a str,
    descriptor: &'a str,
    serialization: Serialization,
    args: Vec<u8>,
    attachments: &'a [(&'a str, &'a str)],
    timeout: Duration,
}

impl<'a> Call<'a> {
    fn new(method: &'a str, descriptor: &'a str, args: &[Value]) -> Self {
        let mut bytes = Vec::new();
        let mut encoder = Encoder::new(&mut bytes);
        args.iter().for_each(|arg| encoder.value(arg));
        Self {
            method,
            descriptor,
            serialization: Serialization::Hessian2,
            args: bytes,
            attachments: &[],
            timeout: PATIENCE,
        }
    }

    fn fastjson(mut self, args: &str) -> Self {
        (self.serialization, self.args) = (Serialization::Fastjson, args.into());
        self
    }

    async fn make(self, app: &Rc<HttpApp>) -> Outcome {
        let now = Instant::now();
        let call = AppCall {
            method: self.method,
            descriptor: self.descriptor,
            serialization: self.serialization,
            args: self.args.into(),
            attachments: self.attachments,
            takes_attachments: true,
            now,
            deadline: now + self.timeout,
        };
        let (done, outcome) = tokio::sync::oneshot::channel();
        app.call(&call, move |outcome| drop(done.send(outcome)));
        outcome.await.unwrap()
    }
}

/// The kind of a reply, its value and its attachments.
fn read(reply: &Reply) -> (ReplyKind, Value, Vec<(String, String)>) {
    let decoded = DubboReply::decode(reply.serialization, Status::Ok, &reply.body).unwrap();
    let DubboReply::Done(outcome) = decoded else { panic!("no result") };
    let limits = BodyLimits::default();
    let value = match (outcome.kind(), outcome.serialization()) {
        (ReplyKind::Null, _) => Value::Null,
        (_, Serialization::Hessian2) => {
            Decoder::new(outcome.value_and_rest(), Limits::default()).read_value().unwrap()
        }
        _ => Value::string(std::str::from_utf8(outcome.value(&limits).unwrap()).unwrap()),
    };
    (outcome.kind(), value, outcome.attachments(&limits).unwrap())
}

fn value(outcome: Outcome) -> Value {
    let (kind, value, _) = read(&outcome.unwrap());
    assert_ne!(kind, ReplyKind::Exception, "{value:?}");
    value
}

fn name(error: &CallError) -> &'static str {
    error.code.row().name
}

const USER: &str = "[[export.class]]\nname = 'com.acme.User'\n\
    fields = { born = 'java.util.Date', color = 'com.acme.Color', friends = \
    'java.util.List<com.acme.User>', balance = 'java.math.BigDecimal' }\n";

#[test]
fn arguments_find_their_places() {
    let app = TestApp::start(|_| Does::json("null"));
    let lines = "headers = { x-token = 'abc' }\n\
        [[export.method]]\nname = 'find'\ntypes = ['long']\nparams = ['id']\npath = 'GET /users/{id}'\n\
        [[export.method]]\nname = 'find'\ntypes = ['java.lang.String', 'java.util.List<java.lang.Integer>']\n\
        path = 'GET /users?name={0}&age={1}'\nheaders = { x-own = '1' }\n\
        [[export.method]]\nname = 'replace'\ntypes = ['long', 'com.acme.User']\nparams = ['id', 'user']\n\
        path = 'PUT /users/{id}'\nbody = 'single'\n\
        [[export.method]]\nname = 'add'\ntypes = ['int', 'int']\nparams = ['left', 'right']\n\
        path = '/add'\nbody = 'object'\n\
        [[export.method]]\nname = 'remove'\npath = 'DELETE /users/{0}'\n\
        [[export.method]]\nname = 'rest'\npath = '/rest/{0}'\n\
        [[export.class]]\nname = 'com.acme.User'\nfields = {}\n";
    let user = Value::object("com.acme.User", vec![("name", Value::string("Zoë"))]);
    let ages = Value::list(vec![Value::Int(3), Value::Int(4)]);
    let cases = [
        ("find", "J", vec![Value::Long(7)], "GET", "/users/7", ""),
        (
            "find",
            "Ljava/lang/String;Ljava/util/List;",
            vec![Value::string("a b&c"), ages],
            "GET",
            "/users?name=a%20b%26c&age=3&age=4",
            "",
        ),
        (
            "replace",
            "JLcom/acme/User;",
            vec![Value::Long(7), user],
            "PUT",
            "/users/7",
            r#"{"name":"Zoë"}"#,
        ),
        (
            "add",
            "II",
            vec![Value::Int(1), Value::Int(2)],
            "POST",
            "/add",
            r#"{"left":1,"right":2}"#,
        ),
        ("remove", "Ljava/lang/Long;", vec![Value::Long(9)], "DELETE", "/users/9", ""),
        ("rest", "IZ", vec![Value::Int(1), Value::Bool(true)], "POST", "/rest/1", "[true]"),
    ];
    with(&app, lines, async |http| {
        for (method, descriptor, args, verb, path, body) in cases {
            let outcome = Call::new(method, descriptor, &args).make(&http).await;
            assert_eq!(value(outcome), Value::Null);
            let AppRequest { method: seen, path: seen_path, body: seen_body, .. } = app.last();
            assert_eq!((&*seen, &*seen_path, &*seen_body), (verb, path, body));
            assert_eq!(app.last().header("x-token"), Some("abc"));
            assert_eq!(app.last().header("x-own").is_some(), path.contains('?'));
            assert_eq!(app.last().header("content-type").is_some(), !body.is_empty());
        }
    });
}

#[test]
fn attachments_and_the_trace_are_headers() {
    let app = TestApp::start(|_| {
        let headers = ["x-dubbo-attachment-colour: red", "x-other: 1"];
        Does::Answer(200, headers.map(Into::into).to_vec(), "1".into())
    });
    with(&app, "timeout_ms = 700", async |http| {
        let mut call = Call::new("a", "", &[]);
        call.attachments = &[
            ("path", "x"),
            ("userId", "7"),
            ("traceparent", "00-1-2-01"),
            ("remote.application", "shop"),
            ("snow", "☃"),
            ("bad name", "1"),
            ("bad-value", "a\nb"),
        ];
        let (kind, value, attachments) = read(&call.make(&http).await.unwrap());
        assert_eq!((kind, value), (ReplyKind::Value, Value::Int(1)));
        assert_eq!(attachments, [("colour".to_owned(), "red".to_owned())]);
        let request = app.last();
        for (name, expected) in [
            ("x-dubbo-attachment-userid", Some("7")),
            ("x-dubbo-attachment-snow", Some("☃")),
            ("x-dubbo-attachment-path", None),
            ("x-dubbo-attachment-bad-value", None),
            ("traceparent", Some("00-1-2-01")),
            ("x-dubbo-remote-application", Some("shop")),
            ("x-dubbo-service-version", Some("1.2")),
            ("x-dubbo-service-group", Some("blue")),
            ("x-dubbo-parameter-types", Some("")),
            ("x-dubbo-timeout-ms", Some("700")),
            ("host", Some(&*app.addr.to_string())),
        ] {
            assert_eq!(request.header(name), expected, "{name}");
        }
    });
}

#[test]
fn results_have_their_types() {
    let app = TestApp::start(|request| {
        Does::json(request.path.rsplit('/').next().map_or("", |it| match it {
            "user" => {
                r#"{"name":"A","born":"1970-01-01T00:00:00.007Z","color":"RED",
            "friends":[{"born":5}],"balance":1.50}"#
            }
            "void" => "not even JSON",
            "empty" => "",
            "float" => "1.5",
            _ => "7",
        }))
    });
    let lines = format!(
        "{USER}\
        [[export.method]]\nname = 'user'\ntypes = []\npath = '/user'\nreturns = 'com.acme.User'\n\
        [[export.method]]\nname = 'int'\ntypes = []\npath = '/int'\nreturns = 'int'\n\
        [[export.method]]\nname = 'long'\ntypes = []\npath = '/long'\nreturns = 'java.lang.Long'\n\
        [[export.method]]\nname = 'bool'\ntypes = []\npath = '/int'\nreturns = 'boolean'\n\
        [[export.method]]\nname = 'void'\ntypes = []\npath = '/void'\nreturns = 'void'\n\
        [[export.method]]\nname = 'empty'\ntypes = []\npath = '/empty'\nreturns = 'com.acme.User'\n\
        [[export.method]]\nname = 'none'\ntypes = []\npath = '/empty'\nreturns = 'int'\n"
    );
    with(&app, &lines, async |http| {
        let call = async |method| Call::new(method, "", &[]).make(&http).await;
        let Value::Object { class, fields } = value(call("user").await) else {
            panic!("no object")
        };
        assert_eq!((&*class.name, fields.len()), ("com.acme.User", 5));
        assert_eq!(fields[1], Value::Date(7));
        let color = Value::object("com.acme.Color", vec![("name", Value::string("RED"))]);
        assert_eq!(fields[2], color);
        let friend = Value::object("com.acme.User", vec![("born", Value::Date(5))]);
        assert_eq!(fields[3], Value::list(vec![friend]));
        assert!(
            matches!(&fields[4], Value::Object { class, .. } if class.name == "java.math.BigDecimal")
        );
        assert_eq!(value(call("int").await), Value::Int(7));
        assert_eq!(value(call("long").await), Value::Long(7));
        assert_eq!(
            (value(call("void").await), value(call("empty").await)),
            (Value::Null, Value::Null)
        );
        for (method, said) in [("bool", "no boolean"), ("none", "null, which is no int")] {
            let error = call(method).await.unwrap_err();
            assert_eq!(name(&error), "bad_reply");
            assert!(error.message.contains(said), "{error}");
            assert_eq!(error.endpoint.as_deref(), Some(&*app.addr.to_string()));
        }
    });
}

#[test]
fn errors_become_what_the_table_says() {
    let app = TestApp::start(|request| {
        let status = request.path.strip_prefix("/status/").unwrap().parse().unwrap();
        match status {
            418 => Does::Answer(
                418,
                vec!["x-dubbo-exception: com.acme.Teapot".into(), "x-dubbo-attachment-a: b".into()],
                "\"short\"".into(),
            ),
            502 => Does::Answer(502, vec![], String::new()),
            status => Does::status(status, r#"{"message":"it broke","code":42,"status":1}"#),
        }
    });
    let lines = "errors = { 404 = 'null', 409 = 'com.acme.Conflict', '4xx' = 'com.acme.Bad', 503 = 'busy', 504 = 'timeout', 501 = 'failed' }\n\
        [[export.method]]\nname = 'status'\ntypes = ['int']\npath = 'GET /status/{0}'\nreturns = 'int'\n\
        errors = { 410 = 'null' }\n";
    with(&app, lines, async |http| {
        let call = async |status| Call::new("status", "I", &[Value::Int(status)]).make(&http).await;
        let thrown = |class: &str, text: &str, code| {
            let mut fields = vec![("detailMessage", Value::string(text))];
            fields.extend(Some(("code", Value::Int(42))).filter(|_| code));
            Value::object(class, fields)
        };
        for (status, expected) in [
            (409, thrown("com.acme.Conflict", "it broke", true)),
            (422, thrown("com.acme.Bad", "it broke", true)),
            (500, thrown("java.lang.RuntimeException", "it broke", false)),
            (418, thrown("com.acme.Teapot", "short", false)),
            (302, thrown("java.lang.RuntimeException", "it broke", false)),
        ] {
            let (kind, value, _) = read(&call(status).await.unwrap());
            assert_eq!((kind, value), (ReplyKind::Exception, expected), "{status}");
        }
        let (_, bad_gateway, _) = read(&call(502).await.unwrap());
        let said = "the app answered with HTTP status 502 Bad Gateway";
        assert_eq!(bad_gateway, thrown("java.lang.RuntimeException", said, false));
        let (_, _, attachments) = read(&call(418).await.unwrap());
        assert_eq!(attachments.len(), 1);
        assert_eq!(value(call(404).await), Value::Null);
        assert_eq!(value(call(410).await), Value::Null);
        for (status, expected, code) in [
            (503, Status::ServerThreadpoolExhausted, "thread_pool_exhausted"),
            (504, Status::ServerTimeout, "timeout"),
            (501, Status::ServiceError, "provider_error"),
        ] {
            let error = call(status).await.unwrap_err();
            assert_eq!((error.provider_status, name(&error)), (Some(expected), code));
            assert_eq!(&*error.message, "it broke");
        }
    });
}

#[test]
fn fastjson_is_read_and_written_by_the_types() {
    let app = TestApp::start(|request| match &*request.path {
        "/fail" => Does::status(500, "oops"),
        _ => Does::json("{\"born\":\n 7}"),
    });
    let lines = format!(
        "{USER}\
        [[export.method]]\nname = 'save'\ntypes = ['com.acme.User', 'java.util.Date']\npath = '/save'\n\
        returns = 'com.acme.User'\n\
        [[export.method]]\nname = 'fail'\npath = '/fail'\n"
    );
    let descriptor = "Lcom/acme/User;Ljava/util/Date;";
    with(&app, &lines, async |http| {
        let args = "{\"@type\":\"com.acme.User\",\"born\":0,\"name\":\"A\"}\n7";
        let outcome = Call::new("save", descriptor, &[]).fastjson(args).make(&http).await;
        assert_eq!(value(outcome), Value::string("{\"born\": 7}"));
        let expected =
            r#"[{"born":"1970-01-01T00:00:00.000Z","name":"A"},"1970-01-01T00:00:00.007Z"]"#;
        assert_eq!(app.last().body, expected);

        let mut sized = Call::new("save", descriptor, &[]);
        sized.serialization = Serialization::FastjsonSized;
        sized.args = b"\0\0\0\x02{}\0\0\0\x04null".to_vec();
        assert_eq!(value(sized.make(&http).await), Value::string("{\"born\": 7}"));
        assert_eq!(app.last().body, "[{},null]");

        // A consumer's fastjson cannot make an exception.
        let error = Call::new("fail", "", &[]).fastjson("").make(&http).await.unwrap_err();
        assert_eq!(error.provider_status, Some(Status::ServiceError));
        assert_eq!(&*error.message, "java.lang.RuntimeException: oops");
    });
}

#[test]
fn what_dubbo_answers_itself() {
    let app = TestApp::start(|request| Does::json(request.body.clone()));
    let lines = "[[export.method]]\nname = 'one'\ntypes = ['int']\npath = '/one'\n\
        [[export.method]]\nname = 'two'\ntypes = ['int']\npath = '/two'\n\
        [[export.method]]\nname = 'two'\ntypes = ['java.lang.String']\npath = '/two'\n";
    with(&app, lines, async |http| {
        let object = "Ljava/lang/Object;";
        let echo = Call::new("$echo", object, &[Value::string("hi")]).make(&http).await;
        assert_eq!(value(echo), Value::string("hi"));
        let echo = Call::new("$echo", object, &[]).fastjson("{\"a\":1}").make(&http).await;
        assert_eq!(value(echo), Value::string("{\"a\":1}"));
        assert!(app.requests().is_empty());

        for (method, descriptor, said) in [
            ("none", "I", "NoSuchMethodException: com.acme.Hello.none(int); the app has one(int)"),
            ("one", "J", "NoSuchMethodException: com.acme.Hello.one(long); the app has one(int)"),
        ] {
            let error =
                Call::new(method, descriptor, &[Value::Int(1)]).make(&http).await.unwrap_err();
            assert_eq!(
                (name(&error), error.provider_status),
                ("method_not_found", Some(Status::ServiceError))
            );
            assert!(error.message.contains(said), "{error}");
        }
        let error = Call::new("../one", "", &[]).make(&http).await.unwrap_err();
        assert_eq!(name(&error), "bad_request");
        let error = Call::new("one", "I", &[]).make(&http).await.unwrap_err();
        assert_eq!(name(&error), "bad_arguments");
    });
}

const GENERIC: &str = "Ljava/lang/String;[Ljava/lang/String;[Ljava/lang/Object;";

/// The three arguments of a generic call.
fn generic(method: &str, types: Option<&[&str]>, args: Vec<Value>) -> Vec<Value> {
    let list = |ty: &str, items| Value::List { ty: Some(ty.into()), items };
    let types = types.map(|types| types.iter().map(|ty| Value::string(ty)).collect());
    let types = types.map_or(Value::Null, |types| list("[string", types));
    vec![Value::string(method), types, list("[object", args)]
}

#[test]
fn generic_calls() {
    let app = TestApp::start(|request| match &*request.path {
        "/fail" => Does::status(500, "oops"),
        _ => Does::json(r#"{"name":"B","born":7,"color":"RED","friends":[{"name":"C"}]}"#),
    });
    let lines = format!(
        "{USER}\
        [[export.method]]\nname = 'save'\ntypes = ['com.acme.User']\npath = '/save'\nbody = 'single'\n\
        returns = 'com.acme.User'\n\
        [[export.method]]\nname = 'echo'\ntypes = ['int']\npath = '/echo'\n\
        [[export.method]]\nname = 'echo'\ntypes = ['long']\npath = '/echo'\n\
        [[export.method]]\nname = 'fail'\npath = '/fail'\n"
    );
    let entry = |name: &str, value| (Value::string(name), value);
    let user = Value::map(vec![
        entry("class", Value::string("com.acme.User")),
        entry("name", Value::string("A")),
        entry("born", Value::Date(7)),
    ]);
    let saved = Value::map(vec![
        entry("class", Value::string("com.acme.User")),
        entry("name", Value::string("B")),
        entry("born", Value::Date(7)),
        entry("color", Value::string("RED")),
        entry(
            "friends",
            Value::list(vec![Value::map(vec![
                entry("class", Value::string("com.acme.User")),
                entry("name", Value::string("C")),
            ])]),
        ),
    ]);
    with(&app, &lines, async |http| {
        let call = async |args: Vec<Value>, attachments| {
            let mut call = Call::new("$invoke", GENERIC, &args);
            call.attachments = attachments;
            call.make(&http).await
        };
        for types in [None, Some(&["com.acme.User"][..])] {
            let args = generic("save", types, vec![user.clone()]);
            assert_eq!(value(call(args, &[("generic", "true")]).await), saved);
            assert_eq!(app.last().body, r#"{"name":"A","born":"1970-01-01T00:00:00.007Z"}"#);
        }
        let text = Value::string(r#"{"name":"A"}"#);
        let args = generic("save", Some(&["com.acme.User"]), vec![text]);
        let Value::String(text) = value(call(args, &[("generic", "gson")]).await) else {
            panic!("no text")
        };
        assert!(text.starts_with(r#"{"name":"B""#), "{text}");
        assert_eq!(app.last().body, r#"{"name":"A"}"#);

        let raw =
            call(generic("save", None, vec![user.clone()]), &[("generic", "raw.return")]).await;
        assert!(matches!(value(raw), Value::Object { class, .. } if class.name == "com.acme.User"));

        let (kind, thrown, _) = read(&call(generic("fail", None, vec![]), &[]).await.unwrap());
        let Value::Object { class, fields } = thrown else { panic!("no exception") };
        assert_eq!(
            (kind, &*class.name),
            (ReplyKind::Exception, "org.apache.dubbo.rpc.service.GenericException")
        );
        assert_eq!(fields[1..], ["java.lang.RuntimeException", "oops"].map(Value::string));

        let unique = "Not unique method for method name(echo)";
        for (args, attachments, code, said) in [
            (generic("echo", None, vec![Value::Int(1)]), &[][..], "bad_arguments", unique),
            (
                generic("echo", Some(&["byte"]), vec![]),
                &[],
                "method_not_found",
                "has echo(int), echo(long)",
            ),
            (
                generic("echo", Some(&["int"]), vec![]),
                &[],
                "bad_arguments",
                "takes 1 argument(s), 0",
            ),
            (generic("save", None, vec![Value::Int(1)]), &[], "bad_arguments", "argument 0"),
            (
                generic("save", None, vec![]),
                &[("generic", "bean")],
                "provider_error",
                "generic=bean",
            ),
            (
                generic("save", None, vec![Value::Int(1)]),
                &[("generic", "gson")],
                "bad_arguments",
                "JSON texts",
            ),
        ] {
            let error = call(args, attachments).await.unwrap_err();
            assert_eq!(name(&error), code, "{error}");
            assert!(error.message.contains(said), "{error}");
        }
    });
}

#[test]
fn what_goes_wrong_on_the_way_is_told() {
    let app = TestApp::start(|request| match request.path.rsplit('/').next().unwrap() {
        "hang" => Does::Hang,
        "garbage" => Does::Bytes(b"\x16\x03\x01 this is not HTTP\r\n\r\n".to_vec()),
        "close" => Does::Close(Vec::new()),
        "half" => Does::Close(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n[1".to_vec()),
        "long" => Does::json("1".repeat(2000)),
        "chunks" => Does::Bytes(
            [
                &b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"[..],
                &b"190\r\n"[..],
                &[b'1'; 400],
                b"\r\n190\r\n",
                &[b'1'; 400],
                b"\r\n190\r\n",
                &[b'1'; 400],
                b"\r\n0\r\n\r\n",
            ]
            .concat(),
        ),
        "text" => Does::Answer(200, vec!["content-type: text/html".into()], "<p>hello</p>".into()),
        "gzip" => Does::Answer(200, vec!["content-encoding: gzip".into()], "x".into()),
        _ => Does::json("[true]"),
    });
    with(&app, "max_answer_bytes = 1000", async |http| {
        for (method, code, said) in [
            ("hang", "timeout", "no answer before the deadline"),
            ("garbage", "bad_reply", "invalid HTTP"),
            ("close", "connection_broken", "closed"),
            ("half", "connection_broken", ""),
            ("long", "reply_too_large", "limit of 1000 bytes"),
            ("chunks", "reply_too_large", "limit of 1000 bytes"),
            ("text", "bad_reply", "it begins \"<p>hello</p>\""),
            ("gzip", "bad_reply", "encoded (gzip)"),
        ] {
            let mut call = Call::new(method, "", &[]);
            call.timeout = if method == "hang" { Duration::from_millis(100) } else { PATIENCE };
            let error = call.make(&http).await.unwrap_err();
            assert_eq!(name(&error), code, "{method}: {error}");
            assert!(error.message.contains(said), "{method}: {error}");
            assert_eq!(error.endpoint.as_deref(), Some(&*app.addr.to_string()));
            // What broke one connection does not disturb the next call.
            let outcome = Call::new("fine", "", &[]).make(&http).await;
            assert_eq!(value(outcome), Value::list(vec![Value::Bool(true)]));
        }
    });
}

#[test]
fn fastjson2_is_read_and_written_by_the_types() {
    let app = TestApp::start(|request| match &*request.path {
        "/fail" => Does::status(500, "oops"),
        _ => Does::json(r#"{"born":7}"#),
    });
    let lines = format!(
        "{USER}[[export.method]]\nname = 'save'\ntypes = ['java.lang.String', 'java.util.Date']\n\
         path = '/save'\nreturns = 'com.acme.User'\n\
         [[export.method]]\nname = 'fail'\npath = '/fail'\n"
    );
    with(&app, &lines, async |http| {
        let call = |method: &'static str, descriptor: &'static str, args: Vec<u8>| {
            let mut call = Call::new(method, descriptor, &[]);
            (call.serialization, call.args) = (Serialization::Fastjson2, args);
            call
        };
        let mut args = Vec::new();
        let write: [fn(&mut jsonb::Encoder<'_>); 2] = [|it| it.string("A"), |it| it.date_ms(7)];
        for write in write {
            let mut text = Vec::new();
            write(&mut jsonb::Encoder::new(&mut text));
            args.extend_from_slice(&u32::try_from(text.len()).unwrap().to_be_bytes());
            args.extend_from_slice(&text);
        }
        let descriptor = "Ljava/lang/String;Ljava/util/Date;";
        let reply = call("save", descriptor, args.clone()).make(&http).await.unwrap();
        assert_eq!(app.last().body, r#"["A","1970-01-01T00:00:00.007Z"]"#);
        let json = agent::reply::json_of(&reply).unwrap();
        assert_eq!(String::from_utf8(json).unwrap(), r#"{"born":"1970-01-01T00:00:00.007Z"}"#);
        let thrown = call("fail", "", Vec::new()).make(&http).await.unwrap();
        let thrown = agent::reply::json_of(&thrown).unwrap_err();
        assert!(thrown.message.starts_with("java.lang.RuntimeException"), "{thrown}");
        args.truncate(3);
        let error = call("save", descriptor, args).make(&http).await.unwrap_err();
        assert_eq!(name(&error), "bad_arguments");
    });
}

#[test]
fn exceptions_have_causes() {
    let error = r#"{"message":"a","code":7,"cause":{"class":"com.acme.Disk","message":"b","free":0,
        "cause":{"class":"java.io.IOException"}}}"#;
    let app = TestApp::start(move |_| Does::status(500, error));
    with(&app, "errors = { 5xx = 'com.acme.Broken' }", async |http| {
        let (kind, thrown, _) = read(&Call::new("m", "", &[]).make(&http).await.unwrap());
        assert_eq!(kind, ReplyKind::Exception);
        let thrown_of = |class: &str, message: &str, more: Vec<(&str, Value)>| {
            let fields = [vec![("detailMessage", Value::string(message))], more].concat();
            Value::object(class, fields)
        };
        let root = thrown_of("java.io.IOException", "", vec![]);
        let disk = thrown_of("com.acme.Disk", "b", vec![("cause", root), ("free", Value::Int(0))]);
        let broken = vec![("cause", disk), ("code", Value::Int(7))];
        assert_eq!(thrown, thrown_of("com.acme.Broken", "a", broken));
        let mut call = Call::new("m", "", &[]);
        call.serialization = Serialization::Fastjson2;
        let error = agent::reply::json_of(&call.make(&http).await.unwrap()).unwrap_err();
        assert_eq!(&*error.message, "com.acme.Broken: a");
    });
}

#[test]
fn a_byte_order_mark_says_nothing() {
    let app = TestApp::start(|_| Does::json("\u{feff}7"));
    with(&app, "", async |http| {
        assert_eq!(value(Call::new("m", "", &[]).make(&http).await), Value::Int(7));
        assert_eq!(app.last().header("accept-encoding"), Some("identity"));
    });
}

#[test]
fn text_is_a_string_where_one_is_returned() {
    let app = TestApp::start(|_| {
        Does::Answer(200, vec!["content-type: text/plain".into()], "say \"hi\"".into())
    });
    let lines = "[[export.method]]\nname = 'hi'\npath = '/hi'\nreturns = 'java.lang.String'\n";
    with(&app, lines, async |http| {
        let outcome = Call::new("hi", "", &[]).make(&http).await;
        assert_eq!(value(outcome), Value::string("say \"hi\""));
    });
}

#[test]
fn connections_are_kept_and_their_end_is_noticed() {
    let app = TestApp::start(|request| match &*request.path {
        "/last" => Does::AnswerAndClose("1".into()),
        "/said" => Does::Close(
            b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 1\r\n\r\n1".to_vec(),
        ),
        _ => Does::json("1"),
    });
    let lines = "idle_timeout_ms = 60000\nhealth_interval_ms = 3600000\n\
        [[export.method]]\nname = 'get'\npath = 'GET /get'\n\
        [[export.method]]\nname = 'last'\npath = 'GET /last'\n\
        [[export.method]]\nname = 'said'\npath = '/said'\n\
        [[export.method]]\nname = 'post'\npath = '/post'\n";
    with(&app, lines, async |http| {
        let call = async |method| {
            assert_eq!(value(Call::new(method, "", &[]).make(&http).await), Value::Int(1));
        };
        let count = || app.n_connections.load(std::sync::atomic::Ordering::SeqCst);
        for _ in 0..10 {
            call("post").await;
        }
        // One of them is the health check's.
        assert!(count() <= 2, "{}", count());
        for n in 1..=5 {
            call("said").await;
            call("post").await;
            assert!(count() <= 2 + n, "{} of {n}", count());
        }
        // The connection ends while the next request is on its way, or not.
        for _ in 0..50 {
            call("last").await;
            call("get").await;
        }
    });
}

#[test]
fn many_calls_share_few_connections() {
    let app = TestApp::start(|request| {
        std::thread::sleep(Duration::from_millis(2));
        Does::json(request.body.clone())
    });
    with(&app, "max_connections = 4\nhealth_interval_ms = 3600000", async |http| {
        let calls = (0..100).map(|n| {
            let http = Rc::clone(&http);
            async move { (n, Call::new("echo", "I", &[Value::Int(n)]).make(&http).await) }
        });
        for (n, outcome) in futures_util::future::join_all(calls).await {
            assert_eq!(value(outcome), Value::list(vec![Value::Int(n)]));
        }
        assert!(app.n_connections.load(std::sync::atomic::Ordering::SeqCst) <= 5);
    });
}

#[test]
fn what_finds_no_connection_is_refused() {
    let app = TestApp::start(|_| Does::Hang);
    with(&app, "max_connections = 1", async |http| {
        let calls = (0..101).map(|_| {
            let mut call = Call::new("hang", "", &[]);
            call.timeout = Duration::from_millis(200);
            call.make(&http)
        });
        let mut said: Vec<(&str, String)> = futures_util::future::join_all(calls)
            .await
            .into_iter()
            .map(|outcome| outcome.unwrap_err())
            .map(|error| (name(&error), error.message.to_string()))
            .collect();
        said.sort();
        said.dedup();
        let expected = [
            ("overloaded", "100 calls are in flight"),
            ("overloaded", "all 1 connections were busy until the deadline"),
            ("timeout", "no answer before the deadline"),
        ];
        assert_eq!(said, expected.map(|(code, text)| (code, text.to_owned())));
    });
}

#[test]
fn a_call_that_is_given_up_takes_its_connection_with_it() {
    let app = TestApp::start(|_| Does::Hang);
    with(&app, "health_interval_ms = 3600000", async |http| {
        let now = Instant::now();
        let call = AppCall {
            method: "hang",
            descriptor: "",
            serialization: Serialization::Hessian2,
            args: Default::default(),
            attachments: &[],
            takes_attachments: true,
            now,
            deadline: now + PATIENCE,
        };
        let (done, outcome) = tokio::sync::oneshot::channel();
        let handle = http.call(&call, move |outcome| drop(done.send(outcome))).unwrap();
        let until = async |what: &dyn Fn() -> bool| {
            while !what() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        until(&|| !app.requests().is_empty()).await;
        let before = app.n_closed.load(std::sync::atomic::Ordering::SeqCst);
        handle.abort();
        assert_eq!(name(&outcome.await.unwrap().unwrap_err()), "cancelled");
        until(&|| before < app.n_closed.load(std::sync::atomic::Ordering::SeqCst)).await;
    });
}

#[test]
fn health_is_what_the_app_says() {
    let is_well = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let said = Arc::clone(&is_well);
    let app = TestApp::start(move |request| match &*request.path {
        "/healthz?deep=1" if said.load(std::sync::atomic::Ordering::SeqCst) => Does::json("1"),
        _ => Does::status(503, ""),
    });
    let lines = "health = '/healthz?deep=1'\nhealth_interval_ms = 1\nhealth_failures = 3";
    with(&app, lines, async |http| {
        let until = async |standing| {
            while http.health().standing() != standing {
                http.health().changed().await;
            }
        };
        assert_eq!(http.health().standing(), Standing::Connecting);
        until(Standing::Down).await;
        is_well.store(true, std::sync::atomic::Ordering::SeqCst);
        until(Standing::Ready).await;
        let before = app.requests().len();
        is_well.store(false, std::sync::atomic::Ordering::SeqCst);
        until(Standing::Down).await;
        assert!(before + 3 <= app.requests().len());
    });
}
