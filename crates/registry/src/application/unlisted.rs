//! The interfaces of applications, where the store has no list of them: all applications are asked.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{self, StreamExt};
use tokio::time::{Instant, timeout_at};

use crate::definitions::Away;

use super::ApplicationLevel;
use super::feed::Feed;

/// Applications that are asked at the same time.
const MAX_AT_ONCE: usize = 32;

/// How long all of them may take.
const TIMEOUT: Duration = Duration::from_secs(10);

/// What the applications offer that no list names.
#[derive(Debug, Default)]
pub(crate) struct Unlisted {
    pub(crate) interfaces: BTreeSet<String>,
    /// Those that offer something are followed for as long as this is there: who looks for their
    /// interfaces next need not ask them again.
    feeds: Vec<Arc<Feed>>,
}

impl ApplicationLevel {
    /// Asks all applications whose interfaces the store does not list.
    ///
    /// # Errors
    /// When the names of the applications cannot be read. An application that does not answer is
    /// left out, and the log says so.
    pub(crate) async fn unlisted(&self) -> Result<Unlisted, Away> {
        let names = self.source.unlisted().await?;
        let until = Instant::now() + TIMEOUT;
        let n_all = names.len();
        let asking = stream::iter(names).map(|name: String| async move {
            let feed = self.feed(&name);
            let interfaces = interfaces(&feed, until).await;
            (feed, interfaces)
        });
        let mut asking = asking.buffer_unordered(MAX_AT_ONCE);
        let (mut unlisted, mut n_late) = (Unlisted::default(), 0);
        while let Some((feed, interfaces)) = asking.next().await {
            match interfaces {
                Some(interfaces) if interfaces.is_empty() => {}
                Some(interfaces) => {
                    unlisted.interfaces.extend(interfaces);
                    unlisted.feeds.push(feed);
                }
                None => n_late += 1,
            }
        }
        if 0 < n_late {
            tracing::warn!(
                n_late,
                n_all,
                "applications did not say in time which interfaces they offer"
            );
        }
        Ok(unlisted)
    }
}

/// What an application offers; `None` if that is not known in time.
async fn interfaces(feed: &Feed, until: Instant) -> Option<BTreeSet<String>> {
    let mut resolved = feed.resolved();
    let settled = timeout_at(until, resolved.wait_for(|resolved| resolved.is_settled)).await;
    let resolved = settled.ok()?.ok()?;
    let known = resolved.instances.iter().filter_map(|running| running.metadata.as_ref().ok());
    let services = known.flat_map(|metadata| &metadata.services);
    Some(services.map(|offered| offered.service.interface.clone()).collect())
}
