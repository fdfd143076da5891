//! What documents are compared by.

use md5::{Digest, Md5};

/// The MD5 of a document, as Nacos compares it: in hexadecimal digits.
#[must_use]
pub fn md5(text: &str) -> String {
    Md5::digest(text.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect()
}
