//! Whether an HTTP app can be reached: asked regularly, and remembered.

use std::cell::Cell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use tokio::sync::Notify;
use tokio::task::AbortHandle;
use tracing::{info, warn};

use super::pool::{HttpPool, PoolLimits};
use crate::config::http_app::HealthConfig;
use crate::config::http_app::origin::AppOrigin;
use crate::upstream::Standing;

/// The health checks of an app, and what is known by them. They end when it is dropped.
pub struct Health {
    state: Rc<HealthState>,
    checks: AbortHandle,
}

struct HealthState {
    standing: Cell<Standing>,
    changed: Notify,
    soon: Notify,
}

/// An app that is away is asked at least as often: a start should not have to wait for the next
/// turn.
const AWAY_INTERVAL: Duration = Duration::from_millis(250);
/// Longest body of a health check's answer that is read; it says nothing to us.
const MAX_ANSWER_LEN: usize = 64 * 1024;

impl Health {
    /// Begins to look after the app at `origin`. Must be called on the worker's runtime.
    pub fn watch(origin: &AppOrigin, config: &HealthConfig) -> Self {
        let state = Rc::new(HealthState {
            standing: Cell::new(Standing::Connecting),
            changed: Notify::new(),
            soon: Notify::new(),
        });
        let limits = PoolLimits {
            max_connections: 1,
            max_in_flight: 1,
            connect_timeout: config.timeout,
            // Each check is to show that the app takes new connections.
            idle_timeout: Duration::ZERO,
            max_answer_len: MAX_ANSWER_LEN,
        };
        let pool = HttpPool::new(origin.clone(), limits, None);
        let checks = Checks { origin: origin.clone(), config: config.clone(), pool };
        let checks = tokio::task::spawn_local(checks.run(Rc::clone(&state))).abort_handle();
        Self { state, checks }
    }

    /// The app's state.
    pub fn standing(&self) -> Standing {
        self.state.standing.get()
    }

    /// Waits until [`Health::standing`] may have changed.
    pub async fn changed(&self) {
        self.state.changed.notified().await;
    }

    /// The next check is made now.
    pub fn check_soon(&self) {
        self.state.soon.notify_one();
    }

    /// Ends the checks: what was known last stays.
    pub fn end(&self) {
        self.checks.abort();
    }
}

impl Drop for Health {
    fn drop(&mut self) {
        self.end();
    }
}

impl HealthState {
    fn note(&self, address: &str, standing: Standing, reason: &str) {
        let before = self.standing.replace(standing);
        if before == standing {
            return;
        }
        match standing {
            Standing::Ready => info!(app = address, "the app can be reached"),
            _ => warn!(app = address, reason, "the app cannot be reached"),
        }
        self.changed.notify_waiters();
    }
}

struct Checks {
    origin: AppOrigin,
    config: HealthConfig,
    pool: HttpPool,
}

impl Checks {
    async fn run(self, health: Rc<HealthState>) {
        let address = self.origin.address();
        let mut n_failed = 0;
        loop {
            let result = self.check().await;
            match result {
                Ok(()) => {
                    n_failed = 0;
                    health.note(&address, Standing::Ready, "");
                }
                Err(reason) => {
                    n_failed += 1;
                    // An app that was never there need not prove that it is away.
                    if self.config.n_failures <= n_failed
                        || health.standing.get() != Standing::Ready
                    {
                        health.note(&address, Standing::Down, &reason);
                    }
                }
            }
            let interval = match health.standing.get() {
                Standing::Ready | Standing::Full => self.config.interval,
                Standing::Connecting | Standing::Down => self.config.interval.min(AWAY_INTERVAL),
            };
            tokio::select! {
                () = tokio::time::sleep(interval) => {}
                () = health.soon.notified() => {}
            }
        }
    }

    async fn check(&self) -> Result<(), String> {
        let Some(path) = &self.config.path else {
            let connected = self.origin.connect(self.config.timeout).await;
            return connected.map(drop).map_err(|error| format!("cannot connect: {error}"));
        };
        let request = Request::get(path.as_str())
            .header(http::header::HOST, self.origin.host())
            .header(http::header::CONNECTION, "close")
            .body(Full::new(Bytes::new()))
            .map_err(|error| error.to_string())?;
        let answer = self.pool.send(request, None, Instant::now() + self.config.timeout).await;
        match answer {
            Ok(answer) if answer.status.is_success() => Ok(()),
            Ok(answer) => Err(format!("{path} returned {}", answer.status)),
            Err(error) => Err(format!("{path}: {}", error.message)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::backend::{App, Backend, Backends, GateSetup, WorkerGates};
    use crate::error::Code;
    use crate::gate::SharedGate;
    use crate::metrics::Hub;
    use crate::testing::{exporting, on_worker, pool, until};

    /// An export of an app that nobody can reach, and the task that asks for the app.
    fn export() -> (Rc<Backend>, AbortHandle) {
        let config = exporting("http://127.0.0.1:1");
        let [export] = &config.exports[..] else { panic!("there is one") };
        let shared = Arc::new(SharedGate::new(export.app.address(), export.capacity, 1));
        let gate = GateSetup { shared: &shared, worker: 0, gates: &WorkerGates::default() };
        let hub = Hub::new(&Code::NAMES);
        let backend = Backend::start(export, &pool(), &config.clusters, &hub, &gate);
        let App::Http(app) = &backend.app else { panic!("it speaks HTTP") };
        let checks = app.health().checks.clone();
        (Rc::new(backend), checks)
    }

    async fn ended(checks: &AbortHandle) {
        until(|| checks.is_finished().then_some(())).await;
    }

    #[test]
    fn checks_end_with_what_they_are_for() {
        on_worker(async || {
            let backends = Backends::default();
            let ((first, of_first), (second, of_second)) = (export(), export());
            backends.offer(1, &first);
            until(|| (first.standing() == Standing::Down).then_some(())).await;
            assert!(!of_first.is_finished());
            backends.offer(2, &second);
            ended(&of_first).await;
            assert!(!of_second.is_finished(), "it has taken the place of the first");
            backends.withdraw(&second.service, 2);
            ended(&of_second).await;
            let (unused, of_unused) = export();
            drop(unused);
            ended(&of_unused).await;
        });
    }
}
