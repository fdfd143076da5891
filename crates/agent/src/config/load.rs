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
        let remedy = remedy(text, offset, error.message());
        problems.add(&place, format!("not TOML: {}", error.message()), remedy);
    }
    // What the broken lines meant is not known, so nothing is said about the others.
    problems.finish()?;
    let folder = Path::new(file_name).parent().unwrap_or(Path::new(""));
    let config = check::check(root.get_ref(), folder, &problems);
    problems.finish()?;
    Ok(Config { warnings: problems.warnings(), ..config })
}

/// What to write in place of what is not TOML, if that can be told from the line.
fn remedy(text: &str, offset: usize, said: &str) -> String {
    let start = text.get(..offset).and_then(|before| before.rfind('\n')).map_or(0, |end| end + 1);
    let (before, rest) = text.split_at_checked(start).unwrap_or_default();
    let line = rest.lines().next().unwrap_or_default().trim();
    if said == "duplicate key" {
        return duplicate(before, line);
    }
    let Some((key, value)) = line.split_once('=') else { return String::new() };
    let value = value.split('#').next().unwrap_or_default();
    let value = value.trim_start_matches([' ', '\t', '[']).trim();
    if value.starts_with(TYPOGRAPHIC) {
        return "write straight quotes, such as key = \"text\"".to_owned();
    }
    if said.contains("escape") {
        return "write \\\\ for each \\ in double quotes, or the text in single quotes".to_owned();
    }
    if !is_bare_text(value) {
        return String::new();
    }
    let has_unit = ["_ms", "_s", "_bytes"].iter().any(|unit| key.trim().ends_with(unit));
    match has_unit && value.starts_with(|c: char| c.is_ascii_digit()) {
        true => "write a number alone: the name of the key says its unit".to_owned(),
        false => "a text needs quotes, such as key = \"text\"".to_owned(),
    }
}

/// Quotes of text processors.
const TYPOGRAPHIC: [char; 8] = ['“', '”', '„', '‘', '’', '‚', '«', '»'];

/// Whether a value looks like a text without quotes, and not like a number. An error would not be
/// about true or false.
fn is_bare_text(value: &str) -> bool {
    let is_number = value.chars().all(|c| c.is_ascii_digit() || "+-_.".contains(c))
        && value.matches('.').count() < 2;
    !is_number && !value.starts_with(['"', '\'', '{', ']'])
}

/// What to do about a second key or section of one name. A section that belongs to one of a list
/// has to come after it, since it makes one that is no list otherwise.
fn duplicate(before: &str, line: &str) -> String {
    let list = line.strip_prefix("[[").and_then(|rest| rest.split_once("]]"));
    let name = list.map(|(name, _)| name.trim());
    let is_inside = |earlier: &&str| {
        let section = earlier.strip_prefix('[').and_then(|rest| rest.split_once(']'));
        let parent = section.and_then(|(section, _)| section.trim().split_once('.'));
        parent.is_some_and(|(parent, _)| Some(parent) == name)
    };
    match before.lines().map(str::trim).find(is_inside) {
        Some(earlier) => {
            let (earlier, _) = earlier.split_once('#').unwrap_or((earlier, ""));
            let earlier = earlier.trim();
            let list = name.unwrap_or_default();
            format!("[[{list}]] must come before {earlier}; move {earlier} below it")
        }
        None if line.starts_with("[[") => "write it with the same brackets everywhere".to_owned(),
        None if line.starts_with('[') => "write each section once, with all its keys".to_owned(),
        None => "remove one of the two".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use crate::config::tests::{GOOD, errors};

    #[test]
    fn lines_that_are_not_toml_are_told_with_what_to_write() {
        let quotes = "a text needs quotes, such as key = \"text\"";
        for (line, remedy) in [
            ("a = 127.0.0.1:16000", quotes),
            ("a = 127.0.0.1", quotes),
            ("a = /run/a.sock", quotes),
            ("a = ~/s.toml", quotes),
            ("a = http", quotes),
            ("a = [http://h:1]", quotes),
            ("a = 10s", quotes),
            ("a_ms = 10s # soon", "write a number alone: the name of the key says its unit"),
            ("a = “text”", "write straight quotes, such as key = \"text\""),
            ("a = 'x'\na = 'y'", "remove one of the two"),
            ("[admin]\n[admin]", "write each section once, with all its keys"),
            ("a = \"C:\\windows\"", "or the text in single quotes"),
        ] {
            let told = errors(&format!("{line}\n"));
            assert!(told.iter().any(|error| error.ends_with(remedy)), "{line}: {told:?}");
        }
        for line in ["a = 1__0", "a = 1.", "a = \"x", "a = {", "no key"] {
            let told = errors(&format!("{line}\n"));
            assert!(!told.is_empty() && told.iter().all(|it| !it.contains("quotes,")), "{told:?}");
        }
    }

    #[test]
    fn a_section_above_its_list_is_told() {
        for (inner, list) in [("[ingress.tls]", "[[ingress]]"), ("[cluster.socket]", "[[cluster]]")]
        {
            let told = errors(&format!("{inner} # first\nno_delay = true\n{GOOD}\n{list}\n"));
            let remedy = format!("{list} must come before {inner}; move {inner} below it");
            assert!(told[0].ends_with(&remedy), "{told:?}");
        }
    }
}
