//! Services that are called and that a worker does not look up, because nobody offers them: their
//! calls are counted and shown as those of other services are.
//!
//! Callers make names up. Some have a label of their own; the others count as `other`.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use dubbo_proto::ServiceKey;

use crate::error::Code;
use crate::metrics::{CallStats, Hub};

/// One that nobody has called for this long is not shown any more. What was counted stays.
const IDLE_TTL: Duration = Duration::from_secs(30);

/// Those that one worker's callers have asked for lately, as many as have labels.
pub struct UnofferedServices {
    hub: Hub,
    /// By label and registry.
    recent: RefCell<BTreeMap<(String, usize), UnofferedService>>,
}

struct UnofferedService {
    /// `None` of what counts as `other`.
    key: Option<ServiceKey>,
    stats: Arc<CallStats>,
    called_at: Instant,
}

impl UnofferedServices {
    /// None yet.
    pub fn new(hub: Hub) -> Self {
        Self { hub, recent: RefCell::default() }
    }

    /// Counts a call of a service of that registry. It came at `started`, and has failed.
    #[cold]
    pub fn count(&self, registry: usize, service: &ServiceKey, started: Instant, code: Code) {
        let (name, now) = (service.to_string(), Instant::now());
        let label = self.hub.label_of_unknown(&name);
        let mut recent = self.recent.borrow_mut();
        let counted = recent.entry((label.to_owned(), registry)).or_insert_with(|| {
            let key = (*label == name).then(|| service.clone());
            UnofferedService { key, stats: self.hub.without_endpoint(&name, false), called_at: now }
        });
        counted.called_at = now;
        counted.stats.started();
        counted.stats.finished(now.saturating_duration_since(started), Some(code as u8));
    }

    /// Forgets those that nobody has called for a while.
    pub fn sweep(&self, now: Instant) {
        let is_recent = |called_at| now.saturating_duration_since(called_at) < IDLE_TTL;
        self.recent.borrow_mut().retain(|_, it| is_recent(it.called_at));
    }

    /// The label and the registry's number of each, and its key if the label is its own.
    pub fn each(&self, mut action: impl FnMut(&str, usize, Option<&ServiceKey>)) {
        for ((label, registry), service) in &*self.recent.borrow() {
            action(label, *registry, service.key.as_ref());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_calls_are_counted_and_only_some_names_are_shown() {
        let hub = Hub::new(&Code::NAMES);
        let services = UnofferedServices::new(hub.clone());
        let now = Instant::now();
        for n in 0..1000 {
            let key = ServiceKey::new(&format!("made.Up{n}"), "", "").unwrap();
            services.count(0, &key, now, Code::ServiceNotFound);
            services.count(0, &key, now, Code::ServiceNotFound);
        }
        let mut shown = Vec::new();
        services.each(|label, _, key| shown.push((label.to_owned(), key.is_some())));
        assert!(shown.contains(&("made.Up0".to_owned(), true)), "{shown:?}");
        assert!(shown.contains(&("other".to_owned(), false)), "{shown:?}");
        assert!(shown.len() < 100, "{shown:?}");
        let failed = hub.failed_without_endpoint();
        assert_eq!(failed.values().flat_map(BTreeMap::values).sum::<u64>(), 2000);
        services.sweep(now + 2 * IDLE_TTL);
        services.each(|label, _, _| panic!("{label} is still shown"));
        let failed = hub.failed_without_endpoint();
        assert_eq!(failed.values().flat_map(BTreeMap::values).sum::<u64>(), 2000);
    }
}
