//! Who is told what comes on a stream with many watches.
//!
//! etcd answers requests for watches in their order, and gives each a number of its own.

use std::collections::{HashMap, VecDeque};

/// Somebody with watches on the stream.
pub(super) type WatcherId = u64;

/// What a message is about.
#[derive(Clone, Copy, Debug)]
pub(super) struct About {
    /// etcd's number of the watch.
    pub(super) watch: i64,
    /// The answer to a request for a watch.
    pub(super) is_created: bool,
    /// There is no such watch any more, or there was none.
    pub(super) is_canceled: bool,
}

/// What follows from a message.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Heard {
    /// It is for this one.
    For(WatcherId),
    /// Nobody wants this watch any more.
    Cancel(i64),
    /// It is for nobody.
    Nothing,
}

#[derive(Debug, Default)]
pub(super) struct Dispatch {
    /// Who has asked for watches that are not there yet, in the order of the requests. `None`:
    /// nobody wants it any more.
    asked: VecDeque<Option<WatcherId>>,
    created: HashMap<i64, WatcherId>,
}

impl Dispatch {
    /// A watch was asked for.
    pub(super) fn ask(&mut self, watcher: WatcherId) {
        self.asked.push_back(Some(watcher));
    }

    /// A message has come.
    pub(super) fn hear(&mut self, about: About) -> Heard {
        let About { watch, is_created, is_canceled } = about;
        if !is_created {
            let known = match is_canceled {
                true => self.created.remove(&watch),
                false => self.created.get(&watch).copied(),
            };
            return known.map_or(Heard::Nothing, Heard::For);
        }
        match (self.asked.pop_front().flatten(), is_canceled) {
            (Some(watcher), true) => Heard::For(watcher),
            (Some(watcher), false) => {
                self.created.insert(watch, watcher);
                Heard::For(watcher)
            }
            (None, true) => Heard::Nothing,
            (None, false) => Heard::Cancel(watch),
        }
    }

    /// A watcher has gone. Returns the watches that it had.
    pub(super) fn forget(&mut self, watcher: WatcherId) -> Vec<i64> {
        for asked in self.asked.iter_mut().filter(|asked| **asked == Some(watcher)) {
            *asked = None;
        }
        self.created.extract_if(|_, of| *of == watcher).map(|(watch, _)| watch).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn created(watch: i64) -> About {
        About { watch, is_created: true, is_canceled: false }
    }

    fn refused() -> About {
        About { watch: -1, is_created: true, is_canceled: true }
    }

    fn changes(watch: i64) -> About {
        About { watch, is_created: false, is_canceled: false }
    }

    fn canceled(watch: i64) -> About {
        About { watch, is_created: false, is_canceled: true }
    }

    #[test]
    fn each_watcher_hears_of_its_own_watches_alone() {
        let mut dispatch = Dispatch::default();
        [1, 1, 2, 3].into_iter().for_each(|watcher| dispatch.ask(watcher));
        assert_eq!(dispatch.hear(created(10)), Heard::For(1));
        assert_eq!(dispatch.hear(changes(10)), Heard::For(1));
        assert_eq!(dispatch.hear(created(11)), Heard::For(1));
        assert_eq!(dispatch.hear(refused()), Heard::For(2));
        assert_eq!(dispatch.hear(created(12)), Heard::For(3));
        assert_eq!(dispatch.hear(changes(12)), Heard::For(3));
        assert_eq!(dispatch.hear(changes(11)), Heard::For(1));
        assert_eq!(dispatch.hear(canceled(11)), Heard::For(1));
        for about in [changes(11), changes(-1), changes(99), canceled(99), created(13), refused()] {
            let nobody = matches!(dispatch.hear(about), Heard::Nothing | Heard::Cancel(13));
            assert!(nobody, "{about:?}");
        }
    }

    #[test]
    fn what_a_watcher_leaves_behind_is_canceled_and_confuses_nobody() {
        let mut dispatch = Dispatch::default();
        [1, 2, 1, 2].into_iter().for_each(|watcher| dispatch.ask(watcher));
        assert_eq!(dispatch.hear(created(10)), Heard::For(1));
        assert_eq!(dispatch.forget(1), [10]);
        assert_eq!(dispatch.hear(changes(10)), Heard::Nothing);
        assert_eq!(dispatch.hear(created(11)), Heard::For(2));
        assert_eq!(dispatch.hear(created(12)), Heard::Cancel(12));
        assert_eq!(dispatch.hear(created(13)), Heard::For(2));
        assert_eq!(dispatch.hear(changes(12)), Heard::Nothing);
        let mut left = dispatch.forget(2);
        left.sort_unstable();
        assert_eq!(left, [11, 13]);
        assert_eq!(dispatch.forget(2), [0; 0]);
    }
}
