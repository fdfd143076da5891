//! Service keys, and the rules for the names of services and methods.

use std::fmt;
use std::str::FromStr;

use crate::ProtoError;

/// The longest interface name. Class files allow 65,535, but nobody reads such a log line.
pub const MAX_INTERFACE_LEN: usize = 512;

/// The longest method name.
pub const MAX_METHOD_LEN: usize = 256;

/// The longest version or group.
pub const MAX_QUALIFIER_LEN: usize = 128;

/// What Dubbo writes in place of an absent version.
pub const NO_VERSION: &str = "0.0.0";

/// The name under which a service is offered and looked for.
///
/// It is written `group/interface:version`; an absent group or version leaves its sign out, too.
#[derive(Clone, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct ServiceKey {
    /// The Java interface, such as `com.acme.Orders`.
    pub interface: String,
    /// Empty when the service has none.
    pub version: String,
    /// Empty when the service has none.
    pub group: String,
}

impl ServiceKey {
    /// Whether the service, whose key as text is `name`, is what `wanted` says: a key, an
    /// interface, or the begin of either with a trailing `*`.
    #[must_use]
    pub fn matches(&self, wanted: &str, name: &str) -> bool {
        match wanted.strip_suffix('*') {
            Some(prefix) => self.interface.starts_with(prefix) || name.starts_with(prefix),
            None => self.interface == wanted || name == wanted,
        }
    }

    /// A checked key. The version `0.0.0` counts as none, as it does in Dubbo.
    ///
    /// # Errors
    /// [`ProtoError::Name`] when a part is too long or holds characters that no such name has.
    pub fn new(interface: &str, version: &str, group: &str) -> Result<Self, ProtoError> {
        validate_interface(interface)?;
        let version = if version == NO_VERSION { "" } else { version };
        validate_qualifier("version", version)?;
        validate_qualifier("group", group)?;
        let (version, group) = (version.to_owned(), group.to_owned());
        Ok(Self { interface: interface.to_owned(), version, group })
    }
}

impl fmt::Display for ServiceKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.group.is_empty() {
            write!(f, "{}/", self.group)?;
        }
        f.write_str(&self.interface)?;
        if !self.version.is_empty() {
            write!(f, ":{}", self.version)?;
        }
        Ok(())
    }
}

impl FromStr for ServiceKey {
    type Err = ProtoError;

    fn from_str(text: &str) -> Result<Self, ProtoError> {
        let (group, rest) = text.split_once('/').unwrap_or(("", text));
        let (interface, version) = rest.split_once(':').unwrap_or((rest, ""));
        Self::new(interface, version, group)
    }
}

/// Checks the name of an interface: letters, digits and `_ $ - .`, no empty part between dots.
///
/// # Errors
/// [`ProtoError::Name`] with the rule that is broken.
pub fn validate_interface(name: &str) -> Result<(), ProtoError> {
    check(
        "interface",
        name,
        MAX_INTERFACE_LEN,
        "letters, digits, _ $ and -, in parts separated by dots",
        |name| name.split('.').all(|part| !part.is_empty() && part.chars().all(is_name_char)),
    )
}

/// Checks the name of a method: letters, digits and `_ $ -`, at least one.
///
/// # Errors
/// [`ProtoError::Name`] with the rule that is broken.
pub fn validate_method(name: &str) -> Result<(), ProtoError> {
    check("method", name, MAX_METHOD_LEN, "one or more letters, digits, _ $ and -", |name| {
        !name.is_empty() && name.chars().all(is_name_char)
    })
}

/// Versions and groups may be empty; `*` and `,` appear in what consumers ask for.
fn validate_qualifier(what: &'static str, text: &str) -> Result<(), ProtoError> {
    check(what, text, MAX_QUALIFIER_LEN, "letters, digits and _ $ - . * , + ~ @ #", |text| {
        text.chars().all(|c| is_name_char(c) || ".*,+~@#".contains(c))
    })
}

/// Java allows letters of every script in a name.
fn is_name_char(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '$' | '-')
}

fn check(
    what: &'static str,
    text: &str,
    max: usize,
    rule: &'static str,
    is_good: impl Fn(&str) -> bool,
) -> Result<(), ProtoError> {
    if text.len() > max {
        return Err(ProtoError::NameTooLong { what, len: text.len(), max });
    }
    if is_good(text) { Ok(()) } else { Err(ProtoError::name(what, text, rule)) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn writes_only_what_is_there() {
        let key = |version, group| ServiceKey::new("a.B", version, group).unwrap().to_string();
        assert_eq!(key("", ""), "a.B");
        assert_eq!(key("1.0", ""), "a.B:1.0");
        assert_eq!(key("", "g"), "g/a.B");
        assert_eq!(key("1.0", "g"), "g/a.B:1.0");
        assert_eq!(key("0.0.0", ""), "a.B");
    }

    #[test]
    fn refuses_names_that_no_service_has() {
        for text in ["", "/", "a..B", ".a", "a b", "g/a.B:1/2", "a.B:1:2", "g/a/B", "a.B\n"] {
            assert!(text.parse::<ServiceKey>().is_err(), "{text:?}");
        }
        assert!(validate_interface(&"a".repeat(513)).is_err());
        assert!(validate_method("").is_err());
        assert!(validate_method("a.b").is_err());
        assert_eq!(validate_method("$invoke"), Ok(()));
    }

    proptest! {
        #[test]
        fn reads_back_what_it_wrote(
            interface in "[a-z]{1,5}(\\.[A-Za-z$_][A-Za-z0-9]{0,5}){0,3}",
            version in "([0-9]\\.[0-9]{1,3}-?[a-z]{0,3})?",
            group in "[a-z-]{0,5}",
        ) {
            let key = ServiceKey::new(&interface, &version, &group).unwrap();
            prop_assert_eq!(key.to_string().parse::<ServiceKey>().unwrap(), key);
        }
    }
}
