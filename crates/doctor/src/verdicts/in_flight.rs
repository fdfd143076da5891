//! Over which connections anybody waits for answers, as an agent says that is at one of their
//! ends.

use std::collections::{HashMap, HashSet};

use super::agent_pages::AgentLook;
use super::{OFTEN, WatchedConnection, share_of};
use crate::figures::{Role, SocketId};

/// Calls in flight at one look, by direction and address of the other end.
type InFlight<'a> = HashMap<(&'a str, &'a str), usize>;

/// By which the agent has called.
const UPSTREAM: &str = "upstream";
/// By which it was called.
const DOWNSTREAM: &str = "downstream";

/// Notes it for connections of which one end, or the other, is among `of_agent`. Those that the
/// agent does not show, such as one to a registry, stay unknown.
///
/// An agent that answers its own callers nothing is not the cause: that is found where it waits
/// itself, and its pages say of its app whether its calls were late, or only given up.
pub fn note_in_flight(
    connections: &mut [WatchedConnection],
    of_agent: &HashSet<SocketId>,
    looks: &[AgentLook],
) {
    let all: Vec<InFlight<'_>> = looks.iter().map(in_flight).collect();
    for connection in connections {
        let Some((direction, peer)) = seen_from_agent(connection, of_agent) else { continue };
        let peer = peer.to_string();
        let calls = all.iter().filter_map(|look| look.get(&(direction, peer.as_str())).copied());
        let share = share_of(calls, |n| n != 0 && direction == UPSTREAM);
        connection.is_awaited = share.map(|share| OFTEN <= share);
    }
}

/// Workers have connections of their own to an endpoint; they count together.
fn in_flight(look: &AgentLook) -> InFlight<'_> {
    let mut all = InFlight::new();
    for it in &look.connections {
        *all.entry((&it.direction, &it.peer)).or_default() += it.in_flight;
    }
    all
}

fn seen_from_agent(
    connection: &WatchedConnection,
    of_agent: &HashSet<SocketId>,
) -> Option<(&'static str, std::net::SocketAddr)> {
    let (id, other) = (connection.id, connection.id.reversed());
    let is_own = of_agent.contains(&id);
    if !is_own && !of_agent.contains(&other) {
        return None;
    }
    let has_called = is_own == (connection.role == Role::Client);
    let direction = if has_called { UPSTREAM } else { DOWNSTREAM };
    Some((direction, if is_own { id.remote } else { other.remote }))
}

#[cfg(test)]
mod tests {
    use super::super::testing::{endpoint, look, looks};
    use super::*;
    use crate::watched::WatchedSocket;

    fn id(local: &str, remote: &str) -> SocketId {
        SocketId { local: local.parse().unwrap(), remote: remote.parse().unwrap() }
    }

    fn connection(id: SocketId, role: Role) -> WatchedConnection {
        let (owner, watched) = (None, WatchedSocket::default());
        WatchedConnection { id, role, owner, watched, is_awaited: None }
    }

    #[test]
    fn an_agent_says_whether_anybody_waits_for_an_answer() {
        let to_endpoint = id("10.0.0.5:40000", "10.0.0.7:20880");
        let to_registry = id("10.0.0.5:40001", "10.0.0.9:2379");
        let of_another = id("10.0.0.5:40002", "10.0.0.7:20880");
        let noted = |in_flight: &dyn Fn(u64) -> usize| {
            let looks = looks(10, |nth| {
                let mut look = look(endpoint(0, 0.0, &[]), 200);
                look.connections[0].in_flight = in_flight(nth);
                look
            });
            let mut all = [
                connection(to_endpoint, Role::Client),
                connection(to_endpoint.reversed(), Role::Server),
                connection(to_registry, Role::Client),
                connection(of_another, Role::Client),
            ];
            note_in_flight(&mut all, &[to_endpoint, to_registry].into(), &looks);
            all.map(|it| it.is_awaited)
        };
        assert_eq!(noted(&|_| 0), [Some(false), Some(false), None, None]);
        assert_eq!(noted(&|_| 2), [Some(true), Some(true), None, None]);
        // Callers that hang up soon.
        assert_eq!(noted(&|nth| usize::from(nth < 4))[0], Some(false));
        assert_eq!(noted(&|nth| usize::from(nth < 7))[0], Some(true));
    }

    /// Its callers may have hung up before their time was over.
    #[test]
    fn an_agent_is_not_blamed_for_what_its_callers_are_not_answered() {
        let id = id("10.0.0.5:9900", "10.0.0.7:20880");
        let looks = looks(10, |_| {
            let mut look = look(endpoint(0, 0.0, &[]), 200);
            (look.connections[0].direction, look.connections[0].in_flight) =
                (DOWNSTREAM.to_owned(), 3);
            look
        });
        let mut all = [connection(id, Role::Server), connection(id.reversed(), Role::Client)];
        note_in_flight(&mut all, &[id].into(), &looks);
        assert_eq!(all.map(|it| it.is_awaited), [Some(false), Some(false)]);
    }
}
