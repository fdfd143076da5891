//! As much of HTTP/2 as a hostile peer needs: any frame at all, header fields by their number, and
//! windows. Source: RFC 9113, RFC 7541.

/// What every connection begins with.
pub(super) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

pub(super) const DATA: u8 = 0;
pub(super) const HEADERS: u8 = 1;
pub(super) const RST_STREAM: u8 = 3;
pub(super) const SETTINGS: u8 = 4;
pub(super) const PING: u8 = 6;
pub(super) const WINDOW_UPDATE: u8 = 8;
pub(super) const CONTINUATION: u8 = 9;

pub(super) const NO_FLAGS: u8 = 0;
/// Of PING and SETTINGS.
pub(super) const ACK: u8 = 1;
/// Of DATA and HEADERS.
pub(super) const END_STREAM: u8 = 1;
/// Of HEADERS and CONTINUATION.
pub(super) const END_HEADERS: u8 = 4;

/// A setting: how much may be sent on a stream before the receiver gives more leave.
pub(super) const INITIAL_WINDOW_SIZE: u16 = 4;
/// The longest payload that every peer takes.
pub(super) const MAX_PAYLOAD_LEN: usize = 16_384;

const HEAD_LEN: usize = 9;
/// The first number of the dynamic table: the field that was added last.
const NEWEST_FIELD: u8 = 62;

/// Appends a frame.
pub(super) fn write(out: &mut Vec<u8>, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
    let len = u32::try_from(payload.len()).unwrap_or(u32::MAX).to_be_bytes();
    out.extend_from_slice(&len[1..]);
    out.extend_from_slice(&[kind, flags]);
    out.extend_from_slice(&stream.to_be_bytes());
    out.extend_from_slice(payload);
}

/// The preface and SETTINGS with these.
pub(super) fn start(settings: &[(u16, u32)]) -> Vec<u8> {
    let mut payload = Vec::new();
    for (name, value) in settings {
        payload.extend_from_slice(&name.to_be_bytes());
        payload.extend_from_slice(&value.to_be_bytes());
    }
    let mut out = PREFACE.to_vec();
    write(&mut out, SETTINGS, NO_FLAGS, 0, &payload);
    out
}

/// The header fields of a call, none of which the peer has to remember.
pub(super) fn call_fields(path: &str) -> Vec<u8> {
    // ":method: POST" and ":scheme: http" stand in the static table, and so do the names below.
    let mut fields = vec![0x83, 0x86];
    literal(&mut fields, &[0x04], path);
    literal(&mut fields, &[0x01], "127.0.0.1");
    literal(&mut fields, &[0x0f, 0x10], "application/json");
    fields
}

/// A field that is not to be remembered, whose name has a number in the static table.
fn literal(out: &mut Vec<u8>, name: &[u8], value: &str) {
    out.extend_from_slice(name);
    text(out, value);
}

/// A field with a name of its own that is not to be remembered.
pub(super) fn named(out: &mut Vec<u8>, name: &str, value: &str) {
    out.push(0x00);
    text(out, name);
    text(out, value);
}

/// A field that the peer has to remember: it gets the number of [`newest`].
pub(super) fn remembered(out: &mut Vec<u8>, name: &str, value: &str) {
    out.push(0x40);
    text(out, name);
    text(out, value);
}

/// The field that was remembered last, in one byte.
pub(super) fn newest() -> u8 {
    0x80 | NEWEST_FIELD
}

/// A text of less than 127 bytes, without Huffman's code.
fn text(out: &mut Vec<u8>, text: &str) {
    debug_assert!(text.len() < 127, "longer ones have a length of several bytes");
    out.push(u8::try_from(text.len()).unwrap_or(126));
    out.extend_from_slice(text.as_bytes());
}

/// A frame that came.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Frame {
    pub(super) kind: u8,
    pub(super) flags: u8,
    pub(super) stream: u32,
    pub(super) payload: Vec<u8>,
}

impl Frame {
    /// The first four bytes of the payload.
    pub(super) fn number(&self) -> u32 {
        self.payload.first_chunk().map_or(0, |bytes| u32::from_be_bytes(*bytes))
    }
}

/// Bytes that have come, as frames.
#[derive(Default)]
pub(super) struct Inbox(Vec<u8>);

impl Inbox {
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    /// The next whole frame.
    pub(super) fn next(&mut self) -> Option<Frame> {
        let head: [u8; HEAD_LEN] = *self.0.first_chunk()?;
        let [l0, l1, l2, kind, flags, s0, s1, s2, s3] = head;
        let len = usize::try_from(u32::from_be_bytes([0, l0, l1, l2])).ok()?;
        let payload = self.0.get(HEAD_LEN..HEAD_LEN + len)?.to_vec();
        self.0.drain(..HEAD_LEN + len);
        Some(Frame { kind, flags, stream: u32::from_be_bytes([s0, s1, s2, s3]), payload })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_come_back_whole() {
        let mut out = Vec::new();
        write(&mut out, PING, ACK, 0, b"12345678");
        write(&mut out, RST_STREAM, NO_FLAGS, 7, &8_u32.to_be_bytes());
        let mut inbox = Inbox::default();
        inbox.push(&out[..HEAD_LEN + 3]);
        assert_eq!(inbox.next(), None);
        inbox.push(&out[HEAD_LEN + 3..]);
        let ping = Frame { kind: PING, flags: ACK, stream: 0, payload: b"12345678".to_vec() };
        assert_eq!(inbox.next(), Some(ping));
        let reset = inbox.next().unwrap();
        assert_eq!((reset.stream, reset.number()), (7, 8));
        assert_eq!(inbox.next(), None);
    }

    /// RFC 7541, C.2.1 and C.2.2, and the byte that names the first of them afterwards.
    #[test]
    fn fields_are_written_as_the_specification_shows() {
        let mut out = Vec::new();
        remembered(&mut out, "custom-key", "custom-header");
        assert_eq!(out, b"\x40\x0acustom-key\x0dcustom-header");
        out.clear();
        literal(&mut out, &[0x04], "/sample/path");
        assert_eq!(out, b"\x04\x0c/sample/path");
        assert_eq!(newest(), 0xbe);
    }
}
