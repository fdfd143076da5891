//! Documents with rules in the registry's configuration, and who watches them.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use tokio::sync::watch;
use tokio::task::AbortHandle;

use super::Registry;
use crate::rules::{RuleDocument, follow_rule};

impl Registry {
    /// Watches a document with rules in the registry's configuration, by its name in Dubbo's group
    /// `dubbo`, such as `com.acme.Orders::.condition-router`. Subscriptions of the same document
    /// share one watch. `None` if the registry has no such documents.
    pub fn rule(&self, name: &str) -> Option<RuleSubscription> {
        let mut rules = self.shared.rules.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(feed) = rules.get(name).and_then(Weak::upgrade) {
            return Some(RuleSubscription { feed, _registry: self.clone() });
        }
        let mut watch = self.shared.store.rule(name)?;
        rules.retain(|_, feed| 0 < feed.strong_count());
        let known = watch.known().map(RuleDocument::known);
        let (sender, document) = watch::channel(known.unwrap_or_default());
        let task = self.shared.runtime.spawn(follow_rule(name.to_owned(), watch, sender));
        let (said, task) = (Mutex::default(), task.abort_handle());
        let feed = Arc::new(RuleFeed { document, said, task });
        rules.insert(name.to_owned(), Arc::downgrade(&feed));
        Some(RuleSubscription { feed, _registry: self.clone() })
    }
}

/// The one watch of a document, shared by its subscriptions.
#[derive(Debug)]
pub(super) struct RuleFeed {
    document: watch::Receiver<RuleDocument>,
    /// What is wrong with the document, as far as somebody has said so.
    said: Mutex<Option<String>>,
    task: AbortHandle,
}

impl Drop for RuleFeed {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// A watch of one document with rules. Ends when dropped.
#[derive(Clone, Debug)]
#[must_use = "the watch ends when the subscription is dropped"]
pub struct RuleSubscription {
    feed: Arc<RuleFeed>,
    _registry: Registry,
}

impl RuleSubscription {
    /// The document of now, and a wake-up for every change. The channel closes with the
    /// subscription.
    #[must_use]
    pub fn document(&self) -> watch::Receiver<RuleDocument> {
        self.feed.document.clone()
    }

    /// Somebody has read the document, and found this wrong with it. Returns whether that is to be
    /// said: all subscriptions see the same document, and one of them says it.
    #[must_use]
    pub fn is_news(&self, problem: Option<&str>) -> bool {
        let mut said = self.feed.said.lock().unwrap_or_else(PoisonError::into_inner);
        let is_news = problem.is_some() && said.as_deref() != problem;
        *said = problem.map(str::to_owned);
        is_news
    }
}
