//! The listeners of a configuration: which there are, and how they are bound.

use wire::{BoundSocket, ListenAddress, ListenError, ListenOptions};

use crate::config::Config;
use crate::ingress::{dubbo, http, link};
use crate::listening::{Addresses, PlannedListener};
use crate::own_ingresses::{OwnIngress, OwnIngresses};

/// All listeners for calls, in the order of the configuration. Each kind has its line here.
fn planned(config: &Config) -> Vec<PlannedListener> {
    let http = config.http.iter().cloned().map(http::planned);
    let dubbo = config.dubbo.iter().cloned().map(dubbo::planned);
    let dubbo_exports = config.dubbo_exports.iter().map(dubbo::planned_exports);
    let link = config.link.iter().map(link::planned);
    http.chain(dubbo).chain(dubbo_exports).chain(link).collect()
}

/// Which TCP addresses of a configuration can be listened on; none is held. Sockets in the file
/// system are left alone: to try one would take it from whoever listens there.
pub fn free_addresses(config: &Config) -> Vec<(ListenAddress, Result<(), ListenError>)> {
    let options = ListenOptions::default();
    let admin = config.admin.as_ref().map(|admin| (admin.listen.clone(), "admin.listen", options));
    let planned = planned(config);
    let calls = planned.into_iter().map(|it| (it.listen, it.listen_key, it.socket));
    let tcp = calls.chain(admin).filter(|(listen, ..)| matches!(listen, ListenAddress::Tcp(_)));
    tcp.map(|(listen, key, options)| {
        let bound = listen.bind(key, &options).map(drop);
        (listen, bound)
    })
    .collect()
}

/// Listening sockets, not yet attached to an event loop.
pub struct BoundListeners {
    /// Where they listen.
    pub addresses: Addresses,
    /// Those for calls, with what they are for.
    pub(super) listeners: Vec<BoundListener>,
    /// For metrics and health.
    pub(super) admin: Option<BoundSocket>,
}

/// One of them.
pub(super) struct BoundListener {
    pub(super) socket: BoundSocket,
    pub(super) address: ListenAddress,
    pub(super) planned: PlannedListener,
}

impl BoundListeners {
    /// Binds all listeners of a configuration.
    ///
    /// # Errors
    /// The first address that cannot be used.
    pub fn bind(config: &Config) -> Result<Self, ListenError> {
        let mut addresses = Addresses::default();
        let mut listeners = Vec::new();
        for planned in planned(config) {
            let (socket, address) = bind(&planned.listen, planned.listen_key, &planned.socket)?;
            if let Some(address) = address.tcp() {
                (planned.note)(&mut addresses, address);
            }
            listeners.push(BoundListener { socket, address, planned });
        }
        let options = ListenOptions::default();
        let admin = config.admin.as_ref();
        let admin = admin.map(|admin| bind(&admin.listen, "admin.listen", &options));
        let (admin, admin_address) = admin.transpose()?.unzip();
        addresses.admin = admin_address.and_then(|address| address.tcp());
        Ok(Self { addresses, listeners, admin })
    }
}

/// Where the calls of Dubbo consumers are taken, and by which registry they go.
pub(super) fn own_ingresses(config: &Config, addresses: &Addresses) -> OwnIngresses {
    let by_tcp = config.dubbo.iter().filter(|ingress| ingress.listen.tcp().is_some());
    let all = by_tcp.zip(&addresses.dubbo).filter_map(|(ingress, listen)| {
        let registry = config.registries.get(ingress.registry)?.name.as_str().into();
        Some(OwnIngress { listen: *listen, registry })
    });
    OwnIngresses::new(all.collect())
}

fn bind(
    listen: &ListenAddress,
    key: &'static str,
    options: &ListenOptions,
) -> Result<(BoundSocket, ListenAddress), ListenError> {
    let socket = listen.bind(key, options)?;
    // It is bound, so the system knows where.
    let address = socket.address().unwrap_or_else(|_| listen.clone());
    Ok((socket, address))
}
