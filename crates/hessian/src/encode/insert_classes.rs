//! Class definitions that are known only after the objects have been written, as serde has it.

use super::Encoder;

impl Encoder<'_> {
    /// How many class definitions have been written; the next one gets this number.
    pub(crate) fn class_count(&self) -> u32 {
        self.classes.count
    }

    /// Puts definitions of classes (name and fields) in before what was written from `at` on. No
    /// name of a type may have been written since.
    pub(crate) fn insert_classes<'c>(
        &mut self,
        at: usize,
        classes: impl Iterator<Item = (&'static str, &'c [&'static str])>,
    ) {
        let len = self.out.len();
        for (name, fields) in classes {
            let start = self.out.len();
            self.class_def(name, fields);
            self.classes.push(at + (start - len), at + (self.out.len() - len));
        }
        let n_bytes = self.out.len() - len;
        if let Some(both) = self.out.get_mut(at..) {
            both.rotate_right(n_bytes);
        }
    }

    /// Puts another head, of `new_class`, before the fields of the object that begins at `at`.
    pub(crate) fn replace_object_head(&mut self, at: usize, old_class: u32, new_class: u32) {
        let (end, n_refs) = (self.out.len(), self.n_refs);
        self.object_head(old_class);
        let old_len = self.out.len() - end;
        self.out.truncate(end);
        self.object_head(new_class);
        let head = self.out.split_off(end);
        self.out.splice(at..at + old_len, head);
        self.n_refs = n_refs;
    }

    /// Takes back what was written since the buffer held `at` bytes and `n_refs` had begun.
    pub(crate) fn rewind(&mut self, at: usize, n_refs: u32) {
        self.out.truncate(at);
        self.n_refs = n_refs;
    }
}
