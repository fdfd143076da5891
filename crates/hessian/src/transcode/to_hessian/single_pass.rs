//! An object of a class that is met for the first time, written while it is read.
//!
//! Its class definition stands before its values, and names the members, which are known when all
//! was read: it is put there afterwards. Whatever does not turn out as expected is taken back,
//! errors too, and the object is looked through first: what is written, and what is wrong, is the
//! same.

use std::borrow::Cow;

use ascii::AsAsciiStr as _;

use super::{JsonToHessian, ScannedMember, TranscodeError};
use java_json::ClassType;

impl<'a> JsonToHessian<'_, 'a, '_, '_, '_> {
    /// Writes the object that comes next. If that cannot be, all is as it was.
    pub(super) fn object_at_once(&mut self, class: &ClassType) -> bool {
        if self.places.is_some() || !self.may_guess() {
            return false;
        }
        let before = self.here();
        let (base, n_passed) = (self.members.len(), self.passed.n_bytes());
        let is_written = matches!(self.try_at_once(class, base), Ok(Some(())));
        if !is_written {
            let (n_misses, was_begun) = (self.n_misses, base < self.members.len());
            self.passed.forget_after(n_passed);
            self.look_again(before);
            // It is no miss where nothing was written in vain.
            self.n_misses = n_misses + u32::from(was_begun);
        }
        self.members.truncate(base);
        is_written
    }

    /// Nothing if the object is not as most are.
    fn try_at_once(
        &mut self,
        class: &ClassType,
        base: usize,
    ) -> Result<Option<()>, TranscodeError> {
        // Nothing comes after the outermost object that could be like it.
        let may_repeat = self.json.is_inside();
        let Some(open) = self.enc.object_open(class.name()) else { return Ok(None) };
        if self.members.capacity() == 0 {
            self.members.reserve(32);
        }
        let mut object = self.json.begin_object()?;
        while self.json.next_member(&mut object)? {
            let name = match self.json.take_plain_key().map(<[u8]>::as_ascii_str) {
                Some(Ok(name)) => Cow::Borrowed(name.as_str()),
                _ => self.json.read_key()?,
            };
            // That may be another class.
            if name == "class" {
                return Ok(None);
            }
            let ty = self.schema.field_type(class.key(), &name);
            self.members.push(ScannedMember { name, at: 0 });
            self.value(ty)?;
        }
        let members = self.members.get(base..).unwrap_or_default();
        let Some(number) = self.enc.object_close(open, class.name(), members) else {
            return Ok(None);
        };
        if may_repeat {
            self.remember(class.key(), base, number);
        }
        Ok(Some(()))
    }
}
