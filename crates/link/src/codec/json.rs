//! JSON.

use bytes::Bytes;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{Codec, CodecError};

/// JSON, for all types that serde knows: readable by people and by any other language.
pub struct Json;

impl<T: Serialize + DeserializeOwned> Codec<T> for Json {
    const NUMBER: u8 = 13;
    const NAME: &'static str = "json";

    fn encode(value: &T, out: &mut Vec<u8>) -> Result<(), CodecError> {
        serde_json::to_writer(out, value).map_err(CodecError::new)
    }

    fn decode(bytes: Bytes) -> Result<T, CodecError> {
        serde_json::from_slice(&bytes).map_err(CodecError::new)
    }
}
