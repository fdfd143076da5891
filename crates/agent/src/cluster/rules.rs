//! Which endpoints of a cluster a call may go to, by routing rules.
//!
//! Calls that the rules cannot tell apart share one look at them: it is kept until rules or
//! endpoints change. Where weighted destinations are drawn, every call is looked at.

use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::collections::{HashMap, HashSet};
use std::rc::Rc;
use std::sync::Arc;

use dubbo_proto::ServiceKey;
use flow::Standing;
use flow::rules::{
    CallView, Configurators, FORCE_TAG, Inputs, RuleSet, Selection, Subset, TAG, UrlView,
    apply_subsets,
};
use parameters::Parameters;
use registry::Endpoint;

use super::member::MemberState;
use super::splits::CallDraw;
use super::{Allowed, Member, splits};
use crate::config::{RoutingPolicy, Split};
use crate::facts::CallFacts;
use crate::rule_documents::RegistryRules;

mod explained;

/// Kinds of calls that are remembered. Beyond these all are forgotten, and looked at again.
const MAX_KNOWN: usize = 1024;
/// Longest description of a kind of calls that is remembered, in bytes.
const MAX_KEY_LEN: usize = 4096;

/// The rules of one cluster.
pub(super) struct Rules {
    service: ServiceKey,
    /// Whether every call has to be looked at.
    is_active: Cell<bool>,
    state: RefCell<RuleState>,
}

struct RuleState {
    service: ServiceKey,
    routing: Arc<RoutingPolicy>,
    registry: RegistryRules,
    set: RuleSet,
    inputs: Inputs,
    configurators: Vec<Arc<Configurators>>,
    /// What rules see of the caller: its parameters, and the service that it asks for.
    caller: Parameters,
    endpoints: Vec<Placed>,
    /// Endpoints that configurators switch off: no rule sees them.
    switched_off: Vec<Placed>,
    known: HashMap<Box<[u8]>, Rc<Allowed>>,
    /// They take no calls now. Only their addresses in memory are looked at.
    ejected: HashSet<*const MemberState>,
    /// Endpoints that only some calls go to.
    subsets: Vec<Subset>,
}

/// An endpoint as rules see it.
struct Placed {
    member: Member,
    /// As the registry shows it now.
    endpoint: Endpoint,
}

impl Placed {
    fn is_switched_off(&self) -> bool {
        self.endpoint.weight == 0 && self.endpoint.is_disabled()
    }
}

/// What a configurator changes at an endpoint.
pub(super) struct ConfiguredChange {
    pub(super) configurator: Arc<str>,
    pub(super) params: Parameters,
}

/// All of both; what `other` has counts.
fn joined(one: &Parameters, other: &Parameters) -> Parameters {
    one.iter().chain(other.iter()).collect()
}

fn allowed_of(state: &RuleState, selection: &Selection) -> Allowed {
    let kept = selection.kept().filter_map(|index| state.endpoints.get(index));
    let last = selection.steps.iter().rev().find(|step| !step.leaves_any());
    let removed_by = selection.removals().into_iter().cloned().collect();
    Allowed::new(kept.map(|placed| placed.member.clone()).collect(), removed_by, || {
        last.map(|step| format!("{step}"))
    })
}

impl Rules {
    pub(super) fn new(service: &ServiceKey, routing: &Arc<RoutingPolicy>) -> Self {
        let mut state = RuleState {
            service: service.clone(),
            routing: Arc::clone(routing),
            registry: RegistryRules::default(),
            set: RuleSet::default(),
            inputs: Inputs::default(),
            configurators: Vec::new(),
            caller: Parameters::default(),
            endpoints: Vec::new(),
            switched_off: Vec::new(),
            ejected: HashSet::new(),
            known: HashMap::new(),
            subsets: Vec::new(),
        };
        state.combine(service);
        let rules = Self {
            service: service.clone(),
            is_active: Cell::new(false),
            state: RefCell::new(state),
        };
        rules.refresh();
        rules
    }

    /// Takes what the configuration says; whether that is new.
    pub(super) fn set_routing(&self, routing: &Arc<RoutingPolicy>) -> bool {
        let mut state = self.state.borrow_mut();
        if state.routing == *routing {
            return false;
        }
        state.routing = Arc::clone(routing);
        state.combine(&self.service);
        drop(state);
        self.refresh();
        true
    }

    /// Takes what the registry says.
    pub(super) fn set_registry(&self, rules: RegistryRules) {
        let mut state = self.state.borrow_mut();
        state.registry = rules;
        state.combine(&self.service);
        drop(state);
        self.refresh();
    }

    /// Whether what is left to a call is drawn.
    pub(super) fn is_drawn(&self) -> bool {
        self.is_active.get() && self.state.borrow().inputs.is_drawn
    }

    /// These take no calls now. Destinations that have no others are not drawn.
    pub(super) fn set_ejected(&self, ejected: HashSet<*const MemberState>) {
        self.state.borrow_mut().ejected = ejected;
    }

    /// Takes the endpoints of now.
    pub(super) fn set_endpoints(&self, endpoints: impl Iterator<Item = (Member, Endpoint)>) {
        let placed = endpoints.map(|(member, endpoint)| Placed { member, endpoint });
        // As in Dubbo, which drops them before its routers see the list.
        let (off, on) = placed.partition(Placed::is_switched_off);
        let mut state = self.state.borrow_mut();
        (state.switched_off, state.endpoints) = (off, on);
        drop(state);
        self.refresh();
    }

    fn refresh(&self) {
        let mut state = self.state.borrow_mut();
        state.known.clear();
        let is_tagged =
            |placed: &Placed| placed.endpoint.params.get(TAG).is_some_and(|tag| !tag.is_empty());
        let is_split = !state.routing.splits.is_empty();
        let is_forced = state.caller.get(FORCE_TAG).is_some();
        let mut all = state.endpoints.iter().chain(&state.switched_off);
        let is_ruled = is_split || is_forced || !state.set.is_empty();
        self.is_active.set(is_ruled || all.any(is_tagged));
    }

    /// An endpoint with what configurators make of it. One that they switch off has no weight.
    pub(super) fn configured<'a>(&self, endpoint: &'a Endpoint) -> Cow<'a, Endpoint> {
        let state = self.state.borrow();
        if state.configurators.is_empty() {
            return Cow::Borrowed(endpoint);
        }
        let mut params = endpoint.params.clone();
        for change in state.changes(endpoint, &self.service.interface) {
            params = joined(&params, &change.params);
        }
        if params == endpoint.params {
            return Cow::Borrowed(endpoint);
        }
        let mut changed = endpoint.with_params(params);
        if changed.is_disabled() {
            changed.weight = 0;
        }
        Cow::Owned(changed)
    }

    /// The service that a call goes to instead of this one.
    pub(super) fn detour(&self, call: &dyn CallFacts) -> Option<ServiceKey> {
        splits::detour(&self.state.borrow().routing.splits, call, &self.service)
    }

    /// The endpoints that a call may go to; `None` means all of them.
    #[inline]
    pub(super) fn allowed(&self, call: &dyn CallFacts, draw: CallDraw) -> Option<Rc<Allowed>> {
        self.has_to_look_at(call).then(|| self.look(call, draw))
    }

    /// Whether there is anything to look at for a call. Where nothing is tagged, a call that
    /// insists on a tag may go nowhere.
    #[inline]
    fn has_to_look_at(&self, call: &dyn CallFacts) -> bool {
        self.is_active.get() || call.may_force_tag()
    }

    /// What chance says of a new call: of use where there are rules.
    #[inline]
    pub(super) fn draw(&self) -> CallDraw {
        if self.is_active.get() { CallDraw::new() } else { CallDraw::default() }
    }

    #[cold]
    fn look(&self, call: &dyn CallFacts, draw: CallDraw) -> Rc<Allowed> {
        let mut state = self.state.borrow_mut();
        let routing = Arc::clone(&state.routing);
        let split = splits::of_call(&routing.splits, call, &self.service, draw);
        let key = (!state.inputs.is_drawn).then(|| state.inputs_of(call, split));
        if let Some(known) = key.as_deref().and_then(|key| state.known.get(key)) {
            return Rc::clone(known);
        }
        let selection = state.select(call, split, &self.service.interface);
        let allowed = Rc::new(allowed_of(&state, &selection));
        if let Some(key) = key.filter(|key| key.len() <= MAX_KEY_LEN) {
            if MAX_KNOWN <= state.known.len() {
                state.known.clear();
            }
            state.known.insert(key.into(), Rc::clone(&allowed));
        }
        allowed
    }
}

impl RuleState {
    /// What each configurator that changes something changes at an endpoint.
    fn changes(&self, endpoint: &Endpoint, interface: &str) -> Vec<ConfiguredChange> {
        let mut changes = Vec::new();
        if self.configurators.is_empty() {
            return changes;
        }
        let mut seen = self.merged(endpoint);
        for configurators in &self.configurators {
            let view = UrlView { params: &seen, ..view(endpoint, interface) };
            let params = configurators.changes(&view, &self.routing.caller.host);
            seen = joined(&seen, &params);
            if !params.is_empty() {
                changes.push(ConfiguredChange {
                    configurator: Arc::clone(configurators.name()),
                    params,
                });
            }
        }
        changes
    }

    /// What Dubbo's consumers make of an endpoint before configurators see it: it has the
    /// caller's parameters, and a version and group of its own if it names them. Source:
    /// `DefaultProviderURLMergeProcessor`.
    fn merged(&self, endpoint: &Endpoint) -> Parameters {
        let own = ["version", "group"].map(|name| Some((name, endpoint.params.get(name)?)));
        let own = own.into_iter().flatten().filter(|(_, value)| !value.is_empty());
        endpoint.params.iter().chain(self.caller.iter()).chain(own).collect()
    }

    /// Puts the rules of the configuration and of the registry together.
    fn combine(&mut self, service: &ServiceKey) {
        let Self { routing, registry, .. } = self;
        let own = routing.tags.as_ref().map(|file| &file.rule);
        let tags = own.or(registry.tags.as_ref()).map(|rule| (**rule).clone());
        let conditions = routing.conditions.iter().map(|file| &file.rule);
        let conditions = conditions.chain(&registry.conditions).map(|rule| (**rule).clone());
        self.set = RuleSet { tags, conditions: conditions.collect() };
        self.inputs = self.set.inputs();
        self.subsets = routing.splits.iter().filter_map(Split::subset).cloned().collect();
        let configurators = routing.configurators.iter().map(|file| &file.rule);
        self.configurators = configurators.chain(&registry.configurators).cloned().collect();
        let ServiceKey { interface, version, group } = service;
        let own = [("interface", interface.as_str()), ("version", version), ("group", group)];
        let own = own.into_iter().chain([("side", "consumer")]);
        let own = own.filter(|(_, value)| !value.is_empty());
        self.caller = routing.caller.params.iter().chain(own).collect();
    }

    /// What the rules look at in a call, as bytes: two calls with the same have the same
    /// endpoints.
    fn inputs_of(&self, call: &dyn CallFacts, split: Option<&Split>) -> Vec<u8> {
        let mut key = call.method().into_owned().into_bytes();
        let mut add = |value: Option<Cow<'_, str>>| {
            // A text cannot look like the end of another one: each has its length in front.
            let len = value.as_ref().map_or(u64::MAX, |value| value.len() as u64);
            key.extend_from_slice(&len.to_le_bytes());
            key.extend_from_slice(value.as_deref().unwrap_or_default().as_bytes());
        };
        add(split.map(|split| Cow::Borrowed(&*split.name)));
        self.inputs.attachments.iter().for_each(|name| add(call.attachment(name)));
        self.inputs.arguments.iter().for_each(|index| add(call.argument(*index)));
        key
    }

    fn select(&self, call: &dyn CallFacts, split: Option<&Split>, interface: &str) -> Selection {
        let views = self.views(interface);
        let select = |split| {
            let mut selection = self.with_view(call, split, interface, |view| {
                self.set.select(view, &views, &mut rand::rng())
            });
            self.apply_subsets(split, &views, &mut selection);
            selection
        };
        let selection = select(split);
        let step = split.and_then(splits::without_weight);
        match step.filter(|_| self.is_weightless(&selection)).map(|_| select(None)) {
            Some(other) if self.takes_calls(&other) => other,
            _ => selection,
        }
    }

    /// Whether it has endpoints, and all of them have weight 0.
    fn is_weightless(&self, selection: &Selection) -> bool {
        !selection.is_empty() && !self.takes_calls(selection)
    }

    fn takes_calls(&self, selection: &Selection) -> bool {
        let mut kept = selection.kept().filter_map(|index| self.endpoints.get(index));
        kept.any(|placed| placed.endpoint.weight != 0)
    }

    fn views<'a>(&'a self, interface: &'a str) -> Vec<UrlView<'a>> {
        let name = self.inputs.is_drawn.then(|| self.service.to_string());
        let is_down = |member: &Member| {
            let standing = |name: &String| member.0.upstream.standing(name);
            name.as_ref().map(standing) == Some(Standing::Down)
                || self.ejected.contains(&Rc::as_ptr(&member.0))
        };
        let views = self.endpoints.iter().map(|placed| UrlView {
            is_down: placed.endpoint.weight == 0 || is_down(&placed.member),
            ..view(&placed.endpoint, interface)
        });
        views.collect()
    }

    fn apply_subsets(
        &self,
        split: Option<&Split>,
        views: &[UrlView<'_>],
        selection: &mut Selection,
    ) {
        if !self.subsets.is_empty() {
            apply_subsets(&self.subsets, split.and_then(Split::subset), views, selection);
        }
    }

    /// Has `look` see a call as rules see it, if this split takes it.
    fn with_view<T>(
        &self,
        call: &dyn CallFacts,
        split: Option<&Split>,
        interface: &str,
        look: impl FnOnce(&CallView<'_>) -> T,
    ) -> T {
        let method = call.method();
        let owned = |value: Option<Cow<'_, str>>| value.map(|text| Cow::Owned(text.into_owned()));
        look(&CallView {
            consumer: UrlView {
                protocol: "consumer",
                host: &self.routing.caller.host,
                port: 0,
                path: interface,
                params: &self.caller,
                is_down: false,
            },
            method: &method,
            attachment: &|name| {
                splits::tagged(split, name).or_else(|| owned(call.attachment(name)))
            },
            argument: &|index| owned(call.argument(index)),
        })
    }
}

/// An endpoint as rules see it: an agent's is that of the provider behind it.
fn view<'a>(endpoint: &'a Endpoint, interface: &'a str) -> UrlView<'a> {
    let (host, port) = endpoint.provider();
    UrlView {
        protocol: registry::Protocol::Dubbo.scheme(),
        host,
        port,
        path: endpoint.params.get(super::PATH).unwrap_or(interface),
        params: &endpoint.params,
        is_down: false,
    }
}

#[cfg(test)]
mod tests {
    use flow::rules::ConditionRule;

    use super::*;
    use crate::config::Caller;

    /// A call with two attachments.
    struct CallWithAttachments<'a>(&'a str, &'a str);

    impl CallFacts for CallWithAttachments<'_> {
        fn method(&self) -> Cow<'_, str> {
            "echo".into()
        }

        fn attachment(&self, name: &str) -> Option<Cow<'_, str>> {
            match name {
                "one" => Some(self.0.into()),
                "other" => Some(self.1.into()),
                _ => None,
            }
        }

        fn argument(&self, _: usize) -> Option<Cow<'_, str>> {
            None
        }

        fn member(&self, _: usize, _: &[String]) -> Option<Cow<'_, str>> {
            None
        }
    }

    /// Rules that look at both attachments of a call, and let nobody call whose first is `no`.
    fn rules() -> Rules {
        let service: ServiceKey = "a.B".parse().unwrap();
        let rules = Rules::new(&service, &Arc::default());
        let text = "configVersion: v3.0\nscope: service\nforce: true\nenabled: true\nkey: a.B\n\
                    conditions:\n  - \"attachments[one]=no & attachments[other]!=x => host=h\"\n";
        let rule = Arc::new(ConditionRule::parse("a.B", text).unwrap());
        rules.set_registry(RegistryRules { conditions: vec![rule], ..RegistryRules::default() });
        rules
    }

    fn n_known(rules: &Rules) -> usize {
        rules.state.borrow().known.len()
    }

    #[test]
    fn calls_that_rules_cannot_tell_apart_share_one_look() {
        let rules = rules();
        let look = |one, other| {
            rules.allowed(&CallWithAttachments(one, other), CallDraw::default()).unwrap()
        };
        assert!(Rc::ptr_eq(&look("a", "b"), &look("a", "b")));
        assert_eq!(n_known(&rules), 1);
        // The same texts in a row, divided elsewhere.
        assert!(!Rc::ptr_eq(&look("ab", "c"), &look("a", "bc")));
        assert_eq!(n_known(&rules), 3);
        // New endpoints make each look void.
        let before = look("a", "b");
        rules.set_endpoints([].into_iter());
        assert_eq!(n_known(&rules), 0);
        assert!(!Rc::ptr_eq(&before, &look("a", "b")));
    }

    /// Callers make attachments up: what is remembered of them has a bound in number and in
    /// length.
    #[test]
    fn few_and_short_kinds_of_calls_are_remembered() {
        let rules = rules();
        for n in 0..3 * MAX_KNOWN {
            rules.allowed(&CallWithAttachments(&n.to_string(), ""), CallDraw::default()).unwrap();
            assert!(n_known(&rules) <= MAX_KNOWN);
        }
        let before = n_known(&rules);
        rules
            .allowed(&CallWithAttachments(&"x".repeat(MAX_KEY_LEN), ""), CallDraw::default())
            .unwrap();
        assert_eq!(n_known(&rules), before);
    }

    #[test]
    fn without_rules_nothing_is_looked_at() {
        let rules = rules();
        rules.set_registry(RegistryRules::default());
        assert!(rules.allowed(&CallWithAttachments("no", ""), CallDraw::default()).is_none());
        // Unless the caller insists on a tag by itself.
        let params = [(FORCE_TAG, "true")].into_iter().collect();
        let caller = Caller { host: "127.0.0.1".to_owned(), params };
        rules.set_routing(&Arc::new(RoutingPolicy { caller, ..RoutingPolicy::default() }));
        assert!(rules.allowed(&CallWithAttachments("no", ""), CallDraw::default()).is_some());
    }
}
