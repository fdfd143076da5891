//! The routes of a worker: which one a caller means, and where its calls go.
//!
//! A route is found by one look-up. The table is bounded: a caller that makes up method names only
//! pushes out what was not used lately.

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::HashMap;
use std::ops::Deref;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use crate::call::{Outcome, counted_as};
use crate::cluster::Cluster;
use crate::error::{CallError, Code};
use crate::inspect::snapshot::RouteSnapshot;
use crate::metrics::CallStats;
use crate::route::{ParameterTypes, Plan, Route, RouteName, RoutePlace, WHOLE, descriptors};

/// Routes that one worker remembers. A link's peer remembers as many.
pub const MAX_ROUTES: usize = 4096;

/// A route, and the cluster that its calls go to.
pub struct ClusterRoute {
    /// Where its calls go.
    pub cluster: Rc<Cluster>,
    /// What is prepared for its calls.
    pub route: Rc<Route>,
    used: Cell<bool>,
    n_calls: Cell<u64>,
    /// Where calls of its method are counted, once one was answered: callers make up names.
    stats: OnceCell<Arc<CallStats>>,
    /// Where they are counted before.
    unproven_stats: OnceCell<Arc<CallStats>>,
}

impl std::fmt::Debug for ClusterRoute {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.route.fmt(f)
    }
}

impl Deref for ClusterRoute {
    type Target = Route;

    #[inline]
    fn deref(&self) -> &Route {
        &self.route
    }
}

impl ClusterRoute {
    fn new(cluster: Rc<Cluster>, route: Route) -> Self {
        Self {
            cluster,
            route: Rc::new(route),
            used: Cell::new(true),
            n_calls: Cell::new(0),
            stats: OnceCell::new(),
            unproven_stats: OnceCell::new(),
        }
    }

    /// A call that came at `started` has ended, after all its attempts.
    #[inline]
    pub fn count_end(&self, started: Instant, outcome: &Outcome) {
        let code = counted_as(outcome).map(|code| code as u8);
        let known = self.stats.get().or_else(|| self.first_stats(outcome.is_ok()));
        let Some(stats) = known else { return };
        let came = outcome.as_ref().ok().and_then(|reply| reply.came.as_ref()).map(|came| came.at);
        let ended = came.unwrap_or_else(Instant::now);
        stats.started();
        if outcome.as_ref().is_ok_and(|reply| reply.is_unheard) {
            return stats.sent_one_way();
        }
        stats.finished(ended.saturating_duration_since(started), code);
    }

    #[cold]
    fn first_stats(&self, is_answered: bool) -> Option<&Arc<CallStats>> {
        let (stats, method) = match is_answered {
            true => (&self.stats, Some(&*self.method)),
            false => (&self.unproven_stats, None),
        };
        if stats.get().is_none() {
            let _ = stats.set(self.cluster.method_stats(method)?);
        }
        stats.get()
    }

    /// One more call goes this way.
    #[inline]
    pub fn count_call(&self) {
        self.n_calls.set(self.n_calls.get() + 1);
    }

    /// The route as it is now.
    pub fn describe(&self) -> RouteSnapshot {
        let (is_whole, is_generic) = (&*self.method == WHOLE, self.parameters.is_generic());
        let call = match is_whole {
            true => "whole",
            false if is_generic => "generic",
            false => "direct",
        };
        let types = match &self.parameters {
            ParameterTypes::Given(types)
            | ParameterTypes::Named(types, _)
            | ParameterTypes::Asked(types) => descriptors(types),
            ParameterTypes::Unknown => String::new(),
        };
        let serializations = match is_whole {
            true => Vec::new(),
            false => self.cluster.serializations(self.index, self.generation),
        };
        let method_policy = match is_whole {
            true => self.cluster.all_method_words(),
            false => self.cluster.method_words(&self.method),
        };
        RouteSnapshot {
            method_policy,
            service: self.own.service.to_string(),
            registry: self.cluster.name().1.to_owned(),
            method: self.method.to_string(),
            types,
            call: call.to_owned(),
            serializations,
            calls: self.n_calls.get(),
            workers: 1,
        }
    }
}

/// The routes of one worker.
#[derive(Default)]
pub struct RouteTable {
    by_name: RefCell<HashMap<Box<str>, Rc<ClusterRoute>>>,
    places: RefCell<RouteSlots>,
    key: RefCell<String>,
}

/// What a route is made of, beside its name.
pub struct NewRoute {
    /// The endpoints that its calls go to.
    pub cluster: Rc<Cluster>,
    /// What is known of its parameters.
    pub parameters: ParameterTypes,
    /// How its calls are made.
    pub plan: Plan,
}

/// Which places of the table are taken, and by whom.
#[derive(Default)]
struct RouteSlots {
    names: Vec<Option<Box<str>>>,
    hand: usize,
    next_generation: u64,
}

impl RouteTable {
    /// The route of that name, if it is known.
    pub fn find(
        &self,
        registry: usize,
        name: &RouteName<'_>,
        n_args: usize,
    ) -> Option<Rc<ClusterRoute>> {
        let mut key = self.key.borrow_mut();
        name.write_key(registry, n_args, &mut key);
        let by_name = self.by_name.borrow();
        let route = by_name.get(key.as_str())?;
        route.used.set(true);
        Some(Rc::clone(route))
    }

    /// Remembers a new route, in the place of one that was not used lately if the table is full.
    ///
    /// # Errors
    /// [`Code::Overloaded`] if every route of the table has calls in flight.
    pub fn insert(
        &self,
        registry: usize,
        name: &RouteName<'_>,
        n_args: usize,
        new: NewRoute,
    ) -> Result<Rc<ClusterRoute>, CallError> {
        let NewRoute { cluster, parameters, plan } = new;
        let mut key = String::new();
        name.write_key(registry, n_args, &mut key);
        let key: Box<str> = key.into();
        let mut by_name = self.by_name.borrow_mut();
        let mut places = self.places.borrow_mut();
        let index = places.free(&mut by_name).ok_or_else(|| {
            let message = format!(
                "calls of {MAX_ROUTES} different methods are in flight, which is the limit; try \
                 again later"
            );
            CallError::new(Code::Overloaded, message)
        })?;
        places.names[index] = Some(key.clone());
        places.next_generation += 1;
        let place = RoutePlace { index, generation: places.next_generation };
        let route = Route::new(place, &cluster.service, name.method, parameters, plan);
        let route = Rc::new(ClusterRoute::new(cluster, route));
        by_name.insert(key, Rc::clone(&route));
        Ok(route)
    }

    /// Shows all routes to `look`, in no order.
    pub fn each(&self, look: impl FnMut(&Rc<ClusterRoute>)) {
        self.by_name.borrow().values().for_each(look);
    }

    /// Forgets the routes of a cluster.
    pub fn forget(&self, cluster: &Rc<Cluster>) {
        let mut places = self.places.borrow_mut();
        self.by_name.borrow_mut().retain(|_, route| {
            let stays = !Rc::ptr_eq(&route.cluster, cluster);
            if !stays {
                places.names[route.index] = None;
            }
            stays
        });
    }
}

impl RouteSlots {
    /// A free place, if there is one. In a full table the hand of a clock goes round: who was used
    /// since it last came by is spared once, and who has calls in flight stays.
    fn free(&mut self, by_name: &mut HashMap<Box<str>, Rc<ClusterRoute>>) -> Option<usize> {
        if self.names.len() < MAX_ROUTES {
            self.names.push(None);
            return Some(self.names.len() - 1);
        }
        for _ in 0..2 * MAX_ROUTES {
            let index = self.hand;
            self.hand = (self.hand + 1) % MAX_ROUTES;
            let Some(name) = &self.names[index] else {
                return Some(index);
            };
            let is_free = by_name
                .get(name)
                .is_none_or(|route| !route.used.replace(false) && Rc::strong_count(route) == 1);
            if is_free {
                by_name.remove(name);
                return Some(index);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests;
