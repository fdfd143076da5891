//! The classes of a value that is being written: found without hashing, made up field by field.
//!
//! An object takes the class of the last one with its name and number of fields, on trust, and
//! each of its fields is held against the class. The object that reaches the end of what is known
//! adds the next field; one that differs moves to another class. So a struct that holds itself
//! shares one class with what it holds, though neither is complete yet.

/// Only this many classes are looked through for one that fits.
const SEARCHED: usize = 256;

/// Where a class begins in [`Classes::known`] that is not there: no sum with a number of fields
/// is, either.
const NOT_KNOWN: usize = usize::MAX / 2;

/// Classes in the order of their numbers.
#[derive(Debug, Default)]
pub(super) struct Classes {
    list: Vec<WrittenClass>,
    /// The fields of complete classes of which there is more than one object, each with an end
    /// mark behind its last: what objects are held against first, for it is one look.
    known: Vec<Option<&'static str>>,
}

#[derive(Debug)]
struct WrittenClass {
    name: &'static str,
    /// How many fields the first object announced.
    announced: usize,
    fields: Vec<&'static str>,
    /// Whether an object of it is complete, so that it has all of its fields.
    is_complete: bool,
    /// Where its fields stand in [`Classes::known`].
    start: usize,
}

impl WrittenClass {
    /// Whether an object whose first fields are these, and no more if it `is_complete`, may be of
    /// this class.
    fn fits(&self, name: &str, fields: &[&str], is_complete: bool) -> bool {
        let known = &self.fields;
        let n_common = known.len().min(fields.len());
        self.name == name
            && known.get(..n_common) == fields.get(..n_common)
            && (fields.len() <= known.len() || !self.is_complete)
            && (!is_complete || known.len() == fields.len())
    }
}

/// The same text; mostly the very same place in memory.
#[inline]
fn same(a: &'static str, b: &'static str) -> bool {
    std::ptr::eq(a, b) || a == b
}

impl Classes {
    /// The likeliest class of an object that begins, and where its fields stand for
    /// [`Classes::has`].
    #[inline]
    pub(super) fn begin(&mut self, name: &'static str, announced: usize) -> (usize, usize) {
        match self.list.last() {
            Some(last)
                if last.announced == announced
                    && last.start != NOT_KNOWN
                    && std::ptr::eq(last.name, name) =>
            {
                (self.list.len() - 1, last.start)
            }
            _ => self.search(name, announced),
        }
    }

    /// As above, if the last class is not the one, or not seen to be at once.
    fn search(&mut self, name: &'static str, announced: usize) -> (usize, usize) {
        let fits = |class: &WrittenClass| class.announced == announced && same(class.name, name);
        let class = match self.list.iter().rev().take(SEARCHED).position(fits) {
            Some(from_end) => self.list.len() - 1 - from_end,
            None => self.add(name, announced, Vec::with_capacity(announced.min(SEARCHED)), false),
        };
        (class, self.start(class))
    }

    /// Where the fields of `class` stand for [`Classes::has`].
    pub(super) fn start(&mut self, class: usize) -> usize {
        let Some(class) = self.list.get_mut(class) else {
            return NOT_KNOWN;
        };
        if class.start == NOT_KNOWN && class.is_complete {
            class.start = self.known.len();
            self.known.extend(class.fields.iter().copied().map(Some));
            self.known.push(None);
        }
        class.start
    }

    /// Whether the `index`-th field of the class whose fields begin at `start` is this very text,
    /// as it is in nearly every object but the first.
    #[inline]
    pub(super) fn has(&self, start: usize, index: usize, field: &'static str) -> bool {
        let known = self.known.get(start + index);
        matches!(known, Some(Some(known)) if std::ptr::eq(*known, field))
    }

    /// Whether that class has so many fields and no more.
    #[inline]
    pub(super) fn ends(&self, start: usize, n_fields: usize) -> bool {
        self.known.get(start + n_fields) == Some(&None)
    }

    /// The class of an object of `class` so far, whose field `index` is `field`: mostly the same.
    pub(super) fn field(&mut self, class: usize, index: usize, field: &'static str) -> usize {
        let Some(found) = self.list.get_mut(class) else {
            return class;
        };
        let known = &found.fields;
        match known.get(index) {
            Some(known) if same(known, field) => class,
            None if !found.is_complete && known.len() == index => {
                found.fields.push(field);
                class
            }
            _ => self.move_to(class, index, Some(field)),
        }
    }

    /// The class of an object of `class` so far, which is complete with `n_fields`.
    pub(super) fn end(&mut self, class: usize, n_fields: usize) -> usize {
        match self.list.get_mut(class) {
            Some(found) if found.fields.len() == n_fields => {
                found.is_complete = true;
                class
            }
            _ => self.move_to(class, n_fields, None),
        }
    }

    /// Another class that begins with the first `n_fields` fields of `class`: and then has the
    /// `next` field, or no more.
    #[cold]
    fn move_to(&mut self, class: usize, n_fields: usize, next: Option<&'static str>) -> usize {
        let Some(old) = self.list.get(class) else {
            return class;
        };
        let (name, announced) = (old.name, old.announced);
        let mut fields = old.fields.get(..n_fields).unwrap_or_default().to_vec();
        fields.extend(next);
        let is_complete = next.is_none();
        let fits = |class: &WrittenClass| class.fits(name, &fields, is_complete);
        if let Some(from_end) = self.list.iter().rev().take(SEARCHED).position(fits) {
            let class = self.list.len() - 1 - from_end;
            if let Some(found) = self.list.get_mut(class) {
                let more = fields.get(found.fields.len()..).unwrap_or_default();
                found.fields.extend_from_slice(more);
                found.is_complete |= is_complete;
            }
            return class;
        }
        self.add(name, announced, fields, is_complete)
    }

    fn add(
        &mut self,
        name: &'static str,
        announced: usize,
        fields: Vec<&'static str>,
        is_complete: bool,
    ) -> usize {
        self.list.push(WrittenClass { name, announced, fields, is_complete, start: NOT_KNOWN });
        self.list.len() - 1
    }

    /// The name and fields of each class, by its number.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&'static str, &[&'static str])> {
        self.list.iter().map(|class| (class.name, class.fields.as_slice()))
    }
}
