//! Documents with rules, as a store's configuration has them.
//!
//! A document is text under a name. What it means is not known here.
//!
//! Invariants:
//! - Only a store that was asked takes a document away: being away never does.
//! - A document that its store has lost with its history stays for the grace, and not longer. One
//!   that is seen to go has gone at once.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;
use wire::Backoff;

use crate::follow::{new_backoff, publish, sleep_until_option};
use crate::store::{DocumentNews, RuleWatch, StoreError};

/// As much of a store's words is shown.
const MAX_REFUSAL_LEN: usize = 200;

/// There may be thousands of documents, and a store loses all of them at once.
const LOG_INTERVAL: Duration = Duration::from_secs(1);

/// A document of a registry's configuration at one moment.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct RuleDocument {
    /// Whether the registry has said anything: that it has this text or none, or that it does not
    /// tell. Before that nobody knows whether there is a rule.
    pub is_settled: bool,
    /// The last text known; `None` if there is no such document.
    pub text: Option<Arc<str>>,
    /// Why the registry does not tell, although it can be reached, or why the text stays although
    /// the registry no longer has it.
    pub refusal: Option<Arc<str>>,
}

impl RuleDocument {
    pub(crate) fn known(text: Option<String>) -> Self {
        Self { is_settled: true, text: text.map(Arc::from), refusal: None }
    }
}

/// What is known of a document, whatever its store does. Time is an argument.
#[derive(Debug)]
struct KeptDocument {
    grace: Duration,
    known: RuleDocument,
    /// Until when the text stays, if its store has lost it.
    kept_until: Option<Instant>,
}

impl KeptDocument {
    const fn new(known: RuleDocument, grace: Duration) -> Self {
        Self { grace, known, kept_until: None }
    }

    /// Whether the text is kept from now on, although the store has lost it.
    fn handle_news(&mut self, news: DocumentNews, now: Instant) -> bool {
        let (text, is_lost) = match news {
            DocumentNews::Changed(text) => (text, false),
            DocumentNews::Whole { text, history_lost } => {
                let is_kept = history_lost && !self.grace.is_zero() || self.kept_until.is_some();
                let is_lost = text.is_none() && self.known.text.is_some() && is_kept;
                (text, is_lost)
            }
        };
        if !is_lost {
            (self.known, self.kept_until) = (RuleDocument::known(text), None);
            return false;
        }
        let refusal = format!(
            "the registry came back without it; it stays in force until the registry has it again, \
             and for {:?} at most",
            self.grace
        );
        self.known.refusal = Some(refusal.into());
        let is_new = self.kept_until.is_none();
        self.kept_until.get_or_insert(now + self.grace);
        is_new
    }

    fn handle_error(&mut self, refusal: Option<Arc<str>>) {
        (self.known.is_settled, self.known.refusal) = (true, refusal);
    }

    /// Whether the grace is over.
    fn handle_timeout(&mut self, now: Instant) -> bool {
        let is_over = self.kept_until.is_some_and(|until| until <= now);
        if is_over {
            (self.known, self.kept_until) = (RuleDocument::known(None), None);
        }
        is_over
    }
}

/// Says of a registry's documents that they were lost: of the first one, and then how many.
#[derive(Debug, Default)]
pub(crate) struct LostDocuments(Mutex<UntoldLosses>);

#[derive(Debug, Default)]
struct UntoldLosses {
    told_at: Option<Instant>,
    n_untold: usize,
}

impl UntoldLosses {
    /// One more; how many there are since the last time, if that is to be said.
    fn note(&mut self, now: Instant) -> Option<usize> {
        self.n_untold += 1;
        if self.told_at.is_some_and(|at| now < at + LOG_INTERVAL) {
            return None;
        }
        self.told_at = Some(now);
        Some(std::mem::take(&mut self.n_untold))
    }
}

impl LostDocuments {
    fn handle_lost(&self, name: &str, grace: Duration) {
        let mut untold = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(n_lost) = untold.note(Instant::now()) else { return };
        tracing::warn!(
            document = name,
            n_lost,
            ?grace,
            "the registry came back without documents; what they said stays in force for a while"
        );
    }
}

/// A document that is followed, and whom to tell.
pub(crate) struct FollowedDocument {
    pub(crate) name: String,
    pub(crate) watch: Box<dyn RuleWatch>,
    pub(crate) document: watch::Sender<RuleDocument>,
    /// How long the document stays when its store has lost it.
    pub(crate) grace: Duration,
    pub(crate) lost: Arc<LostDocuments>,
}

/// Keeps a document up to date. Runs until its task is aborted, or the store can never be asked
/// again. What is known stays while the store is away. `heard` is called for each of its words.
pub(crate) async fn follow_rule(mut followed: FollowedDocument, heard: impl Fn() + Send + Sync) {
    let mut backoff = new_backoff();
    let mut last_error = None;
    let mut kept = KeptDocument::new(followed.document.borrow().clone(), followed.grace);
    while followed.watch.ready().await {
        let heard = || {
            last_error = None;
            heard();
        };
        let error = until_error(&mut followed, &mut kept, &mut backoff, heard).await;
        let mut refusal = None;
        if let StoreError::Failed(error) = error {
            refusal = Some(Arc::from(error.chars().take(MAX_REFUSAL_LEN).collect::<String>()));
            if last_error.as_ref() != Some(&error) {
                let name = &followed.name;
                tracing::warn!(%name, %error, "the document cannot be watched, trying again");
            }
            last_error = Some(error);
        }
        kept.handle_error(refusal);
        publish(&followed.document, kept.known.clone());
        tokio::time::sleep(backoff.next_wait()).await;
    }
}

async fn until_error(
    followed: &mut FollowedDocument,
    kept: &mut KeptDocument,
    backoff: &mut Backoff,
    mut heard: impl FnMut() + Send,
) -> StoreError {
    let FollowedDocument { name, watch, document, grace, lost } = followed;
    loop {
        let mut next = watch.next();
        // A timeout must not drop the future: news that is half read would be lost.
        let news = loop {
            tokio::select! {
                news = &mut next => break news,
                () = sleep_until_option(kept.kept_until) => {
                    if kept.handle_timeout(Instant::now()) {
                        tracing::debug!(%name, "the registry has not got the document back");
                        publish(document, kept.known.clone());
                    }
                }
            }
        };
        match news {
            Ok(news) => {
                backoff.reset();
                heard();
                if kept.handle_news(news, Instant::now()) {
                    lost.handle_lost(name, *grace);
                }
                publish(document, kept.known.clone());
            }
            Err(error) => return error,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GRACE: Duration = Duration::from_secs(30);

    fn whole(text: Option<&str>, history_lost: bool) -> DocumentNews {
        DocumentNews::Whole { text: text.map(str::to_owned), history_lost }
    }

    fn kept(grace: Duration) -> KeptDocument {
        let mut kept = KeptDocument::new(RuleDocument::default(), grace);
        assert!(!kept.handle_news(whole(Some("text"), false), Instant::now()));
        kept
    }

    #[test]
    fn what_is_lost_with_its_history_stays_for_the_grace() {
        let (mut kept, start) = (kept(GRACE), Instant::now());
        assert!(kept.handle_news(whole(None, true), start));
        assert_eq!(kept.known.text.as_deref(), Some("text"));
        assert!(kept.known.refusal.as_ref().is_some_and(|why| why.contains("30s")));
        // It is away again, comes back, and loses all again: the grace is over when it was.
        kept.handle_error(None);
        assert!(!kept.handle_news(whole(None, false), start + GRACE / 2));
        assert!(!kept.handle_news(whole(None, true), start + GRACE / 2));
        assert_eq!(kept.known.text.as_deref(), Some("text"));
        assert!(!kept.handle_timeout(start + GRACE / 2));
        assert!(kept.handle_timeout(start + GRACE));
        assert_eq!(kept.known, RuleDocument::known(None));
        assert_eq!(kept.kept_until, None);
    }

    #[test]
    fn what_comes_back_is_in_force_and_what_is_seen_to_go_has_gone() {
        let now = Instant::now();
        let mut back = kept(GRACE);
        assert!(back.handle_news(whole(None, true), now));
        assert!(!back.handle_news(DocumentNews::Changed(Some("new".into())), now));
        assert_eq!(back.known, RuleDocument::known(Some("new".into())));
        assert!(!back.handle_timeout(now + GRACE));
        let gone = DocumentNews::Changed(None);
        for (before, news) in [(None, gone.clone()), (Some(whole(None, true)), gone)] {
            let mut kept = kept(GRACE);
            before.map(|before| kept.handle_news(before, now));
            assert!(!kept.handle_news(news, now));
            assert_eq!((kept.known, kept.kept_until), (RuleDocument::known(None), None));
        }
        // It was deleted while nobody looked.
        let mut deleted = kept(GRACE);
        assert!(!deleted.handle_news(whole(None, false), now));
        assert_eq!(deleted.known, RuleDocument::known(None));
        // There is no grace, or there was no document.
        for mut none in [kept(Duration::ZERO), KeptDocument::new(RuleDocument::default(), GRACE)] {
            assert!(!none.handle_news(whole(None, true), now));
            assert_eq!(none.known, RuleDocument::known(None));
        }
    }

    #[test]
    fn losses_are_told_seldom_and_with_their_number() {
        let (mut untold, start) = (UntoldLosses::default(), Instant::now());
        assert_eq!(untold.note(start), Some(1));
        assert!((0..1000).all(|_| untold.note(start + LOG_INTERVAL / 2).is_none()));
        assert_eq!(untold.note(start + LOG_INTERVAL), Some(1001));
    }
}
