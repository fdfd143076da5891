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

impl ConfigError {
    fn of_file(file: &str, problem: String, remedy: &str) -> Self {
        Self {
            file: file.to_owned(),
            line: 0,
            column: 0,
            key: String::new(),
            problem,
            remedy: remedy.to_owned(),
        }
    }
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
        Self(vec![ConfigError::of_file(file, problem, remedy)])
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
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(super) struct KeyPlace {
    /// Offset of the first byte.
    pub(super) offset: usize,
    /// The key with the name of its section, such as `ingress.listen`.
    pub(super) key: String,
}

/// Where a key is in a configuration file, for messages of those who try what it names.
///
/// Written `FILE:LINE: KEY`.
#[derive(Clone, Debug)]
pub struct KeyLine {
    file: String,
    line: usize,
    key: String,
}

impl fmt::Display for KeyLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, line, key } = self;
        write!(f, "{file}:{line}: {key}")
    }
}

/// So many problems are told, and as many warnings; of further ones only their number. A file with
/// more of them is another file, or repeats one mistake.
const MAX_TOLD: usize = 100;

/// Collects what is wrong while a file is checked.
///
/// Every section of the file holds a reference to it, hence the cells.
pub(super) struct Problems<'t> {
    file: &'t str,
    text: &'t str,
    /// Where each line of the text begins.
    line_starts: Vec<usize>,
    found: RefCell<Findings>,
    /// What is not a mistake, but could be better.
    warned: RefCell<Findings>,
}

/// What was found, each with its place.
#[derive(Default)]
struct Findings {
    /// The first [`MAX_TOLD`].
    told: Vec<(KeyPlace, ConfigError)>,
    n_untold: usize,
}

impl Findings {
    fn add(&mut self, place: &KeyPlace, error: impl FnOnce() -> ConfigError) {
        match self.told.len() < MAX_TOLD {
            true => self.told.push((place.clone(), error())),
            false => self.n_untold += 1,
        }
    }

    fn len(&self) -> usize {
        self.told.len() + self.n_untold
    }

    /// The number of those that are not told comes last, as `what`.
    fn into_errors(self, file: &str, what: &str) -> Vec<ConfigError> {
        let mut errors: Vec<_> = self.told.into_iter().map(|(_, error)| error).collect();
        if self.n_untold != 0 {
            let problem = format!("{} more {what} are not shown", self.n_untold);
            errors.push(ConfigError::of_file(file, problem, "correct these first"));
        }
        errors
    }
}

impl<'t> Problems<'t> {
    pub(super) fn new(file: &'t str, text: &'t str) -> Self {
        let starts = text.match_indices('\n').map(|(end, _)| end + 1);
        let line_starts = std::iter::once(0).chain(starts).collect();
        let (found, warned) = (RefCell::default(), RefCell::default());
        Self { file, text, line_starts, found, warned }
    }

    /// Notes that something is wrong at `place`.
    pub(super) fn add(
        &self,
        place: &KeyPlace,
        problem: impl Into<String>,
        remedy: impl Into<String>,
    ) {
        let error = || self.error(place, &problem.into(), &remedy.into());
        self.found.borrow_mut().add(place, error);
    }

    /// How many things were found to be wrong so far.
    pub(super) fn count(&self) -> usize {
        self.found.borrow().len()
    }

    /// Whether something was found to be wrong at `place`.
    pub(super) fn has(&self, place: &KeyPlace) -> bool {
        self.found.borrow().told.iter().any(|(at, _)| at == place)
    }

    /// Notes that something at `place` is not a mistake, but could be better.
    pub(super) fn warn(
        &self,
        place: &KeyPlace,
        problem: impl Into<String>,
        remedy: impl Into<String>,
    ) {
        let error = || self.error(place, &problem.into(), &remedy.into());
        self.warned.borrow_mut().add(place, error);
    }

    fn error(&self, place: &KeyPlace, problem: &str, remedy: &str) -> ConfigError {
        let line = self.line(place);
        let start = self.line_starts.get(line - 1).copied().unwrap_or_default();
        // An offset inside a character belongs to that character.
        let before = self.text.get(start..self.text.floor_char_boundary(place.offset));
        let column = before.unwrap_or_default().chars().count() + 1;
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
        self.warned.take().into_errors(self.file, "warnings")
    }

    /// The file that is checked, as it was named.
    pub(super) fn file(&self) -> &'t str {
        self.file
    }

    /// Notes that something is wrong with the file as a whole.
    pub(super) fn add_to_file(&self, problem: &str, remedy: &str) {
        let error = || ConfigError::of_file(self.file, problem.to_owned(), remedy);
        self.found.borrow_mut().add(&KeyPlace::default(), error);
    }

    /// The line of a place, for a message that points to it.
    pub(super) fn line(&self, place: &KeyPlace) -> usize {
        self.line_starts.partition_point(|start| *start <= place.offset)
    }

    /// A place, for whoever has not the text.
    pub(super) fn key_line(&self, place: &KeyPlace) -> KeyLine {
        KeyLine { file: self.file.to_owned(), line: self.line(place), key: place.key.clone() }
    }

    /// Whether nothing was wrong; otherwise the errors, in the order of their lines.
    pub(super) fn finish(&self) -> Result<(), ConfigErrors> {
        let mut found = self.found.take();
        found.told.sort_by_key(|(_, error)| (error.line, error.column));
        match found.into_errors(self.file, "problems") {
            none if none.is_empty() => Ok(()),
            errors => Err(ConfigErrors(errors)),
        }
    }
}
