//! The routes of a worker as the agent at the other end of a link knows them.
//!
//! Invariant: the number of a route is given to another one only when the route has gone, or was
//! refused. Until then calls may be on their way to that number, and would get to the other one.

use std::rc::Rc;
use std::time::{Duration, Instant};

use dubbo_proto::Serialization;
use link_proto::RouteId;

use crate::error::CallError;
use crate::route::{Route, RouteVariant};

/// How long a refused route is not asked for again.
const REFUSAL_TTL: Duration = Duration::from_secs(1);

/// What the peer has said of a route.
#[derive(Clone)]
pub(super) enum RouteState {
    Asked,
    Accepted(Serialization),
    /// Asked again after [`REFUSAL_TTL`]: the peer may have learnt of the service by then.
    Refused(CallError, Instant),
}

/// A route, for one version and group of its service, as the peer knows it.
pub(super) struct LinkedRoute {
    pub(super) id: RouteId,
    generation: u64,
    pub(super) service: Rc<str>,
    pub(super) state: RouteState,
}

impl LinkedRoute {
    fn is_of(&self, route: &Route, variant: &RouteVariant) -> bool {
        self.generation == route.generation && variant.is_of(&self.service)
    }

    fn is_stale(&self) -> bool {
        matches!(&self.state, RouteState::Refused(_, since) if REFUSAL_TTL <= since.elapsed())
    }

    /// Whether its number may be that of another route from now on. An answer that is still to
    /// come must not be taken for one about the other route.
    fn is_free_for(&self, route: &Route, variant: &RouteVariant) -> bool {
        let has_gone = self.generation != route.generation;
        let may_be_asked_anew = self.is_of(route, variant) && self.is_stale();
        !matches!(self.state, RouteState::Asked) && (has_gone || may_be_asked_anew)
    }
}

/// By the worker's own numbers. At most as many as the peer takes: more are not defined.
#[derive(Default)]
pub(super) struct LinkRoutes(Vec<Vec<LinkedRoute>>);

impl LinkRoutes {
    /// The peer's number of a route and what state it is in, if it need not be asked.
    #[inline]
    pub(super) fn find(&self, route: &Route, variant: &RouteVariant) -> Option<&LinkedRoute> {
        let known = self.0.get(route.index)?.iter().find(|it| it.is_of(route, variant))?;
        (!known.is_stale()).then_some(known)
    }

    /// A number that the route can take over.
    pub(super) fn free_for(&self, route: &Route, variant: &RouteVariant) -> Option<RouteId> {
        let known = self.0.get(route.index)?;
        known.iter().find(|it| it.is_free_for(route, variant)).map(|it| it.id)
    }

    /// The peer is asked whether it takes the route by this number.
    pub(super) fn ask(&mut self, route: &Route, variant: &RouteVariant, id: RouteId) {
        if self.0.len() <= route.index {
            self.0.resize_with(route.index + 1, Vec::new);
        }
        let (generation, service) = (route.generation, Rc::clone(&variant.service));
        let asked = LinkedRoute { id, generation, service, state: RouteState::Asked };
        let of_place = &mut self.0[route.index];
        match of_place.iter_mut().find(|it| it.id == id) {
            Some(known) => *known = asked,
            None => of_place.push(asked),
        }
    }

    pub(super) fn by_id(&self, id: RouteId) -> Option<&LinkedRoute> {
        self.0.iter().flatten().find(|it| it.id == id)
    }

    pub(super) fn by_id_mut(&mut self, id: RouteId) -> Option<&mut LinkedRoute> {
        self.0.iter_mut().flatten().find(|it| it.id == id)
    }

    /// The serialization that was agreed for a route, by its index and generation.
    pub(super) fn agreed(&self, index: usize, generation: u64) -> Option<Serialization> {
        let known = self.0.get(index)?.iter().filter(|it| it.generation == generation);
        known.into_iter().find_map(|it| match it.state {
            RouteState::Accepted(serialization) => Some(serialization),
            RouteState::Asked | RouteState::Refused(..) => None,
        })
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use dubbo_proto::ServiceKey;

    use super::*;
    use crate::error::Code;
    use crate::route::{ParameterTypes, Plan, RoutePlace};

    fn route(generation: u64) -> Route {
        let key = ServiceKey::new("a.B", "*", "").unwrap();
        let place = RoutePlace { index: 3, generation };
        Route::new(place, &key, "m", ParameterTypes::Given(Vec::new()), Plan::default())
    }

    fn variant(route: &Route, version: &str) -> Rc<RouteVariant> {
        route.variant(&ServiceKey::new("a.B", version, "").unwrap())
    }

    fn found(routes: &LinkRoutes, route: &Route, variant: &RouteVariant) -> Option<u32> {
        routes.find(route, variant).map(|known| known.id.0)
    }

    fn settle(routes: &mut LinkRoutes, id: u32) {
        routes.by_id_mut(RouteId(id)).unwrap().state =
            RouteState::Accepted(Serialization::Hessian2);
    }

    /// A call that is being encoded for one version must not get to the other one.
    #[test]
    fn versions_of_one_route_have_numbers_of_their_own() {
        let (mut routes, route) = (LinkRoutes::default(), route(1));
        let [one, two] = ["1", "2"].map(|version| variant(&route, version));
        for (id, variant) in [(7, &one), (8, &two)] {
            assert_eq!(found(&routes, &route, variant), None);
            assert_eq!(routes.free_for(&route, variant), None);
            routes.ask(&route, variant, RouteId(id));
            settle(&mut routes, id);
        }
        assert_eq!(found(&routes, &route, &one), Some(7));
        assert_eq!(found(&routes, &route, &two), Some(8));
    }

    #[test]
    fn the_number_of_a_route_that_has_gone_is_used_again() {
        let (mut routes, old, new) = (LinkRoutes::default(), route(1), route(2));
        routes.ask(&old, &old.own, RouteId(7));
        assert_eq!(routes.free_for(&new, &new.own), None, "its answer is still to come");
        settle(&mut routes, 7);
        assert_eq!(routes.agreed(3, 1), Some(Serialization::Hessian2));
        assert_eq!(routes.free_for(&new, &new.own), Some(RouteId(7)));
        routes.ask(&new, &new.own, RouteId(7));
        assert_eq!(found(&routes, &new, &new.own), Some(7));
        assert_eq!((found(&routes, &old, &old.own), routes.agreed(3, 1)), (None, None));
    }

    #[test]
    fn a_refused_route_is_asked_for_again_by_its_number() {
        let (mut routes, route) = (LinkRoutes::default(), route(1));
        routes.ask(&route, &route.own, RouteId(7));
        let mut refuse = |since: Instant| {
            let error = CallError::new(Code::NoEndpoint, "no");
            routes.by_id_mut(RouteId(7)).unwrap().state = RouteState::Refused(error, since);
            let found = found(&routes, &route, &route.own);
            (found, routes.free_for(&route, &route.own).map(|id| id.0))
        };
        let now = Instant::now();
        assert_eq!(refuse(now + REFUSAL_TTL), (Some(7), None));
        let Some(earlier) = now.checked_sub(REFUSAL_TTL) else { return };
        assert_eq!(refuse(earlier), (None, Some(7)));
    }
}
