//! Names in a message, and the definitions of classes.

use std::borrow::Cow;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

/// The name of a class, field or type: borrowed from the message where it can be, cheap to clone.
#[derive(Clone)]
pub enum Name<'a> {
    /// Bytes of the message.
    Borrowed(&'a str),
    /// Text that had to be put together.
    Shared(Arc<str>),
}

impl Deref for Name<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        match self {
            Self::Borrowed(text) => text,
            Self::Shared(text) => text,
        }
    }
}

impl fmt::Debug for Name<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

impl<'a> From<Cow<'a, str>> for Name<'a> {
    fn from(text: Cow<'a, str>) -> Self {
        match text {
            Cow::Borrowed(text) => Self::Borrowed(text),
            Cow::Owned(text) => Self::Shared(text.into()),
        }
    }
}

/// A class definition: what the objects that name it have for fields, in order.
#[derive(Clone, Debug)]
pub struct ClassDef<'a> {
    /// The Java name, like `com.acme.Order`.
    pub name: Name<'a>,
    /// The fields, in the order in which objects give their values.
    pub fields: Vec<Name<'a>>,
}
