//! Numbers of outcomes: the status of a RESPONSE and the reason of a GOAWAY.
//!
//! Both are open sets: a peer of a later version may send numbers that are not named here.

use std::fmt;

/// Outcome of a call: the status byte of a RESPONSE.
///
/// 0 and 1 to 15 are answers of the app, and the payload is theirs; 16 to 127 are the link's
/// errors, and the payload is UTF-8 text for people; 128 to 255 are reserved.
#[derive(Clone, Copy, Default, Eq, Hash, PartialEq)]
pub struct Status(pub u8);

impl Status {
    /// The payload is the reply, in the codec of the header.
    pub const OK: Self = Self(0);
    /// The app answered with an error of its own; the payload is that error in the header's codec.
    pub const APP_ERROR: Self = Self(1);
    /// The app answered with a raw Dubbo status: the payload's first byte is that status, the rest
    /// its UTF-8 text.
    pub const DUBBO_STATUS: Self = Self(2);
    /// The request cannot be understood; it would fail anywhere.
    pub const BAD_REQUEST: Self = Self(16);
    /// The service is not offered here. Not begun.
    pub const NOT_FOUND_SERVICE: Self = Self(17);
    /// The service has no such method, or not with these parameter types.
    pub const NOT_FOUND_METHOD: Self = Self(18);
    /// The request or its reply is over the message limit.
    pub const TOO_LARGE: Self = Self(19);
    /// The caller did not say who it is.
    pub const UNAUTHENTICATED: Self = Self(20);
    /// The caller may not do this.
    pub const PERMISSION_DENIED: Self = Self(21);
    /// The codec of the arguments is not spoken here. Not begun.
    pub const UNSUPPORTED_CODEC: Self = Self(22);
    /// The time was over before there was an answer; the work may have been done.
    pub const TIMEOUT: Self = Self(32);
    /// The call was given up on the way.
    pub const CANCELLED: Self = Self(33);
    /// The app's thread pool or the queue before it is full. Not begun.
    pub const OVERLOADED: Self = Self(34);
    /// Not begun, for instance because the server is leaving: safe to send elsewhere.
    pub const REFUSED: Self = Self(35);
    /// The app behind the server cannot be connected to. Not begun.
    pub const UPSTREAM_UNREACHABLE: Self = Self(48);
    /// The connection to the app broke while the call was out; the work may have been done.
    pub const UPSTREAM_BROKEN: Self = Self(49);
    /// The app answered with something that is not its protocol.
    pub const UPSTREAM_PROTOCOL: Self = Self(50);
    /// The server itself failed.
    pub const SERVER_ERROR: Self = Self(64);

    /// Whether the call certainly was not begun, so that even a call that must not be done twice
    /// may be sent again elsewhere.
    pub fn is_not_begun(self) -> bool {
        matches!(
            self,
            Self::NOT_FOUND_SERVICE
                | Self::UNSUPPORTED_CODEC
                | Self::OVERLOADED
                | Self::REFUSED
                | Self::UPSTREAM_UNREACHABLE
        )
    }

    /// The stable name; "UNKNOWN" for a number that has none here.
    pub fn name(self) -> &'static str {
        match self {
            Self::OK => "OK",
            Self::APP_ERROR => "APP_ERROR",
            Self::DUBBO_STATUS => "DUBBO_STATUS",
            Self::BAD_REQUEST => "BAD_REQUEST",
            Self::NOT_FOUND_SERVICE => "NOT_FOUND_SERVICE",
            Self::NOT_FOUND_METHOD => "NOT_FOUND_METHOD",
            Self::TOO_LARGE => "TOO_LARGE",
            Self::UNAUTHENTICATED => "UNAUTHENTICATED",
            Self::PERMISSION_DENIED => "PERMISSION_DENIED",
            Self::UNSUPPORTED_CODEC => "UNSUPPORTED_CODEC",
            Self::TIMEOUT => "TIMEOUT",
            Self::CANCELLED => "CANCELLED",
            Self::OVERLOADED => "OVERLOADED",
            Self::REFUSED => "REFUSED",
            Self::UPSTREAM_UNREACHABLE => "UPSTREAM_UNREACHABLE",
            Self::UPSTREAM_BROKEN => "UPSTREAM_BROKEN",
            Self::UPSTREAM_PROTOCOL => "UPSTREAM_PROTOCOL",
            Self::SERVER_ERROR => "SERVER_ERROR",
            _ => "UNKNOWN",
        }
    }
}

impl fmt::Debug for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}({})", self.name(), self.0)
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            "UNKNOWN" => write!(f, "status {}", self.0),
            name => f.write_str(name),
        }
    }
}

/// Why a side says GOAWAY: below 128 the calls in flight still finish, from 128 the link is dead.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct GoAwayReason(pub u8);

impl GoAwayReason {
    /// The process or this link is going away in good order.
    pub const SHUTDOWN: Self = Self(0);
    /// The link is not needed.
    pub const IDLE: Self = Self(1);
    /// The peer broke the protocol.
    pub const PROTOCOL_ERROR: Self = Self(128);
    /// There is no version that both sides speak.
    pub const NO_COMMON_VERSION: Self = Self(129);
    /// The peer did not say HELLO in time, or went silent.
    pub const SILENT: Self = Self(130);

    /// Whether the link is dead at once, with all its calls.
    pub fn is_fatal(self) -> bool {
        self.0 >= 128
    }
}

/// The reason in words.
impl fmt::Display for GoAwayReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match *self {
            Self::SHUTDOWN => "shutdown",
            Self::IDLE => "idle",
            Self::PROTOCOL_ERROR => "protocol error",
            Self::NO_COMMON_VERSION => "no common version",
            Self::SILENT => "silent peer",
            Self(other) => return write!(f, "reason {other}"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_of_goodbyes_are_words() {
        let words = [0, 1, 128, 129, 130, 7].map(|reason| GoAwayReason(reason).to_string());
        let expected =
            ["shutdown", "idle", "protocol error", "no common version", "silent peer", "reason 7"];
        assert_eq!(words, expected);
    }

    #[test]
    fn names_are_unique_and_unknown_numbers_still_print() {
        let named: Vec<Status> = (0..=255).map(Status).filter(|s| s.name() != "UNKNOWN").collect();
        let names: std::collections::BTreeSet<&str> = named.iter().map(|s| s.name()).collect();
        assert_eq!(names.len(), named.len());
        assert_eq!(named.len(), 18);
        assert_eq!(Status(200).to_string(), "status 200");
        assert_eq!(Status::OVERLOADED.to_string(), "OVERLOADED");
        assert_eq!(format!("{:?}", Status(0)), "OK(0)");
    }

    #[test]
    fn what_may_have_been_done_is_not_safe_to_repeat() {
        for status in [Status::OK, Status::TIMEOUT, Status::UPSTREAM_BROKEN, Status(99)] {
            assert!(!status.is_not_begun(), "{status}");
        }
        assert!(Status::REFUSED.is_not_begun());
    }
}
