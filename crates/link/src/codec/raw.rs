//! Bytes as they are.

use bytes::Bytes;

use super::{Codec, CodecError};

/// Bytes as they are: for `Bytes`, which are not copied, `Vec<u8>`, and `()`, which is empty.
pub struct Raw;

const NUMBER: u8 = 1;
const NAME: &str = "raw";

impl Codec<Bytes> for Raw {
    const NUMBER: u8 = NUMBER;
    const NAME: &'static str = NAME;

    fn encode(value: &Bytes, out: &mut Vec<u8>) -> Result<(), CodecError> {
        out.extend_from_slice(value);
        Ok(())
    }

    fn decode(bytes: Bytes) -> Result<Bytes, CodecError> {
        Ok(bytes)
    }

    fn shared(value: &Bytes) -> Option<&Bytes> {
        Some(value)
    }
}

impl Codec<Vec<u8>> for Raw {
    const NUMBER: u8 = NUMBER;
    const NAME: &'static str = NAME;

    fn encode(value: &Vec<u8>, out: &mut Vec<u8>) -> Result<(), CodecError> {
        out.extend_from_slice(value);
        Ok(())
    }

    fn decode(bytes: Bytes) -> Result<Vec<u8>, CodecError> {
        Ok(bytes.into())
    }
}

impl Codec<()> for Raw {
    const NUMBER: u8 = NUMBER;
    const NAME: &'static str = NAME;

    fn encode((): &(), _: &mut Vec<u8>) -> Result<(), CodecError> {
        Ok(())
    }

    fn decode(bytes: Bytes) -> Result<(), CodecError> {
        match bytes.len() {
            0 => Ok(()),
            len => Err(CodecError::new(format!("found {len} bytes, expected none"))),
        }
    }
}
