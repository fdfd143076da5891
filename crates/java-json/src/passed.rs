//! Where the arrays and objects of a text end that were passed while looking ahead, so that
//! nothing is looked through again at every level.

use std::borrow::Cow;

use crate::json::{JsonError, JsonKind, JsonReader};

/// What an object says of itself.
#[derive(Debug, Default)]
pub struct ObjectSummary<'a> {
    /// The string that is its member `class`.
    pub class: Option<Cow<'a, str>>,
    /// What its only other member is and where it begins, if that is called `value`.
    pub only_value: Option<(JsonKind, usize)>,
    /// The same member, if it is a string.
    pub only_text: Option<Cow<'a, str>>,
    /// The string that is its only other member, which is called `name`.
    pub only_name: Option<Cow<'a, str>>,
}

/// The arrays and objects that were passed. A reader looks through one object after another, and
/// those inside of it afterwards.
#[derive(Debug, Default)]
pub struct Passed {
    /// Where each begins and ends, in order.
    ends: Vec<(usize, usize)>,
    /// Up to where `ends` is complete.
    n_bytes: usize,
}

impl Passed {
    /// Looks through the object that comes next. The reader stays.
    ///
    /// # Errors
    /// [`JsonError`] if it is no JSON.
    pub fn look<'a>(&mut self, json: &JsonReader<'a>) -> Result<ObjectSummary<'a>, JsonError> {
        let mut scan = self.begin(json)?;
        let (mut class, mut name, mut value, mut text) = (None, None, None, None);
        let mut n_others = 0;
        let mut object = scan.begin_object()?;
        while let Some(key) = scan.next_key(&mut object)? {
            let kind = scan.peek()?;
            match (&*key, kind) {
                ("class", JsonKind::String) => {
                    class = Some(scan.read_string()?);
                    continue;
                }
                ("name", JsonKind::String) => name = Some(scan.read_string()?),
                ("value", _) => {
                    value = Some((kind, scan.position()));
                    match kind {
                        JsonKind::String => text = Some(scan.read_string()?),
                        _ => self.skip(&mut scan)?,
                    }
                }
                _ => self.skip(&mut scan)?,
            }
            n_others += 1;
        }
        self.end(&scan);
        let only_name = name.filter(|_| n_others == 1);
        let only_value = value.filter(|_| n_others == 1);
        let only_text = text.filter(|_| only_value.is_some());
        Ok(ObjectSummary { class, only_value, only_text, only_name })
    }

    /// A reader that looks through what comes next, by [`Passed::skip`], up to [`Passed::end`].
    ///
    /// # Errors
    /// [`JsonError`] if nothing comes.
    pub fn begin<'a>(&mut self, json: &JsonReader<'a>) -> Result<JsonReader<'a>, JsonError> {
        let mut scan = json.scan();
        scan.peek()?;
        if self.n_bytes <= scan.position() {
            self.ends.clear();
        }
        Ok(scan)
    }

    /// Up to where all was passed.
    #[must_use]
    pub fn n_bytes(&self) -> usize {
        self.n_bytes
    }

    /// What was passed after [`Passed::n_bytes`] was this is to be looked through again.
    pub fn forget_after(&mut self, n_bytes: usize) {
        self.n_bytes = self.n_bytes.min(n_bytes);
    }

    /// All of what was begun was looked through.
    pub fn end(&mut self, scan: &JsonReader<'_>) {
        self.n_bytes = self.n_bytes.max(scan.position());
    }

    /// Passes a value of what is looked through.
    ///
    /// # Errors
    /// [`JsonError`] if it is no JSON.
    pub fn skip(&mut self, scan: &mut JsonReader<'_>) -> Result<(), JsonError> {
        let kind = scan.peek()?;
        if !matches!(kind, JsonKind::Array | JsonKind::Object) {
            return scan.skip_value().map(drop);
        }
        let start = scan.position();
        if self.n_bytes <= start {
            return self.skip_noting(scan, kind);
        }
        let found = self.ends.binary_search_by_key(&start, |&(start, _)| start);
        match found.ok().and_then(|index| self.ends.get(index)) {
            Some(&(_, end)) => scan.jump(end),
            None => scan.skip_value().map(drop)?,
        }
        Ok(())
    }

    fn skip_noting(&mut self, scan: &mut JsonReader<'_>, kind: JsonKind) -> Result<(), JsonError> {
        let index = self.ends.len();
        self.ends.push((scan.position(), 0));
        if kind == JsonKind::Array {
            let mut array = scan.begin_array()?;
            while scan.next_element(&mut array)? {
                self.skip_inner(scan)?;
            }
        } else {
            let mut object = scan.begin_object()?;
            while scan.next_raw_key(&mut object)?.is_some() {
                self.skip_inner(scan)?;
            }
        }
        if let Some(end) = self.ends.get_mut(index) {
            end.1 = scan.position();
        }
        Ok(())
    }

    fn skip_inner(&mut self, scan: &mut JsonReader<'_>) -> Result<(), JsonError> {
        match scan.peek()? {
            kind @ (JsonKind::Array | JsonKind::Object) => self.skip_noting(scan, kind),
            _ => scan.skip_value().map(drop),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Limits;
    use crate::json::items_read_by;

    /// Looks through each object before it reads it, as the writers do.
    fn read(json: &mut JsonReader<'_>, passed: &mut Passed) -> usize {
        if json.peek().unwrap() != JsonKind::Object {
            json.skip_value().unwrap();
            return 0;
        }
        let summary = passed.look(json).unwrap();
        assert!(summary.class.is_some() && summary.only_value.is_none());
        let (mut n_objects, mut object) = (1, json.begin_object().unwrap());
        while json.next_key(&mut object).unwrap().is_some() {
            n_objects += read(json, passed);
        }
        n_objects
    }

    #[test]
    fn what_was_passed_is_not_looked_through_again() {
        let one = |inner: &str| format!(r#"{{"a":[1,[]],"class":"a.B","c":{inner},"d":[]}}"#);
        let text = (0..50).fold("7".to_owned(), |inner, _| one(&inner));
        let text = format!(r#"{{"x":{text},"class":"a.B","y":{text}}}"#);
        let mut json = JsonReader::new(text.as_bytes(), Limits::default());
        let n_read = items_read_by(|| {
            assert_eq!(read(&mut json, &mut Passed::default()), 101);
        });
        json.finish().unwrap();
        // Each member once when it is passed, once when its object is looked through, and once
        // when it is read.
        let n_members = 3 + 100 * 6;
        assert!(n_read <= 3 * n_members, "{n_read}");
    }

    #[test]
    fn an_object_says_what_it_stands_for() {
        for (text, class, value, name) in [
            (r#"{"class":"a.B","value":[1]}"#, Some("a.B"), Some((JsonKind::Array, 23)), None),
            (r#"{"name":"RED", "class":"a.B"}"#, Some("a.B"), None, Some("RED")),
            (r#"{"cl\u0061ss":"a.B"}"#, Some("a.B"), None, None),
            (r#"{"value":1,"name":"x"}"#, None, None, None),
            (r#"{"class":7,"value":1}"#, None, None, None),
            (r#"{"name":7}"#, None, None, None),
        ] {
            let json = JsonReader::new(text.as_bytes(), Limits::default());
            let summary = Passed::default().look(&json).unwrap();
            assert_eq!((summary.class.as_deref(), summary.only_value), (class, value), "{text}");
            assert_eq!(summary.only_name.as_deref(), name, "{text}");
        }
    }
}
