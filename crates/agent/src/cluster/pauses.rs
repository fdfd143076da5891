//! Endpoints that pause: they have calls, nothing comes from them, and a question to their
//! connection stays open. That takes milliseconds to find out, long before a call is late.
//!
//! New calls go to others meanwhile. If there is no other one that takes calls, they go there all
//! the same: most pauses are short, such as those of a garbage collector. The question is put
//! again now and then, and a call goes there as a trial.

use std::cell::Cell;
use std::time::Instant;

use balance::{Balancer, Slot};
use flow::pause::{self, Pause, PauseLook};

use super::{Cluster, Member, Standing};

/// As many endpoints are looked at in one step; where there are more they take turns.
const LOOK_MAX: usize = 64;
/// What is said of an endpoint that pauses.
const PAUSES: &str = "it pauses: it has calls in flight and does not answer when asked for a sign of \
                      life; until it answers, new calls go to others, but for a trial call now and \
                      then";

impl Cluster {
    /// Asks endpoints that have calls for a sign of life, if none came lately, and takes note of
    /// those that give none.
    #[inline]
    pub(super) fn look_at_pauses(&self, now: Instant) {
        if self.pauses.due.get().is_none_or(|due| due <= now) {
            self.look_now(now);
        }
    }

    /// Whether endpoints pause.
    pub(super) fn has_pauses(&self) -> bool {
        self.pauses.is_any.get()
    }

    #[cold]
    fn look_now(&self, now: Instant) {
        let pauses = &self.pauses;
        let mut due = now + pause::LOOK_STEP;
        let balancer = self.balancer.borrow();
        let from = pauses.look_from.get();
        let usual = balancer.usual_latency();
        let n_listed = balancer.len();
        // Alone, an endpoint gets every call anyway, and none can leave it.
        let has_others = 1 < n_listed;
        for stats in balancer.stats_from(from).take(LOOK_MAX) {
            let member = &stats.key.0;
            // One that pauses may have no calls any more when they have timed out.
            let has_calls = stats.in_flight != 0 || member.pause.get().is_some();
            let quiet = pause::patience(usual, stats.in_flight);
            let look = match has_others && has_calls {
                true => member.upstream.look_for_pause(&member.service_name, now, quiet),
                false => PauseLook::works(now),
            };
            let before = member.pause.get();
            member.pause.set(look.since.map(|since| before.unwrap_or(Pause::begun(since))));
            if n_listed <= LOOK_MAX {
                due = due.min(look.due);
            }
            if look.since.is_some() {
                pauses.is_any.set(true);
                pauses.was_found.set(true);
            }
        }
        pauses.due.set(Some(due));
        if from + LOOK_MAX < n_listed {
            pauses.look_from.set(from + LOOK_MAX);
        } else {
            pauses.look_from.set(0);
            pauses.is_any.set(pauses.was_found.take());
        }
    }

    /// A call goes to an endpoint: if that pauses, it may be a trial.
    #[inline]
    pub(super) fn note_trial(&self, member: &Member, now: Instant) {
        if self.pauses.is_any.get() {
            let pause = &member.0.pause;
            pause.set(pause.get().map(|pause| pause.tried(now)));
        }
    }

    /// Why an endpoint that is up gets hardly any calls, if it pauses.
    pub(super) fn why_paused(&self, member: &Member) -> Option<String> {
        let is_up = matches!(self.standing(member), Standing::Ready | Standing::Full);
        (is_up && member.0.pause.get().is_some()).then(|| PAUSES.to_owned())
    }

    /// Chooses an endpoint for a call, one that does not pause if there is one.
    #[inline]
    pub(super) fn pick(
        &self,
        balancer: &mut Balancer<Member>,
        now: Instant,
        point: Option<u32>,
        usable: impl Fn(&Member) -> bool,
    ) -> Option<Slot> {
        if self.pauses.is_any.get() {
            let pauses = |pause: Pause| !pause.is_trial_due(now);
            let works =
                |member: &Member| !member.0.pause.get().is_some_and(pauses) && usable(member);
            let slot = self.preference.pick(balancer, now, point, works);
            if let Some(slot) = slot.filter(|slot| !balancer.is_last_choice(*slot, now)) {
                return Some(slot);
            }
        }
        self.preference.pick(balancer, now, point, usable)
    }
}

/// What a cluster knows of its endpoints' pauses.
#[derive(Default)]
pub(super) struct Pauses {
    /// When endpoints are looked at next.
    due: Cell<Option<Instant>>,
    /// Where the next look begins.
    look_from: Cell<usize>,
    /// Whether one has been found since the first of them was looked at last.
    was_found: Cell<bool>,
    is_any: Cell<bool>,
}
