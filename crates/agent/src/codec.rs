//! The numbers that a link's frames have for serializations.
//!
//! They are Dubbo's, of five bits, but for one: Dubbo has the same number for both framings of
//! fastjson, and whoever writes arguments has to know which. docs/link-protocol.md tells them, too.

use dubbo_proto::Serialization;

/// What a caller chooses itself.
pub const UNSET: u8 = 0;
/// fastjson with each text behind its length: Dubbo's 6, and a bit that none of its numbers has.
const FASTJSON_SIZED: u8 = 0x26;

/// The number of a serialization.
pub const fn of(serialization: Serialization) -> u8 {
    match serialization {
        Serialization::FastjsonSized => FASTJSON_SIZED,
        other => other.id(),
    }
}

/// The serialization of a number.
pub const fn serialization(codec: u8) -> Serialization {
    match codec {
        FASTJSON_SIZED => Serialization::FastjsonSized,
        codec => Serialization::from_id(codec),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_serialization_has_a_number_of_its_own() {
        let known = (0..=Serialization::MASK).map(Serialization::from_id);
        for known in known.chain([Serialization::FastjsonSized]) {
            assert_eq!(serialization(of(known)), known);
        }
    }
}
