//! How much of the event loop's time those have used who were never answered.
//!
//! They are a crowd that has just come, hostile peers, or a client that connects anew. All
//! together they have a part of the time that passes. When it is used, those origins have to rest
//! that have used more than a little themselves: who connects from elsewhere meanwhile goes on at
//! once. Nobody has to rest unless others call from elsewhere who are known.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::by_origin::Origin;

/// All of them may use so much at once, and one part of so many of what passes.
const TIME: Duration = Duration::from_millis(5);
const PARTS: u32 = 4;
/// The same where nobody calls from elsewhere.
const PARTS_ALONE: u32 = 2;
/// The same for each origin, when that is used.
const OWN_TIME: Duration = Duration::from_millis(2);
const OWN_PARTS: u32 = 64;
/// So many origins have a time of their own. Others, if so many have used theirs, have none.
const MAX_ORIGINS: usize = 64;
/// For so long those count who have called, and what was used however much it is.
const FORGET: Duration = Duration::from_secs(1);

/// What was used, and by whom: as the instants by which all of it is forgiven (virtual scheduling,
/// as the generic cell rate algorithm of ITU-T I.371 does it).
#[derive(Debug, Default)]
pub(super) struct NewTime {
    until: Cell<Option<Instant>>,
    by_origin: RefCell<BTreeMap<Origin, Instant>>,
    known: KnownCallers,
}

impl NewTime {
    /// Somebody from there who is known has a turn.
    pub(super) fn note_known(&self, origin: Origin, now: Instant) {
        self.known.note(origin, now);
    }

    /// Somebody from there who was never answered had a turn.
    pub(super) fn spend(&self, origin: Origin, now: Instant, time: Duration) {
        let add = |until: Option<Instant>, time: Duration| {
            let until = until.map_or(now, |until| until.max(now)) + time;
            until.min(now + FORGET)
        };
        let parts = if self.is_beside_others(origin, now) { PARTS } else { PARTS_ALONE };
        self.until.set(Some(add(self.until.get(), time * parts)));
        let mut by_origin = self.by_origin.borrow_mut();
        if MAX_ORIGINS <= by_origin.len() && !by_origin.contains_key(&origin) {
            by_origin.retain(|_, until| is_over(*until, now, OWN_TIME * OWN_PARTS));
            if MAX_ORIGINS <= by_origin.len() {
                return;
            }
        }
        let until = by_origin.get(&origin).copied();
        by_origin.insert(origin, add(until, time * OWN_PARTS));
    }

    /// Whether those from there have used their time, and others want theirs. Those of the same
    /// origin do not count: they could not be told from them while they were new.
    pub(super) fn has_to_rest(&self, origin: Origin, now: Instant) -> bool {
        self.is_spent(origin, now) && self.is_beside_others(origin, now)
    }

    /// Whether those from there have used their time.
    pub(super) fn is_spent(&self, origin: Origin, now: Instant) -> bool {
        if !self.until.get().is_some_and(|until| is_over(until, now, TIME * PARTS)) {
            return false;
        }
        let by_origin = self.by_origin.borrow();
        match by_origin.get(&origin) {
            Some(until) => is_over(*until, now, OWN_TIME * OWN_PARTS),
            None => MAX_ORIGINS <= by_origin.len(),
        }
    }

    /// Whether others have called lately who are known, from elsewhere.
    pub(super) fn is_beside_others(&self, origin: Origin, now: Instant) -> bool {
        self.known.have_called_beside(origin, now)
    }
}

/// Whether more was used than may be at once.
fn is_over(until: Instant, now: Instant, allowance: Duration) -> bool {
    now + allowance < until
}

/// From where those who are known had turns last: from one origin, and from another before it.
#[derive(Debug, Default)]
struct KnownCallers {
    last: Cell<Option<(Origin, Instant)>>,
    other: Cell<Option<(Origin, Instant)>>,
}

impl KnownCallers {
    fn note(&self, origin: Origin, now: Instant) {
        let before = self.last.replace(Some((origin, now)));
        if before.is_some_and(|(before, _)| before != origin) {
            self.other.set(before);
        }
    }

    /// Whether some have called lately from elsewhere.
    fn have_called_beside(&self, origin: Origin, now: Instant) -> bool {
        let is_other = |(from, at)| from != origin && now < at + FORGET;
        self.last.get().is_some_and(is_other) || self.other.get().is_some_and(is_other)
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;

    fn origin(nth: u8) -> Origin {
        IpAddr::from([127, 0, 0, nth]).into()
    }

    #[test]
    fn all_have_a_part_of_the_time_and_each_a_little() {
        let (time, now) = (NewTime::default(), Instant::now());
        let (crowd, client, caller) = (origin(1), origin(2), origin(3));
        assert!(!time.is_spent(crowd, now));
        time.note_known(caller, now);
        time.spend(crowd, now, TIME);
        assert!(!time.is_spent(crowd, now), "it may be used at once");
        time.spend(crowd, now, OWN_TIME);
        assert!(time.is_spent(crowd, now) && !time.is_spent(client, now));
        time.spend(client, now, OWN_TIME);
        assert!(!time.is_spent(client, now));
        time.spend(client, now, Duration::from_nanos(1));
        assert!(time.is_spent(client, now));
        // What all have used is forgiven soon, and what each has used by and by.
        let later = now + (TIME + OWN_TIME) * PARTS;
        time.note_known(caller, later);
        assert!(!time.is_spent(crowd, later) && !time.is_spent(client, later));
        time.spend(caller, later, TIME * 2);
        assert!(time.is_spent(crowd, later) && !time.is_spent(client, later));
        // Time in which nobody used anything is not saved up.
        let late = later + FORGET * 100;
        time.note_known(caller, late);
        time.spend(crowd, late, TIME + OWN_TIME);
        assert!(time.is_spent(crowd, late));
    }

    #[test]
    fn only_those_from_elsewhere_are_spared() {
        let (time, now) = (NewTime::default(), Instant::now());
        let (here, elsewhere) = (origin(1), origin(2));
        for origin in [here, elsewhere] {
            time.spend(origin, now, FORGET);
        }
        assert!(!time.has_to_rest(here, now) && !time.has_to_rest(elsewhere, now));
        time.note_known(here, now);
        assert!(!time.has_to_rest(here, now) && time.has_to_rest(elsewhere, now));
        let later = now + FORGET / 2;
        time.note_known(elsewhere, later);
        time.note_known(elsewhere, later);
        assert!(time.has_to_rest(here, later) && time.has_to_rest(elsewhere, later));
        // Who has not called for long is not waited for.
        let late = now + FORGET;
        for origin in [here, elsewhere] {
            time.spend(origin, late, FORGET);
        }
        assert!(time.has_to_rest(here, late) && !time.has_to_rest(elsewhere, late));
    }

    #[test]
    fn who_is_alone_has_half_of_the_time() {
        let (time, now, here) = (NewTime::default(), Instant::now(), origin(1));
        time.spend(here, now, TIME * PARTS / PARTS_ALONE);
        assert!(!time.is_spent(here, now));
        time.spend(here, now, Duration::from_nanos(1));
        assert!(time.is_spent(here, now) && !time.has_to_rest(here, now));
    }

    /// Long after, an address may be somebody else's.
    #[test]
    fn what_was_used_is_forgotten_however_much_it_was() {
        let (time, now, here) = (NewTime::default(), Instant::now(), origin(1));
        (0..100).for_each(|_| time.spend(here, now, FORGET));
        let last = now + FORGET - OWN_TIME * OWN_PARTS;
        let is_spent = |at| time.is_spent(here, at);
        assert!(is_spent(last - Duration::from_nanos(1)) && !is_spent(last));
    }

    #[test]
    fn a_crowd_of_many_origins_has_no_more() {
        let (time, now) = (NewTime::default(), Instant::now());
        time.note_known(origin(0), now);
        let is_full = |time: &NewTime| time.by_origin.borrow().len() == MAX_ORIGINS;
        for nth in 1..=u8::MAX {
            time.spend(origin(nth), now, OWN_TIME * 2);
        }
        assert!(is_full(&time) && (1..=u8::MAX).all(|nth| time.is_spent(origin(nth), now)));
        // Who has been forgiven leaves the place to others.
        let later = now + OWN_TIME * OWN_PARTS;
        time.note_known(origin(0), later);
        time.spend(origin(200), later, TIME);
        assert!(time.is_spent(origin(200), later) && !time.is_spent(origin(201), later));
        assert_eq!(time.by_origin.borrow().len(), 1);
    }
}
