use super::*;
use crate::{Credits, PoolId, features};

const POOL: PoolId = PoolId(3);

fn with_credits() -> Config {
    Config { features: features::CREDITS, ..Config::default() }
}

#[test]
fn routes_have_pools_and_pools_have_credits() {
    let mut pair = Pair::new(with_credits(), with_credits());
    let route = pair.client.define(&RouteDef::default()).unwrap();
    pair.at_server();
    pair.server.accept_route_of_pool(DefinedRoute::first(route), 2, POOL);
    let events = pair.at_client();
    assert!(
        matches!(events[..], [Event::RouteAccepted { codec: 2, pool: Some(POOL), .. }]),
        "{events:?}"
    );
    pair.server.accept_route(DefinedRoute::first(route), 2);
    assert!(matches!(pair.at_client()[..], [Event::RouteAccepted { pool: None, .. }]));
    let measured = Credits::Measured(7);
    for credits in [Credits::Limited(0), Credits::Limited(7), measured, Credits::Open] {
        assert!(pair.server.grant(POOL, credits));
        let events = pair.at_client();
        let [Event::Credits { pool: POOL, credits: got }] = events[..] else {
            panic!("{events:?}")
        };
        assert_eq!(got, credits);
    }
    assert_eq!(pair.client.window(), 1024, "the window of the link is another matter");
    pair.client.demand(POOL, 5, 3);
    let events = pair.at_server();
    assert!(
        matches!(events[..], [Event::Demand { pool: POOL, n_waiting: 5, n_seen: 3 }]),
        "{events:?}"
    );
}

#[test]
fn clients_hear_that_the_app_of_a_pool_pauses_and_goes_on() {
    let mut pair = Pair::new(with_credits(), with_credits());
    for pauses in [true, false] {
        pair.server.tell_pause(POOL, pauses);
        let events = pair.at_client();
        let [Event::Pause { pool: POOL, pauses: got }] = events[..] else { panic!("{events:?}") };
        assert_eq!(got, pauses);
    }
    let error = fail_server(&mut pair, frame(FrameKind::Pause, 0, 0, &[0; 8]));
    assert_eq!(error, LinkError::Unexpected { kind: 0x80 });
    let mut pair = Pair::new(with_credits(), with_credits());
    let none = crate::header::MAX_POOLS;
    let body = [none.to_be_bytes(), [0; 4]].concat();
    let error = pair.client.handle_bytes(pair.now, &mut frame(FrameKind::Pause, 0, 0, &body));
    assert_eq!(error, Err(LinkError::BadPool { pool: none, max: none }));
}

/// Whichever of the two is older: not a byte is other than before.
#[test]
fn a_peer_without_credits_is_served_as_before() {
    for (client, server) in
        [(with_credits(), Config::default()), (Config::default(), with_credits())]
    {
        let (mut pair, route) = Pair::with_route(client, server);
        assert!(!pair.server.grant(POOL, Credits::Limited(1)));
        pair.server.tell_pause(POOL, true);
        pair.client.demand(POOL, 5, 0);
        pair.server.accept_route_of_pool(DefinedRoute::first(route), 6, POOL);
        let ack = [0, 0, 0, 4, 2, 1, 6, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        assert_eq!(pair.server.transmit()[..], ack);
        assert_eq!(pair.client.transmit().len(), 0);
        assert!(matches!(
            pair.at_client()[..],
            [Event::RouteAccepted { codec: 6, pool: None, .. }]
        ));
        pair.client.handle_bytes(pair.now, &mut frame(FrameKind::Pause, 0, 0, &[0; 8])).unwrap();
        assert!(pair.at_client().is_empty());
        let error = fail_server(&mut pair, frame(FrameKind::Demand, 0, 0, &[0; 12]));
        assert_eq!(error, LinkError::UnknownKind { kind: 14 });
    }
}

#[test]
fn credits_of_no_pool_fail_the_link() {
    let max = crate::header::MAX_POOLS;
    let bad = [&max.to_be_bytes()[..], &[0; 8]].concat();
    let mut pair = Pair::new(with_credits(), with_credits());
    let error = fail_server(&mut pair, frame(FrameKind::Demand, 0, 0, &bad));
    assert_eq!(error, LinkError::BadPool { pool: max, max });
    let mut pair = Pair::new(with_credits(), with_credits());
    let mut bytes = frame(FrameKind::Credit, 0, 0, &bad[..8]);
    let error = pair.client.handle_bytes(pair.now, &mut bytes);
    assert_eq!(error, Err(LinkError::BadPool { pool: max, max }));
    let mut pair = Pair::new(Config::default(), with_credits());
    let mut bytes = frame(FrameKind::Credit, 0, 0, &[0, 0, 0, 3, 0, 0, 0, 9]);
    let error = pair.client.handle_bytes(pair.now, &mut bytes);
    assert_eq!(error, Err(LinkError::BadPool { pool: 3, max: 0 }));
}
