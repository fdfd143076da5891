//! The keys of sections that connect by TLS.

use std::fs;
use std::path::Path;

use super::section::Section;
use crate::backend::http::origin::TlsFiles;

/// These keys.
pub(super) const TLS_KEYS: [&str; 4] = ["ca_file", "cert_file", "key_file", "server_name"];

/// Reads them; the files are there and may be read. `folder` is where relative paths start.
pub(super) fn tls_files(section: &mut Section<'_>, folder: &Path) -> TlsFiles {
    let mut path = |key| {
        let path = folder.join(section.text(key)?);
        // Opened again when the connection is made; but then nobody looks at the terminal.
        if let Err(error) = fs::File::open(&path) {
            let problem = format!("cannot read {}: {error}", path.display());
            section.wrong(key, problem, "name a PEM file that this user may read");
        }
        Some(path)
    };
    let (ca_file, cert_file, key_file) = (path("ca_file"), path("cert_file"), path("key_file"));
    let server_name = section.text("server_name").map(str::to_owned);
    if section.has("cert_file") != section.has("key_file") {
        let (there, missing) = match section.has("cert_file") {
            true => ("cert_file", "key_file"),
            false => ("key_file", "cert_file"),
        };
        let remedy = format!("add {missing} = \"...\"");
        section.wrong(there, format!("is of no use without {missing}"), remedy);
    }
    TlsFiles { ca_file, cert_file, key_file, server_name }
}
