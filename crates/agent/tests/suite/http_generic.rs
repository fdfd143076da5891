//! Generic calls of an HTTP app: `$invoke` in the forms that Dubbo's consumers write.

use std::rc::Rc;

use crate::support::backend::{BackendCall, USER, name, read, value, with};
use crate::support::http_app::{Does, TestApp};
use agent::backend::HttpApp;
use agent::call::Outcome;
use dubbo_proto::ReplyKind;
use hessian::Value;

const GENERIC: &str = "Ljava/lang/String;[Ljava/lang/String;[Ljava/lang/Object;";

/// The three arguments of a generic call.
fn generic(method: &str, types: Option<&[&str]>, args: Vec<Value>) -> Vec<Value> {
    let list = |ty: &str, items| Value::List { ty: Some(ty.into()), items };
    let types = types.map(|types| types.iter().map(|ty| Value::string(ty)).collect());
    let types = types.map_or(Value::Null, |types| list("[string", types));
    vec![Value::string(method), types, list("[object", args)]
}

/// What [`GENERIC`] calls come to, with these attachments.
async fn invoke(http: &Rc<HttpApp>, args: Vec<Value>, attachments: &[(&str, &str)]) -> Outcome {
    let mut call = BackendCall::new("$invoke", GENERIC, &args);
    call.attachments = attachments;
    call.make(http).await
}

/// A map as a generic call writes an object.
fn map(entries: Vec<(&str, Value)>) -> Value {
    Value::map(entries.into_iter().map(|(name, value)| (Value::string(name), value)).collect())
}

/// A user as a generic call writes one.
fn user() -> Value {
    let class = Value::string("com.acme.User");
    map(vec![("class", class), ("name", Value::string("A")), ("born", Value::Date(7))])
}

/// An app with methods of one name, one that fails, and one that takes and returns a user.
fn app() -> (TestApp, String) {
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
    (app, lines)
}

#[test]
fn objects_are_maps() {
    let (app, lines) = app();
    let class = || ("class", Value::string("com.acme.User"));
    let friend = map(vec![class(), ("name", Value::string("C"))]);
    let saved = map(vec![
        class(),
        ("name", Value::string("B")),
        ("born", Value::Date(7)),
        ("color", Value::string("RED")),
        ("friends", Value::list(vec![friend])),
    ]);
    with(&app, &lines, async |http| {
        for types in [None, Some(&["com.acme.User"][..])] {
            let args = generic("save", types, vec![user()]);
            assert_eq!(value(invoke(&http, args, &[("generic", "true")]).await), saved);
            assert_eq!(app.last().body, r#"{"name":"A","born":"1970-01-01T00:00:00.007Z"}"#);
        }
    });
}

#[test]
fn results_are_texts_or_objects_where_that_is_asked_for() {
    let (app, lines) = app();
    with(&app, &lines, async |http| {
        let text = Value::string(r#"{"name":"A"}"#);
        let args = generic("save", Some(&["com.acme.User"]), vec![text]);
        let Value::String(text) = value(invoke(&http, args, &[("generic", "gson")]).await) else {
            panic!("no text")
        };
        assert!(text.starts_with(r#"{"name":"B""#), "{text}");
        assert_eq!(app.last().body, r#"{"name":"A"}"#);

        let args = generic("save", None, vec![user()]);
        let raw = value(invoke(&http, args, &[("generic", "raw.return")]).await);
        assert!(matches!(raw, Value::Object { class, .. } if class.name == "com.acme.User"));
    });
}

#[test]
fn exceptions_are_generic() {
    let (app, lines) = app();
    with(&app, &lines, async |http| {
        let outcome = invoke(&http, generic("fail", None, vec![]), &[]).await;
        let (kind, thrown, _) = read(&outcome.unwrap());
        let Value::Object { class, fields } = thrown else { panic!("no exception") };
        assert_eq!(
            (kind, &*class.name),
            (ReplyKind::Exception, "com.alibaba.dubbo.rpc.service.GenericException")
        );
        assert_eq!(fields[1..], ["java.lang.RuntimeException", "oops"].map(Value::string));
    });
}

#[test]
fn what_fits_no_method_is_refused() {
    let (app, lines) = app();
    with(&app, &lines, async |http| {
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
                &[("generic", "nativejava")],
                "provider_error",
                "generic=nativejava",
            ),
            (
                generic("save", None, vec![Value::Int(1)]),
                &[("generic", "gson")],
                "bad_arguments",
                "JSON strings",
            ),
        ] {
            let error = invoke(&http, args, attachments).await.unwrap_err();
            assert_eq!(name(&error), code, "{error}");
            assert!(error.message.contains(said), "{error}");
        }
    });
}
