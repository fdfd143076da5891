//! The table of serializations: one row for each that we write and read, and a module with what it
//! does. Whoever has to know something of a serialization asks its row.
//!
//! Source: apache/dubbo, `org.apache.dubbo.common.serialize.Constants`.

pub(crate) mod codec;
mod hessian2;
mod jsonb;
pub(crate) mod texts;

use std::fmt;

pub(crate) use self::codec::BodyCodec;
use self::hessian2::Hessian2;
use self::jsonb::Jsonb;
use self::texts::Framing;
use self::texts::values::JsonValues;
use crate::ProtoError;
use crate::values::ValueCodec;

/// What the table says of a serialization.
#[derive(Debug)]
struct SerializationRow {
    /// The number in headers, of five bits.
    id: u8,
    /// The number on links, where no two have the same: the one in headers, or one above
    /// [`Serialization::MASK`].
    link_number: u8,
    /// The name in URLs.
    name: &'static str,
    /// The name in our configuration and commands, where no two have the same.
    config_name: &'static str,
    /// Another one with the same number, whose bodies begin with this byte.
    other_with_id: Option<(u8, Serialization)>,
    /// Registrations mean this one by its name since this release of Dubbo.
    since: Option<(u32, u32)>,
    /// A serialization that shows more to readers without the classes. Where a provider prefers
    /// both, that one is used.
    shows_less_than: Option<Serialization>,
    /// Null as a whole body.
    null: &'static [u8],
    /// The body of an event that says that no call is welcome.
    readonly: &'static [u8],
    /// Whether values show their types.
    has_types: bool,
    /// Whether consumers make objects of the classes that values show.
    has_classes: bool,
    /// Whether the objects of replies show their classes.
    names_classes: bool,
    /// The first byte of a reply of kind 0, if the number of a reply's kind is one byte.
    reply_zero: Option<u8>,
    bodies: &'static dyn BodyCodec,
    values: &'static dyn ValueCodec,
}

/// Makes the type of serializations from the rows of the table.
macro_rules! table {
    ($($(#[$doc:meta])* $name:ident = $row:expr;)*) => {
        /// How the body of a frame is written; five bits in the header.
        #[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
        pub enum Serialization {
            $($(#[$doc])* $name,)*
            /// Any other id: passed on, not read or written by this crate. Those of links may be
            /// above [`Serialization::MASK`]; no header can name them.
            Other(u8),
        }

        /// The places of the rows.
        enum RowIndex { $($name,)* }

        static ROWS: [SerializationRow; Serialization::WRITTEN.len()] = [$($row,)*];

        impl Serialization {
            /// Those that we write and read, the one to be tried first in front.
            pub const WRITTEN: [Self; [$(stringify!($name)),*].len()] = [$(Self::$name),*];

            /// Where it is in [`Serialization::WRITTEN`].
            #[must_use]
            pub const fn index(self) -> Option<usize> {
                match self {
                    $(Self::$name => Some(RowIndex::$name as usize),)*
                    Self::Other(_) => None,
                }
            }
        }
    };
}

table! {
    /// Hessian 2.0 in Dubbo's dialect, id 2. The default of every Dubbo until 3.2.
    Hessian2 = SerializationRow {
        id: 2,
        link_number: 2,
        name: "hessian2",
        config_name: "hessian2",
        other_with_id: None,
        since: None,
        shows_less_than: None,
        null: b"N",
        readonly: b"\x01R",
        has_types: true,
        has_classes: true,
        names_classes: true,
        reply_zero: Some(hessian2::INT_ZERO),
        bodies: &Hessian2,
        values: &Hessian2,
    };
    /// JSONB, each value behind its length, id 23. What Dubbo 3 offers beside hessian2.
    Fastjson2 = SerializationRow {
        id: 23,
        link_number: 23,
        name: "fastjson2",
        config_name: "fastjson2",
        other_with_id: None,
        since: None,
        // It leaves out fields that are 0 or false, and shows enums in fields by their numbers.
        shows_less_than: Some(Serialization::Hessian2),
        // JSONB's null is one byte, and comes after its length.
        null: &[0, 0, 0, 1, 0xaf],
        readonly: &[0, 0, 0, 2, 0x4a, b'R'],
        has_types: true,
        has_classes: true,
        names_classes: true,
        reply_zero: None,
        bodies: &Framing::Jsonb,
        values: &Jsonb,
    };
    /// One JSON text a line, id 6 (Dubbo up to 2.7).
    Fastjson = SerializationRow {
        id: 6,
        link_number: 6,
        name: "fastjson",
        config_name: "fastjson",
        // The highest byte of a length, 0 for less than 16 MiB. No line of JSON begins with it.
        other_with_id: Some((0, Serialization::FastjsonSized)),
        since: None,
        shows_less_than: None,
        null: b"null\n",
        readonly: b"\"R\"\n",
        has_types: false,
        has_classes: false,
        names_classes: false,
        reply_zero: None,
        bodies: &Framing::Lines,
        values: &JsonValues { framing: Framing::Lines, is_dialect: false },
    };
    /// Each JSON text behind its length, id 6 as well (the extension for Dubbo 3). A header cannot
    /// show which of the two it is, a body can: [`Serialization::of_body`].
    FastjsonSized = SerializationRow {
        id: 6,
        // Dubbo's 6, and a bit that none of its numbers has.
        link_number: 0x26,
        name: "fastjson",
        config_name: "fastjson-sized",
        other_with_id: None,
        since: Some((3, 2)),
        shows_less_than: None,
        null: b"\0\0\0\x04null",
        readonly: b"\0\0\0\x03\"R\"",
        has_types: false,
        // Consumers make no exceptions of JSON.
        has_classes: false,
        names_classes: true,
        reply_zero: None,
        bodies: &Framing::Sized,
        values: &JsonValues { framing: Framing::Sized, is_dialect: true },
    };
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

/// The serialization of each number: the first row that has it.
static BY_ID: [Serialization; Serialization::MASK as usize + 1] = {
    let mut found = [Serialization::Other(0); Serialization::MASK as usize + 1];
    let mut id: u8 = 0;
    while id <= Serialization::MASK {
        found[id as usize] = Serialization::Other(id);
        let mut index = ROWS.len();
        while 0 < index {
            index -= 1;
            if ROWS[index].id == id {
                found[id as usize] = Serialization::WRITTEN[index];
            }
        }
        id += 1;
    }
    found
};

impl Serialization {
    /// The bits of the header's flag byte that hold the id.
    pub const MASK: u8 = 0x1f;

    /// What every Dubbo reads unless it was told otherwise: used where nobody says which.
    pub const DEFAULT: Self = Self::WRITTEN[0];

    /// The body of a reply that is null, in the default one.
    pub(crate) const DEFAULT_NULL_REPLY: &[u8] = &[hessian2::INT_ZERO + 2];

    #[inline]
    const fn row(self) -> Option<&'static SerializationRow> {
        match self.index() {
            Some(index) => Some(&ROWS[index]),
            None => None,
        }
    }

    /// How bodies are written.
    #[inline]
    pub(crate) fn bodies(self) -> Result<&'static dyn BodyCodec, ProtoError> {
        match self.row() {
            Some(row) => Ok(row.bodies),
            None => Err(ProtoError::UnsupportedSerialization { id: self.link_number() }),
        }
    }

    /// The same for what we have to write in any case: by the default if we do not write this one.
    pub(crate) fn or_default(self) -> (Self, &'static dyn BodyCodec) {
        match self.row() {
            Some(row) => (self, row.bodies),
            None => (Self::DEFAULT, ROWS[0].bodies),
        }
    }

    /// Reads the low five bits of the header's flag byte.
    #[inline]
    #[must_use]
    pub const fn from_id(id: u8) -> Self {
        BY_ID[(id & Self::MASK) as usize]
    }

    /// What `self`, which was read from a header, turns out to be when the body is known.
    #[inline]
    #[must_use]
    pub const fn of_body(self, body: &[u8]) -> Self {
        match (self.row(), body) {
            (Some(SerializationRow { other_with_id: Some((byte, other)), .. }), [first, ..])
                if *first == *byte =>
            {
                *other
            }
            _ => self,
        }
    }

    /// The id for the header.
    #[inline]
    #[must_use]
    pub const fn id(self) -> u8 {
        match (self.row(), self) {
            (Some(row), _) => row.id,
            (None, Self::Other(id)) => id & Self::MASK,
            (None, _) => 0,
        }
    }

    /// The number for links.
    #[must_use]
    pub const fn link_number(self) -> u8 {
        match (self.row(), self) {
            (Some(row), _) => row.link_number,
            (None, Self::Other(number)) => number,
            (None, _) => 0,
        }
    }

    /// Whether a header can name it. Not all numbers on links have one there.
    #[must_use]
    pub const fn fits_header(self) -> bool {
        !matches!(self, Self::Other(number) if Self::MASK < number)
    }

    /// The serialization of a number on a link. One that nobody knows keeps its own.
    #[must_use]
    pub const fn from_link_number(number: u8) -> Self {
        let mut index = 0;
        while index < ROWS.len() {
            if ROWS[index].link_number == number {
                return Self::WRITTEN[index];
            }
            index += 1;
        }
        Self::Other(number)
    }

    /// Reads the name that a URL's `serialization` parameter holds.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::of_row(|row| row.name == name).or_else(|| {
            OTHER_NAMES.iter().find(|(known, _)| *known == name).map(|(_, id)| Self::Other(*id))
        })
    }

    /// The same in a registration: some names mean another since a release of Dubbo.
    pub(crate) fn from_registered(
        name: &str,
        is_release_from: impl Fn(u32, u32) -> bool,
    ) -> Option<Self> {
        let is_it = |row: &SerializationRow| {
            row.name == name
                && row.since.is_some_and(|(major, minor)| is_release_from(major, minor))
        };
        Self::of_row(is_it).or_else(|| Self::from_name(name))
    }

    /// Reads the name that configurations and commands have.
    #[must_use]
    pub fn from_config_name(name: &str) -> Option<Self> {
        Self::of_row(|row| row.config_name == name)
    }

    /// The names for configurations and commands.
    pub const CONFIG_NAMES: [(&str, Self); Self::WRITTEN.len()] = {
        let mut names = [("", Self::DEFAULT); Self::WRITTEN.len()];
        let mut index = 0;
        while index < names.len() {
            names[index] = (ROWS[index].config_name, Self::WRITTEN[index]);
            index += 1;
        }
        names
    };

    /// Those that a registration can name whatever release of Dubbo it is of, in the same order.
    pub const NAMED: [Self; n_named()] = {
        let mut named = [Self::DEFAULT; n_named()];
        let (mut index, mut n) = (0, 0);
        while index < ROWS.len() {
            if ROWS[index].since.is_none() {
                named[n] = Self::WRITTEN[index];
                n += 1;
            }
            index += 1;
        }
        named
    };

    fn of_row(is_it: impl Fn(&SerializationRow) -> bool) -> Option<Self> {
        let index = ROWS.iter().position(is_it)?;
        Self::WRITTEN.get(index).copied()
    }

    /// The name in URLs; `unknown` for an id without one.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self.row() {
            Some(row) => row.name,
            None => OTHER_NAMES
                .iter()
                .find(|(_, known)| *known == self.link_number())
                .map_or("unknown", |(name, _)| name),
        }
    }

    /// Whether this crate reads and writes bodies of this serialization.
    #[must_use]
    pub const fn is_supported(self) -> bool {
        self.index().is_some()
    }

    /// The first release of Dubbo (major and minor number) whose registrations mean this one by
    /// its name, if the name means another one before.
    #[must_use]
    pub fn since(self) -> Option<(u32, u32)> {
        self.row()?.since
    }

    /// A serialization that shows more to readers without the classes.
    pub(crate) fn shows_less_than(self) -> Option<Self> {
        self.row()?.shows_less_than
    }

    /// Whether values show their types, so that nobody has to know them beforehand.
    #[must_use]
    pub fn has_types(self) -> bool {
        self.row().is_some_and(|row| row.has_types)
    }

    /// Whether consumers make objects of the classes that values show.
    #[must_use]
    pub fn has_classes(self) -> bool {
        self.row().is_some_and(|row| row.has_classes)
    }

    /// Whether the objects of replies show their classes.
    #[must_use]
    pub fn names_classes(self) -> bool {
        self.row().is_some_and(|row| row.names_classes)
    }

    /// How values are written and read; nothing for a serialization that we do not know.
    #[must_use]
    pub fn values(self) -> Option<&'static dyn ValueCodec> {
        self.row().map(|row| row.values)
    }

    /// The same for what was read already.
    pub(crate) fn known_values(self) -> Result<&'static dyn ValueCodec, ProtoError> {
        self.values().ok_or(ProtoError::UnsupportedSerialization { id: self.link_number() })
    }

    /// The number of a reply's kind, if it is one byte here, and the first of the body.
    #[inline]
    pub(crate) fn short_reply_number(self, body: &[u8]) -> Option<u8> {
        body.first()?.checked_sub(self.row()?.reply_zero?)
    }

    /// The body of a heartbeat: the serialization's null. `None` for those we cannot write.
    #[must_use]
    pub fn null_body(self) -> Option<&'static [u8]> {
        self.row().map(|row| row.null)
    }

    /// The body of an event that says that no call is welcome.
    pub(crate) fn readonly_body(self) -> Option<&'static [u8]> {
        self.row().map(|row| row.readonly)
    }

    /// The value of the only argument of a request, without what frames it.
    ///
    /// # Errors
    /// [`ProtoError::UnsupportedSerialization`].
    pub fn only_arg(self, args: &[u8]) -> Result<&[u8], ProtoError> {
        self.bodies().map(|bodies| bodies.only_arg(args))
    }

    /// The letter of an event frame that is more than a heartbeat, whatever it is written in.
    pub(crate) fn event_letter(body: &[u8]) -> Option<u8> {
        ROWS.iter().find_map(|row| row.bodies.event_letter(body))
    }
}

/// How many rows have a name that means nothing else in any release.
const fn n_named() -> usize {
    let (mut index, mut n) = (0, 0);
    while index < ROWS.len() {
        n += ROWS[index].since.is_none() as usize;
        index += 1;
    }
    n
}

impl fmt::Display for Serialization {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            "unknown" => write!(f, "unknown({})", self.link_number()),
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

    #[test]
    fn every_number_of_a_link_stays_what_it_is() {
        for number in 0..=u8::MAX {
            let serialization = Serialization::from_link_number(number);
            assert_eq!(serialization.link_number(), number);
            let is_known = [2, 6, 23, 0x26].contains(&number);
            assert_eq!(serialization.is_supported(), is_known, "{number}");
            let fits = is_known || number <= Serialization::MASK;
            assert_eq!(serialization.fits_header(), fits, "{number}");
        }
        let unknown = Serialization::from_link_number(35);
        assert_eq!(unknown.to_string(), "unknown(35)", "3 is java's");
        assert_eq!(unknown.bodies().err(), Some(ProtoError::UnsupportedSerialization { id: 35 }));
    }
}
