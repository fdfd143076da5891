//! The workers' threads: how they are started, which of them gets a new connection, and how many
//! are used.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use flow::worker_count::{Busy, WorkerCount};
use tokio::sync::{mpsc, oneshot};
use tracing::debug;
use wire::Loads;

use super::StartError;
use crate::offload;
use crate::worker::{ListenerProtocol, Moves, ToWorker, Worker, WorkerSetup};

/// How often it is looked how busy workers are.
const LOOK_INTERVAL: Duration = Duration::from_millis(200);

/// For so many looks, workers that are used again get their part of the connections.
const SPREAD_LOOKS: u32 = 50;

/// A worker thread as the control thread knows it.
#[derive(Clone)]
pub struct WorkerHandle {
    pub(super) inbox: mpsc::UnboundedSender<ToWorker>,
}

/// The workers that run.
pub(super) struct StartedWorkers {
    pub(super) handles: Vec<WorkerHandle>,
    /// Complete when their worker has ended.
    pub(super) ends: Vec<oneshot::Receiver<()>>,
    /// What the kernel says of each thread, where it does.
    times: Vec<Option<ThreadTimes>>,
}

/// Starts as many workers as there are in `loads`; `setup` is what one with that number is made of.
pub(super) fn start(
    loads: &Loads,
    setup: impl Fn(usize, Moves) -> WorkerSetup,
) -> Result<StartedWorkers, StartError> {
    let n_workers = loads.n_connections().len();
    let (senders, inboxes): (Vec<_>, Vec<_>) =
        (0..n_workers).map(|_| mpsc::unbounded_channel()).unzip();
    let others: Arc<[_]> = senders.iter().map(mpsc::UnboundedSender::downgrade).collect();
    let (mut ends, mut times) = (Vec::new(), Vec::new());
    for (index, inbox) in inboxes.into_iter().enumerate() {
        let moves = Moves::new(index, loads.clone(), Arc::clone(&others));
        let started = start_worker(setup(index, moves), inbox)?;
        ends.push(started.ended);
        times.push(started.times);
    }
    let handles = senders.into_iter().map(|inbox| WorkerHandle { inbox }).collect();
    Ok(StartedWorkers { handles, ends, times })
}

struct StartedWorker {
    ended: oneshot::Receiver<()>,
    times: Option<ThreadTimes>,
}

fn start_worker(
    setup: WorkerSetup,
    inbox: mpsc::UnboundedReceiver<ToWorker>,
) -> Result<StartedWorker, StartError> {
    let (end, ended) = oneshot::channel::<()>();
    let runtime_ready = std::sync::mpsc::channel();
    let name = format!("worker-{}", setup.index);
    std::thread::Builder::new().name(name).spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .on_thread_start(offload::give_way)
            .build_local(tokio::runtime::LocalOptions::default());
        match runtime {
            Ok(runtime) => {
                let _ = runtime_ready.0.send(Ok(ThreadTimes::of_this_thread()));
                runtime.block_on(async { Worker::new(setup).run(inbox).await });
            }
            Err(error) => drop(runtime_ready.0.send(Err(error))),
        }
        drop(end);
    })?;
    let times = runtime_ready.1.recv().map_err(|_| StartError::Lost)??;
    Ok(StartedWorker { ended, times })
}

/// Gives each new connection to the worker that has fewest, for ever. Those that can go elsewhere
/// later are for the workers that are used.
pub(super) async fn hand_out(
    mut listener: wire::Listener,
    workers: Vec<WorkerHandle>,
    loads: Loads,
    protocol: Arc<dyn ListenerProtocol>,
) {
    loop {
        let connection = listener.accept_detached().await;
        let assigned = match protocol.can_move() {
            true => loads.assign_used(),
            false => loads.assign(),
        };
        let worker = &workers[assigned.worker()];
        let connection = connection.assigned(assigned);
        let _ = worker.inbox.send(ToWorker::Serve(connection, Arc::clone(&protocol)));
    }
}

impl StartedWorkers {
    /// What has as many of them used as the load needs, for ever. Where the kernel does not say
    /// how busy they are, all are.
    pub(super) fn follow_load(&mut self, loads: Loads) -> impl Future<Output = ()> + use<> {
        let times: Option<Vec<_>> = std::mem::take(&mut self.times).into_iter().collect();
        async move {
            let Some(mut times) = times.filter(|times| 1 < times.len()) else { return };
            let (mut count, mut n_spread_looks) = (WorkerCount::new(times.len()), 0);
            let mut looks = tokio::time::interval(LOOK_INTERVAL);
            looks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
            loop {
                looks.tick().await;
                let now = Instant::now();
                let busy: Option<Vec<_>> = times.iter_mut().map(|it| it.busy_until(now)).collect();
                let n_connections = loads.n_connections().iter().sum();
                let n_used = match busy {
                    Some(busy) => count.look(now, &busy, n_connections),
                    None => times.len(),
                };
                let before = loads.n_used();
                if n_used != before {
                    debug!(n_used, of = times.len(), "connections go to other workers");
                }
                n_spread_looks = match before < n_used {
                    true => SPREAD_LOOKS,
                    false => n_spread_looks.saturating_sub(1),
                };
                loads.use_first(n_used, 0 < n_spread_looks);
            }
        }
    }
}

/// How long a thread has run, and how long it has waited for a core: `/proc/PID/task/TID/schedstat`
/// (Documentation/scheduler/sched-stats.rst of the Linux kernel).
struct ThreadTimes {
    file: File,
    last: SchedStat,
    at: Instant,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct SchedStat {
    running: Duration,
    waiting: Duration,
}

impl ThreadTimes {
    /// `None` if the kernel does not say.
    fn of_this_thread() -> Option<Self> {
        let file = File::open("/proc/thread-self/schedstat").ok()?;
        let last = SchedStat::read(&file)?;
        Some(Self { file, last, at: Instant::now() })
    }

    /// What it has done since the last look, which this is from now on.
    fn busy_until(&mut self, now: Instant) -> Option<Busy> {
        let next = SchedStat::read(&self.file)?;
        let (last, at) = (std::mem::replace(&mut self.last, next), self.at);
        self.at = now;
        let time = now.saturating_duration_since(at).max(Duration::from_millis(1)).as_secs_f64();
        let part = |next: Duration, last| next.saturating_sub(last).as_secs_f64() / time;
        Some(Busy {
            running: part(next.running, last.running),
            waiting: part(next.waiting, last.waiting),
        })
    }
}

impl SchedStat {
    fn read(file: &File) -> Option<Self> {
        let mut text = [0; 80];
        let len = file.read_at(&mut text, 0).ok()?;
        Self::parse(str::from_utf8(text.get(..len)?).ok()?)
    }

    fn parse(text: &str) -> Option<Self> {
        let mut numbers = text.split_ascii_whitespace().map(str::parse);
        let mut next = || Some(Duration::from_nanos(numbers.next()?.ok()?));
        Some(Self { running: next()?, waiting: next()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_says_of_a_thread_is_understood() {
        let (running, waiting) = (Duration::from_nanos(12), Duration::from_secs(3));
        assert_eq!(SchedStat::parse("12 3000000000 7\n"), Some(SchedStat { running, waiting }));
        for bad in ["", "12", "12 x 7", "-1 2 3", "99999999999999999999 2 3"] {
            assert_eq!(SchedStat::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_thread_is_busy_while_it_runs_and_not_while_it_sleeps() {
        // Where the kernel does not say, nothing follows the load.
        let Some(mut times) = ThreadTimes::of_this_thread() else { return };
        let end = times.last.running + Duration::from_millis(20);
        while SchedStat::read(&times.file).is_some_and(|stat| stat.running < end) {
            std::hint::spin_loop();
        }
        let busy = times.busy_until(Instant::now()).unwrap();
        assert!(0.0 < busy.running && busy.running + busy.waiting < 1.2, "{busy:?}");
        std::thread::sleep(Duration::from_millis(50));
        let busy = times.busy_until(Instant::now()).unwrap();
        assert!(busy.running < 0.5, "{busy:?}");
    }
}
