//! The task that looks after a worker's gate: it lets in those who wait, sheds, reports to what
//! the workers share, and takes passes back that nobody gives back.

use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Instant;

use flow::capacity::{REPORT_INTERVAL, Report};
use flow::gate::{Left, Pass};
use flow::lender::OwnDemand;
use tokio::time::sleep_until;

use super::{Admitted, AppGate, Lingering, TIMER_STEP};

/// Reports once more when the task ends before its work: the worker ends, and the others need what
/// it has.
struct LastReport(Rc<AppGate>);

impl Drop for LastReport {
    fn drop(&mut self) {
        if self.0.is_active.get() {
            self.0.end(Instant::now());
        }
    }
}

impl AppGate {
    pub(super) fn start(self: &Rc<Self>) {
        self.is_active.set(true);
        tokio::task::spawn_local(Rc::clone(self).look_after());
    }

    /// Lets in, sheds and reports until nothing is left to do.
    async fn look_after(self: Rc<Self>) {
        let _last_report = LastReport(Rc::clone(&self));
        let mut report_at = Instant::now() + REPORT_INTERVAL;
        while self.is_active.get() {
            let expiry = self.gate.borrow().poll_timeout().map(|expiry| expiry + TIMER_STEP);
            let looks =
                expiry.into_iter().chain(self.settled_at()).chain(self.pauses_due(report_at));
            let due = looks.fold(report_at, Instant::min);
            tokio::select! {
                () = self.shared.woken(self.worker) => {}
                () = sleep_until(due.into()) => {}
            }
            let now = Instant::now();
            self.end_settling(now);
            if self.pauses_due(now).is_some_and(|due| due <= now) {
                self.look_at_pauses(now);
            }
            if report_at <= now || self.is_rejected.take() {
                self.end_lingering(now);
                self.report(now);
                report_at = now + REPORT_INTERVAL;
            } else {
                self.give_back(now);
            }
            self.poll(now);
        }
    }

    pub(super) fn poll(self: &Rc<Self>, now: Instant) {
        loop {
            let shed = self.gate.borrow_mut().poll_shed(now);
            if let Some((task, shed)) = shed {
                let _ = task.send(Err(self.shed(shed)));
                continue;
            }
            let is_settled = self.is_settled(now);
            let admitted = is_settled.then(|| self.gate.borrow_mut().poll_admitted(now)).flatten();
            let Some((task, pass)) = admitted else { break };
            let admitted = Admitted { gate: Rc::clone(self), pass: Some(pass) };
            if let Err(Ok(mut unused)) = task.send(Ok(admitted)) {
                // Its caller has just gone away, and the app has seen nothing of it.
                unused.leave(now, Left::Unknown);
            }
        }
    }

    /// Says what was seen since the last time, and learns what may be let in from now on.
    pub(super) fn report(&self, now: Instant) {
        let n_elsewhere = self.n_waiting_elsewhere();
        let (demand, sample) = {
            let mut gate = self.gate.borrow_mut();
            gate.want(n_elsewhere);
            (gate.take_demand(), gate.take_sample(now))
        };
        let demand = demand.saturating_add(self.n_waiting_at_links());
        self.look_at_lending(now, demand == 0);
        let n_ended = self.gate.borrow_mut().take_n_left();
        let report = Report { demand, in_flight: self.n_held(now), n_ended, sample };
        let n_waiting = self.gate.borrow().stats().n_waiting;
        let allowance = self.shared.report(now, self.worker, &report, n_waiting);
        self.set_allowance(now, allowance);
        // The next call starts a task again.
        self.is_active.set(report.demand != 0 || self.is_paused());
    }

    /// The worker keeps no more than what calls have that the app still works on.
    fn end(&self, now: Instant) {
        let (n_held, sample) = (self.n_held(now), self.gate.borrow_mut().take_sample(now));
        let report = Report { demand: n_held, in_flight: n_held, n_ended: 0, sample };
        self.shared.report(now, self.worker, &report, 0);
    }

    /// Returns what this worker may no longer use, and learns what it may.
    fn give_back(&self, now: Instant) {
        self.look_at_lending(now, false);
        let n_waiting = self.n_waiting_elsewhere().saturating_add(self.n_waiting_at_links());
        let (in_flight, demand) = (self.n_held(now), self.demand().saturating_add(n_waiting));
        let own = OwnDemand { in_flight, demand };
        let n_ended = self.gate.borrow_mut().take_n_left();
        if let Some(allowance) = self.shared.returned(now, self.worker, own, n_ended) {
            self.set_allowance(now, allowance);
        }
    }

    /// Calls that wait elsewhere for room here. Those of one line count, as all wait for the same.
    fn n_waiting_elsewhere(&self) -> u32 {
        self.elsewhere.borrow().iter().map(|it| it.n_waiting).max().unwrap_or_default()
    }

    /// Takes back the passes of calls that the app has ended, or that nobody knows anything about.
    fn end_lingering(&self, now: Instant) {
        let mut lingering = self.lingering.borrow_mut();
        let Lingering { given_up, one_way, n_late, .. } = &mut *lingering;
        let late = self.late_ends.borrow().as_ref().and_then(|late| late());
        let n_before = std::mem::replace(n_late, late.unwrap_or_default());
        // With other connections than before, those of then have ended.
        let n_ended = late.and_then(|late| late.checked_sub(n_before));
        let n_ended = n_ended.map_or(usize::MAX, |n| usize::try_from(n).unwrap_or(usize::MAX));
        let n_ended = n_ended.min(given_up.len());
        let ended: Vec<Pass> = given_up.drain(..n_ended).map(|(_, pass)| pass).collect();
        let expired = |calls: &mut VecDeque<(Instant, Pass)>| {
            let n = calls.iter().take_while(|(until, _)| *until <= now).count();
            calls.drain(..n).map(|(_, pass)| pass).collect::<Vec<Pass>>()
        };
        let forgotten = [expired(given_up), expired(one_way)];
        drop(lingering);
        ended.into_iter().for_each(|pass| self.leave(pass, now, Left::Unanswered));
        forgotten.into_iter().flatten().for_each(|pass| self.leave(pass, now, Left::Unknown));
    }
}
