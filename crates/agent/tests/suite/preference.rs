//! Calls that go where their key or their zone leads.

use std::collections::BTreeSet;

use crate::support::dubbo::DubboConsumer;
use crate::support::{
    Behaviour, FakeProvider, Http, SERVICE, STRING, consumer, dubbo_consumer, free_addr, register,
    register_with, wait_until,
};
use agent::Agent;
use balance::Ring;
use registry::MemoryHub;

const HASH: &str = "[defaults]\nbalance = \"consistent-hash\"\n";

fn echo(agent: &Agent, argument: &str, headers: &[&str]) -> u16 {
    let headers = [&[STRING], headers].concat();
    let body = format!("[{argument:?}]");
    Http::to(agent).post(&format!("/{SERVICE}/echo"), &headers, &body).status
}

/// Which of the providers gets a call.
fn asked(providers: &[FakeProvider], call: impl FnOnce() -> u16) -> Vec<usize> {
    let before: Vec<usize> = providers.iter().map(FakeProvider::n_requests).collect();
    assert_eq!(call(), 200);
    let got_one = |index: &usize| before[*index] < providers[*index].n_requests();
    (0..providers.len()).filter(got_one).collect()
}

fn providers(n: usize) -> (MemoryHub, Vec<FakeProvider>) {
    let started = std::iter::repeat_with(|| FakeProvider::start(Behaviour::Good));
    (MemoryHub::new(), started.take(n).collect())
}

/// All listeners and all workers lead a key to where Dubbo's ring leads it.
#[test]
fn a_key_leads_to_the_same_endpoint_from_everywhere() {
    let (hub, providers) = providers(3);
    let _registered: Vec<_> = providers.iter().map(|it| register(&hub, it.addr)).collect();
    let addresses: Vec<String> = providers.iter().map(|it| it.addr.to_string()).collect();
    let mut sorted: Vec<&str> = addresses.iter().map(String::as_str).collect();
    sorted.sort_unstable();
    let ring = Ring::new(balance::DEFAULT_NODES, sorted.iter().copied());
    let of_key = |key: &str| {
        let address = sorted[ring.pick(Ring::point(key), |_| true).unwrap() as usize];
        addresses.iter().position(|it| it == address).unwrap()
    };
    let (http, dubbo) = (consumer(&hub, HASH), dubbo_consumer(&hub, HASH));
    let attachment = format!("{HASH}hash_attachment = \"user\"\n");
    let by_attachment = consumer(&hub, &attachment);
    for agent in [&http, &by_attachment] {
        // Each worker connects to all of them.
        for n in 0..60 {
            assert_eq!(echo(agent, &n.to_string(), &[]), 200);
        }
    }
    let mut consumer = DubboConsumer::to(&dubbo);
    let mut seen = BTreeSet::new();
    for n in 0..30 {
        let key = format!("user-{n}");
        let wanted = vec![of_key(&key)];
        seen.insert(wanted[0]);
        wait_until("by HTTP", || {
            (asked(&providers, || echo(&http, &key, &[])) == wanted).then_some(())
        });
        wait_until("by Dubbo TCP", || {
            let call = || {
                assert_eq!(consumer.call("echo", &key, &[]).status, dubbo_proto::Status::Ok);
                200
            };
            (asked(&providers, call) == wanted).then_some(())
        });
        let user = format!("x-dubbo-attachment-user: {key}");
        wait_until("by an attachment", || {
            let call = || echo(&by_attachment, "a", &[&user]);
            (asked(&providers, call) == wanted).then_some(())
        });
    }
    assert_eq!(seen.len(), 3, "keys go to all of them");
}

/// What cannot be reached is passed over, and its keys come back.
#[test]
fn keys_of_an_endpoint_that_is_away_go_to_the_next_one() {
    let (hub, mut providers) = providers(2);
    let away = free_addr();
    let _registered = [
        register(&hub, providers[0].addr),
        register(&hub, providers[1].addr),
        register(&hub, away),
    ];
    let agent = consumer(&hub, HASH);
    for n in 0..60 {
        assert_eq!(echo(&agent, &n.to_string(), &[]), 200, "key {n}");
    }
    providers.push(FakeProvider::start_at(away, Behaviour::Good));
    wait_until("its keys are back", || {
        (0..60).for_each(|n| assert_eq!(echo(&agent, &n.to_string(), &[]), 200));
        (providers[2].n_requests() != 0).then_some(())
    });
}

#[test]
fn endpoints_of_the_own_zone_come_first_as_long_as_one_can_be_reached() {
    let (hub, mut providers) = providers(3);
    let zones = ["north", "north", "south"];
    let _registered: Vec<_> = providers
        .iter()
        .zip(zones)
        .map(|(it, zone)| register_with(&hub, it.addr, &[("zone", zone)]))
        .collect();
    let agent = consumer(&hub, "[defaults]\nzone = \"north\"\n");
    let call = || (0..20).for_each(|_| assert_eq!(echo(&agent, "a", &[]), 200));
    call();
    wait_until("all in the zone are used", || {
        call();
        providers[..2].iter().all(|it| it.n_requests() != 0).then_some(())
    });
    let n_before = providers[2].n_requests();
    call();
    assert_eq!(providers[2].n_requests(), n_before, "nobody is asked elsewhere");
    providers.drain(..2);
    wait_until("another zone stands in", || {
        let _may_fail = echo(&agent, "a", &[]);
        (n_before < providers[0].n_requests()).then_some(())
    });
}
