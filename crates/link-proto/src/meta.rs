//! Key and value texts beside a message or a route: `u16` length of all, then for each entry
//! `u16` length, key, `u16` length, value.
//!
//! Invariant: a [`Meta`] was checked when it was read, so walking it cannot fail.

use crate::header::{MAX_META_ENTRIES, MAX_META_LEN};
use crate::reader::Reader;
use crate::{LinkError, SendError};
use bytes::{BufMut, Bytes, BytesMut};
use std::fmt;

/// Metadata as it came: not copied and not decoded until it is walked.
#[derive(Clone, Default, Eq, PartialEq)]
pub struct Meta {
    entries: Bytes,
}

impl Meta {
    /// Whether there is no entry.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The entries in the order in which the peer wrote them. Keys may repeat.
    pub fn iter(&self) -> MetaIter<'_> {
        MetaIter { rest: &self.entries }
    }

    /// The first value of that key.
    pub fn value(&self, key: &str) -> Option<&str> {
        self.iter().find(|(k, _)| *k == key).map(|(_, v)| v)
    }

    /// Checks what comes after the length field, and keeps it.
    pub(crate) fn check(kind: u8, entries: Bytes) -> Result<Self, LinkError> {
        if entries.len() > MAX_META_LEN {
            let (len, max) = (entries.len(), MAX_META_LEN);
            return Err(LinkError::FieldTooLong { kind, what: "metadata", len, max });
        }
        let mut reader = Reader::new(kind, &entries);
        let mut n_entries = 0;
        while !reader.is_empty() {
            n_entries += 1;
            if n_entries > MAX_META_ENTRIES {
                let (len, max) = (n_entries, MAX_META_ENTRIES);
                return Err(LinkError::FieldTooLong { kind, what: "metadata entries", len, max });
            }
            reader.text16("metadata key", MAX_META_LEN)?;
            reader.text16("metadata value", MAX_META_LEN)?;
        }
        Ok(Self { entries })
    }
}

impl fmt::Debug for Meta {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self).finish()
    }
}

impl<'a> IntoIterator for &'a Meta {
    type Item = (&'a str, &'a str);
    type IntoIter = MetaIter<'a>;
    fn into_iter(self) -> MetaIter<'a> {
        self.iter()
    }
}

/// Walks the entries of a [`Meta`].
#[derive(Clone, Debug)]
pub struct MetaIter<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for MetaIter<'a> {
    type Item = (&'a str, &'a str);

    fn next(&mut self) -> Option<Self::Item> {
        let key = take_text(&mut self.rest)?;
        Some((key, take_text(&mut self.rest)?))
    }
}

fn take_text<'a>(rest: &mut &'a [u8]) -> Option<&'a str> {
    let (len, after) = rest.split_first_chunk()?;
    let (text, after) = after.split_at_checked(usize::from(u16::from_be_bytes(*len)))?;
    *rest = after;
    std::str::from_utf8(text).ok()
}

/// Length of the entries behind the length field.
pub(crate) fn encoded_len(entries: &[(&str, &str)]) -> Result<usize, SendError> {
    if entries.is_empty() {
        return Ok(0);
    }
    if entries.len() > MAX_META_ENTRIES {
        return Err(SendError::TooManyEntries { n: entries.len(), max: MAX_META_ENTRIES });
    }
    let len = entries.iter().map(|(k, v)| 4 + k.len() + v.len()).sum();
    if len > MAX_META_LEN {
        return Err(SendError::TooLarge { len, max: MAX_META_LEN });
    }
    Ok(len)
}

/// Appends the length field and the entries; `len` is what [`encoded_len`] said.
pub(crate) fn encode(entries: &[(&str, &str)], len: usize, out: &mut BytesMut) {
    put_len(out, len);
    for (key, value) in entries {
        put_len(out, key.len());
        out.put_slice(key.as_bytes());
        put_len(out, value.len());
        out.put_slice(value.as_bytes());
    }
}

/// Appends a length that was checked against a limit below 64 KiB.
pub(crate) fn put_len(out: &mut BytesMut, len: usize) {
    debug_assert!(len <= usize::from(u16::MAX), "checked by the caller");
    out.put_u16(u16::try_from(len).unwrap_or(u16::MAX));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(entries: &[(&str, &str)]) -> Bytes {
        let mut out = BytesMut::new();
        encode(entries, encoded_len(entries).unwrap(), &mut out);
        out.freeze()
    }

    #[test]
    fn entries_come_back_in_order() {
        let entries = [("a", "1"), ("", ""), ("größe", "x"), ("a", "2")];
        let bytes = encoded(&entries);
        let meta = Meta::check(3, bytes.slice(2..)).unwrap();
        assert_eq!(meta.iter().collect::<Vec<_>>(), entries);
        assert_eq!(meta.value("a"), Some("1"));
        assert_eq!(meta.value("b"), None);
        assert_eq!(format!("{:?}", Meta::default()), "{}");
    }

    #[test]
    fn hostile_entries_are_refused() {
        let check = |bytes: &[u8]| Meta::check(3, Bytes::copy_from_slice(bytes));
        assert!(matches!(check(&[0]), Err(LinkError::Truncated { .. })));
        assert!(matches!(check(&[0, 1, b'a']), Err(LinkError::Truncated { .. })));
        assert!(matches!(check(&[0, 1, 0xff, 0, 0]), Err(LinkError::NotUtf8 { at: 2, .. })));
        assert!(matches!(check(&[0, 0, 0x7f, 0xff, 1]), Err(LinkError::Truncated { .. })));
        assert!(matches!(check(&[0; 4 * 129]), Err(LinkError::FieldTooLong { .. })));
        assert!(check(&[0; 4 * 128]).is_ok());
        assert!(matches!(check(&[0; MAX_META_LEN + 1]), Err(LinkError::FieldTooLong { .. })));
    }

    #[test]
    fn own_entries_are_limited() {
        let long = "x".repeat(MAX_META_LEN - 4);
        assert_eq!(encoded_len(&[("", &long)]), Ok(MAX_META_LEN));
        let (len, max) = (MAX_META_LEN + 1, MAX_META_LEN);
        assert_eq!(encoded_len(&[("y", &long)]), Err(SendError::TooLarge { len, max }));
        let error = encoded_len(&[("", ""); 129]).unwrap_err();
        assert_eq!(error, SendError::TooManyEntries { n: 129, max: 128 });
        assert_eq!(error.to_string(), "too many entries: 129, the limit is 128");
    }
}
