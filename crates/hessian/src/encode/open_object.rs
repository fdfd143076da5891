//! For a writer of objects that knows their fields only after it has written them.

use super::{Encoder, SEARCHED};

/// An object whose class definition is still to come, and is to stand before it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OpenObject {
    at: usize,
    class: usize,
}

impl Encoder<'_> {
    /// The buffer, for values that are written to it by others. They only append.
    #[inline]
    pub(crate) fn buffer(&mut self) -> &mut Vec<u8> {
        self.out
    }

    /// Begins an object of a class that has no definition of this name yet, and takes a number for
    /// one. Nothing if there is one already, or if too many definitions were written to tell.
    pub(crate) fn object_open(&mut self, class: &str) -> Option<OpenObject> {
        let ranges = &self.classes.ranges;
        if SEARCHED <= ranges.len() || !ranges.is_empty() && self.is_defined(class) {
            return None;
        }
        let at = self.out.len();
        // No definition is empty, so that none is taken for this one.
        let number = self.classes.push(at, at);
        self.object_head(number);
        Some(OpenObject { at, class: usize::try_from(number).ok()? })
    }

    fn is_defined(&self, class: &str) -> bool {
        let mut name = Vec::with_capacity(class.len() + 4);
        super::write_string(&mut name, class);
        let is_it = |&(from, to): &(usize, usize)| {
            let def = self.out.get(from..to).and_then(<[u8]>::split_first);
            def.is_some_and(|(_, def)| def.starts_with(&name))
        };
        self.classes.ranges.iter().any(is_it)
    }

    /// Puts the definition before an object, and says what number it has. Nothing if an object
    /// inside has the same one, which then should have had the number of this one.
    pub(crate) fn object_close<S: AsRef<str>>(
        &mut self,
        open: OpenObject,
        class: &str,
        fields: &[S],
    ) -> Option<u32> {
        let from = self.out.len();
        self.class_def(class, fields);
        let (before, def) = self.out.split_at(from);
        let len = def.len();
        let is_inside = self.classes.ranges.iter().skip(open.class + 1);
        if is_inside.clone().any(|&(start, end)| before.get(start..end) == Some(def)) {
            return None;
        }
        for (start, end) in self.classes.ranges.iter_mut().chain(&mut self.types.ranges) {
            if open.at <= *start {
                (*start, *end) = (*start + len, *end + len);
            }
        }
        *self.classes.ranges.get_mut(open.class)? = (open.at, open.at + len);
        self.out.get_mut(open.at..)?.rotate_right(len);
        u32::try_from(open.class).ok()
    }
}
