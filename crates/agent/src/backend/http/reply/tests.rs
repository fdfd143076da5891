//! What an app's answer becomes.

use bytes::Bytes;
use http::{HeaderName, HeaderValue};

use super::*;
use crate::config::http_app::method::Statuses;

fn answer(
    status: u16,
    headers: &[(&'static str, &'static str)],
    body: &'static str,
) -> WholeResponse {
    let pair = |&(name, value): &(&'static str, &'static str)| {
        (HeaderName::from_static(name), HeaderValue::from_static(value))
    };
    WholeResponse {
        status: StatusCode::from_u16(status).unwrap(),
        headers: headers.iter().map(pair).collect(),
        body: Bytes::from_static(body.as_bytes()),
        hold: None,
    }
}

/// Writes replies for a plain call of a method that returns `returns`.
fn with_form<T>(
    returns: Option<&str>,
    errors: &StatusTable,
    test: impl FnOnce(&ReplyForm<'_>) -> T,
) -> T {
    let returns = returns.map(|name| JavaType::parse(name).unwrap());
    test(&ReplyForm {
        serialization: Serialization::Hessian2,
        takes_attachments: true,
        mode: Mode::Plain,
        returns: returns.as_ref(),
        errors,
        classes: &Classes::default(),
        max_len: dubbo_proto::DEFAULT_PAYLOAD_LIMIT,
    })
}

fn value(returns: &str, answer: &WholeResponse) -> Result<ReplyKind, CallError> {
    with_form(Some(returns), &StatusTable::default(), |form| {
        form.value(answer).map(|done| done.kind)
    })
}

#[test]
fn the_message_of_an_error_is_looked_for_in_order() {
    for (body, expected) in [
        (r#"{"title":"t","detail":"d","error":"e","message":"m"}"#, "m"),
        (r#"{"title":"t","detail":"d","error":"e"}"#, "e"),
        (r#"{"title":"t","detail":"d"}"#, "d"),
        (r#"{"message":7,"title":"t"}"#, "t"),
        (r#"{"message":"","error":"real"}"#, "real"),
        ("\u{feff}{\"message\":\"marked\"}", "marked"),
        ("\u{feff}\"marked\"", "marked"),
        (r#""text""#, "text"),
        ("  plain words \n", "plain words"),
        (r#"{"code":7}"#, r#"{"code":7}"#),
        ("", "the app answered with HTTP status 404 Not Found"),
        (r#"{"message":" "}"#, "the app answered with HTTP status 404 Not Found"),
    ] {
        assert_eq!(message(&answer(404, &[], body)), expected, "{body}");
    }
}

/// A compressed body is bytes of rubbish to read.
#[test]
fn a_message_is_text() {
    let packed = |body| message(&answer(422, &[("content-encoding", "gzip")], body));
    let text = "the app answered with HTTP status 422 Unprocessable Entity";
    assert_eq!(packed(""), text);
    let expected =
        "; its body is encoded (gzip, 3 bytes), although the request accepts only identity";
    assert_eq!(packed("\u{1f}\u{8b}"), format!("{text}{expected}"));
    assert_eq!(message(&answer(422, &[("content-encoding", "identity")], "no")), "no");
    let mut binary = answer(422, &[], "");
    binary.body = vec![0x1f, 0x8b, 8, 0].into();
    assert_eq!(message(&binary), format!("{text}; its body (4 bytes) is no UTF-8 text"));
}

/// What the text of an answer is, or why it is not read.
fn text_of(content_type: &'static str, body: &'static [u8]) -> Result<String, String> {
    let mut answer = answer(200, &[("content-type", content_type)], "");
    answer.body = body.into();
    let json = with_form(Some("java.lang.String"), &StatusTable::default(), |form| {
        form.json_of(&answer).map(Cow::into_owned)
    });
    let json = json.map_err(|error| error.message.to_string())?;
    Ok(JsonReader::new(&json, Limits::default()).read_string().unwrap().into_owned())
}

#[test]
fn text_is_read_by_its_charset() {
    for (content_type, body, expected) in [
        ("Text/Plain", &b"hello"[..], "hello"),
        ("text/plain", b"\xef\xbb\xbfmarked", "marked"),
        ("text/plain; charset=UTF-8", b"\xc3\xbc", "\u{fc}"),
        ("text/plain; charset=us-ascii", b"a", "a"),
        ("text/plain; charset=ISO-8859-1", b"\xfcml", "\u{fc}ml"),
    ] {
        assert_eq!(text_of(content_type, body).as_deref(), Ok(expected), "{content_type}");
    }
    let refusal = |content_type, body| text_of(content_type, body).unwrap_err();
    let refused = "the app's answer cannot be read as text: it ";
    assert_eq!(refusal("text/plain", b"\xfc"), format!("{refused}is no UTF-8 text"));
    let expected = format!("{refused}has charset \"utf-16\"; send utf-8");
    assert_eq!(refusal("text/plain;charset=utf-16", b"a\0b\0"), expected);
}

#[test]
fn an_error_is_read_by_its_charset() {
    let mut error = answer(404, &[("content-type", "text/plain; charset=ISO-8859-1")], "");
    error.body = b"\xfcber".as_slice().into();
    assert_eq!(message(&error), "\u{fc}ber");
    let error = answer(404, &[("content-type", "text/plain; charset=utf-16")], "a\0");
    let expected = "; its body (2 bytes) has charset \"utf-16\"; send utf-8";
    assert!(message(&error).ends_with(expected), "{}", message(&error));
}

/// A byte order mark hides nothing that follows it.
#[test]
fn an_exception_behind_a_mark_has_its_fields() {
    let plain = answer(500, &[], r#"{"message":"m","code":7,"cause":{"class":"a.B"}}"#);
    let marked =
        answer(500, &[], "\u{feff}{\"message\":\"m\",\"code\":7,\"cause\":{\"class\":\"a.B\"}}");
    let rule = (Statuses::parse("500").unwrap(), ErrorRule::Exception("a.Bad".into()));
    let errors = StatusTable { rules: [rule].into() };
    let written = |answer| with_form(None, &errors, |form| form.failure(answer).unwrap().value);
    assert_eq!(written(&marked), written(&plain));
}

#[test]
fn a_long_message_is_cut_between_characters() {
    let mut long = answer(500, &[], "");
    long.body = format!("{}\u{e9}", "x".repeat(MAX_MESSAGE_LEN - 1)).into();
    assert_eq!(message(&long).len(), MAX_MESSAGE_LEN - 1);
}

#[test]
fn nothing_is_no_number() {
    for nothing in ["", "null", " null "] {
        let answer = answer(200, &[], nothing);
        assert_eq!(value("java.lang.Integer", &answer).unwrap(), ReplyKind::Null, "{nothing:?}");
        let error = value("int", &answer).unwrap_err();
        assert_eq!(error.code, Code::BadReply);
        assert_eq!(&*error.message, "the app answered null; expected int");
    }
    // A method without a result may answer anything.
    assert_eq!(value("void", &answer(200, &[], "<p>done</p>")).unwrap(), ReplyKind::Null);
}

#[test]
fn text_is_a_string_only_where_a_string_is_returned() {
    let plain = answer(200, &[("content-type", "text/plain; charset=utf-8")], "hello");
    assert_eq!(value("java.lang.String", &plain).unwrap(), ReplyKind::Value);
    let error = value("java.lang.Object", &plain).unwrap_err();
    assert!(error.message.ends_with("it begins with \"hello\""), "{error}");
    let marked = answer(200, &[], "\u{feff}7");
    assert_eq!(value("int", &marked).unwrap(), ReplyKind::Value);
    let packed = answer(200, &[("content-encoding", "gzip")], "7");
    assert!(value("int", &packed).unwrap_err().message.contains("encoded (gzip)"));
    for encoding in ["identity", "Identity", ""] {
        assert!(value("int", &answer(200, &[("content-encoding", encoding)], "7")).is_ok());
    }
}

#[test]
fn the_table_of_errors_decides_unless_the_app_names_an_exception() {
    let rules = [
        ("404", ErrorRule::Null),
        ("429", ErrorRule::Status(DubboStatus::ServerThreadpoolExhausted)),
        ("4xx", ErrorRule::Exception("a.Bad".into())),
    ];
    let rules = rules.map(|(statuses, rule)| (Statuses::parse(statuses).unwrap(), rule));
    let errors = StatusTable { rules: rules.into() };
    let failure = |status, headers: &[(&'static str, &'static str)]| {
        let answer = answer(status, headers, "x");
        with_form(None, &errors, |form| form.failure(&answer).map(|done| done.kind))
    };
    assert_eq!(failure(404, &[]).unwrap(), ReplyKind::Null);
    let busy = failure(429, &[]).unwrap_err();
    assert_eq!(busy.provider_status, Some(DubboStatus::ServerThreadpoolExhausted));
    assert_eq!(failure(400, &[]).unwrap(), ReplyKind::Exception);
    assert_eq!(failure(500, &[]).unwrap(), ReplyKind::Exception, "without a rule");
    let named = failure(404, &[(EXCEPTION, "a.Missing")]);
    assert_eq!(named.unwrap(), ReplyKind::Exception);
    let nonsense = failure(404, &[(EXCEPTION, "not a class")]);
    assert_eq!(nonsense.unwrap(), ReplyKind::Null, "no such class");
}

#[test]
fn a_chain_of_causes_has_an_end() {
    let mut error = r#"{"class":"a.B"}"#.to_owned();
    for _ in 0..2 * MAX_CAUSES {
        error = format!(r#"{{"class":"a.B","cause":{error}}}"#);
    }
    let n_causes = with_form(None, &StatusTable::default(), |form| {
        let first = form.cause(error.as_bytes(), MAX_CAUSES);
        std::iter::successors(first.as_deref(), |thrown| thrown.cause.as_deref()).count()
    });
    assert_eq!(n_causes, MAX_CAUSES);
}

#[test]
fn fields_are_taken_for_classes_that_are_not_javas() {
    let error = br#"{"message":"m","status":4,"stackTrace":[],"code":7}"#;
    let names = |class: &str| {
        with_form(None, &StatusTable::default(), |form| {
            let fields = form.fields(class, error);
            fields.into_iter().map(|(name, _)| name.into_owned()).collect::<Vec<_>>()
        })
    };
    assert_eq!(names("com.acme.Missing"), ["code"]);
    assert_eq!(names("java.lang.RuntimeException"), [""; 0]);
}

#[test]
fn the_header_of_all_attachments_counts_more_than_one_of_its_own() {
    let all = answer(
        200,
        &[
            ("x-dubbo-attachment-a", "1"),
            ("x-dubbo-attachment-b", "2"),
            ("x-dubbo-attachment-", "3"),
            ("x-other", "4"),
        ],
        "",
    );
    let more = [("A".to_owned(), "5".to_owned())];
    let mut found = attachments(&all.headers, &more);
    found.sort_unstable();
    assert_eq!(found, [("A", "5"), ("b", "2")]);
}
