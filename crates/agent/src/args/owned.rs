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
    /// The same arguments, with copies of their texts: for those that are kept.
    pub fn owned(&self) -> OwnedArguments {
        self.owned_by(Bytes::copy_from_slice)
    }

    /// The same arguments for another thread, which needs them for a moment: what they are parts
    /// of is kept as a whole, if it can be shared.
    pub fn for_thread(&self) -> OwnedArguments {
        match self.source {
            Some(source) => self.owned_by(|text| source.slice_ref(text)),
            None => self.owned(),
        }
    }

    /// How many bytes [`for_thread`](Self::for_thread) copies.
    pub fn copied_len(&self) -> usize {
        if self.source.is_some() { 0 } else { self.len_in_bytes() }
    }

    fn owned_by(&self, own: impl Fn(&[u8]) -> Bytes) -> OwnedArguments {
        let own = |values: &[&[u8]]| values.iter().map(|value| own(value)).collect();
        let texts = match &self.texts {
            Texts::Json(values) => OwnedTexts::Json(own(values)),
            Texts::JsonWithRefs(values) => OwnedTexts::JsonWithRefs(own(values)),
            Texts::Plain(texts) => {
                OwnedTexts::Plain(texts.iter().map(|text| Cow::Owned(text.to_string())).collect())
            }
        };
        OwnedArguments { texts }
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
    fn a_body_is_shared_with_a_thread_and_copied_for_those_that_are_kept() {
        let body = Bytes::from_static(b" [1, {\"a\": 2}, \"b\"] ");
        let is_copied = |list: &ArgumentList<'_>, owned: &OwnedArguments| {
            let pairs: Vec<_> = texts(list).into_iter().zip(texts(&owned.list())).collect();
            assert!(pairs.iter().all(|(text, owned)| text.1 == owned.1));
            pairs.iter().all(|(text, owned)| text.0 != owned.0)
        };
        let shared = ArgumentList::of_body(&body).unwrap();
        assert!(!is_copied(&shared, &shared.for_thread()) && shared.copied_len() == 0);
        assert!(is_copied(&shared, &shared.owned()));
        let with_refs = ArgumentList::of_body(&body).unwrap().with_refs();
        assert!(!is_copied(&with_refs, &with_refs.for_thread()));

        let borrowed = ArgumentList::json(&body).unwrap();
        assert!(is_copied(&borrowed, &borrowed.for_thread()));
        assert_eq!(borrowed.copied_len(), borrowed.len_in_bytes());
    }
}
