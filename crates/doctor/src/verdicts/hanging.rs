//! Apps behind an agent's exports that take calls and answer none.

use agent::inspect::snapshot::AppSnapshot;

use super::agent_pages::AgentLook;
use super::{Cause, Finding, counted, recurs};

/// How a call ends for which nobody answers in time, by the names on the pages.
const LATE: &str = "timeout";
/// How one ends whose caller gave it up before its deadline, as where another endpoint was faster.
/// It shows nothing.
const CANCELLED: &str = "cancelled";

/// How a call ends that never reaches an app, because it has as many as it can take.
const SHED: &str = "overloaded";

/// Apps of which every call has timed out.
pub(super) fn of_apps(looks: &[AgentLook]) -> Vec<Finding> {
    let Some(last) = looks.last() else { return Vec::new() };
    last.apps.iter().filter_map(|app| hangs(looks, app)).collect()
}

fn n_late(app: &AppSnapshot) -> u64 {
    app.failed.get(LATE).copied().unwrap_or(0)
}

fn hangs(looks: &[AgentLook], app: &AppSnapshot) -> Option<Finding> {
    let at = |look: &AgentLook| look.apps.iter().find(|it| it.app == app.app).cloned();
    let seen: Vec<AppSnapshot> = looks.iter().filter_map(at).collect();
    let first = seen.first()?;
    // One that answers anything, and be it an error, does not hang.
    let n_ended = |it: &AppSnapshot| {
        let failed =
            it.failed.iter().filter(|(name, _)| ![LATE, CANCELLED, SHED].contains(&name.as_str()));
        it.ok + failed.map(|(_, n)| n).sum::<u64>()
    };
    let n_lost = n_late(app).saturating_sub(n_late(first));
    let ends = seen.windows(2).map(|pair| n_late(&pair[0]) < n_late(&pair[1]));
    if n_ended(first) != n_ended(app) || !recurs(ends) {
        return None;
    }
    let in_flight = seen.iter().map(|it| it.in_flight).max().unwrap_or(0);
    Some(Finding {
        cause: Cause::NoAnswer,
        subject: format!("app {}", app.app),
        verdict: "the app behind the export answers nothing".to_owned(),
        evidence: vec![
            format!(
                "{} ended meanwhile, and none of them in time",
                counted(n_lost, "call", "calls")
            ),
            format!("at most {} in flight to it", counted(in_flight, "call was", "calls were")),
            format!("it offers {}", app.services.join(", ")),
        ],
        remedy: "see what its threads wait for (jstack PID, or a stack trace of another kind), \
                 and whether it accepts connections at all"
            .to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::super::testing::looks;
    use super::*;

    /// What an app has answered, refused and left unanswered, by look.
    fn findings(ended: impl Fn(u64) -> (u64, u64, u64)) -> Vec<Finding> {
        let at = |nth| {
            let (ok, refused, late) = ended(nth);
            let app = AppSnapshot {
                app: "127.0.0.1:8080".to_owned(),
                services: vec!["com.acme.Orders".to_owned()],
                capacity: 200,
                source: "configured".to_owned(),
                in_flight: 4,
                ok,
                failed: [
                    ("exception", refused),
                    ("timeout", late),
                    ("overloaded", nth),
                    ("cancelled", 9 * nth),
                ]
                .map(|(name, n)| (name.to_owned(), n))
                .into(),
                ..AppSnapshot::default()
            };
            AgentLook { apps: vec![app], ..AgentLook::default() }
        };
        of_apps(&looks(20, at))
    }

    #[test]
    fn an_app_of_which_all_calls_time_out_is_named() {
        let [finding] = findings(|nth| (500, 3, 7 + 2 * nth)).try_into().unwrap();
        assert_eq!(finding.cause, Cause::NoAnswer);
        assert_eq!(finding.verdict, "the app behind the export answers nothing");
        assert_eq!(finding.evidence[0], "38 calls ended meanwhile, and none of them in time");
        assert_eq!(finding.evidence[1], "at most 4 calls were in flight to it");
        // Some are answered, or it says that it fails; a burst, or nothing at all.
        assert_eq!(findings(|nth| (500 + nth / 9, 3, 2 * nth)), []);
        assert_eq!(findings(|nth| (500, nth, 2 * nth)), []);
        assert_eq!(findings(|nth| (500, 3, if nth < 9 { 0 } else { 40 })), []);
        assert_eq!(findings(|_| (500, 3, 40)), []);
    }
}
