//! Credits as a peer gives them, on a link without a connection.

use tokio::time::timeout;

use super::*;
use crate::testing::on_worker;

const POOL: PoolId = PoolId(3);
const SERVICE: &str = "com.acme.Orders";

/// A link whose peer has lent so many credits of the pool that the service needs.
fn lent(n: u32) -> LinkCredits {
    let credits = LinkCredits::default();
    credits.note(SERVICE, Some(POOL));
    credits.note("com.acme.Other", None);
    credits.set(None, POOL, Credits::Limited(n));
    credits
}

async fn is_told(room: &Notify) -> bool {
    timeout(std::time::Duration::ZERO, room.notified()).await.is_ok()
}

#[test]
fn calls_need_credits_only_while_the_pool_of_their_service_is_lent() {
    let credits = lent(1);
    assert!(credits.of("com.acme.Other").is_none() && credits.of("made.Up").is_none());
    let purse = credits.of(SERVICE).unwrap();
    assert_eq!(purse.credits(), Some(1));
    let now = Instant::now();
    let credit = purse.take(now).unwrap();
    assert!(!purse.has_room() && purse.take(now).is_none());
    credit.ended(now, None);
    assert!(purse.has_room());
    credits.set(None, POOL, Credits::Open);
    assert!(credits.of(SERVICE).is_none());
    // Another pool is lent, and the service may have come to it.
    credits.set(None, PoolId(4), Credits::Limited(1));
    assert!(credits.of(SERVICE).is_none());
    credits.note(SERVICE, Some(PoolId(4)));
    assert!(credits.of(SERVICE).is_some());
}

#[test]
fn a_credit_comes_back_however_its_call_ends() {
    let credits = lent(1);
    let purse = credits.of(SERVICE).unwrap();
    drop(purse.take(Instant::now()).unwrap());
    assert!(purse.has_room());
    let error = crate::error::CallError::new(crate::error::Code::Timeout, "late");
    purse.take(Instant::now()).unwrap().ended(Instant::now(), Some(&error));
    assert!(purse.has_room());
    // One of a time before the pool was open counts no more.
    let old = purse.take(Instant::now()).unwrap();
    credits.set(None, POOL, Credits::Open);
    credits.set(None, POOL, Credits::Limited(1));
    let new = purse.take(Instant::now()).unwrap();
    drop(old);
    assert!(!purse.has_room());
    drop(new);
    assert!(purse.has_room());
}

#[test]
fn who_waits_hears_once_of_a_credit() {
    on_worker(async || {
        let credits = lent(1);
        let purse = credits.of(SERVICE).unwrap();
        let (room, gone) = (Rc::new(Notify::new()), Rc::new(Notify::new()));
        let credit = purse.take(Instant::now()).unwrap();
        purse.want(Instant::now(), 2, &room);
        purse.want(Instant::now(), 1, &gone);
        purse.want(Instant::now(), 0, &gone);
        assert!(!is_told(&room).await);
        drop(credit);
        assert!(is_told(&room).await && !is_told(&gone).await);
        drop(purse.take(Instant::now()));
        assert!(!is_told(&room).await);
        // The peer lends more.
        let _credit = purse.take(Instant::now()).unwrap();
        purse.want(Instant::now(), 1, &room);
        credits.set(None, POOL, Credits::Limited(2));
        assert!(is_told(&room).await);
    });
}

#[test]
fn nobody_goes_on_waiting_at_a_link_that_retires_or_has_ended() {
    on_worker(async || {
        let credits = lent(0);
        let purse = credits.of(SERVICE).unwrap();
        let room = Rc::new(Notify::new());
        purse.want(Instant::now(), 1, &room);
        credits.retire(Instant::now());
        assert!(is_told(&room).await);
        purse.want(Instant::now(), 1, &room);
        credits.clear();
        assert!(is_told(&room).await && credits.of(SERVICE).is_none());
    });
}

#[test]
fn a_credit_is_of_the_link_that_lent_it_until_that_ends() {
    let (credits, other) = (lent(1), lent(1));
    let credit = credits.of(SERVICE).unwrap().take(Instant::now()).unwrap();
    assert!(credits.has_lent(&credit) && !other.has_lent(&credit));
    credits.clear();
    assert!(!credits.has_lent(&credit));
}

#[test]
fn an_app_pauses_until_it_gives_a_sign_of_life() {
    let credits = lent(1);
    assert_eq!(credits.pauses_since(SERVICE), None);
    let before = Instant::now();
    credits.set_paused(POOL, true);
    assert!(before <= credits.pauses_since(SERVICE).unwrap());
    assert_eq!(credits.pauses_since("com.acme.Other"), None);
    credits.set_paused(POOL, false);
    assert_eq!(credits.pauses_since(SERVICE), None);
}
