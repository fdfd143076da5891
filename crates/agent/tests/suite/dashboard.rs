//! The dashboard for Grafana: each of its queries is PromQL, and asks for what agents really say.

use std::collections::{BTreeMap, BTreeSet};

use crate::support::{
    Behaviour, FakeProvider, Http, SERVICE, STRING, call, consumer_with_metrics,
    exporting_with_admin, metric, register, register_with, wait_until,
};
use agent::Agent;
use promql_parser::label::{MatchOp, Matchers};
use promql_parser::parser::{Expr, LabelModifier, VectorSelector, parse};
use registry::MemoryHub;
use serde_json::Value;

const DASHBOARD: &str = include_str!("../../../../docs/grafana/dubmesh.json");

/// What Grafana puts in place of its variables.
const VARIABLES: [(&str, &str); 3] =
    [("$__rate_interval", "1m"), ("$instance", ".*"), ("$service", ".*")];

/// What Prometheus adds to every sample.
const ADDED: [&str; 2] = ["instance", "job"];

/// The labels of each sample, by the metric's name.
type Samples = BTreeMap<String, Vec<BTreeMap<String, String>>>;

#[test]
fn every_query_finds_something() {
    let samples = samples();
    let queries = queries();
    assert!(30 < queries.len(), "{} queries", queries.len());
    for query in queries {
        let tree = parse(&query).unwrap_or_else(|error| panic!("{query}: {error}"));
        check(&tree, &query, &samples);
    }
}

/// A check that finds no mistake would be none.
#[test]
fn mistakes_are_found() {
    let labels = [("service", "a.B"), ("code", "ok")].map(|(k, v)| (k.to_owned(), v.to_owned()));
    let samples = Samples::from([("calls_total".to_owned(), vec![labels.into()])]);
    for (query, is_right) in [
        ("sum by (service) (rate(calls_total{code=\"ok\"}[1m]))", true),
        ("calls_total{code!=\"ok\"}", true),
        ("sum by (servise) (rate(calls_total[1m]))", false),
        ("calls_total{code=\"okay\"}", false),
        ("calls_total{kode!=\"ok\"}", false),
        ("call_total", false),
    ] {
        let checked = std::panic::catch_unwind(|| check(&parse(query).unwrap(), query, &samples));
        assert_eq!(checked.is_ok(), is_right, "{query}");
    }
}

fn queries() -> Vec<String> {
    let dashboard: Value = serde_json::from_str(DASHBOARD).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let targets = panels.iter().filter_map(|panel| panel["targets"].as_array()).flatten();
    let of_panels = targets.map(|target| target["expr"].as_str().unwrap().to_owned());
    let lists = dashboard["templating"]["list"].as_array().unwrap().iter();
    let of_lists = lists.filter_map(|list| list["query"]["query"].as_str()).map(|query| {
        let inner = query.strip_prefix("label_values(").and_then(|it| it.strip_suffix(')'));
        let (metric, label) = inner.unwrap().split_once(", ").unwrap();
        format!("count by ({label}) ({metric})")
    });
    let fill = |query: String| {
        VARIABLES.iter().fold(query, |query, (name, value)| query.replace(name, value))
    };
    of_panels.chain(of_lists).map(fill).collect()
}

/// Checks a query and all parts of it. Returns the labels that its result may have.
fn check(tree: &Expr, query: &str, samples: &Samples) -> BTreeSet<String> {
    match tree {
        Expr::Aggregate(it) => {
            let labels = check(&it.expr, query, samples);
            if let Some(LabelModifier::Include(wanted) | LabelModifier::Exclude(wanted)) =
                &it.modifier
            {
                for label in &wanted.labels {
                    let is_known = labels.contains(label) || ADDED.contains(&label.as_str());
                    assert!(is_known, "nothing has the label {label} in {query}");
                }
            }
            labels
        }
        Expr::Binary(it) => {
            let mut labels = check(&it.lhs, query, samples);
            labels.extend(check(&it.rhs, query, samples));
            labels
        }
        Expr::Call(it) => it.args.args.iter().flat_map(|arg| check(arg, query, samples)).collect(),
        Expr::Paren(it) => check(&it.expr, query, samples),
        Expr::Unary(it) => check(&it.expr, query, samples),
        Expr::Subquery(it) => check(&it.expr, query, samples),
        Expr::MatrixSelector(it) => found(&it.vs, query, samples),
        Expr::VectorSelector(it) => found(it, query, samples),
        Expr::NumberLiteral(_) | Expr::StringLiteral(_) | Expr::Extension(_) => BTreeSet::new(),
    }
}

fn found(selector: &VectorSelector, query: &str, samples: &Samples) -> BTreeSet<String> {
    let name = selector.name.as_deref().unwrap();
    let all = samples.get(name).unwrap_or_else(|| panic!("no agent has {name}: {query}"));
    let Matchers { matchers, .. } = &selector.matchers;
    let has = |labels: &BTreeMap<String, String>| {
        matchers.iter().all(|matcher| {
            let value = labels.get(&matcher.name);
            match &matcher.op {
                _ if ADDED.contains(&matcher.name.as_str()) => true,
                MatchOp::Equal => value == Some(&matcher.value),
                // Whether there is a failure now says nothing about the query.
                _ => value.is_some(),
            }
        })
    };
    let matching: Vec<_> = all.iter().filter(|labels| has(labels)).collect();
    assert!(!matching.is_empty(), "no sample of {name} is as {query} wants it: {all:?}");
    matching.into_iter().flat_map(|labels| labels.keys().cloned()).collect()
}

/// What an agent before an app says, and one that calls services: of two providers of the second,
/// one always fails, and one vanishes from the registry.
fn samples() -> Samples {
    let hub = MemoryHub::new();
    let good = FakeProvider::start(Behaviour::Good);
    let fails = FakeProvider::start(Behaviour::Fails);
    let vanishes = FakeProvider::start(Behaviour::Good);
    let _registered =
        [register_with(&hub, good.addr, &[("threads", "8")]), register_with(&hub, fails.addr, &[])];
    let vanishing = register(&hub, vanishes.addr);
    let consumer = consumer_with_metrics(
        &hub,
        "[defaults]\neject_ms = 30000\nhold_percent = 1\nidempotent = [\"echo\"]\n\
         [[defaults.method]]\nnames = [\"limited\"]\nrate_limit = 1\n",
    );
    let echo = || call(&consumer, "echo", &[STRING], "[\"a\"]");
    wait_until("one is ejected", || {
        echo();
        let name = format!("dubmesh_endpoints_ejected{{service=\"{SERVICE}\"}}");
        (metric(&consumer, &name) == 1).then_some(())
    });
    wait_until("a call is limited", || {
        let answer = call(&consumer, "limited", &[STRING], "[\"a\"]");
        (answer.status == 429).then_some(())
    });
    drop(vanishing);
    wait_until("one is held", || {
        echo();
        let name = format!("dubmesh_endpoints_held{{service=\"{SERVICE}\"}}");
        (metric(&consumer, &name) == 1).then_some(())
    });
    let app = format!("interface = \"com.acme.Other\"\napp = \"dubbo://{}\"\n", good.addr);
    let provider = exporting_with_admin(&hub, &app);
    let path = "/com.acme.Other/echo";
    wait_until("the other service", || {
        let mut http = Http::to(&consumer);
        (http.post(path, &[STRING], "[\"a\"]").status == 200).then_some(())
    });
    let mut samples = Samples::new();
    for agent in [&consumer, &provider] {
        for line in text(agent).lines().filter(|line| !line.starts_with('#')) {
            let (name, labels) = sample(line);
            samples.entry(name).or_default().push(labels);
        }
    }
    samples
}

fn text(agent: &Agent) -> String {
    let mut http = Http::connect(agent.addresses().admin.unwrap());
    http.send("GET /metrics HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n");
    http.read().body
}

/// A line of the agent's answer is a selector and a value.
fn sample(line: &str) -> (String, BTreeMap<String, String>) {
    let (selector, _) = line.rsplit_once(' ').unwrap();
    let Ok(Expr::VectorSelector(selector)) = parse(selector) else { panic!("{line}") };
    let labels = selector.matchers.matchers.into_iter().map(|it| (it.name, it.value));
    (selector.name.unwrap(), labels.collect())
}
