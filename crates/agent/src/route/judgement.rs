//! What a provider has said of the types that a definition tells, and how long that counts.

use std::time::{Duration, Instant};

/// How long a verdict counts. Then the types are looked at again: another release of the provider
/// may have them.
const VERDICT_TIME: Duration = Duration::from_secs(30);
/// How long nobody asks again where nothing was found against the types. Without it, each call
/// whose arguments the provider refuses would cause another one.
const QUIET_TIME: Duration = Duration::from_secs(1);

/// What counts against the types that a definition tells.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum TypesVerdict {
    /// Nothing.
    #[default]
    None,
    /// A provider has refused them as unknown, and carries out generic calls. It cannot be asked
    /// about them.
    Refused,
    /// A provider says that it has no method with them.
    Wrong,
}

/// A verdict, and when it was given.
#[derive(Clone, Copy, Debug, Default)]
pub struct Judgement {
    verdict: TypesVerdict,
    until: Option<Instant>,
}

impl Judgement {
    /// A verdict that is given now.
    pub fn new(verdict: TypesVerdict, now: Instant) -> Self {
        let time = match verdict {
            TypesVerdict::None => QUIET_TIME,
            TypesVerdict::Refused | TypesVerdict::Wrong => VERDICT_TIME,
        };
        Self { verdict, until: Some(now + time) }
    }

    /// The verdict, however old it is.
    pub fn verdict(self) -> TypesVerdict {
        self.verdict
    }

    /// Whether it is too early to look at the types again.
    pub fn is_fresh(self, now: Instant) -> bool {
        self.until.is_some_and(|until| now < until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_judgement_ends() {
        let now = Instant::now();
        assert!(!Judgement::default().is_fresh(now));
        assert_eq!(Judgement::default().verdict(), TypesVerdict::None);
        for (verdict, time) in [
            (TypesVerdict::None, QUIET_TIME),
            (TypesVerdict::Refused, VERDICT_TIME),
            (TypesVerdict::Wrong, VERDICT_TIME),
        ] {
            let judgement = Judgement::new(verdict, now);
            assert_eq!(judgement.verdict(), verdict);
            assert!(judgement.is_fresh(now) && !judgement.is_fresh(now + time), "{verdict:?}");
        }
    }
}
