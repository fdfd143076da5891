//! Follows one application: its instances, and the metadata of each of their revisions.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use dubbo_proto::application::{Instance, MAX_METADATA_LEN, Metadata, Storage};
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{Instant, sleep_until};
use wire::Backoff;

use crate::definitions::Room;
use crate::endpoint::{Freshness, MAX_UNUSED};
use crate::follow::{FollowedList, follow, rest_after};
use crate::kept::{Kept, shown_key};
use crate::list_counts::ListCounts;
use crate::store::{Applications, EntryKey};

use super::ask;

/// Revisions of one application that are fetched at the same time. A rolling update has two; an
/// estate whose instances are gone has many whose fetch takes its whole time.
const MAX_FETCHES: usize = 32;
/// The waits before metadata are asked for again.
const MIN_RETRY: Duration = Duration::from_secs(1);
const MAX_RETRY: Duration = Duration::from_secs(10);
/// As much of a reason as is shown: it may have an instance's words in it.
const MAX_REASON_LEN: usize = 300;

/// What is known of an application.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(super) struct Resolved {
    /// Whether the instances are known, and each revision was asked for once.
    pub(super) is_settled: bool,
    /// Those that offer something.
    pub(super) instances: Arc<[RunningInstance]>,
    /// How many there are beside them that say that they offer nothing.
    pub(super) n_without_revision: usize,
    /// What cannot be read, and why.
    pub(super) bad: Arc<[(String, String)]>,
}

/// One instance that offers something.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct RunningInstance {
    pub(super) instance: Arc<Instance>,
    /// Its metadata, or why there are none.
    pub(super) metadata: Result<Arc<Metadata>, Arc<str>>,
}

/// One application that is followed, until this is dropped.
#[derive(Debug)]
pub(super) struct InstanceFeed {
    resolved: watch::Receiver<Resolved>,
    tasks: [AbortHandle; 2],
}

impl Drop for InstanceFeed {
    fn drop(&mut self) {
        self.tasks.iter().for_each(AbortHandle::abort);
    }
}

impl InstanceFeed {
    pub(super) fn start(
        source: &Arc<dyn Applications>,
        application: &str,
        total_len: &Arc<AtomicUsize>,
        counts: &Arc<ListCounts>,
        runtime: &Handle,
    ) -> Self {
        let name = format!("the instances of application {application}");
        let mut kept = Kept::new(name, source.parts().grace, |_| true);
        kept.count_in(Arc::clone(counts));
        let list = List { kept };
        let (listing, listed) = watch::channel(ListedInstances::default());
        let watch = source.instances(application);
        let following = runtime.spawn(follow(watch, list, listing.into()));
        let (sender, resolved) = watch::channel(Resolved::default());
        let resolver = Resolver {
            application: application.to_owned(),
            source: Arc::clone(source),
            listed,
            revisions: HashMap::new(),
            last: HashMap::new(),
            fetches: JoinSet::new(),
            total_len: Arc::clone(total_len),
            sender,
        };
        let resolving = runtime.spawn(resolver.run());
        Self { resolved, tasks: [following.abort_handle(), resolving.abort_handle()] }
    }

    pub(super) fn resolved(&self) -> watch::Receiver<Resolved> {
        self.resolved.clone()
    }
}

/// The instances as the store has them.
struct List {
    kept: Kept<Arc<Instance>>,
}

#[derive(Clone, Debug, Default, Eq, PartialEq)]
struct ListedInstances {
    is_known: bool,
    instances: Arc<[(EntryKey, Arc<Instance>)]>,
    bad: Arc<[(String, String)]>,
}

impl FollowedList<Arc<Instance>> for List {
    type Shown = ListedInstances;

    fn kept(&mut self) -> &mut Kept<Arc<Instance>> {
        &mut self.kept
    }

    fn show(&self) -> ListedInstances {
        let entries = self.kept.entries();
        let instances = entries.map(|(key, instance)| (key.clone(), Arc::clone(instance)));
        // No more are shown: there may be thousands, with each change.
        let bad = self.kept.bad().take(MAX_UNUSED);
        let bad = bad.map(|(key, error)| (shown_key(key), error.to_string()));
        let refusal = self.kept.refusal();
        let refused = refusal.map(|error| (self.kept.name().to_owned(), error.to_owned()));
        ListedInstances {
            is_known: self.kept.freshness() != Freshness::Pending,
            instances: instances.collect(),
            bad: refused.into_iter().chain(bad).collect(),
        }
    }
}

/// What is known of a revision.
struct Revision {
    /// The last that was said about it, and whether it is being asked for.
    outcome: Option<Result<Arc<KnownRevision>, Arc<str>>>,
    is_asked: bool,
    /// How many instances had it when it was seen first.
    n_holders: usize,
    retry_at: Instant,
    backoff: Backoff,
    n_tries: usize,
}

struct KnownRevision {
    metadata: Arc<Metadata>,
    _room: Room,
}

/// How the fetch of a revision has ended.
struct Fetched {
    revision: String,
    outcome: Result<(Metadata, usize), String>,
}

struct Resolver {
    application: String,
    source: Arc<dyn Applications>,
    listed: watch::Receiver<ListedInstances>,
    revisions: HashMap<String, Revision>,
    /// What each instance offered when that was known last.
    last: HashMap<EntryKey, Arc<Metadata>>,
    fetches: JoinSet<Fetched>,
    total_len: Arc<AtomicUsize>,
    sender: watch::Sender<Resolved>,
}

impl Resolver {
    /// Runs until its task is aborted, or the store can never be asked again.
    async fn run(mut self) {
        loop {
            let began = Instant::now();
            let listed = self.listed.borrow_and_update().clone();
            while let Some(Ok(fetched)) = self.fetches.try_join_next() {
                self.handle_fetched(fetched);
            }
            self.forget(&listed);
            self.fetch(&listed);
            self.publish(&listed);
            // What ends meanwhile comes together: each time, all instances are looked at.
            sleep_until(rest_after(began, Instant::now())).await;
            let retry_at = self.revisions.values().filter(|it| it.is_due_later());
            let retry_at = retry_at.map(|it| it.retry_at).min();
            tokio::select! {
                changed = self.listed.changed() => if changed.is_err() { return },
                Some(Ok(fetched)) = self.fetches.join_next() => self.handle_fetched(fetched),
                () = async {
                    match retry_at {
                        Some(at) => sleep_until(at).await,
                        None => std::future::pending().await,
                    }
                } => {}
            }
        }
    }

    /// Forgets what no instance has any more.
    fn forget(&mut self, listed: &ListedInstances) {
        let revisions: HashSet<_> =
            listed.instances.iter().filter_map(|(_, instance)| instance.revision()).collect();
        self.revisions.retain(|revision, it| it.is_asked || revisions.contains(&**revision));
        let keys: HashSet<_> = listed.instances.iter().map(|(key, _)| key).collect();
        self.last.retain(|key, _| keys.contains(key));
    }

    /// Asks for the revisions that are missing.
    fn fetch(&mut self, listed: &ListedInstances) {
        let mut holders = HashMap::<&str, Vec<&Arc<Instance>>>::new();
        for (_, instance) in &*listed.instances {
            let Some(revision) = instance.revision() else { continue };
            holders.entry(revision).or_default().push(instance);
        }
        let now = Instant::now();
        for (revision, holders) in &holders {
            if !self.revisions.contains_key(*revision) {
                let revision = (*revision).to_owned();
                self.revisions.insert(revision, Revision::new(holders.len(), now));
            }
        }
        for revision in due(&self.revisions, now) {
            if MAX_FETCHES <= self.fetches.len() {
                return;
            }
            let known = self.revisions.get_mut(&revision);
            let (Some(known), Some(holders)) = (known, holders.get(&*revision)) else { continue };
            // Not always the same one: it may be the one that does not answer.
            known.n_tries += 1;
            let Some(instance) = holders.get(known.n_tries % holders.len()) else { continue };
            known.is_asked = true;
            let (source, instance) = (Arc::clone(&self.source), Arc::clone(instance));
            self.fetches.spawn(async move {
                let outcome = fetch(source.as_ref(), &instance, &revision).await;
                Fetched { revision, outcome }
            });
        }
    }

    fn handle_fetched(&mut self, fetched: Fetched) {
        let Fetched { revision, outcome } = fetched;
        let application = &self.application;
        let outcome = outcome.and_then(|(metadata, len)| {
            let no_room = || {
                format!("no room for {len} bytes of metadata beside those of other applications")
            };
            let room = Room::take(&self.total_len, len).ok_or_else(no_room)?;
            Ok(Arc::new(KnownRevision { metadata: Arc::new(metadata), _room: room }))
        });
        let Some(known) = self.revisions.get_mut(&revision) else { return };
        known.is_asked = false;
        match outcome {
            Ok(metadata) => {
                let n_services = metadata.metadata.services.len();
                tracing::debug!(application, revision, n_services, "metadata read");
                known.outcome = Some(Ok(metadata));
            }
            Err(error) => {
                let error: Arc<str> = error.chars().take(MAX_REASON_LEN).collect::<String>().into();
                if !matches!(&known.outcome, Some(Err(said)) if *said == error) {
                    tracing::warn!(
                        application, revision, %error,
                        "cannot get the metadata of an application; trying again"
                    );
                }
                known.outcome = Some(Err(error));
                known.retry_at = Instant::now() + known.backoff.next_wait();
            }
        }
    }

    fn publish(&mut self, listed: &ListedInstances) {
        let mut is_settled = listed.is_known;
        let mut instances = Vec::with_capacity(listed.instances.len());
        for (key, instance) in &*listed.instances {
            let Some(revision) = instance.revision() else { continue };
            let outcome = self.revisions.get(revision).and_then(|it| it.outcome.as_ref());
            let metadata = match outcome {
                Some(Ok(known)) => {
                    self.last.insert(key.clone(), Arc::clone(&known.metadata));
                    Ok(Arc::clone(&known.metadata))
                }
                Some(Err(error)) => Err(Arc::clone(error)),
                None => {
                    is_settled = false;
                    Err(Arc::from("they are being asked for"))
                }
            };
            // Better what it offered a moment ago than nothing.
            let last = || self.last.get(key).cloned();
            let metadata = metadata.or_else(|error| last().ok_or(error));
            instances.push(RunningInstance { instance: Arc::clone(instance), metadata });
        }
        let n_without_revision = listed.instances.len() - instances.len();
        let (instances, bad) = (instances.into(), Arc::clone(&listed.bad));
        let resolved = Resolved { is_settled, instances, n_without_revision, bad };
        self.sender.send_if_modified(|current| {
            let has_changed = *current != resolved;
            *current = resolved;
            has_changed
        });
    }
}

impl Revision {
    fn new(n_holders: usize, now: Instant) -> Self {
        Self {
            outcome: None,
            is_asked: false,
            n_holders,
            retry_at: now,
            backoff: Backoff::new(MIN_RETRY, MAX_RETRY),
            n_tries: rand::random_range(0..n_holders.max(1)),
        }
    }

    fn is_due(&self, now: Instant) -> bool {
        !self.is_asked && !matches!(self.outcome, Some(Ok(_))) && self.retry_at <= now
    }

    /// Whether somebody has to wake up to ask for it again.
    fn is_due_later(&self) -> bool {
        !self.is_asked && matches!(self.outcome, Some(Err(_)))
    }
}

/// The revisions to be asked for, in their turn: the one first that waits longest, and of several
/// the one that most instances have. However many fail again and again, each gets its turn.
fn due(revisions: &HashMap<String, Revision>, now: Instant) -> Vec<String> {
    let due = revisions.iter().filter(|(_, it)| it.is_due(now));
    let mut due: Vec<_> = due
        .map(|(name, it)| ((it.retry_at, Reverse(it.n_holders), rand::random::<u32>()), name))
        .collect();
    due.sort_unstable();
    due.into_iter().map(|(_, name)| name.clone()).collect()
}

/// The metadata of a revision, and how long they were: from the metadata report, or from an
/// instance. If it does not tell them, they may still be in the report.
async fn fetch(
    source: &dyn Applications,
    instance: &Instance,
    revision: &str,
) -> Result<(Metadata, usize), String> {
    let address = wire::address::join(&instance.host, instance.port);
    let reported = async || {
        let text = source.report(&instance.application, revision).await;
        let text =
            text.map_err(|away| format!("the metadata report cannot be read: {}", away.0))?;
        let missing = || format!("the metadata report has no revision {revision}");
        let text = text.filter(|text| !text.is_empty()).ok_or_else(missing)?;
        let metadata = Metadata::parse(&text);
        let metadata = metadata.map_err(|error| format!("in the metadata report: {error}"))?;
        Ok((metadata, text.len()))
    };
    if instance.storage() == Storage::Remote {
        return reported().await;
    }
    match ask::ask(instance, revision).await {
        Ok(text) => {
            debug_assert!(text.len() <= 2 * MAX_METADATA_LEN, "bounded by its frame");
            let metadata = Metadata::parse(&text);
            let metadata = metadata.map_err(|error| format!("the answer of {address}: {error}"))?;
            Ok((metadata, text.len()))
        }
        Err(error) => match reported().await {
            Ok(found) => Ok(found),
            Err::<_, String>(_) => Err(format!("cannot get it from {address}: {error}")),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is asked for in vain must not keep a good revision from its turn, whatever its name.
    #[test]
    fn every_revision_gets_its_turn() {
        let began = Instant::now();
        let at = |s: u64| began + Duration::from_secs(s);
        let mut revisions: HashMap<_, _> =
            (0..500).map(|n| (format!("a{n:03}"), Revision::new(1, began))).collect();
        revisions.insert("z".to_owned(), Revision::new(1, at(1)));
        revisions.insert("most".to_owned(), Revision::new(9, began));
        assert_eq!(due(&revisions, began)[0], "most");
        // Each try fails, and is due again long before all have had theirs.
        let mut asked = HashSet::new();
        for second in 1..=20 {
            for name in due(&revisions, at(second)).into_iter().take(MAX_FETCHES) {
                let revision = revisions.get_mut(&name).unwrap();
                revision.outcome = Some(Err("no answer".into()));
                revision.retry_at = at(second + 2);
                asked.insert(name);
            }
        }
        assert_eq!(asked.len(), 502);
    }
}
