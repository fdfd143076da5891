//! What unit tests of a worker's parts have in common. Endpoints and apps are at addresses where
//! nothing listens, so that a test decides itself what they would answer.

use std::borrow::Cow;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::task::LocalSet;
use wire::{Account, Budget, Group};

use crate::connections::Connections;
use crate::facts::CallFacts;
use crate::gate::{DirectGates, OwnGates};
use crate::memory::Memory;
use crate::upstream::Pool;

/// A host and port where nothing listens.
pub(crate) const NOWHERE: (&str, u16) = ("127.0.0.1", 1);

/// Longest time that anything may take that a test waits for.
const PATIENCE: Duration = Duration::from_secs(30);

/// Runs a test where upstreams can begin to connect. They get no further, unless the test waits.
pub(crate) fn on_worker(test: impl AsyncFnOnce()) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    LocalSet::new().block_on(&runtime, test());
}

/// Upstreams that may hold as much as they like.
pub(crate) fn pool() -> Rc<Pool> {
    let memory = Rc::new(Memory::new(Budget::new(usize::MAX), Group::new()));
    let gates = OwnGates::new(Arc::new(DirectGates::new(1)), 0);
    Rc::new(Pool::new("test", memory, Connections::default(), gates))
}

/// The account of a connection that may hold as much as it likes.
pub(crate) fn account() -> Rc<Account> {
    Memory::new(Budget::new(usize::MAX), Group::new()).endpoint()
}

/// Lets tasks run until `look` finds what it looks for.
pub(crate) async fn until<T>(mut look: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(start.elapsed() < PATIENCE, "nothing within {PATIENCE:?}");
        tokio::task::yield_now().await;
    }
}

/// A call of which rules see nothing.
pub(crate) struct NoFacts;

impl CallFacts for NoFacts {
    fn method(&self) -> Cow<'_, str> {
        "echo".into()
    }

    fn attachment(&self, _: &str) -> Option<Cow<'_, str>> {
        None
    }

    fn argument(&self, _: usize) -> Option<Cow<'_, str>> {
        None
    }

    fn member(&self, _index: usize, _path: &[String]) -> Option<Cow<'_, str>> {
        None
    }
}
