//! What is read of a request.

use std::time::Duration;

use dubbo_proto::attachment::TYPED;
use http::{HeaderValue, Request};

use super::call_headers::{GENERIC, TIMEOUT, VERSION, parse_timeout};
use super::*;

fn head(headers: &[(&'static str, &'static str)]) -> Parts {
    let mut request = Request::new(());
    for &(name, value) in headers {
        request.headers_mut().append(name, HeaderValue::from_static(value));
    }
    request.into_parts().0
}

#[test]
fn a_timeout_is_a_whole_number_of_milliseconds() {
    let most = u64::from(u32::MAX);
    for (text, ms) in [
        ("1", 1),
        (" 250 ", 250),
        ("4294967295", most),
        ("4294967296", most),
        ("9223372036854775807", most),
        ("99999999999999999999999999999999999999999", most),
    ] {
        assert_eq!(parse_timeout(text).unwrap(), Duration::from_millis(ms), "{text}");
    }
    for text in ["0", "", "-1", "-99999999999", "1.5", "1e9", "0x10", "10s"] {
        let error = parse_timeout(text).unwrap_err();
        assert_eq!(error.code, Code::BadRequest, "{text}");
        assert!(error.message.ends_with("a whole number of at least 1"), "{error}");
    }
}

#[test]
fn the_first_header_of_a_name_counts() {
    let head = head(&[
        (VERSION, "1.0"),
        (VERSION, "2.0"),
        ("x-dubbo-attachment-a", "first"),
        ("x-dubbo-attachment-a", "second"),
        ("traceparent", "00-1-2-3"),
        ("cookie", "secret"),
    ]);
    let headers = CallHeaders::read(&head, true).unwrap();
    assert_eq!(headers.version, "1.0");
    let mut attachments = headers.attachments;
    attachments.sort_unstable();
    assert_eq!(attachments, [("a", "first"), ("traceparent", "00-1-2-3")]);
    let unread = CallHeaders::read(&head, false).unwrap();
    assert_eq!((unread.version, unread.attachments.len()), ("", 0));
}

#[test]
fn headers_that_cannot_be_meant_are_refused() {
    for (name, value) in [
        (GENERIC, "bean"),
        (TIMEOUT, "soon"),
        ("x-dubbo-attachment-path", "a.B"),
        ("x-dubbo-attachment-", "x"),
    ] {
        let head = head(&[(name, value)]);
        let error = CallHeaders::read(&head, true).err().map(|error| error.code);
        assert_eq!(error, Some(Code::BadRequest), "{name}");
    }
}

#[test]
fn the_json_object_of_attachments_counts_more_than_headers() {
    let head = head(&[("x-dubbo-attachment-a", "1"), ("x-dubbo-attachment-b", "2")]);
    let mut headers = CallHeaders::read(&head, true).unwrap();
    let more = [(format!("{TYPED}a"), "3".to_owned())];
    let typed = format!("{TYPED}a");
    assert_eq!(headers.all_attachments(&more), [("b", "2"), (&*typed, "3")]);
}
