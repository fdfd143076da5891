//! The interfaces of applications, where the store has no list of them: all applications are
//! asked.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{self, StreamExt};
use tokio::time::{Instant, timeout_at};

use crate::definitions::Away;

use super::ApplicationLevel;
use super::feed::{InstanceFeed, RunningInstance};

/// Applications that are asked at the same time.
const MAX_AT_ONCE: usize = 32;

/// How long all of them may take: whoever lists services waits for it.
const TIMEOUT: Duration = Duration::from_secs(3);

/// What the applications offer that no list names.
#[derive(Debug, Default)]
pub(crate) struct Unlisted {
    pub(crate) interfaces: BTreeSet<String>,
    pub(crate) unasked: Vec<Unasked>,
    /// Those that offer something are followed for as long as this is there: who looks for their
    /// interfaces next need not ask them again.
    feeds: Vec<Arc<InstanceFeed>>,
}

/// An application that has not said which interfaces it offers.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Unasked {
    /// Its name.
    pub application: String,
    /// Why not.
    pub reason: String,
}

impl ApplicationLevel {
    /// Asks all applications whose interfaces the store does not list.
    ///
    /// # Errors
    /// When the names of the applications cannot be read. An application that does not answer is
    /// among the [`unasked`](Unlisted::unasked).
    pub(crate) async fn unlisted(&self) -> Result<Unlisted, Away> {
        let until = Instant::now() + TIMEOUT;
        let asking = stream::iter(self.source.unlisted().await?).map(|name: String| async move {
            let asked = self.offered_by(&name, until).await;
            asked.map_err(|reason| Unasked { application: name, reason })
        });
        let mut asking = asking.buffer_unordered(MAX_AT_ONCE);
        let mut unlisted = Unlisted::default();
        while let Some(asked) = asking.next().await {
            match asked {
                Ok((_, interfaces)) if interfaces.is_empty() => {}
                Ok((feed, interfaces)) => {
                    unlisted.interfaces.extend(interfaces);
                    unlisted.feeds.push(feed);
                }
                Err(unasked) => unlisted.unasked.push(unasked),
            }
        }
        unlisted.unasked.sort_unstable_by(|a, b| a.application.cmp(&b.application));
        Ok(unlisted)
    }

    /// The interfaces of one application; why they are not known, if they are not.
    async fn offered_by(
        &self,
        application: &str,
        until: Instant,
    ) -> Result<(Arc<InstanceFeed>, BTreeSet<String>), String> {
        let late = || format!("it was not asked within {TIMEOUT:?}, like all others");
        if until <= Instant::now() {
            return Err(late());
        }
        let feed = self.feed(application);
        let mut resolved = feed.resolved();
        let settled = timeout_at(until, resolved.wait_for(|resolved| resolved.is_settled)).await;
        let resolved = settled.map_err(|_| late())?.map_err(|_| "its registry was closed")?.clone();
        let mut interfaces = BTreeSet::new();
        let mut problem = resolved.bad.first().map(|(_, error)| error.as_str());
        for RunningInstance { metadata, .. } in &*resolved.instances {
            match metadata {
                Ok(metadata) => {
                    let services = metadata.services.iter();
                    interfaces.extend(services.map(|offered| offered.service.interface.clone()));
                }
                Err(error) => problem = Some(error),
            }
        }
        match problem {
            Some(error) if interfaces.is_empty() => Err(error.to_string()),
            _ => Ok((feed, interfaces)),
        }
    }
}
