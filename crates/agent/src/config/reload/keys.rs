//! The keys of a section that differ between two configurations, as they are shown.

use serde_json::{Map, Value};

use crate::config::Config;

/// A section that has another one of these is another section.
const IDENTITY: [&str; 3] = ["name", "kind", "protocol"];

/// The keys of a section that have changed, each with the section that it is of: `admin.hosts`,
/// `ingress.head_timeout_ms of 127.0.0.1:20000`. The section alone, if there are more or fewer of
/// it, or if what has changed is not shown.
pub(super) fn changed(section: &str, old: &Config, new: &Config) -> Vec<String> {
    let [old, new] = [old, new].map(|config| config.shown(None)[section].take());
    let keys = match (&old, &new) {
        (Value::Object(old), Value::Object(new)) => of_one(section, old, new),
        (Value::Array(old), Value::Array(new)) => of_several(section, old, new),
        _ => Vec::new(),
    };
    if keys.is_empty() { vec![section.to_owned()] } else { keys }
}

fn of_one(section: &str, old: &Map<String, Value>, new: &Map<String, Value>) -> Vec<String> {
    let added = new.keys().filter(|key| !old.contains_key(*key));
    let keys = old.keys().chain(added);
    let changed = keys.filter(|key| old.get(*key) != new.get(*key));
    changed.map(|key| format!("{section}.{key}")).collect()
}

/// Of sections that have names, or addresses in the place of names.
fn of_several(section: &str, old: &[Value], new: &[Value]) -> Vec<String> {
    if old.len() != new.len() {
        return Vec::new();
    }
    let mut changed = Vec::new();
    for (old, new) in old.iter().zip(new).filter(|(old, new)| old != new) {
        let (Value::Object(old), Value::Object(new)) = (old, new) else { continue };
        if IDENTITY.iter().any(|key| old.get(*key) != new.get(*key)) {
            return Vec::new();
        }
        let name = old.get("name").or_else(|| old.get("listen")).and_then(Value::as_str);
        let keys = of_one(section, old, new).into_iter();
        changed.extend(keys.map(|key| match name {
            Some(name) => format!("{key} of {name}"),
            None => key,
        }));
    }
    changed
}
