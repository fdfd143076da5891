//! Prepared answers to what never became a request.

use crate::error::Code;

/// An answer, and what it says.
#[derive(Debug)]
pub(super) struct PreparedAnswer {
    /// What kind of failure.
    pub(super) code: Code,
    /// What happened.
    pub(super) message: &'static str,
    /// All of the answer.
    pub(super) bytes: &'static [u8],
}

/// The request did not arrive in time.
pub(super) static TIMEOUT: PreparedAnswer = PreparedAnswer {
    code: Code::RequestTimeout,
    message: "the request did not arrive in time",
    bytes: b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\n\
    content-type: application/json\r\ncontent-length: 112\r\n\r\n\
    {\"code\":\"request_timeout\",\"message\":\"the request did not arrive in time\",\
    \"endpoint\":null,\"retryable\":true}      ",
};

/// There is no memory for the request's head.
pub(super) static NO_MEMORY: PreparedAnswer = PreparedAnswer {
    code: Code::Overloaded,
    message: "no memory for the head of the request (memory_bytes of [agent]); try again later",
    bytes: b"HTTP/1.1 503 Service Unavailable\r\nconnection: close\r\n\
    retry-after: 1\r\ncontent-type: application/json\r\ncontent-length: 147\r\n\r\n\
    {\"code\":\"overloaded\",\"message\":\"no memory for the head of the request (memory_bytes of \
    [agent]); try again later\",\"endpoint\":null,\"retryable\":true}",
};

/// What was sent is not HTTP.
pub(super) static BAD_REQUEST: PreparedAnswer = PreparedAnswer {
    code: Code::BadRequest,
    message: "the head of the request is not HTTP",
    bytes: b"HTTP/1.1 400 Bad Request\r\nconnection: close\r\n\
    content-type: application/json\r\ncontent-length: 104\r\n\r\n\
    {\"code\":\"bad_request\",\"message\":\"the head of the request is not HTTP\",\
    \"endpoint\":null,\"retryable\":false}",
};

/// The request's head is too long.
pub(super) static HEAD_TOO_LARGE: PreparedAnswer = PreparedAnswer {
    code: Code::HeadTooLarge,
    message: "the head of the request is over the limit (max_head_bytes)",
    bytes: b"HTTP/1.1 431 Request Header Fields Too Large\r\n\
    connection: close\r\ncontent-type: application/json\r\ncontent-length: 130\r\n\r\n\
    {\"code\":\"head_too_large\",\"message\":\"the head of the request is over the limit \
    (max_head_bytes)\",\"endpoint\":null,\"retryable\":false}",
};

/// The request's head has too many fields.
pub(super) static TOO_MANY_FIELDS: PreparedAnswer = PreparedAnswer {
    code: Code::HeadTooLarge,
    message: "the head of the request has more than 100 headers",
    bytes: b"HTTP/1.1 431 Request Header Fields Too Large\r\nconnection: close\r\n\
    content-type: application/json\r\ncontent-length: 121\r\n\r\n\
    {\"code\":\"head_too_large\",\"message\":\"the head of the request \
    has more than 100 headers\",\"endpoint\":null,\"retryable\":false}",
};

/// The request's path is longer than the parser takes.
pub(super) static PATH_TOO_LONG: PreparedAnswer = PreparedAnswer {
    code: Code::HeadTooLarge,
    message: "the path of the request is longer than 65534 bytes",
    bytes: b"HTTP/1.1 431 Request Header Fields Too Large\r\nconnection: close\r\n\
    content-type: application/json\r\ncontent-length: 122\r\n\r\n\
    {\"code\":\"head_too_large\",\"message\":\"the path of the request \
    is longer than 65534 bytes\",\"endpoint\":null,\"retryable\":false}",
};

/// Nobody can tell where the request's body ends, by its lengths.
pub(super) static BAD_LENGTH: PreparedAnswer = PreparedAnswer {
    code: Code::BadRequest,
    message: "content-length must be one whole number, the same wherever it is repeated",
    bytes: b"HTTP/1.1 400 Bad Request\r\nconnection: close\r\n\
    content-type: application/json\r\ncontent-length: 142\r\n\r\n\
    {\"code\":\"bad_request\",\"message\":\"content-length must be one whole number, the same \
    wherever it is repeated\",\"endpoint\":null,\"retryable\":false}",
};

/// The same, by its transfer coding.
pub(super) static BAD_CODING: PreparedAnswer = PreparedAnswer {
    code: Code::BadRequest,
    message: "transfer-encoding of a request must end in chunked",
    bytes: b"HTTP/1.1 400 Bad Request\r\nconnection: close\r\n\
    content-type: application/json\r\ncontent-length: 119\r\n\r\n\
    {\"code\":\"bad_request\",\"message\":\"transfer-encoding of a request \
    must end in chunked\",\"endpoint\":null,\"retryable\":false}",
};

/// A transfer coding in HTTP/1.0, which has none.
pub(super) static CODING_WITHOUT_VERSION: PreparedAnswer = PreparedAnswer {
    code: Code::BadRequest,
    message: "transfer-encoding needs HTTP/1.1; with HTTP/1.0 send content-length",
    bytes: b"HTTP/1.1 400 Bad Request\r\nconnection: close\r\n\
    content-type: application/json\r\ncontent-length: 136\r\n\r\n\
    {\"code\":\"bad_request\",\"message\":\"transfer-encoding needs HTTP/1.1; with \
    HTTP/1.0 send content-length\",\"endpoint\":null,\"retryable\":false}",
};

/// A version of HTTP that nobody speaks here.
pub(super) static UNKNOWN_VERSION: PreparedAnswer = PreparedAnswer {
    code: Code::BadRequest,
    message: "the version of HTTP is unknown; send HTTP/1.1, HTTP/1.0 or HTTP/2",
    bytes: b"HTTP/1.1 400 Bad Request\r\nconnection: close\r\n\
    content-type: application/json\r\ncontent-length: 134\r\n\r\n\
    {\"code\":\"bad_request\",\"message\":\"the version of HTTP is unknown; send \
    HTTP/1.1, HTTP/1.0 or HTTP/2\",\"endpoint\":null,\"retryable\":false}",
};

/// A field that goes on in a further line, which RFC 9112 forbids.
pub(super) static FOLDED_FIELD: PreparedAnswer = PreparedAnswer {
    code: Code::BadRequest,
    message: "a header goes on in a second line (obs-fold); write each in one line",
    bytes: b"HTTP/1.1 400 Bad Request\r\nconnection: close\r\n\
    content-type: application/json\r\ncontent-length: 137\r\n\r\n\
    {\"code\":\"bad_request\",\"message\":\"a header goes on in a second line \
    (obs-fold); write each in one line\",\"endpoint\":null,\"retryable\":false}",
};

/// GOAWAY of HTTP/2 with ENHANCE_YOUR_CALM. Which requests were begun is left open: none of them
/// may be repeated blindly.
pub(super) const CALM_DOWN: &[u8] =
    b"\x00\x00\x17\x07\x00\x00\x00\x00\x00\x7f\xff\xff\xff\x00\x00\x00\x0b\
    too many frames";

/// What to write instead of an answer that hyper gives by itself: those have no body, and ours
/// always have one.
pub(super) fn instead_of(answer: &[u8]) -> Option<&'static PreparedAnswer> {
    let status = answer.strip_prefix(b"HTTP/1.1 ").or_else(|| answer.strip_prefix(b"HTTP/1.0 "))?;
    let instead = match status.get(..4)? {
        b"400 " => &BAD_REQUEST,
        b"414 " => &PATH_TOO_LONG,
        b"431 " => &HEAD_TOO_LARGE,
        _ => return None,
    };
    let is_empty = memchr::memmem::find(answer, b"\r\ncontent-length: 0\r\n").is_some();
    is_empty.then_some(instead)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prepared_answers_are_sound() {
        for PreparedAnswer { code, message, bytes } in
            [&TIMEOUT, &NO_MEMORY, &BAD_REQUEST, &HEAD_TOO_LARGE].into_iter().chain([
                &TOO_MANY_FIELDS,
                &PATH_TOO_LONG,
                &BAD_LENGTH,
                &BAD_CODING,
                &CODING_WITHOUT_VERSION,
                &UNKNOWN_VERSION,
                &FOLDED_FIELD,
            ])
        {
            let text = std::str::from_utf8(bytes).unwrap();
            let (head, body) = text.split_once("\r\n\r\n").unwrap();
            assert!(head.ends_with(&format!("content-length: {}", body.len())), "{}", body.len());
            let json: serde_json::Value = serde_json::from_str(body).unwrap();
            assert_eq!(json["code"], code.row().name);
            assert_eq!(json["message"], *message);
            assert!(head.starts_with(&format!("HTTP/1.1 {} ", code.row().http_status)));
            assert!(instead_of(bytes).is_none(), "our own answers stay as they are");
        }
        let hypers = b"HTTP/1.1 431 Request Header Fields Too Large\r\nconnection: close\r\n\
            content-length: 0\r\ndate: x\r\n\r\n";
        assert_eq!(instead_of(hypers).unwrap().code, Code::HeadTooLarge);
    }
}
