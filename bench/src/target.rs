//! What a figure should be.

use serde_json::{Value, json};

use crate::measure::rounded;

/// A figure beside its target.
#[derive(Clone, Debug)]
pub struct Target {
    /// What the figure is of.
    pub what: String,
    /// The figure.
    pub value: f64,
    /// What it should be.
    pub bound: Bound,
    /// Its unit, with a blank before it where one belongs.
    pub unit: &'static str,
}

/// Which side of a target is good.
#[derive(Clone, Copy, Debug)]
pub enum Bound {
    /// It should not be less.
    AtLeast(f64),
    /// It should not be more.
    AtMost(f64),
}

impl Target {
    /// A figure that should not be less than `bound`.
    #[must_use]
    pub fn at_least(what: &str, value: f64, bound: f64, unit: &'static str) -> Self {
        Self { what: what.to_owned(), value, bound: Bound::AtLeast(bound), unit }
    }

    /// A figure that should not be more than `bound`.
    #[must_use]
    pub fn at_most(what: &str, value: f64, bound: f64, unit: &'static str) -> Self {
        Self { what: what.to_owned(), value, bound: Bound::AtMost(bound), unit }
    }

    /// Whether the figure is on the good side.
    #[must_use]
    pub fn is_met(&self) -> bool {
        match self.bound {
            Bound::AtLeast(bound) => bound <= self.value,
            Bound::AtMost(bound) => self.value <= bound,
        }
    }

    /// One line of the report, such as `calls/s 2400, target >= 2535: missed by 5.3%`.
    #[must_use]
    pub fn line(&self) -> String {
        let Self { what, value, unit, .. } = self;
        let (sign, bound) = match self.bound {
            Bound::AtLeast(bound) => (">=", bound),
            Bound::AtMost(bound) => ("<=", bound),
        };
        let verdict = if self.is_met() {
            "met".to_owned()
        } else if bound == 0.0 {
            "MISSED".to_owned()
        } else {
            format!("MISSED by {:.1}%", (value / bound - 1.0).abs() * 100.0)
        };
        let digits = usize::from(value.abs() < 1000.0) * 2;
        format!("{what}: {value:.digits$}{unit}, target {sign} {bound}{unit}: {verdict}")
    }

    /// The same for programs.
    #[must_use]
    pub fn json(&self) -> Value {
        let (name, bound) = match self.bound {
            Bound::AtLeast(bound) => ("at_least", bound),
            Bound::AtMost(bound) => ("at_most", bound),
        };
        json!({ "what": self.what, "value": rounded(self.value), name: bound, "met": self.is_met() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_miss_tells_its_size() {
        let target = Target::at_least("calls/s", 1900.0, 2000.0, "/s");
        assert_eq!(target.line(), "calls/s: 1900/s, target >= 2000/s: MISSED by 5.0%");
        let target = Target::at_most("p99", 1.5, 2.0, " ms");
        assert_eq!(target.line(), "p99: 1.50 ms, target <= 2 ms: met");
        assert!(Target::at_most("errors", 1.0, 0.0, "").line().ends_with("MISSED"));
    }
}
