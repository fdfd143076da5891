//! How long calls may take by what providers have registered, or configurators say: Dubbo's
//! parameter `timeout`, and `{method}.timeout` for a single method, which counts more.

use std::cell::RefCell;
use std::collections::HashMap;
use std::time::Duration;

use parameters::Parameters;
use registry::Endpoint;

/// What stands after the name of a method.
const OF_METHOD: &str = ".timeout";
/// Dubbo 2 writes a provider's own default so; it is of no method.
const DEFAULT: &str = "default";
/// Methods whose timeouts are kept; Java has no larger interfaces.
const MAX_METHODS: usize = 1024;

/// The timeouts of one service. Of several endpoints the first that names one counts.
#[derive(Debug, Default)]
pub(super) struct RegisteredTimeouts(RefCell<Timeouts>);

#[derive(Debug, Default)]
pub(super) struct Timeouts {
    of_all: Option<Duration>,
    of_methods: HashMap<Box<str>, Duration>,
    /// Of the last endpoint: many have the very same.
    seen: Parameters,
}

impl Timeouts {
    /// Takes in what one more endpoint says.
    pub(super) fn add(&mut self, endpoint: &Endpoint) {
        self.of_all = self.of_all.or(endpoint.timeout);
        if self.seen.is_shared_with(&endpoint.params) {
            return;
        }
        self.seen = endpoint.params.clone();
        for (name, value) in endpoint.params.iter() {
            let Some(method) = name.strip_suffix(OF_METHOD).filter(|it| *it != DEFAULT) else {
                continue;
            };
            let ms = value.parse().ok().filter(|ms| 0 < *ms);
            let has_room = self.of_methods.len() < MAX_METHODS;
            if let Some(ms) = ms.filter(|_| has_room && !self.of_methods.contains_key(method)) {
                self.of_methods.insert(method.into(), Duration::from_millis(ms));
            }
        }
    }
}

impl RegisteredTimeouts {
    pub(super) fn set(&self, timeouts: Timeouts) {
        *self.0.borrow_mut() = timeouts;
    }

    /// How long calls of a method may take; of the service, if no method is named.
    pub(super) fn of(&self, method: Option<&str>) -> Option<Duration> {
        let timeouts = self.0.borrow();
        let own = method.and_then(|method| timeouts.of_methods.get(method).copied());
        own.or(timeouts.of_all)
    }
}

#[cfg(test)]
mod tests {
    use registry::Protocol;

    use super::*;

    #[test]
    fn a_methods_own_timeout_counts_more_and_the_first_endpoint_decides() {
        let endpoint = |params: &[(&str, &str)], timeout: Option<u64>| Endpoint {
            params: params.iter().copied().collect(),
            timeout: timeout.map(Duration::from_millis),
            ..Endpoint::new(Protocol::Dubbo, "h", 1)
        };
        let mut timeouts = Timeouts::default();
        for one in [
            endpoint(&[("find.timeout", "x"), ("place.timeout", "-5")], None),
            endpoint(&[("find.timeout", "100"), ("default.timeout", "7")], Some(2000)),
            endpoint(&[("find.timeout", "300"), ("list.timeout", "0")], Some(3000)),
        ] {
            timeouts.add(&one);
        }
        let registered = RegisteredTimeouts::default();
        registered.set(timeouts);
        let ms = |method| registered.of(method).map(|it| it.as_millis());
        assert_eq!(ms(Some("find")), Some(100));
        for method in [Some("place"), Some("list"), Some("default"), None] {
            assert_eq!(ms(method), Some(2000), "{method:?}");
        }
        registered.set(Timeouts::default());
        assert_eq!(ms(Some("find")), None);
    }
}
