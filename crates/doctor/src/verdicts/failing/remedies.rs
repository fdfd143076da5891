//! What to do about calls that fail, by the code of their error: in short what docs/errors.md says
//! of it.

/// Whether it is for their callers to do better, or an exception of the service.
pub(super) fn is_callers_fault(code: &str) -> bool {
    [
        "bad_request",
        "no_route",
        "cross_site",
        "method_not_allowed",
        "unsupported_media_type",
        "not_implemented",
        "head_too_large",
        "request_timeout",
        "body_too_large",
        "bad_arguments",
        "ambiguous_method",
        "method_not_found",
        "exception",
    ]
    .contains(&code)
}

/// What to do.
pub(in super::super) fn remedy(code: &str, service: &str) -> String {
    let what = match code {
        "rate_limited" => {
            "raise rate_limit or caller_rate_limit of its [[cluster.method]], or have callers make \
             fewer calls"
        }
        "circuit_open" => {
            "calls of a method fail at every endpoint: see why they do (the log of the provider)"
        }
        "overloaded" => {
            "add providers or threads, or raise what limits the calls: the message of the error \
             names the limit"
        }
        "registry_unavailable" => {
            "see whether the registry answers this agent (its page /registries has the reason)"
        }
        "provider_rejected" => {
            "see whether the provider has this service, group and version, and whether it can read \
             the arguments: its log has the reason"
        }
        "method_not_found" => "see whether the provider's release has the method with these types",
        "bad_arguments" | "ambiguous_method" => {
            "the arguments do not fit the method: give callers the parameter types"
        }
        "provider_error" | "exception" => "see the log of the provider",
        "thread_pool_exhausted" => "add providers or threads",
        "unreachable" | "connection_broken" | "refused" => {
            "see whether the provider runs, and whether it can be reached"
        }
        "reply_too_large" => "raise max_reply_bytes, or ask for less in one call",
        "body_too_large" => "raise max_body_bytes, or send less in one call",
        "bad_reply" => "see whether both sides have the same release of the service's classes",
        "draining" => "this agent shuts down: call another one",
        "timeout" => {
            "see how long the provider works on such calls, and raise timeout_ms if need be"
        }
        "service_not_found" => {
            "see whether the provider offers this service, in this group and version"
        }
        "no_endpoint" => "see whether its provider runs and has registered",
        "internal" => "this is a defect of dubmesh: report it, with the log of the agent",
        _ => "see what docs/errors.md says of this error",
    };
    format!("{what}; dubmesh tap {service} --failed shows these calls, and their messages")
}
