use std::sync::mpsc;

use super::snapshot::{ConnectionSnapshot, RouteSnapshot};
use super::*;

fn route(method: &str, calls: u64) -> RouteSnapshot {
    RouteSnapshot {
        method_policy: Vec::new(),
        service: "a.B".to_owned(),
        registry: "main".to_owned(),
        method: method.to_owned(),
        types: String::new(),
        call: "direct".to_owned(),
        serializations: vec!["hessian2".to_owned()],
        calls,
        workers: 1,
    }
}

/// Workers that answer with these routes.
fn workers(all: Vec<Vec<RouteSnapshot>>) -> Inspector {
    Inspector::new(all.into_iter().map(|routes| -> QuestionSender {
        Box::new(move |question| {
            let Question::Routes(asked) = question else { return };
            asked.answer(|filter| {
                let mut first =
                    FirstFew::new(filter.limit, |a: &RouteSnapshot, b| a.method.cmp(&b.method));
                routes.iter().cloned().for_each(|route| first.push(route));
                let (items, n_all) = first.finish();
                WorkerAnswer { items, n_all }
            });
        })
    }))
}

fn ask(inspector: &Inspector, limit: usize) -> snapshot::Page<RouteSnapshot> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let filter = Filter { limit, ..Filter::default() };
    runtime.block_on(inspector.ask(filter, Question::Routes))
}

#[test]
fn what_several_workers_have_is_one_thing() {
    let inspector = workers(vec![
        vec![route("a", 1), route("c", 2)],
        vec![route("b", 4), route("a", 8)],
        Vec::new(),
    ]);
    let page = ask(&inspector, 10);
    let shown: Vec<_> =
        page.items.iter().map(|it| (it.method.as_str(), it.calls, it.workers)).collect();
    assert_eq!(shown, [("a", 9, 2), ("b", 4, 1), ("c", 2, 1)]);
    assert_eq!((page.total, page.truncated), (3, false));
    let page = ask(&inspector, 2);
    assert_eq!(page.items.iter().map(|it| &*it.method).collect::<Vec<_>>(), ["a", "b"]);
    assert_eq!((page.total, page.truncated), (3, true));
    assert_eq!(page.silent_workers, [0; 0]);
}

#[test]
fn a_page_says_that_there_is_more() {
    let many = (0..4096).map(|n| route(&format!("{n:04}"), 1)).collect();
    let page = ask(&workers(vec![many]), 100);
    assert_eq!((page.items.len(), page.total, page.truncated), (100, 4096, true));
    assert_eq!((&*page.items[0].method, &*page.items[99].method), ("0000", "0099"));
}

#[test]
fn a_worker_that_owes_too_many_answers_is_asked_no_more() {
    let (questions, asked) = mpsc::channel();
    let keep: QuestionSender = Box::new(move |question| questions.send(question).unwrap());
    let ended: QuestionSender = Box::new(drop);
    let inspector = Inspector::new([keep, ended]);
    let ask = |n_times| {
        let one = || {
            let filter = Filter::default();
            inspector.ask::<ConnectionSnapshot>(filter, Question::Connections)
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        // At once, so that the deadline passes once.
        let all = futures_util::future::join_all((0..n_times).map(|_| one()));
        for page in runtime.block_on(all) {
            assert_eq!(page.silent_workers, [0, 1]);
        }
    };
    ask(MAX_OPEN + 3);
    let open: Vec<Question> = asked.try_iter().collect();
    assert_eq!(open.len(), MAX_OPEN);
    for question in open {
        // Whoever asked has gone: nothing is looked at for him.
        let Question::Connections(asked) = question else { panic!("another question") };
        asked.answer(|_| panic!("nobody waits"));
    }
    ask(1);
    assert_eq!(asked.try_iter().count(), 1, "it is asked again");
}

#[test]
fn the_first_of_many_are_found_without_keeping_all() {
    for (limit, n_all) in [(1, 0), (1, 1), (3, 2), (3, 3), (3, 1000), (1000, 10_000)] {
        let mut first = FirstFew::new(limit, usize::cmp);
        // Every number below `n_all` once, in an order that is none.
        (0..n_all).for_each(|n| first.push((n * 7919) % n_all));
        let expected: Vec<usize> = (0..n_all.min(limit)).collect();
        let is_prime_to = n_all % 7919 != 0 || n_all == 0;
        assert!(is_prime_to);
        assert_eq!(first.finish(), (expected, n_all));
    }
}

#[test]
fn filters_match_as_the_configuration_does() {
    let service: dubbo_proto::ServiceKey = "blue/com.acme.Orders:2.0".parse().unwrap();
    for (wanted, is_about) in [
        ("com.acme.Orders", true),
        ("blue/com.acme.Orders:2.0", true),
        ("com.acme.*", true),
        ("blue/*", true),
        ("com.acme.Order", false),
        ("com.acme.Orders:2.0", false),
        ("*", true),
    ] {
        let filter = Filter { service: Some(wanted.to_owned()), ..Filter::default() };
        assert_eq!(filter.has_service(&service, "blue/com.acme.Orders:2.0"), is_about, "{wanted}");
    }
    let filter = Filter::of_query("address=10.0.0.1%3A20880&limit=7", &["address"]).unwrap();
    assert_eq!(filter.limit, 7);
    assert!(filter.has_address("10.0.0.1:20880") && !filter.has_address("10.0.0.1:20881"));
    for (wanted, is_meant) in [("::1", true), ("[::1]", true), ("[::1]:20880", true), ("::", false)]
    {
        let filter = Filter::of_query(&format!("address={wanted}"), &["address"]).unwrap();
        assert_eq!(filter.has_address("[::1]:20880"), is_meant, "{wanted}");
    }
    let filter = Filter::of_query("address=10.0.0.1", &["address"]).unwrap();
    assert!(filter.has_address("10.0.0.1:1") && !filter.has_address("10.0.0.12:1"));
}
