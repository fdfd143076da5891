//! Finds the endpoints of one interface, whatever their version and group.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use dubbo_proto::application::{
    Instance, MAX_APPLICATIONS, Metadata, OfferedService, applications_in_turn,
};
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::address;
use crate::endpoint::{Level, NotUsed, Unused};
use crate::layout::Entry;
use crate::listing::{ANY, Leftover, Listing};
use crate::rules::{FollowedDocument, RuleDocument, follow_rule};

use super::feed::{InstanceFeed, Resolved, RunningInstance};
use super::{ApplicationLevel, Found};

/// How long endpoints found otherwise wait for the applications, from when these are known.
const PATIENCE: Duration = Duration::from_secs(4);

/// Where a mapping names more applications than are followed, those that have no instance make
/// room for others after so long; and after so long once each was tried.
const NEXT: Duration = Duration::from_secs(1);
const NEXT_ROUND: Duration = Duration::from_secs(30);

/// Runs until its task is aborted.
pub(super) async fn run(level: ApplicationLevel, interface: String, sender: watch::Sender<Found>) {
    // Ends the task with this one.
    let mut mapping_task = JoinSet::new();
    let mut mapping = match level.source.parts().config.provided_by.get(&interface) {
        Some(names) => watch::channel(RuleDocument::known(Some(names.join(",")))).1,
        None => {
            let (sender, mapping) = watch::channel(RuleDocument::default());
            let name = format!("the applications of {interface}");
            let followed = FollowedDocument {
                name,
                watch: level.source.mapping(&interface),
                document: sender,
                grace: level.source.parts().grace,
                lost: Arc::default(),
            };
            mapping_task.spawn(follow_rule(followed, || {}));
            mapping
        }
    };
    let mut finder = Finder::new(level, interface);
    let (mut patient_until, mut next_at, mut is_new) = (None, None, true);
    loop {
        let document = mapping.borrow_and_update().clone();
        let is_next = next_at.is_some_and(|at| at <= Instant::now());
        if is_new || is_next {
            let mapping = document.text.as_deref().unwrap_or_default();
            finder.follow_mapped(mapping, is_next);
            next_at = None;
        }
        if document.is_settled && patient_until.is_none() {
            patient_until = Some(Instant::now() + PATIENCE);
        }
        let is_late = patient_until.is_some_and(|until| until <= Instant::now());
        let is_unmapped = document.is_settled && finder.followed.is_empty();
        let mut found = if is_unmapped { finder.unmapped(&document) } else { finder.found() };
        if found.is_settled && finder.is_cut {
            next_at.get_or_insert_with(|| Instant::now() + finder.time_to_next());
        }
        found.is_settled = document.is_settled && (found.is_settled || is_late);
        let deadline = patient_until.filter(|_| !found.is_settled);
        sender.send_if_modified(|current| {
            // What was settled once stays so: nobody waits again for a new application.
            found.is_settled |= current.is_settled;
            let has_changed = *current != found;
            *current = found;
            has_changed
        });
        is_new = tokio::select! {
            Ok(()) = mapping.changed() => true,
            () = finder.wake.notified() => false,
            () = sleep_until_option(deadline) => false,
            () = sleep_until_option(next_at) => false,
        };
    }
}

async fn sleep_until_option(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}

struct Finder {
    level: ApplicationLevel,
    interface: String,
    followed: BTreeMap<String, FollowedApplication>,
    wake: Arc<Notify>,
    /// Whether the mapping names more applications than are followed.
    is_cut: bool,
    /// The one after which those begin that have their turn, and the last of them.
    after: Option<String>,
    last: Option<String>,
    /// Whether each was tried.
    is_round_over: bool,
}

struct FollowedApplication {
    feed: Arc<InstanceFeed>,
    /// Wakes us when there is something new; ends with this.
    _waker: JoinSet<()>,
}

impl FollowedApplication {
    fn has_instances(&self) -> bool {
        !self.feed.resolved().borrow().instances.is_empty()
    }
}

impl Finder {
    fn new(level: ApplicationLevel, interface: String) -> Self {
        let (followed, wake, is_cut, after, last, is_round_over) = Default::default();
        Self { level, interface, followed, wake, is_cut, after, last, is_round_over }
    }

    /// How long those that are followed may stay who have no instance, once all is known of them.
    const fn time_to_next(&self) -> Duration {
        if self.is_round_over { NEXT_ROUND } else { NEXT }
    }

    /// Follows the applications that a mapping names. Those that have instances stay. Where there
    /// are too many, the next ones take the places of those that have none, if `is_next`.
    fn follow_mapped(&mut self, mapping: &str, is_next: bool) {
        if is_next {
            self.after = self.last.take();
        }
        let has_instances =
            |name: &str| self.followed.get(name).is_some_and(FollowedApplication::has_instances);
        let turn = applications_in_turn(mapping, self.after.as_deref(), has_instances);
        if turn.is_cut && !self.is_cut {
            tracing::warn!(
                interface = self.interface,
                max = MAX_APPLICATIONS,
                "its mapping names more applications than are followed; those that have no \
                 instance take turns"
            );
        }
        (self.is_cut, self.is_round_over, self.last) = (turn.is_cut, turn.is_round_over, turn.last);
        self.follow(turn.names);
    }

    /// Follows these applications, and no other ones.
    fn follow(&mut self, names: BTreeSet<String>) {
        self.followed.retain(|name, _| names.contains(name));
        for name in names {
            let (level, wake) = (&self.level, &self.wake);
            self.followed.entry(name).or_insert_with_key(|name| {
                let feed = level.feed(name);
                let (mut resolved, wake) = (feed.resolved(), Arc::clone(wake));
                let mut waker = JoinSet::new();
                waker.spawn_on(
                    async move {
                        while resolved.changed().await.is_ok() {
                            wake.notify_one();
                        }
                    },
                    &level.runtime,
                );
                FollowedApplication { feed, _waker: waker }
            });
        }
    }

    /// What is found where the mapping names no application.
    fn unmapped(&self, mapping: &RuleDocument) -> Found {
        let interface = &self.interface;
        let (what, reason) = match &mapping.refusal {
            Some(error) => {
                let what = format!("the applications of {interface}");
                (what, NotUsed::Unreadable(error.as_ref().to_owned()))
            }
            None => (interface.clone(), NotUsed::NoMapping),
        };
        let unused = Unused { what, address: None, reason };
        Found { is_settled: true, entries: [leftover(unused)].into_iter().collect() }
    }

    fn found(&self) -> Found {
        let (mut entries, mut is_settled) = (Vec::new(), true);
        for (name, followed) in &self.followed {
            let resolved = followed.feed.resolved();
            let resolved = resolved.borrow();
            is_settled &= resolved.is_settled;
            self.add(name, &resolved, &mut entries);
        }
        Found { is_settled, entries: entries.into_iter().collect() }
    }

    /// What an application has for the service.
    fn add(&self, application: &str, resolved: &Resolved, entries: &mut Vec<Entry>) {
        if let Some(reason) = why_nothing(&self.interface, resolved) {
            let what = format!("application {application}");
            entries.push(leftover(Unused { what, address: None, reason }));
        }
        for (key, error) in &*resolved.bad {
            let reason = NotUsed::Unreadable(error.clone());
            entries.push(leftover(Unused { what: key.clone(), address: None, reason }));
        }
        for RunningInstance { instance, metadata } in &*resolved.instances {
            match metadata {
                Ok(metadata) => self.add_offers(instance, metadata, entries),
                Err(reason) => {
                    let address = wire::address::join(&instance.host, instance.port);
                    let what = format!("instance {address} of application {application}");
                    let reason = NotUsed::NoMetadata(reason.as_ref().to_owned());
                    let unused = Unused { what, address: Some(address), reason };
                    entries.push(leftover(unused));
                }
            }
        }
    }

    fn add_offers(&self, instance: &Instance, metadata: &Metadata, entries: &mut Vec<Entry>) {
        let interface = &self.interface;
        for offered in metadata.services.iter().filter(|it| it.service.interface == *interface) {
            let mut url = metadata.url(offered, instance);
            if !instance.is_enabled {
                url.params = url.params.with("disabled", "true");
            }
            let (version, group) = (url.version().to_owned(), url.group().to_owned());
            entries.push(match address::offer(url) {
                Ok(listing) => Listing { level: Level::Application, ..listing }.into(),
                Err(unused) => Leftover { version, group, unused }.into(),
            });
        }
    }
}

/// Whatever version and group is wanted, its subscriber is to hear of it.
fn leftover(unused: Unused) -> Entry {
    Leftover { version: ANY.to_owned(), group: ANY.to_owned(), unused }.into()
}

/// Why an application that the mapping names does not offer an interface.
fn why_nothing(interface: &str, resolved: &Resolved) -> Option<NotUsed> {
    let Resolved { is_settled, instances, n_without_revision, bad } = resolved;
    if !is_settled || !bad.is_empty() {
        return None;
    }
    if instances.is_empty() {
        let has_some = 0 < *n_without_revision;
        return Some(if has_some { NotUsed::NoRevision } else { NotUsed::NoInstance });
    }
    let offers_others = |running: &RunningInstance| {
        let metadata = running.metadata.as_ref();
        let is_other = |offered: &OfferedService| offered.service.interface != interface;
        metadata.is_ok_and(|metadata| metadata.services.iter().all(is_other))
    };
    instances.iter().all(offers_others).then_some(NotUsed::NoService)
}

#[cfg(test)]
mod tests {
    use parameters::Parameters;

    use super::*;

    #[test]
    fn what_is_missing_of_an_application_is_told_once_all_is_known() {
        let params = Parameters::default();
        let instance = Instance::offering("orders", "h", 1, "7", Default::default(), &params);
        let service = OfferedService {
            service: "a.B".parse().unwrap(),
            protocol: "dubbo".to_owned(),
            port: 1,
            path: "a.B".to_owned(),
            params,
        };
        let metadata = Arc::new(Metadata::new("orders", vec![service]));
        let running = |metadata| RunningInstance { instance: Arc::new(instance.clone()), metadata };
        let of = |instances: &[RunningInstance]| Resolved {
            is_settled: true,
            instances: instances.into(),
            ..Resolved::default()
        };
        let nobody = of(&[]);
        assert_eq!(why_nothing("a.B", &nobody), Some(NotUsed::NoInstance));
        let unsettled = Resolved { is_settled: false, ..nobody.clone() };
        assert_eq!(why_nothing("a.B", &unsettled), None);
        let idle = Resolved { n_without_revision: 2, ..nobody };
        assert_eq!(why_nothing("a.B", &idle), Some(NotUsed::NoRevision));
        let known = of(&[running(Ok(Arc::clone(&metadata)))]);
        assert_eq!(why_nothing("a.B", &known), None);
        assert_eq!(why_nothing("a.C", &known), Some(NotUsed::NoService));
        let half = of(&[running(Ok(metadata)), running(Err("away".into()))]);
        assert_eq!(why_nothing("a.C", &half), None);
    }
}
