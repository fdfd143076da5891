//! What a store of services has to do.
//!
//! The unit is *the entries of one service*, not keys: a store that watches a range of keys
//! (etcd), one whose watches fire once per folder (ZooKeeper) and one that pushes the whole list
//! of a service (Nacos) all fit. What the entries mean is the store's [`layout`](crate::layout).
//! What follows from them is common to all stores: [`Kept`](crate::kept::Kept) keeps what is known
//! while a store is away or has lost its history, [`Registrar`](crate::registrar::Registrar)
//! registers again what gets lost.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use dubbo_proto::ServiceKey;
use dubbo_proto::application::{Instance, Metadata};
use tokio::sync::{oneshot, watch};

use crate::application_config::ApplicationConfig;
use crate::definitions::{Away, Document};
use crate::directory::Presence;
use crate::endpoint::{Freshness, RegisterMode, Registration, StaticService};
use crate::error::RegistryError;
use crate::layout::{BadEntry, Entry, Placed};
use crate::status::RegistryStatus;

/// How long endpoints wait for the rules of their registry, unless it is away. Dubbo's default
/// timeout of a call is twice as long.
pub(crate) const RULES_PATIENCE: Duration = Duration::from_millis(500);

/// A future of a store.
pub(crate) type Wait<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Withdraws a registration, and tells when the store has confirmed that.
pub(crate) type Withdraw = Box<dyn FnOnce(oneshot::Sender<()>) + Send + Sync>;

/// A place where services are listed. Dropping it ends its connections.
pub(crate) trait Store: fmt::Debug + Send + Sync {
    /// How the store itself does.
    fn status(&self) -> watch::Receiver<RegistryStatus>;

    /// How long endpoints known before are kept when the store comes back without its history.
    fn grace(&self) -> Duration {
        Duration::ZERO
    }

    /// Whether [`watch`](Self::watch) gives the entries of a whole interface, whatever version and
    /// group is wanted. All who subscribe to one of these then share a watch of all.
    fn lists_interfaces(&self) -> bool {
        false
    }

    /// Begins to watch the entries of a service.
    fn watch(&self, wanted: &ServiceKey) -> Box<dyn Watch>;

    /// Registers at once or later; returns whether it is there, and how to withdraw it. A store
    /// that forgets entries with their owner leaves this to a `Registrar`.
    ///
    /// # Errors
    /// When the store or its layout cannot hold the registration.
    fn register(
        &self,
        registration: &Registration,
    ) -> Result<(watch::Receiver<bool>, Withdraw), RegistryError>;

    /// Ends the session that the registrations belong to, and with it what is left of them.
    /// Nothing is registered from then on.
    fn close(&self) -> Wait<'_, ()> {
        Box::pin(std::future::ready(()))
    }

    /// Takes another list over while it runs; `false` if this store has no list.
    ///
    /// # Errors
    /// When the list is wrong. The old one then stays in force.
    fn replace_list(&self, _new: &[StaticService]) -> Result<bool, RegistryError> {
        Ok(false)
    }

    /// Whether a service is there at all. Costs no watch of its own, whatever the name.
    fn presence(&self, wanted: &ServiceKey) -> Presence;

    /// Whether registries below this one know something of what they listed before the start.
    fn remembers(&self) -> bool {
        false
    }

    /// Waits until [`presence`](Self::presence) need not answer [`Presence::Asking`].
    fn settled(&self) -> Wait<'_, ()> {
        Box::pin(std::future::ready(()))
    }

    /// Begins to watch a document of the configuration, such as a routing rule, by its name in
    /// Dubbo's group `dubbo`. `None` if the store or its layout has no such documents.
    fn rule(&self, _name: &str) -> Option<Box<dyn RuleWatch>> {
        None
    }

    /// How long a document with rules is waited for while nothing is heard of it.
    fn rules_patience(&self) -> Duration {
        RULES_PATIENCE
    }

    /// The metadata of a revision that registries below this one have announced.
    fn announced(&self, _application: &str, _revision: &str) -> Option<Arc<Metadata>> {
        None
    }

    /// At which levels services are registered for Dubbo's own consumers.
    fn register_mode(&self) -> RegisterMode {
        RegisterMode::Interface
    }

    /// What the store has of the application level, if it has that.
    fn applications(&self) -> Option<Arc<dyn Applications>> {
        None
    }

    /// The interfaces that the store has entries of, or has had, in any order; but for those that
    /// only [`Applications::unlisted`] applications offer.
    fn interfaces(&self) -> Wait<'_, Result<Vec<String>, Away>>;

    /// Reads once: the documents about an interface that the store holds below `root`, the newest
    /// first.
    fn definitions<'a>(
        &'a self,
        _root: &'a str,
        _interface: &'a str,
    ) -> Wait<'a, Result<Vec<Document>, Away>> {
        Box::pin(std::future::ready(Ok(Vec::new())))
    }
}

/// What a store has of the application level.
pub(crate) trait Applications: fmt::Debug + Send + Sync {
    /// What does not depend on the store.
    fn parts(&self) -> &ApplicationParts;

    /// The applications whose interfaces [`Store::interfaces`] leaves out, because the store does
    /// not list mappings.
    fn unlisted(&self) -> Wait<'_, Result<Vec<String>, Away>> {
        Box::pin(std::future::ready(Ok(Vec::new())))
    }

    /// Begins to watch the names of the applications that offer an interface.
    fn mapping(&self, interface: &str) -> Box<dyn RuleWatch>;

    /// Begins to watch the instances of an application.
    fn instances(&self, application: &str) -> Box<dyn Watch<Arc<Instance>>>;

    /// Reads once: the metadata of a revision, from the metadata report.
    fn report<'a>(
        &'a self,
        application: &'a str,
        revision: &'a str,
    ) -> Wait<'a, Result<Option<Vec<u8>>, Away>>;

    /// Where the metadata of a revision are written.
    fn place_report(&self, metadata: &Metadata) -> Placed;

    /// Where a document is written that says what a service of an application looks like.
    fn place_definition(&self, service: &ServiceKey, application: &str, text: Arc<str>) -> Placed;

    /// Where an instance is written.
    fn place_instance(&self, instance: &Instance) -> Placed;

    /// Where it is written that an application offers an interface.
    fn place_mapping(&self, interface: &str, application: &str) -> Placed;

    /// Keeps an entry; returns whether it is there, and how to remove it.
    fn keep(&self, placed: Placed) -> (watch::Receiver<bool>, Withdraw);
}

/// What all stores with an application level have.
#[derive(Debug)]
pub(crate) struct ApplicationParts {
    /// How long instances known before are kept when the store comes back without its history.
    pub(crate) grace: Duration,
    pub(crate) config: ApplicationConfig,
}

/// What identifies an entry of a service in its store. Entries are resolved in the order of these;
/// of two with one address the last one counts.
pub(crate) type EntryKey = Vec<u8>;

/// One entry of a service, read by the layout. `Ok(None)` is a good entry that is not about an
/// endpoint.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Item<E = Entry> {
    pub(crate) key: EntryKey,
    pub(crate) read: Result<Option<E>, BadEntry>,
}

/// What a watch gives.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum News<E = Entry> {
    /// All entries of the service. The first news of a watch is this, and the first after an
    /// error.
    Whole {
        items: Vec<Item<E>>,
        /// How many more the store has, which were not taken.
        n_cut: usize,
        /// The store has lost what it knew before (it was wiped, or begins again with each
        /// connection): entries may be missing only because their owners have not come back yet.
        history_lost: bool,
        /// Why a part of the list cannot be read now, if that is so. As far as it is known from
        /// before, it is among the items.
        refusal: Option<String>,
    },
    /// What has changed since the last news.
    Changes(Vec<Change<E>>),
    /// All entries, as far as they are known.
    Known(Known<E>),
}

/// One change of a service's entries.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Change<E = Entry> {
    Put(Item<E>),
    Gone(EntryKey),
}

/// What a store knows of a service without asking anybody.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Known<E = Entry> {
    pub(crate) items: Vec<Item<E>>,
    /// How far it can be trusted. [`Freshness::Pending`] if what is known is only why the list is
    /// not.
    pub(crate) status: Freshness,
}

/// Why a watch or a session has to begin again. What is known stays in the meantime.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum StoreError {
    /// The store cannot be reached; its status has the reason.
    Away,
    /// The store can be reached, and this went wrong.
    Failed(String),
    /// Changes may be missing. Nothing is wrong, and the next news is a whole list.
    Gap,
    /// The session is over, and all of its entries with it: register again.
    SessionLost,
}

/// The watch of one service. Ends when dropped.
pub(crate) trait Watch<E = Entry>: Send {
    /// What is known at once, if the store keeps all of its services at hand.
    fn known(&mut self) -> Option<Known<E>> {
        None
    }

    /// Waits until the store can be asked; `false` if it never will be again.
    fn ready(&mut self) -> Wait<'_, bool>;

    /// Waits for the next news. After an error the watch begins again with a whole list.
    fn next(&mut self) -> Wait<'_, Result<News<E>, StoreError>>;

    /// Notes an error for the operator; true if it is not the one that was noted last.
    fn report(&mut self, error: &str) -> bool;
}

/// What the watch of a document gives: its text, and `None` if there is no such document.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum DocumentNews {
    /// It was read. The first news of a watch is this, and the first after an error, unless the
    /// store has all documents at hand.
    Whole {
        text: Option<String>,
        /// As in [`News::Whole`].
        history_lost: bool,
    },
    /// It has changed since.
    Changed(Option<String>),
}

/// The watch of one document. Ends when dropped.
pub(crate) trait RuleWatch: Send {
    /// The document, if the store has all of them at hand.
    fn known(&mut self) -> Option<Option<String>> {
        None
    }

    /// Waits until the store can be asked; `false` if it never will be again.
    fn ready(&mut self) -> Wait<'_, bool>;

    /// Waits for the document, or for its next change. After an error the watch begins again.
    fn next(&mut self) -> Wait<'_, Result<DocumentNews, StoreError>>;
}

/// Entries that live as long as their owner shows that it lives: an etcd lease, a ZooKeeper
/// session, a Nacos connection.
pub(crate) trait StoreSession: Send {
    /// Waits until the store can be asked; `false` if it never will be again.
    fn ready(&mut self) -> Wait<'_, bool>;

    /// Waits until the store can no longer be asked, after it was [`ready`](Self::ready).
    fn lost(&mut self) -> Wait<'_, ()>;

    /// How often [`keep`](Self::keep) is to be called.
    fn keep_interval(&self) -> Duration;

    /// Keeps the session alive, and looks after the entries in `held`. Returns those that nobody
    /// holds any more. One that a successor holds is its own to keep, and is not among them.
    fn keep<'a>(&'a mut self, held: &'a [Placed]) -> Wait<'a, Result<Vec<Placed>, StoreError>>;

    /// Writes an entry that belongs to this session, which begins if there is none.
    fn put<'a>(&'a mut self, entry: &'a Placed) -> Wait<'a, Result<(), StoreError>>;

    /// Deletes an entry, if it belongs to this session.
    fn remove<'a>(&'a mut self, entry: &'a Placed) -> Wait<'a, Result<(), StoreError>>;

    /// Ends the session, and with it all that is left.
    fn close(&mut self) -> Wait<'_, ()>;

    /// Notes an error for the operator; true if it is not the one that was noted last.
    fn report(&mut self, error: &str) -> bool;
}
