use bytes::Bytes;
use dubbo_proto::Serialization;
use serde_json::{Value, json};

use super::*;
use crate::call::ProviderReply;

const CALLER: &str =
    "org.apache.dubbo.rpc.proxy.javassist.JavassistProxyFactory$1.doInvoke(J.java:47)";

fn failure(object: &Value) -> CallError {
    thrown(object.to_string().as_bytes())
}

fn described(error: &CallError) -> Value {
    serde_json::from_str(error.exception.as_deref().expect("an exception")).expect("JSON")
}

#[test]
fn a_method_that_was_not_begun_is_told_from_one_that_threw() {
    let cast = "java.lang.ClassCastException";
    let generated = "com.acme.OrdersImpl$sw3.invokeMethod(OrdersImpl$sw3.java)";
    let method = "com.acme.OrdersImpl.add(OrdersImpl.java:1)";
    for (class, frames, code) in [
        (cast, [generated, CALLER], Code::BadArguments),
        ("java.lang.NullPointerException", [generated, CALLER], Code::BadArguments),
        (cast, [method, generated], Code::Exception),
        // A method that has this name itself is called by what is generated, as any other.
        (cast, [generated, generated], Code::Exception),
        ("com.acme.Oops", [generated, CALLER], Code::Exception),
    ] {
        let error = failure(&json!({"class": class, "message": "no", "stackTrace": frames}));
        assert_eq!(error.code, code, "{class} {frames:?}");
    }
}

#[test]
fn a_generic_call_has_the_trace_in_its_message() {
    let wrapped = |frame: &str, message: Value| {
        let text = format!("x: no\nx: no\n\tat {frame}\n\tat {CALLER}");
        failure(&json!({
            "class": "com.alibaba.dubbo.rpc.service.GenericException", "detailMessage": text,
            "exceptionClass": "java.lang.ClassCastException", "exceptionMessage": message,
            "stackTrace": ["a.B.c(B.java:1)"],
        }))
    };
    let error = wrapped("a.BWrap1.invokeMethod(BWrap1.java)", "no".into());
    assert_eq!(error.code, Code::BadArguments);
    let error = wrapped("a.B.add(B.java:7)", "no".into());
    assert_eq!(
        (error.code, &*error.message),
        (Code::Exception, "java.lang.ClassCastException: no")
    );
    // An exception without a message has none: the trace is not a message.
    let error = wrapped("a.B.add(B.java:7)", Value::Null);
    assert_eq!(&*error.message, "java.lang.ClassCastException");
    let expected = json!({"class": "java.lang.ClassCastException", "message": null, "cause": null, "fields": {}});
    assert_eq!(described(&error), expected);
}

#[test]
fn what_dubbo_writes_behind_a_message_is_no_part_of_it() {
    for (message, expected) in [
        (
            "com.acme.Oops: no\ncom.acme.Oops: no\n\tat a.B.c(B.java:1)\nCaused by: x",
            "com.acme.Oops: no",
        ),
        (
            "com.acme.Oops\r\ncom.acme.Oops\r\n\tat a.B.c(B.java:1)",
            "com.acme.Oops\r\ncom.acme.Oops",
        ),
        ("two\nlines\ntwo\nlines\n\tat a", "two\nlines"),
        ("one\n\tat a", "one"),
        ("say\nsay", "say\nsay"),
    ] {
        let error = failure(&json!({"class": "java.lang.RuntimeException", "message": message}));
        assert_eq!(described(&error)["message"], expected);
    }
}

/// The exceptions of real providers: one with a field, and one with an object as its field and a
/// cause.
#[test]
fn exceptions_of_real_providers_have_class_message_cause_and_fields() {
    use Serialization::{Fastjson, Fastjson2, FastjsonSized, Hessian2};
    macro_rules! vector {
        ($name:literal) => {
            include_bytes!(concat!("../../../dubbo-proto/vectors/java", $name, "_response.bin"))
                .as_slice()
        };
    }
    let business = json!({
        "class": "org.dubmesh.interop.BusinessException", "message": "no luck", "cause": null,
        "fields": {"code": 42},
    });
    let unchecked = json!({
        "class": "java.lang.IllegalStateException", "message": "no state", "cause": null,
        "fields": {},
    });
    for (serialization, body, expected) in [
        (Hessian2, vector!("26_hessian2_fail"), &business),
        (Hessian2, vector!("27_hessian2_fail"), &business),
        (Hessian2, vector!("33_hessian2_fail"), &business),
        (Fastjson2, vector!("32_fastjson2_fail"), &business),
        (Fastjson2, vector!("33_fastjson2_fail"), &business),
        (FastjsonSized, vector!("33_fastjson_fail"), &business),
        (Hessian2, vector!("33_hessian2_fail_unchecked"), &unchecked),
        (Fastjson2, vector!("33_fastjson2_fail_unchecked"), &unchecked),
        (FastjsonSized, vector!("33_fastjson_fail_unchecked"), &unchecked),
    ] {
        assert_eq!(&described(&answered(serialization, body)), expected, "{serialization}");
    }
    for (serialization, body) in [
        (Hessian2, vector!("32_hessian2_fail_out_of_stock")),
        (Fastjson2, vector!("32_fastjson2_fail_out_of_stock")),
        (Fastjson, vector!("26_fastjson_fail_out_of_stock")),
    ] {
        let told = described(&answered(serialization, body));
        let cause = json!({
            "class": "java.lang.IllegalArgumentException", "message": "the cause", "cause": null,
            "fields": {},
        });
        assert_eq!(told["cause"], cause, "{serialization}");
        assert_eq!(told["fields"]["warehouse"]["city"], "Hamburg", "{serialization}");
        assert_eq!(told["class"], "org.dubmesh.interop.OutOfStockException", "{serialization}");
    }
}

/// What the agent makes of a provider's reply, of which `bytes` is the whole frame.
fn answered(serialization: Serialization, bytes: &'static [u8]) -> CallError {
    let body = Bytes::from_static(&bytes[dubbo_proto::frame::HEADER_LEN..]);
    let reply = ProviderReply::new(serialization, body, "here".into());
    crate::reply::json_of(&reply).unwrap_err()
}

#[test]
fn descriptions_are_bounded() {
    let mut object = json!({"class": "com.acme.Root", "message": "root"});
    for level in 0..20 {
        object =
            json!({"class": format!("com.acme.E{level}"), "message": "\u{1}", "cause": object});
    }
    let error = failure(&object);
    let told = described(&error);
    assert_eq!(told["truncated"], true);
    let depth =
        std::iter::successors(Some(&told), |it| it.get("cause").filter(|it| it.is_object()));
    assert_eq!(depth.count(), 1 + MAX_CAUSES);

    let long = "\u{1}".repeat(MAX_LEN);
    let cause = json!({"class": long, "message": long, "note": long, "code": 7});
    let error = failure(&json!({
        "class": "com.acme.Long", "message": long, "note": long, "code": 4001, "cause": cause,
    }));
    assert!(error.message.len() < MAX_MESSAGE_LEN + 100);
    let text = error.exception.as_deref().unwrap();
    assert!(text.len() < 2 * MAX_LEN, "{}", text.len());
    let told = described(&error);
    assert_eq!((&told["truncated"], &told["class"]), (&Value::Bool(true), &"com.acme.Long".into()));
}

#[test]
fn what_looks_like_no_exception_is_still_one() {
    let nothing = json!({"class": null, "message": null, "cause": null, "fields": {}});
    for text in ["7", "null", "", "[1]", "{\"a\""] {
        let error = thrown(text.as_bytes());
        assert_eq!((&*error.message, error.code), ("an exception", Code::Exception), "{text}");
        assert_eq!(described(&error), nothing, "{text}");
    }
    // What is called so in an exception of the service's own is a field.
    let error = failure(&json!({"class": "com.acme.Oops", "exceptionClass": "x", "n": 19.90}));
    assert_eq!(described(&error)["fields"], json!({"exceptionClass": "x", "n": 19.90}));
}
