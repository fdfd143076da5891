//! The ring leads where Dubbo's own `ConsistentHashLoadBalance` leads; interop/vectors-rules has
//! the recipe of the vectors.

use balance::Ring;
use serde_json::Value;

const VECTORS: &str = include_str!("../vectors/consistent-hash.json");

/// Dubbo's key: the arguments that count, one after the other; indexes beyond them do not.
fn key(indexes: &str, arguments: &Value) -> String {
    let indexes = indexes.split(',').filter_map(|index| index.parse::<usize>().ok());
    indexes.filter_map(|index| arguments.get(index)?.as_str()).collect()
}

#[test]
fn leads_where_dubbo_leads() {
    let cases: Vec<Value> = serde_json::from_str(VECTORS).unwrap();
    let mut n_compared = 0;
    for case in &cases {
        let nodes = u32::try_from(case["nodes"].as_u64().unwrap()).unwrap();
        let addresses = case["addresses"].as_array().unwrap();
        let ring = Ring::new(nodes, addresses.iter().map(|address| address.as_str().unwrap()));
        for pick in case["picks"].as_array().unwrap() {
            // Dubbo fails where a ring has no place at all.
            let Ok(expected) = u32::try_from(pick["index"].as_i64().unwrap()) else {
                assert_eq!(nodes, 3);
                continue;
            };
            let key = key(case["indexes"].as_str().unwrap(), &pick["arguments"]);
            assert_eq!(ring.pick(Ring::point(&key), |_| true), Some(expected), "{key:?} {case}");
            n_compared += 1;
        }
    }
    assert_eq!(n_compared, 3 * 5 * 4 * 20);
}

#[test]
fn only_the_share_of_an_endpoint_that_goes_moves() {
    let addresses: Vec<String> = (0..10).map(|i| format!("10.0.0.{i}:20880")).collect();
    let all = Ring::new(160, addresses.iter().map(String::as_str));
    let fewer = Ring::new(160, addresses.iter().take(9).map(String::as_str));
    let mut n_moved = 0;
    for key in 0..5_000 {
        let point = Ring::point(&format!("user-{key}"));
        let (before, after) = (all.pick(point, |_| true), fewer.pick(point, |_| true));
        assert_eq!(all.pick(point, |index| index != 9), after, "as if it were not there");
        n_moved += usize::from(before != after);
        assert!(before == after || before == Some(9));
    }
    assert!((300..800).contains(&n_moved), "{n_moved} of 5,000, a tenth expected");
}

#[test]
fn an_empty_ring_leads_nowhere() {
    assert_eq!(Ring::new(160, []).pick(7, |_| true), None);
    assert_eq!(Ring::new(0, ["10.0.0.1:1"]).pick(7, |_| true), Some(0));
    assert_eq!(Ring::new(160, ["10.0.0.1:1"]).pick(u32::MAX, |_| false), None);
}
