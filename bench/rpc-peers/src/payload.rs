//! What is sent and answered, the same for all programs.
//!
//! A request's payload begins with its caller's number and the length that the answer shall have;
//! the answer begins with the same number, so that one that reached the wrong caller is seen.

use bytes::Bytes;

/// The caller's number.
const TAG_LEN: usize = 4;
/// The number and the answer's length.
pub(crate) const MIN_REQUEST_LEN: usize = 8;
pub(crate) const MIN_RESPONSE_LEN: usize = TAG_LEN;
const FILLER: u8 = b'x';

/// The payload of every request that this caller makes.
pub(crate) fn request(caller: usize, request_len: usize, response_len: usize) -> Vec<u8> {
    let [caller, response_len] = [caller, response_len].map(|number| {
        u32::try_from(number).expect("options are limited to less than 2^32").to_le_bytes()
    });
    let mut payload = [caller, response_len].concat();
    payload.resize(request_len, FILLER);
    payload
}

/// How long the answer shall be; none if the request is too short to say so.
pub(crate) fn wanted_len(request: &[u8]) -> Option<usize> {
    let len = request.get(TAG_LEN..MIN_REQUEST_LEN)?.try_into().ok()?;
    usize::try_from(u32::from_le_bytes(len)).ok()
}

/// The answer: the request itself, cut or padded. A request that is no such payload is echoed.
pub(crate) fn answer(request: Bytes) -> Bytes {
    match wanted_len(&request) {
        Some(len) if len <= request.len() => request.slice(..len),
        Some(len) => {
            let mut payload = request.to_vec();
            payload.resize(len, FILLER);
            payload.into()
        }
        None => request,
    }
}

/// Whether this is the answer to this request.
pub(crate) fn is_answer(request: &[u8], answer: &[u8], response_len: usize) -> bool {
    answer.len() == response_len && answer.get(..TAG_LEN) == request.get(..TAG_LEN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_have_the_wanted_length() {
        for (request_len, response_len) in [(100, 100), (8, 4), (100, 10), (10, 100)] {
            let request: Bytes = request(7, request_len, response_len).into();
            let other: Bytes = super::request(8, request_len, response_len).into();
            let answer = answer(request.clone());
            assert_eq!(request.len(), request_len);
            assert!(is_answer(&request, &answer, response_len));
            assert!(!is_answer(&other, &answer, response_len));
            assert!(!is_answer(&request, &answer[1..], response_len));
        }
    }
}
