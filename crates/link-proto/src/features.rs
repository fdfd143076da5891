//! Bits of the features in a HELLO. A feature is in use if both sides state it.

/// Streams of items beside a call.
pub const STREAMS: u64 = 0x01;
/// Both sides compress what they send, where that is worth it.
pub const LZ4: u64 = 0x02;
/// Calls need credits of the app that they go to, once the server says so.
pub const CREDITS: u64 = 0x04;
