//! Sections whose keys are the user's own, such as the names of registries.

use std::ops::RangeInclusive;

use toml::de::DeValue;

use super::{Section, kind};
use crate::config::error::KeyPlace;

impl<'d> Section<'d> {
    /// The texts in the section `[key]`, whose keys are the user's own, with their places.
    pub(in crate::config) fn pairs(
        &mut self,
        key: &'static str,
    ) -> Vec<(KeyPlace, &'d str, &'d str)> {
        let mut pairs = Vec::new();
        for (place, name, value) in self.own_keys(key, "\"value\"") {
            match value.as_str() {
                Some(text) => pairs.push((place, name, text)),
                None => {
                    let problem = format!("found {}, expected a string", kind(value));
                    self.problems.add(&place, problem, "write it in quotes");
                }
            }
        }
        pairs
    }

    /// The numbers in the section `[key]`, whose keys are the user's own, with their places.
    pub(in crate::config) fn numbers(
        &mut self,
        key: &'static str,
        allowed: RangeInclusive<u32>,
    ) -> Vec<(KeyPlace, &'d str, u32)> {
        let remedy = format!("write a whole number from {} to {}", allowed.start(), allowed.end());
        let mut numbers = Vec::new();
        for (place, name, value) in self.own_keys(key, "1") {
            let read = match value {
                DeValue::Integer(number) => {
                    u32::from_str_radix(number.as_str(), number.radix()).ok()
                }
                _ => None,
            };
            match read.filter(|number| allowed.contains(number)) {
                Some(number) => numbers.push((place, name, number)),
                None => self.problems.add(&place, "is not a number in range", remedy.as_str()),
            }
        }
        numbers
    }

    /// The keys of the section `[key]`, which are the user's own.
    fn own_keys(
        &mut self,
        key: &'static str,
        example: &str,
    ) -> Vec<(KeyPlace, &'d str, &'d DeValue<'d>)> {
        let Some((_, value)) = self.ask(key) else {
            return Vec::new();
        };
        let DeValue::Table(table) = value else {
            let problem = format!("found {}, expected a section", kind(value));
            self.wrong(key, problem, format!("write {key} = {{ name = {example} }}"));
            return Vec::new();
        };
        let own = table.iter().map(|(name, value)| {
            let key = format!("{}.{}", self.place(key).key, name.get_ref());
            let place = KeyPlace { offset: name.span().start, key };
            (place, name.get_ref().as_ref(), value.get_ref())
        });
        own.collect()
    }
}
