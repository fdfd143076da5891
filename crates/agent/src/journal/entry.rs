//! What is noted of a call while it is under way.

use std::rc::Rc;
use std::time::{Duration, Instant, SystemTime};

use wire::Peer;

use super::Journal;
use super::record::{MAX_ARGUMENTS_LEN, MAX_MESSAGE_LEN, MAX_NAME_LEN, Record, cut};
use crate::error::{CallError, Code};
use crate::stages::{Stage, StageClock};

/// A call that somebody may want to know of. One that is dropped was given up by its caller.
#[derive(Debug)]
pub struct JournalEntry {
    journal: Journal,
    /// `None` once it is told, and if nobody wants to be told: then only its stages count.
    record: Option<Record>,
    started: Instant,
    wants: Wants,
    clock: Option<Rc<StageClock>>,
    /// When it was passed to the app, if its caller would like to know how long that took.
    passed_on: Option<Instant>,
}

/// What a request says of itself.
#[derive(Clone, Copy, Debug, Default)]
pub struct RequestNames<'a> {
    /// The service key.
    pub service: &'a str,
    /// The method.
    pub method: &'a str,
    /// The trace context of the caller.
    pub trace: Option<&'a str>,
}

/// How a call was answered.
#[derive(Clone, Copy, Debug, Default)]
pub struct RecordedAnswer<'a> {
    /// Where.
    pub endpoint: Option<&'a str>,
    /// Bytes of the provider's reply.
    pub len: usize,
    /// The failure that it counts as.
    pub failure: Option<Code>,
}

/// What somebody wants to know of a call.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Wants {
    /// Anything at all.
    pub(super) is_told: bool,
    /// Its arguments, too.
    pub(super) arguments: bool,
}

impl JournalEntry {
    pub(super) fn new(
        journal: Journal,
        protocol: &'static str,
        peer: Option<Peer>,
        started: Instant,
        wants: Wants,
        clock: Option<Rc<StageClock>>,
    ) -> Self {
        let record = || Record {
            began: SystemTime::now(),
            latency: Duration::ZERO,
            protocol,
            peer,
            service: None,
            method: None,
            path: None,
            code: None,
            message: None,
            endpoint: None,
            request_len: 0,
            reply_len: 0,
            trace: None,
            arguments: None,
            stages: None,
        };
        let record = wants.is_told.then(record);
        Self { journal, record, started, wants, clock, passed_on: None }
    }

    /// Whether somebody wants to be told of the call: what it says of itself is worth reading.
    pub fn is_told(&self) -> bool {
        self.wants.is_told
    }

    /// What stops the time of its stages, if anything does.
    pub fn clock(&self) -> Option<&Rc<StageClock>> {
        self.clock.as_ref()
    }

    /// The call is passed to the app, and its caller would like to know how long that took.
    pub fn passed_on(&mut self, now: Instant) {
        self.passed_on = Some(now);
    }

    /// When that was.
    pub fn passed_on_at(&self) -> Option<Instant> {
        self.passed_on
    }

    /// Notes what the request says.
    pub fn named(&mut self, named: RequestNames<'_>) {
        if let Some(clock) = &self.clock {
            clock.name(&cut(named.service, MAX_NAME_LEN));
        }
        if let Some(record) = &mut self.record {
            record.service = Some(cut(named.service, MAX_NAME_LEN));
            record.method = Some(cut(named.method, MAX_NAME_LEN));
            record.path = None;
            record.trace = named.trace.map(|trace| cut(trace, MAX_NAME_LEN));
        }
    }

    /// Notes the path of a request that is not read yet, and the length that it announces.
    pub fn asked_for(&mut self, path: &str, len: usize) {
        if let Some(record) = &mut self.record {
            record.path = Some(cut(path, MAX_NAME_LEN));
            record.request_len = len;
        }
    }

    /// Notes how much of the body has come, if that is more than was announced.
    pub fn read_so_far(&mut self, len: usize) {
        if let Some(record) = &mut self.record {
            record.request_len = record.request_len.max(len);
        }
    }

    /// Notes the length of the request's body, and its arguments if they are wanted. `arguments`
    /// gives them as a JSON array that it may cut off at so many bytes.
    pub fn asked(&mut self, len: usize, arguments: impl FnOnce(usize) -> Option<String>) {
        let wants_arguments = self.wants.arguments;
        if let Some(record) = &mut self.record {
            record.request_len = len;
            if wants_arguments {
                let text = arguments(MAX_ARGUMENTS_LEN);
                record.arguments = text.map(|text| cut(&text, MAX_ARGUMENTS_LEN));
            }
        }
    }

    /// Tells that the call was answered.
    pub fn answered(mut self: Box<Self>, answer: RecordedAnswer<'_>) {
        if let Some(mut record) = self.record.take() {
            record.code = answer.failure;
            record.endpoint = answer.endpoint.map(Into::into);
            record.reply_len = answer.len;
            self.tell(record);
        }
    }

    /// Tells that the call has failed, at `endpoint` unless the error names another.
    pub fn failed(mut self: Box<Self>, error: &CallError, endpoint: Option<&str>) {
        if let Some(mut record) = self.record.take() {
            record.code = Some(error.code);
            record.message = Some(cut(&error.message, MAX_MESSAGE_LEN));
            record.endpoint = error.endpoint.as_deref().or(endpoint).map(Into::into);
            self.tell(record);
        }
    }

    fn tell(&self, mut record: Record) {
        let now = Instant::now();
        record.latency = now.saturating_duration_since(self.started);
        if let Some(clock) = &self.clock {
            clock.enter(Stage::Answer, now);
            record.stages = Some(Box::new(clock.spent()));
        }
        self.journal.report(record);
    }
}

impl Drop for JournalEntry {
    fn drop(&mut self) {
        if let Some(mut record) = self.record.take() {
            record.code = Some(Code::Cancelled);
            self.tell(record);
        } else if let (false, Some(clock)) = (self.wants.is_told, &self.clock) {
            clock.enter(Stage::Answer, Instant::now());
        }
    }
}
