use std::borrow::Cow;

use parameters::Parameters;
use proptest::prelude::*;
use rand::SeedableRng;
use rand::rngs::StdRng;

use super::*;

const SHOP: &str = "conditions: ['application=shop => env=gray', '=> region=$region']";

fn params(pairs: &[(&str, &str)]) -> Parameters {
    pairs.iter().copied().collect()
}

fn view<'a>(host: &'a str, params: &'a Parameters) -> UrlView<'a> {
    UrlView {
        protocol: "dubbo",
        host,
        port: 20880,
        path: "com.acme.Orders",
        params,
        is_down: false,
    }
}

fn with_call<T>(consumer: UrlView<'_>, tag: &str, run: impl FnOnce(&CallView<'_>) -> T) -> T {
    let attachment = |key: &str| (key == TAG).then(|| Cow::Owned(tag.to_owned()));
    let argument = |_: usize| None;
    run(&CallView { consumer, method: "create", attachment: &attachment, argument: &argument })
}

#[test]
fn says_what_removed_an_endpoint() {
    let consumer = params(&[("application", "shop"), ("region", "north")]);
    let gray = params(&[("env", "gray"), ("region", "south")]);
    let prod = params(&[("env", "prod"), ("region", "north")]);
    let endpoints = [view("10.0.0.1", &gray), view("10.0.0.2", &prod)];
    let service = ConditionRule::parse("orders.condition-router", SHOP).unwrap();
    let rules = RuleSet { conditions: vec![service], ..RuleSet::default() };
    let selection = with_call(view("10.0.0.9", &consumer), "", |call| {
        rules.select(call, &endpoints, &mut StdRng::seed_from_u64(1))
    });
    assert_eq!(selection.kept().collect::<Vec<_>>(), [0]);
    let removal = selection.removal(1).unwrap();
    assert_eq!(
        (&*removal.rule, &removal.clause),
        ("orders.condition-router", &Clause::Condition(0))
    );
    let effects: Vec<Effect> = selection.steps.iter().map(|step| step.effect).collect();
    assert_eq!(effects, [Effect::Kept(1), Effect::Ignored], "the second one finds nobody");
}

const WEIGHTED: &str = "configVersion: v3.1\nconditions:\n\
    - from: {match: ''}\n  to:\n  - {match: env=gray, weight: 10}\n\
    \x20 - {match: env=prod, weight: 90}\n  - {match: env=none, weight: 50}\n";

/// All draws are gone through: no endpoint of a destination with a share is shown as removed.
#[test]
fn tells_the_share_of_each_destination() {
    let (consumer, gray) = (params(&[]), params(&[("env", "gray"), ("zone", "a")]));
    let (prod, other) = (params(&[("env", "prod"), ("zone", "b")]), params(&[("env", "other")]));
    let endpoints = [view("h1", &gray), view("h2", &prod), view("h3", &prod), view("h4", &other)];
    let chances = |texts: &[&str]| {
        let rule = |text: &&str| ConditionRule::parse("r", text).unwrap();
        let conditions = texts.iter().map(rule).collect();
        let rules = RuleSet { conditions, ..RuleSet::default() };
        with_call(view("h9", &consumer), "", |call| rules.chances(call, &endpoints, 256))
    };
    let kept = |chances: &Chances| [0, 1, 2, 3].map(|index| chances.kept_percent(index).round());
    let one = chances(&[WEIGHTED]);
    assert_eq!(kept(&one), [10.0, 90.0, 90.0, 0.0]);
    let removed = [0, 1, 2, 3].map(|index| one.removal(index).map(|it| it.to_string()));
    assert_eq!(removed, [None, None, None, Some("r, condition 1".to_owned())]);
    let draw = &one.all()[0].draws[0];
    let shares: Vec<(&str, f64)> =
        draw.destinations.iter().map(|it| (&*it.to, it.percent)).collect();
    assert_eq!(shares, [("env=gray", 10.0), ("env=prod", 90.0), ("env=none", 0.0)]);
    assert_eq!((one.all().len(), draw.drawn, one.all()[1].draws[0].drawn), (2, Some(0), Some(1)));
    // What another rule removes whatever is drawn, it has removed.
    let two = chances(&[WEIGHTED, "conditions: ['=> zone=b']"]);
    assert_eq!(kept(&two), [10.0, 90.0, 90.0, 0.0], "it does nothing where it leaves nobody");
    let two = chances(&["conditions: ['=> zone=b']", WEIGHTED]);
    assert_eq!(kept(&two), [0.0, 100.0, 100.0, 0.0]);
    let twice = chances(&[&WEIGHTED.replace("env=gray", ""), WEIGHTED]);
    let sum: f64 = twice.all().iter().map(|chance| chance.percent).sum();
    assert_eq!((twice.all().len(), sum.round()), (3, 100.0));
    // 10% draw all, and of these a tenth env=gray.
    assert_eq!(kept(&twice), [1.0, 99.0, 99.0, 0.0]);
    // A condition whose destinations all have no endpoint leaves the draws after it as they are.
    let nowhere = "configVersion: v3.1\nconditions:\n- from: {match: ''}\n  to:\n\
                   \x20 - {match: env=nowhere}\n";
    let after = chances(&[nowhere, WEIGHTED]);
    assert_eq!((after.all().len(), kept(&after)), (2, [10.0, 90.0, 90.0, 0.0]));
    let sum: f64 = after.all().iter().map(|chance| chance.percent).sum();
    assert_eq!(sum.round(), 100.0);
    assert!(after.kept_percent(3).is_sign_positive(), "not -0");
    // Without a draw there is one chance, which is sure.
    let none = chances(&[SHOP]);
    assert_eq!((none.all().len(), none.all()[0].percent), (1, 100.0));
    let many = chances(&[WEIGHTED; 12]);
    assert_eq!(many.all().len(), 2, "what is left has no further choice");
}

/// What is gone through has a bound, and nothing is said of what was not seen.
#[test]
fn many_draws_are_not_all_gone_through() {
    let all: String = (0..20).map(|n| format!("  - {{match: 'env!=e{n}', weight: 1}}\n")).collect();
    let text = format!("configVersion: v3.1\nconditions:\n- from: {{match: ''}}\n  to:\n{all}");
    let rule = ConditionRule::parse("r", &text).unwrap();
    let rules =
        RuleSet { conditions: vec![rule.clone(), rule.clone(), rule], ..RuleSet::default() };
    let envs: Vec<Parameters> = (0..30).map(|n| params(&[("env", &format!("e{n}"))])).collect();
    let endpoints: Vec<UrlView<'_>> = envs.iter().map(|env| view("h", env)).collect();
    let none = params(&[]);
    let chances = with_call(view("h9", &none), "", |call| rules.chances(call, &endpoints, 256));
    assert_eq!(chances.all().len(), 256);
    assert!((0..30).all(|index| chances.removal(index).is_none()));
    assert!((99.0..=100.1).contains(&chances.kept_percent(29)));
}

#[test]
fn says_that_nobody_has_the_tag() {
    let (consumer, none, blue) = (params(&[]), params(&[]), params(&[(TAG, "blue")]));
    let endpoints = [view("10.0.0.1", &none), view("10.0.0.2", &blue)];
    let selection = with_call(view("10.0.0.9", &consumer), "gray", |call| {
        RuleSet::default().select(call, &endpoints, &mut StdRng::seed_from_u64(1))
    });
    assert!(selection.is_kept(0) && !selection.is_kept(1));
    assert_eq!(selection.steps.len(), 2);
    assert_eq!(selection.steps[0].effect, Effect::Ignored);
    assert_eq!(selection.removal(1).unwrap().clause, Clause::Untagged);
}

#[test]
fn shares_follow_the_weights() {
    let text = "configVersion: v3.1\nconditions:\n- from: {match: ''}\n  to:\n  - {match: env=gray, \
                weight: 10}\n  - {match: env=prod, weight: 30}\n  - {match: env=none, weight: 900}\n";
    let rule = ConditionRule::parse("canary", text).unwrap();
    let (consumer, gray, prod) =
        (params(&[]), params(&[("env", "gray")]), params(&[("env", "prod")]));
    let endpoints = [view("10.0.0.1", &gray), view("10.0.0.2", &prod)];
    let mut rng = StdRng::seed_from_u64(11);
    let n_gray = with_call(view("10.0.0.9", &consumer), "", |call| {
        let drawn = |_: &usize| {
            let mut selection = Selection::all(2);
            rule.apply(call, &endpoints, &mut rng, &mut selection);
            selection.is_kept(0)
        };
        (0..10_000).filter(drawn).count()
    });
    assert!((2_350..2_650).contains(&n_gray), "{n_gray} of 10,000, a quarter expected");
}

/// Dubbo's routers do not see providers that it cannot connect to.
#[test]
fn a_destination_of_which_nobody_can_be_reached_is_not_drawn() {
    let rule = ConditionRule::parse("canary", WEIGHTED).unwrap();
    let (consumer, gray, prod) =
        (params(&[]), params(&[("env", "gray")]), params(&[("env", "prod")]));
    for (gray_is_down, prod_is_down) in [(false, true), (true, false), (true, true)] {
        let gray = UrlView { is_down: gray_is_down, ..view("10.0.0.1", &gray) };
        let prod = UrlView { is_down: prod_is_down, ..view("10.0.0.2", &prod) };
        let mut rng = StdRng::seed_from_u64(12);
        with_call(view("10.0.0.9", &consumer), "", |call| {
            let (mut n_gray, mut n_prod) = (0, 0);
            for _ in 0..200 {
                let mut selection = Selection::all(2);
                rule.apply(call, &[gray, prod], &mut rng, &mut selection);
                n_gray += u32::from(selection.is_kept(0));
                n_prod += u32::from(selection.is_kept(1));
            }
            assert_eq!(n_gray + n_prod, 200, "one of them");
            assert_eq!(0 < n_gray, !gray_is_down || prod_is_down);
            assert_eq!(0 < n_prod, !prod_is_down || gray_is_down);
        });
    }
}

#[test]
fn errors_name_the_place() {
    let cases = [
        (
            "conditions:\n  - 'a==b => c=d'\n",
            "line 2, column 5: \"==\" before \"b\" is out of place in condition \"a==b\"",
        ),
        ("key: 1\nconditions: ['=> a=b']", "line 1, column 6: key has to be a text"),
        (
            "force: true\n",
            "line 1, column 1: conditions is missing or empty: the rule would do nothing",
        ),
        (
            "configVersion: v3.2\nconditions: ['=> a=b']",
            "line 1, column 1: configVersion \"v3.2\" is not supported; versions up to v3.1 are",
        ),
        ("conditions:\n- ''\n", "line 2, column 3: the condition is empty"),
        (
            "conditions: &a [*a]",
            "line 1, column 17: the alias is within the value that it stands for",
        ),
        (
            "a: &a text\nconditions: ['=> a=b']\n<<: *a",
            "line 3, column 5: cannot be read as YAML: `<<` merges a mapping, or a list of mappings",
        ),
        ("", "line 1, column 1: the rule has to be a mapping"),
    ];
    for (text, message) in cases {
        assert_eq!(ConditionRule::parse("r", text).unwrap_err().to_string(), message, "{text:?}");
    }
    let regex = "configVersion: v3.0\ntags:\n- name: a\n  match: [{key: k, value: {regex: x}}]";
    assert_eq!(
        TagRule::parse("r", regex).unwrap_err().to_string(),
        "line 4, column 35: regex is not supported: use exact, prefix, wildcard, empty or noempty"
    );
}

#[test]
fn limits_hold() {
    let deep = format!("conditions: {}", "[".repeat(20));
    let problem = |text: &str| ConditionRule::parse("r", text).unwrap_err().problem;
    assert_eq!(problem(&deep), RuleProblem::TooDeep { max: 16 });
    let deepest = format!("conditions: {}", "[".repeat(100_000));
    assert!(matches!(problem(&deepest), RuleProblem::Yaml(_)));
    let many = format!("conditions: [{}]", "a,".repeat(20_000));
    assert_eq!(problem(&many), RuleProblem::TooMany { max: 16_384 });
    let long = " ".repeat(300_000);
    assert!(matches!(problem(&long), RuleProblem::TooLong { len: 300_000, .. }));
    let to = "{match: a=b},".repeat(65);
    let wide = format!("configVersion: v3.1\nconditions: [{{from: {{match: ''}}, to: [{to}]}}]");
    assert_eq!(problem(&wide), RuleProblem::TooMany { max: 64 });
}

/// As SnakeYAML has them, by which Dubbo reads rules.
#[test]
fn aliases_are_what_their_anchors_have() {
    let rule = "x: &all {configVersion: v3.0, force: true, y: 1}\n\
                name: &n gray\n\
                <<: [{force: false, key: *n}, *all]\n\
                tags:\n- name: *n\n  match: &m [{key: *n, value: {exact: 'a'}}]\n\
                - {name: other, match: *m}\n";
    let node = yaml::parse(rule).unwrap();
    assert_eq!(node.text("configVersion"), Ok(Some("v3.0")));
    assert_eq!(node.text("key"), Ok(Some("gray")));
    assert!(!node.flag("force", true), "the first of a list counts");
    let own = yaml::parse("x: &a {force: true}\nforce: false\n<<: *a\n'<<': quoted\n").unwrap();
    assert!(!own.flag("force", true), "what the mapping says itself counts");
    assert_eq!(own.text("<<"), Ok(Some("quoted")));
    let renamed = yaml::parse("a: &a 1\nb: *a\nc: &a 2\nd: *a\n").unwrap();
    let shown = |key| renamed.get(key).and_then(yaml::YamlNode::plain);
    assert_eq!((shown("b"), shown("d")), (Some("1".to_owned()), Some("2".to_owned())));
    assert!(TagRule::parse("r", rule).is_ok());
}

/// What aliases repeat counts in full, however deep they are in each other.
#[test]
fn aliases_repeat_within_limits() {
    let problem = |text: &str| yaml::parse(text).unwrap_err().problem;
    let levels = (b'b'..=b'j').map(|name| {
        let (name, before) = (char::from(name), char::from(name - 1));
        format!("{name}: &{name} [{}]\n", format!("*{before},").repeat(10))
    });
    let bomb: String = std::iter::once("a: &a [x]\n".to_owned()).chain(levels).collect();
    assert_eq!(problem(&bomb), RuleProblem::TooMany { max: 16_384 });
    let text = "x".repeat(100_000);
    let twice = format!("a: &a {text}\nb: [*a, *a]\n");
    assert!(yaml::parse(&twice).is_ok());
    let thrice = format!("a: &a {text}\nb: [*a, *a, *a]\n");
    assert_eq!(problem(&thrice), RuleProblem::Repeated { max: 262_144 });
    let key = format!("a: &a {{? {text} : 1}}\nb: [*a, *a, *a]\n");
    assert_eq!(problem(&key), RuleProblem::Repeated { max: 262_144 });
    let nested = |depth| format!("a: &a {}{}\nb: [[*a]]\n", "[".repeat(depth), "]".repeat(depth));
    assert!(yaml::parse(&nested(13)).is_ok());
    assert_eq!(problem(&nested(14)), RuleProblem::TooDeep { max: 16 });
}

/// As `NetUtils.matchIpExpression` of Dubbo 3.3.6 answers.
#[test]
fn networks_have_the_addresses_that_they_have_in_dubbo() {
    for (network, has, has_not) in [
        ("10.1.0.0/16", "10.1.255.1", Some("200.1.1.1")),
        ("10.1.0.0/+16", "10.1.255.1", Some("200.1.1.1")),
        ("10.1.0.0/1", "10.1.0.5", Some("200.1.1.1")),
        ("10.1.0.0/33", "10.1.0.0", Some("10.1.0.5")),
        ("10.1.0.0/0", "200.1.1.1", None),
        ("10.1.0.0/-1", "200.1.1.1", None),
        ("::/0", "10.1.0.0", None),
        ("::/-1", "10.1.0.0", None),
        ("::/96", "10.1.0.0", Some("2001:db8::5")),
        ("0.0.0.0/0", "::1", Some("2001:db8::5")),
        ("2001:db8::/32", "2001:db8::5", Some("10.1.0.0")),
        ("2001:db8::/129", "2001:db8::", Some("2001:db8::1")),
    ] {
        assert!(address::is_match(network, has, 1), "{network} {has}");
        assert!(has_not.is_none_or(|it| !address::is_match(network, it, 1)), "{network}");
    }
    for broken in ["10.1.0.0/", "10.1.0.0/x", "10.1.0.0/ 16", "10.1.0.0/2147483648"] {
        assert!(!address::is_match(broken, "10.1.0.0", 1), "{broken}");
    }
}

proptest! {
    /// Whatever a rule says, it never panics; and without force it never leaves nobody.
    #[test]
    fn any_condition_is_safe(
        condition in "[a-c$*~&!=, \\[\\]01>.]{0,24}|attachments\\[.{0,3}\\]=.{0,4}=>.{0,8}",
        value in "[a-c1~*$]{0,4}",
    ) {
        let text = format!("conditions:\n- \"{}\"\n", condition.replace(['\\', '"'], ""));
        let consumer = params(&[("a", &value), ("b", "1")]);
        let endpoint = params(&[("a", &value), ("c", "2")]);
        let endpoints = [view("10.0.0.1", &endpoint), view("::1", &consumer)];
        if let Ok(rule) = ConditionRule::parse("r", &text) {
            let mut selection = Selection::all(2);
            with_call(view("10.0.0.9", &consumer), "", |call| {
                rule.apply(call, &endpoints, &mut StdRng::seed_from_u64(1), &mut selection);
            });
            let is_banned = selection.steps.iter().any(|step| step.effect == Effect::Banned);
            prop_assert_eq!(selection.is_empty(), is_banned);
        }
    }

    /// Any text is a rule or an error.
    #[test]
    fn any_text_is_safe(text in "(tags|conditions|to|from|name|match|addresses|&a |\\*a|<<: |[-:{}\\[\\],&* \n'\"~0-9/.|])*") {
        let _ = ConditionRule::parse("r", &text);
        let _ = TagRule::parse("r", &text);
        let _ = Configurators::parse("n", &text);
    }

    #[test]
    fn any_address_is_safe(expression in "[0-9a-f.:*/\\[\\]-]{0,20}", host in "[0-9a-f.:]{0,12}|10.0.0.1|::1", port: u16) {
        address::is_match(&expression, &host, port);
    }
}

/// What Dubbo 3.3.6 answers: an item becomes a URL, in which `parameters` may say what it holds
/// for.
#[test]
fn parameters_of_an_item_say_what_it_holds_for() {
    let endpoint =
        params(&[("side", "consumer"), ("application", "shop"), ("interface", "com.acme.Orders")]);
    let rule = |header: &str, more: &str, parameters: &str| {
        let text = format!(
            "{header}\nconfigs:\n- side: Consumer\n  {more}\n  \
             parameters: {{timeout: 5, {parameters}}}\n"
        );
        Configurators::parse("n", &text)
    };
    let service = "configVersion: v2.7\nscope: service\nkey: com.acme.Orders";
    let service30 = &service.replace("v2.7", "v3.0");
    let application = "configVersion: v2.7\nscope: application\nkey: shop";
    for (header, more, parameters, holds) in [
        (service, "", "", true),
        (service, "", "group: g", false),
        (service, "", "group: '*'", false),
        (application, "", "group: g", false),
        (service, "", "version: '1.0'", false),
        (service, "", "version: ''", true),
        (service, "", "interface: a.B", false),
        (service, "", "side: provider", false),
        (service, "", "side: CONSUMER", true),
        (service, "", "application: other", false),
        (service30, "", "application: other", false),
        (service, "", "application: '*'", true),
        // What the rule says of applications comes last.
        (service, "applications: [shop]", "application: other", true),
        (application, "", "application: other", true),
        (service, "", "enabled: false", true),
        (service, "", "providerAddresses: '9.9.9.9:1'", false),
        (service, "providerAddresses: ['10.0.0.1']", "providerAddresses: '9.9.9.9:1'", true),
    ] {
        let rule = rule(header, more, parameters).unwrap();
        let changes = rule.changes(&view("10.0.0.1", &endpoint), "10.0.0.9");
        assert_eq!(changes.get("timeout") == Some("5"), holds, "{header} {more} {parameters}");
        assert!(changes.len() <= 1, "{changes:?}");
    }
    for address in ["0.0.0.0:*", "0.0.0.0:", "10.0.0.1:x"] {
        let error = rule(service, &format!("addresses: ['{address}']"), "").unwrap_err();
        assert_eq!(error.problem, RuleProblem::Port(address.to_owned()), "{error}");
    }
}
