//! Paths of files. No shell reads them: `~` and variables stay as they are written.

use std::path::{Path, PathBuf};

use super::Section;

impl Section<'_> {
    /// The path that `key` names. A relative one starts from `folder`.
    pub(in crate::config) fn path(&mut self, key: &'static str, folder: &Path) -> Option<PathBuf> {
        self.text(key).map(|text| self.path_of(key, text, folder))
    }

    /// The same, of the text that was read.
    pub(in crate::config) fn path_of(&self, key: &str, text: &str, folder: &Path) -> PathBuf {
        let path = folder.join(text);
        if let Some(remedy) = unreplaced(text)
            && !path.exists()
        {
            self.warn(key, format!("there is no {}", path.display()), remedy);
        }
        path
    }
}

/// What to write, if a path seems to wait for a shell.
pub(super) fn unreplaced(text: &str) -> Option<String> {
    let is_name =
        |text: &str| text.starts_with(|c: char| c.is_ascii_alphabetic() || "_{".contains(c));
    let what = match text {
        _ if text == "~" || text.starts_with("~/") => "~",
        _ if text.split('$').skip(1).any(is_name) => "a variable such as $HOME",
        _ => return None,
    };
    Some(format!("{what} is not replaced here; write the whole path, such as \"/home/me/s.toml\""))
}
