//! What stays when a store goes away or loses its history. Time is an argument.

use std::time::Duration;

use super::*;

use crate::address::parse_listing;
use crate::entry_list::KeptList;
use crate::follow::FollowedList;
use crate::kept::Kept;
use crate::layout::BadEntry;
use crate::store::{Change, Item, Known, News};

const GRACE: Duration = Duration::from_secs(30);

/// A list, and one who sees it.
struct SharedList(KeptList);

impl SharedList {
    fn kept(&mut self) -> &mut Kept<Entry> {
        self.0.kept()
    }

    fn snapshot(&self) -> Snapshot {
        self.snapshot_of("a.B")
    }

    fn snapshot_of(&self, wanted: &str) -> Snapshot {
        let (_sender, list) = watch::channel(self.0.show());
        View::new(wanted.parse().unwrap(), list, None, None).snapshot()
    }
}

fn view() -> SharedList {
    SharedList(KeptList::new("a.B".to_owned(), GRACE))
}

fn item(port: u16) -> Item {
    let listing = parse_listing(&format!("dubbo://h:{port}/a.B")).unwrap();
    Item { key: port.to_be_bytes().to_vec(), read: Ok(Some(listing.into())) }
}

fn whole(ports: &[u16], history_lost: bool) -> News {
    News::Whole {
        items: ports.iter().copied().map(item).collect(),
        n_cut: 0,
        history_lost,
        refusal: None,
    }
}

fn put(port: u16) -> News {
    News::Changes(vec![Change::Put(item(port))])
}

fn gone(port: u16) -> News {
    News::Changes(vec![Change::Gone(port.to_be_bytes().to_vec())])
}

#[track_caller]
fn shows(view: &SharedList, status: Freshness, ports: &[u16]) {
    let snapshot = view.snapshot();
    let shown: Vec<u16> = snapshot.endpoints.iter().map(|endpoint| endpoint.port).collect();
    assert_eq!((snapshot.status, shown.as_slice()), (status, ports));
}

#[test]
fn being_away_takes_nothing_and_only_a_list_that_was_read_is_empty() {
    let (mut view, now) = (view(), Instant::now());
    shows(&view, Freshness::Pending, &[]);
    view.kept().handle_away();
    shows(&view, Freshness::Pending, &[]);
    view.kept().handle_news(whole(&[1, 2], false), now);
    view.kept().handle_news(put(3), now);
    view.kept().handle_news(gone(1), now);
    shows(&view, Freshness::Current, &[2, 3]);
    view.kept().handle_away();
    shows(&view, Freshness::Stale, &[2, 3]);
    view.kept().handle_news(whole(&[], false), now);
    shows(&view, Freshness::Current, &[]);
}

#[test]
fn a_lost_history_is_kept_for_the_grace_and_no_longer() {
    let (mut view, began) = (view(), Instant::now());
    view.kept().handle_news(whole(&[1, 2, 3], false), began);
    view.kept().handle_news(whole(&[], true), began);
    shows(&view, Freshness::Stale, &[1, 2, 3]);
    // One comes back, and one is withdrawn by somebody who knows.
    view.kept().handle_news(put(1), began);
    view.kept().handle_news(gone(2), began);
    shows(&view, Freshness::Stale, &[1, 3]);
    let due = view.kept().poll_timeout().unwrap();
    assert_eq!(due, began + GRACE);
    view.kept().handle_timeout(due.checked_sub(Duration::from_millis(1)).unwrap());
    shows(&view, Freshness::Stale, &[1, 3]);
    view.kept().handle_timeout(due);
    shows(&view, Freshness::Current, &[1]);
    assert_eq!(view.kept().poll_timeout(), None);
}

#[test]
fn the_grace_ends_early_when_all_are_back() {
    let (mut view, now) = (view(), Instant::now());
    view.kept().handle_news(whole(&[1, 2], false), now);
    view.kept().handle_news(whole(&[2], true), now);
    shows(&view, Freshness::Stale, &[1, 2]);
    view.kept().handle_news(put(1), now);
    shows(&view, Freshness::Current, &[1, 2]);
    assert_eq!(view.kept().poll_timeout(), None);
}

#[test]
fn the_grace_does_not_run_out_while_the_store_is_away_again() {
    let (mut view, began) = (view(), Instant::now());
    view.kept().handle_news(whole(&[1], false), began);
    view.kept().handle_news(whole(&[], true), began);
    view.kept().handle_away();
    assert_eq!(view.kept().poll_timeout(), None);
    view.kept().handle_timeout(began + GRACE * 2);
    shows(&view, Freshness::Stale, &[1]);
    view.kept().handle_news(whole(&[], false), began + GRACE * 2);
    shows(&view, Freshness::Stale, &[1]);
    view.kept().handle_timeout(began + GRACE * 2);
    shows(&view, Freshness::Current, &[]);
}

/// A store that flaps loses its history again and again: nobody is dropped before a whole grace.
#[test]
fn every_loss_begins_a_grace() {
    let (mut view, began) = (view(), Instant::now());
    view.kept().handle_news(whole(&[1, 2], false), began);
    for round in 1..10 {
        let now = began + GRACE * round / 2;
        view.kept().handle_timeout(now);
        view.kept().handle_away();
        view.kept().handle_news(whole(&[1], true), now);
        shows(&view, Freshness::Stale, &[1, 2]);
        assert_eq!(view.kept().poll_timeout(), Some(now + GRACE));
    }
}

#[test]
fn what_cannot_be_read_is_told_and_hides_nothing() {
    let (mut view, now) = (view(), Instant::now());
    let bad = Item { key: b"junk".to_vec(), read: Err(BadEntry::NoAddress) };
    let none = Item { key: b"parent".to_vec(), read: Ok(None) };
    let items = vec![bad, none, item(1)];
    view.kept()
        .handle_news(News::Whole { items, n_cut: 0, history_lost: false, refusal: None }, now);
    shows(&view, Freshness::Current, &[1]);
    let told: Vec<_> = view.snapshot().unused.iter().map(ToString::to_string).collect();
    assert_eq!(told, ["junk (expected {host}:{port} after the interface)"]);
}

#[test]
fn what_is_known_at_once_may_be_stale() {
    for status in [Freshness::Current, Freshness::Stale] {
        let mut view = view();
        view.kept().handle_known(Known { items: vec![item(1)], status });
        shows(&view, status, &[1]);
    }
}

/// A server may say as much as it likes; who asks for the service hears the beginning of it.
#[test]
fn a_refusal_is_told_in_short_and_for_as_long_as_it_lasts() {
    let told = |view: &SharedList| view.snapshot().unused.iter().map(ToString::to_string).collect();
    let mut view = view();
    view.kept().handle_refused(&"é".repeat(10_000));
    let shown: Vec<String> = told(&view);
    assert_eq!(shown, [format!("the list of its providers ({})", "é".repeat(200))]);
    view.kept().handle_away();
    let shown: Vec<String> = told(&view);
    assert!(shown.is_empty(), "{shown:?}");
}

/// Versions and groups of an interface share a list, and each sees its own in the list's order.
#[test]
fn each_version_and_group_sees_its_own() {
    let mut list = view();
    let item = |key: u8, url: &str| {
        let listing = parse_listing(&format!("dubbo://{url}")).unwrap();
        Item { key: vec![key], read: Ok(Some(listing.into())) }
    };
    let items = vec![
        item(1, "h:1/a.B?version=1"),
        item(2, "h:2/a.B?version=2"),
        item(3, "h:2/a.B?version=2&weight=7"),
        item(4, "h:4/a.B?group=g"),
    ];
    list.kept().handle_known(Known { items, status: Freshness::Current });
    for (wanted, expected) in [
        ("a.B:1", "h:1 100"),
        ("a.B:2", "h:2 7"),
        ("*/a.B:*", "h:1 100, h:2 7, h:4 100"),
        ("x,g/a.B", "h:4 100"),
    ] {
        let snapshot = list.snapshot_of(wanted);
        let shown = snapshot.endpoints.iter().map(|it| format!("{} {}", it.address(), it.weight));
        assert_eq!(shown.collect::<Vec<_>>().join(", "), expected, "{wanted}");
        assert!(snapshot.unused.is_empty());
    }
    let unused = list.snapshot_of("a.B:3").unused;
    let told: Vec<_> = unused.iter().map(|it| it.what.as_str()).collect();
    assert_eq!(told, ["a.B:1", "a.B:2", "g/a.B"]);
}
