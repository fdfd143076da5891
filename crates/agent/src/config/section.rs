//! A section of a configuration file, read key by key.
//!
//! Which keys exist is known from one place only: the reads. What nobody asked for by the time
//! of [`Section::finish`] is an unknown key. A read never fails: it notes what is wrong in
//! [`Problems`] and gives the fallback, so that one reading finds all problems.

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::time::Duration;

use hessian::JavaType;
use toml::Spanned;
use toml::de::{DeTable, DeValue};
use wire::address::unix_path;
use wire::{DEFAULT_SOCKET_MODE, ListenAddress, MAX_SOCKET_PATH_LEN};

use self::secrets::describe_of;
pub(crate) use self::spelling::closest;
use self::spelling::meant;
use super::error::{KeyPlace, Problems};

mod own_keys;
mod paths;
mod secrets;
mod spelling;

/// What an address looks like, for messages.
const ADDRESS_REMEDY: &str =
    "write IP:PORT such as \"127.0.0.1:20000\", or \"unix:\" and the path of a socket";

/// One table of the file. A section that the file leaves out reads as an empty one.
pub(super) struct Section<'d> {
    table: Option<&'d DeTable<'d>>,
    name: &'static str,
    place: KeyPlace,
    asked: Vec<&'static str>,
    problems: &'d Problems<'d>,
}

impl<'d> Section<'d> {
    /// The whole file.
    pub(super) fn root(table: &'d DeTable<'d>, problems: &'d Problems<'d>) -> Self {
        Self::new(Some(table), "", 0, problems)
    }

    fn new(
        table: Option<&'d DeTable<'d>>,
        name: &'static str,
        offset: usize,
        problems: &'d Problems<'d>,
    ) -> Self {
        let place = KeyPlace { offset, key: name.to_owned() };
        Self { table, name, place, asked: Vec::new(), problems }
    }

    /// The section `[key]`; empty if the file has none.
    pub(super) fn table(&mut self, key: &'static str) -> Section<'d> {
        self.table_as(key, key)
    }

    /// The section `[...key]` inside of this one, whose whole name is `name`.
    pub(super) fn table_as(&mut self, key: &'static str, name: &'static str) -> Section<'d> {
        let Some((offset, value)) = self.ask(key) else {
            return Self::new(None, name, self.place.offset, self.problems);
        };
        match value {
            DeValue::Table(table) => Self::new(Some(table), name, offset, self.problems),
            other => {
                let problem = format!("found {}, expected a section", describe(other));
                let remedy = format!("write [{name}] once, with its keys below");
                self.wrong(key, problem, remedy);
                Self::new(None, name, offset, self.problems)
            }
        }
    }

    /// All sections `[[key]]`, in the order of the file.
    pub(super) fn tables(&mut self, key: &'static str) -> Vec<Section<'d>> {
        self.tables_as(key, key)
    }

    /// All sections `[[...key]]` inside of this one, whose whole name is `name`.
    pub(super) fn tables_as(&mut self, key: &'static str, name: &'static str) -> Vec<Section<'d>> {
        let remedy = format!("write [[{name}]] above each, with double brackets");
        let Some((_, value)) = self.ask(key) else {
            return Vec::new();
        };
        let DeValue::Array(items) = value else {
            let problem = format!("found {}, expected a list of sections", describe(value));
            self.wrong(key, problem, remedy);
            return Vec::new();
        };
        let mut sections = Vec::with_capacity(items.len());
        for item in items.iter() {
            let offset = item.span().start;
            if let DeValue::Table(table) = item.get_ref() {
                sections.push(Self::new(Some(table), name, offset, self.problems));
            } else {
                let problem = format!("found {}, expected a section", describe(item.get_ref()));
                self.wrong(key, problem, remedy.as_str());
            }
        }
        sections
    }

    /// Whether the file has this section.
    pub(super) fn is_present(&self) -> bool {
        self.table.is_some()
    }

    /// Whether the file has this key.
    pub(super) fn has(&self, key: &str) -> bool {
        self.entry(key).is_some()
    }

    /// Where `key` is; the head of the section if it does not.
    pub(super) fn place(&self, key: &str) -> KeyPlace {
        let offset = self.entry(key).map_or(self.place.offset, |(name, _)| name.span().start);
        self.named_place(key, offset)
    }

    fn named_place(&self, key: &str, offset: usize) -> KeyPlace {
        let key =
            if self.name.is_empty() { key.to_owned() } else { format!("{}.{key}", self.name) };
        KeyPlace { offset, key }
    }

    /// The head of the section.
    pub(super) fn head(&self) -> &KeyPlace {
        &self.place
    }

    /// Notes that the value of `key`, or its absence, is wrong.
    pub(super) fn wrong(&self, key: &str, problem: impl Into<String>, remedy: impl Into<String>) {
        self.problems.add(&self.place(key), problem, remedy);
    }

    /// Whether something was found to be wrong with `key`.
    pub(super) fn is_wrong(&self, key: &str) -> bool {
        self.problems.has(&self.place(key))
    }

    pub(super) fn problems(&self) -> &'d Problems<'d> {
        self.problems
    }

    /// Notes that what is at `place` is wrong.
    pub(super) fn wrong_at(
        &self,
        place: &KeyPlace,
        problem: impl Into<String>,
        remedy: impl Into<String>,
    ) {
        self.problems.add(place, problem, remedy);
    }

    /// Notes that the value of `key` is not a mistake, but could be better.
    pub(super) fn warn(&self, key: &str, problem: impl Into<String>, remedy: impl Into<String>) {
        self.problems.warn(&self.place(key), problem, remedy);
    }

    /// The file that is read.
    pub(super) fn file(&self) -> &'d str {
        self.problems.file()
    }

    /// A text that is not empty.
    pub(super) fn text(&mut self, key: &'static str) -> Option<&'d str> {
        let (_, value) = self.ask(key)?;
        let DeValue::String(text) = value else {
            let problem = format!("found {}, expected a string", describe_of(key, value));
            self.wrong(key, problem, format!("write {key} = \"...\""));
            return None;
        };
        if text.trim().is_empty() {
            self.wrong(key, "is empty", "give it a value or leave the key out");
            return None;
        }
        Some(text)
    }

    /// A text that has to be there; `remedy` says what it looks like.
    pub(super) fn required_text(&mut self, key: &'static str, remedy: &str) -> Option<&'d str> {
        self.require(key, remedy);
        self.text(key)
    }

    /// A list of texts, none of them empty; the list itself may be.
    pub(super) fn optional_texts(&mut self, key: &'static str) -> Option<Vec<&'d str>> {
        match self.ask(key)?.1 {
            DeValue::Array(items) if items.is_empty() => Some(Vec::new()),
            _ => self.texts(key),
        }
    }

    /// A list of texts, none of them empty.
    pub(super) fn texts(&mut self, key: &'static str) -> Option<Vec<&'d str>> {
        let (_, value) = self.ask(key)?;
        let texts: Option<Vec<&str>> = value.as_array().and_then(|items| {
            let text = |item: &'d Spanned<DeValue<'d>>| item.get_ref().as_str();
            items.iter().map(text).collect()
        });
        match texts {
            Some(texts) if !texts.is_empty() && texts.iter().all(|text| !text.is_empty()) => {
                Some(texts)
            }
            _ => {
                let remedy = format!("write {key} = [\"...\"] with at least one string");
                self.wrong(key, "is not a list of strings", remedy);
                None
            }
        }
    }

    /// A number in `allowed`; `None` if the key is absent or wrong.
    pub(super) fn optional_number<T>(
        &mut self,
        key: &'static str,
        allowed: RangeInclusive<T>,
    ) -> Option<T>
    where
        T: Display + PartialOrd + TryFrom<i64>,
    {
        let (_, value) = self.ask(key)?;
        let remedy = format!("write a whole number from {} to {}", allowed.start(), allowed.end());
        let DeValue::Integer(number) = value else {
            let problem = format!("found {}, expected a number", describe(value));
            self.wrong(key, problem, remedy);
            return None;
        };
        let read = i64::from_str_radix(number.as_str(), number.radix()).ok();
        match read.and_then(|number| T::try_from(number).ok()) {
            Some(number) if allowed.contains(&number) => Some(number),
            _ => {
                self.wrong(key, format!("{number} is out of range"), remedy);
                None
            }
        }
    }

    /// A number in `allowed`, or `Some(None)` for `word`; `None` if the key is absent or wrong.
    pub(super) fn number_or_word<T>(
        &mut self,
        key: &'static str,
        allowed: RangeInclusive<T>,
        word: &str,
    ) -> Option<Option<T>>
    where
        T: Display + PartialOrd + TryFrom<i64>,
    {
        let (_, value) = self.ask(key)?;
        match value {
            DeValue::String(text) if text == word => Some(None),
            DeValue::String(text) => {
                let (least, most) = (allowed.start(), allowed.end());
                let remedy = format!("write \"{word}\", or a whole number from {least} to {most}");
                self.wrong(key, format!("\"{text}\" is not known"), remedy);
                None
            }
            _ => self.optional_number(key, allowed).map(Some),
        }
    }

    /// A number in `allowed`.
    pub(super) fn number<T>(
        &mut self,
        key: &'static str,
        allowed: RangeInclusive<T>,
        default: T,
    ) -> T
    where
        T: Display + PartialOrd + TryFrom<i64>,
    {
        self.optional_number(key, allowed).unwrap_or(default)
    }

    /// A duration in milliseconds, at least 1 and at most `longest`.
    pub(super) fn optional_ms(&mut self, key: &'static str, longest: Duration) -> Option<Duration> {
        self.optional_ms_from(key, Duration::from_millis(1)..=longest)
    }

    /// A duration in milliseconds.
    pub(super) fn optional_ms_from(
        &mut self,
        key: &'static str,
        allowed: RangeInclusive<Duration>,
    ) -> Option<Duration> {
        let allowed_ms = whole_ms(*allowed.start())..=whole_ms(*allowed.end());
        self.optional_number(key, allowed_ms).map(Duration::from_millis)
    }

    /// A duration in milliseconds, at least 1 and at most `longest`.
    pub(super) fn ms(
        &mut self,
        key: &'static str,
        longest: Duration,
        default: Duration,
    ) -> Duration {
        self.optional_ms(key, longest).unwrap_or(default)
    }

    /// A duration in milliseconds, at most `longest`; 0 switches off what it is for.
    pub(super) fn ms_or_none(
        &mut self,
        key: &'static str,
        longest: Duration,
        default: Duration,
    ) -> Duration {
        self.optional_number(key, 0..=whole_ms(longest)).map_or(default, Duration::from_millis)
    }

    /// `true` or `false`.
    pub(super) fn flag(&mut self, key: &'static str, default: bool) -> bool {
        let Some((_, value)) = self.ask(key) else {
            return default;
        };
        value.as_bool().unwrap_or_else(|| {
            let problem = format!("found {}, expected true or false", describe(value));
            self.wrong(key, problem, format!("write {key} = true or {key} = false"));
            default
        })
    }

    /// One of some words.
    pub(super) fn choice<T: Copy>(&mut self, key: &'static str, words: &[(&str, T)]) -> Option<T> {
        let text = self.text(key)?;
        let found = words.iter().find(|(word, _)| *word == text);
        if found.is_none() {
            let known: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
            let remedy = match closest(text, &known) {
                Some(word) => {
                    format!("did you mean \"{word}\"? known values: {}", known.join(", "))
                }
                None => format!("write one of {}", known.join(", ")),
            };
            self.wrong(key, format!("\"{text}\" is not known"), remedy);
        }
        found.map(|(_, value)| *value)
    }

    /// An address to listen on, and `socket_mode`, which belongs to it.
    pub(super) fn address(&mut self, key: &'static str) -> Option<ListenAddress> {
        let mode = self.text("socket_mode");
        let text = self.text(key)?;
        if let Some(path) = unix_path(text) {
            return self.socket(key, path, mode);
        }
        if mode.is_some() {
            self.wrong("socket_mode", "works only with a Unix socket", "remove it");
        }
        let address = text.parse().ok().map(ListenAddress::Tcp);
        if address.is_none() {
            self.wrong(key, format!("\"{text}\" is not an address"), ADDRESS_REMEDY);
        }
        address
    }

    fn socket(
        &mut self,
        key: &'static str,
        path: &str,
        mode: Option<&str>,
    ) -> Option<ListenAddress> {
        let is_mode = |text: &&str| (3..=4).contains(&text.len());
        let octal = |text: &str| u32::from_str_radix(text, 8).ok().filter(|mode| *mode <= 0o777);
        let mode = match mode {
            None => DEFAULT_SOCKET_MODE,
            Some(text) => Some(text).filter(is_mode).and_then(octal).unwrap_or_else(|| {
                let remedy = "write permissions as chmod reads them, such as \"0660\"";
                self.wrong("socket_mode", format!("\"{text}\" is not a file mode"), remedy);
                DEFAULT_SOCKET_MODE
            }),
        };
        if !path.starts_with('/') {
            let remedy = "write an absolute path such as \"unix:/run/dubmesh/http.sock\"";
            self.wrong(key, format!("\"{path}\" is not an absolute path"), remedy);
            return None;
        }
        if MAX_SOCKET_PATH_LEN < path.len() {
            let problem = format!("the path has {} bytes", path.len());
            let remedy = format!("the path of a socket has at most {MAX_SOCKET_PATH_LEN} bytes");
            self.wrong(key, problem, remedy);
            return None;
        }
        Some(ListenAddress::Unix { path: path.into(), mode })
    }

    /// An address to listen on that has to be there.
    pub(super) fn required_address(&mut self, key: &'static str) -> Option<ListenAddress> {
        self.require(key, ADDRESS_REMEDY);
        self.address(key)
    }

    /// Refuses keys that exist, but not in a section like this one.
    pub(super) fn refuse(&mut self, keys: &[&'static str], remedy: &str) {
        for key in keys {
            if self.ask(key).is_some() {
                self.wrong(key, "does not belong here", remedy);
            }
        }
    }

    /// Makes keys known whose values say nothing here.
    pub(super) fn pass_over(&mut self, keys: &[&'static str]) {
        for key in keys {
            self.ask(key);
        }
    }

    /// Refuses all keys that were never asked for.
    pub(super) fn finish(self) {
        for (name, value) in self.table.into_iter().flatten() {
            let key: &str = name.get_ref();
            if self.asked.contains(&key) {
                continue;
            }
            let what = match value.get_ref() {
                DeValue::Table(_) => "section",
                _ => "key",
            };
            let remedy = match meant(key, &self.asked) {
                Some(known) => format!("did you mean \"{known}\"?"),
                None => format!("known keys: {}", self.asked.join(", ")),
            };
            self.wrong_at(
                &self.named_place(key, name.span().start),
                format!("unknown {what}"),
                remedy,
            );
        }
    }

    fn require(&self, key: &'static str, remedy: &str) {
        if self.is_present() && !self.has(key) {
            self.wrong(key, "is missing", remedy);
        }
    }

    /// The value of a key and where it starts; the key counts as known from now on.
    fn ask(&mut self, key: &'static str) -> Option<(usize, &'d DeValue<'d>)> {
        if !self.asked.contains(&key) {
            self.asked.push(key);
        }
        self.entry(key).map(|(name, value)| (name.span().start, value.get_ref()))
    }

    fn entry(
        &self,
        key: &str,
    ) -> Option<(&'d Spanned<std::borrow::Cow<'d, str>>, &'d Spanned<DeValue<'d>>)> {
        self.table?.iter().find(|(name, _)| name.get_ref() == key)
    }
}

fn whole_ms(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// A value in words, with its kind.
fn describe(value: &DeValue<'_>) -> String {
    match value {
        DeValue::String(text) => format!("text \"{text}\""),
        DeValue::Integer(number) => format!("number {number}"),
        DeValue::Float(number) => format!("fraction {number}"),
        DeValue::Boolean(flag) => format!("{flag}"),
        other => kind(other).to_owned(),
    }
}

/// What a value is, and not which: it may be a secret.
fn kind(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "a text",
        DeValue::Integer(_) => "a number",
        DeValue::Float(_) => "a fraction",
        DeValue::Boolean(_) => "true or false",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a section",
    }
}

/// What to write in place of a class's name without its package.
pub(crate) fn advise_package(name: &str) -> String {
    match JavaType::full_name(name) {
        Some(full) => format!("did you mean {full}?"),
        None => format!("write the full name of the class, such as com.acme.{name}"),
    }
}

#[cfg(test)]
mod tests;
