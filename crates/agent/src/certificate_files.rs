//! What the files with certificates for registries have now. The certificates of listeners and
//! endpoints are in the configuration.
//!
//! Invariants:
//! - No file is read on the thread of whoever asks, and nobody waits for one longer than
//!   `PATIENCE`.
//! - A file is looked at once in `EVERY`, however often somebody asks, and once more after each
//!   reload. One that hangs keeps one thread.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use wire::file::FileWork;

use crate::config::{Config, ShownChain};

/// Scrapes come more often than certificates change.
const EVERY: Duration = Duration::from_secs(30);

/// A local disk takes a millisecond, and a scraper waits for ten seconds at most.
const PATIENCE: Duration = Duration::from_millis(500);

type Read = dyn Fn(PathBuf) -> ShownChain + Send + Sync;

/// The files, for those who ask. Clones share what they have seen.
#[derive(Clone)]
pub struct CertificateFiles {
    files: Arc<Mutex<BTreeMap<PathBuf, CheckedFile>>>,
    read: Arc<Read>,
}

/// One file.
#[derive(Default)]
struct CheckedFile {
    /// What was read last.
    chain: Option<ShownChain>,
    /// When that was begun, and which configuration was in force.
    looked: Option<(Instant, Arc<Config>)>,
    work: FileWork,
}

impl Default for CertificateFiles {
    fn default() -> Self {
        Self::reading(ShownChain::read)
    }
}

impl CertificateFiles {
    /// Reads in another way.
    pub fn reading(read: impl Fn(PathBuf) -> ShownChain + Send + Sync + 'static) -> Self {
        Self { files: Arc::default(), read: Arc::new(read) }
    }

    /// The certificates that the agent shows, each file once: the last known ones of a file that
    /// does not answer in time.
    pub async fn shown_chains(&self, config: &Arc<Config>) -> Vec<ShownChain> {
        let wanted = config.registry_certificates();
        join_all(wanted.iter().map(|file| self.look(file, config))).await;
        let files = self.lock();
        let known = |file| files.get(file).and_then(|seen: &CheckedFile| seen.chain.clone());
        let of_registries: Vec<_> = wanted.iter().filter_map(known).collect();
        drop(files);
        config.shown_chains(&of_registries)
    }

    /// Reads a file, if that is due.
    async fn look(&self, file: &Path, config: &Arc<Config>) {
        let work = {
            let mut files = self.lock();
            let seen = files.entry(file.to_owned()).or_default();
            let is_new =
                |(at, of): &(Instant, Arc<Config>)| at.elapsed() < EVERY && Arc::ptr_eq(of, config);
            if seen.looked.as_ref().is_some_and(is_new) {
                return;
            }
            seen.looked = Some((Instant::now(), Arc::clone(config)));
            seen.work.clone()
        };
        let (this, of) = (self.clone(), file.to_owned());
        let read = move || {
            let chain = (this.read)(of.clone());
            this.lock().entry(of).or_default().chain = Some(chain);
        };
        if let Err(error) = work.run(PATIENCE, read).await {
            tracing::debug!(file = %file.display(), %error, "a certificate is not looked at");
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<PathBuf, CheckedFile>> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;
    use std::sync::atomic::Ordering::Relaxed;
    use std::sync::mpsc::channel;

    use super::*;
    use crate::config::parse;

    /// With two registries, whose files lie in `folder`.
    fn config(folder: &Path) -> Arc<Config> {
        let key = rcgen::KeyPair::generate().unwrap();
        let params = rcgen::CertificateParams::new(["localhost".to_owned()]).unwrap();
        let pem = params.self_signed(&key).unwrap().pem();
        let mut text =
            "[[ingress]]\nprotocol = 'http'\nlisten = '127.0.0.1:0'\nregistry = 'a'\n".to_owned();
        for name in ["a", "b"] {
            let path = |end| folder.join(format!("{name}.{end}")).display().to_string();
            std::fs::write(path("pem"), &pem).unwrap();
            std::fs::write(path("key"), key.serialize_pem()).unwrap();
            text += &format!("[[registry]]\nname = '{name}'\nkind = 'zookeeper'\n");
            text += "endpoints = ['h:1']\ntls = true\n";
            text += &format!("cert_file = '{}'\nkey_file = '{}'\n", path("pem"), path("key"));
        }
        Arc::new(parse(&text, "a.toml").unwrap_or_else(|error| panic!("{error}")))
    }

    fn names(chains: &[ShownChain]) -> Vec<String> {
        chains.iter().map(|it| it.file.file_name().unwrap().to_str().unwrap().to_owned()).collect()
    }

    #[tokio::test]
    async fn files_are_read_at_first_and_after_a_reload() {
        let folder = tempfile::tempdir().unwrap();
        let (n_reads, config) = (Arc::new(AtomicUsize::new(0)), config(folder.path()));
        let count = Arc::clone(&n_reads);
        let files = CertificateFiles::reading(move |file| {
            count.fetch_add(1, Relaxed);
            ShownChain::read(file)
        });
        for _ in 0..3 {
            assert_eq!(names(&files.clone().shown_chains(&config).await), ["a.pem", "b.pem"]);
        }
        assert_eq!(n_reads.load(Relaxed), 2, "each once");
        let reloaded = Arc::new((*config).clone());
        assert_eq!(files.shown_chains(&reloaded).await.len(), 2);
        assert_eq!(n_reads.load(Relaxed), 4, "each once more");
    }

    #[tokio::test]
    async fn a_file_that_hangs_hides_no_other_and_is_seen_when_it_answers() {
        let folder = tempfile::tempdir().unwrap();
        let (config, (go_on, wait)) = (config(folder.path()), channel::<()>());
        let wait = Mutex::new(wait);
        let files = CertificateFiles::reading(move |file| {
            if file.ends_with("a.pem") {
                let _ = wait.lock().unwrap().recv();
            }
            ShownChain::read(file)
        });
        for n in 0..3 {
            assert_eq!(names(&files.shown_chains(&config).await), ["b.pem"], "{n}");
        }
        drop(go_on);
        while files.shown_chains(&config).await.len() < 2 {
            tokio::task::yield_now().await;
        }
    }
}
