//! Rules keep the endpoints that Dubbo's own routers keep.
//!
//! `vectors/dubbo-3.3.6.json` has what they answered; interop/vectors-rules has the recipe.

use std::borrow::Cow;
use std::collections::BTreeSet;

use flow::rules::{CallView, ConditionRule, Configurators, RuleSet, TagRule, UrlView};
use parameters::Parameters;
use rand::SeedableRng;
use rand::rngs::StdRng;
use serde_json::Value;

const VECTORS: &str = include_str!("../vectors/dubbo-3.3.6.json");
/// Draws among two destinations of comparable weights: misses one of them once in 2^100.
const DRAWS: usize = 200;
/// Different on purpose, see the module's documentation: names are not looked up, and regular
/// expressions are refused.
const DIFFERENT: [&str; 1] = ["t30-regex"];

struct Url {
    protocol: String,
    host: String,
    port: u16,
    path: String,
    params: Parameters,
}

impl Url {
    fn new(value: &Value) -> Self {
        let text = |key: &str| value[key].as_str().unwrap_or_default().to_owned();
        let params = value["params"].as_object().unwrap().iter();
        Self {
            protocol: text("protocol"),
            // Java writes IPv6 in brackets in URLs.
            host: text("host").trim_matches(['[', ']']).to_owned(),
            port: u16::try_from(value["port"].as_u64().unwrap()).unwrap(),
            path: text("path"),
            params: params.map(|(name, value)| (name, value.as_str().unwrap())).collect(),
        }
    }

    fn view(&self) -> UrlView<'_> {
        let Self { protocol, host, port, path, params } = self;
        UrlView { protocol, host, port: *port, path, params, is_down: false }
    }
}

/// As Java's `String.valueOf`.
fn shown(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn kept(rules: &RuleSet, consumer: &Url, endpoints: &[Url], call: &Value, n: usize) -> String {
    let attachment = |key: &str| call["attachments"].get(key).map(|value| Cow::Owned(shown(value)));
    let argument =
        |index: usize| call["arguments"].get(index).map(|value| Cow::Owned(shown(value)));
    let method = call["method"].as_str().unwrap();
    let view = CallView {
        consumer: consumer.view(),
        method,
        attachment: &attachment,
        argument: &argument,
    };
    let endpoints: Vec<UrlView<'_>> = endpoints.iter().map(Url::view).collect();
    let mut all = BTreeSet::new();
    let mut rng = StdRng::seed_from_u64(7);
    for _ in 0..n {
        let selection = match (&rules.tags, rules.conditions.first()) {
            // Dubbo asked the condition router alone: endpoints' own tags had no say.
            (None, Some(rule)) => {
                let mut selection = flow::rules::Selection::all(endpoints.len());
                rule.apply(&view, &endpoints, &mut rng, &mut selection);
                selection
            }
            _ => rules.select(&view, &endpoints, &mut rng),
        };
        let kept: Vec<String> = selection.kept().map(|index| index.to_string()).collect();
        all.insert(if kept.is_empty() { "-".to_owned() } else { kept.join(",") });
    }
    all.into_iter().collect::<Vec<_>>().join("|")
}

#[test]
fn keeps_what_dubbo_keeps() {
    let vectors: Value = serde_json::from_str(VECTORS).unwrap();
    let list = |key: &str| vectors[key].as_array().unwrap().clone();
    let consumers: Vec<Url> = list("consumers").iter().map(Url::new).collect();
    let urls = |list: &Value| list.as_array().unwrap().iter().map(Url::new).collect();
    let providers: Vec<Vec<Url>> = list("providers").iter().map(urls).collect();
    let (calls, rules) = (list("calls"), list("rules"));
    let (mut n_compared, mut wrong) = (0, Vec::new());
    for rule in &rules {
        let text = |key: &str| rule[key].as_str().unwrap();
        let (name, text, is_tag) = (text("name"), text("text"), text("kind") == "tag");
        if DIFFERENT.contains(&name) {
            continue;
        }
        let mut set = RuleSet::default();
        let mut error = None;
        if is_tag {
            set.tags = TagRule::parse(name, text).map_err(|problem| error = Some(problem)).ok();
        } else {
            let parsed = ConditionRule::parse(name, text);
            // A rule that is refused does nothing.
            set.conditions.extend(parsed.map_err(|problem| error = Some(problem)));
        }
        let results = vectors["results"][name].as_str().unwrap().split(' ');
        let cases = consumers.iter().enumerate().flat_map(|(c, consumer)| {
            providers
                .iter()
                .enumerate()
                .flat_map(move |(p, list)| (0..4).map(move |k| ((c, p, k), consumer, list)))
        });
        for (((c, p, k), consumer, list), expected) in cases.zip(results) {
            n_compared += 1;
            let draws = if text.contains("weight") { DRAWS } else { 1 };
            let ours = match (is_tag, set.conditions.first()) {
                (false, None) => {
                    (0..list.len()).map(|i| i.to_string()).collect::<Vec<_>>().join(",")
                }
                _ => kept(&set, consumer, list, &calls[k], draws),
            };
            if ours != expected {
                wrong.push(format!(
                    "{name} consumer {c} providers {p} call {k}: {ours}, Dubbo {expected}; {text:?} {error:?}"
                ));
            }
        }
    }
    assert!(9_000 < n_compared, "{n_compared}");
    assert!(wrong.is_empty(), "{} of {n_compared}:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn changes_what_dubbo_changes() {
    let vectors: Value = serde_json::from_str(VECTORS).unwrap();
    let endpoints: Vec<Url> =
        vectors["endpoints"].as_array().unwrap().iter().map(Url::new).collect();
    let (mut n_compared, mut wrong) = (0, Vec::new());
    for rule in vectors["configurators"].as_array().unwrap() {
        let (name, text) = (rule["name"].as_str().unwrap(), rule["text"].as_str().unwrap());
        let parsed = Configurators::parse("n", text);
        let expected = &vectors["changes"][name];
        if expected.is_null() != parsed.is_err() {
            wrong.push(format!("{name}: {parsed:?}, Dubbo {expected}"));
        }
        let Ok(configurators) = parsed else { continue };
        for (index, endpoint) in endpoints.iter().enumerate() {
            n_compared += 1;
            // The caller's own address is not among those of the table.
            let changes = configurators.changes(&endpoint.view(), "10.255.255.1");
            let ours = serde_json::to_value(changes).unwrap();
            if ours != expected[index] {
                wrong.push(format!("{name} {index}: {ours}, Dubbo {}; {text}", expected[index]));
            }
        }
    }
    assert!(200 < n_compared, "{n_compared}");
    assert!(wrong.is_empty(), "{} of {n_compared}:\n{}", wrong.len(), wrong.join("\n"));
}
