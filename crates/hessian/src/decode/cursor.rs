//! Cursors: the place inside a list, map or object that is being read.
//!
//! A cursor has to be driven to its end (until `next` says that there is no more): that is how
//! the decoder knows that the container is left. Between two calls of `next` the caller reads
//! exactly what it is told: one value of a list or object, a key and a value of a map.

use super::{Decoder, Name};
use crate::{HessianError, tag};

/// The place inside a list.
#[derive(Debug)]
pub struct ListCursor<'a> {
    ty: Option<Name<'a>>,
    /// Elements to come, or `None` for a list that goes on to its end mark.
    left: Option<usize>,
}

impl<'a> ListCursor<'a> {
    /// The list's type as Java wrote it: `[int`, `java.util.LinkedList`.
    #[must_use]
    pub fn ty(&self) -> Option<&Name<'a>> {
        self.ty.as_ref()
    }

    /// How many elements are still to come, where the list says so.
    #[must_use]
    pub fn left(&self) -> Option<usize> {
        self.left
    }

    /// Goes on after `n` elements that were passed, no more than were left.
    #[inline]
    pub(crate) fn pass(&mut self, n: usize) {
        self.left = self.left.map(|left| left.saturating_sub(n));
    }

    /// Whether there is one more element, which the caller reads next.
    ///
    /// # Errors
    /// [`HessianError`] if the bytes end before the list does, or it has too many elements.
    #[inline]
    pub fn next(&mut self, dec: &mut Decoder<'a>) -> Result<bool, HessianError> {
        match &mut self.left {
            Some(0) => {
                dec.leave();
                Ok(false)
            }
            Some(left) => {
                *left -= 1;
                Ok(true)
            }
            None => dec.next_until_end(),
        }
    }
}

/// The place inside a map.
#[derive(Debug)]
pub struct MapCursor<'a> {
    ty: Option<Name<'a>>,
}

impl<'a> MapCursor<'a> {
    /// The map's type as Java wrote it: `java.util.TreeMap`, or a class that it wrote as a map.
    /// Nothing for a `java.util.HashMap`.
    #[must_use]
    pub fn ty(&self) -> Option<&Name<'a>> {
        self.ty.as_ref()
    }

    /// Whether there is one more entry; the caller reads its key and its value next.
    ///
    /// # Errors
    /// [`HessianError`] if the bytes end before the map does, or it has too many entries.
    #[inline]
    pub fn next(&mut self, dec: &mut Decoder<'a>) -> Result<bool, HessianError> {
        dec.next_until_end()
    }
}

/// The place inside an object.
#[derive(Debug)]
pub struct ObjectCursor {
    class: usize,
    next: usize,
    n_fields: usize,
}

impl ObjectCursor {
    /// The number of the class definition, for [`Decoder::class`].
    #[must_use]
    pub fn class(&self) -> usize {
        self.class
    }

    /// How many fields the object has.
    #[must_use]
    pub fn n_fields(&self) -> usize {
        self.n_fields
    }

    /// Goes on after `n` fields whose values were passed.
    #[inline]
    pub(crate) fn pass(&mut self, n: usize) {
        self.next += n;
    }

    /// The index of the next field, where there is one.
    #[inline]
    pub(crate) fn index(&self) -> usize {
        self.next
    }

    /// The index of the next field, whose value the caller reads next.
    #[inline]
    pub fn next(&mut self, dec: &mut Decoder<'_>) -> Option<usize> {
        if self.n_fields <= self.next {
            dec.leave();
            return None;
        }
        self.next += 1;
        Some(self.next - 1)
    }
}

impl<'a> Decoder<'a> {
    /// Begins to read a list of any form.
    ///
    /// # Errors
    /// [`HessianError`] if no list comes next, its type or length is wrong, or a limit is passed.
    pub fn read_list_begin(&mut self) -> Result<ListCursor<'a>, HessianError> {
        let tag = self.head()?;
        let start = self.pos;
        self.pos += 1;
        let (ty, left) = match tag {
            tag::LIST_DIRECT_UNTYPED..=0x7f => {
                (None, Some(usize::from(tag - tag::LIST_DIRECT_UNTYPED)))
            }
            tag::LIST_DIRECT..=0x77 => {
                (Some(self.read_type()?), Some(usize::from(tag - tag::LIST_DIRECT)))
            }
            tag::LIST_FIXED => {
                let ty = self.read_type()?;
                (Some(ty), Some(self.read_len()?))
            }
            tag::LIST_FIXED_UNTYPED => (None, Some(self.read_len()?)),
            tag::LIST_VARIABLE => (Some(self.read_type()?), None),
            tag::LIST_VARIABLE_UNTYPED => (None, None),
            _ => {
                self.pos = start;
                return Err(self.wrong_tag(tag, "a list"));
            }
        };
        self.count(left.unwrap_or(0))?;
        self.enter(start)?;
        Ok(ListCursor { ty, left })
    }

    /// Begins to read a map.
    ///
    /// # Errors
    /// [`HessianError`] if no map comes next, its type is wrong, or it is nested too deep.
    pub fn read_map_begin(&mut self) -> Result<MapCursor<'a>, HessianError> {
        let tag = self.head()?;
        let start = self.pos;
        let ty = match tag {
            tag::MAP_UNTYPED => {
                self.pos += 1;
                None
            }
            tag::MAP => {
                self.pos += 1;
                // Java takes an empty type for none.
                Some(self.read_type()?).filter(|ty| !ty.is_empty())
            }
            _ => return Err(self.wrong_tag(tag, "a map")),
        };
        self.enter(start)?;
        Ok(MapCursor { ty })
    }

    /// About how many entries the map has whose entries come next, so that memory is kept for them
    /// at once. It is a guess: it ends at the first list, map, object or long text, and takes
    /// every text for ASCII. Not more than [`MAX_GUESS`], and never more than bytes follow.
    #[cfg(feature = "serde")]
    pub(crate) fn guess_entries(&self) -> usize {
        let (mut rest, mut n_values) = (self.rest(), 0);
        while let Some(&tag) = rest.first()
            && let Some(&len @ 1..) = SHORT_LENS.get(usize::from(tag))
            && let Some(after) = rest.get(usize::from(len)..)
            && n_values < 2 * MAX_GUESS
        {
            n_values += 1;
            rest = after;
        }
        n_values / 2
    }

    /// Begins to read an object; class definitions before it are taken in.
    ///
    /// # Errors
    /// [`HessianError`] if no object of a known class comes next, or a limit is passed.
    #[inline]
    pub fn read_object_begin(&mut self) -> Result<ObjectCursor, HessianError> {
        let tag = self.head()?;
        let start = self.pos;
        let index = match tag {
            0x60..=0x6f => {
                self.pos += 1;
                i32::from(tag - tag::OBJECT_DIRECT)
            }
            tag::OBJECT => {
                self.pos += 1;
                self.take_int()?
            }
            _ => return Err(self.wrong_tag(tag, "an object")),
        };
        let class = usize::try_from(index).ok();
        let Some((class, def)) = class.and_then(|i| Some((i, self.classes.get(i)?))) else {
            let known = self.classes.len();
            return Err(HessianError::ClassIndex { offset: start, index: index.into(), known });
        };
        let n_fields = def.fields.len();
        self.count(n_fields)?;
        self.enter(start)?;
        Ok(ObjectCursor { class, next: 0, n_fields })
    }

    /// Whether one more element or entry comes before the end mark, which is taken otherwise.
    #[inline]
    fn next_until_end(&mut self) -> Result<bool, HessianError> {
        match self.buf.get(self.pos) {
            Some(&tag::END) => {
                self.pos += 1;
                self.leave();
                Ok(false)
            }
            Some(_) => {
                self.count(1)?;
                Ok(true)
            }
            None => Err(HessianError::Truncated { offset: self.pos, needed: 1 }),
        }
    }
}

/// A map that has more entries has to grow.
#[cfg(feature = "serde")]
const MAX_GUESS: usize = 1024;

/// By its tag, how many bytes a value takes that is no container, if it is short; 0 for the
/// others.
pub(super) const SHORT_LENS: [u8; 256] = {
    let mut lens = [0; 256];
    let mut tag = 0u8;
    loop {
        lens[tag as usize] = match tag {
            0x00..=0x1f => 1 + tag,
            tag::NULL | tag::TRUE | tag::FALSE | 0x80..=0xbf | 0xd8..=0xef => 1,
            tag::DOUBLE_ZERO | tag::DOUBLE_ONE => 1,
            0xc0..=0xcf | 0xf0..=0xff | tag::DOUBLE_BYTE => 2,
            0xd0..=0xd7 | 0x38..=0x3f | tag::DOUBLE_SHORT => 3,
            tag::INT | tag::LONG_INT | tag::DOUBLE_MILL | tag::DATE_MINUTE => 5,
            tag::LONG | tag::DOUBLE | tag::DATE => 9,
            _ => 0,
        };
        if tag == u8::MAX {
            break lens;
        }
        tag += 1;
    }
};
