//! A soak's short form: `LINK_SOAK_SECONDS` of full load, 3 without it.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::support::soak::{self, Done, SoakPlan};
use crate::support::{quickly, until};

#[test]
fn replies_belong_to_their_requests_while_connections_break() {
    let seconds = std::env::var("LINK_SOAK_SECONDS").ok().and_then(|text| text.parse().ok());
    let duration = Duration::from_secs(seconds.unwrap_or(3));
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let done = Arc::<Done>::default();
        let server = soak::serve(&done).await;
        let plan = SoakPlan { duration, n_tasks: 40, n_threads: 4 };
        let tally = soak::load(server.local_addr(), &plan, |_| ()).await;
        quickly(until(|| server.n_calls() == 0 && server.n_connections() == 0)).await;
        assert_eq!(done.n_doubled.load(Ordering::SeqCst), 0);
        assert!(done.n_notes.load(Ordering::SeqCst) <= tally.one_way.load(Ordering::SeqCst));
        for n in [&tally.calls, &tally.long, &tally.streams, &tally.one_way, &tally.breaks] {
            assert!(0 < n.load(Ordering::SeqCst), "{tally:?}");
        }
    });
}
