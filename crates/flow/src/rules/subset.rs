//! Subsets: endpoints with certain parameters, which a part of the calls goes to, and no other.

use std::sync::Arc;

use parameters::Parameters;

use super::parties::UrlView;
use super::selection::{Clause, Effect, Selection};

/// Endpoints with certain parameters.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Subset {
    /// What explanations call it.
    pub name: Arc<str>,
    /// The parameters, with their values.
    pub params: Parameters,
    /// Whether its calls go nowhere else, even if it has no endpoint.
    pub force: bool,
}

impl Subset {
    /// Whether it has this endpoint.
    #[must_use]
    pub fn has(&self, endpoint: &UrlView<'_>) -> bool {
        self.params.iter().all(|(name, value)| endpoint.param(name) == Some(value))
    }
}

/// Leaves a call the endpoints of `chosen`; or those that are in none of the `subsets`, if there
/// is any such.
pub fn apply_subsets(
    subsets: &[Subset],
    chosen: Option<&Subset>,
    endpoints: &[UrlView<'_>],
    selection: &mut Selection,
) {
    if let Some(subset) = chosen {
        let is_in = |index: usize| endpoints.get(index).is_some_and(|it| subset.has(it));
        let n_kept = selection.kept().filter(|index| is_in(*index)).count();
        let clause = Clause::Subset;
        if n_kept != 0 || subset.force {
            selection.retain(&subset.name, &clause, is_in);
            let effect = if n_kept == 0 { Effect::Nobody } else { Effect::Kept(n_kept) };
            return selection.note(&subset.name, clause, effect);
        }
        selection.note(&subset.name, clause, Effect::Ignored);
    }
    let is_outside = |index: usize| {
        let endpoint = endpoints.get(index);
        endpoint.is_some_and(|endpoint| !subsets.iter().any(|subset| subset.has(endpoint)))
    };
    let n_kept = selection.kept().filter(|index| is_outside(*index)).count();
    if n_kept == 0 || n_kept == selection.kept().count() {
        return;
    }
    let name: Arc<str> = "splits".into();
    selection.retain(&name, &Clause::Subsets, is_outside);
    selection.note(&name, Clause::Subsets, Effect::Kept(n_kept));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subset(env: &str, force: bool) -> Subset {
        Subset { name: env.into(), params: [("env", env)].into(), force }
    }

    /// What is left of three endpoints: `gray`, `prod`, and one without a parameter.
    fn kept(subsets: &[Subset], chosen: Option<usize>, envs: &[&str]) -> Vec<usize> {
        let params: Vec<Parameters> =
            envs.iter().map(|env| Parameters::from([("env", env)])).collect();
        let endpoints: Vec<UrlView<'_>> = params
            .iter()
            .map(|params| UrlView {
                protocol: "dubbo",
                host: "10.0.0.1",
                port: 20880,
                path: "a.B",
                params,
                is_down: false,
            })
            .collect();
        let mut selection = Selection::all(endpoints.len());
        let chosen = chosen.and_then(|index| subsets.get(index));
        apply_subsets(subsets, chosen, &endpoints, &mut selection);
        selection.kept().collect()
    }

    #[test]
    fn the_calls_of_a_subset_and_all_others_are_kept_apart() {
        let subsets = [subset("gray", false), subset("blue", true)];
        let envs = ["gray", "prod", ""];
        assert_eq!(kept(&subsets, Some(0), &envs), [0]);
        assert_eq!(kept(&subsets, None, &envs), [1, 2]);
        assert!(kept(&subsets, Some(1), &envs).is_empty(), "it is forced");
        assert_eq!(kept(&subsets, Some(0), &["prod", "prod"]), [0, 1], "nobody is in it");
        assert_eq!(kept(&subsets, None, &["gray", "gray"]), [0, 1], "there is nobody else");
        assert_eq!(kept(&[], None, &envs), [0, 1, 2]);
    }
}
