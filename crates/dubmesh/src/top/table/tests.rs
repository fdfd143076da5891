use super::super::sample::{EndpointLine, Missing, ServiceView};
use super::*;

fn figures() -> AgentFigures {
    let calls = |rate, p99| CallFigures {
        rate,
        p50: Some(50.2),
        p99,
        in_flight: 7,
        ..CallFigures::default()
    };
    let endpoint = |address: &str, calls, state: &str| EndpointLine {
        address: address.to_owned(),
        service: "com.acme.orders.api.OrderService:1.0.0".to_owned(),
        calls,
        limit: Some(200),
        state: state.to_owned(),
        is_well: state == "ready",
    };
    AgentFigures {
        agent: "shop".to_owned(),
        version: "0.1.0".to_owned(),
        rate: 3512.0,
        endpoints: vec![
            endpoint("10.0.0.7:20880", calls(12.0, Some(52.0)), "ready"),
            endpoint("10.0.0.8:20880", calls(3500.0, Some(1250.0)), "ready"),
            endpoint("10.0.0.9:20880", calls(0.0, None), "ejected: 5 failures in a row\u{7}"),
        ],
        services: vec![ServiceView {
            name: "com.acme.Orders".to_owned(),
            calls: calls(1.0, None),
            ready: 1,
            endpoints: 3,
            waiting: 0,
            note: String::new(),
        }],
        ..AgentFigures::default()
    }
}

fn shown(sort: &str, filter: &str) -> Shown {
    let order = SortOrder::by(View::Endpoints, sort).unwrap();
    Shown { view: View::Endpoints, order, filter: filter.to_owned() }
}

fn addresses(shown: &Shown) -> Vec<String> {
    lines(&figures(), shown).iter().map(|line| line.cells[0].text.clone()).collect()
}

#[test]
fn a_line_for_each_endpoint_fits_a_terminal() {
    let text = text(&figures(), &shown("rate", ""), Some(80));
    let expected = "\
shop 0.1.0: 3512 calls/s, 0 errors/s, 0 in flight; 3 endpoints
endpoint       service       rate err/s   avg   p50   p99 infl limit state
10.0.0.8:20880 ~vice:1.0.0   3500     0     -    50  1250    7   200 ready
10.0.0.7:20880 ~vice:1.0.0     12     0     -    50    52    7   200 ready
10.0.0.9:20880 ~vice:1.0.0      0     0     -    50     -    7   200 ejected: 5~
  ejected: 5 failures in a row
";
    assert_eq!(text, expected, "and what an agent says rings no bell");
    assert!(text.lines().all(|line| line.chars().count() <= 80));
}

#[test]
fn what_the_pages_leave_out_is_told() {
    let mut figures = figures();
    figures.agent = "shop\u{1b}[2J".to_owned();
    figures.missing = Missing { endpoints: 500, workers: 1, ..Missing::default() };
    assert_eq!(
        headline(&figures, &shown("rate", ""), 1000),
        "shop [2J 0.1.0: 3512 calls/s, 0 errors/s, 0 in flight; 1000 endpoints (500 more are \
             not read); workers that do not answer: 1"
    );
}

#[test]
fn one_line_is_counted_as_such() {
    let figures = figures();
    for (view, one, none) in [
        (View::Endpoints, "1 endpoint", "0 endpoints"),
        (View::Services, "1 service", "0 services"),
        (View::Connections, "1 connection", "0 connections"),
        (View::Stages, "1 line of stages", "0 lines of stages"),
    ] {
        let shown = Shown { view, order: SortOrder::of(view), filter: String::new() };
        for (n, counted) in [(1, one), (0, none)] {
            let headline = headline(&figures, &shown, n);
            assert!(headline.ends_with(&format!("; {counted}")), "{headline}");
        }
    }
    let mut figures = figures;
    figures.missing = Missing { endpoints: 1, ..Missing::default() };
    let headline = headline(&figures, &shown("rate", ""), 1000);
    assert!(headline.ends_with("; 1000 endpoints (1 more is not read)"), "{headline}");
}

/// Services have no figures of their own: those of endpoints that are not read are missing.
#[test]
fn what_services_lack_is_told() {
    let mut figures = figures();
    figures.missing = Missing { endpoints: 500, services: 3, ..Missing::default() };
    let view = View::Services;
    let shown = Shown { view, order: SortOrder::of(view), filter: String::new() };
    let headline = headline(&figures, &shown, 2);
    let told = "; 2 services (3 more are not read) (without 500 endpoints that are not read)";
    assert!(headline.ends_with(told), "{headline}");
}

/// Why something is wrong is the first thing that is looked for.
#[test]
fn a_reason_is_shown_whole_where_there_is_room_and_cut_at_no_pipe() {
    let mut figures = figures();
    let reason = format!("ejected: it refused a call; {}", "x".repeat(60));
    figures.endpoints[2].state = reason.clone();
    let last = |width| {
        let text = text(&figures, &shown("rate", ""), width);
        text.lines().last().unwrap().to_owned()
    };
    assert_eq!(last(Some(80)), format!("  {}~", &reason[..77]));
    assert_eq!(last(Some(30)), format!("  {}~", &reason[..27]), "its column has no room");
    assert!(last(Some(200)).ends_with(&format!(" 200 {reason}")), "{}", last(Some(200)));
    let piped = text(&figures, &shown("rate", ""), None);
    assert!(piped.contains(&format!(" 200 {reason}\n")), "{piped}");
    assert!(piped.contains(" com.acme.orders.api.OrderService:1.0.0 "), "{piped}");
    assert_eq!(piped.lines().count(), 5);
}

/// A line of an endpoint has no place for them.
#[test]
fn calls_without_an_endpoint_are_told_apart() {
    let figures = AgentFigures { errors: 4200.0, errors_without_endpoint: 4000.0, ..figures() };
    assert_eq!(
        headline(&figures, &shown("rate", ""), 3),
        "shop 0.1.0: 3512 calls/s, 4200 errors/s (4000 without an endpoint), 0 in flight; \
         3 endpoints"
    );
}

/// A column of which nothing can be read is no use.
#[test]
fn columns_are_wide_enough_or_left_out() {
    let shown = shown("rate", "");
    let lines = lines(&figures(), &shown);
    for width in 0..200 {
        let widths = widths(View::Endpoints, &lines, width);
        for (column, shown) in ENDPOINTS.iter().zip(&widths).skip(1) {
            assert!(shown.is_none_or(|shown| 5 <= shown || column.is_number), "{width} {widths:?}");
        }
    }
}

#[test]
fn any_width_will_do() {
    for view in View::ALL {
        let shown = Shown { view, order: SortOrder::of(view), filter: String::new() };
        for width in 0..200 {
            let lines = lines(&figures(), &shown);
            let widths = widths(view, &lines, width);
            let shown: Vec<usize> = widths.iter().copied().flatten().collect();
            let sum = shown.iter().sum::<usize>() + shown.len() - 1;
            assert!(sum <= width, "{view:?} {width}: {widths:?}");
            // Those that are left out are at the right.
            assert_eq!(
                widths.iter().position(Option::is_none),
                match shown.len() {
                    n if n < widths.len() => Some(n),
                    _ => None,
                }
            );
        }
    }
    let narrow = text(&figures(), &shown("rate", ""), Some(40));
    assert!(narrow.lines().skip(1).all(|line| line.chars().count() <= 40), "{narrow}");
    assert!(narrow.contains("\n10.0.0.8:20880"), "{narrow}");
}

/// Characters of other scripts take two cells of a terminal.
#[test]
fn wide_characters_take_the_room_that_they_have() {
    let mut figures = figures();
    figures.endpoints[0].service = "com.acme.\u{8ba2}\u{5355}\u{670d}\u{52a1}".to_owned();
    figures.endpoints[1].service = "\u{8ba2}\u{5355}".to_owned();
    let all = text(&figures, &shown("rate", ""), Some(80));
    let states: Vec<usize> = all
        .lines()
        .skip(2)
        .filter(|line| !line.starts_with("  "))
        .map(|line| line[..line.find(" ready").or(line.find(" ejected")).unwrap()].width())
        .collect();
    assert_eq!(states, [states[0]; 3], "{all}");
    assert!(all.lines().all(|line| line.width() <= 80), "{all}");
    for width in 0..20 {
        for view in View::ALL {
            for column in view.columns() {
                assert_eq!(fitted("a\u{8ba2}\u{5355}b\u{670d}", width, column).width(), width);
            }
        }
    }
}

#[test]
fn lines_are_sorted_and_filtered() {
    let by = |sort, filter| addresses(&shown(sort, filter));
    assert_eq!(by("rate", ""), ["10.0.0.8:20880", "10.0.0.7:20880", "10.0.0.9:20880"]);
    assert_eq!(by("endpoint", "")[0], "10.0.0.7:20880");
    assert_eq!(by("p99", "")[2], "10.0.0.9:20880", "what is unknown comes last");
    let reversed = Shown {
        order: SortOrder { is_reversed: true, ..shown("p99", "").order },
        ..shown("p99", "")
    };
    assert_eq!(addresses(&reversed)[2], "10.0.0.9:20880", "also the other way round");
    assert_eq!(by("rate", "EJECTED"), ["10.0.0.9:20880"]);
    assert!(by("rate", "nothing").is_empty());
    assert!(SortOrder::by(View::Services, "nothing").is_none());
}

#[test]
fn numbers_are_short() {
    for (number, text) in [
        (0.0, "0"),
        (0.04, "0.0"),
        (9.94, "9.9"),
        (9.96, "10"),
        (99_999.0, "99999"),
        (99_999.9, "100k"),
        (12_345_678.0, "12M"),
        (1e12, "1000G"),
    ] {
        assert_eq!(amount(number).text, text);
    }
}
