//! The versions of the protocol that this crate speaks.

/// Oldest version.
pub const VERSION_MIN: u8 = 1;
/// Newest version.
pub const VERSION_MAX: u8 = 1;
