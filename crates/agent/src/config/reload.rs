//! What a new configuration changes while the agent runs, and what has to wait for a restart.
//!
//! Each part of [`Config`] is named once, in [`Config::reload_difference`], which takes the types
//! apart so that a new part cannot be forgotten.

mod keys;

use dubbo_proto::ServiceKey;

use super::{Config, ExportConfig, RegistryEntry};

/// The difference between two configurations, by the names of sections and keys.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct ReloadPlan {
    /// What is taken over at once.
    pub changed: Vec<String>,
    /// What keeps its old value until a restart.
    pub needs_restart: Vec<String>,
    /// What could not be taken over, and keeps its old value. The log says why.
    pub failed: Vec<String>,
}

impl ReloadPlan {
    /// Whether both configurations are the same.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.changed.is_empty() && self.needs_restart.is_empty() && self.failed.is_empty()
    }

    /// A section was not taken over after all.
    pub(crate) fn failed(&mut self, section: &str) {
        self.changed.retain(|changed| changed != section);
        self.failed.push(section.to_owned());
    }
}

impl Config {
    /// What a change from this configuration to `new` means for a running agent.
    #[must_use]
    pub fn reload_difference(&self, new: &Self) -> ReloadPlan {
        let Self {
            process,
            log,
            access_log,
            admin,
            registries,
            http,
            dubbo,
            link,
            dubbo_exports,
            exports,
            clusters,
            access_log_place: _,
            warnings: _,
        } = self;
        let mut plan = ReloadPlan::default();
        note(&mut plan.changed, "log.level", log.filter == new.log.filter);
        note(&mut plan.changed, "access_log", access_log == &new.access_log);
        let is_same = process.stage_sample == new.process.stage_sample;
        note(&mut plan.changed, "agent.stage_sample", is_same);
        note(&mut plan.changed, "defaults", clusters.default == new.clusters.default);
        note(&mut plan.changed, "cluster", clusters.rules == new.clusters.rules);
        let restart = &mut plan.needs_restart;
        note(restart, "agent.name", process.name == new.process.name);
        note(restart, "agent.workers", process.workers == new.process.workers);
        note(restart, "agent.memory_bytes", process.memory_len == new.process.memory_len);
        note(restart, "agent.drain_ms", process.drain_timeout == new.process.drain_timeout);
        let is_same = process.reserved_files == new.process.reserved_files;
        note(restart, "agent.reserved_files", is_same);
        // A line that begins in one format must not end in another.
        note(restart, "log.format", log.format == new.log.format);
        let n_same = self.n_same_registries(new);
        let is_same = n_same == registries.len() && n_same == new.registries.len();
        for (section, is_same) in [
            ("admin", admin == &new.admin),
            ("registry", is_same),
            ("ingress", http == &new.http && dubbo == &new.dubbo),
            ("link", link == &new.link),
            ("dubbo", dubbo_exports == &new.dubbo_exports),
        ] {
            if !is_same {
                restart.extend(keys::changed(section, self, new));
            }
        }
        for (index, _) in self.list_changes(new) {
            plan.changed.push(format!("registry.service of {}", registries[index].name));
        }
        debug_assert!(exports.iter().all(|export| export.registry < registries.len()));
        for change in self.export_changes(new) {
            match change {
                Ok(ExportChange::Added(it)) => {
                    plan.changed.push(format!("new export of {}", it.service));
                }
                Ok(ExportChange::Changed(it)) => plan.changed.push(what_changed(exports, &it)),
                Ok(ExportChange::Removed(it)) => {
                    plan.changed.push(format!("removed export of {it}"));
                }
                Err(what) => plan.needs_restart.push(what),
            }
        }
        plan
    }
}

fn note(list: &mut Vec<String>, name: &str, is_same: bool) {
    if !is_same {
        list.push(name.to_owned());
    }
}

/// What is to be done about one exported service.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum ExportChange {
    /// It is offered from now on.
    Added(ExportConfig),
    /// It is offered in another way: by another app, in another registry, with another weight.
    Changed(ExportConfig),
    /// It is offered no longer.
    Removed(ServiceKey),
}

impl Config {
    /// The registries that take another list over: their indexes here, and what they become.
    pub fn list_changes<'a>(&self, new: &'a Self) -> Vec<(usize, &'a RegistryEntry)> {
        let becomes = |(index, old): (usize, &RegistryEntry)| {
            let wanted = new.registries.iter().find(|wanted| can_become(old, wanted))?;
            (!old.config.is_same(&wanted.config)).then_some((index, wanted))
        };
        self.registries.iter().enumerate().filter_map(becomes).collect()
    }

    /// The differences between exports. Those that `new` adds or changes are as this
    /// configuration, whose registries are the ones that are open, has to have them; or else the
    /// reason why they have to wait for a restart.
    pub fn export_changes(&self, new: &Self) -> Vec<Result<ExportChange, String>> {
        let (mut changes, exports) = (Vec::new(), &self.exports);
        let has_listener = self.link.is_some() || self.dubbo_exports.is_some();
        for wanted in &new.exports {
            let known = exports.iter().find(|known| known.service == wanted.service);
            let Some(registry) = self.same_registry(new, wanted.registry).filter(|_| has_listener)
            else {
                changes.push(Err(format!("export of {}", wanted.service)));
                continue;
            };
            let wanted = ExportConfig { registry, ..wanted.clone() };
            match known {
                None => changes.push(Ok(ExportChange::Added(wanted))),
                Some(known) if *known != wanted => changes.push(Ok(ExportChange::Changed(wanted))),
                Some(_) => {}
            }
        }
        let is_left = |known: &&ExportConfig| {
            !new.exports.iter().any(|wanted| wanted.service == known.service)
        };
        let removed = exports.iter().filter(is_left).map(|known| known.service.clone());
        changes.extend(removed.map(|service| Ok(ExportChange::Removed(service))));
        changes
    }

    /// Takes one of these changes over.
    pub fn take_over(&mut self, change: &ExportChange) {
        match change {
            ExportChange::Added(export) => self.exports.push(export.clone()),
            ExportChange::Changed(export) => {
                let known = self.exports.iter_mut().find(|known| known.service == export.service);
                if let Some(known) = known {
                    *known = export.clone();
                }
            }
            ExportChange::Removed(service) => self.exports.retain(|it| it.service != *service),
        }
    }

    /// How many registries have the same place in both, but for their lists.
    fn n_same_registries(&self, new: &Self) -> usize {
        let pairs = self.registries.iter().zip(&new.registries);
        pairs.filter(|(old, new)| can_become(old, new)).count()
    }

    /// The index here of the registry that has the index in `new`, if it is the same one.
    fn same_registry(&self, new: &Self, index: usize) -> Option<usize> {
        let wanted = new.registries.get(index)?;
        self.registries.iter().position(|known| can_become(known, wanted))
    }
}

/// Whether all of an export has changed, or its weight alone.
fn what_changed(known: &[ExportConfig], new: &ExportConfig) -> String {
    let is_same =
        |known: &&ExportConfig| ExportConfig { weight: new.weight, ..(*known).clone() } == *new;
    let key = if known.iter().any(|known| is_same(&known)) { "export.weight" } else { "export" };
    format!("{key} of {}", new.service)
}

/// Whether a registry that is open is the one that `new` tells of, but for its list.
fn can_become(old: &RegistryEntry, new: &RegistryEntry) -> bool {
    old.name == new.name
        && old.config.can_become(&new.config)
        && old.definitions == new.definitions
        && old.snapshot == new.snapshot
}

#[cfg(test)]
mod tests;
