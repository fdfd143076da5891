//! The page `/tap`: calls as they end, a JSON object a line, until the caller has enough.

use std::convert::Infallible;
use std::mem;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use hyper::body::{Body, Frame};
use tokio::time::Sleep;

use super::AdminState;
use crate::journal::{JournalLine, Record, Tap, TapFilter};

/// A connection of this listener may not last for ever; who wants to see more asks again.
const LONGEST: Duration = Duration::from_secs(100);
/// Calls that are written at a time.
const MAX_LINES: usize = 64;
/// Longest time that a filter may ask for, in milliseconds.
const MAX_SLOWER_MS: u64 = 3_600_000;

const KNOWN: &str = "service, method, failed, slower_ms, sample and arguments";

/// Why nothing is shown.
pub(super) enum TapRefusal {
    /// The query is wrong.
    Query(String),
    /// It is not allowed.
    Forbidden(&'static str),
    /// As many look on as may.
    Full(String),
}

/// Shows calls to one who asks by the query of a URL.
pub(super) fn begin(state: &AdminState, query: &str) -> Result<TapBody, TapRefusal> {
    let filter = read(query).map_err(TapRefusal::Query)?;
    let shows_arguments =
        state.config.borrow().admin.as_ref().is_some_and(|admin| admin.shows_arguments);
    if filter.arguments && !shows_arguments {
        return Err(TapRefusal::Forbidden(
            "arguments may be secret, and this listener asks for no password; to have it show \
             them, write tap_arguments = true below [admin]",
        ));
    }
    let with_arguments = filter.arguments;
    let tap = state.journal.tap(filter).map_err(|error| TapRefusal::Full(error.to_string()))?;
    let end = Box::pin(tokio::time::sleep(LONGEST));
    Ok(TapBody { tap, with_arguments, end, records: Vec::new(), has_begun: false })
}

/// Which calls the query of a URL asks for.
///
/// # Errors
/// What is wrong with it.
pub(super) fn read(query: &str) -> Result<TapFilter, String> {
    let mut filter = TapFilter::default();
    for (name, value) in form_urlencoded::parse(query.as_bytes()) {
        let number = |most: u64| {
            let number = value.parse().ok().filter(|number| (1..=most).contains(number));
            number.ok_or_else(|| format!("{name} is {value:?}; write a number from 1 to {most}"))
        };
        let flag = || match &*value {
            "" | "1" | "true" => Ok(true),
            "0" | "false" => Ok(false),
            _ => Err(format!("{name} is {value:?}; write true or false")),
        };
        match &*name {
            "service" | "method" if value.is_empty() => {
                return Err(format!("{name} is empty; leave it out for any"));
            }
            "service" => filter.service = Some(value.into_owned()),
            "method" => filter.method = Some(value.into_owned()),
            "failed" => filter.only_failed = flag()?,
            "slower_ms" => filter.slower_than = Duration::from_millis(number(MAX_SLOWER_MS)?),
            "sample" => {
                filter.one_of = u32::try_from(number(u32::MAX.into())?).unwrap_or(u32::MAX);
            }
            "arguments" => filter.arguments = flag()?,
            other => return Err(format!("{other:?} is not known here; known are {KNOWN}")),
        }
    }
    Ok(filter)
}

/// Lines of calls as they end.
pub(super) struct TapBody {
    tap: Tap,
    with_arguments: bool,
    end: Pin<Box<Sleep>>,
    records: Vec<Arc<Record>>,
    /// The caller has got something, so that it knows that calls are shown from now on.
    has_begun: bool,
}

impl Body for TapBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let this = &mut *self;
        if !mem::replace(&mut this.has_begun, true) {
            return Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(b"\n")))));
        }
        if this.end.as_mut().poll(cx).is_ready() {
            return Poll::Ready(None);
        }
        if ready!(this.tap.poll_records(cx, &mut this.records, MAX_LINES)) == 0 {
            return Poll::Ready(None);
        }
        let mut lines = Vec::new();
        for record in this.records.drain(..) {
            let line = JournalLine::new(&record, this.with_arguments);
            line.write_json(&mut lines);
            lines.push(b'\n');
        }
        let n_lost = this.tap.take_lost();
        if n_lost != 0 {
            lines.extend_from_slice(format!("{{\"lost\":{n_lost}}}\n").as_bytes());
        }
        Poll::Ready(Some(Ok(Frame::data(lines.into()))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_says_which_calls() {
        let filter =
            read("service=com.acme.Echo&method=echo&failed&slower_ms=5&sample=10&arguments=true");
        assert_eq!(
            filter,
            Ok(TapFilter {
                service: Some("com.acme.Echo".to_owned()),
                method: Some("echo".to_owned()),
                only_failed: true,
                slower_than: Duration::from_millis(5),
                one_of: 10,
                arguments: true,
            })
        );
        assert_eq!(read(""), Ok(TapFilter::default()));
        for (query, told) in [
            ("sample=0", "from 1 to"),
            ("sample=x", "from 1 to"),
            ("failed=maybe", "true or false"),
            ("servce=a", "known are service"),
            ("service=", "service is empty; leave it out"),
            ("service=a&method=", "method is empty; leave it out"),
        ] {
            let error = read(query).unwrap_err();
            assert!(error.contains(told), "{query}: {error}");
        }
    }
}
