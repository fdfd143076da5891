//! Why a peer's bytes were refused, or a call could not be sent.

use crate::version::{VERSION_MAX, VERSION_MIN};

/// Why a link ended. All of these are final: the framing or the peer can no longer be trusted, so
/// the driver writes what is left, closes the socket and drains the pending calls.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum LinkError {
    /// Something else than a link speaks on this connection.
    #[error("the first frame is of kind {kind:#04x}, expected HELLO: {}", speaker(*first))]
    NotHello {
        /// Kind byte of the first frame.
        kind: u8,
        /// The bytes before it: by the protocol, the length of the frame.
        first: [u8; 4],
    },
    /// The HELLO does not begin with the magic number.
    #[error("HELLO has magic {found:#010x}, expected 0x444d5348")]
    BadMagic {
        /// What is there.
        found: u32,
    },
    /// No protocol version that both sides speak.
    #[error("the peer speaks versions {min} to {max}, this side {VERSION_MIN} to {VERSION_MAX}")]
    NoCommonVersion {
        /// The peer's oldest version.
        min: u8,
        /// The peer's newest version.
        max: u8,
    },
    /// A property stands twice in a HELLO.
    #[error("property {property} is in the HELLO twice")]
    DuplicateProperty {
        /// The property's number.
        property: u16,
    },
    /// A property of a HELLO has a wrong length or value.
    #[error("property {property} of the HELLO has an invalid length ({len}) or value")]
    BadProperty {
        /// The property's number.
        property: u16,
        /// Its length.
        len: usize,
    },
    /// A body is longer than its kind of frame allows.
    #[error("frame of kind {kind:#04x} has a body of {len} bytes, over the limit of {max}")]
    FrameTooLong {
        /// Kind byte.
        kind: u8,
        /// Length by the header.
        len: u32,
        /// Longest for that kind.
        max: usize,
    },
    /// A frame of a kind that is not optional and not known.
    #[error("unknown frame kind {kind:#04x}")]
    UnknownKind {
        /// Kind byte.
        kind: u8,
    },
    /// A flag that is not ignorable and not known.
    #[error("unknown flags {flags:#04x} in a frame of kind {kind:#04x}")]
    UnknownFlags {
        /// Kind byte.
        kind: u8,
        /// The unknown bits.
        flags: u8,
    },
    /// A frame that this side must never be sent, or not at this time.
    #[error("unexpected frame of kind {kind:#04x}")]
    Unexpected {
        /// Kind byte.
        kind: u8,
    },
    /// A body ends before a field of it does.
    #[error("frame of kind {kind:#04x}: needs {need} more bytes at offset {at}, has {have}")]
    Truncated {
        /// Kind byte.
        kind: u8,
        /// Offset in the body.
        at: usize,
        /// Bytes that the field needs.
        need: usize,
        /// Bytes that are there.
        have: usize,
    },
    /// A body goes on after its last field.
    #[error("frame of kind {kind:#04x}: {len} bytes after its last field")]
    Trailing {
        /// Kind byte.
        kind: u8,
        /// How many.
        len: usize,
    },
    /// A text is not UTF-8.
    #[error("frame of kind {kind:#04x}: the text at offset {at} is not UTF-8")]
    NotUtf8 {
        /// Kind byte.
        kind: u8,
        /// Offset in the body.
        at: usize,
    },
    /// A field is over its limit.
    #[error("frame of kind {kind:#04x}: {what} is {len}, over the limit of {max}")]
    FieldTooLong {
        /// Kind byte.
        kind: u8,
        /// Which field.
        what: &'static str,
        /// Its length or number.
        len: usize,
        /// Its limit.
        max: usize,
    },
    /// A REQUEST uses a slot beyond every window that was granted.
    #[error("REQUEST in slot {slot}, beyond the window of {window}")]
    SlotBeyondWindow {
        /// Low half of the call id.
        slot: u32,
        /// Largest window granted so far.
        window: u32,
    },
    /// A REQUEST uses the slot of a call that has not ended.
    #[error("REQUEST in slot {slot}, whose call has not ended")]
    SlotBusy {
        /// Low half of the call id.
        slot: u32,
    },
    /// A number names no route.
    #[error("route {route} is not defined; {defined} routes are")]
    UnknownRoute {
        /// The number.
        route: u32,
        /// How many are defined.
        defined: u32,
    },
    /// A number names no pool of credits.
    #[error("pool {pool} is not below the limit of {max}")]
    BadPool {
        /// The number.
        pool: u32,
        /// The limit.
        max: u32,
    },
    /// A DEFINE has not the next number, or is one too many.
    #[error("DEFINE of route {route}, expected {expected} and below {max}")]
    BadRouteNumber {
        /// The number.
        route: u32,
        /// The next number.
        expected: u32,
        /// Limit of routes on this link.
        max: u32,
    },
    /// The parts of a message do not add up to the total it announced.
    #[error(
        "message of {total} bytes: after {have} bytes, a part of {part} bytes (last: {last}) does \
         not fit"
    )]
    BadChunk {
        /// Announced length.
        total: usize,
        /// Bytes before this part.
        have: usize,
        /// Bytes of this part.
        part: usize,
        /// Whether the part says that it is the last.
        last: bool,
    },
    /// A frame of a stream breaks a rule.
    #[error("bad ITEM: {rule}")]
    BadItem {
        /// Which rule.
        rule: &'static str,
    },
    /// A COMPRESSED frame breaks a rule.
    #[error("bad COMPRESSED of {raw_len} bytes: {rule}")]
    BadCompressed {
        /// Length of what is in it, as it says.
        raw_len: usize,
        /// Which rule.
        rule: &'static str,
    },
    /// More was given back on a stream than was used.
    #[error("ITEM_CREDIT makes a credit of {credit}, beyond the window of {window}")]
    CreditBeyondWindow {
        /// What the credit would be.
        credit: i64,
        /// The stream's window.
        window: i64,
    },
    /// The HELLO did not come in time.
    #[error("no HELLO within the handshake timeout")]
    HandshakeTimeout,
    /// Nothing came from the peer, not even the answer to a PING.
    #[error("the peer is silent")]
    PeerSilent,
    /// The peer ended the link with a fatal GOAWAY.
    #[error("the peer ended the link with reason {reason}")]
    PeerFailed {
        /// See [`crate::GoAwayReason`].
        reason: u8,
    },
    /// The driver drained the pending calls, so the link is over for this side.
    #[error("the link was closed by this side")]
    Closed,
}

/// What a peer most likely speaks that is no link.
fn speaker(first: [u8; 4]) -> &'static str {
    match first {
        [0x14..=0x17, 3, ..] => "the peer speaks TLS, but this listener does not",
        [b'A'..=b'Z', b'A'..=b'Z', ..] => "the peer seems to speak HTTP",
        [0xda, 0xbb, ..] => "the peer speaks Dubbo's own protocol",
        _ => "is the peer a link?",
    }
}

/// Why a call or a route was not sent. The link is as it was before.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum SendError {
    /// The peer's HELLO has not come yet.
    #[error("the link is not ready")]
    NotReady,
    /// As many calls are in flight as the window allows.
    #[error("no credit: the window of calls in flight is full")]
    NoCredit,
    /// The link is closing or closed, or it is the server's side, which begins no calls.
    #[error("the link takes no new calls")]
    Closing,
    /// The payload is over the peer's message limit, or metadata or a name over the protocol's.
    #[error("message too large: {len} bytes, the limit is {max}")]
    TooLarge {
        /// Length in bytes.
        len: usize,
        /// The limit.
        max: usize,
    },
    /// More entries of metadata than the protocol allows.
    #[error("too many entries: {n}, the limit is {max}")]
    TooManyEntries {
        /// How many.
        n: usize,
        /// The limit.
        max: usize,
    },
    /// Too many bytes wait to be written.
    #[error("too many bytes wait to be written")]
    BufferFull,
    /// The peer takes no more routes on this link.
    #[error("the peer takes {max} routes on a link, as its HELLO says, and has as many")]
    RoutesFull {
        /// How many it takes.
        max: u32,
    },
    /// The route was not defined on this link.
    #[error("the route is not defined on this link")]
    UnknownRoute,
    /// One of the two sides does not take streams of items.
    #[error("streams of items are not available on this link")]
    NoStreams,
    /// A call that nobody waits for was to have a stream.
    #[error("a one-way call has no streams")]
    OneWayStream,
    /// The call has ended, does not stream in this direction, or its items were ended.
    #[error("the call takes no items, or no more")]
    NoSuchStream,
    /// The receiver has to take items first, or an item is still on its way. To be tried again
    /// after [`Event::Writable`](crate::Event::Writable).
    #[error("no credit: the window of the stream is full")]
    NoStreamCredit,
}
