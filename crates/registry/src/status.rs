//! How a registry itself does.

use std::time::SystemTime;

use tokio::sync::watch;

pub(crate) type StatusSender = watch::Sender<RegistryStatus>;

/// How the registry itself does.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct RegistryStatus {
    /// Whether the registry can be read now.
    pub connected: bool,
    /// Since when.
    pub since: SystemTime,
    /// What went wrong last, for an operator; kept after it has come right again.
    pub last_error: Option<String>,
    /// A server that has taken the connection, and has not answered yet.
    pub unanswered: Option<String>,
}

impl RegistryStatus {
    pub(crate) fn new(connected: bool) -> Self {
        Self { connected, since: SystemTime::now(), last_error: None, unanswered: None }
    }

    /// Why the registry cannot be read, for who gives up: what went wrong last, or else what is
    /// waited for.
    #[must_use]
    pub fn trouble(&self) -> Option<&str> {
        self.last_error.as_deref().or(self.unanswered.as_deref())
    }

    /// Whether an attempt to reach the registry has failed, and none has succeeded since.
    pub(crate) fn is_away(&self) -> bool {
        !self.connected && self.last_error.is_some()
    }
}

/// Notes a change of the connection, or a new error; true if the state has flipped.
pub(crate) fn note(status: &StatusSender, connected: bool, error: Option<String>) -> bool {
    let mut flipped = false;
    status.send_if_modified(|status| {
        flipped = status.connected != connected;
        if flipped {
            status.connected = connected;
            status.since = SystemTime::now();
        }
        let new_error = error.is_some() && status.last_error != error;
        if new_error {
            status.last_error = error;
        }
        flipped || new_error
    });
    flipped
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Who waits for an answer is not away: others need not give up.
    #[test]
    fn a_server_that_has_not_answered_yet_is_told_and_waited_for() {
        let waiting =
            RegistryStatus { unanswered: Some("no answer".into()), ..RegistryStatus::new(false) };
        assert_eq!((waiting.is_away(), waiting.trouble()), (false, Some("no answer")));
        let failed = RegistryStatus { last_error: Some("refused".into()), ..waiting };
        assert_eq!((failed.is_away(), failed.trouble()), (true, Some("refused")));
    }
}
