//! Callers that make one call after the other.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use agent::Agent;

use super::{Http, SERVICE, STRING, wait_until};

/// Callers that go on until they are stopped.
pub struct BackgroundLoad {
    n_ok: Arc<AtomicUsize>,
    n_failed: Arc<AtomicUsize>,
    stop: Arc<AtomicBool>,
    threads: Vec<std::thread::JoinHandle<Vec<String>>>,
}

impl BackgroundLoad {
    pub fn start(agent: &Agent, n_callers: usize) -> Self {
        let (n_ok, n_failed) = (Arc::<AtomicUsize>::default(), Arc::<AtomicUsize>::default());
        let stop = Arc::<AtomicBool>::default();
        let addr = agent.addresses().http[0];
        let threads = (0..n_callers).map(|_| {
            let (n_ok, n_failed) = (Arc::clone(&n_ok), Arc::clone(&n_failed));
            let stop = Arc::clone(&stop);
            std::thread::spawn(move || {
                let (mut http, mut failures) = (Http::connect(addr), Vec::new());
                while !stop.load(Ordering::SeqCst) && failures.len() < 1000 {
                    let answer = http.post(&format!("/{SERVICE}/echo"), &[STRING], "[\"x\"]");
                    match answer.status {
                        200 => drop(n_ok.fetch_add(1, Ordering::SeqCst)),
                        _ => {
                            failures.push(format!("{} {}", answer.status, answer.body));
                            n_failed.fetch_add(1, Ordering::SeqCst);
                        }
                    }
                }
                failures
            })
        });
        let threads = threads.collect();
        Self { n_ok, n_failed, stop, threads }
    }

    /// Waits until so many further calls were answered.
    pub fn wait_for(&self, n: usize) {
        let goal = self.n_ok.load(Ordering::SeqCst) + n;
        wait_until("calls", || (goal <= self.n_ok.load(Ordering::SeqCst)).then_some(()));
    }

    /// Calls that have failed so far.
    pub fn n_failed(&self) -> usize {
        self.n_failed.load(Ordering::SeqCst)
    }

    /// The failures of all callers.
    pub fn stop(self) -> Vec<String> {
        self.stop.store(true, Ordering::SeqCst);
        self.threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    }
}
