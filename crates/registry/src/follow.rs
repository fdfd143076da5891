//! Keeps the snapshot of one service up to date: a store's watch on one side, a [`View`] on the
//! other.

use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;
use wire::Backoff;

use crate::endpoint::Snapshot;
use crate::store::{StoreError, Watch};
use crate::view::View;

/// The first wait after something failed. A server that restarts is back in about this time.
const MIN_BACKOFF: Duration = Duration::from_millis(50);

/// The longest wait: an operator who has repaired the registry wants to see it used at once.
const MAX_BACKOFF: Duration = Duration::from_secs(5);

pub(crate) fn new_backoff() -> Backoff {
    Backoff::new(MIN_BACKOFF, MAX_BACKOFF)
}

/// Runs until its task is aborted, or the store can never be asked again.
pub(crate) async fn follow(
    mut watch: Box<dyn Watch>,
    mut view: View,
    snapshots: watch::Sender<Snapshot>,
) {
    let mut backoff = new_backoff();
    while watch.ready().await {
        let error = until_error(watch.as_mut(), &mut view, &snapshots, &mut backoff).await;
        match &error {
            // Nothing is wrong, but that is not a reason for a tight loop either.
            StoreError::Gap => tracing::debug!(service = %view.wanted(), "reading the list again"),
            StoreError::Away | StoreError::SessionLost => view.handle_away(),
            StoreError::Failed(error) => {
                view.handle_away();
                let service = view.wanted();
                if watch.report(&format!("watching {service}: {error}")) {
                    tracing::warn!(%service, %error, "watch failed, trying again");
                }
            }
        }
        publish(&snapshots, view.snapshot());
        tokio::time::sleep(backoff.next_wait()).await;
    }
}

async fn until_error(
    watch: &mut dyn Watch,
    view: &mut View,
    snapshots: &watch::Sender<Snapshot>,
    backoff: &mut Backoff,
) -> StoreError {
    loop {
        let mut next = watch.next();
        // A timeout must not drop the future: news that is half read would be lost.
        let news = loop {
            tokio::select! {
                news = &mut next => break news,
                () = sleep_until_option(view.poll_timeout()) => {
                    view.handle_timeout(Instant::now());
                    publish(snapshots, view.snapshot());
                }
            }
        };
        match news {
            Ok(news) => view.handle_news(news, Instant::now()),
            Err(error) => return error,
        }
        backoff.reset();
        publish(snapshots, view.snapshot());
    }
}

async fn sleep_until_option(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}

/// Wakes the subscribers only if something has changed.
fn publish(snapshots: &watch::Sender<Snapshot>, snapshot: Snapshot) {
    snapshots.send_if_modified(|current| {
        let changed = *current != snapshot;
        *current = snapshot;
        changed
    });
}

#[cfg(test)]
mod tests;
