use dubbo_proto::ServiceKey;

use super::*;
use crate::config::ClusterPolicy;
use crate::metrics::Hub;
use crate::route::Generic;
use crate::testing::pool;

fn cluster(interface: &str, version: &str, group: &str) -> Rc<Cluster> {
    let service = ServiceKey::new(interface, version, group).unwrap();
    let (policy, hub) = (ClusterPolicy::default(), Hub::new(&Code::NAMES));
    Rc::new(Cluster::new(service, "main", &policy, pool(), hub))
}

const NAME: RouteName<'static> =
    RouteName { interface: "a.B", version: "", group: "", method: "c", types: None, generic: None };

fn insert(
    table: &RouteTable,
    name: &RouteName<'_>,
    cluster: &Rc<Cluster>,
) -> Result<Rc<ClusterRoute>, CallError> {
    let parameters = ParameterTypes::Given(Vec::new());
    table.insert(
        0,
        name,
        0,
        NewRoute { cluster: Rc::clone(cluster), parameters, plan: Plan::default() },
    )
}

/// Two callers share a route only if all that they have said is the same.
#[test]
fn every_part_of_a_name_counts() {
    let (table, cluster) = (RouteTable::default(), cluster("a.B", "", ""));
    let known = insert(&table, &NAME, &cluster).unwrap();
    assert!(Rc::ptr_eq(&table.find(0, &NAME, 0).unwrap(), &known));
    for other in [
        RouteName { interface: "a.C", ..NAME },
        RouteName { version: "1", ..NAME },
        RouteName { group: "g", ..NAME },
        RouteName { method: "d", ..NAME },
        RouteName { types: Some(""), ..NAME },
        RouteName { types: Some("int"), ..NAME },
        RouteName { generic: Some(Generic::Map), ..NAME },
        RouteName { generic: Some(Generic::Gson), ..NAME },
    ] {
        assert!(table.find(0, &other, 0).is_none(), "{other:?}");
    }
    assert!(table.find(1, &NAME, 0).is_none(), "another registry");
    assert!(table.find(0, &NAME, 1).is_none(), "another number of arguments");
    // Where types are told, they say how many there are.
    let typed = RouteName { types: Some("int"), ..NAME };
    insert(&table, &typed, &cluster).unwrap();
    assert!(table.find(0, &typed, 7).is_some());
}

#[test]
fn the_routes_of_a_cluster_are_forgotten_together() {
    let table = RouteTable::default();
    let (one, other) = (cluster("a.B", "", ""), cluster("a.C", "", ""));
    let name_of_other = RouteName { interface: "a.C", ..NAME };
    insert(&table, &NAME, &one).unwrap();
    insert(&table, &name_of_other, &other).unwrap();
    table.forget(&one);
    assert!(table.find(0, &NAME, 0).is_none());
    assert!(table.find(0, &name_of_other, 0).is_some());
}

/// A full table takes new routes for as long as not all of them are in use.
#[test]
fn a_full_table_makes_room() {
    let (table, cluster) = (RouteTable::default(), cluster("a.B", "", ""));
    let nth = |n: usize| format!("m{n}");
    let in_use: Vec<Rc<ClusterRoute>> = (0..MAX_ROUTES)
        .map(|n| insert(&table, &RouteName { method: &nth(n), ..NAME }, &cluster).unwrap())
        .collect();
    let one_more = RouteName { method: "more", ..NAME };
    let error = insert(&table, &one_more, &cluster).unwrap_err();
    assert_eq!(error.code, Code::Overloaded);
    let generations: Vec<u64> = in_use.iter().map(|route| route.generation).collect();
    let index = in_use[5].index;
    let in_use: Vec<Rc<ClusterRoute>> =
        in_use.into_iter().enumerate().filter(|(n, _)| *n != 5).map(|(_, route)| route).collect();
    let new = insert(&table, &one_more, &cluster).unwrap();
    assert_eq!(new.index, index, "the place of the only one that is not in use");
    assert!(!generations.contains(&new.generation), "links must not take it for the old one");
    assert!(table.find(0, &RouteName { method: "m5", ..NAME }, 0).is_none());
    assert!(
        in_use
            .iter()
            .all(|route| table.find(0, &RouteName { method: &route.method, ..NAME }, 0).is_some())
    );
}
