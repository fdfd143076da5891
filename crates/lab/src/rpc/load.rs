//! The callers: tasks, or threads that block.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use link::{Bound, Client, Traffic};

use super::echo::{self, ECHO, ECHO_RAW, Echo, USAGE};
use super::meter::{Measured, Meter, Usage};
use super::plan::{CALL_TIMEOUT, Codec, RpcError, RpcPlan};

/// A caller: its method, its request, and how a reply is to begin and how long it is to be.
#[derive(Clone)]
enum MethodCaller {
    Raw(Bound<Bytes, Bytes>, Bytes, usize),
    Typed(Bound<Echo, Echo>, Echo, u8),
}

impl MethodCaller {
    fn new(plan: RpcPlan, client: &Client, number: u32) -> Self {
        let (request_len, response_len) = (plan.request_bytes, plan.response_bytes);
        match plan.codec {
            Codec::Raw => {
                let request = echo::raw_request(number, request_len, response_len);
                Self::Raw(client.bind(&ECHO_RAW), request, response_len as usize)
            }
            codec => {
                let request = echo::request(number, request_len, response_len);
                Self::Typed(client.bind(&ECHO), request, codec.number())
            }
        }
    }

    /// Makes one call; says whether the reply is the right one.
    async fn call(&self) -> bool {
        match self {
            Self::Raw(method, request, response_len) => {
                let reply = method.call(request.clone()).await;
                reply.is_ok_and(|reply| is_right(request, &reply, *response_len))
            }
            Self::Typed(method, request, codec) => {
                let reply = method.call(request.clone()).codec(*codec).await;
                let len = request.response_len as usize;
                reply.is_ok_and(|reply| {
                    is_right(request.text.as_bytes(), reply.text.as_bytes(), len)
                })
            }
        }
    }

    fn call_blocking(&self) -> bool {
        match self {
            Self::Raw(method, request, response_len) => {
                let reply = method.call(request.clone()).wait();
                reply.is_ok_and(|reply| is_right(request, &reply, *response_len))
            }
            Self::Typed(method, request, codec) => {
                let reply = method.call(request.clone()).codec(*codec).wait();
                let len = request.response_len as usize;
                reply.is_ok_and(|reply| {
                    is_right(request.text.as_bytes(), reply.text.as_bytes(), len)
                })
            }
        }
    }
}

/// Whether a reply has the length that was asked for, and belongs to this caller.
fn is_right(request: &[u8], reply: &[u8], len: usize) -> bool {
    reply.len() == len && reply.get(..8) == request.get(..8)
}

/// Calls from tasks until the time is over.
pub(super) async fn run_tasks(
    plan: RpcPlan,
    client: &Client,
    traffic: &Traffic,
) -> Result<Measured, RpcError> {
    let usage = client.bind(&USAGE);
    usage.call(()).await.map_err(probe_failed)?;
    let meter = Arc::new(Meter::new(plan));
    let callers: Vec<_> = (0..plan.concurrency)
        .map(|number| {
            let (caller, meter) = (MethodCaller::new(plan, client, number), Arc::clone(&meter));
            tokio::spawn(async move {
                let mut start = Instant::now();
                loop {
                    let is_good = caller.call().await;
                    let end = Instant::now();
                    if !meter.record(start, end, is_good) {
                        return;
                    }
                    start = end;
                }
            })
        })
        .collect();
    let server = async || usage.call(()).timeout(CALL_TIMEOUT).await.map_err(probe_failed);
    tokio::time::sleep_until(meter.begin.into()).await;
    let (client_before, server_before) = (Usage::now(traffic), server().await?);
    tokio::time::sleep_until(meter.end.into()).await;
    let (client_after, server_after) = (Usage::now(traffic), server().await?);
    for caller in callers {
        caller.await.map_err(|_| RpcError::Caller)?;
    }
    let (used, served) = (client_after.since(client_before), server_after.since(server_before));
    Ok(meter.finish(used, served, client.n_connections()))
}

/// Calls from threads until the time is over.
pub(super) fn run_threads(
    plan: RpcPlan,
    client: &Client,
    traffic: &Traffic,
) -> Result<Measured, RpcError> {
    let usage = client.bind(&USAGE);
    usage.call(()).wait().map_err(probe_failed)?;
    let meter = Arc::new(Meter::new(plan));
    let callers: Vec<_> = (0..plan.concurrency)
        .map(|number| {
            let (caller, meter) = (MethodCaller::new(plan, client, number), Arc::clone(&meter));
            std::thread::spawn(move || {
                let mut start = Instant::now();
                loop {
                    let is_good = caller.call_blocking();
                    let end = Instant::now();
                    if !meter.record(start, end, is_good) {
                        return;
                    }
                    start = end;
                }
            })
        })
        .collect();
    let server = || usage.call(()).timeout(CALL_TIMEOUT).wait().map_err(probe_failed);
    std::thread::sleep(meter.begin.saturating_duration_since(Instant::now()));
    let (client_before, server_before) = (Usage::now(traffic), server()?);
    std::thread::sleep(meter.end.saturating_duration_since(Instant::now()));
    let (client_after, server_after) = (Usage::now(traffic), server()?);
    for caller in callers {
        caller.join().map_err(|_| RpcError::Caller)?;
    }
    let (used, served) = (client_after.since(client_before), server_after.since(server_before));
    Ok(meter.finish(used, served, client.n_connections()))
}

fn probe_failed(error: link::CallError) -> RpcError {
    match error {
        link::CallError::Failed(failure) => RpcError::Probe(failure),
        link::CallError::Service(never) => match never {},
    }
}
