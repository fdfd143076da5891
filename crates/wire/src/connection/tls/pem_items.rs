//! PEM text, taken apart into its items. What begins like an item and is none is an error: a
//! certificate that is passed over without a word is missed only in a handshake.
//!
//! Not here: what is inside an item.

use crate::file::without_mark;

const BEGIN: &[u8] = b"-----BEGIN ";
const END: &[u8] = b"-----END ";
const DASHES: &[u8] = b"-----";

/// What is wrong with PEM text.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum PemFault {
    /// Text or blanks are before it, or the end of another item.
    #[error("-----BEGIN must be at the start of the line")]
    BeginsLate,
    /// The first line is not whole.
    #[error("the line that begins with -----BEGIN must end with -----")]
    BadFirstLine,
    /// It is cut off, or its last line is garbled.
    #[error("what begins here has no -----END; perhaps the file is cut off")]
    NoEnd,
    /// It is garbled.
    #[error("what begins here is not base64")]
    NotBase64,
}

/// One item, such as a certificate.
#[derive(Debug, Eq, PartialEq)]
pub(super) struct PemItem<'a> {
    /// The line of its beginning, from 1.
    pub(super) line: usize,
    /// What it is, such as `CERTIFICATE`.
    pub(super) label: &'a [u8],
    /// All its lines.
    pub(super) text: &'a [u8],
}

/// Takes text apart. Lines between items are comments, and so is every line that begins with `#`.
///
/// # Errors
/// The first fault, and its line.
pub(super) fn pem_items(text: &[u8]) -> Result<Vec<PemItem<'_>>, (usize, PemFault)> {
    // A byte order mark would hide the first item.
    let text = without_mark(text);
    let (mut items, mut open) = (Vec::new(), None::<(PemItem<'_>, usize)>);
    for PemLine { number, start, text: line } in lines(text) {
        if let Some(rest) = line.strip_prefix(BEGIN) {
            if let Some((item, _)) = open {
                return Err((item.line, PemFault::NoEnd));
            }
            let Some(label) = rest.trim_ascii_end().strip_suffix(DASHES) else {
                return Err((number, PemFault::BadFirstLine));
            };
            open = Some((PemItem { line: number, label, text: &[] }, start));
            continue;
        }
        if let Some((item, from)) = open.take_if(|(item, _)| is_end(line, item.label)) {
            let text = text.get(from..start + line.len()).unwrap_or_default();
            items.push(PemItem { text, ..item });
        }
        if !line.starts_with(b"#") && line.windows(BEGIN.len()).any(|part| part == BEGIN) {
            return Err((number, PemFault::BeginsLate));
        }
        if open.is_none() && line.trim_ascii_end() == BEGIN.trim_ascii_end() {
            return Err((number, PemFault::BadFirstLine));
        }
    }
    match open {
        Some((item, _)) => Err((item.line, PemFault::NoEnd)),
        None => Ok(items),
    }
}

fn is_end(line: &[u8], label: &[u8]) -> bool {
    let rest = line.strip_prefix(END).and_then(|rest| rest.strip_prefix(label));
    rest.is_some_and(|rest| rest.starts_with(DASHES))
}

struct PemLine<'a> {
    number: usize,
    /// Where it starts in the text.
    start: usize,
    /// With what ends it.
    text: &'a [u8],
}

/// The lines, which end with `\n`, `\r\n` or `\r`.
fn lines(text: &[u8]) -> impl Iterator<Item = PemLine<'_>> {
    let (mut number, mut start) = (0, 0);
    std::iter::from_fn(move || {
        let rest = text.get(start..).filter(|rest| !rest.is_empty())?;
        let len = match rest.iter().position(|byte| matches!(byte, b'\n' | b'\r')) {
            Some(at) if rest.get(at..at + 2) == Some(b"\r\n") => at + 2,
            Some(at) => at + 1,
            None => rest.len(),
        };
        let line = PemLine { number: number + 1, start, text: rest.get(..len).unwrap_or_default() };
        (number, start) = (number + 1, start + len);
        Some(line)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: &str = "-----BEGIN ONE-----\nAAAA\n-----END ONE-----\n";
    const TWO: &str = "-----BEGIN TWO-----\nBBBB\n-----END TWO-----\n";

    #[test]
    fn items_are_found_whatever_ends_the_lines() {
        let all = format!("a comment\n{ONE}#-----BEGIN ONE-----\n\n{TWO}");
        for text in [
            all.clone(),
            all.replace('\n', "\r\n"),
            all.replace('\n', "\r"),
            all.trim_end().to_owned(),
            format!("\u{feff}{all}"),
        ] {
            let items = pem_items(text.as_bytes()).unwrap();
            let found: Vec<_> = items.iter().map(|item| (item.line, item.label)).collect();
            assert_eq!(found, [(2, &b"ONE"[..]), (7, b"TWO")], "{text:?}");
            assert!(items[1].text.starts_with(b"-----BEGIN TWO"), "{text:?}");
            assert!(items[1].text.trim_ascii_end().ends_with(b"END TWO-----"), "{text:?}");
        }
        assert_eq!(pem_items(b"").unwrap(), []);
        assert_eq!(pem_items(format!("\u{feff}{ONE}").as_bytes()).unwrap()[0].line, 1);
    }

    #[test]
    fn what_would_be_passed_over_is_an_error() {
        for (text, line, fault) in [
            (format!("{}{TWO}", ONE.trim_end()), 3, PemFault::BeginsLate),
            (format!("{ONE}  {TWO}"), 4, PemFault::BeginsLate),
            (format!("{ONE}\u{feff}{TWO}"), 4, PemFault::BeginsLate),
            (format!("{ONE}-----BEGIN"), 4, PemFault::BadFirstLine),
            (format!("{ONE}-----BEGIN TWO"), 4, PemFault::BadFirstLine),
            (format!("{ONE}-----BEGIN TWO-----\nBB"), 4, PemFault::NoEnd),
            (ONE.replace("END ONE", "END TWO"), 1, PemFault::NoEnd),
            (format!("-----BEGIN ONE-----\nAA\n{TWO}"), 1, PemFault::NoEnd),
        ] {
            assert_eq!(pem_items(text.as_bytes()).unwrap_err(), (line, fault), "{text}");
        }
    }
}
