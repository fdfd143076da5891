//! Documents with rules in the registry's configuration, and who watches them.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use tokio::sync::watch;
use tokio::task::AbortHandle;

use super::Registry;
use crate::rules::{FollowedDocument, RuleDocument, follow_rule};
use crate::status::RegistryStatus;

impl Registry {
    /// Watches a document with rules in the registry's configuration, by its name in Dubbo's group
    /// `dubbo`, such as `com.acme.Orders::.condition-router`. Subscriptions of the same document
    /// share one watch. `None` if the registry has no such documents.
    pub fn rule(&self, name: &str) -> Option<RuleSubscription> {
        let mut rules = self.shared.rules.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(feed) = rules.get(name).and_then(Weak::upgrade) {
            return Some(RuleSubscription { feed, registry: self.clone() });
        }
        let mut watch = self.shared.store.rule(name)?;
        rules.retain(|_, feed| 0 < feed.strong_count());
        let known = watch.known().map(RuleDocument::known);
        let (sender, document) = watch::channel(known.unwrap_or_default());
        let patience = Arc::clone(&self.shared.rules_patience);
        let heard = move || patience.handle_word();
        let followed = FollowedDocument {
            name: name.to_owned(),
            watch,
            document: sender,
            grace: self.shared.store.grace(),
            lost: Arc::clone(&self.shared.lost_rules),
        };
        let task = self.shared.runtime.spawn(follow_rule(followed, heard));
        let (said, task) = (Mutex::default(), task.abort_handle());
        let feed = Arc::new(RuleFeed { document, said, task });
        rules.insert(name.to_owned(), Arc::downgrade(&feed));
        Some(RuleSubscription { feed, registry: self.clone() })
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
    registry: Registry,
}

impl RuleSubscription {
    /// The document of now, and a wake-up for every change. The channel closes with the
    /// subscription.
    #[must_use]
    pub fn document(&self) -> watch::Receiver<RuleDocument> {
        self.feed.document.clone()
    }

    /// Waits until it is known whether the document is there. That is not waited for while the
    /// registry is away, and for a moment only while it is silent. What was known before stays.
    pub async fn settled(&self) {
        let (mut document, mut status) = (self.document(), self.registry.status());
        let patience = self.registry.rules_patience();
        tokio::select! {
            biased;
            _ = document.wait_for(|document| document.is_settled) => {}
            _ = status.wait_for(RegistryStatus::is_away) => patience.handle_word(),
            () = tokio::time::sleep(patience.left()) => patience.handle_silence(),
        }
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::timeout;

    use crate::silent_store::SilentStore;

    const LONG: Duration = Duration::from_secs(40);

    #[tokio::test]
    async fn rules_of_a_registry_that_is_away_are_not_waited_for() {
        let (store, registry) = SilentStore::open();
        let rule = registry.rule("a").unwrap();
        let away = async { store.go_away() };
        let both = async { tokio::join!(rule.settled(), away) };
        timeout(LONG, both).await.expect("an end of the wait");
        assert!(!rule.document().borrow().is_settled, "nothing was said");
        // Back again, it is asked like any other.
        crate::status::note(&store.status, true, None);
        assert!(timeout(Duration::ZERO, rule.settled()).await.is_err());
    }

    #[tokio::test]
    async fn a_silent_registry_is_waited_for_once() {
        let (store, registry) = SilentStore::open();
        registry.rules_patience().handle_silence();
        let other = registry.rule("b").unwrap();
        timeout(LONG, other.settled()).await.expect("no wait for another document");
        // It says something: what is asked next is waited for again, and what was known stays.
        store.rule.send_replace(Some("text".to_owned()));
        let mut document = other.document();
        document.wait_for(|document| document.text.is_some()).await.unwrap();
        assert!(!registry.rules_patience().left().is_zero());
        store.go_away();
        assert_eq!(other.document().borrow().text.as_deref(), Some("text"));
    }
}
