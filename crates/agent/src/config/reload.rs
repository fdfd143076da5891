//! What a new configuration changes while the agent runs, and what has to wait for a restart.
//!
//! Each part of [`Config`] is named once, in [`Config::reload_difference`], which takes the types
//! apart so that a new part cannot be forgotten.

use super::{Config, ExportConfig, RegistryEntry};

/// The difference between two configurations, by the names of sections and keys.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct ReloadPlan {
    /// What is taken over at once.
    pub changed: Vec<String>,
    /// What keeps its old value until a restart.
    pub needs_restart: Vec<String>,
}

impl ReloadPlan {
    /// Whether both configurations are the same.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.changed.is_empty() && self.needs_restart.is_empty()
    }
}

impl Config {
    /// What a change from this configuration to `new` means for a running agent.
    #[must_use]
    pub fn reload_difference(&self, new: &Self) -> ReloadPlan {
        let Self {
            process,
            log,
            admin,
            registries,
            http,
            dubbo,
            link,
            dubbo_exports,
            exports,
            clusters,
            warnings: _,
        } = self;
        let mut plan = ReloadPlan::default();
        note(&mut plan.changed, "log.level", log.filter == new.log.filter);
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
        note(restart, "admin", admin == &new.admin);
        let is_same = registries.len() == new.registries.len()
            && registries.iter().zip(&new.registries).all(|(old, new)| is_same_registry(old, new));
        note(restart, "registry", is_same);
        note(restart, "ingress", http == &new.http && dubbo == &new.dubbo);
        note(restart, "link", link == &new.link);
        note(restart, "dubbo", dubbo_exports == &new.dubbo_exports);
        compare_exports(exports, &new.exports, &mut plan);
        plan
    }
}

fn note(list: &mut Vec<String>, name: &str, is_same: bool) {
    if !is_same {
        list.push(name.to_owned());
    }
}

/// Of exports, the weight alone changes while running.
fn compare_exports(old: &[ExportConfig], new: &[ExportConfig], plan: &mut ReloadPlan) {
    let is_same_but_weight = |old: &ExportConfig, new: &ExportConfig| {
        let ExportConfig { service, app, registry, weight: _ } = old;
        *service == new.service && *app == new.app && *registry == new.registry
    };
    for new in new {
        match old.iter().find(|old| old.service == new.service) {
            Some(old) if is_same_but_weight(old, new) => {
                let name = format!("export.weight of {}", new.service);
                note(&mut plan.changed, &name, old.weight == new.weight);
            }
            Some(_) => plan.needs_restart.push(format!("export of {}", new.service)),
            None => plan.needs_restart.push(format!("new export of {}", new.service)),
        }
    }
    for old in old {
        if !new.iter().any(|new| new.service == old.service) {
            plan.needs_restart.push(format!("removed export of {}", old.service));
        }
    }
}

fn is_same_registry(old: &RegistryEntry, new: &RegistryEntry) -> bool {
    old.name == new.name && old.config.is_same(&new.config) && old.definitions == new.definitions
}

#[cfg(test)]
mod tests;
