//! The watch of one service, or of one document, in several registries.

use std::time::Duration;

use dubbo_proto::ServiceKey;
use futures_util::future::select_all;
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

use super::MemberRegistry;
use super::combine::{RegistryPart, Terms, combine};
use crate::config::SeveralMode;
use crate::endpoint::Snapshot;
use crate::follow::open_change;
use crate::registry::{Registry, RuleSubscription, Subscription};
use crate::rules::RuleDocument;
use crate::status::RegistryStatus;
use crate::store::{Known, News, RuleWatch, StoreError, Wait, Watch};

/// How long a registry that says nothing holds up what the others say.
const PATIENCE: Duration = Duration::from_secs(3);

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

/// One service in one of the registries.
struct WatchedRegistry {
    terms: Terms,
    snapshots: watch::Receiver<Snapshot>,
    status: watch::Receiver<RegistryStatus>,
    _subscription: Subscription,
}

pub(super) struct SeveralWatch {
    wanted: ServiceKey,
    mode: SeveralMode,
    members: Vec<WatchedRegistry>,
    /// Until when a registry may be silent.
    patient_until: Instant,
}

impl SeveralWatch {
    pub(super) fn new(wanted: &ServiceKey, mode: SeveralMode, members: &[MemberRegistry]) -> Self {
        let members = members.iter().map(|MemberRegistry { terms, registry }| {
            let subscription = registry.subscribe(wanted);
            WatchedRegistry {
                terms: terms.clone(),
                snapshots: subscription.snapshots(),
                status: registry.status(),
                _subscription: subscription,
            }
        });
        let patient_until = Instant::now() + PATIENCE;
        Self { wanted: wanted.clone(), mode, members: members.collect(), patient_until }
    }

    fn combined(&mut self) -> Option<Known> {
        let is_late = self.patient_until <= Instant::now();
        let part = |member: &mut WatchedRegistry| {
            let status = member.status.borrow_and_update();
            let is_away = !status.connected && status.last_error.is_some();
            let snapshot = member.snapshots.borrow_and_update().clone();
            let terms = member.terms.clone();
            RegistryPart { terms, snapshot, is_given_up: is_late || is_away }
        };
        let parts: Vec<_> = self.members.iter_mut().map(part).collect();
        combine(&self.wanted, self.mode, &parts)
    }

    async fn changed(&mut self) {
        let (lists, status): (Vec<_>, Vec<_>) =
            self.members.iter_mut().map(|it| (&mut it.snapshots, &mut it.status)).unzip();
        let change = async {
            tokio::select! {
                () = any_changed(lists.into_iter()) => {}
                () = any_changed(status.into_iter()) => {}
            }
        };
        if Instant::now() < self.patient_until {
            // Late is as good as changed: the others are not held up any longer.
            let _ = timeout_at(self.patient_until, change).await;
        } else {
            change.await;
        }
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

/// A document of which the first registry that has one counts.
pub(super) struct SeveralRule {
    members: Vec<(watch::Receiver<RuleDocument>, RuleSubscription)>,
}

impl SeveralRule {
    /// `None` if none of the registries has documents.
    pub(super) fn new<'a>(
        name: &str,
        registries: impl Iterator<Item = &'a Registry>,
    ) -> Option<Self> {
        let members: Vec<_> = registries
            .filter_map(|registry| registry.rule(name))
            .map(|subscription| (subscription.document(), subscription))
            .collect();
        (!members.is_empty()).then_some(Self { members })
    }

    /// The document; the outer `None` while a registry has not said whether it has one.
    fn combined(&mut self) -> Option<Option<String>> {
        let mut first = None;
        let mut is_settled = true;
        for (document, _) in &mut self.members {
            let document = document.borrow_and_update();
            is_settled &= document.is_settled;
            if first.is_none() && is_settled {
                first = document.text.as_deref().map(str::to_owned);
            }
        }
        (is_settled || first.is_some()).then_some(first)
    }
}

impl RuleWatch for SeveralRule {
    fn known(&mut self) -> Option<Option<String>> {
        self.combined()
    }

    fn ready(&mut self) -> Wait<'_, bool> {
        Box::pin(std::future::ready(true))
    }

    fn next(&mut self) -> Wait<'_, Result<Option<String>, StoreError>> {
        Box::pin(async {
            loop {
                any_changed(self.members.iter_mut().map(|(document, _)| document)).await;
                if let Some(document) = self.combined() {
                    return Ok(document);
                }
            }
        })
    }
}
