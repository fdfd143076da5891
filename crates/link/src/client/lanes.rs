//! The connections of one client: how many there are, and which one a call takes.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use super::config::{ClientConfig, Connections};
use super::dialer::Dialer;
use super::lane::Lane;

/// A new connection gets so long to make a difference before the next one is opened.
const GROWTH_PAUSE: Duration = Duration::from_millis(500);

/// Calls that a lane may have more than its neighbour.
const MAX_LEAD: usize = 4;

/// All lanes of a client. Those below `n_open` exist.
pub(crate) struct Lanes {
    dialer: Arc<Dialer>,
    config: Arc<ClientConfig>,
    lanes: Box<[OnceLock<Arc<Lane>>]>,
    n_open: AtomicUsize,
    /// The lane that the next call is likely to take.
    turn: AtomicUsize,
    last_growth: Mutex<Option<Instant>>,
}

impl Lanes {
    pub(crate) fn open(dialer: Dialer, config: ClientConfig) -> Arc<Self> {
        let n_first = match config.connections {
            Connections::Fixed(_) => config.max_connections(),
            Connections::Auto { .. } => 1,
        };
        let lanes = Arc::new(Self {
            dialer: Arc::new(dialer),
            lanes: (0..config.max_connections()).map(|_| OnceLock::new()).collect(),
            config: Arc::new(config),
            n_open: AtomicUsize::new(0),
            turn: AtomicUsize::new(0),
            last_growth: Mutex::new(None),
        });
        for _ in 0..n_first {
            lanes.open_one();
        }
        lanes
    }

    pub(crate) fn config(&self) -> &ClientConfig {
        &self.config
    }

    pub(crate) fn dialer(&self) -> &Dialer {
        &self.dialer
    }

    /// The lane for a call, and its number: the only one; or the one on which a call has just
    /// ended, as long as its neighbour is not much less busy.
    ///
    /// Callers whose replies came together thus send their next calls together, in one write.
    #[inline]
    pub(crate) fn pick(&self) -> Option<(usize, &Arc<Lane>)> {
        let n_open = self.n_open.load(Ordering::Acquire);
        if n_open <= 1 {
            return Some((0, self.lanes.first()?.get()?));
        }
        let lane = |number: usize| self.lanes.get(number)?.get();
        let is_ready = |number: &usize| lane(*number).is_some_and(|lane| lane.is_ready());
        let load = |number| lane(number).map_or(0, |lane| lane.load().load(Ordering::Relaxed));
        let last = self.turn.load(Ordering::Relaxed) % n_open;
        let mut turns = (last..last + n_open).map(|turn| turn % n_open);
        let one = turns.find(is_ready).unwrap_or(last);
        let other = (one + 1) % n_open;
        let chosen = match load(other) + MAX_LEAD < load(one) && is_ready(&other) {
            true => other,
            false => one,
        };
        if chosen != last {
            self.turn.store(chosen, Ordering::Relaxed);
        }
        Some((chosen, lane(chosen)?))
    }

    /// A call begins on this lane.
    #[inline]
    pub(crate) fn begin(&self, lane: usize) {
        if let Some(load) = self.load(lane) {
            load.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// A call that began on this lane has ended.
    #[inline]
    pub(crate) fn end(&self, lane: usize) {
        if let Some(load) = self.load(lane) {
            load.fetch_sub(1, Ordering::Relaxed);
            self.turn.store(lane, Ordering::Relaxed);
        }
    }

    /// The load of a lane, if there may ever be a choice.
    #[inline]
    fn load(&self, lane: usize) -> Option<&AtomicUsize> {
        if self.lanes.len() == 1 {
            return None;
        }
        self.lanes.get(lane)?.get().map(|lane| lane.load())
    }

    /// The lanes that exist.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<Lane>> {
        self.lanes.iter().map_while(OnceLock::get)
    }

    /// Takes no more calls, finishes those that were taken, and leaves the server; after `grace`,
    /// breaks off what is left.
    pub(crate) async fn close(&self, grace: Duration) {
        self.iter().for_each(|lane| lane.close());
        let all_closed = async {
            for lane in self.iter() {
                lane.closed().await;
            }
        };
        // Tasks that are left end when they are dropped, here and in the lanes.
        let _ = tokio::time::timeout(grace, all_closed).await;
        self.iter().for_each(|lane| lane.abort());
    }

    /// Opens another connection, if there may be one and bytes have to wait on all that there are.
    pub(crate) fn grow(self: &Arc<Self>, now: Instant) {
        let Ok(mut last_growth) = self.last_growth.try_lock() else {
            return;
        };
        let is_early = last_growth.is_some_and(|last| now < last + GROWTH_PAUSE);
        if is_early || self.iter().count() == self.lanes.len() {
            return;
        }
        if self.iter().all(|lane| lane.is_standing(now)) {
            *last_growth = Some(now);
            drop(last_growth);
            tracing::debug!(endpoint = %self.dialer, "calls wait to be written; opening one more connection");
            self.open_one();
        }
    }

    fn open_one(self: &Arc<Self>) {
        let n_open = self.n_open.load(Ordering::Acquire);
        if let Some(place) = self.lanes.get(n_open) {
            let weak = Arc::downgrade(self);
            let (dialer, config) = (Arc::clone(&self.dialer), Arc::clone(&self.config));
            place.get_or_init(|| Lane::open(dialer, config, weak));
            self.n_open.store(n_open + 1, Ordering::Release);
        }
    }
}
