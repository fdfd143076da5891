//! Callers that call without a pause, and count how that went.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

use super::http::Http;
use super::{HELLO, java_hash, wait_until};

/// What became of the calls of a [`HelloLoad`].
#[derive(Clone, Debug, Default)]
pub struct Summary {
    pub n_ok: u64,
    /// By `STATUS CODE`, or by what happened to the connection; each with how often, and the first
    /// body.
    pub failures: BTreeMap<String, (u64, String)>,
}

impl Summary {
    /// # Panics
    /// If any call failed.
    pub fn assert_all_ok(&self) {
        assert!(self.failures.is_empty() && 0 < self.n_ok, "{self:#?}");
    }

    /// The same where a Java provider has just started. Dubbo 3.3 calls the method of one of its
    /// first requests without its argument, now and then, although the request has it (seen on the
    /// wire), and cannot write the exception that comes of it.
    ///
    /// # Panics
    /// If any other call failed, or more than one.
    #[allow(dead_code, reason = "not all programs of tests start providers again")]
    pub fn assert_all_ok_after_a_start(&self) {
        const LOST: &str = "AppResponse [value=null, exception=\
            java.lang.ArrayIndexOutOfBoundsException: Index 0 out of bounds for length 0]";
        let is_lost = |(n, body): &(u64, String)| *n == 1 && body.contains(LOST);
        let is_dubbos = self.failures.len() == 1
            && self.failures.get("502 provider_error").is_some_and(is_lost);
        match is_dubbos {
            true => println!("Dubbo lost an argument: {self:#?}"),
            false => self.assert_all_ok(),
        }
    }

    /// # Panics
    /// If a call failed in a way that is not in `allowed`.
    pub fn assert_only(&self, allowed: &[&str]) {
        let is_allowed = self.failures.keys().all(|kind| allowed.contains(&kind.as_str()));
        assert!(is_allowed && 0 < self.n_ok, "only {allowed:?} may happen: {self:#?}");
    }
}

/// Threads that call `IHelloService.hash` one call after the other, and check the result.
pub struct HelloLoad {
    stop: Arc<AtomicBool>,
    n_ok: Arc<AtomicU64>,
    failures: Arc<Mutex<BTreeMap<String, (u64, String)>>>,
    threads: Vec<JoinHandle<()>>,
}

impl HelloLoad {
    pub fn start(http: SocketAddr, n_threads: usize) -> Self {
        Self::start_with(http, n_threads, &[])
    }

    pub fn start_with(
        http: SocketAddr,
        n_threads: usize,
        headers: &'static [&'static str],
    ) -> Self {
        let mut load = Self {
            stop: Arc::default(),
            n_ok: Arc::default(),
            failures: Arc::default(),
            threads: Vec::new(),
        };
        for number in 0..n_threads {
            let (stop, n_ok) = (Arc::clone(&load.stop), Arc::clone(&load.n_ok));
            let failures = Arc::clone(&load.failures);
            load.threads.push(thread::spawn(move || {
                let mut http = Http::to(http);
                for round in 0_u64.. {
                    if stop.load(Ordering::SeqCst) {
                        return;
                    }
                    let Err((kind, body)) = call(&mut http, headers, &format!("{number} {round}"))
                    else {
                        n_ok.fetch_add(1, Ordering::SeqCst);
                        continue;
                    };
                    failures.lock().unwrap().entry(kind).or_insert((0, body)).0 += 1;
                }
            }));
        }
        load
    }

    /// How many calls went well so far.
    pub fn n_ok(&self) -> u64 {
        self.n_ok.load(Ordering::SeqCst)
    }

    /// Waits until as many calls as `n` from now have gone well.
    pub fn wait_for(&self, n: u64) {
        let target = self.n_ok() + n;
        wait_until("more calls that go well", || target <= self.n_ok());
    }

    pub fn stop(mut self) -> Summary {
        self.end();
        let failures = self.failures.lock().unwrap().clone();
        Summary { n_ok: self.n_ok(), failures }
    }

    fn end(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

impl Drop for HelloLoad {
    fn drop(&mut self) {
        self.end();
    }
}

fn call(http: &mut Http, headers: &[&str], text: &str) -> Result<(), (String, String)> {
    let body = format!(
        "interface={HELLO}&method=hash&parameterTypesString=Ljava%2Flang%2FString%3B&parameter={}",
        text.replace(' ', "+")
    );
    match http.post("/", headers, &body) {
        Ok(answer) if answer.status == 200 && answer.body == java_hash(text).to_string() => Ok(()),
        Ok(answer) if answer.status == 200 => Err(("a wrong hash".to_owned(), answer.body)),
        Ok(answer) => Err((format!("{} {}", answer.status, answer.code()), answer.body)),
        Err(error) => Err((error.kind().to_string(), error.to_string())),
    }
}
