//! Hessian 2.0 in Dubbo's dialect.

use bytes::Bytes;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{Codec, CodecError};

/// Hessian 2.0 in Dubbo's dialect, for all types that serde knows.
pub struct Hessian2;

impl<T: Serialize + DeserializeOwned> Codec<T> for Hessian2 {
    const NUMBER: u8 = 2;
    const NAME: &'static str = "hessian2";

    fn encode(value: &T, out: &mut Vec<u8>) -> Result<(), CodecError> {
        hessian::serde::to_writer(value, out).map_err(CodecError::new)
    }

    fn decode(bytes: Bytes) -> Result<T, CodecError> {
        hessian::serde::from_slice(&bytes).map_err(CodecError::new)
    }
}
