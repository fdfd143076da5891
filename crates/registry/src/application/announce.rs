//! Registers what we offer at application level: one instance for all services of an address, the
//! mapping of each service, and the metadata, which the instance tells when it is asked and which
//! are in the metadata report if that is wanted.
//!
//! Invariants:
//! - Metadata can be told before the instance that has them is written.
//! - An instance is withdrawn with the last of its services. Mappings stay, as Dubbo leaves them.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use dubbo_proto::application::{
    Instance, METADATA_SERVICE_VERSION, Metadata, OfferedService, Storage,
};
use dubbo_proto::{DubboUrl, ServiceKey};
use parameters::Parameters;
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};

use crate::address;
use crate::endpoint::Registration;
use crate::store::{Applications, Withdraw};

/// Services that come or go within this time make one change of their instance: each change has
/// all consumers ask for metadata.
const GATHER: Duration = Duration::from_millis(50);

/// Revisions that are told of each application. Consumers ask for one that they have just seen.
const MAX_TOLD: usize = 16;

/// When it began. An instance says so once for all of its services. In their metadata, it would
/// make another revision of the same services.
const TIMESTAMP: &str = "timestamp";

/// What an instance says of its metadata service, as its services say it.
const TOLD_PARAMS: [&str; 6] =
    ["dubbo", "release", "side", "serialization", "prefer.serialization", "ssl-enabled"];

/// The metadata that can be told, by application; the newest first.
#[derive(Clone, Debug, Default)]
pub(crate) struct Announced(Arc<Mutex<HashMap<String, VecDeque<Arc<Metadata>>>>>);

impl Announced {
    /// The metadata of a revision, if it is one of ours.
    pub(crate) fn metadata(&self, application: &str, revision: &str) -> Option<Arc<Metadata>> {
        let told = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let of_application = told.get(application)?.iter();
        of_application.into_iter().find(|metadata| metadata.revision == revision).cloned()
    }

    fn add(&self, metadata: Arc<Metadata>) {
        let mut told = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let of_application = told.entry(metadata.application.clone()).or_default();
        of_application.retain(|known| known.revision != metadata.revision);
        of_application.push_front(metadata);
        of_application.truncate(MAX_TOLD);
    }
}

/// The handle on the task that registers.
#[derive(Clone, Debug)]
pub(crate) struct Announcer {
    commands: mpsc::UnboundedSender<AnnounceCommand>,
    next_id: Arc<AtomicU64>,
    announced: Announced,
}

#[derive(Debug)]
enum AnnounceCommand {
    Add { id: u64, offer: Box<AnnouncedService> },
    Remove { id: u64, done: oneshot::Sender<()> },
}

/// One service at one address.
#[derive(Debug)]
struct AnnouncedService {
    place: InstanceAddress,
    offered: OfferedService,
    /// What its URL says, for the metadata service.
    params: Parameters,
    established: watch::Sender<bool>,
}

/// Where an instance is.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
struct InstanceAddress {
    application: String,
    host: String,
    port: u16,
}

impl Announcer {
    pub(crate) fn start(source: Arc<dyn Applications>, runtime: &Handle) -> Self {
        let (commands, receiver) = mpsc::unbounded_channel();
        let announced = Announced::default();
        let task = Task {
            source,
            announced: announced.clone(),
            offers: BTreeMap::new(),
            instances: BTreeMap::new(),
            mappings: BTreeMap::new(),
            leaving: Vec::new(),
        };
        runtime.spawn(task.run(receiver));
        Self { commands, next_id: Arc::default(), announced }
    }

    /// What can be told of what is registered here.
    pub(crate) fn announced(&self) -> &Announced {
        &self.announced
    }

    /// Registers a service; returns whether it is there, and how to withdraw it.
    pub(crate) fn add(&self, registration: &Registration) -> (watch::Receiver<bool>, Withdraw) {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let (established, receiver) = watch::channel(false);
        // If the task is gone, so is the runtime, and with it everybody who could care.
        let offer = Box::new(offer(registration, established));
        let _ = self.commands.send(AnnounceCommand::Add { id, offer });
        let commands = self.commands.clone();
        let withdraw = move |done| {
            let _ = commands.send(AnnounceCommand::Remove { id, done });
        };
        (receiver, Box::new(withdraw))
    }
}

fn offer(registration: &Registration, established: watch::Sender<bool>) -> AnnouncedService {
    let DubboUrl { protocol, host, port, path, params, .. } = address::url(registration);
    let params = params.without("category");
    let application = params.get("application").unwrap_or_default().to_owned();
    let (service, of_service) = (registration.service.clone(), params.without(TIMESTAMP));
    let offered = OfferedService { service, protocol, port, path, params: of_service };
    AnnouncedService {
        place: InstanceAddress { application, host, port },
        offered,
        params,
        established,
    }
}

struct Task {
    source: Arc<dyn Applications>,
    announced: Announced,
    offers: BTreeMap<u64, AnnouncedService>,
    instances: BTreeMap<InstanceAddress, Current>,
    mappings: BTreeMap<(String, String), (watch::Receiver<bool>, Withdraw)>,
    /// Who waits until what was withdrawn is gone.
    leaving: Vec<(InstanceAddress, oneshot::Sender<()>)>,
}

/// An instance as it is written.
struct Current {
    revision: String,
    established: watch::Receiver<bool>,
    withdraw: Withdraw,
    /// Its metadata in the metadata report, if they are to be there. Others of the same revision
    /// need them too, so they stay.
    report: Option<(watch::Receiver<bool>, Withdraw)>,
    /// Tells its services that they are there; ends with this.
    telling: JoinSet<()>,
}

impl Task {
    async fn run(mut self, mut commands: mpsc::UnboundedReceiver<AnnounceCommand>) {
        while let Some(command) = commands.recv().await {
            self.take(command);
            let until = Instant::now() + GATHER;
            while let Ok(Some(command)) = timeout_at(until, commands.recv()).await {
                self.take(command);
            }
            self.apply();
        }
        // With the last handle the registrar ends, too, and with it what is left.
    }

    fn take(&mut self, command: AnnounceCommand) {
        match command {
            AnnounceCommand::Add { id, offer } => {
                self.offers.insert(id, *offer);
            }
            AnnounceCommand::Remove { id, done } => {
                let Some(offer) = self.offers.remove(&id) else { return };
                offer.established.send_replace(false);
                self.leaving.push((offer.place, done));
            }
        }
    }

    /// Brings what is written to what is offered.
    fn apply(&mut self) {
        let mut places = BTreeMap::<InstanceAddress, Vec<OfferedService>>::new();
        for offer in self.offers.values() {
            let services = places.entry(offer.place.clone()).or_default();
            // Of two registrations of one service, the later one counts: it takes the other's
            // place.
            services.retain(|known| known.service != offer.offered.service);
            services.push(offer.offered.clone());
        }
        self.write_mappings();
        let gone: Vec<_> =
            self.instances.keys().filter(|it| !places.contains_key(it)).cloned().collect();
        for place in gone {
            let Some(current) = self.instances.remove(&place) else { continue };
            let waiting = self.waiting(&place);
            let (done, withdrawn) = oneshot::channel();
            (current.withdraw)(done);
            current.report.into_iter().for_each(|(_, forget)| forget(oneshot::channel().0));
            tokio::spawn(async move {
                let _ = withdrawn.await;
                waiting.into_iter().for_each(|done| _ = done.send(()));
            });
        }
        for (place, mut services) in places {
            services.sort_by(|one, other| one.service.cmp(&other.service));
            let metadata = Metadata::new(&place.application, services);
            let known = self.instances.get(&place);
            if known.is_none_or(|known| known.revision != metadata.revision) {
                self.write_instance(&place, metadata);
            }
            self.tell(&place);
        }
        self.confirm_unwritten();
    }

    /// Confirms the end of services that went before anything was written of them.
    fn confirm_unwritten(&mut self) {
        let leaving = std::mem::take(&mut self.leaving).into_iter();
        let (rest, gone) = leaving.partition(|(place, _)| self.instances.contains_key(place));
        self.leaving = rest;
        gone.into_iter()
            .for_each(|(_, done): (InstanceAddress, oneshot::Sender<()>)| _ = done.send(()));
    }

    fn write_mappings(&mut self) {
        let wanted = self.offers.values().map(|offer| {
            (offer.offered.service.interface.clone(), offer.place.application.clone())
        });
        let wanted: BTreeSet<_> = wanted.collect();
        let gone: Vec<_> =
            self.mappings.keys().filter(|it| !wanted.contains(it)).cloned().collect();
        for (_, withdraw) in gone.iter().filter_map(|key| self.mappings.remove(key)) {
            withdraw(oneshot::channel().0);
        }
        for key in wanted {
            let source = &self.source;
            self.mappings.entry(key).or_insert_with_key(|(interface, application)| {
                source.keep(source.place_mapping(interface, application))
            });
        }
    }

    /// Writes an instance in the place of the one that was written there before.
    fn write_instance(&mut self, place: &InstanceAddress, metadata: Metadata) {
        let InstanceAddress { application, host, port } = place;
        let revision = metadata.revision.clone();
        // Before the instance that says that they are there.
        let report = (self.source.parts().config.metadata == Storage::Remote)
            .then(|| self.source.keep(self.source.place_report(&metadata)));
        self.announced.add(Arc::new(metadata));
        let offers = self.offers.values().filter(|offer| offer.place == *place);
        let of_url = offers.map(|offer| &offer.params).next().cloned().unwrap_or_default();
        let told = of_url.iter().filter(|(name, _)| TOLD_PARAMS.contains(name));
        let params = told.chain([("version", METADATA_SERVICE_VERSION)]).collect();
        let storage = self.source.parts().config.metadata;
        let mut instance =
            Instance::offering(application, host, *port, &revision, storage, &params);
        if let Some(since) = of_url.get(TIMESTAMP) {
            instance.metadata = instance.metadata.with(TIMESTAMP, since);
        }
        let placed = self.source.place_instance(&instance);
        let (established, withdraw) = self.source.keep(placed);
        let telling = JoinSet::new();
        let current = Current { revision, established, withdraw, report, telling };
        if let Some(before) = self.instances.insert(place.clone(), current) {
            // It has the same path, and so nothing is deleted.
            (before.withdraw)(oneshot::channel().0);
            before.report.into_iter().for_each(|(_, forget)| forget(oneshot::channel().0));
        }
    }

    /// Tells those who wait when the instance is as it should be.
    fn tell(&mut self, place: &InstanceAddress) {
        let waiting = self.waiting(place);
        let offers = self.offers.values().filter(|offer| offer.place == *place);
        let senders: Vec<_> = offers.map(|offer| offer.established.clone()).collect();
        let mappings = self.mappings.iter().filter(|((_, name), _)| *name == place.application);
        let mut before: Vec<_> =
            mappings.map(|(_, (established, _))| established.clone()).collect();
        let Some(current) = self.instances.get_mut(place) else { return };
        before.extend(current.report.iter().map(|(established, _)| established.clone()));
        if !waiting.is_empty() {
            let mut established = current.established.clone();
            tokio::spawn(async move {
                // Also if it is replaced once more.
                let _ = established.wait_for(|is| *is).await;
                waiting.into_iter().for_each(|done| _ = done.send(()));
            });
        }
        let mut established = current.established.clone();
        current.telling = JoinSet::new();
        current.telling.spawn(async move {
            for document in &mut before {
                let _ = document.wait_for(|is| *is).await;
            }
            loop {
                let is_there = *established.borrow_and_update();
                for sender in &senders {
                    sender.send_if_modified(|is| std::mem::replace(is, is_there) != is_there);
                }
                if established.changed().await.is_err() {
                    return;
                }
            }
        });
    }

    /// Those who wait for the end of a service at a place.
    fn waiting(&mut self, place: &InstanceAddress) -> Vec<oneshot::Sender<()>> {
        let (gone, rest) = std::mem::take(&mut self.leaving)
            .into_iter()
            .partition::<Vec<_>, _>(|(left, _)| left == place);
        self.leaving = rest;
        gone.into_iter().map(|(_, done)| done).collect()
    }
}

/// Whether a service can be registered at application level: its application has a name.
pub(crate) fn can_announce(registration: &Registration) -> bool {
    let application = registration.endpoint.params.get("application");
    let ServiceKey { interface, .. } = &registration.service;
    application.is_some_and(dubbo_proto::application::is_application) && !interface.is_empty()
}
