//! How a failed call ends: its exit status, and what the user can do.

use std::time::Duration;

use agent::error::{CallError, Code};
use dubbo_proto::ServiceKey;
use registry::Registry;

use crate::Exit;

/// What may have been meant is looked for no longer.
const SIMILAR_TIMEOUT: Duration = Duration::from_secs(2);

/// How a failed call ends the process.
pub(super) fn exit_of(code: Code) -> Exit {
    match code {
        Code::BadRequest
        | Code::NoRoute
        | Code::CrossSite
        | Code::MethodNotAllowed
        | Code::UnsupportedMediaType
        | Code::NotImplemented
        | Code::HeadTooLarge
        | Code::RequestTimeout
        | Code::BodyTooLarge
        | Code::BadArguments
        | Code::AmbiguousMethod => Exit::Usage,
        Code::ServiceNotFound
        | Code::MethodNotFound
        | Code::Draining
        | Code::Overloaded
        | Code::RateLimited
        | Code::CircuitOpen
        | Code::FaultInjected
        | Code::RegistryUnavailable
        | Code::NoEndpoint
        | Code::Unreachable
        | Code::Refused
        | Code::ThreadPoolExhausted => Exit::Refused,
        Code::Timeout => Exit::Timeout,
        Code::ConnectionBroken
        | Code::BadReply
        | Code::ReplyTooLarge
        | Code::ProviderRejected
        | Code::ProviderError
        | Code::Exception
        | Code::Cancelled
        | Code::Internal => Exit::Failure,
    }
}

/// What the user can do about a failed call, of which `message` says more. Empty if that says it.
pub(super) fn remedy(code: Code, message: &str) -> &'static str {
    match code {
        Code::BadReply if message.contains("refs=path") => "add --json refs=path",
        Code::BadRequest
        | Code::NoRoute
        | Code::CrossSite
        | Code::MethodNotAllowed
        | Code::UnsupportedMediaType
        | Code::NotImplemented
        | Code::HeadTooLarge
        | Code::RequestTimeout => "see dubmesh call --help",
        Code::BodyTooLarge => "send less, or raise the limit that the message names",
        Code::BadArguments => "check the JSON against the method's parameters, or give --types",
        Code::AmbiguousMethod => "give --types",
        Code::ServiceNotFound => "check the interface, --version and --group",
        Code::MethodNotFound => "check the interface, the method and --types",
        Code::Draining | Code::Refused => "the endpoint is shutting down; try another one",
        Code::Overloaded | Code::ThreadPoolExhausted => "try again when the endpoint is less busy",
        Code::CircuitOpen => "see the providers' logs, and try again later",
        Code::FaultInjected => "remove fault_abort_percent from the agent's configuration",
        Code::RateLimited => "call less often, or raise the limit in [[cluster.method]]",
        Code::RegistryUnavailable => "check --registry, and whether it is running",
        Code::Unreachable if message.contains("; check that ") => "",
        Code::NoEndpoint | Code::Unreachable => {
            "check that the endpoint is running, and that it speaks this protocol"
        }
        Code::ConnectionBroken => "the call may have been carried out; see the provider's log",
        Code::BadReply => "try another --serialization",
        Code::ReplyTooLarge => "ask for less at a time",
        Code::Timeout => "the call may still be carried out",
        Code::ProviderRejected => "check the arguments and --types",
        Code::ProviderError | Code::Exception => "see the provider's log",
        Code::Cancelled | Code::Internal => "please report this",
    }
}

/// Adds what may have been meant, unless the message says so already.
pub(super) async fn add_similar(error: &mut CallError, registry: &Registry, service: &ServiceKey) {
    if error.message.contains("did you mean") {
        return;
    }
    let similar = agent::description::like_it(registry, service);
    let similar = tokio::time::timeout(SIMILAR_TIMEOUT, similar).await.unwrap_or_default();
    if !similar.is_empty() {
        error.message = format!("{}; did you mean {}?", error.message, similar.join(", ")).into();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A reply that contains itself is the same in every serialization.
    #[test]
    fn a_cycle_has_an_option() {
        let cycle = hessian::transcode::TranscodeError::Cycle { offset: 0, index: 0 };
        assert_eq!(remedy(Code::BadReply, &cycle.to_string()), "add --json refs=path");
        assert_eq!(remedy(Code::BadReply, "cut off"), "try another --serialization");
    }

    /// What may safely be tried elsewhere is a refusal, and nothing that may have begun is one.
    #[test]
    fn refusals_are_what_nobody_has_begun() {
        use agent::error::{FaultOrigin, Retry};
        for code in Code::ALL {
            let row = code.row();
            let begun = matches!(row.retry, Retry::IfIdempotent);
            assert!(!(begun && exit_of(code) == Exit::Refused), "{code:?}");
            if row.fault == FaultOrigin::Upstream && row.retry == Retry::Safe {
                assert_eq!(exit_of(code), Exit::Refused, "{code:?}");
            }
        }
    }
}
