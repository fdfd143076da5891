//! What an HTTP app gets and what becomes of its answers, call by call and byte by byte.

use crate::support::backend::{BackendCall, USER, name, read, value, with};
use crate::support::http_app::{AppRequest, Does, TestApp};
use dubbo_proto::{ReplyKind, Serialization, Status};
use hessian::Value;

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
            let outcome = BackendCall::new(method, descriptor, &args).make(&http).await;
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
        let mut call = BackendCall::new("a", "", &[]);
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
        let call = async |method| BackendCall::new(method, "", &[]).make(&http).await;
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
        for (method, said) in [("bool", "not boolean"), ("none", "null; expected int")] {
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
        [[export.method]]\nname = 'status'\ntypes = ['int']\npath = 'GET /status/{0}'\n\
        returns = 'java.lang.Integer'\nerrors = { 410 = 'null' }\n\
        [[export.method]]\nname = 'count'\ntypes = ['int']\npath = 'GET /status/{0}'\n\
        returns = 'int'\n";
    with(&app, lines, async |http| {
        let call =
            async |status| BackendCall::new("status", "I", &[Value::Int(status)]).make(&http).await;
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
        // Java would make 0 of it, as if the app had said so.
        let count = BackendCall::new("count", "I", &[Value::Int(404)]).make(&http).await;
        let error = count.unwrap_err();
        assert_eq!(name(&error), "bad_reply");
        assert_eq!(&*error.message, "the app answered 404, which means null here; expected int");
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
fn exceptions_have_causes() {
    let error = r#"{"message":"a","detailMessage":"c","suppressedExceptions":[],"code":7,
        "cause":{"class":"com.acme.Disk","message":"b","free":0,
        "cause":{"class":"java.io.IOException"}}}"#;
    let app = TestApp::start(move |_| Does::status(500, error));
    with(&app, "errors = { 5xx = 'com.acme.Broken' }", async |http| {
        let (kind, thrown, _) = read(&BackendCall::new("m", "", &[]).make(&http).await.unwrap());
        assert_eq!(kind, ReplyKind::Exception);
        let thrown_of = |class: &str, message: &str, more: Vec<(&str, Value)>| {
            let fields = [vec![("detailMessage", Value::string(message))], more].concat();
            Value::object(class, fields)
        };
        let root = thrown_of("java.io.IOException", "", vec![]);
        let disk = thrown_of("com.acme.Disk", "b", vec![("cause", root), ("free", Value::Int(0))]);
        let broken = vec![("cause", disk), ("code", Value::Int(7))];
        assert_eq!(thrown, thrown_of("com.acme.Broken", "a", broken));
        let mut call = BackendCall::new("m", "", &[]);
        call.serialization = Serialization::Fastjson2;
        let error = agent::reply::json_of(&call.make(&http).await.unwrap()).unwrap_err();
        assert_eq!(&*error.message, "com.acme.Broken: a");
    });
}

/// Those behind the eighth are left out.
#[test]
fn causes_end_somewhere() {
    let nested = |n: usize| {
        let cause = |n: usize| format!(r#","cause":{{"class":"com.acme.C{n}","message":"{n}""#);
        let causes: String = (1..=n).map(cause).collect();
        format!(r#"{{"message":"a"{causes}{}"#, "}".repeat(n + 1))
    };
    let app = TestApp::start(move |request| {
        Does::status(500, &nested(request.path.rsplit('/').next().unwrap().parse().unwrap()))
    });
    let lines = "[[export.method]]\nname = 'm'\ntypes = ['int']\npath = 'GET /m/{0}'\n";
    with(&app, lines, async |http| {
        for (n_told, n_taken) in [(7, 7), (8, 8), (9, 8), (40, 8)] {
            let call = BackendCall::new("m", "I", &[Value::Int(n_told)]);
            let (kind, mut thrown, _) = read(&call.make(&http).await.unwrap());
            assert_eq!(kind, ReplyKind::Exception);
            let mut classes = Vec::new();
            while let Value::Object { class, fields } = thrown {
                let cause = class.fields.iter().position(|name| name == "cause");
                classes.push(class.name.to_string());
                thrown = cause.map_or(Value::Null, |index| fields[index].clone());
            }
            let causes = (1..=n_taken).map(|n| format!("com.acme.C{n}"));
            let expected: Vec<_> =
                std::iter::once("java.lang.RuntimeException".into()).chain(causes).collect();
            assert_eq!(classes, expected, "{n_told}");
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
        let outcome = BackendCall::new("save", descriptor, &[]).fastjson(args).make(&http).await;
        assert_eq!(value(outcome), Value::string("{\"born\": 7}"));
        let expected =
            r#"[{"born":"1970-01-01T00:00:00.000Z","name":"A"},"1970-01-01T00:00:00.007Z"]"#;
        assert_eq!(app.last().body, expected);

        let mut sized = BackendCall::new("save", descriptor, &[]);
        sized.serialization = Serialization::FastjsonSized;
        sized.args = b"\0\0\0\x02{}\0\0\0\x04null".to_vec();
        assert_eq!(value(sized.make(&http).await), Value::string("{\"born\": 7}"));
        assert_eq!(app.last().body, "[{},null]");

        // A consumer's fastjson cannot make an exception.
        let error = BackendCall::new("fail", "", &[]).fastjson("").make(&http).await.unwrap_err();
        assert_eq!(error.provider_status, Some(Status::ServiceError));
        assert_eq!(&*error.message, "java.lang.RuntimeException: oops");
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
            let mut call = BackendCall::new(method, descriptor, &[]);
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
fn a_byte_order_mark_says_nothing() {
    let app = TestApp::start(|_| Does::json("\u{feff}7"));
    with(&app, "", async |http| {
        assert_eq!(value(BackendCall::new("m", "", &[]).make(&http).await), Value::Int(7));
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
        let outcome = BackendCall::new("hi", "", &[]).make(&http).await;
        assert_eq!(value(outcome), Value::string("say \"hi\""));
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
        let echo = BackendCall::new("$echo", object, &[Value::string("hi")]).make(&http).await;
        assert_eq!(value(echo), Value::string("hi"));
        let echo = BackendCall::new("$echo", object, &[]).fastjson("{\"a\":1}").make(&http).await;
        assert_eq!(value(echo), Value::string("{\"a\":1}"));
        for descriptor in ["", "II"] {
            let args = [Value::Int(1), Value::Int(2)];
            let args = &args[..descriptor.len()];
            let error = BackendCall::new("$echo", descriptor, args).make(&http).await.unwrap_err();
            assert_eq!(name(&error), "bad_arguments");
        }
        assert!(app.requests().is_empty());

        for (method, descriptor, said) in [
            ("none", "I", "NoSuchMethodException: com.acme.Hello.none(int); the app has one(int)"),
            ("one", "J", "NoSuchMethodException: com.acme.Hello.one(long); the app has one(int)"),
        ] {
            let error = BackendCall::new(method, descriptor, &[Value::Int(1)])
                .make(&http)
                .await
                .unwrap_err();
            assert_eq!(
                (name(&error), error.provider_status),
                ("method_not_found", Some(Status::ServiceError))
            );
            assert!(error.message.contains(said), "{error}");
        }
        let error = BackendCall::new("../one", "", &[]).make(&http).await.unwrap_err();
        assert_eq!(name(&error), "bad_request");
        let error = BackendCall::new("one", "I", &[]).make(&http).await.unwrap_err();
        assert_eq!(name(&error), "bad_arguments");
    });
}
