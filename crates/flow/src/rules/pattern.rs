//! What a value of a condition matches.

use super::parties::UrlView;

/// Which side of a condition a pattern is on. They differ in what a wrong range means.
#[derive(Clone, Copy, Debug)]
pub(super) enum PatternSide<'a> {
    /// Before `=>`.
    When,
    /// After `=>`, where `$name` is a parameter of the caller.
    Then(UrlView<'a>),
}

/// One value of a condition, parsed.
#[derive(Clone, Debug)]
pub(super) enum Pattern {
    /// `1~100`, or one that Dubbo ignores (`None`), such as `1~`.
    Range(Option<Range>),
    /// `$name`: before `=>` it is plain text.
    Caller(String),
    Glob(String),
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Range {
    first: i32,
    last: i32,
}

impl Pattern {
    pub(super) fn new(text: &str) -> Self {
        match text {
            _ if text.contains('~') => Self::Range(Range::new(text)),
            _ if text.starts_with('$') => Self::Caller(text.to_owned()),
            _ => Self::Glob(text.to_owned()),
        }
    }

    pub(super) fn is_match(&self, value: &str, side: PatternSide<'_>) -> bool {
        match (self, side) {
            (Self::Range(range), side) => {
                let otherwise = matches!(side, PatternSide::Then(_));
                range.and_then(|range| range.contains(value)).unwrap_or(otherwise)
            }
            (Self::Caller(text), PatternSide::When) => glob(text, value),
            (Self::Caller(text), PatternSide::Then(caller)) => {
                let name = text.strip_prefix('$').unwrap_or(text);
                glob(&caller.raw(name).unwrap_or_default(), value)
            }
            (Self::Glob(pattern), _) => glob(pattern, value),
        }
    }
}

impl Range {
    /// As Dubbo's `RangeValuePattern` reads it: `~` splits, and empty parts at the end are cut.
    fn new(text: &str) -> Option<Self> {
        let mut parts: Vec<&str> = text.split('~').collect();
        while parts.last().is_some_and(|part| part.is_empty()) {
            parts.pop();
        }
        let [first, last, ..] = parts.as_slice() else { return None };
        if first.is_empty() && last.is_empty() {
            return None;
        }
        let end = |text: &str, open| if text.is_empty() { Some(open) } else { integer(text) };
        Some(Self { first: end(first, i32::MIN)?, last: end(last, i32::MAX)? })
    }

    /// `None` if the value is too large a number.
    fn contains(self, value: &str) -> Option<bool> {
        let value = integer(value)?;
        Some((self.first..=self.last).contains(&value))
    }
}

/// Dubbo's `parseInteger`: anything but digits is 0; `None` if it is too large.
fn integer(text: &str) -> Option<i32> {
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Some(0);
    }
    text.parse().ok()
}

/// Dubbo's `isMatchGlobPattern`: one `*`, the last one, stands for any text.
pub(super) fn glob(pattern: &str, value: &str) -> bool {
    if pattern == "*" || (pattern.is_empty() && value.is_empty()) {
        return true;
    }
    if pattern.is_empty() || value.is_empty() {
        return false;
    }
    match pattern.rsplit_once('*') {
        None => pattern == value,
        Some((prefix, suffix)) => value.starts_with(prefix) && value.ends_with(suffix),
    }
}
