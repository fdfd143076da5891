//! Says now and then which of the agent's certificates have expired, or will soon: an agent may
//! run for longer than a certificate lasts.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::sync::watch;

use crate::certificate_files::CertificateFiles;
use crate::config::{Config, OutOfDate};

/// Often enough to be seen, and no line that fills a log.
pub(super) const EVERY: Duration = Duration::from_secs(24 * 3600);

/// Tells what is out of date `every` so often, for the first time after that time: what was read
/// at the start or by a reload has been checked then.
pub(super) async fn watch(
    config: watch::Receiver<Arc<Config>>,
    files: CertificateFiles,
    every: Duration,
    tell: impl Fn(OutOfDate),
) {
    loop {
        tokio::time::sleep(every).await;
        let config = config.borrow().clone();
        for chain in files.shown_chains(&config).await {
            chain.out_of_date(SystemTime::now()).for_each(&tell);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use rcgen::{CertificateParams, KeyPair};

    use super::*;
    use crate::config::parse;

    #[tokio::test]
    async fn what_expires_while_the_agent_runs_is_told_again_and_again() {
        let folder = tempfile::tempdir().unwrap();
        let write = |year| {
            let mut params = CertificateParams::new(["localhost".to_owned()]).unwrap();
            params.not_after = rcgen::date_time_ymd(year, 1, 1);
            let key = KeyPair::generate().unwrap();
            let certificate = params.self_signed(&key).unwrap();
            fs::write(folder.path().join("own.pem"), certificate.pem()).unwrap();
            fs::write(folder.path().join("own.key"), key.serialize_pem()).unwrap();
        };
        let load = || {
            let text = "[[registry]]\nkind = 'etcd'\n[[ingress]]\nprotocol = 'http'\n\
                        listen = '127.0.0.1:0'\n[ingress.tls]\ncert_file = 'own.pem'\n\
                        key_file = 'own.key'\n";
            let file = folder.path().join("a.toml");
            Arc::new(parse(text, &file.display().to_string()).unwrap())
        };
        write(2999);
        let shown = watch::Sender::new(load());
        let (told, mut heard) = tokio::sync::mpsc::unbounded_channel();
        let every = Duration::from_millis(1);
        let tell = move |it: OutOfDate| drop(told.send(it.to_string()));
        let watching =
            tokio::spawn(watch(shown.subscribe(), CertificateFiles::default(), every, tell));
        write(2022);
        let mut sees = async |config: Arc<Config>| {
            shown.send_replace(config);
            heard.recv().await.unwrap()
        };
        for _ in 0..2 {
            let said = sees(load()).await;
            assert!(said.contains("expired on 2022-01-01"), "{said}");
        }
        watching.abort();
    }
}
