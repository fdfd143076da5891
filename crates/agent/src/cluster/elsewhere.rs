//! Calls that were answered with what nobody can read, and that are made once more elsewhere.

use flow::{Attempts, Retry};

use super::{Cluster, Member};
use crate::call::RoutedCall;
use crate::error::CallError;

impl Cluster {
    /// What a call may try that was not offered yet, or that was answered somewhere.
    pub fn attempts_of(&self, call: &RoutedCall<'_>) -> Attempts<Member> {
        let mut attempts = self.attempts(call.times.deadline);
        if let Some(address) = call.not_at {
            let balancer = self.balancer.borrow();
            let mut members = balancer.stats().map(|stats| stats.key);
            if let Some(member) = members.find(|it| **it.0.upstream.address() == *address) {
                attempts.failed(member.clone(), Retry::Elsewhere);
            }
        }
        attempts
    }

    /// Whether a call of this method that was answered, but as `error` says, is made once more at
    /// another endpoint. That is counted. Only a method that fails over has further attempts.
    #[cold]
    pub fn goes_elsewhere(&self, error: &CallError, method: &str) -> bool {
        let goes = self.has_choice()
            && self.fails_over(method)
            && error.retry() == Retry::IfIdempotent
            && self.retry_of_method(error.retry(), method).allows_another_endpoint()
            && self.budget.borrow_mut().take();
        if goes {
            self.count_retry(error.code);
        }
        goes
    }
}
