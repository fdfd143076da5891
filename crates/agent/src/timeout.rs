//! How long a call may take, and who says so. An error about a late answer names both.

use std::sync::Arc;
use std::time::Duration;

use crate::config::ClusterPolicy;
use crate::error::CallError;

/// Dubbo's own default deadline.
const DUBBO_DEFAULT: Duration = Duration::from_millis(1000);

/// How long a call may take.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct CallTimeout {
    /// The time itself.
    pub time: Duration,
    /// Who says so.
    pub origin: TimeoutOrigin,
}

/// Who says how long a call may take.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum TimeoutOrigin {
    /// The caller.
    Caller,
    /// `timeout_ms` of this section of the configuration.
    Configured(Arc<str>),
    /// `max_timeout_ms` of this section of the configuration.
    Longest(Arc<str>),
    /// The provider, by the parameter `timeout` of its URL.
    Provider,
    /// Nobody.
    DubboDefault,
}

impl CallTimeout {
    /// The limit of a call whose caller asks for `wanted`, and whose provider has registered
    /// `registered`.
    pub fn new(
        policy: &ClusterPolicy,
        wanted: Option<Duration>,
        registered: Option<Duration>,
    ) -> Self {
        let (time, origin) = match (wanted, policy.timeout, registered) {
            (Some(time), ..) => (time, TimeoutOrigin::Caller),
            (_, Some(time), _) => {
                (time, TimeoutOrigin::Configured(Arc::clone(&policy.timeout_section)))
            }
            (.., Some(time)) => (time, TimeoutOrigin::Provider),
            (None, None, None) => (DUBBO_DEFAULT, TimeoutOrigin::DubboDefault),
        };
        if policy.max_timeout < time {
            let origin = TimeoutOrigin::Longest(Arc::clone(&policy.max_timeout_section));
            return Self { time: policy.max_timeout, origin };
        }
        Self { time, origin }
    }

    /// The time alone.
    pub fn time(
        policy: &ClusterPolicy,
        wanted: Option<Duration>,
        registered: Option<Duration>,
    ) -> Duration {
        let time = wanted.or(policy.timeout).or(registered).unwrap_or(DUBBO_DEFAULT);
        time.min(policy.max_timeout)
    }

    /// The failure of a call whose time was up, with how long that was and who said so. A failure
    /// that no endpoint had part in keeps its own words beside. So does that of a one-way call, of
    /// which no answer was awaited.
    pub fn explain(&self, error: CallError, key: &str, one_way: bool) -> CallError {
        let endpoint = error.endpoint.as_deref();
        let message = match endpoint {
            _ if one_way => format!("{}: {}", self.not_sent(endpoint, key), error.message),
            Some(_) => self.overdue(endpoint, key),
            None => format!("{}; {}", self.overdue(endpoint, key), error.message),
        };
        CallError { message: message.into(), ..error }
    }

    fn not_sent(&self, endpoint: Option<&str>, key: &str) -> String {
        let to = endpoint.map_or(String::new(), |endpoint| format!(" to {endpoint}"));
        format!("the one-way call could not be sent{to} {}", self.within(key))
    }

    /// The message for a caller that got no answer from `endpoint`. `key` is how callers of its
    /// kind set a timeout of their own.
    pub fn overdue(&self, endpoint: Option<&str>, key: &str) -> String {
        let from = endpoint.map_or(String::new(), |endpoint| format!(" from {endpoint}"));
        format!("no answer{from} {}", self.within(key))
    }

    /// How long it was, who said so, and how to change it.
    fn within(&self, key: &str) -> String {
        let ms = self.time.as_millis();
        let (origin, remedy) = match &self.origin {
            TimeoutOrigin::Caller => {
                ("the caller's timeout".to_owned(), format!("raise it by {key}"))
            }
            TimeoutOrigin::Configured(section) => {
                (format!("timeout_ms of {section}"), format!("raise it, or send {key}"))
            }
            TimeoutOrigin::Longest(section) => {
                (format!("max_timeout_ms of {section}"), "raise it".to_owned())
            }
            TimeoutOrigin::Provider => (
                "the timeout that the provider has registered".to_owned(),
                format!("raise it by {key}"),
            ),
            TimeoutOrigin::DubboDefault => {
                ("Dubbo's default timeout".to_owned(), format!("raise it by {key}"))
            }
        };
        format!("within {ms} ms ({origin}); {remedy}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Code;

    /// A call that was refused somewhere and had no time left for another endpoint says both.
    #[test]
    fn what_happened_before_the_time_was_up_is_not_lost() {
        let limit = CallTimeout { time: Duration::from_millis(50), origin: TimeoutOrigin::Caller };
        let silent = CallError::new(Code::Timeout, "no answer before the deadline").at("h:1");
        let told = limit.explain(silent, "k", false).message;
        assert_eq!(&*told, "no answer from h:1 within 50 ms (the caller's timeout); raise it by k");
        let refused = CallError::new(Code::Refused, "leaving").at("h:1");
        let told = limit.explain(crate::cluster::too_late(&refused), "k", false);
        assert_eq!((told.code, &told.endpoint), (Code::Timeout, &None));
        let words = "no answer within 50 ms (the caller's timeout); raise it by k; no time was \
                     left to try another endpoint; the last one failed: refused: leaving (at h:1)";
        assert_eq!(&*told.message, words);
    }

    /// Nobody awaits an answer, so that none can be missing.
    #[test]
    fn a_one_way_call_that_was_not_sent_says_why() {
        let limit = CallTimeout { time: Duration::from_millis(50), origin: TimeoutOrigin::Caller };
        let told = |error| limit.explain(error, "k", true).message;
        let within = "within 50 ms (the caller's timeout); raise it by k";
        assert_eq!(
            *told(CallError::new(Code::Timeout, "it waited for room")),
            *format!("the one-way call could not be sent {within}: it waited for room")
        );
        assert_eq!(
            *told(CallError::new(Code::Timeout, "the agent did not answer in time").at("h:1")),
            *format!(
                "the one-way call could not be sent to h:1 {within}: the agent did not answer in \
                 time"
            )
        );
    }

    #[test]
    fn the_nearest_to_the_caller_counts_up_to_the_longest() {
        let ms = Duration::from_millis;
        let mut policy = ClusterPolicy {
            timeout_section: "[[cluster]] a.*".into(),
            max_timeout: ms(5_000),
            ..ClusterPolicy::default()
        };
        let told = |policy: &ClusterPolicy, wanted, registered| {
            let limit = CallTimeout::new(policy, wanted, registered);
            assert_eq!(limit.time, CallTimeout::time(policy, wanted, registered));
            limit.overdue(Some("h:1"), "x-dubbo-timeout-ms")
        };
        assert_eq!(
            told(&policy, None, None),
            "no answer from h:1 within 1000 ms (Dubbo's default timeout); raise it by \
             x-dubbo-timeout-ms"
        );
        let provider = told(&policy, None, Some(ms(2_000)));
        assert!(provider.contains("within 2000 ms (the timeout that the provider has registered)"));
        policy.timeout = Some(ms(3_000));
        assert_eq!(
            told(&policy, None, Some(ms(2_000))),
            "no answer from h:1 within 3000 ms (timeout_ms of [[cluster]] a.*); \
             raise it, or send x-dubbo-timeout-ms"
        );
        let caller = told(&policy, Some(ms(50)), None);
        assert!(caller.contains("within 50 ms (the caller's timeout); raise it by"), "{caller}");
        assert_eq!(
            told(&policy, Some(ms(9_000)), None),
            "no answer from h:1 within 5000 ms (max_timeout_ms of [defaults]); raise it"
        );
    }
}
