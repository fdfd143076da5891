//! Documents of Nacos' configuration: one is watched, read, written, or added to.

use std::sync::Arc;
use std::time::Duration;

use dubbo_proto::application::add_application;
use nacos_proto::{Ask, ConfigAnswer, ConfigKey, Listened};
use tokio::time::sleep;
use wire::jitter;

use crate::layout::{Placed, Value};
use crate::lent::{LentReader, LentWatch};
use crate::store::DocumentNews;

use super::connection::{Live, SharedConnection};
use super::error::NacosError;
use super::hub::Listening;

/// The group of the documents that say which applications offer an interface. Source:
/// `ServiceNameMapping.DEFAULT_MAPPING_GROUP`.
pub(super) const MAPPING: &str = "mapping";

/// The group of Dubbo's rules. Source: `DynamicConfiguration.DEFAULT_GROUP`.
pub(super) const RULES: &str = "dubbo";

/// News of a change can get lost: documents are compared this often. Source: `ClientWorker`.
const COMPARE_EVERY: Duration = Duration::from_secs(180);

/// A document that changes this often while it is written is written later.
const MAX_TRIES: usize = 8;

/// How long such a document is left alone in between, at most.
const PAUSE: Duration = Duration::from_millis(100);

/// Whether Nacos can have a document of this name. Source: `ParamUtils.isValid`.
pub(super) fn is_data_id(name: &str) -> bool {
    let is_good =
        |letter: char| letter.is_alphanumeric() || matches!(letter, '_' | '-' | '.' | ':');
    name.chars().all(is_good)
}

/// Reads a document; `None` if it is not there.
pub(super) async fn read(live: &Live, key: &ConfigKey) -> Result<Option<ConfigAnswer>, NacosError> {
    let ask = Ask::Document(key.clone());
    match live.try_ask(&ask).await? {
        Ok(answer) => answer.document().map(Some).map_err(Live::bad(ask.words())),
        Err(refusal) if refusal.is_not_found() => Ok(None),
        Err(refusal) => {
            let (what, subject) = (ask.words(), ask.subject());
            Err(NacosError::Refused { what, subject, refusal })
        }
    }
}

/// Where a document is written that belongs to nobody.
pub(super) fn placed(key: &ConfigKey, text: Arc<str>) -> Placed {
    Placed { path: format!("{}/{}", key.group, key.data_id), value: Value::Document(text) }
}

/// Writes a document, unless it is there already. `path` is that of [`placed`].
pub(super) async fn write(live: &Live, path: &str, text: &str) -> Result<(), NacosError> {
    // A group has no slash in it.
    let (group, data_id) = path.split_once('/').unwrap_or((RULES, path));
    let key = ConfigKey { group: group.to_owned(), data_id: data_id.to_owned() };
    change(live, &key, |known| (known != Some(text)).then(|| text.to_owned())).await
}

/// Adds a name to a list that others write, too.
pub(super) async fn join(live: &Live, key: &ConfigKey, name: &str) -> Result<(), NacosError> {
    change(live, key, |known| add_application(known.unwrap_or_default(), name)).await
}

/// Changes a document that others may write at the same time. `new` makes the text that it should
/// have, and nothing of one that is right: only then is it done, since some servers do not
/// compare, and others say what they had before for a while.
async fn change(
    live: &Live,
    key: &ConfigKey,
    new: impl Fn(Option<&str>) -> Option<String>,
) -> Result<(), NacosError> {
    let mut reason = NacosError::Unsteady(format!("{}/{}", key.group, key.data_id));
    for n_before in 0..MAX_TRIES {
        let known = read(live, key).await?;
        let Some(content) = new(known.as_ref().map(|known| known.content.as_str())) else {
            return Ok(());
        };
        let cas_md5 = known.map_or_else(|| "0".to_owned(), |known| known.md5);
        let ask = Ask::Publish { key: key.clone(), content, cas_md5 };
        let refused = live.try_ask(&ask).await?.err();
        let pauses = n_before != 0 || refused.is_some();
        if let Some(refusal) = refused {
            let is_forbidden = refusal.is_forbidden();
            tracing::debug!(%refusal, "{} is not written", key.data_id);
            reason = NacosError::Refused { what: ask.words(), subject: ask.subject(), refusal };
            if is_forbidden {
                break;
            }
        }
        if pauses {
            sleep(jitter(PAUSE)).await;
        }
    }
    Err(reason)
}

pub(super) struct NacosRule {
    key: ConfigKey,
    listening: Option<Listening>,
    /// Of the text that was told last.
    known: Option<String>,
    /// Whether it was ever told.
    is_told: bool,
}

impl NacosRule {
    pub(super) fn new(key: ConfigKey, connection: SharedConnection) -> LentWatch<Self> {
        LentWatch::new(connection, Self { key, listening: None, known: None, is_told: false })
    }

    /// Reads the document, and listens to it from then on.
    async fn read(&mut self, live: &Arc<Live>) -> Result<Option<String>, NacosError> {
        let mut document = None;
        for _ in 0..MAX_TRIES {
            document = read(live, &self.key).await?;
            self.known = document.as_ref().map(|it| it.md5.clone());
            // What changed in between is read again.
            if !self.has_changed(live).await? {
                break;
            }
        }
        Ok(document.map(|it| it.content))
    }

    /// Listens to the document from now on; whether it differs from what is known of it.
    async fn has_changed(&self, live: &Live) -> Result<bool, NacosError> {
        let md5 = self.known.clone().unwrap_or_default();
        let ask = Ask::Listen(vec![Listened { key: self.key.clone(), md5 }]);
        let changed = live.ask(&ask).await?.changed().map_err(Live::bad(ask.words()))?;
        Ok(changed.contains(&self.key))
    }
}

impl LentReader for NacosRule {
    type Live = Live;
    type News = DocumentNews;
    type Error = NacosError;

    async fn begin(&mut self, live: &Arc<Live>) -> Result<DocumentNews, NacosError> {
        self.listening = Some(Listening::new(live, self.key.clone()));
        let text = self.read(live).await?;
        // Nacos does not say whether it has lost something, so each new connection may have.
        let history_lost = std::mem::replace(&mut self.is_told, true);
        Ok(DocumentNews::Whole { text, history_lost })
    }

    async fn next(&mut self, live: &Arc<Live>) -> Result<DocumentNews, NacosError> {
        loop {
            if let Some(listening) = &self.listening {
                tokio::select! {
                    () = listening.changed.notified() => break,
                    () = sleep(jitter(COMPARE_EVERY)) => {}
                }
            }
            if self.has_changed(live).await? {
                break;
            }
        }
        self.read(live).await.map(DocumentNews::Changed)
    }

    fn handle_end(&mut self) {
        self.listening = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn callers_that_leave_version_or_group_open_have_no_documents_of_their_service() {
        let is_good = |version_and_group| is_data_id(&format!("a.B_c:{version_and_group}.x-y"));
        assert!(["1.0:g", ":", "1.0-é:"].into_iter().all(is_good));
        assert!(!["*:", ":*", "1.0:a,b", "1 0:"].into_iter().any(is_good));
    }
}
