//! Reads fields off the front of a frame's body, with errors that name the place.

use crate::LinkError;

/// A body, and how far it was read.
pub(crate) struct Reader<'a> {
    kind: u8,
    body: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(kind: u8, body: &'a [u8]) -> Self {
        Self { kind, body, at: 0 }
    }

    /// Offset of the next field.
    pub(crate) fn at(&self) -> usize {
        self.at
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.body.len() == self.at
    }

    pub(crate) fn bytes(&mut self, len: usize) -> Result<&'a [u8], LinkError> {
        let rest = self.body.get(self.at..).unwrap_or_default();
        let Some(field) = rest.get(..len) else {
            let (kind, at) = (self.kind, self.at);
            return Err(LinkError::Truncated { kind, at, need: len, have: rest.len() });
        };
        self.at += len;
        Ok(field)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], LinkError> {
        let mut array = [0; N];
        array.copy_from_slice(self.bytes(N)?);
        Ok(array)
    }

    pub(crate) fn u8(&mut self) -> Result<u8, LinkError> {
        Ok(u8::from_be_bytes(self.array()?))
    }

    pub(crate) fn u16(&mut self) -> Result<u16, LinkError> {
        Ok(u16::from_be_bytes(self.array()?))
    }

    #[inline]
    pub(crate) fn u32(&mut self) -> Result<u32, LinkError> {
        Ok(u32::from_be_bytes(self.array()?))
    }

    /// All bytes that are left.
    pub(crate) fn rest(&self) -> &'a [u8] {
        self.body.get(self.at..).unwrap_or_default()
    }

    /// The rest of the body as text.
    pub(crate) fn rest_text(&mut self) -> Result<&'a str, LinkError> {
        self.text(self.body.len() - self.at)
    }

    pub(crate) fn text(&mut self, len: usize) -> Result<&'a str, LinkError> {
        let (kind, at) = (self.kind, self.at);
        std::str::from_utf8(self.bytes(len)?).map_err(|_| LinkError::NotUtf8 { kind, at })
    }

    /// A text behind its length in two bytes; `max` is its limit in bytes.
    pub(crate) fn text16(&mut self, what: &'static str, max: usize) -> Result<&'a str, LinkError> {
        let len = usize::from(self.u16()?);
        if len > max {
            return Err(LinkError::FieldTooLong { kind: self.kind, what, len, max });
        }
        self.text(len)
    }

    /// Fails unless the whole body was read.
    pub(crate) fn finish(self) -> Result<(), LinkError> {
        match self.body.len() - self.at {
            0 => Ok(()),
            len => Err(LinkError::Trailing { kind: self.kind, len }),
        }
    }
}
