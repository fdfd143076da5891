//! What a worker does with what it is told, without a connection.

use std::future::Future;
use std::task::{Context, Poll, Waker};

use super::*;
use crate::config::ClusterPolicy;
use crate::testing::{offer, on_worker, until, worker_setup};

const SERVICE: &str = "com.acme.Echo";

fn key() -> ServiceKey {
    ServiceKey::new(SERVICE, "", "").unwrap()
}

/// A worker without exports, and what the control thread tells it.
fn worker() -> (Rc<Worker>, mpsc::UnboundedSender<ToWorker>, mpsc::UnboundedReceiver<ToWorker>) {
    let (outbox, inbox) = mpsc::unbounded_channel();
    (Worker::new(worker_setup(Vec::new())), outbox, inbox)
}

#[test]
fn a_drain_waits_for_the_last_connection() {
    on_worker(async || {
        let (worker, outbox, inbox) = worker();
        let open = [OpenConnectionGuard::new(&worker), OpenConnectionGuard::new(&worker)];
        let mut run = pin!(Rc::clone(&worker).run(inbox));
        let mut poll = || run.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        assert!(poll().is_pending());
        outbox.send(ToWorker::Drain).ok().unwrap();
        assert!(poll().is_pending() && worker.is_draining());
        let [first, last] = open;
        drop(first);
        assert!(poll().is_pending(), "one is left");
        drop(last);
        assert_eq!(poll(), Poll::Ready(()));
    });
}

#[test]
fn an_idle_worker_stops_at_once_and_does_not_stop_by_itself() {
    on_worker(async || {
        let (worker, outbox, inbox) = worker();
        // A connection that has come and gone is no reason to stop.
        drop(OpenConnectionGuard::new(&worker));
        let mut run = pin!(Rc::clone(&worker).run(inbox));
        let mut poll = || run.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        assert!(poll().is_pending());
        outbox.send(ToWorker::Drain).ok().unwrap();
        assert_eq!(poll(), Poll::Ready(()));
    });
}

#[test]
fn a_worker_ends_with_the_control_thread() {
    on_worker(async || {
        let (worker, outbox, inbox) = worker();
        let _open = OpenConnectionGuard::new(&worker);
        drop(outbox);
        worker.run(inbox).await;
    });
}

#[test]
fn the_last_offer_of_a_service_counts() {
    on_worker(async || {
        let (worker, ..) = worker();
        assert!(worker.backend(&key()).is_none());
        let epoch = worker.rules_epoch();
        worker.handle(ToWorker::Offer(offer(SERVICE, 1)));
        let (first, _) = worker.backend(&key()).unwrap();
        assert_ne!(worker.rules_epoch(), epoch);
        worker.handle(ToWorker::Offer(offer(SERVICE, 2)));
        let (second, _) = worker.backend(&key()).unwrap();
        assert!(!Rc::ptr_eq(&first, &second));
        assert!(first.withdrawn_at().is_some() && second.withdrawn_at().is_none());

        // The end of the first offer comes late, and is not the end of the second one.
        let epoch = worker.rules_epoch();
        worker.handle(ToWorker::Withdraw(key(), 1));
        assert!(worker.backend(&key()).is_some());
        assert_eq!(worker.rules_epoch(), epoch);
        worker.handle(ToWorker::Withdraw(key(), 2));
        assert!(worker.backend(&key()).is_none());
        assert_ne!(worker.rules_epoch(), epoch);
    });
}

#[test]
fn what_sessions_remember_is_stale_once_the_rules_are_others() {
    on_worker(async || {
        let (worker, ..) = worker();
        let epoch = worker.rules_epoch();
        let default =
            ClusterPolicy { max_timeout: Duration::from_secs(7), ..ClusterPolicy::default() };
        let rules = ClusterRules { default, rules: Vec::new() };
        worker.handle(ToWorker::Rules(Arc::new(rules)));
        assert_ne!(worker.rules_epoch(), epoch);
        worker.handle(ToWorker::Offer(offer(SERVICE, 1)));
        assert_eq!(worker.backend(&key()).unwrap().1, Duration::from_secs(7));
    });
}

#[test]
fn an_app_out_of_reach_is_not_counted_as_reached() {
    on_worker(async || {
        let (worker, ..) = worker();
        let offer = offer(SERVICE, 1);
        let health = offer.health.subscribe();
        worker.handle(ToWorker::Offer(offer));
        let (backend, _) = worker.backend(&key()).unwrap();
        until(|| (backend.standing() == Standing::Down).then_some(())).await;
        assert_eq!(*health.borrow(), 0);
    });
}
