//! An app that is a Dubbo provider, and whether it offers the service yet.
//!
//! A provider that starts opens its port before all of its services are exported, and refuses
//! their calls until then. So an app that was away is asked first, by the `$echo` that every
//! exported service answers (`EchoFilter`). One that was there from the beginning is not.

use std::cell::Cell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use dubbo_proto::{DEFAULT_PAYLOAD_LIMIT, Serialization, ServiceKey};
use hessian::JavaType;
use tokio::sync::Notify;
use tokio::task::AbortHandle;
use tracing::warn;
use wire::Backoff;

use crate::args::ArgumentList;
use crate::call::{Call, Outcome, Payload, Times};
use crate::error::Code;
use crate::route::{ParameterTypes, Plan, Route, RoutePlace};
use crate::upstream::dubbo::{self, DubboPeer};
use crate::upstream::{CallForm, Lanes, SetupShare, Standing};

/// How long an answer is waited for. An app that gives none is taken for one that knows no
/// `$echo`.
const PATIENCE: Duration = Duration::from_secs(3);
/// How long until an app is asked again that does not offer the service yet.
const MIN_PAUSE: Duration = Duration::from_millis(50);
const MAX_PAUSE: Duration = Duration::from_secs(1);
/// So often in a row an app may hang up when asked before it gets calls unasked. One that ends may
/// do so once or twice, before another takes its place.
const MAX_HANG_UPS: u32 = 5;
/// After so long somebody should know that it does not.
const WARN_AFTER: Duration = Duration::from_secs(10);

/// An app that is a Dubbo provider itself.
#[derive(Clone)]
pub struct DubboApp {
    /// What the app speaks.
    pub serialization: Serialization,
    /// The connections to it.
    pub upstream: Rc<Lanes<DubboPeer>>,
    /// How the export wants them to be.
    _setup: Rc<SetupShare>,
    asking: Rc<Asking>,
}

/// Dropped, it ends.
struct Asking {
    state: Rc<OfferState>,
    task: AbortHandle,
}

/// What is known of an app that can be reached.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
enum ServiceOffer {
    /// It has the service, or need not be asked.
    #[default]
    Offered,
    /// It was away, and has not said yet whether it has the service.
    Unknown,
    /// It has no such service.
    Absent,
}

#[derive(Default)]
struct OfferState {
    offer: Cell<ServiceOffer>,
    changed: Notify,
}

impl DubboApp {
    /// The app that these connections lead to. Must be called on a worker's runtime.
    pub fn start(
        service: &ServiceKey,
        serialization: Serialization,
        upstream: Rc<Lanes<DubboPeer>>,
        setup: SetupShare,
    ) -> Self {
        let state: Rc<OfferState> = Rc::default();
        let question = EchoQuestion::new(service, serialization, &upstream, &state);
        let task = tokio::task::spawn_local(question.keep_asking()).abort_handle();
        let asking = Rc::new(Asking { state, task });
        Self { serialization, upstream, _setup: Rc::new(setup), asking }
    }

    /// Whether it takes calls of the service.
    pub fn standing(&self) -> Standing {
        standing(self.upstream.standing(), self.asking.state.offer.get())
    }

    /// Waits until [`DubboApp::standing`] may have changed.
    pub async fn changed(&self) {
        tokio::select! {
            () = self.upstream.changed() => {}
            () = self.asking.state.changed.notified() => {}
        }
    }

    /// Why it takes no calls, where it does not.
    pub fn trouble(&self) -> &'static str {
        match is_up(self.upstream.standing()) {
            true => "does not offer it yet",
            false => "cannot be reached",
        }
    }
}

impl Drop for Asking {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl OfferState {
    fn note(&self, offer: ServiceOffer) {
        if self.offer.replace(offer) != offer {
            self.changed.notify_waiters();
        }
    }
}

/// The standing of a service, by that of its app and what is known of its offer.
fn standing(app: Standing, offer: ServiceOffer) -> Standing {
    match offer {
        ServiceOffer::Unknown | ServiceOffer::Absent if is_up(app) => Standing::Down,
        _ => app,
    }
}

fn is_up(standing: Standing) -> bool {
    matches!(standing, Standing::Ready | Standing::Full)
}

/// `$echo` of one service.
struct EchoQuestion {
    service: ServiceKey,
    serialization: Serialization,
    lanes: Rc<Lanes<DubboPeer>>,
    state: Rc<OfferState>,
    echo: Rc<Route>,
}

impl EchoQuestion {
    fn new(
        service: &ServiceKey,
        serialization: Serialization,
        lanes: &Rc<Lanes<DubboPeer>>,
        state: &Rc<OfferState>,
    ) -> Self {
        let parameters = ParameterTypes::Given(vec![JavaType::class("java.lang.Object")]);
        // It is in no table.
        let place = RoutePlace { index: 0, generation: 0 };
        let echo = Route::new(place, service, "$echo", parameters, Plan::default());
        let (lanes, state) = (Rc::clone(lanes), Rc::clone(state));
        Self { service: service.clone(), serialization, lanes, state, echo: Rc::new(echo) }
    }

    /// Asks each time that the app is back.
    async fn keep_asking(self) {
        let mut n_hang_ups = 0;
        loop {
            self.until(|standing| standing == Standing::Down).await;
            self.state.note(ServiceOffer::Unknown);
            self.until(is_up).await;
            // Whoever hangs up each time that it is asked may know no better.
            if n_hang_ups == MAX_HANG_UPS {
                n_hang_ups = 0;
                self.state.note(ServiceOffer::Offered);
            } else {
                n_hang_ups = if self.ask().await { n_hang_ups + 1 } else { 0 };
            }
        }
    }

    async fn until(&self, wanted: impl Fn(Standing) -> bool) {
        while !wanted(self.lanes.standing()) {
            self.lanes.changed().await;
        }
    }

    /// Asks until the app offers the service, or is away. Whether it has hung up.
    async fn ask(&self) -> bool {
        let (since, mut is_told) = (Instant::now(), false);
        let mut pauses = Backoff::new(MIN_PAUSE, MAX_PAUSE);
        while is_up(self.lanes.standing()) {
            match self.echo().await {
                Err(error) if error.code == Code::ServiceNotFound => {
                    self.state.note(ServiceOffer::Absent);
                    if WARN_AFTER <= since.elapsed() && !std::mem::replace(&mut is_told, true) {
                        warn!(
                            service = %self.service, app = %self.lanes.address(),
                            reason = %error.message,
                            "the app does not offer the service; it is registered as soon as the \
                             app does; check interface, version and group"
                        );
                    }
                }
                Err(error) if error.code == Code::ConnectionBroken => return true,
                // It went away before it was asked.
                Err(error) if error.code == Code::Unreachable => {}
                _ => {
                    self.state.note(ServiceOffer::Offered);
                    return false;
                }
            }
            tokio::time::sleep(pauses.next_wait()).await;
        }
        false
    }

    async fn echo(&self) -> Outcome {
        let now = Instant::now();
        let args = ArgumentList::of_values(vec![b"null"]);
        let call = Call {
            method: &self.echo,
            payload: Payload::Json(&args),
            attachments: &[],
            times: Times { now, deadline: now + PATIENCE },
            one_way: false,
            clock: None,
            headers: None,
            not_at: None,
        };
        let (variant, serialization) = (&self.echo.own, self.serialization);
        let payload_limit = DEFAULT_PAYLOAD_LIMIT;
        let form = CallForm { variant, serialization, path: None, payload_limit };
        dubbo::call(&self.lanes, &call, form).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_app_that_offers_the_service_takes_its_calls() {
        use Standing::{Connecting, Down, Full, Ready};
        for (app, offer, expected) in [
            (Connecting, ServiceOffer::Offered, Connecting),
            (Ready, ServiceOffer::Offered, Ready),
            (Full, ServiceOffer::Offered, Full),
            (Down, ServiceOffer::Offered, Down),
            (Down, ServiceOffer::Unknown, Down),
            (Ready, ServiceOffer::Unknown, Down),
            (Ready, ServiceOffer::Absent, Down),
            (Full, ServiceOffer::Absent, Down),
        ] {
            assert_eq!(standing(app, offer), expected, "{app:?}, {offer:?}");
        }
    }
}
