//! Protocol Buffers.

use bytes::Bytes;
use prost::Message;

use super::{Codec, CodecError};

/// Protocol Buffers, for messages that prost knows. A method then has one argument, the message.
pub struct Protobuf;

impl<T: Message + Default> Codec<T> for Protobuf {
    const NUMBER: u8 = 22;
    const NAME: &'static str = "protobuf";

    fn encode(value: &T, out: &mut Vec<u8>) -> Result<(), CodecError> {
        value.encode(out).map_err(CodecError::new)
    }

    fn decode(bytes: Bytes) -> Result<T, CodecError> {
        T::decode(bytes).map_err(CodecError::new)
    }
}
