//! Keeps a list of entries up to date: a store's watch on one side, what is made of the list on
//! the other.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;
use wire::Backoff;

use crate::kept::Kept;
use crate::store::{News, StoreError, Watch};

/// The first wait after something failed. A server that restarts is back in about this time.
const MIN_BACKOFF: Duration = Duration::from_millis(50);

/// The longest wait: an operator who has repaired the registry wants to see it used at once.
const MAX_BACKOFF: Duration = Duration::from_secs(5);

/// To show a list takes at most one in so many parts of the time and one more: what changes
/// meanwhile is shown at once.
const REST_SHARE: u32 = 4;

/// The longest time that counts: a machine that stood still is not a reason to wait.
const MAX_SHOW_TIME: Duration = Duration::from_millis(20);

pub(crate) fn new_backoff() -> Backoff {
    Backoff::new(MIN_BACKOFF, MAX_BACKOFF)
}

/// A list of entries, and what is made of it.
pub(crate) trait FollowedList<E>: Send {
    type Shown: PartialEq + Send + Sync;

    /// The list.
    fn kept(&mut self) -> &mut Kept<E>;

    /// What others see of it.
    fn show(&self) -> Self::Shown;
}

/// Runs until its task is aborted, or the store can never be asked again.
pub(crate) async fn follow<E: Clone + PartialEq, V: FollowedList<E>>(
    mut watch: Box<dyn Watch<E>>,
    mut view: V,
    shown: Arc<watch::Sender<V::Shown>>,
) {
    let mut backoff = new_backoff();
    while watch.ready().await {
        let error = until_error(watch.as_mut(), &mut view, &shown, &mut backoff).await;
        match &error {
            // Nothing is wrong, but that is not a reason for a tight loop either.
            StoreError::Gap => tracing::debug!(list = view.kept().name(), "reading the list again"),
            StoreError::Away | StoreError::SessionLost => view.kept().handle_away(),
            StoreError::Failed(error) => {
                view.kept().handle_refused(error);
                let list = view.kept().name();
                if watch.report(&format!("watching {list}: {error}")) {
                    tracing::warn!(list, %error, "watch failed, trying again");
                }
            }
        }
        publish(&shown, view.show());
        tokio::time::sleep(backoff.next_wait()).await;
    }
}

async fn until_error<E: Clone + PartialEq, V: FollowedList<E>>(
    watch: &mut dyn Watch<E>,
    view: &mut V,
    shown: &watch::Sender<V::Shown>,
    backoff: &mut Backoff,
) -> StoreError {
    // Until when the list is not shown again, and whether it is to be shown then.
    let (mut rest_until, mut is_due) = (Instant::now(), false);
    loop {
        let mut next = watch.next();
        // A timeout must not drop the future: news that is half read would be lost.
        let news = loop {
            let now = Instant::now();
            if is_due && rest_until <= now {
                publish(shown, view.show());
                (rest_until, is_due) = (rest_after(now, Instant::now()), false);
            }
            tokio::select! {
                news = &mut next => break news,
                () = sleep_until_option(view.kept().poll_timeout()) => {
                    view.kept().handle_timeout(Instant::now());
                    is_due = true;
                }
                () = sleep_until_option(is_due.then_some(rest_until)) => {}
            }
        };
        drop(next);
        let news = match news {
            Ok(news) => news,
            Err(error) => return error,
        };
        if let News::Whole { refusal: Some(refusal), .. } = &news {
            watch.report(&format!("watching {}: {refusal}", view.kept().name()));
        }
        view.kept().handle_news(news, Instant::now());
        backoff.reset();
        is_due = true;
    }
}

/// Until when nothing is shown, if to show the list took from `began` to `ended`. That takes the
/// longer the longer the list is, and a store may change it a thousand times a second.
pub(crate) fn rest_after(began: Instant, ended: Instant) -> Instant {
    ended + (ended - began).min(MAX_SHOW_TIME) * REST_SHARE
}

/// Waits until then; for ever without a time.
pub(crate) async fn sleep_until_option(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}

/// Waits for a change; a channel that has closed has none.
pub(crate) async fn open_change<T>(receiver: &mut watch::Receiver<T>) {
    if receiver.changed().await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// Wakes the subscribers only if something has changed.
pub(crate) fn publish<S: PartialEq>(shown: &watch::Sender<S>, new: S) {
    shown.send_if_modified(|current| {
        let changed = *current != new;
        *current = new;
        changed
    });
}

#[cfg(test)]
mod tests;
