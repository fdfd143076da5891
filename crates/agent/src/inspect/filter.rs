//! Which things a question is about, and the first of them.

use std::borrow::Cow;
use std::cmp::Ordering;

use dubbo_proto::ServiceKey;

use crate::args::member_of_json;
use crate::facts::CallFacts;

/// As many things as an answer lists if nobody says how many.
pub const DEFAULT_LIMIT: usize = 100;
/// The most that an answer lists: some hundred KB.
pub const MAX_LIMIT: usize = 1000;

/// Which things a question is about. What is not given excludes nothing.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Filter {
    /// As many are listed.
    pub limit: usize,
    /// A service key or an interface; a trailing `*` matches any ending.
    pub service: Option<String>,
    /// `HOST:PORT` of an endpoint, or the address of a connection's peer, with or without its
    /// port.
    pub address: Option<String>,
    /// What is spoken, such as `http`.
    pub protocol: Option<String>,
    /// `downstream` or `upstream`.
    pub direction: Option<String>,
    /// The number of a worker.
    pub worker: Option<usize>,
    /// The call that is to be explained.
    pub call: ImaginedCall,
}

/// A call that nobody makes.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct ImaginedCall {
    /// The method's name.
    pub method: String,
    /// Attachments; the last one of a name counts.
    pub attachments: Vec<(String, String)>,
    /// Arguments as texts.
    pub arguments: Vec<String>,
    /// Headers, by their names in small letters.
    pub headers: Vec<(String, String)>,
}

impl CallFacts for ImaginedCall {
    fn method(&self) -> Cow<'_, str> {
        Cow::Borrowed(&self.method)
    }

    fn attachment(&self, name: &str) -> Option<Cow<'_, str>> {
        let own = self.attachments.iter().rev().find(|(key, _)| key == name)?;
        Some(Cow::Borrowed(&own.1))
    }

    fn argument(&self, index: usize) -> Option<Cow<'_, str>> {
        self.arguments.get(index).map(|text| Cow::Borrowed(text.as_str()))
    }

    fn member(&self, index: usize, path: &[String]) -> Option<Cow<'_, str>> {
        member_of_json(self.arguments.get(index)?.as_bytes(), path)
    }

    fn header(&self, name: &str) -> Option<Cow<'_, str>> {
        let own = self.headers.iter().find(|(key, _)| key == name)?;
        Some(Cow::Borrowed(&own.1))
    }
}

impl Default for Filter {
    fn default() -> Self {
        Self {
            limit: DEFAULT_LIMIT,
            service: None,
            address: None,
            protocol: None,
            direction: None,
            worker: None,
            call: ImaginedCall::default(),
        }
    }
}

impl Filter {
    /// Reads the query of a URL. `known` are the parameters that the question has beside `limit`.
    ///
    /// # Errors
    /// What is wrong with the query, and what could be written instead.
    pub fn of_query(query: &str, known: &[&str]) -> Result<Self, String> {
        let mut filter = Self::default();
        for (name, value) in form_urlencoded::parse(query.as_bytes()) {
            if name != "limit" && !known.contains(&&*name) {
                let known = known.join(", ");
                return Err(match known.is_empty() {
                    true => "unknown parameter; this page takes limit".to_owned(),
                    false => format!("unknown parameter; this page takes limit, {known}"),
                });
            }
            let text = || Some(value.clone().into_owned());
            match &*name {
                "limit" => {
                    let limit = value.parse().ok().filter(|limit| (1..=MAX_LIMIT).contains(limit));
                    filter.limit = limit
                        .ok_or_else(|| format!("limit must be a number from 1 to {MAX_LIMIT}"))?;
                }
                "service" => filter.service = text(),
                "address" => filter.address = text(),
                "protocol" => filter.protocol = text(),
                "direction" if ["downstream", "upstream"].contains(&&*value) => {
                    filter.direction = text();
                }
                "direction" => return Err("direction must be downstream or upstream".to_owned()),
                "method" => filter.call.method = value.into_owned(),
                "attachment" => {
                    let (name, value) = value.split_once('=').ok_or("attachment is NAME=VALUE")?;
                    filter.call.attachments.push((name.to_owned(), value.to_owned()));
                }
                "header" => {
                    let (name, value) = value.split_once('=').ok_or("header is NAME=VALUE")?;
                    filter.call.headers.push((name.to_ascii_lowercase(), value.to_owned()));
                }
                "argument" => filter.call.arguments.push(value.into_owned()),
                "worker" => {
                    let worker = value.parse().ok();
                    filter.worker = Some(worker.ok_or("worker must be a number, from 0")?);
                }
                _ => {}
            }
        }
        Ok(filter)
    }

    /// Whether the question is about a service. `name` is its key as text.
    pub fn has_service(&self, service: &ServiceKey, name: &str) -> bool {
        self.service.as_ref().is_none_or(|wanted| service.matches(wanted, name))
    }

    /// Whether the question is about an address, by its host or with its port.
    pub fn has_address(&self, address: &str) -> bool {
        self.address.as_deref().is_none_or(|wanted| {
            let host = wire::address::split_optional(address).map_or(address, |(host, _)| host);
            address == wanted || wanted.trim_matches(['[', ']']) == host
        })
    }

    /// Whether the question is about a protocol.
    pub fn has_protocol(&self, protocol: &str) -> bool {
        self.protocol.as_deref().is_none_or(|wanted| wanted == protocol)
    }

    /// Whether the question is about a direction.
    pub fn has_direction(&self, direction: &str) -> bool {
        self.direction.as_deref().is_none_or(|wanted| wanted == direction)
    }
}

/// The first things of many, in some order: it never keeps more than twice as many as are wanted.
pub struct FirstFew<T, F> {
    limit: usize,
    kept: Vec<T>,
    n_all: usize,
    order: F,
}

impl<T, F: Fn(&T, &T) -> Ordering> FirstFew<T, F> {
    /// None yet; `limit` are wanted, at least 1, by `order`.
    pub fn new(limit: usize, order: F) -> Self {
        Self { limit: limit.max(1), kept: Vec::new(), n_all: 0, order }
    }

    /// One more thing.
    pub fn push(&mut self, thing: T) {
        self.n_all += 1;
        self.kept.push(thing);
        if 2 * self.limit <= self.kept.len() {
            self.kept.select_nth_unstable_by(self.limit - 1, &self.order);
            self.kept.truncate(self.limit);
        }
    }

    /// The first ones, in order, and how many there were.
    pub fn finish(mut self) -> (Vec<T>, usize) {
        self.kept.sort_by(&self.order);
        self.kept.truncate(self.limit);
        (self.kept, self.n_all)
    }
}
