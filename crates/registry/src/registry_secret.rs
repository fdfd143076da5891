//! A password or a secret key. One in a file is read again for each new connection, so that it may
//! be changed while an agent runs.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use wire::file::FileWork;

use crate::error::RegistryError;

/// A password or a secret key of a registry, or the file that has it. Its `Debug` form leaves both
/// out.
#[derive(Clone, Eq, PartialEq)]
pub struct RegistrySecret(SecretSource);

#[derive(Clone, Eq, PartialEq)]
enum SecretSource {
    Text(String),
    File(PathBuf),
}

impl RegistrySecret {
    /// The secret is the one line of this file.
    #[must_use]
    pub fn of_file(path: impl Into<PathBuf>) -> Self {
        Self(SecretSource::File(path.into()))
    }

    /// What it is now. Waits for the file.
    ///
    /// # Errors
    /// [`RegistryError::Read`] if the file cannot be read, or is empty.
    pub(crate) fn read(&self) -> Result<String, RegistryError> {
        let path = match &self.0 {
            SecretSource::Text(text) => return Ok(text.clone()),
            SecretSource::File(path) => path,
        };
        let read = wire::file::read_secret(path).and_then(|secret| match secret.is_empty() {
            true => Err(io::Error::new(io::ErrorKind::InvalidData, "it is empty")),
            false => Ok(secret),
        });
        read.map_err(|source| RegistryError::Read { path: path.clone(), source })
    }

    /// The same, where nobody may wait for a file.
    ///
    /// # Errors
    /// The same, also if the file is not read in time.
    pub(crate) async fn read_by(
        &self,
        files: &FileWork,
        timeout: Duration,
    ) -> Result<String, RegistryError> {
        let SecretSource::File(path) = &self.0 else { return self.read() };
        let secret = self.clone();
        let read = files.run(timeout, move || secret.read()).await;
        let late = |source| Err(RegistryError::Read { path: path.clone(), source });
        read.unwrap_or_else(late)
    }
}

impl From<String> for RegistrySecret {
    fn from(text: String) -> Self {
        Self(SecretSource::Text(text))
    }
}

impl From<&str> for RegistrySecret {
    fn from(text: &str) -> Self {
        text.to_owned().into()
    }
}

impl fmt::Debug for RegistrySecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RegistrySecret(..)")
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[tokio::test]
    async fn a_file_is_read_each_time() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("secret");
        let secret = RegistrySecret::of_file(&path);
        let (files, timeout) = (FileWork::default(), Duration::from_secs(30));
        for text in ["one\n", "two"] {
            fs::write(&path, text).unwrap();
            assert_eq!(secret.read().unwrap(), text.trim_end());
            assert_eq!(secret.read_by(&files, timeout).await.unwrap(), text.trim_end());
        }
        fs::write(&path, "\n").unwrap();
        let error = secret.read_by(&files, timeout).await.unwrap_err().to_string();
        assert!(error.starts_with("cannot read /") && error.ends_with(": it is empty"), "{error}");
        assert_eq!(RegistrySecret::from("a\n").read().unwrap(), "a\n");
        assert_eq!(format!("{secret:?}"), "RegistrySecret(..)");
    }
}
