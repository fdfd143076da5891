//! The rules in a registry's configuration that hold for the calls of one service.
//!
//! Dubbo has one document for each kind of rule and each service or application. They are watched
//! by their names, and parsed here, off the worker's thread. A document that cannot be read
//! leaves in force what it said before, as in Dubbo, and one that was emptied does not.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

use dubbo_proto::ServiceKey;
use flow::rules::{ConditionRule, Configurators, RuleError, RuleProblem, TagRule};
use futures_util::future::join_all;
use registry::{Registry, RuleDocument, RuleSubscription};
use tokio::sync::watch;
use tracing::warn;

/// What the rules of the registry say.
#[derive(Clone, Debug, Default)]
pub struct RegistryRules {
    /// The tag rule of the provider's application.
    pub tags: Option<Arc<TagRule>>,
    /// Condition rules: of the service, of the caller's application, of the provider's.
    pub conditions: Vec<Arc<ConditionRule>>,
    /// Configurators: of the caller's application, then of the service.
    pub configurators: Vec<Arc<Configurators>>,
    /// The names of documents that cannot be read, and why.
    pub unreadable: Vec<String>,
}

/// What kind of rule a document holds.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum RuleKind {
    /// `.tag-router`
    Tags,
    /// `.condition-router`
    Conditions,
    /// `.configurators`
    Configurators,
}

/// Which document it is, in Dubbo's group `dubbo`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct RuleName {
    kind: RuleKind,
    name: String,
}

impl RuleName {
    /// Of all that hold for a service, in the order in which they are applied.
    ///
    /// Source: `ServiceStateRouter`, `AppStateRouter`, `ProviderAppStateRouter`, `TagStateRouter`
    /// and `RegistryDirectory` of Dubbo 3.3.6. A service has both colons in its name, which is
    /// that of the caller: one that leaves its version open has documents of version `*`.
    #[must_use]
    pub fn all(service: &ServiceKey, caller: Option<&str>, provider: Option<&str>) -> Vec<Self> {
        let ServiceKey { interface, version, group } = service;
        let own = format!("{interface}:{version}:{group}");
        let (own, caller) = (Some(own.as_str()), caller.filter(|name| !name.is_empty()));
        let provider = provider.filter(|name| !name.is_empty());
        let name = |kind: RuleKind, of: Option<&str>| {
            let name = format!("{}{}", of?, kind.suffix());
            Some(Self { kind, name })
        };
        [
            name(RuleKind::Tags, provider),
            name(RuleKind::Conditions, own),
            name(RuleKind::Conditions, caller),
            name(RuleKind::Conditions, provider.filter(|_| provider != caller)),
            name(RuleKind::Configurators, caller),
            name(RuleKind::Configurators, own),
        ]
        .into_iter()
        .flatten()
        .collect()
    }
}

impl RuleKind {
    const fn suffix(self) -> &'static str {
        match self {
            Self::Tags => ".tag-router",
            Self::Conditions => ".condition-router",
            Self::Configurators => ".configurators",
        }
    }
}

/// The watches of a service's documents.
#[derive(Default)]
pub struct RuleDocuments {
    watched: Vec<WatchedDocument>,
    /// Whether others are watched than those that were read last.
    is_new: bool,
}

struct WatchedDocument {
    name: RuleName,
    subscription: RuleSubscription,
    document: watch::Receiver<RuleDocument>,
    /// What was parsed last.
    text: Option<Arc<str>>,
    rule: Option<Rule>,
    problem: Option<RuleError>,
    /// Why the registry does not tell it.
    refusal: Option<Arc<str>>,
}

#[derive(Clone)]
enum Rule {
    Tags(Arc<TagRule>),
    Conditions(Arc<ConditionRule>),
    Configurators(Arc<Configurators>),
}

impl Rule {
    /// What it sets in vain, in words; nothing if there is nothing.
    fn without_effect(&self) -> Option<String> {
        let Self::Configurators(configurators) = self else { return None };
        let all = configurators.without_effect();
        (!all.is_empty()).then(|| all.join("; "))
    }
}

impl RuleDocuments {
    /// Watches these documents from now on, and no others.
    pub fn watch(&mut self, registry: &Registry, names: Vec<RuleName>) {
        if self.watched.iter().map(|watched| &watched.name).eq(&names) {
            return;
        }
        self.is_new = true;
        let mut before = std::mem::take(&mut self.watched);
        for name in names {
            if let Some(at) = before.iter().position(|watched| watched.name == name) {
                self.watched.push(before.swap_remove(at));
                continue;
            }
            let Some(subscription) = registry.rule(&name.name) else { continue };
            let document = subscription.document();
            let (text, rule, problem, refusal) = Default::default();
            let watched =
                WatchedDocument { name, subscription, document, text, rule, problem, refusal };
            self.watched.push(watched);
        }
    }

    /// Whether it is known already that there is none.
    #[must_use]
    pub fn is_without_rules(&self) -> bool {
        self.watched.iter().all(|watched| {
            let document = watched.document.borrow();
            document.is_settled && document.text.is_none() && document.refusal.is_none()
        })
    }

    /// Waits for a change of any of them. May be dropped at any time.
    pub async fn changed(&mut self) {
        let mut waits: Vec<Pin<Box<dyn Future<Output = ()> + '_>>> = Vec::new();
        for watched in &mut self.watched {
            waits.push(Box::pin(async {
                if watched.document.changed().await.is_err() {
                    // The registry has ended.
                    std::future::pending::<()>().await;
                }
            }));
        }
        poll_fn(|cx| match waits.iter_mut().any(|wait| wait.as_mut().poll(cx).is_ready()) {
            true => Poll::Ready(()),
            false => Poll::Pending,
        })
        .await;
    }

    /// Waits until it is known of each whether it is there, as long as their registry is waited
    /// for.
    pub async fn settled(&self) {
        join_all(self.watched.iter().map(|watched| watched.subscription.settled())).await;
    }

    /// Reads what has changed, and says what all of them say; `None` if that is what it was.
    pub async fn read(&mut self) -> Option<RegistryRules> {
        let mut is_new = std::mem::take(&mut self.is_new);
        for watched in &mut self.watched {
            let RuleDocument { text, refusal, .. } = watched.document.borrow_and_update().clone();
            if watched.refusal != refusal {
                watched.refusal = refusal;
                is_new = true;
            }
            if watched.text != text {
                watched.read(text).await;
                is_new = true;
            }
        }
        if !is_new {
            return None;
        }
        let mut rules = RegistryRules::default();
        for watched in &self.watched {
            match watched.rule.clone() {
                Some(Rule::Tags(rule)) => rules.tags = Some(rule),
                Some(Rule::Conditions(rule)) => rules.conditions.push(rule),
                Some(Rule::Configurators(rule)) => rules.configurators.push(rule),
                None => {}
            }
            let problem = watched.problem.as_ref().map(ToString::to_string);
            let refusal = watched.refusal.as_deref().map(str::to_owned);
            let reasons = problem.into_iter().chain(refusal);
            rules.unreadable.extend(reasons.map(|why| format!("{}: {why}", watched.name.name)));
        }
        Some(rules)
    }
}

impl WatchedDocument {
    async fn read(&mut self, text: Option<Arc<str>>) {
        self.text.clone_from(&text);
        self.problem = None;
        let Some(text) = text.filter(|text| !text.trim().is_empty()) else {
            let _good_now = self.subscription.is_news(None);
            self.rule = None;
            return;
        };
        let RuleName { kind, name } = self.name.clone();
        let parse = move || match kind {
            RuleKind::Tags => TagRule::parse(&name, &text).map(|rule| Rule::Tags(rule.into())),
            RuleKind::Conditions => {
                ConditionRule::parse(&name, &text).map(|rule| Rule::Conditions(rule.into()))
            }
            RuleKind::Configurators => {
                Configurators::parse(&name, &text).map(|rule| Rule::Configurators(rule.into()))
            }
        };
        match tokio::task::spawn_blocking(parse).await {
            Ok(Ok(rule)) => {
                let (idle, name) = (rule.without_effect(), &self.name.name);
                let is_news = self.subscription.is_news(idle.as_deref());
                if let Some(what) = idle.filter(|_| is_news) {
                    warn!(rule = %name, what, "the rule sets parameters that change nothing");
                }
                self.rule = Some(rule);
            }
            Ok(Err(error)) if matches!(error.problem, RuleProblem::Emptied { .. }) => {
                let rule = &self.name.name;
                if self.subscription.is_news(Some(&error.to_string())) {
                    warn!(%rule, %error, "the rule is empty; its previous version no longer holds");
                }
                self.rule = None;
            }
            Ok(Err(error)) => {
                let rule = &self.name.name;
                if self.subscription.is_news(Some(&error.to_string())) {
                    warn!(%rule, %error,
                        "cannot read the rule; its previous version stays in force");
                }
                self.problem = Some(error);
            }
            // The runtime ends.
            Err(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_have_the_names_that_dubbo_gives_them() {
        let names = |service: &str, caller, provider| -> Vec<String> {
            let all = RuleName::all(&service.parse().unwrap(), caller, provider);
            all.into_iter().map(|one| one.name).collect()
        };
        assert_eq!(names("a.B", None, None), ["a.B::.condition-router", "a.B::.configurators"]);
        assert_eq!(
            names("g/a.B:1.0", Some("shop"), Some("orders")),
            [
                "orders.tag-router",
                "a.B:1.0:g.condition-router",
                "shop.condition-router",
                "orders.condition-router",
                "shop.configurators",
                "a.B:1.0:g.configurators"
            ]
        );
        for (service, own) in [("*/a.B:*", "a.B:*:*"), ("a,b/a.B:2.0", "a.B:2.0:a,b")] {
            let own = [format!("{own}.condition-router"), format!("{own}.configurators")];
            assert_eq!(names(service, None, None), own);
        }
    }
}
