//! A body as a row of texts: taking them off its front.

use memchr::memchr;

use super::super::codec::SIZE_LEN;
use super::Framing;
use crate::ProtoError;

/// Takes texts off the front of a body, without what frames them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Texts<'a> {
    framing: Framing,
    body: &'a [u8],
    pos: usize,
}

impl<'a> Texts<'a> {
    pub(crate) const fn new(framing: Framing, body: &'a [u8], pos: usize) -> Self {
        Self { framing, body, pos }
    }

    /// Where the next text begins, or the length before it.
    pub(crate) const fn position(&self) -> usize {
        self.pos
    }

    pub(crate) const fn is_at_end(&self) -> bool {
        self.body.len() <= self.pos
    }

    /// The next text and where it begins; nothing at the end of the body. `field` is what errors
    /// call it. A body of lines need not end with a line break.
    pub(crate) fn next(
        &mut self,
        field: &'static str,
    ) -> Result<Option<(usize, &'a [u8])>, ProtoError> {
        let Some(rest) = self.body.get(self.pos..).filter(|rest| !rest.is_empty()) else {
            return Ok(None);
        };
        let start = self.pos;
        if self.framing == Framing::Lines {
            let len = memchr(b'\n', rest);
            let line = rest.get(..len.unwrap_or(rest.len())).unwrap_or_default();
            self.pos += len.map_or(rest.len(), |len| len + 1);
            return Ok(Some((start, line.strip_suffix(b"\r").unwrap_or(line))));
        }
        let broken = |rule| ProtoError::Json { field, offset: start, rule };
        let (size, rest) =
            rest.split_first_chunk().ok_or_else(|| broken("a length of four bytes"))?;
        let text = usize::try_from(u32::from_be_bytes(*size)).ok().and_then(|len| rest.get(..len));
        let text = text.ok_or_else(|| broken("a length and as many bytes"))?;
        self.pos += SIZE_LEN + text.len();
        Ok(Some((start + SIZE_LEN, text)))
    }
}
