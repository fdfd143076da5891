//! Arguments that outlive the request that they came with.

use std::borrow::Cow;

use super::ArgumentList;

/// The same as [`ArgumentList`], with texts of its own.
#[derive(Debug)]
pub struct OwnedArguments {
    texts: Texts,
}

#[derive(Debug)]
enum Texts {
    Json(Vec<Box<[u8]>>),
    JsonWithRefs(Vec<Box<[u8]>>),
    Text(Vec<Cow<'static, str>>),
}

impl<'a> ArgumentList<'a> {
    /// The same arguments of the same texts.
    pub fn shared(&self) -> ArgumentList<'a> {
        match self {
            Self::Json(values) => ArgumentList::Json(values.clone()),
            Self::JsonWithRefs(values) => ArgumentList::JsonWithRefs(values.clone()),
            Self::Text(texts) => ArgumentList::Text(texts),
        }
    }
}

impl ArgumentList<'_> {
    /// The same arguments, with texts of their own.
    pub fn owned(&self) -> OwnedArguments {
        let own = |values: &[&[u8]]| values.iter().map(|value| Box::from(*value)).collect();
        let texts = match self {
            Self::Json(values) => Texts::Json(own(values)),
            Self::JsonWithRefs(values) => Texts::JsonWithRefs(own(values)),
            Self::Text(texts) => {
                Texts::Text(texts.iter().map(|text| Cow::Owned(text.to_string())).collect())
            }
        };
        OwnedArguments { texts }
    }
}

impl OwnedArguments {
    /// The arguments.
    pub fn list(&self) -> ArgumentList<'_> {
        match &self.texts {
            Texts::Json(values) => ArgumentList::Json(values.iter().map(|it| &**it).collect()),
            Texts::JsonWithRefs(values) => {
                ArgumentList::JsonWithRefs(values.iter().map(|it| &**it).collect())
            }
            Texts::Text(texts) => ArgumentList::Text(texts),
        }
    }
}
