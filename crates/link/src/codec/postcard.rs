//! Postcard: the compact serde format.

use bytes::Bytes;
use postcard::ser_flavors::Flavor;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{Codec, CodecError};

/// Postcard, for all types that serde knows: small and fast, but both sides must have the same
/// types. It has its own specification and is read by other languages, too.
pub struct Postcard;

impl<T: Serialize + DeserializeOwned> Codec<T> for Postcard {
    const NUMBER: u8 = 14;
    const NAME: &'static str = "postcard";

    fn encode(value: &T, out: &mut Vec<u8>) -> Result<(), CodecError> {
        postcard::serialize_with_flavor(value, Append(out)).map_err(CodecError::new)
    }

    fn decode(bytes: Bytes) -> Result<T, CodecError> {
        match postcard::take_from_bytes(&bytes).map_err(CodecError::new)? {
            (value, []) => Ok(value),
            (_, rest) => Err(CodecError::new(format!("{} bytes too many", rest.len()))),
        }
    }
}

/// Appends to a buffer that someone else owns.
struct Append<'a>(&'a mut Vec<u8>);

impl Flavor for Append<'_> {
    type Output = ();

    fn try_push(&mut self, byte: u8) -> postcard::Result<()> {
        self.0.push(byte);
        Ok(())
    }

    fn try_extend(&mut self, bytes: &[u8]) -> postcard::Result<()> {
        self.0.extend_from_slice(bytes);
        Ok(())
    }

    fn finalize(self) -> postcard::Result<()> {
        Ok(())
    }
}
