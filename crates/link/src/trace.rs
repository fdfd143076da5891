//! W3C Trace Context: which trace a call belongs to.
//!
//! A trace travels as the metadata `traceparent` and `tracestate`, with the meaning and the form
//! of the HTTP headers of these names (W3C Recommendation "Trace Context", level 1; a later
//! version's `traceparent` is read as far as level 1 knows it).

use std::fmt;
use std::str::FromStr;

use link_proto::Meta;
use rand::Rng;

/// Metadata key of [`TraceContext`]'s text.
pub const TRACEPARENT: &str = "traceparent";
/// Metadata key of what vendors add.
pub const TRACESTATE: &str = "tracestate";
/// What must be passed on of a `tracestate`; a longer one may be dropped, whole.
const MAX_STATE_LEN: usize = 512;

/// A place in a trace: the trace, and the span that calls.
///
/// ```
/// use link::trace::TraceContext;
///
/// let caller: TraceContext = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01".parse()?;
/// let child = caller.child();
/// assert_eq!(child.trace_id(), caller.trace_id());
/// assert!(child.is_sampled());
/// # Ok::<(), link::trace::BadTraceParent>(())
/// ```
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct TraceContext {
    trace_id: u128,
    span_id: u64,
    flags: u8,
    state: Option<String>,
}

/// Not a `traceparent`. As the recommendation asks, such a one is as good as none.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error(
    "not a traceparent: VERSION-TRACE-SPAN-FLAGS with 2, 32, 16 and 2 lower-case hex digits, neither id all zero"
)]
pub struct BadTraceParent;

impl TraceContext {
    /// The first span of a new trace.
    pub fn root(is_sampled: bool) -> Self {
        let mut rng = rand::rng();
        let trace_id = rng.random_range(1..=u128::MAX);
        Self { trace_id, span_id: new_span_id(), flags: u8::from(is_sampled), state: None }
    }

    /// A new span in the same trace.
    #[must_use]
    pub fn child(&self) -> Self {
        Self { span_id: new_span_id(), ..self.clone() }
    }

    /// The trace that a message belongs to, if it says so rightly.
    pub fn from_meta(meta: &Meta) -> Option<Self> {
        let mut trace: Self = meta.value(TRACEPARENT)?.parse().ok()?;
        trace.state =
            meta.value(TRACESTATE).filter(|state| state.len() <= MAX_STATE_LEN).map(str::to_owned);
        Some(trace)
    }

    /// The trace's id; never 0.
    pub fn trace_id(&self) -> u128 {
        self.trace_id
    }

    /// The calling span's id; never 0.
    pub fn span_id(&self) -> u64 {
        self.span_id
    }

    /// Whether the caller records this trace.
    pub fn is_sampled(&self) -> bool {
        self.flags & 1 != 0
    }

    /// What vendors added: the text of `tracestate`.
    pub fn state(&self) -> Option<&str> {
        self.state.as_deref()
    }

    /// Adds it to a message's metadata, in place of another one.
    pub(crate) fn add_to(&self, meta: &mut Vec<(String, String)>) {
        meta.retain(|(key, _)| key != TRACEPARENT && key != TRACESTATE);
        meta.push((TRACEPARENT.to_owned(), self.to_string()));
        if let Some(state) = &self.state {
            meta.push((TRACESTATE.to_owned(), state.clone()));
        }
    }
}

fn new_span_id() -> u64 {
    rand::rng().random_range(1..=u64::MAX)
}

impl fmt::Display for TraceContext {
    /// The text of `traceparent`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "00-{:032x}-{:016x}-{:02x}", self.trace_id, self.span_id, self.flags)
    }
}

impl FromStr for TraceContext {
    type Err = BadTraceParent;

    fn from_str(text: &str) -> Result<Self, BadTraceParent> {
        let hex = |part: Option<&str>, len: usize| {
            let part = part.filter(|part| part.len() == len)?;
            let is_hex = part.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
            is_hex.then(|| u128::from_str_radix(part, 16).ok()).flatten()
        };
        let mut parts = text.splitn(5, '-');
        let version = hex(parts.next(), 2).ok_or(BadTraceParent)?;
        let trace_id = hex(parts.next(), 32).filter(|id| *id != 0).ok_or(BadTraceParent)?;
        let span_id = hex(parts.next(), 16).filter(|id| *id != 0).ok_or(BadTraceParent)?;
        let flags = hex(parts.next(), 2).ok_or(BadTraceParent)?;
        // A later version may have more parts; version ff is none, and version 0 ends here.
        if version == 0xff || version == 0 && parts.next().is_some() {
            return Err(BadTraceParent);
        }
        let span_id = u64::try_from(span_id).map_err(|_| BadTraceParent)?;
        let flags = u8::try_from(flags & 1).map_err(|_| BadTraceParent)?;
        Ok(Self { trace_id, span_id, flags, state: None })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn text_goes_in_and_out() {
        let trace: TraceContext = GOOD.parse().unwrap();
        assert_eq!(trace.to_string(), GOOD);
        assert_eq!(trace.span_id(), 0x00f0_67aa_0ba9_02b7);
        let root = TraceContext::root(false);
        assert_eq!(root.to_string().parse(), Ok(root));
    }

    #[test]
    fn a_later_version_is_read_as_far_as_it_is_known() {
        let later: TraceContext = format!("01{}-what-else", &GOOD[2..]).parse().unwrap();
        assert_eq!(later, GOOD.parse().unwrap());
    }

    #[test]
    fn anything_else_is_none() {
        let upper = GOOD.to_uppercase();
        let zero_trace = format!("00-{}-00f067aa0ba902b7-01", "0".repeat(32));
        let zero_span = format!("00-4bf92f3577b34da6a3ce929d0e0e4736-{}-01", "0".repeat(16));
        let longer = format!("{GOOD}-x");
        let no_version = format!("ff{}", &GOOD[2..]);
        for bad in [
            "",
            "00",
            "00-x-y-z",
            &upper,
            &zero_trace,
            &zero_span,
            &longer,
            &no_version,
            &GOOD[..54],
        ] {
            assert_eq!(bad.parse::<TraceContext>(), Err(BadTraceParent), "{bad}");
        }
    }
}
