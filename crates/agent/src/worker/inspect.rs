//! What a worker tells about itself. It looks at what it has between two turns of its event loop,
//! and describes no more of it than the question wants.

use std::rc::Rc;
use std::time::{Duration, Instant};

use super::Worker;
use crate::cluster::Cluster;
use crate::connections::{Connections, Direction, ListedConnection};
use crate::inspect::snapshot::{
    ConnectionSnapshot, EndpointSnapshot, ExplanationSnapshot, RouteSnapshot, ServiceSnapshot,
    TcpSnapshot, WorkerSnapshot,
};
use crate::inspect::{Filter, FirstFew, Question, WorkerAnswer};
use crate::routes::ClusterRoute;

impl Worker {
    pub(super) fn answer(&self, question: Question) {
        match question {
            Question::Services(asked) => asked.answer(|filter| self.services(filter)),
            Question::Endpoints(asked) => asked.answer(|filter| self.endpoints(filter)),
            Question::Connections(asked) => {
                asked.answer(|filter| connections(&self.connections, self.index, filter));
            }
            Question::Routes(asked) => asked.answer(|filter| self.inspect_routes(filter)),
            Question::Explain(asked) => asked.answer(|filter| self.explain(filter)),
        }
    }

    fn services(&self, filter: &Filter) -> WorkerAnswer<ServiceSnapshot> {
        let (clusters, n_all) = self.first_clusters(filter, |_| true);
        let unoffered = self.outbound.describe_unoffered(filter);
        let n_all = n_all + unoffered.len();
        let mut items: Vec<_> = clusters.iter().map(|cluster| cluster.describe()).collect();
        items.extend(unoffered);
        items.sort_by_key(WorkerSnapshot::key);
        items.truncate(filter.limit);
        WorkerAnswer { items, n_all }
    }

    fn explain(&self, filter: &Filter) -> WorkerAnswer<ExplanationSnapshot> {
        let (clusters, n_all) = self.first_clusters(filter, |_| true);
        let (now, call) = (Instant::now(), &filter.call);
        let explain = |cluster: &Rc<Cluster>| cluster.explain(now, call, &call.method);
        WorkerAnswer { items: clusters.iter().map(explain).collect(), n_all }
    }

    fn endpoints(&self, filter: &Filter) -> WorkerAnswer<EndpointSnapshot> {
        let (mut items, mut n_all) = (Vec::new(), 0);
        let (clusters, _) = self.first_clusters(filter, |cluster| {
            let n_endpoints = cluster.count_endpoints(filter);
            n_all += n_endpoints;
            n_endpoints != 0
        });
        for cluster in clusters {
            let left = filter.limit - items.len();
            if left == 0 {
                break;
            }
            items.extend(cluster.describe_endpoints(filter, left));
        }
        WorkerAnswer { items, n_all }
    }

    /// The first clusters of the services that a question is about, of those that are wanted.
    fn first_clusters(
        &self,
        filter: &Filter,
        mut is_wanted: impl FnMut(&Cluster) -> bool,
    ) -> (Vec<Rc<Cluster>>, usize) {
        let order = |a: &Rc<Cluster>, b: &Rc<Cluster>| a.name().cmp(&b.name());
        let mut first = FirstFew::new(filter.limit, order);
        self.outbound.clusters.each(|cluster| {
            if filter.has_service(&cluster.service, cluster.name().0) && is_wanted(cluster) {
                first.push(Rc::clone(cluster));
            }
        });
        first.finish()
    }

    fn inspect_routes(&self, filter: &Filter) -> WorkerAnswer<RouteSnapshot> {
        let order = |a: &Rc<ClusterRoute>, b: &Rc<ClusterRoute>| a.name().cmp(&b.name());
        let mut first = FirstFew::new(filter.limit, order);
        self.outbound.routes.each(|route| {
            if filter.has_service(&route.cluster.service, &route.own.service) {
                first.push(Rc::clone(route));
            }
        });
        let (routes, n_all) = first.finish();
        WorkerAnswer { items: routes.iter().map(|route| route.describe()).collect(), n_all }
    }
}

/// What is in the table of the worker with that number.
fn connections(
    all: &Connections,
    worker: usize,
    filter: &Filter,
) -> WorkerAnswer<ConnectionSnapshot> {
    let now = Instant::now();
    let (mut items, mut n_all) = (Vec::new(), 0);
    if filter.worker.is_some_and(|wanted| wanted != worker) {
        return WorkerAnswer { items, n_all };
    }
    // The table is in the order of the numbers, but for those that waited on their way here.
    all.each(|entry| {
        if is_wanted(entry, filter) {
            n_all += 1;
            if items.len() < filter.limit {
                items.extend(describe(entry, worker, now));
            }
        }
    });
    WorkerAnswer { items, n_all }
}

fn is_wanted(entry: &ListedConnection, filter: &Filter) -> bool {
    filter.has_protocol(entry.facts.carries)
        && filter.has_direction(direction(entry))
        && (filter.address.is_none() || filter.has_address(&entry.facts.peer.to_string()))
}

fn direction(entry: &ListedConnection) -> &'static str {
    match entry.direction {
        Direction::Downstream => "downstream",
        Direction::Upstream => "upstream",
    }
}

fn describe(entry: &ListedConnection, worker: usize, now: Instant) -> Option<ConnectionSnapshot> {
    let (facts, activity) = (entry.facts, entry.activity()?);
    let age = now.saturating_duration_since(facts.opened);
    Some(ConnectionSnapshot {
        id: facts.id,
        worker,
        direction: direction(entry).to_owned(),
        protocol: facts.carries.to_owned(),
        peer: facts.peer.to_string(),
        peer_name: activity.peer_name,
        age_ms: in_ms(age),
        doing: activity.doing.to_owned(),
        in_flight: activity.in_flight,
        held_bytes: activity.held_bytes,
        bytes_read: entry.meter.bytes_read(),
        bytes_written: entry.meter.bytes_written(),
        in_message_ms: entry.waited(now).map(in_ms),
        tcp: entry.meter.tcp_info().map(|info| tcp(&info)),
    })
}

fn in_ms(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

fn tcp(info: &wire::TcpInfo) -> TcpSnapshot {
    TcpSnapshot {
        rtt_us: info.rtt_us(),
        rtt_deviation_us: info.rtt_deviation_us(),
        min_rtt_us: info.min_rtt_us(),
        retransmits: info.retransmits(),
        duplicates: info.duplicates(),
        cwnd_segments: info.cwnd_segments(),
        mss_bytes: info.mss_bytes(),
        unacked_segments: info.unacked_segments(),
        not_sent_bytes: info.not_sent_bytes(),
        delivery_rate: info.delivery_rate(),
        acked_bytes: info.acked_bytes(),
        received_bytes: info.received_bytes(),
        segments_out: info.data_segments_out(),
        busy_us: info.busy_us(),
        window_limited_us: info.window_limited_us(),
        buffer_limited_us: info.buffer_limited_us(),
        is_app_limited: info.is_app_limited(),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::connections::{Session, SessionActivity};

    /// A session that does nothing.
    struct Idle;

    impl Session for Idle {
        fn drain(&self) {}
        fn check_time(&self, _: Instant) {}
        fn activity(&self) -> SessionActivity {
            SessionActivity { doing: "idle", in_flight: 0, held_bytes: 7, peer_name: None }
        }
    }

    #[test]
    fn ten_thousand_connections_are_counted_and_some_are_described() {
        let table = Connections::default();
        let sessions: Vec<Rc<Idle>> = (0..10_000).map(|_| Rc::new(Idle)).collect();
        for (session, id) in sessions.iter().zip(1..) {
            let peer = std::net::SocketAddr::from(([10, 0, 0, u8::from(id % 2 == 0)], 1));
            let facts = wire::Facts {
                id,
                peer: wire::Peer::Tcp(peer),
                carries: "http",
                opened: Instant::now(),
            };
            table.add(facts, Arc::default(), Direction::Downstream, session);
        }
        let part = connections(&table, 3, &Filter::default());
        assert_eq!((part.items.len(), part.n_all), (100, 10_000));
        assert!(part.items.iter().map(|it| it.id).eq(1..=100));
        let first = &part.items[0];
        assert_eq!((first.worker, &*first.direction, first.held_bytes), (3, "downstream", 7));
        let filter = Filter { address: Some("10.0.0.1".to_owned()), ..Filter::default() };
        assert_eq!(connections(&table, 3, &filter).n_all, 5_000);
        let filter = Filter { worker: Some(2), ..Filter::default() };
        assert_eq!(connections(&table, 3, &filter).n_all, 0);
        drop(sessions);
        assert_eq!(connections(&table, 3, &Filter::default()).n_all, 0);
        table.sweep(Instant::now());
        table.each(|_| panic!("nothing is left"));
    }
}
