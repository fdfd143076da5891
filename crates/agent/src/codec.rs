//! The numbers that a link's frames have for serializations.
//!
//! They are Dubbo's, of five bits, but for one: Dubbo has the same number for both framings of
//! fastjson, and whoever writes arguments has to know which. The table of serializations has them
//! in its rows, and docs/link-protocol.md has the list.

use dubbo_proto::Serialization;

/// What a caller chooses itself.
pub const UNSET: u8 = 0;

/// The number of a serialization.
pub const fn of(serialization: Serialization) -> u8 {
    serialization.link_number()
}

/// The serialization of a number.
pub const fn serialization(codec: u8) -> Serialization {
    Serialization::from_link_number(codec)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_serialization_has_a_number_of_its_own() {
        let known = (0..=Serialization::MASK).map(Serialization::from_id);
        for known in known.chain(Serialization::WRITTEN) {
            assert_eq!(serialization(of(known)), known);
        }
    }
}
