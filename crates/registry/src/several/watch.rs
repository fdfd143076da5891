//! The watch of one service, or of one document, in several registries.

use std::sync::Arc;

use dubbo_proto::ServiceKey;
use futures_util::future::select_all;
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

use super::MemberRegistry;
use super::combine::{RegistryPart, Terms, combine};
use crate::config::SeveralMode;
use crate::endpoint::{Freshness, Snapshot};
use crate::follow::open_change;
use crate::patience::Patience;
use crate::registry::{Registry, RuleSubscription, Subscription};
use crate::rules::RuleDocument;
use crate::status::RegistryStatus;
use crate::store::{DocumentNews, Known, News, RuleWatch, StoreError, Wait, Watch};

/// Waits for a change of any of them; for ever if there will be none.
pub(super) async fn any_changed<'a, T: 'a>(
    receivers: impl Iterator<Item = &'a mut watch::Receiver<T>>,
) {
    let changes: Vec<_> = receivers.map(|it| Box::pin(open_change(it))).collect();
    if changes.is_empty() {
        return std::future::pending().await;
    }
    select_all(changes).await;
}

/// Until when the others wait for the first word of one of the registries.
struct Awaited {
    status: watch::Receiver<RegistryStatus>,
    patience: Arc<Patience>,
    /// `None` once that is over.
    patient_until: Option<Instant>,
}

impl Awaited {
    fn new(status: watch::Receiver<RegistryStatus>, patience: &Arc<Patience>) -> Self {
        let patient_until = Some(Instant::now() + patience.left());
        Self { status, patience: Arc::clone(patience), patient_until }
    }

    /// Whether nobody waits any longer for the registry, which has said nothing yet.
    fn is_given_up(&mut self) -> bool {
        let is_late = self.patient_until.take_if(|until| *until <= Instant::now()).is_some();
        let is_away = self.status.borrow_and_update().is_away();
        if is_away {
            self.patience.handle_word();
        } else if is_late {
            self.patience.handle_silence();
        }
        is_away || self.patient_until.is_none()
    }
}

/// Waits for `change`, or until the next of the registries is given up: that is as good as
/// changed.
async fn change_or_late(patient_until: Option<Instant>, change: impl Future<Output = ()>) {
    let Some(until) = patient_until else { return change.await };
    let _late = timeout_at(until, change).await;
}

/// One service in one of the registries.
struct WatchedRegistry {
    terms: Terms,
    snapshots: watch::Receiver<Snapshot>,
    awaited: Awaited,
    _subscription: Subscription,
}

pub(super) struct SeveralWatch {
    wanted: ServiceKey,
    mode: SeveralMode,
    members: Vec<WatchedRegistry>,
}

impl SeveralWatch {
    pub(super) fn new(wanted: &ServiceKey, mode: SeveralMode, members: &[MemberRegistry]) -> Self {
        let members = members.iter().map(|MemberRegistry { terms, registry }| {
            let subscription = registry.subscribe(wanted);
            WatchedRegistry {
                terms: terms.clone(),
                snapshots: subscription.snapshots(),
                awaited: Awaited::new(registry.status(), registry.lists_patience()),
                _subscription: subscription,
            }
        });
        Self { wanted: wanted.clone(), mode, members: members.collect() }
    }

    fn combined(&mut self) -> Option<Known> {
        let part = |member: &mut WatchedRegistry| {
            let snapshot = member.snapshots.borrow_and_update().clone();
            let is_silent = snapshot.status == Freshness::Pending;
            let is_given_up = is_silent && member.awaited.is_given_up();
            RegistryPart { terms: member.terms.clone(), snapshot, is_given_up }
        };
        let parts: Vec<_> = self.members.iter_mut().map(part).collect();
        combine(&self.wanted, self.mode, &parts)
    }

    async fn changed(&mut self) {
        let is_silent = |it: &&WatchedRegistry| it.snapshots.borrow().status == Freshness::Pending;
        let silent = self.members.iter().filter(is_silent);
        let patient_until = silent.filter_map(|it| it.awaited.patient_until).min();
        let (lists, status): (Vec<_>, Vec<_>) =
            self.members.iter_mut().map(|it| (&mut it.snapshots, &mut it.awaited.status)).unzip();
        let change = async {
            tokio::select! {
                () = any_changed(lists.into_iter()) => {}
                () = any_changed(status.into_iter()) => {}
            }
        };
        change_or_late(patient_until, change).await;
    }
}

impl Watch for SeveralWatch {
    fn known(&mut self) -> Option<Known> {
        self.combined()
    }

    /// The registries say themselves how they do.
    fn ready(&mut self) -> Wait<'_, bool> {
        Box::pin(std::future::ready(true))
    }

    fn next(&mut self) -> Wait<'_, Result<News, StoreError>> {
        Box::pin(async {
            loop {
                self.changed().await;
                if let Some(known) = self.combined() {
                    return Ok(News::Known(known));
                }
            }
        })
    }

    /// Each registry has reported it.
    fn report(&mut self, _error: &str) -> bool {
        false
    }
}

/// One document in one of the registries.
struct WatchedDocument {
    document: watch::Receiver<RuleDocument>,
    awaited: Awaited,
    _subscription: RuleSubscription,
}

/// A document of which the first registry that has one counts. One that is away, or silent, does
/// not keep those of the others from counting.
pub(super) struct SeveralRule {
    members: Vec<WatchedDocument>,
}

impl SeveralRule {
    /// `None` if none of the registries has documents.
    pub(super) fn new<'a>(
        name: &str,
        registries: impl Iterator<Item = &'a Registry>,
    ) -> Option<Self> {
        let member = |registry: &Registry| {
            let subscription = registry.rule(name)?;
            let document = subscription.document();
            let awaited = Awaited::new(registry.status(), registry.rules_patience());
            Some(WatchedDocument { document, awaited, _subscription: subscription })
        };
        let members: Vec<_> = registries.filter_map(member).collect();
        (!members.is_empty()).then_some(Self { members })
    }

    /// The document; the outer `None` while nobody has said whether there is one, or a registry is
    /// waited for that would come first.
    fn combined(&mut self) -> Option<Option<String>> {
        let (mut first, mut is_awaited, mut any_settled) = (None, false, false);
        for WatchedDocument { document, awaited, .. } in &mut self.members {
            let document = document.borrow_and_update();
            any_settled |= document.is_settled;
            is_awaited |= !document.is_settled && !awaited.is_given_up();
            if first.is_none() && !is_awaited {
                first = document.text.as_deref().map(str::to_owned);
            }
        }
        (first.is_some() || any_settled && !is_awaited).then_some(first)
    }

    async fn changed(&mut self) {
        let silent = self.members.iter().filter(|it| !it.document.borrow().is_settled);
        let patient_until = silent.filter_map(|it| it.awaited.patient_until).min();
        let (documents, status): (Vec<_>, Vec<_>) =
            self.members.iter_mut().map(|it| (&mut it.document, &mut it.awaited.status)).unzip();
        let change = async {
            tokio::select! {
                () = any_changed(documents.into_iter()) => {}
                () = any_changed(status.into_iter()) => {}
            }
        };
        change_or_late(patient_until, change).await;
    }
}

impl RuleWatch for SeveralRule {
    fn known(&mut self) -> Option<Option<String>> {
        self.combined()
    }

    fn ready(&mut self) -> Wait<'_, bool> {
        Box::pin(std::future::ready(true))
    }

    fn next(&mut self) -> Wait<'_, Result<DocumentNews, StoreError>> {
        Box::pin(async {
            loop {
                self.changed().await;
                if let Some(document) = self.combined() {
                    return Ok(DocumentNews::Changed(document));
                }
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{RegistryConfig, SeveralConfig};
    use crate::endpoint::{Endpoint, Protocol, Registration};
    use crate::memory::MemoryHub;
    use crate::several::several;
    use crate::silent_store::SilentStore;

    /// A silent registry, one that lists `a.B` and has a rule, and both as one.
    fn open() -> (SilentStore, Registry, Registry, crate::Registered) {
        let (store, silent) = SilentStore::open();
        let hub = MemoryHub::new();
        hub.set_rule("r", Some("text"));
        let good = Registry::open(RegistryConfig::Memory(hub)).unwrap();
        let endpoint = Endpoint::new(Protocol::Dubbo, "10.0.0.1", 1);
        let service = "a.B".parse().unwrap();
        let registration = Registration { service, endpoint, methods: vec![], app_address: None };
        let registered = good.register(&registration).unwrap();
        let of = vec!["silent".to_owned(), "good".to_owned()];
        let (mode, shares, zones) = Default::default();
        let config = SeveralConfig { of, mode, shares, zones };
        let member = |name: &str| Some(if name == "good" { good.clone() } else { silent.clone() });
        let both = several(&config, member, crate::DefinitionSources::default()).unwrap();
        (store, silent, both, registered)
    }

    #[tokio::test]
    async fn a_silent_registry_holds_up_the_others_once() {
        let (_store, silent, both, _registered) = open();
        let service = "a.B".parse().unwrap();
        let first = both.subscribe(&service);
        assert_eq!(first.current().status, Freshness::Pending);
        drop(first);
        assert_eq!(both.rule("r").unwrap().document().borrow().text, None);
        silent.lists_patience().handle_silence();
        silent.rules_patience().handle_silence();
        let next = both.subscribe(&service).current();
        assert_eq!((next.status, next.endpoints.len()), (Freshness::Stale, 1));
        let text = both.rule("r").unwrap().document().borrow().text.clone();
        assert_eq!(text.as_deref(), Some("text"), "the rules of the other one count");
    }

    #[tokio::test]
    async fn the_rules_of_the_others_count_once_a_registry_is_away() {
        let (store, _silent, both, _registered) = open();
        let rule = both.rule("r").unwrap();
        let mut document = rule.document();
        assert!(!document.borrow().is_settled);
        store.go_away();
        document.wait_for(|document| document.text.as_deref() == Some("text")).await.unwrap();
    }
}
