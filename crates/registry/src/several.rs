//! Several registries as one: services that move from one registry to another, estates with more
//! than one, and registries that stand in for each other.
//!
//! [`combine`] says which of their endpoints count. A registration is made in each of them that
//! can hold it, and counts as soon as one does.

mod combine;
mod watch;

use std::sync::Arc;
use std::time::Duration;

use dubbo_proto::ServiceKey;
use dubbo_proto::application::Metadata;
use tokio::runtime::Handle;
use tokio::sync::watch as channel;
use tokio::task::AbortHandle;

use self::combine::Terms;
use self::watch::{SeveralRule, SeveralWatch, any_changed};
use crate::DefinitionSources;
use crate::config::{SeveralConfig, SeveralMode};
use crate::definitions::{Away, Definitions, Document};
use crate::directory::Presence;
use crate::endpoint::Registration;
use crate::error::RegistryError;
use crate::registry::{Registered, Registry};
use crate::status::{RegistryStatus, StatusSender, note};
use crate::store::{RULES_PATIENCE, RuleWatch, Store, Wait, Watch, Withdraw};

/// One registry of several that are `open`, each with the name that operators know. Must be called
/// inside a tokio runtime.
///
/// # Errors
/// [`RegistryError::NoMembers`] if there is none; [`RegistryError::NoRuntime`].
pub fn several(
    config: &SeveralConfig,
    open: impl Fn(&str) -> Option<Registry>,
    sources: DefinitionSources,
) -> Result<Registry, RegistryError> {
    let member = |name: &String| {
        let (share, zone) = (config.share(name), config.zones.get(name).cloned());
        let terms = Terms { name: name.as_str().into(), share, zone };
        Some(MemberRegistry { terms, registry: open(name)? })
    };
    let members: Vec<_> = config.of.iter().filter_map(member).collect();
    if members.is_empty() {
        return Err(RegistryError::NoMembers);
    }
    let runtime = Handle::try_current().map_err(|_| RegistryError::NoRuntime)?;
    let store = Box::new(Several::new(members, config.mode, &runtime));
    Ok(Registry::over(store, runtime, Definitions::new(sources), None))
}

/// One of them.
#[derive(Debug)]
struct MemberRegistry {
    terms: Terms,
    registry: Registry,
}

#[derive(Debug)]
struct Several {
    members: Vec<MemberRegistry>,
    mode: SeveralMode,
    runtime: Handle,
    status: channel::Receiver<RegistryStatus>,
    /// Follows how they do.
    task: AbortHandle,
}

impl Several {
    fn new(members: Vec<MemberRegistry>, mode: SeveralMode, runtime: &Handle) -> Self {
        let status = |it: &MemberRegistry| (Arc::clone(&it.terms.name), it.registry.status());
        let of_members: Vec<_> = members.iter().map(status).collect();
        let (sender, status) = channel::channel(RegistryStatus::new(false));
        let task = runtime.spawn(follow_status(of_members, sender)).abort_handle();
        Self { members, mode, runtime: runtime.clone(), status, task }
    }

    fn registries(&self) -> impl Iterator<Item = &Registry> {
        self.members.iter().map(|member| &member.registry)
    }

    /// Whether there is a registration in any of them, until all have ended.
    fn any_established(&self, registered: &[Registered]) -> channel::Receiver<bool> {
        let mut each: Vec<_> = registered.iter().map(Registered::is_there).collect();
        let (sender, established) = channel::channel(false);
        self.runtime.spawn(async move {
            loop {
                let any = each.iter_mut().fold(false, |any, it| any | *it.borrow_and_update());
                sender.send_replace(any);
                tokio::select! {
                    () = any_changed(each.iter_mut()) => {}
                    () = sender.closed() => return,
                }
            }
        });
        established
    }
}

impl Drop for Several {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// They can be read as long as one of them can.
async fn follow_status(
    mut members: Vec<(Arc<str>, channel::Receiver<RegistryStatus>)>,
    status: StatusSender,
) {
    loop {
        let mut is_connected = false;
        let mut errors = Vec::new();
        for (name, member) in &mut members {
            let member = member.borrow_and_update();
            is_connected |= member.connected;
            if let Some(error) = member.last_error.as_ref().filter(|_| !member.connected) {
                errors.push(format!("{name}: {error}"));
            }
        }
        note(&status, is_connected, (!errors.is_empty()).then(|| errors.join("; ")));
        any_changed(members.iter_mut().map(|(_, member)| member)).await;
    }
}

impl Store for Several {
    fn status(&self) -> channel::Receiver<RegistryStatus> {
        self.status.clone()
    }

    fn watch(&self, wanted: &ServiceKey) -> Box<dyn Watch> {
        Box::new(SeveralWatch::new(wanted, self.mode, &self.members))
    }

    fn register(
        &self,
        registration: &Registration,
    ) -> Result<(channel::Receiver<bool>, Withdraw), RegistryError> {
        let mut registered = Vec::new();
        for registry in self.registries() {
            match registry.register(registration) {
                Ok(one) => registered.push(one),
                Err(error) if error.refuses_all() => {}
                Err(error) => return Err(error),
            }
        }
        if registered.is_empty() {
            let names: Vec<_> = self.members.iter().map(|it| &*it.terms.name).collect();
            return Err(RegistryError::NobodyRegisters { members: names.join(", ") });
        }
        let established = self.any_established(&registered);
        let runtime = self.runtime.clone();
        let withdraw: Withdraw = Box::new(move |done| {
            // All of them at the same time: one that is away must not keep it in the others.
            let each: Vec<_> =
                registered.into_iter().map(|it| runtime.spawn(it.withdraw())).collect();
            runtime.spawn(async move {
                let mut are_gone = true;
                for one in each {
                    are_gone &= matches!(one.await, Ok(Ok(())));
                }
                if are_gone {
                    let _ = done.send(());
                }
            });
        });
        Ok((established, withdraw))
    }

    fn presence(&self, wanted: &ServiceKey) -> Presence {
        let all: Vec<_> = self.registries().map(|it| it.presence(wanted)).collect();
        let order = [Presence::Offered, Presence::Asking, Presence::Unknown];
        order.into_iter().find(|it| all.contains(it)).unwrap_or(Presence::Absent)
    }

    fn remembers(&self) -> bool {
        self.registries().any(Registry::remembers)
    }

    fn settled(&self) -> Wait<'_, ()> {
        Box::pin(async {
            for registry in self.registries() {
                registry.settled().await;
            }
        })
    }

    fn rule(&self, name: &str) -> Option<Box<dyn RuleWatch>> {
        let rule = SeveralRule::new(name, self.registries())?;
        Some(Box::new(rule))
    }

    /// Longer than each of them, so that what one of them knows counts before this is over.
    fn rules_patience(&self) -> Duration {
        2 * RULES_PATIENCE
    }

    fn announced(&self, application: &str, revision: &str) -> Option<Arc<Metadata>> {
        self.registries().find_map(|registry| registry.announced(application, revision))
    }

    fn interfaces(&self) -> Wait<'_, Result<Vec<String>, Away>> {
        Box::pin(async {
            let mut names = Vec::new();
            let mut reasons = Vec::new();
            for MemberRegistry { terms: Terms { name, .. }, registry } in &self.members {
                match registry.interfaces().await {
                    Ok(found) => names.extend(found),
                    Err(away) => reasons.push(format!("{name}: {}", away.0)),
                }
            }
            let nobody_said = reasons.len() == self.members.len();
            if nobody_said { Err(Away(reasons.join("; "))) } else { Ok(names) }
        })
    }

    fn definitions<'a>(
        &'a self,
        _root: &'a str,
        interface: &'a str,
    ) -> Wait<'a, Result<Vec<Document>, Away>> {
        Box::pin(async move {
            let mut away = None;
            for registry in self.registries() {
                match registry.documents(interface).await {
                    Ok(documents) if documents.is_empty() => {}
                    Ok(documents) => return Ok(documents),
                    Err(error) => away = Some(error),
                }
            }
            away.map_or(Ok(Vec::new()), Err)
        })
    }
}
