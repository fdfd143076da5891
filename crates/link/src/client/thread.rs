//! The thread that drives a blocking client's connections.

use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;

use super::lanes::Lanes;
use crate::blocking::block_on;
use crate::error::SetupError;

/// What was sent is finished within this time when the last clone of a blocking client is dropped.
const GRACE: Duration = Duration::from_secs(10);

/// Starts the thread that drives a blocking client's connections, and gives its runtime.
pub(crate) fn start() -> Result<(Handle, Driver), SetupError> {
    let runtime = Builder::new_current_thread().enable_all().build().map_err(SetupError::Thread)?;
    let handle = runtime.handle().clone();
    let (end, ended) = oneshot::channel::<Arc<Lanes>>();
    let thread = std::thread::Builder::new().name("link-client".to_owned());
    let run = move || {
        runtime.block_on(async {
            if let Ok(lanes) = ended.await {
                lanes.close(GRACE).await;
            }
        });
    };
    thread.spawn(run).map_err(SetupError::Thread)?;
    Ok((handle.clone(), Driver { end, runtime: handle }))
}

/// Keeps the thread of a blocking client alive.
pub(crate) struct Driver {
    end: oneshot::Sender<Arc<Lanes>>,
    runtime: Handle,
}

impl Driver {
    /// Closes the connections, and blocks until they are.
    pub(crate) fn close(&self, lanes: Arc<Lanes>, grace: Duration) {
        let closing = self.runtime.spawn(async move { lanes.close(grace).await });
        // It fails only if the thread has ended, and then all is closed.
        let _ = block_on(closing);
    }

    /// Has the thread end once all that was sent is finished.
    pub(crate) fn end(self, lanes: Arc<Lanes>) {
        // Without a thread there is nothing to end.
        let _ = self.end.send(lanes);
    }
}
