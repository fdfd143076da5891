//! An open loop: calls come at a fixed rate, whether or not others have been answered. A call's
//! time begins when it was due, so that nothing is left out when the load generator or the agent
//! falls behind.

use std::collections::{BTreeMap, HashMap};
use std::io::{self, ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use mio::net::TcpStream;
use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token};
use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};

use crate::error::BenchError;

const TIMER: Token = Token(0);
/// How long calls may be answered after the last one was made.
const GRACE: Duration = Duration::from_secs(3);
/// The answers of these calls are short.
const MAX_ANSWER_LEN: usize = 16 * 1024;
/// So many calls without a good answer are kept with what was said.
const MAX_MISSES: usize = 20;

/// What is asked for, and how often.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OpenLoad<'a> {
    pub(crate) addr: SocketAddr,
    /// The whole of a request.
    pub(crate) request: &'a [u8],
    pub(crate) per_s: u32,
    /// Whole seconds.
    pub(crate) duration: Duration,
    /// An answer after this time is none.
    pub(crate) deadline: Duration,
}

/// What came of the calls.
#[derive(Clone, Debug, Default)]
pub(crate) struct OpenLoadOutcome {
    pub(crate) n_offered: u64,
    /// Answered with 200 and in time: how long each took.
    pub(crate) answered: Vec<Duration>,
    /// Answered with 503: how long each took.
    pub(crate) shed: Vec<Duration>,
    /// Answered with 200, but too late.
    pub(crate) n_late: u64,
    /// Other answers by their status; 0 for those that never came.
    pub(crate) failed: HashMap<u16, u64>,
    /// Good answers to the calls of each second.
    pub(crate) good_by_second: BTreeMap<u64, u64>,
    /// Every call, in the order in which they ended.
    pub(crate) ends: Vec<End>,
    /// The first of those that had no good answer.
    pub(crate) misses: Vec<Miss>,
}

/// A call without a good answer.
#[derive(Clone, Debug)]
pub(crate) struct Miss {
    pub(crate) end: End,
    /// What came instead: the answer, or why there is none.
    pub(crate) said: String,
}

/// How a call ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct End {
    /// When it was due, from the beginning of the load.
    pub(crate) due: Duration,
    pub(crate) time: Duration,
    /// Of its answer; 0 if none came.
    pub(crate) status: u16,
    /// Answered with 200, and in time.
    pub(crate) is_good: bool,
}

impl OpenLoadOutcome {
    pub(crate) fn n_failed(&self) -> u64 {
        self.failed.values().sum::<u64>() + self.n_late
    }
}

/// The given share of `times`, in milliseconds; 0 if there are none.
pub(crate) fn percentile_ms(times: &[Duration], share: f64) -> f64 {
    let mut times = times.to_vec();
    times.sort_unstable();
    let wanted = share * times.len() as f64;
    let time = times.iter().zip(1_u32..).find(|(_, rank)| wanted <= f64::from(*rank));
    time.map_or(0.0, |(time, _)| time.as_secs_f64() * 1e3)
}

/// Makes the calls, and waits for their answers.
pub(crate) fn run(load: &OpenLoad<'_>) -> Result<OpenLoadOutcome, BenchError> {
    Loop::new(load).and_then(Loop::run).map_err(BenchError::io("the load"))
}

struct Loop<'a> {
    load: OpenLoad<'a>,
    poll: Poll,
    timer: TimerFd,
    started: Instant,
    connections: HashMap<Token, LoadConnection>,
    /// Connections without a call; the last one that was used comes first.
    idle: Vec<Token>,
    next_token: usize,
    outcome: OpenLoadOutcome,
}

struct LoadConnection {
    stream: TcpStream,
    is_connected: bool,
    /// When the call was due that is under way.
    due: Option<Instant>,
    answer: Vec<u8>,
}

impl<'a> Loop<'a> {
    fn new(load: &OpenLoad<'a>) -> io::Result<Self> {
        let poll = Poll::new()?;
        let flags = TimerFlags::TFD_NONBLOCK | TimerFlags::TFD_CLOEXEC;
        let timer = TimerFd::new(ClockId::CLOCK_MONOTONIC, flags)?;
        let fd = timer.as_fd().as_raw_fd();
        poll.registry().register(&mut SourceFd(&fd), TIMER, Interest::READABLE)?;
        Ok(Self {
            load: *load,
            poll,
            timer,
            started: Instant::now(),
            connections: HashMap::new(),
            idle: Vec::new(),
            next_token: 1,
            outcome: OpenLoadOutcome::default(),
        })
    }

    fn run(mut self) -> io::Result<OpenLoadOutcome> {
        let mut events = Events::with_capacity(1024);
        let n_calls = u64::from(self.load.per_s) * self.load.duration.as_secs();
        let end = self.started + self.load.duration + GRACE;
        loop {
            while self.outcome.n_offered < n_calls
                && self.due(self.outcome.n_offered) <= Instant::now()
            {
                let due = self.due(self.outcome.n_offered);
                self.outcome.n_offered += 1;
                if let Err(error) = self.call(due) {
                    self.fail(due, &error.to_string());
                }
            }
            let is_over = self.outcome.n_offered == n_calls;
            let n_left = self.connections.len() - self.idle.len();
            let now = Instant::now();
            if is_over && (n_left == 0 || end <= now) {
                let left: Vec<Instant> =
                    self.connections.values().filter_map(|it| it.due).collect();
                left.into_iter().for_each(|due| self.fail(due, "no answer"));
                return Ok(self.outcome);
            }
            let next = if is_over { end } else { self.due(self.outcome.n_offered) };
            self.wake_at(next.saturating_duration_since(now))?;
            match self.poll.poll(&mut events, None) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                result => result?,
            }
            for event in &events {
                match event.token() {
                    TIMER => drop(self.timer.wait()),
                    token => self.ready(token),
                }
            }
        }
    }

    fn due(&self, nth: u64) -> Instant {
        self.started + Duration::from_secs_f64(nth as f64 / f64::from(self.load.per_s))
    }

    fn wake_at(&self, time: Duration) -> io::Result<()> {
        // A time of zero would turn it off.
        let time = TimeSpec::from_duration(time.max(Duration::from_nanos(1)));
        Ok(self.timer.set(Expiration::OneShot(time), TimerSetTimeFlags::empty())?)
    }

    fn fail(&mut self, due: Instant, why: &str) {
        *self.outcome.failed.entry(0).or_default() += 1;
        let due_after = due.saturating_duration_since(self.started);
        let end = End { due: due_after, time: due.elapsed(), status: 0, is_good: false };
        self.end(end, || why.to_owned());
    }

    fn end(&mut self, end: End, said: impl FnOnce() -> String) {
        if !end.is_good && self.outcome.misses.len() < MAX_MISSES {
            self.outcome.misses.push(Miss { end, said: said() });
        }
        self.outcome.ends.push(end);
    }

    /// Makes a call on a connection that is idle, or on a new one.
    fn call(&mut self, due: Instant) -> io::Result<()> {
        if let Some(token) = self.idle.pop()
            && let Some(connection) = self.connections.get_mut(&token)
        {
            connection.due = Some(due);
            if let Err(error) = write(&mut connection.stream, self.load.request) {
                self.close(token, &error);
            }
            return Ok(());
        }
        let mut stream = TcpStream::connect(self.load.addr)?;
        stream.set_nodelay(true)?;
        let token = Token(self.next_token);
        self.next_token += 1;
        let interest = Interest::READABLE | Interest::WRITABLE;
        self.poll.registry().register(&mut stream, token, interest)?;
        let connection =
            LoadConnection { stream, is_connected: false, due: Some(due), answer: Vec::new() };
        self.connections.insert(token, connection);
        Ok(())
    }

    fn ready(&mut self, token: Token) {
        let Some(connection) = self.connections.get_mut(&token) else { return };
        if !connection.is_connected {
            match connection.stream.peer_addr() {
                Ok(_) => connection.is_connected = true,
                Err(error) if error.kind() == ErrorKind::NotConnected => return,
                Err(error) => return self.close(token, &error),
            }
            if let Err(error) = write(&mut connection.stream, self.load.request) {
                return self.close(token, &error);
            }
        }
        if let Err(error) = connection.read() {
            return self.close(token, &error);
        }
        let Some((status, is_kept)) = parse(&connection.answer) else { return };
        let answer = std::mem::take(&mut connection.answer);
        if let Some(due) = connection.due.take() {
            self.count(status, due, &answer);
        }
        if is_kept {
            self.idle.push(token);
        } else {
            self.connections.remove(&token);
        }
    }

    fn count(&mut self, status: u16, due: Instant, answer: &[u8]) {
        let time = due.elapsed();
        let is_good = status == 200 && time <= self.load.deadline;
        let due_after = due.saturating_duration_since(self.started);
        let end = End { due: due_after, time, status, is_good };
        self.end(end, || String::from_utf8_lossy(answer).into_owned());
        match status {
            200 if time <= self.load.deadline => {
                self.outcome.answered.push(time);
                let second = (due - self.started).as_secs();
                *self.outcome.good_by_second.entry(second).or_default() += 1;
            }
            200 => self.outcome.n_late += 1,
            503 => self.outcome.shed.push(time),
            other => *self.outcome.failed.entry(other).or_default() += 1,
        }
    }

    /// A connection that broke, with the call that was on it.
    fn close(&mut self, token: Token, why: &io::Error) {
        let connection = self.connections.remove(&token);
        match connection.and_then(|it| it.due) {
            Some(due) => self.fail(due, &why.to_string()),
            None => self.idle.retain(|idle| *idle != token),
        }
    }
}

/// Requests are far shorter than what the kernel takes at once.
fn write(stream: &mut TcpStream, request: &[u8]) -> io::Result<()> {
    match stream.write(request)? {
        len if len == request.len() => Ok(()),
        _ => Err(ErrorKind::WriteZero.into()),
    }
}

impl LoadConnection {
    fn read(&mut self) -> io::Result<()> {
        let mut buffer = [0; 4096];
        loop {
            match self.stream.read(&mut buffer) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(len) => self.answer.extend_from_slice(&buffer[..len]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
            if MAX_ANSWER_LEN < self.answer.len() {
                return Err(ErrorKind::InvalidData.into());
            }
        }
    }
}

/// The status of an answer that is whole, and whether its connection may be used again.
fn parse(answer: &[u8]) -> Option<(u16, bool)> {
    let head_len = answer.windows(4).position(|window| window == b"\r\n\r\n")?;
    let head = std::str::from_utf8(answer.get(..head_len)?).ok()?;
    let field = |wanted: &str| {
        head.lines().skip(1).find_map(|line| {
            let (name, value) = line.split_once(':')?;
            name.eq_ignore_ascii_case(wanted).then(|| value.trim())
        })
    };
    let len: usize = field("content-length")?.parse().ok()?;
    if answer.len() < head_len + 4 + len {
        return None;
    }
    let status = head.split(' ').nth(1)?.parse().ok()?;
    let closes = field("connection").is_some_and(|it| it.eq_ignore_ascii_case("close"));
    Some((status, !closes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_counts_once_it_is_whole() {
        let answer = b"HTTP/1.1 503 Busy\r\nContent-Length: 2\r\nconnection: close\r\n\r\n{}";
        assert_eq!(parse(answer), Some((503, false)));
        assert_eq!(parse(&answer[..answer.len() - 1]), None);
        assert_eq!(parse(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"), Some((200, true)));
    }

    #[test]
    fn percentiles_are_of_what_is_there() {
        let times: Vec<Duration> = (1..=100).rev().map(Duration::from_millis).collect();
        assert_eq!(percentile_ms(&times, 0.99), 99.0);
        assert_eq!(percentile_ms(&times, 0.5), 50.0);
        assert_eq!(percentile_ms(&[], 0.99), 0.0);
    }
}
