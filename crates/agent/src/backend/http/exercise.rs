//! What the fuzz targets and a test do with any bytes: a Dubbo request to an HTTP app becomes an
//! HTTP request, and what the app answers a Dubbo reply, which an agent in front of an HTTP caller
//! reads as JSON. None of it may panic, and what is written can be read again, as the same value.

use std::cell::LazyCell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use dubbo_proto::{
    BodyLimits, Outcome, Reply as DubboReply, ReplyKind, Request, Serialization,
    Status as DubboStatus,
};
use hessian::json::JsonReader;
use hessian::transcode::JsonOptions;
use hessian::{JavaType, Limits};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use http_body_util::BodyExt;
use tokio::task::LocalSet;

use super::HttpApp;
use super::bean;
use super::generic::Mode;
use super::pool::WholeResponse;
use super::reply::{ATTACHMENT, EXCEPTION, ReplyForm};
use crate::backend::{AppCall, AppMethod};
use crate::call::{Encoded, Times};
use crate::config::{AppConfig, ClusterPolicy};
use crate::error::Code;
use crate::upstream::Setup;

/// Methods with places for arguments wherever there are some.
const CONFIG: &str = "[[registry]]
kind = 'etcd'
[link]
listen = '127.0.0.1:1'
[[export]]
interface = 'a.B'
app = 'unix:/nowhere'
errors = { 404 = 'null', 409 = 'a.Conflict', 429 = 'busy' }
[[export.class]]
name = 'a.C'
fields = { at = 'java.util.Date', n = 'long', all = 'java.util.List<a.C>', by = 'java.util.Map<java.lang.Integer, a.C>' }
[[export.class]]
name = 'a.Conflict'
fields = { code = 'int' }
[[export.method]]
name = 'get'
types = ['long', 'java.lang.String', 'java.util.List']
params = ['id', 'name', 'tags']
path = 'GET /get/{id}/x-{1}?tag={tags}&q=a-{name}'
[[export.method]]
name = 'put'
types = ['a.C', 'java.lang.Object[]']
params = ['one', 'more']
path = 'PUT /put'
body = 'object'
returns = 'a.C'
[[export.method]]
name = 'post'
types = ['java.util.Map<java.lang.String, java.math.BigDecimal>']
path = '/post'
body = 'single'
returns = 'java.util.List<a.C>'
[[export.method]]
name = 'any'
path = '/any'
";
const METHODS: [(&str, &str); 6] = [
    ("get", "JLjava/lang/String;Ljava/util/List;"),
    ("put", "La/C;[Ljava/lang/Object;"),
    ("post", "Ljava/util/Map;"),
    ("any", "[B[JLjava/util/Date;La/E;D"),
    ("$invoke", "Ljava/lang/String;[Ljava/lang/String;[Ljava/lang/Object;"),
    ("$echo", "Ljava/lang/Object;"),
];
const GENERIC: [Option<&str>; 5] =
    [None, Some("true"), Some("gson"), Some("raw.return"), Some("bean")];
const MODES: [Mode; 5] = [Mode::Plain, Mode::Map, Mode::Raw, Mode::Gson, Mode::Bean(bean::CLASS)];
const STATUSES: [u16; 8] = [200, 201, 204, 302, 404, 409, 429, 500];

thread_local! {
    static APP: LazyCell<(Rc<HttpApp>, LocalSet)> = const { LazyCell::new(app) };
}

/// An app whose health nobody watches: the task that would is kept, and never runs.
fn app() -> (Rc<HttpApp>, LocalSet) {
    let tasks = LocalSet::new();
    let entered = tasks.enter();
    let config = crate::config::parse(CONFIG, "a.toml").expect("the configuration is good");
    let export = config.exports.first().expect("there is one");
    let AppConfig::Http(app) = &export.app else { unreachable!("it is an HTTP app") };
    let app =
        HttpApp::start(&export.service, app.clone(), Setup::new(&ClusterPolicy::default()), None);
    drop(entered);
    (app, tasks)
}

fn pick<T: Copy>(choices: &[T], number: u8) -> T {
    *choices.get(usize::from(number) % choices.len()).expect("a remainder")
}

/// Calls the app: by the first byte in one of the serializations. The rest is a whole request if
/// the second byte is over 127, and otherwise the arguments of the method that it picks. `now` is
/// any time.
pub fn call(data: &[u8], now: Instant) {
    let [how, which, data @ ..] = data else { return };
    let serialization = pick(&Serialization::WRITTEN, *how);
    let (body, args, attachments);
    let (mut name, mut descriptor) = pick(&METHODS, *which);
    let mut payload = Encoded { serialization, bytes: data };
    if 127 < *which {
        let (whole, limits) = (Bytes::copy_from_slice(data), BodyLimits::default());
        let Ok(request) = Request::decode(serialization, whole, &limits) else {
            return;
        };
        body = request;
        args = body.args_bytes();
        attachments = body.attachments().collect::<Vec<_>>();
        (name, descriptor) = (body.method(), body.descriptor());
        payload = Encoded { serialization: body.serialization(), bytes: &args };
    } else {
        let generic = pick(&GENERIC, how >> 4);
        attachments = generic.map(|mode| ("generic", mode)).into_iter().collect();
    }
    let call = AppCall {
        method: AppMethod { name, descriptor, takes_attachments: true },
        payload,
        attachments: &attachments,
        times: Times { now, deadline: now + Duration::from_secs(1) },
        one_way: false,
        clock: None,
        headers: None,
        not_at: None,
    };
    APP.with(|one| make(&one.0, &call));
}

fn make(app: &HttpApp, call: &AppCall<'_>) {
    if call.method.name == super::ECHO {
        if let Ok(reply) = app.echo(call) {
            let _ = crate::reply::json_of(&reply);
        }
        return;
    }
    let prepared = match app.prepare(call) {
        Ok(prepared) => prepared,
        Err(error) => return assert!(error.message.len() < MAX_MESSAGE_LEN, "{}", error.message),
    };
    let (head, body) = prepared.request.into_parts();
    assert!(head.uri.path().starts_with('/') && head.uri.authority().is_none(), "{}", head.uri);
    // The body is there at once.
    let body = std::pin::pin!(body.collect());
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    let std::task::Poll::Ready(Ok(body)) = body.poll(&mut context) else {
        unreachable!("the body is whole")
    };
    let body = body.to_bytes();
    if !body.is_empty() {
        let limits = Limits { max_len: usize::MAX, max_items: usize::MAX, max_depth: 200 };
        let mut reader = JsonReader::new(&body, limits);
        let is_json = reader.skip_value().is_ok() && reader.finish().is_ok();
        assert!(is_json, "not JSON: {}", body.escape_ascii());
    }
}

/// An error quotes some of what is wrong with a message, and not the message.
const MAX_MESSAGE_LEN: usize = 4096;

/// Answers a call: the first three bytes say in which serialization, for which kind of caller, and
/// with which status; lines say what the method returns, an exception's class and an attachment,
/// and the rest is the body.
pub fn answer(data: &[u8]) {
    let [how, status, flags, data @ ..] = data else { return };
    let mut parts = data.splitn(4, |byte| *byte == b'\n');
    let mut line = || parts.next().unwrap_or_default();
    let (returns, class, attachment, body) = (line(), line(), line(), line());
    let returns = std::str::from_utf8(returns).ok().and_then(|text| JavaType::parse(text).ok());
    let mut headers = HeaderMap::new();
    let names = [EXCEPTION.to_owned(), format!("{ATTACHMENT}key"), "content-type".to_owned()];
    let text: &[u8] = if flags & 1 == 0 { b"application/json" } else { b"text/plain" };
    for (name, value) in names.iter().zip([class, attachment, text]) {
        if let (Ok(name), Ok(value)) = (name.parse::<HeaderName>(), HeaderValue::from_bytes(value))
        {
            headers.insert(name, value);
        }
    }
    let status = StatusCode::from_u16(pick(&STATUSES, *status)).unwrap_or_default();
    let answer = WholeResponse { status, headers, body: Bytes::copy_from_slice(body), hold: None };
    let serialization = pick(&Serialization::WRITTEN, *how);
    // Calls for descriptors of beans are refused in fastjson, before there is an answer.
    let Ok(mode) = pick(&MODES, how >> 4).fitting(b"[]", serialization) else { return };
    APP.with(|one| {
        let app = &one.0;
        let form = ReplyForm {
            serialization,
            takes_attachments: flags & 2 == 0,
            mode,
            returns: returns.as_ref(),
            errors: &app.config().errors,
            classes: &app.config().classes,
            max_len: dubbo_proto::DEFAULT_PAYLOAD_LIMIT,
        };
        reply(&form, &answer);
    });
}

fn reply(form: &ReplyForm<'_>, answer: &WholeResponse) {
    let reply = match form.reply(answer) {
        Ok(reply) => reply,
        Err(error) => return assert!(error.message.len() <= 2 * super::reply::MAX_MESSAGE_LEN),
    };
    let decoded = DubboReply::decode(reply.serialization, DubboStatus::Ok, &reply.body);
    let Ok(DubboReply::Done(outcome)) = decoded else { panic!("our own reply is refused") };
    check_attachments(form, answer, &outcome);
    let read = crate::reply::json_of(&reply);
    match (outcome.kind(), read) {
        (ReplyKind::Exception, Err(error)) => {
            assert_ne!(error.code, Code::BadReply, "{}", error.message);
        }
        (ReplyKind::Null, Ok(json)) => assert_eq!(json, b"null"),
        (ReplyKind::Value, Ok(json)) => check_value(form, answer, &json),
        (kind, read) => panic!("{kind:?} was read as {read:?}"),
    }
}

fn check_attachments(form: &ReplyForm<'_>, answer: &WholeResponse, outcome: &Outcome<'_>) {
    let found = outcome.attachments(&BodyLimits::default()).expect("we wrote them");
    let name = format!("{ATTACHMENT}key");
    let sent = answer.headers.get(&name).filter(|_| form.takes_attachments);
    let sent = sent.and_then(|value| std::str::from_utf8(value.as_bytes()).ok());
    assert_eq!(found.first().map(|(_, value)| value.as_str()), sent);
}

/// Without a type, a value comes back as it was, unless something in it names a class.
fn check_value(form: &ReplyForm<'_>, answer: &WholeResponse, json: &[u8]) {
    let is_named = |text: &[u8]| {
        [b"class".as_slice(), b"@type", b"\\u"]
            .iter()
            .any(|word| memchr::memmem::find(text, word).is_some())
    };
    if form.returns.is_none() && form.mode == Mode::Plain && !is_named(&answer.body) {
        let body = crate::content::without_mark(&answer.body);
        let same = hessian::check::canonical(body) == hessian::check::canonical(json);
        assert!(same, "{} came back as {}", body.escape_ascii(), json.escape_ascii());
    }
}

/// A provider's reply as JSON: the first byte says in which serialization it is and how its caller
/// wants it.
pub fn provider_reply(data: &[u8]) {
    let [how, body @ ..] = data else { return };
    let serialization = pick(&Serialization::WRITTEN, *how);
    let body = Bytes::copy_from_slice(body);
    let reply = crate::call::ProviderReply::new(serialization, body, "here".into());
    let options =
        pick(&["", "class=yes", "longs=text; enums=object", "big-numbers=text"], how >> 4);
    let options = JsonOptions::parse(options).expect("options");
    let reader = crate::reply::ReplyReader::new(&reply, &options);
    if let Ok(json) = reader.json() {
        let limits = Limits { max_len: usize::MAX, max_items: usize::MAX, ..Limits::default() };
        let mut reader = JsonReader::new(&json, limits);
        let is_json = reader.skip_value().is_ok() && reader.finish().is_ok();
        assert!(is_json, "not JSON: {}", json.escape_ascii());
    }
    let _ = (reader.attachments(), reader.ignored_options());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn calls(data: &[u8]) {
        call(data, Instant::now());
    }

    #[test]
    fn requests_of_every_kind_are_made() {
        for frame in [
            &include_bytes!("../../../../dubbo-proto/vectors/java33_hessian2_variant_request.bin")
                [..],
            include_bytes!("../../../../dubbo-proto/vectors/java33_fastjson_variant_request.bin"),
            include_bytes!("../../../../dubbo-proto/vectors/java33_fastjson2_variant_request.bin"),
            include_bytes!("../../../../dubbo-proto/vectors/java27_fastjson_variant_request.bin"),
        ] {
            for how in 0..4 {
                calls(&[&[how, 255], &frame[16..]].concat());
            }
        }
        calls(b"\0\0\xe7\x01a\x79\x01b");
        calls(b"\x01\x007\n\"a\"\n[1,null]");
        calls(b"\x11\x04\"get\"\nnull\n[7,\"a\",[\"b\"]]");
        calls(b"\x01\x05{\"a\":1}");
    }

    #[test]
    fn answers_of_every_kind_are_written_and_read() {
        for how in (0..5).flat_map(|mode| (0..4).map(move |which| mode << 4 | which)) {
            for body in [
                &b"{\"n\":1.50,\"all\":[1e400,-0,null],\"\xc3\xa9\":\"\"}"[..],
                b"\xef\xbb\xbf[7, 12345678901234567890]",
                b"{\"message\":\"no\",\"cause\":{\"class\":\"a.Conflict\",\"code\":7}}",
                b"",
                b"no JSON",
            ] {
                for status in 0..8 {
                    let head = [how, status, 0];
                    answer(&[&head[..], b"\na.Conflict\nvalue\n", body].concat());
                    answer(&[&head[..], b"java.util.List<a.C>\n\n\n", body].concat());
                }
            }
        }
    }

    #[test]
    fn replies_of_providers_are_read() {
        for body in [
            &b"\x91\x01a"[..],
            b"1\n{\"@type\":\"a.B\",\"n\":1L}\n",
            b"\0\0\0\x021B\0\0\0\x11{\"@type\":\"a\",1:2L}",
            b"\0\0\0\x02\xbd\x01\0\0\0\x01\x07",
        ] {
            for how in 0..64 {
                provider_reply(&[&[how], body].concat());
            }
        }
    }
}
