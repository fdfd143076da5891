//! Arguments that outlive the request that they came with.

use std::borrow::Cow;

use bytes::Bytes;

use super::{ArgumentList, Texts};

/// The same as [`ArgumentList`], with texts of its own.
#[derive(Debug)]
pub struct OwnedArguments {
    texts: OwnedTexts,
}

#[derive(Debug)]
enum OwnedTexts {
    Json(Vec<Bytes>),
    JsonWithRefs(Vec<Bytes>),
    Plain(Vec<Cow<'static, str>>),
}

impl<'a> ArgumentList<'a> {
    /// The same arguments of the same texts.
    pub fn shared(&self) -> ArgumentList<'a> {
        let texts = match &self.texts {
            Texts::Json(values) => Texts::Json(values.clone()),
            Texts::JsonWithRefs(values) => Texts::JsonWithRefs(values.clone()),
            Texts::Plain(texts) => Texts::Plain(texts),
        };
        ArgumentList { texts, source: self.source }
    }
}

impl ArgumentList<'_> {
    /// The same arguments, with texts of their own: parts of what these are parts of, or copies.
    pub fn owned(&self) -> OwnedArguments {
        let own = |values: &[&[u8]]| values.iter().map(|value| self.own(value)).collect();
        let texts = match &self.texts {
            Texts::Json(values) => OwnedTexts::Json(own(values)),
            Texts::JsonWithRefs(values) => OwnedTexts::JsonWithRefs(own(values)),
            Texts::Plain(texts) => {
                OwnedTexts::Plain(texts.iter().map(|text| Cow::Owned(text.to_string())).collect())
            }
        };
        OwnedArguments { texts }
    }

    /// How many bytes [`owned`](Self::owned) copies.
    pub fn copied_len(&self) -> usize {
        if self.source.is_some() { 0 } else { self.len_in_bytes() }
    }

    fn own(&self, text: &[u8]) -> Bytes {
        match self.source {
            Some(source) => source.slice_ref(text),
            None => Bytes::copy_from_slice(text),
        }
    }
}

impl OwnedArguments {
    /// The arguments.
    pub fn list(&self) -> ArgumentList<'_> {
        let texts = match &self.texts {
            OwnedTexts::Json(values) => Texts::Json(values.iter().map(|it| &**it).collect()),
            OwnedTexts::JsonWithRefs(values) => {
                Texts::JsonWithRefs(values.iter().map(|it| &**it).collect())
            }
            OwnedTexts::Plain(texts) => Texts::Plain(texts),
        };
        ArgumentList { texts, source: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(list: &ArgumentList<'_>) -> Vec<(*const u8, Vec<u8>)> {
        let text = |index| list.json_at(index, None);
        (0..list.len()).map(text).map(|text| (text.as_ptr(), text.to_vec())).collect()
    }

    #[test]
    fn a_body_that_can_be_shared_is_not_copied() {
        let body = Bytes::from_static(b" [1, {\"a\": 2}, \"b\"] ");
        let shared = ArgumentList::json_of(&body).unwrap();
        let owned = shared.owned();
        assert_eq!((texts(&owned.list()), shared.copied_len()), (texts(&shared), 0));
        assert_eq!(texts(&shared.with_refs().owned().list()), texts(&owned.list()));

        let borrowed = ArgumentList::json(&body).unwrap();
        let copies = borrowed.owned();
        assert_eq!(borrowed.copied_len(), borrowed.len_in_bytes());
        for (text, copy) in texts(&borrowed).into_iter().zip(texts(&copies.list())) {
            assert!(text.1 == copy.1 && text.0 != copy.0);
        }
    }
}
