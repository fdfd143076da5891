//! What a server says, without the secret that it was sent and has repeated. A proxy or a server
//! of another kind may answer with the whole request, and what is said of a registry goes into
//! logs.

use form_urlencoded::byte_serialize;

/// Stands in the place of the secret.
const HIDDEN: &str = "***";

/// The text without the secret, whether it is there as it is or as forms have it.
pub(crate) fn without_secret(said: &str, secret: &str) -> String {
    if secret.is_empty() {
        return said.to_owned();
    }
    let of_form: String = byte_serialize(secret.as_bytes()).collect();
    said.replace(secret, HIDDEN).replace(&of_form, HIDDEN)
}

#[cfg(test)]
mod tests {
    use super::without_secret;

    #[test]
    fn a_secret_is_hidden_in_both_forms() {
        assert_eq!(without_secret("a b&c, a+b%26c.", "a b&c"), "***, ***.");
        assert_eq!(without_secret("none is none", ""), "none is none");
    }
}
