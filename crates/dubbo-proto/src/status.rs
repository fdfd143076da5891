//! The status codes in the headers of replies.

use std::fmt;

/// How a request ended.
///
/// Source: apache/dubbo, `org.apache.dubbo.remoting.exchange.Response`.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Status {
    /// 20: the body holds the method's result, or the exception that it threw.
    Ok,
    /// 25: the provider could not write the result, or it was over the payload limit.
    SerializationError,
    /// 30: the consumer waited and got nothing. Made on the consumer's side.
    ClientTimeout,
    /// 31: the provider noticed that the time was up.
    ServerTimeout,
    /// 35: the connection went away under the call.
    ChannelInactive,
    /// 40: the provider could not read the request.
    BadRequest,
    /// 50: the consumer could not read the reply.
    BadResponse,
    /// 60: the provider does not offer this service or method.
    ServiceNotFound,
    /// 70: the service failed outside of the method.
    ServiceError,
    /// 80: the provider failed outside of the service.
    ServerError,
    /// 90: the consumer failed.
    ClientError,
    /// 100: every thread of the provider is busy. The call was not begun.
    ServerThreadpoolExhausted,
    /// A number that Dubbo does not define.
    Unknown(u8),
}

impl Status {
    /// Reads the status byte of a header.
    #[must_use]
    pub const fn from_u8(status: u8) -> Self {
        match status {
            20 => Self::Ok,
            25 => Self::SerializationError,
            30 => Self::ClientTimeout,
            31 => Self::ServerTimeout,
            35 => Self::ChannelInactive,
            40 => Self::BadRequest,
            50 => Self::BadResponse,
            60 => Self::ServiceNotFound,
            70 => Self::ServiceError,
            80 => Self::ServerError,
            90 => Self::ClientError,
            100 => Self::ServerThreadpoolExhausted,
            other => Self::Unknown(other),
        }
    }

    /// The byte for a header.
    #[must_use]
    pub const fn to_u8(self) -> u8 {
        match self {
            Self::Ok => 20,
            Self::SerializationError => 25,
            Self::ClientTimeout => 30,
            Self::ServerTimeout => 31,
            Self::ChannelInactive => 35,
            Self::BadRequest => 40,
            Self::BadResponse => 50,
            Self::ServiceNotFound => 60,
            Self::ServiceError => 70,
            Self::ServerError => 80,
            Self::ClientError => 90,
            Self::ServerThreadpoolExhausted => 100,
            Self::Unknown(other) => other,
        }
    }

    /// The name that Dubbo's sources and logs give it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ok => "OK",
            Self::SerializationError => "SERIALIZATION_ERROR",
            Self::ClientTimeout => "CLIENT_TIMEOUT",
            Self::ServerTimeout => "SERVER_TIMEOUT",
            Self::ChannelInactive => "CHANNEL_INACTIVE",
            Self::BadRequest => "BAD_REQUEST",
            Self::BadResponse => "BAD_RESPONSE",
            Self::ServiceNotFound => "SERVICE_NOT_FOUND",
            Self::ServiceError => "SERVICE_ERROR",
            Self::ServerError => "SERVER_ERROR",
            Self::ClientError => "CLIENT_ERROR",
            Self::ServerThreadpoolExhausted => "SERVER_THREADPOOL_EXHAUSTED_ERROR",
            Self::Unknown(_) => "UNKNOWN",
        }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.to_u8(), self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_comes_back() {
        for byte in 0..=u8::MAX {
            assert_eq!(Status::from_u8(byte).to_u8(), byte);
        }
        assert_eq!(Status::from_u8(100).to_string(), "100 SERVER_THREADPOOL_EXHAUSTED_ERROR");
    }
}
