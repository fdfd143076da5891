//! What rules can make of a call where weighted destinations are drawn: all of it, with how often.
//!
//! A call that is made has its destinations drawn by chance. Whoever explains one goes through all
//! draws instead, so that no endpoint looks removed that other calls of the same kind go to.

use std::sync::Arc;

use rand::Rng;

use super::selection::{Clause, Removal, Selection};

/// Chooses one of the destinations of a condition.
pub(super) trait Chooser {
    /// The index of the chosen one; `None` if none has an endpoint.
    fn choose(&mut self, offered: DrawnOf<'_>) -> Option<usize>;
}

/// Destinations that one is chosen of.
#[derive(Clone, Copy)]
pub(super) struct DrawnOf<'a> {
    pub(super) rule: &'a Arc<str>,
    pub(super) condition: usize,
    /// How each is written.
    pub(super) texts: &'a dyn Fn(usize) -> Arc<str>,
    /// The weight of each; 0 if it has no endpoint.
    pub(super) weights: &'a [u64],
}

/// By chance, by their weights.
pub(super) struct ByChance<'a, R: ?Sized>(pub(super) &'a mut R);

impl<R: Rng + ?Sized> Chooser for ByChance<'_, R> {
    fn choose(&mut self, offered: DrawnOf<'_>) -> Option<usize> {
        let n_able = offered.weights.iter().filter(|weight| **weight != 0).count();
        let sum: u64 = offered.weights.iter().sum();
        let mut point = if 1 < n_able { self.0.random_range(0..sum) } else { 0 };
        offered.weights.iter().position(|weight| {
            let is_here = point < *weight;
            point = point.saturating_sub(*weight);
            is_here
        })
    }
}

/// A draw among weighted destinations, and what came of it.
#[derive(Clone, Debug)]
pub struct WeightedDraw {
    /// The rule's name.
    pub rule: Arc<str>,
    /// The condition, counted from 0.
    pub condition: usize,
    /// All of its destinations.
    pub destinations: Vec<WeightedDestination>,
    /// The index of the one that was drawn, if any has an endpoint.
    pub drawn: Option<usize>,
}

/// A destination, and how often it is drawn.
#[derive(Clone, Debug)]
pub struct WeightedDestination {
    /// As the rule has it.
    pub to: Arc<str>,
    /// Its share of the calls in percent: 0 if it has no endpoint.
    pub percent: f64,
}

/// What rules make of some of the calls of one kind.
#[derive(Clone, Debug)]
pub struct Chance {
    /// So many of a hundred calls.
    pub percent: f64,
    /// What the rules leave them.
    pub selection: Selection,
    /// What was drawn for them, in the order of the rules.
    pub draws: Vec<WeightedDraw>,
}

/// What rules make of all calls of one kind.
#[derive(Clone, Debug)]
pub struct Chances {
    all: Vec<Chance>,
    /// Whether these are all: there may be too many.
    is_whole: bool,
}

/// Chooses as it is told, and by the first that is possible beyond that.
#[derive(Default)]
struct Replay {
    /// For each draw in turn; `None` where nothing can be drawn.
    chosen: Vec<Option<usize>>,
    draws: Vec<WeightedDraw>,
    percent: f64,
}

impl Chooser for Replay {
    fn choose(&mut self, offered: DrawnOf<'_>) -> Option<usize> {
        let DrawnOf { rule, condition, texts, weights } = offered;
        let sum: u64 = weights.iter().sum();
        let percent = |weight: u64| weight as f64 * 100.0 / sum.max(1) as f64;
        let told = self.chosen.get(self.draws.len()).copied();
        let drawn = told.unwrap_or_else(|| weights.iter().position(|weight| *weight != 0));
        let one = |(index, weight): (usize, &u64)| WeightedDestination {
            to: texts(index),
            percent: percent(*weight),
        };
        self.draws.push(WeightedDraw {
            rule: Arc::clone(rule),
            condition,
            destinations: weights.iter().enumerate().map(one).collect(),
            drawn,
        });
        if let Some(weight) = drawn.and_then(|index| weights.get(index)) {
            self.percent *= percent(*weight) / 100.0;
        }
        drawn
    }
}

impl Chances {
    /// What is left whatever is drawn.
    #[must_use]
    pub fn sure(selection: Selection) -> Self {
        Self { all: vec![Chance { percent: 100.0, selection, draws: Vec::new() }], is_whole: true }
    }

    /// Goes through all draws, but at most `max`. `select` applies rules by a chooser.
    pub(super) fn new(max: usize, mut select: impl FnMut(&mut dyn Chooser) -> Selection) -> Self {
        let (mut all, mut chosen) = (Vec::new(), Some(Vec::new()));
        while let Some(told) = chosen.take_if(|_| all.len() < max.max(1)) {
            let mut replay = Replay { chosen: told, draws: Vec::new(), percent: 100.0 };
            let selection = select(&mut replay);
            let Replay { draws, percent, .. } = replay;
            chosen = following(&draws);
            all.push(Chance { percent, selection, draws });
        }
        Self { all, is_whole: chosen.is_none() }
    }

    /// Those of several kinds of calls, each with its part of a hundred calls.
    #[must_use]
    pub fn join(parts: impl IntoIterator<Item = (f64, Self)>) -> Self {
        let mut joined = Self { all: Vec::new(), is_whole: true };
        for (percent, part) in parts {
            joined.is_whole &= part.is_whole;
            let scaled =
                |chance: Chance| Chance { percent: chance.percent * percent / 100.0, ..chance };
            joined.all.extend(part.all.into_iter().map(scaled));
        }
        joined
    }

    /// All of them.
    #[must_use]
    pub fn all(&self) -> &[Chance] {
        &self.all
    }

    /// Changes what each of them leaves.
    pub fn each(&mut self, mut change: impl FnMut(&mut Selection)) {
        self.all.iter_mut().for_each(|chance| change(&mut chance.selection));
    }

    /// One of them by chance, as calls have it.
    pub fn draw<R: Rng + ?Sized>(&self, rng: &mut R) -> Option<&Chance> {
        let mut point = rng.random_range(0.0..1.0) * self.sum();
        let drawn = self.all.iter().find(|chance| {
            point -= chance.percent;
            point < 0.0
        });
        drawn.or(self.all.first())
    }

    /// How many of a hundred calls may go to the endpoint at `index`.
    #[must_use]
    pub fn kept_percent(&self, index: usize) -> f64 {
        let kept = self.all.iter().filter(|chance| chance.selection.is_kept(index));
        // `sum` makes -0.0 of nothing.
        kept.fold(0.0, |sum, chance| sum + chance.percent) * 100.0 / self.sum()
    }

    /// What keeps all calls from the endpoint at `index`.
    #[must_use]
    pub fn removal(&self, index: usize) -> Option<Removal> {
        let mut removals = Vec::new();
        for chance in &self.all {
            removals.push(chance.selection.removal(index)?);
        }
        let is_drawn = |removal: &&Removal| matches!(removal.clause, Clause::Destination { .. });
        if let Some(removal) = removals.iter().find(|removal| !is_drawn(removal)) {
            return Some((*removal).clone());
        }
        // In none of the destinations, then.
        let mut removal = (*removals.first().filter(|_| self.is_whole)?).clone();
        if let Clause::Destination { destination, .. } = &mut removal.clause {
            *destination = None;
        }
        Some(removal)
    }

    fn sum(&self) -> f64 {
        self.all.iter().map(|chance| chance.percent).sum::<f64>().max(f64::MIN_POSITIVE)
    }
}

/// What is chosen after these draws: the last one that has another destination takes that.
fn following(draws: &[WeightedDraw]) -> Option<Vec<Option<usize>>> {
    let next = |draw: &WeightedDraw| {
        let drawn = draw.drawn?;
        let later = draw.destinations.iter().enumerate().skip(drawn + 1);
        later.filter(|(_, it)| it.percent != 0.0).map(|(index, _)| index).next()
    };
    let (at, other) = draws.iter().enumerate().rev().find_map(|(at, it)| Some((at, next(it)?)))?;
    let before = draws.iter().take(at).map(|draw| draw.drawn);
    Some(before.chain([Some(other)]).collect())
}
