//! Routing rules in force: where calls go, while rules come, change and go.

use crate::support;
use crate::support::dubbo::DubboConsumer;
use crate::support::{
    Behaviour, FakeProvider, Http, SERVICE, STRING, block_on, consumer, consumer_with_metrics,
    dubbo_consumer, free_addr, register_service_with, register_with, reload, wait_until,
};
use agent::inspect::snapshot::{ExplanationSnapshot, Page};
use agent::{Agent, config};
use dubbo_proto::Status;
use registry::{MemoryHub, RegistryConfig};

const CONDITIONS: &str = "com.acme.Hello::.condition-router";
/// What rules leave is shared evenly.
const IN_TURN: &str = "[defaults]\nbalance = \"round-robin\"\n";
const CONFIGURATORS: &str = "com.acme.Hello::.configurators";

/// Two providers of the application `orders`: a gray one, and an ordinary one.
struct GrayAndPlainProviders {
    hub: MemoryHub,
    gray: FakeProvider,
    plain: FakeProvider,
    _registered: [support::Registered; 2],
}

impl GrayAndPlainProviders {
    fn new() -> Self {
        Self::with(&[("env", "gray"), ("application", "orders")], &[("application", "orders")])
    }

    fn with(gray_has: &[(&str, &str)], plain_has: &[(&str, &str)]) -> Self {
        let hub = MemoryHub::new();
        let [gray, plain] = [(), ()].map(|()| FakeProvider::start(Behaviour::Good));
        let registered = [(&gray, gray_has), (&plain, plain_has)];
        let _registered = registered.map(|(it, params)| register_with(&hub, it.addr, params));
        Self { hub, gray, plain, _registered }
    }

    fn condition(&self, text: &str) {
        self.hub.set_rule(CONDITIONS, Some(&format!("conditions:\n  - {text:?}\n")));
    }

    /// How many of ten calls each provider gets; the rest has failed.
    fn shares(&self, call: impl FnMut() -> bool) -> (usize, usize) {
        let before = (self.gray.n_requests(), self.plain.n_requests());
        let n_good = std::iter::repeat_with(call).take(10).filter(|is_good| *is_good).count();
        let shares = (self.gray.n_requests() - before.0, self.plain.n_requests() - before.1);
        assert_eq!(shares.0 + shares.1, n_good);
        shares
    }

    fn wait_for(&self, what: &str, shares: (usize, usize), mut call: impl FnMut() -> bool) {
        wait_until(what, || (self.shares(&mut call) == shares).then_some(()));
    }
}

fn echo(agent: &Agent, headers: &[&str]) -> impl FnMut() -> bool {
    let mut http = Http::to(agent);
    let headers: Vec<String> =
        [STRING].iter().chain(headers).map(|&header| header.to_owned()).collect();
    move || {
        let headers: Vec<&str> = headers.iter().map(String::as_str).collect();
        http.post(&format!("/{SERVICE}/echo"), &headers, "[\"vip\"]").status == 200
    }
}

#[test]
fn condition_rules_of_the_registry_hold_at_once_and_change_while_calls_run() {
    let fixture = GrayAndPlainProviders::new();
    fixture.condition("method=echo => env=gray");
    let agent = consumer(&fixture.hub, IN_TURN);
    let mut call = echo(&agent, &[]);
    assert_eq!(fixture.shares(&mut call), (10, 0), "not a single call goes astray");
    fixture.condition("method=find* => env=gray");
    fixture.wait_for("it holds for other methods only", (5, 5), &mut call);
    fixture.condition("=> env != gray");
    fixture.wait_for("what is missing never matches: it is ignored", (5, 5), &mut call);
    let forced = "force: true\nconditions: ['=> env != gray']\n";
    fixture.hub.set_rule(CONDITIONS, Some(forced));
    fixture.wait_for("forced", (0, 0), &mut call);
    let answer = Http::to(&agent).post(&format!("/{SERVICE}/echo"), &[STRING], "[\"a\"]");
    assert_eq!(answer.status, 503);
    let said = "condition-router, condition 1: matches no endpoint: none is left";
    assert!(answer.body.contains(said), "{}", answer.body);
    fixture.hub.set_rule(CONDITIONS, Some("conditions: ["));
    fixture.wait_for("one that cannot be read changes nothing", (0, 0), &mut call);
    fixture.hub.set_rule(CONDITIONS, None);
    fixture.wait_for("the rule is gone", (5, 5), &mut call);
}

#[test]
fn attachments_and_arguments_choose() {
    let fixture = GrayAndPlainProviders::new();
    fixture.hub.set_rule(
        CONDITIONS,
        Some(
            "force: true\nconditions:\n  - 'attachments[user]=vip-* => env=gray'\n  \
             - 'arguments[0]=vip & attachments[user]=other => env=gray'\n",
        ),
    );
    let agent = consumer(&fixture.hub, IN_TURN);
    let of = |user: &str| format!("x-dubbo-attachment-user: {user}");
    assert_eq!(fixture.shares(echo(&agent, &[&of("vip-7")])), (10, 0));
    assert_eq!(fixture.shares(echo(&agent, &[&of("other")])), (10, 0), "by its argument");
    assert_eq!(fixture.shares(echo(&agent, &[])), (5, 5));
    let dubbo = dubbo_consumer(&fixture.hub, IN_TURN);
    let mut consumer = DubboConsumer::to(&dubbo);
    let mut call = |user: &str, argument: &str| {
        let attached = [("user", user)];
        consumer.call("echo", argument, &attached).status == Status::Ok
    };
    assert_eq!(fixture.shares(|| call("vip-7", "a")), (10, 0));
    assert_eq!(fixture.shares(|| call("other", "vip")), (10, 0));
    assert_eq!(fixture.shares(|| call("other", "a")), (5, 5));
}

#[test]
fn tags_of_providers_and_of_rules_choose() {
    let tagged = [("dubbo.tag", "gray"), ("application", "orders")];
    let fixture = GrayAndPlainProviders::with(&tagged, &[("application", "orders")]);
    let agent = consumer(&fixture.hub, IN_TURN);
    let gray = "x-dubbo-attachment-dubbo.tag: gray";
    assert_eq!(fixture.shares(echo(&agent, &[])), (0, 10), "never to a tagged one");
    assert_eq!(fixture.shares(echo(&agent, &[gray])), (10, 0));
    let other = "x-dubbo-attachment-dubbo.tag: other";
    assert_eq!(fixture.shares(echo(&agent, &[other])), (0, 10), "untagged ones stand in");
    let force = "x-dubbo-attachment-dubbo.force.tag: true";
    assert_eq!(fixture.shares(echo(&agent, &[other, force])), (0, 0));
    let rule =
        format!("force: true\ntags: [{{name: other, addresses: ['{}']}}]", fixture.plain.addr);
    fixture.hub.set_rule("orders.tag-router", Some(&rule));
    fixture.wait_for("all have tags", (0, 0), echo(&agent, &[]));
    assert_eq!(fixture.shares(echo(&agent, &[other, force])), (0, 10));
}

/// Their applications have the rules of every caller, and their service has documents of its own:
/// by Dubbo's `URL.getColonSeparatedKey`, those of the version and group that they ask for.
#[test]
fn callers_that_leave_version_or_group_open_go_by_the_rules_of_the_registry() {
    let hub = MemoryHub::new();
    let [gray, plain] = [(), ()].map(|()| FakeProvider::start(Behaviour::Good));
    let variants = [(&gray, "a", "1.0", "gray"), (&plain, "b", "2.0", "plain")];
    let _registered = variants.map(|(provider, group, version, env)| {
        let service = format!("{group}/{SERVICE}:{version}");
        let params = [("env", env), ("application", "orders")];
        register_service_with(&hub, &service, provider.addr, &params)
    });
    let extra = format!("{IN_TURN}caller = {{ application = \"shop\" }}\n");
    let fixture = GrayAndPlainProviders { hub, gray, plain, _registered };
    let agent = consumer(&fixture.hub, &extra);
    let open = ["x-dubbo-service-version: *", "x-dubbo-service-group: a,b"];
    let mut call = echo(&agent, &open);
    fixture.wait_for("no rule", (5, 5), &mut call);
    let to_gray = "force: true\nconditions: ['=> env=gray']\n";
    let off = |key: &str, of: &str| {
        format!(
            "configVersion: v2.7\n{key}\nconfigs: [{{side: consumer, {of} \
             parameters: {{disabled: true}}}}]\n"
        )
    };
    let of_service = off(&format!("scope: service\nkey: b/{SERVICE}:2.0"), "");
    let of_caller =
        off("scope: application\nkey: shop", &format!("services: ['b/{SERVICE}:2.0'],"));
    let own = format!("{SERVICE}:*:a,b");
    for (name, text) in [
        (format!("{own}.condition-router"), to_gray),
        ("shop.condition-router".to_owned(), to_gray),
        ("orders.condition-router".to_owned(), to_gray),
        (format!("{own}.configurators"), &of_service),
        ("shop.configurators".to_owned(), &of_caller),
        (
            "orders.tag-router".to_owned(),
            &format!("tags: [{{name: t, addresses: ['{}']}}]", fixture.plain.addr),
        ),
    ] {
        fixture.hub.set_rule(&name, Some(text));
        fixture.wait_for(&name, (10, 0), &mut call);
        fixture.hub.set_rule(&name, None);
        fixture.wait_for("it is gone", (5, 5), &mut call);
    }
}

/// As Dubbo's `TagStateRouter` without a rule: none is left if the call insists.
#[test]
fn a_call_that_insists_on_a_tag_fails_where_nobody_has_any() {
    let hub = MemoryHub::new();
    let provider = FakeProvider::start(Behaviour::Good);
    let _registered = register_with(&hub, provider.addr, &[]);
    let agent = consumer_with_metrics(&hub, "");
    let post = |force: &str| {
        let tag = "x-dubbo-attachment-dubbo.tag: gray";
        let force = format!("x-dubbo-attachment-dubbo.force.tag: {force}");
        Http::to(&agent).post(&format!("/{SERVICE}/echo"), &[STRING, tag, &force], "[\"a\"]")
    };
    let answer = post("true");
    assert_eq!(answer.status, 503, "{answer:?}");
    assert!(answer.body.contains("dubbo.tag of endpoints"), "{answer:?}");
    assert_eq!(post("false").status, 200, "untagged ones stand in");
    let forced = "method=echo&attachment=dubbo.tag%3Dgray&attachment=dubbo.force.tag%3Dtrue";
    let told = explained(&agent, forced);
    let endpoint = &told.endpoints[&provider.addr.to_string()];
    assert!(endpoint.removed_by.is_some() && endpoint.share_percent == 0.0, "{told:?}");

    let dubbo = dubbo_consumer(&hub, "");
    let mut consumer = DubboConsumer::to(&dubbo);
    let mut call = |attached: &[(&str, &str)]| consumer.call("echo", "a", attached).status;
    let (gray, insists) = (("dubbo.tag", "gray"), ("dubbo.force.tag", "true"));
    // What is remembered of a request counts for those that look like it, and for no others.
    for _ in 0..5 {
        assert_ne!(call(&[gray, insists]), Status::Ok);
        assert_eq!(call(&[gray, ("dubbo.force.tag", "false")]), Status::Ok);
        assert_eq!(call(&[gray]), Status::Ok);
    }
    assert_eq!(provider.n_requests(), 1 + 2 * 5);
}

#[test]
fn weighted_destinations_split_calls_and_callers_are_known_by_their_parameters() {
    let fixture = GrayAndPlainProviders::new();
    let rule = "configVersion: v3.1\nconditions:\n\
                - from: {match: 'application=shop'}\n  \
                  to: [{match: 'env=gray', weight: 1}, {match: 'port!=1', weight: 3}]\n";
    fixture.hub.set_rule("shop.condition-router", Some(rule));
    let agent = consumer(&fixture.hub, &format!("{IN_TURN}caller = {{ application = \"shop\" }}"));
    let mut call = echo(&agent, &[]);
    let shares = (0..40).fold((0, 0), |sum, _| {
        let (gray, plain) = fixture.shares(&mut call);
        (sum.0 + gray, sum.1 + plain)
    });
    // A quarter, and half of the rest: 250 of 400, give or take five deviations.
    assert!((200..300).contains(&shares.0), "{shares:?}");
    let other = consumer(&fixture.hub, &format!("{IN_TURN}caller = {{ application = \"other\" }}"));
    assert_eq!(fixture.shares(echo(&other, &[])), (5, 5));
}

#[test]
fn configurators_change_weights_and_timeouts_while_calls_run() {
    let fixture = GrayAndPlainProviders::new();
    let agent = consumer(&fixture.hub, IN_TURN);
    let mut call = echo(&agent, &[]);
    assert_eq!(fixture.shares(&mut call), (5, 5));
    let config = |parameters: &str| {
        let port = fixture.plain.addr.port();
        let rule = format!(
            "configVersion: v2.7\nscope: service\nkey: {SERVICE}\nconfigs:\n- side: consumer\n  \
             providerAddresses: ['127.0.0.1:{port}']\n  parameters: {{{parameters}}}\n"
        );
        fixture.hub.set_rule(CONFIGURATORS, Some(&rule));
    };
    config("disabled: true");
    fixture.wait_for("one is switched off", (10, 0), &mut call);
    config("weight: 0");
    fixture.wait_for("one has no weight", (10, 0), &mut call);
    config("dubbo.tag: blue");
    fixture.wait_for("one has a tag", (10, 0), &mut call);
    fixture.hub.set_rule(CONFIGURATORS, None);
    fixture.wait_for("all is as before", (5, 5), &mut call);
}

#[test]
fn rules_of_files_come_with_a_reload() {
    let fixture = GrayAndPlainProviders::new();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("gray.yaml");
    let write = |text: &str| std::fs::write(&file, text).unwrap();
    write("conditions: ['=> env=gray']\n");
    let text = format!(
        "[admin]\nenabled = false\n[agent]\nworkers = 2\ndrain_ms = 5000\n\
         [[registry]]\nkind = \"file\"\npath = \"x\"\n\
         [[ingress]]\nprotocol = \"http\"\nlisten = \"127.0.0.1:0\"\n\
         [defaults]\nbalance = \"round-robin\"\ncondition_rules = [{:?}]\nregistry_rules = false\n",
        file.display().to_string()
    );
    let agent = support::start(&text, &fixture.hub);
    let mut call = echo(&agent, &[]);
    assert_eq!(fixture.shares(&mut call), (10, 0));
    fixture.condition("=>");
    write("enabled: false\nconditions: ['=> env=gray']\n");
    let reload = |text: &str| {
        let mut config = config::parse(text, "test.toml").unwrap();
        config.registries[0].config = RegistryConfig::Memory(fixture.hub.clone());
        block_on(agent.reload(config)).unwrap().changed
    };
    assert_eq!(reload(&text), ["defaults"]);
    fixture.wait_for("it is off, and the registry's ban does not count", (5, 5), &mut call);
    reload(&text.replace("registry_rules = false", ""));
    fixture.wait_for("the registry's ban counts", (0, 0), &mut call);
}

fn explained(agent: &Agent, query: &str) -> ExplanationSnapshot {
    let mut http = Http::connect(agent.addresses().admin.unwrap());
    let page = format!("/explain?service={SERVICE}&{query}");
    http.send(format!("GET {page} HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n"));
    let answer = http.read();
    assert_eq!(answer.status, 200, "{answer:?}");
    let page: Page<ExplanationSnapshot> = serde_json::from_str(&answer.body).unwrap();
    assert_eq!(page.total, 1);
    page.items.into_iter().next().unwrap()
}

#[test]
fn explain_shows_what_removes_each_endpoint_and_who_gets_which_share() {
    let fixture = GrayAndPlainProviders::new();
    let away = free_addr();
    let _away = register_with(&fixture.hub, away, &[("env", "gray"), ("weight", "300")]);
    let rule = "conditions:\n- 'attachments[user]=vip => env=gray'\n- 'method=find => env=blue'\n";
    fixture.hub.set_rule(CONDITIONS, Some(rule));
    fixture.hub.set_rule("orders.tag-router", Some("tags: 7"));
    let agent = consumer_with_metrics(&fixture.hub, IN_TURN);
    let mut call = echo(&agent, &[]);
    wait_until("both are connected", || (fixture.shares(&mut call) == (5, 5)).then_some(()));
    let address = |provider: &FakeProvider| provider.addr.to_string();

    let told = explained(&agent, "method=find&attachment=user%3Dvip");
    let effects: Vec<(&str, &str)> =
        told.rules.iter().map(|step| (&*step.rule, &*step.effect)).collect();
    let part = |n| format!("{CONDITIONS}, condition {n}");
    assert_eq!(effects, [(&*part(1), "kept"), (&*part(2), "ignored")]);
    assert!(told.unreadable[0].starts_with("orders.tag-router: line 1"), "{told:?}");
    let (gray, plain) =
        (&told.endpoints[&address(&fixture.gray)], &told.endpoints[&address(&fixture.plain)]);
    assert_eq!((&gray.removed_by, gray.share_percent), (&None, 100.0));
    assert_eq!((&plain.removed_by, plain.share_percent), (&Some(part(1)), 0.0));
    let down = &told.endpoints[&away.to_string()];
    assert_eq!((down.weight, down.share_percent, &down.removed_by), (300, 0.0, &None));
    assert!(down.standing.contains_key("down") && down.why[0].contains("refused"), "{down:?}");

    let told = explained(&agent, "method=other");
    assert!(told.rules.iter().all(|step| step.effect == "other-calls"));
    assert_eq!(told.endpoints[&address(&fixture.plain)].share_percent, 50.0);
    assert_eq!(fixture.shares(&mut call), (5, 5), "nothing of it is counted");
}

/// A destination of which all endpoints are ejected is left out until they are tried again.
#[test]
fn a_destination_that_is_ejected_is_not_drawn() {
    let hub = MemoryHub::new();
    let providers = [Behaviour::Close, Behaviour::Good].map(FakeProvider::start);
    let _registered =
        [0, 1].map(|n| register_with(&hub, providers[n].addr, &[("env", ["gray", "prod"][n])]));
    let rule = "configVersion: v3.1\nconditions:\n- from: {match: 'method=echo'}\n  \
                to: [{match: 'env=gray', weight: 90}, {match: 'env=prod', weight: 10}]\n";
    hub.set_rule(CONDITIONS, Some(rule));
    let agent = consumer(&hub, "[defaults]\neject_failures = 2\neject_ms = 30000\n");
    let mut http = Http::to(&agent);
    let mut call = || http.post(&format!("/{SERVICE}/echo"), &[STRING], "[\"a\"]").status == 200;
    let is_out = || 2 <= providers[0].n_requests();
    wait_until("it is ejected", || ((0..20).all(|_| call()) && is_out()).then_some(()));
    assert!((0..100).all(|_| call()));
}

/// Two workers draw two destinations, and neither looks removed.
#[test]
fn explain_shows_weighted_destinations_with_their_shares() {
    let fixture = GrayAndPlainProviders::new();
    let other = FakeProvider::start(Behaviour::Good);
    let _other = register_with(&fixture.hub, other.addr, &[("env", "blue")]);
    let rule = "configVersion: v3.1\nconditions:\n- from: {match: 'method=echo'}\n  \
                to: [{match: 'env=gray', weight: 30}, {match: 'env=blue', weight: 90}, \
                {match: 'env=none', weight: 500}]\n";
    fixture.hub.set_rule(CONDITIONS, Some(rule));
    let agent = consumer_with_metrics(&fixture.hub, IN_TURN);
    let mut call = echo(&agent, &[]);
    wait_until("all are connected", || {
        call();
        let told = explained(&agent, "method=other");
        told.endpoints
            .values()
            .all(|it| 0.0 < it.share_percent && it.share_percent < 50.0)
            .then_some(())
    });
    for _ in 0..20 {
        let told = explained(&agent, "method=echo");
        let [gray, blue, plain] =
            [&fixture.gray, &other, &fixture.plain].map(|it| &told.endpoints[&it.addr.to_string()]);
        assert_eq!((gray.share_percent, blue.share_percent), (25.0, 75.0), "{told:?}");
        assert_eq!((gray.allowed_percent, blue.allowed_percent), (25.0, 75.0));
        assert_eq!((&gray.removed_by, &blue.removed_by), (&None, &None));
        let removed = format!("{CONDITIONS}, condition 1");
        assert_eq!((&plain.removed_by, plain.allowed_percent), (&Some(removed), 0.0));
        let shown: Vec<(&str, f64)> =
            told.rules[0].destinations.iter().map(|it| (&*it.to, it.share_percent)).collect();
        assert_eq!(shown, [("env=gray", 25.0), ("env=blue", 75.0), ("env=none", 0.0)]);
        let n_drawn = told.rules[0].destinations.iter().filter(|it| it.is_drawn).count();
        assert_eq!(n_drawn, 1);
    }
    // A share that goes to another version is told as such.
    let other_version = "[[defaults.split]]\nname = \"two\"\npercent = 20\nversion = \"2.0\"\n";
    reload(&agent, &fixture.hub, &format!("{IN_TURN}{other_version}"));
    wait_until("the split is shown", || {
        let told = explained(&agent, "method=echo");
        (told.rules.first()?.effect == "detour").then_some(())
    });
    // The same of a split by chance.
    fixture.hub.set_rule(CONDITIONS, None);
    let split = "[[defaults.split]]\nname = \"canary\"\npercent = 20\n\
                 endpoints = { env = \"gray\" }\n";
    reload(&agent, &fixture.hub, &format!("{IN_TURN}{split}"));
    let told = wait_until("the split holds", || {
        let told = explained(&agent, "method=echo");
        (told.endpoints[&fixture.gray.addr.to_string()].share_percent < 25.0).then_some(told)
    });
    let [gray, blue] = [&fixture.gray, &other].map(|it| &told.endpoints[&it.addr.to_string()]);
    assert_eq!((gray.share_percent, &gray.removed_by), (20.0, &None));
    assert_eq!((blue.share_percent, &blue.removed_by), (40.0, &None));
    assert_eq!((gray.allowed_percent, blue.allowed_percent), (20.0, 80.0));
}

/// Configurators are shown with what they set; calls that none is left for name the one that
/// switched them off.
#[test]
fn explain_and_errors_name_configurators() {
    let fixture = GrayAndPlainProviders::new();
    let agent = consumer_with_metrics(&fixture.hub, IN_TURN);
    let mut call = echo(&agent, &[]);
    wait_until("both are connected", || (fixture.shares(&mut call) == (5, 5)).then_some(()));
    let set = |which: &str, parameters: &str| {
        let rule = format!(
            "configVersion: v2.7\nscope: service\nkey: {SERVICE}\nconfigs:\n- side: consumer\n  \
             {which}parameters: {{{parameters}}}\n"
        );
        fixture.hub.set_rule(CONFIGURATORS, Some(&rule));
    };
    let plain = fixture.plain.addr.to_string();
    set(&format!("providerAddresses: ['{plain}']\n  "), "timeout: 700");
    let told = wait_until("it is shown", || {
        let told = explained(&agent, "method=echo");
        (told.rules.first()?.effect == "configured").then_some(told)
    });
    assert_eq!(
        (&*told.rules[0].rule, &*told.rules[0].why),
        (CONFIGURATORS, "sets timeout=700 at 1 of 2")
    );
    let sets = format!("{CONFIGURATORS} sets timeout=700");
    assert_eq!(told.endpoints[&plain].configured, [sets]);
    assert!(told.endpoints[&fixture.gray.addr.to_string()].configured.is_empty());

    set("", "mock: 'force:return 5', weight: abc");
    wait_until("what has no effect is said", || {
        let told = explained(&agent, "method=echo");
        let why = &*told.rules.first()?.why;
        (why == "sets mock=force:return 5 (mock has no effect in an agent), weight=abc (weight \
                 cannot be read, so Dubbo's default counts) at 2 of 2")
            .then_some(())
    });

    set("", "disabled: true");
    fixture.wait_for("all are switched off", (0, 0), &mut call);
    let mut http = Http::connect(agent.addresses().admin.unwrap());
    http.send("GET /services HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n");
    assert!(http.read().body.contains("\"weightless\":2"), "both");
    let off = format!("switched off by {CONFIGURATORS}");
    let told = explained(&agent, "method=echo");
    assert_eq!(told.endpoints[&plain].why, [&*off], "{told:?}");
    let answer = Http::to(&agent).post(&format!("/{SERVICE}/echo"), &[STRING], "[\"a\"]");
    let said =
        format!("every endpoint of {SERVICE} is switched off by configurators ({CONFIGURATORS})");
    assert!(answer.status == 503 && answer.body.contains(&said), "{answer:?}");
}

/// A provider that a configurator switches off is no candidate: calls go as if it were not there.
#[test]
fn an_endpoint_that_is_switched_off_is_no_candidate() {
    let tagged = [("dubbo.tag", "gray"), ("env", "gray"), ("application", "orders")];
    for (is_tagged, rule, more, takes_calls) in [
        (false, "conditions: ['=> env=gray']", "", true),
        (false, "force: true\nconditions: ['=> env=gray']", "", false),
        (
            false,
            "configVersion: v3.1\nforce: true\nconditions:\n- to: [{match: 'env=gray', weight: 70}, \
             {match: 'env!=blue & application=orders', weight: 30}]",
            "",
            true,
        ),
        (true, "", "", true),
        (
            false,
            "",
            "[[defaults.split]]\nname = 's'\npercent = 100\nendpoints = { env = 'gray' }",
            true,
        ),
        (true, "", "[[defaults.split]]\nname = 's'\npercent = 100\ntag = 'gray'", true),
    ] {
        let plain = [("application", "orders"), ("env", "prod")];
        let fixture = GrayAndPlainProviders::with(&tagged[usize::from(!is_tagged)..], &plain);
        let off = format!(
            "configVersion: v2.7\nscope: service\nkey: {SERVICE}\nconfigs:\n- side: consumer\n  \
             providerAddresses: ['{}']\n  parameters: {{disabled: true}}\n",
            fixture.gray.addr
        );
        fixture.hub.set_rule(CONFIGURATORS, Some(&off));
        fixture.hub.set_rule(CONDITIONS, Some(rule).filter(|rule| !rule.is_empty()));
        let agent = consumer_with_metrics(&fixture.hub, &format!("{IN_TURN}{more}"));
        let wants_gray = "x-dubbo-attachment-dubbo.tag: gray";
        let headers: &[&str] = if is_tagged { &[wants_gray] } else { &[] };
        let expected = if takes_calls { (0, 10) } else { (0, 0) };
        assert_eq!(fixture.shares(echo(&agent, headers)), expected, "{rule} {more}");
        let gray = &explained(&agent, "method=echo").endpoints[&fixture.gray.addr.to_string()];
        assert_eq!(gray.why, [format!("switched off by {CONFIGURATORS}")], "it is still shown");
        assert_eq!(gray.removed_by.as_deref(), Some(CONFIGURATORS));
        if !takes_calls {
            let body = Http::to(&agent).post(&format!("/{SERVICE}/echo"), &[STRING], "[1]").body;
            let out = format!("out of use: {} (switched off by", fixture.gray.addr);
            assert!(body.contains("condition 1: matches no endpoint"), "{body}");
            assert!(body.contains(&out) && !body.contains("down"), "{body}");
        }
    }
}

/// Rules see an endpoint of weight 0, as in Dubbo. No draw and no split leads to it alone while
/// others take calls.
#[test]
fn no_draw_leads_to_endpoints_of_weight_0_alone() {
    let weighted = "configVersion: v3.1\nforce: true\nconditions:\n\
                    - to: [{match: 'env=gray'}, {match: 'env=prod'}]";
    let split = |to: &str| format!("[[defaults.split]]\nname = 's'\npercent = 100\n{to}");
    for (rule, more, shares, effect) in [
        (weighted, String::new(), (0, 10), "kept"),
        ("", split("endpoints = { env = 'gray' }"), (0, 10), "drawn weightless kept"),
        ("", split("endpoints = { env = 'gray' }\nforce = true"), (0, 0), "drawn kept"),
        ("", split("tag = 'gray'"), (0, 10), "drawn weightless kept"),
        ("", split("tag = 'gray'\nforce = true"), (0, 0), "drawn kept"),
        ("conditions: ['=> env=gray']", String::new(), (0, 0), "kept"),
    ] {
        let mut gray = vec![("env", "gray"), ("weight", "0")];
        gray.extend(more.contains("tag").then_some(("dubbo.tag", "gray")));
        let fixture = GrayAndPlainProviders::with(&gray, &[("env", "prod")]);
        fixture.hub.set_rule(CONDITIONS, Some(rule).filter(|rule| !rule.is_empty()));
        let agent = consumer_with_metrics(&fixture.hub, &format!("{IN_TURN}{more}"));
        assert_eq!(fixture.shares(echo(&agent, &[])), shares, "{rule} {more}");
        let told = explained(&agent, "method=echo");
        let effects: Vec<&str> = told.rules.iter().map(|step| &*step.effect).collect();
        assert_eq!(effects.join(" "), effect, "{rule} {more}");
        if shares == (0, 0) {
            let body = Http::to(&agent).post(&format!("/{SERVICE}/echo"), &[STRING], "[1]").body;
            let removed = &told.endpoints[&fixture.plain.addr.to_string()].removed_by;
            let removed =
                format!("removed by routing rules: 1 ({}); ", removed.as_deref().unwrap());
            assert!(body.contains(&removed) && !body.contains("down"), "{body}");
            assert!(body.contains(&format!("out of use: {} (", fixture.gray.addr)), "{body}");
        }
    }
}

/// What a console leaves when the last item is deleted ends what the rule said, where it does so
/// in Dubbo.
#[test]
fn rules_that_are_emptied_no_longer_hold() {
    let fixture = GrayAndPlainProviders::new();
    let agent = consumer(&fixture.hub, IN_TURN);
    let mut call = echo(&agent, &[]);
    let tags = format!("tags: [{{name: gray, addresses: ['{}']}}]", fixture.gray.addr);
    for empty in ["tags: []", "{}", "force: true"] {
        fixture.hub.set_rule("orders.tag-router", Some(&tags));
        fixture.wait_for("one has a tag", (0, 10), &mut call);
        fixture.hub.set_rule("orders.tag-router", Some(empty));
        fixture.wait_for(empty, (5, 5), &mut call);
    }
    let weighted = "configVersion: v3.1\nconditions: [{to: [{match: 'env=gray'}]}]";
    fixture.hub.set_rule(CONDITIONS, Some(weighted));
    fixture.wait_for("one is left", (10, 0), &mut call);
    fixture.hub.set_rule(CONDITIONS, Some("configVersion: v3.1\nconditions: []"));
    fixture.wait_for("none is left", (5, 5), &mut call);
}

/// What was drawn for a call holds for all of its attempts: who reaches the full canary gets no
/// second draw.
#[test]
fn a_call_that_goes_to_a_second_endpoint_stays_in_its_split() {
    let hub = MemoryHub::new();
    let [gray, plain] = [Behaviour::Busy, Behaviour::Good].map(FakeProvider::start);
    let _gray = register_with(&hub, gray.addr, &[("env", "gray")]);
    let _plain = register_with(&hub, plain.addr, &[]);
    let split = "[defaults]\neject_max_percent = 0\nendpoint_capacity = 0\n[[defaults.split]]\n\
                 name = \"canary\"\npercent = 50\nendpoints = { env = \"gray\" }\n";
    let json = consumer(&hub, split);
    let mut of_json = echo(&json, &[]);
    let dubbo = dubbo_consumer(&hub, split);
    let mut session = DubboConsumer::to(&dubbo);
    let mut of_dubbo = || session.call("echo", "a", &[]).status == Status::Ok;
    let failfast = "[[defaults.method]]\ncluster = \"failfast\"\n";
    let failfast = consumer(&hub, &format!("{split}{failfast}"));
    let mut once = echo(&failfast, &[]);
    for call in [&mut of_json as &mut dyn FnMut() -> bool, &mut of_dubbo, &mut once] {
        let before = gray.n_requests();
        let n_failed = (0..60).filter(|_| !call()).count();
        assert_eq!(n_failed, gray.n_requests() - before, "none came back from the canary");
        assert!((10..50).contains(&n_failed), "{n_failed}");
    }
}

/// Who asks for a version gets it, unless the split says that it is meant.
#[test]
fn a_split_by_version_leaves_callers_alone_that_ask_for_one() {
    let fixture = GrayAndPlainProviders::new();
    let [one, two] = [(), ()].map(|()| FakeProvider::start(Behaviour::Good));
    let _one = support::register_service(&fixture.hub, &format!("{SERVICE}:1.0"), one.addr);
    let _two = support::register_service(&fixture.hub, &format!("{SERVICE}:2.0"), two.addr);
    let split = "[[defaults.split]]\nname = \"canary\"\nversion = \"2.0\"\npercent = 100\n";
    let of = |split: &str| {
        let agent = consumer(&fixture.hub, split);
        let before = [&one, &two].map(FakeProvider::n_requests);
        for version in ["", "1.0", "2.0"] {
            let header = format!("x-dubbo-service-version: {version}");
            let headers = if version.is_empty() { vec![] } else { vec![&*header] };
            assert!(echo(&agent, &headers)(), "{version}");
        }
        [one.n_requests() - before[0], two.n_requests() - before[1]]
    };
    assert_eq!(of(split), [1, 2]);
    assert_eq!(of(&format!("{split}when = {{ version = \"1.*\" }}\n")), [0, 2]);
}

/// A part of the calls, and certain calls, go to a subset; a reload changes it.
#[test]
fn a_split_sends_some_calls_to_a_subset_and_all_others_elsewhere() {
    let fixture = GrayAndPlainProviders::new();
    let beta = "[[defaults.split]]\nname = \"beta\"\nwhen = { \"header:X-User\" = \"beta*\" }\n\
                endpoints = { env = \"gray\" }\n";
    let agent = consumer_with_metrics(&fixture.hub, &format!("{IN_TURN}{beta}"));
    assert_eq!(fixture.shares(echo(&agent, &["x-user: beta-7"])), (10, 0));
    assert_eq!(fixture.shares(echo(&agent, &["x-user: alice"])), (0, 10));
    assert_eq!(fixture.shares(echo(&agent, &[])), (0, 10), "the subset is for its calls alone");
    let told = explained(&agent, "method=echo&header=X-User%3Dbeta");
    let rule = "split beta to endpoints with env=gray, 100% of its calls";
    assert_eq!((&*told.rules[0].rule, &*told.rules[0].effect), (rule, "drawn"));
    assert_eq!((&*told.rules[1].rule, &*told.rules[1].effect), ("split beta, its subset", "kept"));
    let told = explained(&agent, "method=echo");
    assert_eq!((&*told.rules[0].effect, &*told.rules[1].effect), ("other-calls", "kept"));

    // The same value always goes the same way; of many, a share goes there.
    let sticky = "[[defaults.split]]\nname = \"canary\"\npercent = 30\n\
                  sticky = \"argument:0.tenant\"\nendpoints = { env = \"gray\" }\n";
    reload(&agent, &fixture.hub, &format!("{IN_TURN}{sticky}"));
    let mut http = Http::to(&agent);
    let mut ask = |tenant: usize| {
        let before = fixture.gray.n_requests();
        let body = format!("[{{\"tenant\": \"t{tenant}\"}}]");
        let header = "x-dubbo-parameter-types: java.util.Map";
        let answer = http.post(&format!("/{SERVICE}/echo"), &[header], &body);
        assert_eq!(answer.status, 200, "{answer:?}");
        fixture.gray.n_requests() - before
    };
    wait_until("the new split holds", || {
        let gray: Vec<usize> = (0..100).map(&mut ask).collect();
        let n_gray: usize = gray.iter().sum();
        ((15..45).contains(&n_gray) && gray == (0..100).map(&mut ask).collect::<Vec<_>>())
            .then_some(())
    });
}

/// A tag that a split gives its calls counts as one that their callers have given them.
#[test]
fn a_split_gives_its_calls_a_tag() {
    let fixture = GrayAndPlainProviders::with(&[("dubbo.tag", "gray")], &[]);
    let split = "[[defaults.split]]\nname = \"acme\"\ntag = \"gray\"\n\
                 when = { \"attachment:tenant\" = \"acme\" }\n";
    for agent in
        [consumer(&fixture.hub, split), consumer(&fixture.hub, &format!("{split}force = true\n"))]
    {
        let acme = ["x-dubbo-attachment-tenant: acme"];
        assert_eq!(fixture.shares(echo(&agent, &acme)), (10, 0));
        assert_eq!(fixture.shares(echo(&agent, &[])), (0, 10));
    }
    let blue = split.replace("gray", "blue");
    let agent = consumer(&fixture.hub, &blue);
    let acme = ["x-dubbo-attachment-tenant: acme"];
    assert_eq!(fixture.shares(echo(&agent, &acme)), (0, 10), "those without a tag stand in");
    let agent = consumer(&fixture.hub, &format!("{blue}force = true\n"));
    assert_eq!(fixture.shares(echo(&agent, &acme)), (0, 0));
}

/// Another version is another service, for callers in JSON and for Dubbo's own.
#[test]
fn a_split_leads_calls_to_another_version() {
    let fixture = GrayAndPlainProviders::new();
    let second = FakeProvider::start(Behaviour::Good);
    let of_second = format!("{SERVICE}:2.0");
    let _second = support::register_service(&fixture.hub, &of_second, second.addr);
    let split = "[[defaults.split]]\nname = \"canary\"\nversion = \"2.0\"\n\
                 when = { \"argument:0\" = \"v*\" }\npercent = 40\n";
    let agent = consumer(&fixture.hub, split);
    let mut call = echo(&agent, &[]);
    let n_good = std::iter::repeat_with(&mut call).take(200).filter(|is_good| *is_good).count();
    assert_eq!(n_good, 200);
    assert!((45..115).contains(&second.n_requests()), "{}", second.n_requests());

    let all = split.replace("percent = 40", "percent = 100");
    let agent = dubbo_consumer(&fixture.hub, &all);
    let mut consumer = DubboConsumer::to(&agent);
    let before = second.n_requests();
    let answer = consumer.call("echo", "vip", &[("colour", "red")]);
    assert_eq!((answer.status, answer.value()), (Status::Ok, &b"\x03vip"[..]));
    let request = second.last_request();
    assert_eq!((request.version(), request.attachment("colour")), ("2.0", Some("red")));
    assert_eq!(consumer.call("echo", "other", &[]).status, Status::Ok);
    assert_eq!(second.n_requests(), before + 1, "only calls that the split is for");
}
