//! What is wrong with a configuration file: where, what, and what would be right.
//!
//! The texts are sentences for the person who wrote the file, so they are not an enum: nobody
//! branches on them. All that can be found in one reading is reported at once.

use std::cell::RefCell;
use std::fmt;

use dubbo_proto::without_credentials;

/// One thing that is wrong in a configuration file.
///
/// Written `FILE:LINE: KEY: what is wrong; what would be right`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ConfigError {
    /// The file, as it was named by the user.
    pub file: String,
    /// Line, counted from 1; 0 when the file as a whole is meant.
    pub line: usize,
    /// Column in characters, counted from 1; 0 when the file as a whole is meant.
    pub column: usize,
    /// The key, such as `ingress.listen`; empty when no single key is meant.
    pub key: String,
    /// What is wrong.
    pub problem: String,
    /// What would be right.
    pub remedy: String,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        if self.line != 0 {
            write!(f, ":{}", self.line)?;
        }
        if !self.key.is_empty() {
            write!(f, ": {}", self.key)?;
        }
        write!(f, ": {}", self.problem)?;
        if !self.remedy.is_empty() {
            write!(f, "; {}", self.remedy)?;
        }
        Ok(())
    }
}

impl std::error::Error for ConfigError {}

/// All that is wrong in a configuration file, in the order of its lines; never empty.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ConfigErrors(Vec<ConfigError>);

impl ConfigErrors {
    /// For a file that could not be read at all.
    pub(super) fn whole_file(file: &str, problem: String, remedy: &str) -> Self {
        Self(vec![ConfigError {
            file: file.to_owned(),
            line: 0,
            column: 0,
            key: String::new(),
            problem,
            remedy: remedy.to_owned(),
        }])
    }

    /// The errors, in the order of their lines.
    #[must_use]
    pub fn as_slice(&self) -> &[ConfigError] {
        &self.0
    }
}

/// One line per error.
impl fmt::Display for ConfigErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, error) in self.0.iter().enumerate() {
            if index != 0 {
                f.write_str("\n")?;
            }
            error.fmt(f)?;
        }
        Ok(())
    }
}

impl std::error::Error for ConfigErrors {}

/// A place in the text, and the key that is written there.
#[derive(Clone, Debug, Default)]
pub(super) struct KeyPlace {
    /// Offset of the first byte.
    pub(super) offset: usize,
    /// The key with the name of its section, such as `ingress.listen`.
    pub(super) key: String,
}

/// Collects what is wrong while a file is checked.
///
/// Every section of the file holds a reference to it, hence the cell.
pub(super) struct Problems<'t> {
    file: &'t str,
    text: &'t str,
    found: RefCell<Vec<ConfigError>>,
    /// What is not a mistake, but could be better.
    warned: RefCell<Vec<ConfigError>>,
}

impl<'t> Problems<'t> {
    pub(super) fn new(file: &'t str, text: &'t str) -> Self {
        Self { file, text, found: RefCell::default(), warned: RefCell::default() }
    }

    /// Notes that something is wrong at `place`.
    pub(super) fn add(
        &self,
        place: &KeyPlace,
        problem: impl Into<String>,
        remedy: impl Into<String>,
    ) {
        self.found.borrow_mut().push(self.error(place, &problem.into(), &remedy.into()));
    }

    /// How many things were found to be wrong so far.
    pub(super) fn count(&self) -> usize {
        self.found.borrow().len()
    }

    /// Whether something was found to be wrong at `place`.
    pub(super) fn has(&self, place: &KeyPlace) -> bool {
        let at = self.line_and_column(place.offset);
        let is_there = |it: &ConfigError| (it.line, it.column) == at && it.key == place.key;
        self.found.borrow().iter().any(is_there)
    }

    /// Notes that something at `place` is not a mistake, but could be better.
    pub(super) fn warn(
        &self,
        place: &KeyPlace,
        problem: impl Into<String>,
        remedy: impl Into<String>,
    ) {
        self.warned.borrow_mut().push(self.error(place, &problem.into(), &remedy.into()));
    }

    fn error(&self, place: &KeyPlace, problem: &str, remedy: &str) -> ConfigError {
        let (line, column) = self.line_and_column(place.offset);
        ConfigError {
            file: self.file.to_owned(),
            line,
            column,
            key: place.key.clone(),
            problem: without_credentials(problem),
            remedy: without_credentials(remedy),
        }
    }

    /// What is not a mistake, but could be better.
    pub(super) fn warnings(&self) -> Vec<ConfigError> {
        self.warned.take()
    }

    /// The file that is checked, as it was named.
    pub(super) fn file(&self) -> &'t str {
        self.file
    }

    /// Notes that something is wrong with the file as a whole.
    pub(super) fn add_to_file(&self, problem: &str, remedy: &str) {
        let ConfigErrors(errors) = ConfigErrors::whole_file(self.file, problem.to_owned(), remedy);
        self.found.borrow_mut().extend(errors);
    }

    /// The line of a place, for a message that points to it.
    pub(super) fn line(&self, place: &KeyPlace) -> usize {
        self.line_and_column(place.offset).0
    }

    /// Whether nothing was wrong; otherwise the errors, in the order of their lines.
    pub(super) fn finish(&self) -> Result<(), ConfigErrors> {
        let mut found = self.found.take();
        if found.is_empty() {
            return Ok(());
        }
        found.sort_by_key(|error| (error.line, error.column));
        Err(ConfigErrors(found))
    }

    /// Both counted from 1. An offset inside a character belongs to that character.
    fn line_and_column(&self, offset: usize) -> (usize, usize) {
        let offset = self.text.floor_char_boundary(offset);
        let before = &self.text[..offset];
        let line = before.matches('\n').count() + 1;
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        (line, before[line_start..].chars().count() + 1)
    }
}
