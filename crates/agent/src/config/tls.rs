//! The keys of sections that connect by TLS.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::section::Section;

/// The bit of a file's mode by which those may read it who neither own it nor are of its group.
const READ_BY_ALL: u32 = 0o004;

/// All of them.
pub(super) const TLS_KEYS: [&str; 4] = ["ca_file", "cert_file", "key_file", "server_name"];

/// Which files hold what TLS needs. Two of the same names are taken for the same.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct TlsFiles {
    /// The authorities that the peer's certificate must come from; those of the system unless given.
    pub ca_file: Option<PathBuf>,
    /// Our certificate, and those between it and its authority.
    pub cert_file: Option<PathBuf>,
    /// Its private key.
    pub key_file: Option<PathBuf>,
    /// The name in the peer's certificate, where it is not its host.
    pub server_name: Option<String>,
}

impl TlsFiles {
    /// Those files that were named.
    pub fn all(&self) -> impl Iterator<Item = &PathBuf> {
        [&self.ca_file, &self.cert_file, &self.key_file].into_iter().flatten()
    }
}

/// Reads them, and says which files cannot be opened. `folder` is where relative paths start.
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
    if let Some(path) = &key_file {
        warn_if_open(section, "key_file", path);
    }
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

/// Warns of a file with a secret that every user of the machine may read.
pub(super) fn warn_if_open(section: &Section<'_>, key: &str, path: &Path) {
    let file = fs::metadata(path).ok().filter(fs::Metadata::is_file);
    let mode = file.map_or(0, |file| file.permissions().mode());
    if mode & READ_BY_ALL != 0 {
        let problem = format!("every user may read {} (mode {:03o})", path.display(), mode & 0o777);
        section.warn(key, problem, format!("chmod o-r {}", path.display()));
    }
}
