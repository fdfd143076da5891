//! Calls to endpoints that refuse, fail, fall silent, come and go, under a clock of its own.
//!
//! Each seed is one run and always the same one. A failing seed is printed; `SIM_SEED=n` runs it
//! alone, `SIM_SEEDS=n` runs so many (400 without it).
//!
//! What must hold:
//! - A call that may have begun is never sent again, to no endpoint and in no other form.
//! - No attempt begins after the deadline, nor does another form of one.
//! - A call goes to no endpoint twice, to no more endpoints than its limit, and to none that is
//!   down.
//! - A call is given up only when nothing is left that it may do.
//! - Every call ends, and then nothing counts as in flight.

#![expect(
    clippy::disallowed_methods,
    reason = "the simulated clock needs an instant to begin with"
)]

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use balance::{Balancer, EndpointSpec, Policy, Ticket};
use flow::{AttemptEnd, AttemptLimits, Attempts, GiveUp, NextAction, Retry, Rewrites, Standing};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

/// How long each call may take.
const LONGEST: Duration = Duration::from_millis(400);
const MAX_REWRITES: usize = 2;
/// No seed takes as many steps; a run that does never ends.
const MAX_STEPS: usize = 100_000;

#[test]
fn calls_are_tried_again_only_where_that_is_safe() {
    let number = |name| std::env::var(name).ok().and_then(|s: String| s.parse::<u64>().ok());
    let (first, n_seeds) = match number("SIM_SEED") {
        Some(seed) => (seed, 1),
        None => (0, number("SIM_SEEDS").unwrap_or(400)),
    };
    let mut total = EventCounts::default();
    for seed in first..first + n_seeds {
        match std::panic::catch_unwind(|| Sim::new(seed).run()) {
            Ok(tally) => total.add(&tally),
            Err(panic) => {
                eprintln!("failed with SIM_SEED={seed}");
                std::panic::resume_unwind(panic);
            }
        }
    }
    println!("{n_seeds} seeds from {first}: {total:?}");
    if 100 <= n_seeds {
        total.assert_everything_happened();
    }
}

/// How often each thing happened, so that a run that tests nothing is seen.
#[derive(Clone, Debug, Default)]
struct EventCounts(BTreeMap<&'static str, u64>);

impl EventCounts {
    fn count(&mut self, what: &'static str) {
        *self.0.entry(what).or_default() += 1;
    }

    fn add(&mut self, other: &Self) {
        for (what, n) in &other.0 {
            *self.0.entry(what).or_default() += n;
        }
    }

    fn assert_everything_happened(&self) {
        for what in [
            "answered",
            "cancelled",
            "connecting chosen",
            "deadline passed unanswered",
            "further attempt",
            "last failure",
            "may have begun",
            "no endpoint",
            "nothing known",
            "refused",
            "rewritten",
            "too late",
            "waited",
        ] {
            assert!(self.0.contains_key(what), "{what:?} has never happened: {self:?}");
        }
    }
}

/// What the network and the endpoints do with an attempt.
#[derive(Clone, Copy, Debug)]
enum Fate {
    Answer,
    /// The endpoint fails it so.
    Fail(Retry),
    /// Nothing comes back before the deadline.
    Silence,
    /// The caller goes away.
    Cancel,
}

struct RetryingCall {
    attempts: Attempts<u32>,
    rewrites: Rewrites,
    limits: AttemptLimits,
    tried: Vec<u32>,
    n_rewrites: usize,
    /// Somebody may have begun it.
    may_have_begun: bool,
    /// Every endpoint would say that it cannot read it.
    is_unreadable: bool,
}

/// An attempt that is under way.
struct Running {
    call: RetryingCall,
    endpoint: u32,
    ticket: Ticket,
    began: Instant,
    fate: Fate,
}

/// What happens at some time.
enum SimEvent {
    Call(RetryingCall),
    Ends(Running),
    Standings,
    Listed,
}

struct Sim {
    rng: StdRng,
    now: Instant,
    balancer: Balancer<u32>,
    standings: Vec<Standing>,
    listed: Vec<u32>,
    is_known: bool,
    /// By time, then in the order in which they were planned.
    events: BTreeMap<(Instant, u64), SimEvent>,
    n_planned: u64,
    n_open: usize,
    tally: EventCounts,
}

impl Sim {
    fn new(seed: u64) -> Self {
        let mut rng = StdRng::seed_from_u64(seed);
        let policy = Policy::ALL[rng.random_range(0..Policy::ALL.len())];
        let n_endpoints = rng.random_range(1..=6);
        Self {
            rng,
            now: Instant::now(),
            balancer: Balancer::new(policy),
            standings: vec![Standing::Connecting; n_endpoints],
            listed: Vec::new(),
            is_known: false,
            events: BTreeMap::new(),
            n_planned: 0,
            n_open: 0,
            tally: EventCounts::default(),
        }
    }

    fn run(mut self) -> EventCounts {
        let n_calls = self.rng.random_range(1..=80);
        for _ in 0..n_calls {
            let call = self.new_call();
            self.plan(call.limits.deadline - LONGEST, SimEvent::Call(call));
        }
        self.n_open = n_calls;
        for _ in 0..self.rng.random_range(1..=20) {
            let at = self.soon(1_500);
            self.plan(at, SimEvent::Standings);
            let at = self.soon(1_500);
            self.plan(at, SimEvent::Listed);
        }
        let mut n_steps = 0;
        while let Some(((at, _), event)) = self.events.pop_first() {
            n_steps += 1;
            assert!(n_steps < MAX_STEPS, "{} calls have not ended", self.n_open);
            self.now = at;
            match event {
                SimEvent::Call(call) => self.decide(call),
                SimEvent::Ends(running) => self.end(running),
                SimEvent::Standings => self.change_standings(),
                SimEvent::Listed => self.change_list(),
            }
        }
        self.check_end();
        self.tally
    }

    fn check_end(&self) {
        assert_eq!(self.n_open, 0, "calls have not ended");
        for stats in self.balancer.stats() {
            assert_eq!(stats.in_flight, 0, "endpoint {} keeps calls", stats.key);
            assert!(!stats.leaving, "endpoint {} never leaves", stats.key);
        }
    }

    fn new_call(&mut self) -> RetryingCall {
        let start = self.soon(1_000);
        let limits =
            AttemptLimits { max_attempts: self.rng.random_range(0..=4), deadline: start + LONGEST };
        RetryingCall {
            attempts: Attempts::new(limits),
            rewrites: Rewrites::new(limits.deadline, MAX_REWRITES),
            limits,
            tried: Vec::new(),
            n_rewrites: 0,
            may_have_begun: false,
            is_unreadable: false,
        }
    }

    fn soon(&mut self, max_ms: u64) -> Instant {
        self.now + Duration::from_micros(self.rng.random_range(0..max_ms * 1_000))
    }

    fn plan(&mut self, at: Instant, event: SimEvent) {
        self.n_planned += 1;
        self.events.insert((at, self.n_planned), event);
    }

    fn change_standings(&mut self) {
        for standing in &mut self.standings {
            *standing = match self.rng.random_range(0..10) {
                0..6 => Standing::Ready,
                6..8 => Standing::Connecting,
                _ => Standing::Down,
            };
        }
    }

    fn change_list(&mut self) {
        let all = 0..u32::try_from(self.standings.len()).expect("there are few");
        self.listed = all.filter(|_| self.rng.random_bool(0.8)).collect();
        let specs: Vec<EndpointSpec<u32>> = self
            .listed
            .iter()
            .map(|key| EndpointSpec { key: *key, weight: 1 + key % 3, warm_up: None })
            .collect();
        self.balancer.update(self.now, specs);
        self.is_known = true;
    }

    /// The endpoints that a call could be offered to, connected ones alone if there are any.
    fn candidates(&self, call: &RetryingCall) -> Vec<u32> {
        let standing_so = |wanted| {
            let is_so = |key: &&u32| self.standings[**key as usize] == wanted;
            let left = self.listed.iter().filter(|key| !call.tried.contains(key));
            left.filter(is_so).copied().collect::<Vec<u32>>()
        };
        let ready = standing_so(Standing::Ready);
        if ready.is_empty() { standing_so(Standing::Connecting) } else { ready }
    }

    fn decide(&mut self, call: RetryingCall) {
        let standing = |key: &u32| self.standings[*key as usize];
        let next = call.attempts.next(
            self.now,
            self.is_known,
            &mut self.balancer,
            &mut self.rng,
            standing,
        );
        let candidates = self.candidates(&call);
        match next {
            NextAction::Offer(slot) => {
                let endpoint = *self.balancer.key(slot).expect("what is chosen is there");
                assert!(candidates.contains(&endpoint), "{endpoint} is none of {candidates:?}");
                self.check_attempt(&call);
                if self.standings[endpoint as usize] == Standing::Connecting {
                    self.tally.count("connecting chosen");
                }
                let ticket = self.balancer.begin(slot);
                self.send(call, endpoint, ticket, self.now);
            }
            NextAction::Queue => panic!("no endpoint is full here"),
            NextAction::Wait => {
                assert!(!self.is_known && self.now < call.limits.deadline);
                self.tally.count("waited");
                let at = self.soon(50).min(call.limits.deadline);
                self.plan(at, SimEvent::Call(call));
            }
            NextAction::GiveUp(reason) => self.give_up(&call, reason, &candidates),
        }
    }

    fn check_attempt(&mut self, call: &RetryingCall) {
        assert!(!call.may_have_begun, "a call that may have begun is offered again");
        assert!(self.now <= call.limits.deadline, "an attempt after the deadline");
        let n_before = call.tried.len();
        if 0 < n_before {
            assert!(n_before < call.limits.max_attempts as usize, "one attempt too many");
            self.tally.count("further attempt");
        }
    }

    fn give_up(&mut self, call: &RetryingCall, reason: GiveUp, candidates: &[u32]) {
        let is_late = call.limits.deadline < self.now;
        match reason {
            GiveUp::NothingKnown => {
                assert!(!self.is_known && call.limits.deadline <= self.now);
                self.tally.count("nothing known");
            }
            GiveUp::NoEndpoint => {
                assert!(call.tried.is_empty() && candidates.is_empty());
                self.tally.count("no endpoint");
            }
            GiveUp::TooLate => {
                assert!(is_late && !candidates.is_empty() && !call.may_have_begun);
                self.tally.count("too late");
            }
            GiveUp::LastFailure => {
                let is_used_up = call.limits.max_attempts as usize <= call.tried.len();
                let is_safe = !call.may_have_begun && !call.is_unreadable;
                let is_left = is_safe && !is_used_up && !candidates.is_empty();
                assert!(!call.tried.is_empty(), "nobody was asked");
                assert!(!is_left, "{candidates:?} could be asked");
                self.tally.count("last failure");
            }
        }
        self.n_open -= 1;
    }

    /// The call is on its way.
    fn send(&mut self, call: RetryingCall, endpoint: u32, ticket: Ticket, began: Instant) {
        let fate = match self.rng.random_range(0..100) {
            0..35 => Fate::Answer,
            35..55 => Fate::Fail(Retry::Safe),
            55..65 => Fate::Fail(Retry::Elsewhere),
            65..75 => Fate::Fail(Retry::Rewritten),
            75..82 => Fate::Fail(Retry::IfIdempotent),
            82..88 => Fate::Fail(Retry::Never),
            88..95 => Fate::Silence,
            _ => Fate::Cancel,
        };
        let deadline = call.limits.deadline;
        let at = match fate {
            Fate::Silence => deadline.max(self.now),
            // A timer that runs late: some failures are heard of after the deadline.
            Fate::Fail(_) if self.rng.random_bool(0.1) => deadline + Duration::from_millis(1),
            _ => self.soon(200),
        };
        self.plan(at, SimEvent::Ends(Running { call, endpoint, ticket, began, fate }));
    }

    fn end(&mut self, running: Running) {
        let Running { mut call, endpoint, ticket, began, fate } = running;
        let failure = match fate {
            Fate::Answer => return self.finish(ticket, began, AttemptEnd::Answered, "answered"),
            Fate::Cancel => return self.finish(ticket, began, AttemptEnd::Unheard, "cancelled"),
            Fate::Silence => {
                self.tally.count("deadline passed unanswered");
                Retry::IfIdempotent
            }
            Fate::Fail(failure) => failure,
        };
        if matches!(failure, Retry::IfIdempotent | Retry::Never) {
            call.may_have_begun = true;
            self.tally.count("may have begun");
        }
        if self.rng.random_bool(0.5) && call.rewrites.allow(self.now, failure) {
            assert!(!call.may_have_begun, "a call that may have begun is rewritten");
            assert!(self.now <= call.limits.deadline, "rewritten after the deadline");
            call.n_rewrites += 1;
            assert!(call.n_rewrites <= MAX_REWRITES);
            self.tally.count("rewritten");
            return self.send(call, endpoint, ticket, began);
        }
        let is_refusal = failure == Retry::Safe
            && self.standings[endpoint as usize] == Standing::Ready
            && self.rng.random_bool(0.5);
        let ending = if is_refusal { AttemptEnd::Refused } else { AttemptEnd::Failed };
        self.give_back(ticket, began, ending);
        if is_refusal {
            self.tally.count("refused");
        }
        assert!(!call.tried.contains(&endpoint), "tried twice");
        call.tried.push(endpoint);
        call.is_unreadable = failure == Retry::Rewritten;
        call.attempts.failed(endpoint, failure);
        self.decide(call);
    }

    fn finish(&mut self, ticket: Ticket, began: Instant, ending: AttemptEnd, what: &'static str) {
        self.give_back(ticket, began, ending);
        self.tally.count(what);
        self.n_open -= 1;
    }

    fn give_back(&mut self, ticket: Ticket, began: Instant, ending: AttemptEnd) {
        let latency = self.now.saturating_duration_since(began);
        let seed = self.rng.random();
        let rng = || StdRng::seed_from_u64(seed);
        ending.give_back(&mut self.balancer, ticket, self.now, latency, rng);
    }
}
