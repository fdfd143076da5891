//! The serialization ids of Dubbo's header and their names in URLs.

use std::fmt;

/// How the body of a frame is written; five bits in the header.
///
/// Source: apache/dubbo, `org.apache.dubbo.common.serialize.Constants`.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Serialization {
    /// Hessian 2.0 in Dubbo's dialect, id 2. The default of every Dubbo until 3.2.
    Hessian2,
    /// One JSON text a line, id 6 (Dubbo up to 2.7).
    Fastjson,
    /// Each JSON text behind its length, id 6 as well (the extension for Dubbo 3). A header cannot
    /// tell it from [`Serialization::Fastjson`], a body can: [`Serialization::of_body`].
    FastjsonSized,
    /// JSONB, each value behind its length, id 23. What Dubbo 3 offers beside hessian2.
    Fastjson2,
    /// Any other id: passed on, not read or written by this crate.
    Other(u8),
}

/// The ids that have a name in URLs but no variant of their own.
const OTHER_NAMES: [(&str, u8); 14] = [
    ("java", 3),
    ("compactedjava", 4),
    ("nativejava", 7),
    ("kryo", 8),
    ("fst", 9),
    ("native-hessian", 10),
    ("avro", 11),
    ("protostuff", 12),
    ("gson", 16),
    ("jackson", 18),
    ("protobuf-json", 21),
    ("protobuf", 22),
    ("kryo2", 25),
    ("msgpack", 27),
];

impl Serialization {
    /// The bits of the header's flag byte that hold the id.
    pub const MASK: u8 = 0x1f;

    /// Reads the low five bits of the header's flag byte.
    #[must_use]
    pub const fn from_id(id: u8) -> Self {
        match id & Self::MASK {
            2 => Self::Hessian2,
            6 => Self::Fastjson,
            23 => Self::Fastjson2,
            other => Self::Other(other),
        }
    }

    /// What `self`, which was read from a header, turns out to be when the body is known.
    ///
    /// A body of the sized framing begins with the highest byte of a length, 0 for less than
    /// 16 MiB, and a line of JSON never does.
    #[must_use]
    pub const fn of_body(self, body: &[u8]) -> Self {
        match (self, body) {
            (Self::Fastjson, [0, ..]) => Self::FastjsonSized,
            _ => self,
        }
    }

    /// The id for the header.
    #[must_use]
    pub const fn id(self) -> u8 {
        match self {
            Self::Hessian2 => 2,
            Self::Fastjson | Self::FastjsonSized => 6,
            Self::Fastjson2 => 23,
            Self::Other(id) => id & Self::MASK,
        }
    }

    /// Reads the name that a URL's `serialization` parameter holds.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        match name {
            "hessian2" => Some(Self::Hessian2),
            "fastjson" => Some(Self::Fastjson),
            "fastjson2" => Some(Self::Fastjson2),
            _ => {
                OTHER_NAMES.iter().find(|(known, _)| *known == name).map(|(_, id)| Self::Other(*id))
            }
        }
    }

    /// The name in URLs; `unknown` for an id without one.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Hessian2 => "hessian2",
            Self::Fastjson | Self::FastjsonSized => "fastjson",
            Self::Fastjson2 => "fastjson2",
            Self::Other(id) => OTHER_NAMES
                .iter()
                .find(|(_, known)| *known == id)
                .map_or("unknown", |(name, _)| name),
        }
    }

    /// Whether this crate reads and writes bodies of this serialization.
    #[must_use]
    pub const fn is_supported(self) -> bool {
        !matches!(self, Self::Other(_))
    }

    /// The body of a heartbeat: the serialization's null. `None` for those we cannot write.
    #[must_use]
    pub const fn null_body(self) -> Option<&'static [u8]> {
        match self {
            Self::Hessian2 => Some(b"N"),
            Self::Fastjson => Some(b"null\n"),
            Self::FastjsonSized => Some(b"\0\0\0\x04null"),
            // JSONB's null is one byte, and stands behind its length.
            Self::Fastjson2 => Some(&[0, 0, 0, 1, 0xaf]),
            Self::Other(_) => None,
        }
    }
}

impl fmt::Display for Serialization {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            "unknown" => write!(f, "unknown({})", self.id()),
            name => f.write_str(name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_id_and_every_name_comes_back() {
        for id in 0..=Serialization::MASK {
            let serialization = Serialization::from_id(id);
            assert_eq!(serialization.id(), id);
            if serialization.name() != "unknown" {
                assert_eq!(Serialization::from_name(serialization.name()), Some(serialization));
            }
        }
        assert_eq!(Serialization::from_name("Hessian2"), None);
        let (lines, sized) = (Serialization::Fastjson, Serialization::FastjsonSized);
        assert_eq!((sized.id(), sized.name()), (lines.id(), lines.name()));
        for serialization in [lines, sized] {
            assert_eq!(lines.of_body(serialization.null_body().unwrap()), serialization);
        }
        assert_eq!((lines.of_body(b""), sized.of_body(b"1\n")), (lines, sized));
        assert_eq!(Serialization::Hessian2.of_body(b"\0"), Serialization::Hessian2);
        assert_eq!(Serialization::Other(19).to_string(), "unknown(19)");
    }
}
