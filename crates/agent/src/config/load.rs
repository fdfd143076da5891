//! From a file to a checked configuration, or to all that is wrong with it.

use std::io;
use std::path::Path;

use toml::de::DeTable;

use super::error::{ConfigErrors, KeyPlace, Problems};
use super::{Config, check};

/// Longer than any file that a person wrote.
const MAX_FILE_LEN: u64 = 1024 * 1024;

/// Reads and checks a file. Relative paths in it start from its folder.
///
/// # Errors
/// Everything that is wrong with the file, or that it cannot be read.
pub fn load(path: &Path) -> Result<Config, ConfigErrors> {
    let name = path.display().to_string();
    let bytes = wire::file::read(path, MAX_FILE_LEN).map_err(|error| match error.kind() {
        io::ErrorKind::FileTooLarge => {
            let problem = format!("is longer than a configuration may be: {error}");
            ConfigErrors::whole_file(&name, problem, "name the right file, or shorten this one")
        }
        _ => {
            let problem = format!("cannot be read: {error}");
            ConfigErrors::whole_file(&name, problem, "name a TOML file that this user may read")
        }
    })?;
    parse(utf8(&name, &bytes)?, &name)
}

/// The text of a file, which TOML wants in UTF-8.
fn utf8<'b>(name: &str, bytes: &'b [u8]) -> Result<&'b str, ConfigErrors> {
    let valid_len = match str::from_utf8(bytes) {
        Ok(text) => return Ok(text),
        Err(error) => error.valid_up_to(),
    };
    let (valid, rest) = bytes.split_at(valid_len);
    let text = str::from_utf8(valid).unwrap_or_default();
    let problems = Problems::new(name, text);
    let place = KeyPlace { offset: valid_len, key: String::new() };
    let byte = rest.first().copied().unwrap_or_default();
    problems.add(&place, format!("not UTF-8: byte {byte:#04x}"), "save the file as UTF-8");
    problems.finish().map(|()| text)
}

/// Checks a configuration that was read from the file `file_name`, whose folder is where
/// relative paths start.
///
/// Reads the files with secrets that the text names, and the name of the host.
///
/// # Errors
/// Everything that is wrong with the text.
pub fn parse(text: &str, file_name: &str) -> Result<Config, ConfigErrors> {
    let problems = Problems::new(file_name, text);
    let (root, errors) = DeTable::parse_recoverable(text);
    for error in &errors {
        let offset = error.span().map_or(0, |span| span.start);
        let place = KeyPlace { offset, key: String::new() };
        problems.add(&place, format!("not TOML: {}", error.message()), quotes(text, offset));
    }
    // What the broken lines meant is not known, so nothing is said about the others.
    problems.finish()?;
    let folder = Path::new(file_name).parent().unwrap_or(Path::new(""));
    let config = check::check(root.get_ref(), folder, &problems);
    problems.finish()?;
    Ok(Config { warnings: problems.warnings(), ..config })
}

/// What to write where a value looks like a text without quotes: it begins with a letter, and is
/// neither true nor false, which an error would not be about.
fn quotes(text: &str, offset: usize) -> &'static str {
    let start = text.get(..offset).and_then(|before| before.rfind('\n')).map_or(0, |end| end + 1);
    let line = text.get(start..).and_then(|rest| rest.lines().next()).unwrap_or_default();
    let value = line.split_once('=').map(|(_, value)| value.trim());
    match value.is_some_and(|value| value.starts_with(|c: char| c.is_ascii_alphabetic())) {
        true => "a text needs quotes, such as key = \"text\"",
        false => "",
    }
}
