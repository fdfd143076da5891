//! What somebody is told whose file seems to need another rule for the ends of its lines. It
//! looks at the file's beginning only, and changes nothing.

use std::os::unix::fs::FileExt;

use super::{BLOCK_LEN, Source};
use crate::TransferError;
use crate::lines::{CRLF, LineEnds};

impl Source {
    /// Advice for whoever opened a file whose lines seem to end with a lone `\n`, by the rule
    /// that only `\r\n` ends one: there is a newline at its beginning, and no end. Such a file is
    /// one line.
    ///
    /// # Errors
    /// What reading can end with.
    pub fn advice(&self) -> Result<Option<String>, TransferError> {
        if self.identity.ends != LineEnds::Crlf {
            return Ok(None);
        }
        let len = usize::try_from(self.identity.len).map_or(BLOCK_LEN, |len| len.min(BLOCK_LEN));
        let mut bytes = vec![0; len];
        self.file.read_exact_at(&mut bytes, 0).map_err(|error| self.explain(error))?;
        let lone =
            memchr::memchr(b'\n', &bytes).is_some() && memchr::memmem::find(&bytes, CRLF).is_none();
        Ok(lone.then(|| {
            let path = self.path.display();
            format!(
                "the lines of {path} seem to end with \\n; with --lines crlf, the default, only \
                 \\r\\n ends a line, so they count as one line; use --lines lf"
            )
        }))
    }
}
