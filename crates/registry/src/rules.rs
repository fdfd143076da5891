//! Documents with rules, as a store's configuration has them.
//!
//! A document is text under a name. What it means is not known here.

use std::sync::Arc;

use tokio::sync::watch;

use crate::follow::new_backoff;
use crate::store::{RuleWatch, StoreError};

/// As much of a store's words is shown.
const MAX_REFUSAL_LEN: usize = 200;

/// A document of a registry's configuration at one moment.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct RuleDocument {
    /// Whether the registry has said anything: that it has this text or none, or that it does not
    /// tell. Before that nobody knows whether there is a rule.
    pub is_settled: bool,
    /// The last text known; `None` if there is no such document.
    pub text: Option<Arc<str>>,
    /// Why the registry does not tell, although it can be reached.
    pub refusal: Option<Arc<str>>,
}

impl RuleDocument {
    pub(crate) fn known(text: Option<String>) -> Self {
        Self { is_settled: true, text: text.map(Arc::from), refusal: None }
    }
}

/// Keeps a document up to date. Runs until its task is aborted, or the store can never be asked
/// again. What is known stays while the store is away. `heard` is called for each of its words.
pub(crate) async fn follow_rule(
    name: String,
    mut watch: Box<dyn RuleWatch>,
    document: watch::Sender<RuleDocument>,
    heard: impl Fn() + Send,
) {
    let mut backoff = new_backoff();
    let mut last_error = None;
    while watch.ready().await {
        let error = loop {
            match watch.next().await {
                Ok(text) => {
                    (backoff, last_error) = (new_backoff(), None);
                    heard();
                    document.send_if_modified(|known| {
                        let new = RuleDocument::known(text);
                        let is_new = *known != new;
                        *known = new;
                        is_new
                    });
                }
                Err(error) => break error,
            }
        };
        let mut refusal = None;
        if let StoreError::Failed(error) = error {
            refusal = Some(Arc::from(error.chars().take(MAX_REFUSAL_LEN).collect::<String>()));
            if last_error.as_ref() != Some(&error) {
                tracing::warn!(%name, %error, "the document cannot be watched, trying again");
            }
            last_error = Some(error);
        }
        document.send_if_modified(|known| {
            let is_new = !known.is_settled || known.refusal != refusal;
            (known.is_settled, known.refusal) = (true, refusal);
            is_new
        });
        tokio::time::sleep(backoff.next_wait()).await;
    }
}
