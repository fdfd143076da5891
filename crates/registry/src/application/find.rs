//! Finds the endpoints of one service.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use dubbo_proto::ServiceKey;
use dubbo_proto::application::{Instance, Metadata, applications};
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::address;
use crate::endpoint::{Level, NotUsed, Unused};
use crate::layout::Entry;
use crate::listing::{Leftover, Listing};
use crate::rules::{RuleDocument, follow_rule};

use super::feed::{Feed, Resolved, Running};
use super::{ApplicationLevel, Found};

/// How long endpoints found otherwise wait for the applications, from when these are known.
const PATIENCE: Duration = Duration::from_secs(4);

/// Runs until its task is aborted.
pub(super) async fn run(level: ApplicationLevel, wanted: ServiceKey, sender: watch::Sender<Found>) {
    // Ends the task with this one.
    let mut mapping_task = JoinSet::new();
    let mut mapping = match level.source.provided_by().get(&wanted.interface) {
        Some(names) => watch::channel(RuleDocument::known(Some(names.join(",")))).1,
        None => {
            let (sender, mapping) = watch::channel(RuleDocument::default());
            let name = format!("the applications of {}", wanted.interface);
            mapping_task.spawn(follow_rule(name, level.source.mapping(&wanted.interface), sender));
            mapping
        }
    };
    let mut finder = Finder { level, wanted, followed: BTreeMap::new(), wake: Arc::default() };
    let mut patient_until = None;
    loop {
        let document = mapping.borrow_and_update().clone();
        finder.follow(applications(document.text.as_deref().unwrap_or_default()));
        if document.is_settled && patient_until.is_none() {
            patient_until = Some(Instant::now() + PATIENCE);
        }
        let is_late = patient_until.is_some_and(|until| until <= Instant::now());
        let mut found = finder.found();
        found.is_settled = document.is_settled && (found.is_settled || is_late);
        let deadline = patient_until.filter(|_| !found.is_settled);
        sender.send_if_modified(|current| {
            // What was settled once stays so: nobody waits again for a new application.
            found.is_settled |= current.is_settled;
            let has_changed = *current != found;
            *current = found;
            has_changed
        });
        tokio::select! {
            Ok(()) = mapping.changed() => {}
            () = finder.wake.notified() => {}
            () = sleep_until_option(deadline) => {}
        }
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
    wanted: ServiceKey,
    followed: BTreeMap<String, Followed>,
    wake: Arc<Notify>,
}

struct Followed {
    feed: Arc<Feed>,
    /// Wakes us when there is something new; ends with this.
    _waker: JoinSet<()>,
}

impl Finder {
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
                Followed { feed, _waker: waker }
            });
        }
    }

    fn found(&self) -> Found {
        let (mut entries, mut is_settled) = (Vec::new(), true);
        for (name, followed) in &self.followed {
            let resolved = followed.feed.resolved();
            let resolved = resolved.borrow();
            is_settled &= resolved.is_settled;
            self.add(name, &resolved, &mut entries);
        }
        Found { is_settled, entries: entries.into() }
    }

    /// What an application has for the service.
    fn add(&self, application: &str, resolved: &Resolved, entries: &mut Vec<Entry>) {
        if resolved.is_settled && resolved.instances.is_empty() && resolved.bad.is_empty() {
            let what = format!("application {application}");
            entries.push(self.leftover(Unused {
                what,
                address: None,
                reason: NotUsed::NoInstance,
            }));
        }
        for (key, error) in &*resolved.bad {
            let reason = NotUsed::Unreadable(error.clone());
            entries.push(self.leftover(Unused { what: key.clone(), address: None, reason }));
        }
        for Running { instance, metadata } in &*resolved.instances {
            match metadata {
                Ok(metadata) => self.add_offers(instance, metadata, entries),
                Err(reason) => {
                    let address = wire::address::join(&instance.host, instance.port);
                    let what = format!("instance {address} of application {application}");
                    let reason = NotUsed::NoMetadata(reason.as_ref().to_owned());
                    let unused = Unused { what, address: Some(address), reason };
                    entries.push(self.leftover(unused));
                }
            }
        }
    }

    fn add_offers(&self, instance: &Instance, metadata: &Metadata, entries: &mut Vec<Entry>) {
        let interface = &self.wanted.interface;
        for offered in metadata.services.iter().filter(|it| it.service.interface == *interface) {
            let mut url = offered.url(instance);
            if !instance.is_enabled {
                url.params.insert("disabled".to_owned(), "true".to_owned());
            }
            let (version, group) = (url.version().to_owned(), url.group().to_owned());
            entries.push(match address::offer(url) {
                Ok(listing) => Entry::Listing(Listing { level: Level::Application, ..listing }),
                Err(unused) => Entry::Leftover(Leftover { version, group, unused }),
            });
        }
    }

    /// Whatever version and group is wanted, its subscriber is to hear of it.
    fn leftover(&self, unused: Unused) -> Entry {
        let ServiceKey { version, group, .. } = self.wanted.clone();
        Entry::Leftover(Leftover { version, group, unused })
    }
}
