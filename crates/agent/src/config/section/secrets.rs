//! Values that no message shows: secrets, and what stands where the path of a secret's file
//! belongs. Who writes a password into `password_file` would find it in the log otherwise.

use std::io;
use std::path::Path;

use toml::de::DeValue;

use super::paths::unreplaced;
use super::{Section, describe, kind};

/// Keys whose values are secrets.
const SECRETS: [&str; 2] = ["password", "secret_key"];

/// Keys whose values are paths of files with secrets, or secrets by mistake.
const SECRET_FILES: [&str; 4] = ["password_file", "secret_key_file", "token_file", "key_file"];

/// Stands in place of what may be a secret.
const HIDDEN: &str = "***";

impl Section<'_> {
    /// Notes that the file that `key` names cannot be read. `path` starts from the right folder.
    pub(in crate::config) fn cannot_read(&self, key: &str, path: &Path, error: &io::Error) {
        let is_shown = !SECRET_FILES.contains(&key) || self.names_file(key, path);
        let shown = if is_shown { path.display().to_string() } else { HIDDEN.to_owned() };
        let readable = || "name a file that this user may read".to_owned();
        let text = self.entry(key).and_then(|(_, value)| value.get_ref().as_str());
        let remedy = match error.kind() {
            io::ErrorKind::InvalidData => "write one line of text into it".to_owned(),
            io::ErrorKind::NotFound => text.and_then(unreplaced).unwrap_or_else(readable),
            _ => readable(),
        };
        self.wrong(key, format!("cannot read {shown}: {error}"), remedy);
    }

    /// Whether the value of `key` is a path: it leads to something, or says a folder that is
    /// there.
    fn names_file(&self, key: &str, path: &Path) -> bool {
        let text = self.entry(key).and_then(|(_, value)| value.get_ref().as_str());
        // `/` is always there, and says nothing.
        let folder = path.parent().filter(|folder| folder.parent().is_some());
        let says_folder = text.is_some_and(|text| text.contains('/'));
        path.exists() || (says_folder && folder.is_some_and(Path::is_dir))
    }
}

/// A value of a key in words: what it is, and which unless it may be a secret.
pub(super) fn describe_of(key: &str, value: &DeValue<'_>) -> String {
    if SECRETS.contains(&key) || SECRET_FILES.contains(&key) {
        return kind(value).to_owned();
    }
    describe(value)
}
