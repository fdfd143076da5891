use super::*;

#[test]
fn numbers_names_and_statuses_are_sound() {
    for (number, code) in Code::ALL.into_iter().enumerate() {
        assert_eq!(code as usize, number);
        assert_eq!(Code::NAMES.iter().filter(|name| **name == code.row().name).count(), 1);
        assert!((400..600).contains(&code.row().http_status));
        assert_ne!(code.row().link_status, LinkStatus::OK);
    }
}

#[test]
fn every_code_is_documented() {
    let document = include_str!("../../../../docs/errors.md");
    for row in Code::ALL.map(Code::row) {
        let cell = format!("| `{}` | {} |", row.name, row.http_status);
        assert!(document.contains(&cell), "docs/errors.md lacks {cell}");
    }
}

#[test]
fn words_of_providers_are_understood() {
    use DubboStatus as S;
    let frame = "\n\tat org.apache.dubbo.rpc.filter.GenericFilter.invoke(GenericFilter.java:94)";
    let elsewhere = "\n\tat org.apache.dubbo.rpc.filter.TpsLimitFilter.invoke(T.java:1)";
    let realize = "\n\tat java.base/java.lang.Integer.parseInt(Integer.java:668)\
         \n\tat com.alibaba.dubbo.common.utils.PojoUtils.realize(PojoUtils.java:86)";
    let old_frame =
        "\n\tat com.alibaba.dubbo.rpc.filter.GenericFilter.invoke(GenericFilter.java:78)";
    let gson = "\n\tat com.google.gson.Gson.fromJson(Gson.java:1)";
    let gson_utils = "\n\tat org.apache.dubbo.common.utils.GsonUtils.fromJson(GsonUtils.java:57)";
    let gsons = "\n\tat org.apache.dubbo.rpc.filter.GenericFilter.lambda$getGsonGenericArgs$0(\
                 GenericFilter.java:240)\n\tat java.base/java.util.stream.IntPipeline.a(I.java:1)";
    let write = "\n\tat com.alibaba.dubbo.common.utils.PojoUtils.generalize(PojoUtils.java:1)";
    for (status, text, code, advice) in [
        (S::ServiceError, "Not unique method for method name(a)\n\tat b", "bad_arguments", "types"),
        // An agent in the provider's place says which of its own codes it means.
        (S::BadRequest, "bad_arguments: the method takes 1 arguments", "bad_arguments", "takes 1"),
        (S::BadRequest, "bad_request: x", "provider_rejected", "x"),
        (S::ServiceError, &*format!("x: y{frame}"), "bad_arguments", "x: y"),
        (S::ServiceError, &*format!("x: y{elsewhere}{frame}"), "provider_error", "x: y"),
        // In 2.6 one method does it all: what was made of the arguments counts, not what is
        // written of the result.
        (S::ServiceError, &*format!("x: y{realize}{old_frame}"), "bad_arguments", "x: y"),
        (S::ServiceError, &*format!("x: y{write}{old_frame}"), "provider_error", "x: y"),
        (S::ServiceError, &*format!("x: y{old_frame}"), "provider_error", "x: y"),
        (S::ServiceError, &*format!("x: y{realize}{write}"), "provider_error", "x: y"),
        (
            S::ServiceError,
            &*format!("x: y{write}\nCaused by: z{realize}{old_frame}"),
            "provider_error",
            "x: y",
        ),
        // Thrown by gson, or by the filter for what gson threw.
        (S::ServiceError, &*format!("x: y{gson}{gsons}{frame}"), "bad_arguments", "x: y"),
        (S::ServiceError, &*format!("x: y{gson}{gson_utils}{gsons}"), "bad_arguments", "x: y"),
        (S::ServiceError, &*format!("x: y{gson}{elsewhere}{gsons}"), "provider_error", "x: y"),
        (S::BadResponse, "Data length too large: 9", "reply_too_large", "9"),
        (S::SerializationError, "Data length too large: 9", "reply_too_large", "9"),
        (
            S::BadRequest,
            "Fail to decode request due to: RpcInvocation [methodName=a, parameterTypes=null]",
            "provider_rejected",
            "no such service",
        ),
    ] {
        let error = CallError::from_provider(status, text);
        assert_eq!(error.code.row().name, code, "{text}");
        let summary = error.summary();
        assert!(summary.contains(advice) && !summary.contains("\tat "), "{summary}");
    }
}

/// A provider that is leaving is not the only one; a method that failed on its way may have
/// begun.
#[test]
fn another_provider_may_know_the_method() {
    let unknown = "Fail to decode request due to: x: Service not found:a.B, c";
    let unreadable = "Fail to decode request due to: RpcInvocation [methodName=c]";
    for (status, text, may) in [
        (DubboStatus::BadRequest, unknown, true),
        (DubboStatus::ServiceError, unknown, false),
        (DubboStatus::ServiceError, "x: java.lang.NoSuchMethodException: c", false),
        (DubboStatus::BadRequest, "Fail to decode request due to: x: y", false),
        (DubboStatus::BadRequest, unreadable, true),
        (DubboStatus::ServiceError, unreadable, false),
    ] {
        let error = CallError::from_provider(status, text);
        assert_eq!(error.retry().allows_another_endpoint(), may, "{error}");
        assert!(!error.retry().is_worth_repeating());
    }
    let ours = CallError::new(Code::MethodNotFound, "a.B has no method c");
    assert!(!ours.retry().allows_another_endpoint());
}

/// Nobody is told that it is safe to try again when it is not.
#[test]
fn a_dubbo_status_promises_no_more_than_its_code() {
    for code in Code::ALL {
        let row = code.row();
        assert_ne!(row.dubbo_status, DubboStatus::Ok);
        let seen = Code::from_dubbo(row.dubbo_status, row.name).row().retry;
        let is_safe = Retry::allows_another_endpoint;
        // That there is no such method is true of every provider.
        let is_same_everywhere = code == Code::MethodNotFound;
        assert!(!is_safe(seen) || is_safe(row.retry) || is_same_everywhere, "{code:?}");
    }
    let error = CallError::new(Code::Overloaded, "full").at("h:1");
    let (status, text) = error.for_dubbo();
    assert_eq!(status, DubboStatus::ServerThreadpoolExhausted);
    assert!(text.ends_with("detail msg: overloaded: full (at h:1)"), "{text}");
    let error = CallError::from_provider(DubboStatus::ServiceError, "x\n\tat y");
    assert_eq!(error.for_dubbo(), (DubboStatus::ServiceError, "x\n\tat y".into()));
}

/// What one agent reports to the next stays as safe, or as unsafe, to retry.
#[test]
fn the_link_keeps_the_retry_rule() {
    for code in Code::ALL.into_iter().filter(|code| code.row().fault == FaultOrigin::Upstream) {
        let seen = Code::from_link(code.row().link_status);
        assert_eq!(seen.row().retry, code.row().retry, "{code:?} arrives as {seen:?}");
    }
}
