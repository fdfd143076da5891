//! The journal of a partial output: what of it is safely on the disk. A small text file beside it,
//! replaced as a whole, so that there is always one that holds.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

use crate::checksum::{Digest, Totals};
use crate::lines::LineEnds;
use crate::{SourceIdentity, TransferError};

const HEADING: &str = "dubmesh transfer 1";

/// What a transfer is of. A partial output is resumed only by a transfer of the same.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Subject {
    /// The server's source.
    pub source: SourceIdentity,
    /// The name of the processing step, and on which side it is done.
    pub step: String,
}

/// A state of a partial output that is safely on the disk.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Checkpoint {
    pub(crate) subject: Subject,
    /// The lines written, from line 0 on, as the server sent them.
    pub(crate) totals: Totals,
    /// How many bytes of output they are.
    pub(crate) len: u64,
    /// The [`Digest`] of these bytes.
    pub(crate) digest: u64,
}

impl Checkpoint {
    /// Replaces the journal at `path`. Once this returns, it is on the disk.
    pub(crate) fn store(&self, path: &Path) -> Result<(), TransferError> {
        let new = path.with_added_extension("new");
        let write = || -> io::Result<()> {
            let mut file = File::create(&new)?;
            file.write_all(self.to_text().as_bytes())?;
            file.sync_data()?;
            std::fs::rename(&new, path)
        };
        let written = write();
        if written.is_err() {
            // What is there of it is of no use, and the first error is reported.
            let _ = std::fs::remove_file(&new);
        }
        written.map_err(TransferError::io("write", path))
    }

    /// The journal at `path`; `None` if there is none.
    pub(crate) fn load(path: &Path) -> Result<Option<Self>, TransferError> {
        let text = match std::fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(TransferError::io("read", path)(error)),
        };
        match Self::from_text(&text) {
            Ok(journal) => Ok(Some(journal)),
            Err(rule) => Err(TransferError::BadJournal { path: path.to_owned(), rule }),
        }
    }

    fn to_text(&self) -> String {
        let Self { subject, totals, len, digest } = self;
        // Earlier versions know `\r\n` alone: its journals have no line about it, and they refuse
        // others.
        let ends = match subject.source.ends {
            LineEnds::Crlf => String::new(),
            other => format!("source-lines {other}\n"),
        };
        let text = format!(
            "{HEADING}\nsource-len {}\nsource-modified-ns {}\n{ends}step {}\nlines {}\nsent-bytes {}\n\
             sent-sum {:016x}\nlen {len}\nxxh3 {digest:016x}\n",
            subject.source.len,
            subject.source.modified_ns,
            subject.step,
            totals.lines,
            totals.bytes,
            totals.sum,
        );
        let check = digest_of(&text);
        format!("{text}check {check:016x}\n")
    }

    fn from_text(text: &str) -> Result<Self, &'static str> {
        let (body, check) = text.rsplit_once("check ").ok_or("it is cut off")?;
        if check.trim_end() != format!("{:016x}", digest_of(body)) {
            return Err("its own checksum does not match");
        }
        let mut lines = body.lines().peekable();
        if lines.next() != Some(HEADING) {
            return Err("another version wrote it");
        }
        let mut optional = |key| {
            let value = lines.peek().and_then(|line| line.split_once(' '));
            let value = value.filter(|(found, _)| *found == key).map(|(_, value)| value);
            value.inspect(|_| _ = lines.next())
        };
        let missing = "a line is missing";
        let len = optional("source-len").ok_or(missing)?;
        let modified_ns = optional("source-modified-ns").ok_or(missing)?;
        let ends = optional("source-lines");
        let mut value = |key| optional(key).ok_or(missing);
        let number = |text: &str| text.parse().map_err(|_| "a number is invalid");
        let hex = |text: &str| u64::from_str_radix(text, 16).map_err(|_| "a checksum is invalid");
        Ok(Self {
            subject: Subject {
                source: SourceIdentity {
                    len: number(len)?,
                    modified_ns: modified_ns.parse().map_err(|_| "a time is invalid")?,
                    ends: ends.map_or(Ok(LineEnds::Crlf), |name| {
                        name.parse().map_err(|_| "its rule for line ends is invalid")
                    })?,
                },
                step: value("step")?.to_owned(),
            },
            totals: Totals {
                lines: number(value("lines")?)?,
                bytes: number(value("sent-bytes")?)?,
                sum: hex(value("sent-sum")?)?,
            },
            len: number(value("len")?)?,
            digest: hex(value("xxh3")?)?,
        })
    }
}

fn digest_of(text: &str) -> u64 {
    let mut digest = Digest::default();
    digest.update(text.as_bytes());
    digest.value()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL_ENDS: [LineEnds; 3] = [LineEnds::Crlf, LineEnds::Lf, LineEnds::Any];

    fn journal(ends: LineEnds) -> Checkpoint {
        Checkpoint {
            subject: Subject {
                source: SourceIdentity { len: 1 << 40, modified_ns: -5, ends },
                step: "contest on the server".to_owned(),
            },
            totals: Totals { lines: 7, bytes: 700, sum: u64::MAX },
            len: 650,
            digest: 3,
        }
    }

    #[test]
    fn is_read_back() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out.partial.journal");
        assert_eq!(Checkpoint::load(&path).unwrap(), None);
        for ends in ALL_ENDS {
            journal(ends).store(&path).unwrap();
            let later = Checkpoint { len: 651, ..journal(ends) };
            later.store(&path).unwrap();
            assert_eq!(Checkpoint::load(&path).unwrap(), Some(later));
        }
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    /// Journals about `\r\n` are those of versions that know nothing else; other journals have a
    /// line more.
    #[test]
    fn the_usual_ends_are_not_mentioned() {
        let text = journal(LineEnds::Crlf).to_text();
        assert!(text.contains("\nsource-modified-ns -5\nstep contest on the server\n"), "{text}");
        let text = journal(LineEnds::Lf).to_text();
        assert!(text.contains("\nsource-modified-ns -5\nsource-lines lf\nstep "), "{text}");
    }

    /// Cut off anywhere, or with any one byte changed, it is refused.
    #[test]
    fn damage_is_found() {
        for ends in ALL_ENDS {
            let text = journal(ends).to_text();
            assert_eq!(Checkpoint::from_text(&text), Ok(journal(ends)));
            for at in 0..text.len() - 1 {
                assert!(Checkpoint::from_text(&text[..at]).is_err(), "{at}");
                let mut bytes = text.clone().into_bytes();
                bytes[at] ^= 1;
                let bytes = std::str::from_utf8(&bytes).unwrap();
                assert!(Checkpoint::from_text(bytes).is_err(), "{at}");
            }
        }
    }
}
