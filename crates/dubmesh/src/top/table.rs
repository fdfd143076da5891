//! The views as tables: which columns there are, which lines in which order, and as text. Nothing
//! here prints.

use std::cmp::Ordering;

use clap::ValueEnum;
use serde::Serialize;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use super::sample::{AgentFigures, CallFigures};
use crate::admin_pages::plain;

/// What is shown.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub(super) enum View {
    /// A line for each endpoint
    Endpoints,
    /// A line for each service
    Services,
    /// A line for each connection
    Connections,
    /// A line for each service: where the time of its calls goes
    Stages,
}

/// A column.
#[derive(Clone, Copy, Debug)]
pub(super) struct Column {
    pub(super) name: &'static str,
    /// In characters; 0 takes a share of what is left.
    pub(super) width: usize,
    /// Whether it is a number, which stands at the right.
    pub(super) is_number: bool,
}

/// An IPv4 address with its port is at most so long.
const MIN_NAME_WIDTH: usize = 21;
/// Less of any other text says nothing.
const MIN_TEXT_WIDTH: usize = 7;

const fn words_column(name: &'static str) -> Column {
    Column { name, width: 0, is_number: false }
}

const fn number(name: &'static str, width: usize) -> Column {
    Column { name, width, is_number: true }
}

const ENDPOINTS: [Column; 10] = [
    words_column("endpoint"),
    words_column("service"),
    number("rate", 6),
    number("err/s", 5),
    number("avg", 5),
    number("p50", 5),
    number("p99", 5),
    number("infl", 4),
    number("limit", 5),
    words_column("state"),
];

const SERVICES: [Column; 10] = [
    words_column("service"),
    number("rate", 6),
    number("err/s", 5),
    number("avg", 5),
    number("p50", 5),
    number("p99", 5),
    number("infl", 4),
    number("wait", 4),
    number("ready", 7),
    words_column("note"),
];

const CONNECTIONS: [Column; 8] = [
    words_column("peer"),
    Column { name: "what", width: 16, is_number: false },
    number("in/s", 6),
    number("out/s", 6),
    number("infl", 4),
    number("rtt", 5),
    number("held", 6),
    Column { name: "doing", width: 10, is_number: false },
];

const STAGES: [Column; 11] = [
    words_column("service"),
    Column { name: "place", width: 7, is_number: false },
    number("timed", 5),
    number("read", 5),
    number("wait", 5),
    number("enc", 5),
    number("write", 5),
    number("net", 5),
    number("app", 5),
    number("dec", 5),
    number("answ", 5),
];

impl View {
    /// All of them, in the order in which they follow each other.
    pub(super) const ALL: [Self; 4] =
        [Self::Endpoints, Self::Services, Self::Connections, Self::Stages];

    /// Its name in arguments and results.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Endpoints => "endpoints",
            Self::Services => "services",
            Self::Connections => "connections",
            Self::Stages => "stages",
        }
    }

    /// So many of its lines: `1 endpoint`, `2 endpoints`.
    fn counted(self, n: usize) -> String {
        let one = match self {
            Self::Endpoints => "endpoint",
            Self::Services => "service",
            Self::Connections => "connection",
            // A line for each service and place.
            Self::Stages => "line of stages",
        };
        let many = if self == Self::Stages { "lines of stages" } else { self.name() };
        doctor::counted(n as u64, one, many)
    }

    /// Its columns, from the left.
    pub(super) fn columns(self) -> impl ExactSizeIterator<Item = &'static Column> + Clone {
        match self {
            Self::Endpoints => ENDPOINTS.iter(),
            Self::Services => SERVICES.iter(),
            Self::Connections => CONNECTIONS.iter(),
            Self::Stages => STAGES.iter(),
        }
    }

    /// The next one.
    pub(super) fn next(self) -> Self {
        match self {
            Self::Endpoints => Self::Services,
            Self::Services => Self::Connections,
            Self::Connections => Self::Stages,
            Self::Stages => Self::Endpoints,
        }
    }
}

/// In which order lines are.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct SortOrder {
    /// The number of the column that decides.
    pub(super) column: usize,
    /// Numbers begin with the highest unless this is set, and texts the other way round.
    pub(super) is_reversed: bool,
}

impl SortOrder {
    /// The busiest first.
    pub(super) fn of(view: View) -> Self {
        let busiest = match view {
            View::Connections => "in/s",
            View::Stages => "timed",
            View::Endpoints | View::Services => "rate",
        };
        Self::by(view, busiest).unwrap_or(Self { column: 0, is_reversed: false })
    }

    /// By the column of that name, if there is one.
    pub(super) fn by(view: View, name: &str) -> Option<Self> {
        let column = view.columns().position(|column| column.name == name)?;
        Some(Self { column, is_reversed: false })
    }
}

/// What is shown, and how.
#[derive(Clone, Debug)]
pub(super) struct Shown {
    pub(super) view: View,
    pub(super) order: SortOrder,
    /// Only lines with this text; upper and lower case are the same.
    pub(super) filter: String,
}

/// What stands in a cell.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub(super) enum CellValue {
    Number(f64),
    Text(String),
    /// It is not known, or there is none.
    Nothing,
}

/// One cell.
#[derive(Clone, Debug)]
pub(super) struct Cell {
    pub(super) value: CellValue,
    pub(super) text: String,
}

/// One line.
#[derive(Clone, Debug)]
pub(super) struct TableLine {
    pub(super) cells: Vec<Cell>,
    /// Something is wrong.
    pub(super) is_bad: bool,
}

fn words(text: &str) -> Cell {
    // What peers choose must not move the cursor.
    let text = plain(text);
    Cell { value: CellValue::Text(text.clone()), text }
}

/// A number in at most five characters.
fn amount(number: f64) -> Cell {
    let text = match number {
        0.0 => "0".to_owned(),
        n if n < 9.95 => format!("{n:.1}"),
        n if n < 99_999.5 => format!("{n:.0}"),
        n if n < 9_999_500.0 => format!("{:.0}k", n / 1e3),
        n if n < 9_999_500_000.0 => format!("{:.0}M", n / 1e6),
        n => format!("{:.0}G", n / 1e9),
    };
    Cell { value: CellValue::Number(number), text }
}

/// A number of things.
fn count(number: u64) -> Cell {
    let cell = amount(number as f64);
    if number < 10 { Cell { text: number.to_string(), ..cell } } else { cell }
}

fn maybe(number: Option<f64>) -> Cell {
    number.map_or_else(|| Cell { value: CellValue::Nothing, text: "-".to_owned() }, amount)
}

fn of_calls(calls: &CallFigures) -> [Cell; 6] {
    let CallFigures { rate, errors, p50, p99, average, in_flight } = *calls;
    [amount(rate), amount(errors), maybe(average), maybe(p50), maybe(p99), count(in_flight)]
}

/// The lines of a view, in their order.
pub(super) fn lines(figures: &AgentFigures, shown: &Shown) -> Vec<TableLine> {
    let mut lines: Vec<TableLine> = match shown.view {
        View::Endpoints => figures
            .endpoints
            .iter()
            .map(|it| {
                let names = [words(&it.address), words(&it.service)];
                let rest = [maybe(it.limit.map(f64::from)), words(&it.state)];
                let cells = names.into_iter().chain(of_calls(&it.calls)).chain(rest).collect();
                TableLine { cells, is_bad: !it.is_well }
            })
            .collect(),
        View::Services => figures
            .services
            .iter()
            .map(|it| {
                let ready = format!("{}/{}", it.ready, it.endpoints);
                let ready = Cell { value: CellValue::Number(it.ready as f64), text: ready };
                let rest = [count(it.waiting as u64), ready, words(&it.note)];
                let cells = std::iter::once(words(&it.name)).chain(of_calls(&it.calls)).chain(rest);
                TableLine { cells: cells.collect(), is_bad: it.ready == 0 || !it.note.is_empty() }
            })
            .collect(),
        View::Connections => figures
            .connections
            .iter()
            .map(|it| {
                let cells = vec![
                    words(&it.peer),
                    words(&it.what),
                    amount(it.read),
                    amount(it.written),
                    count(it.in_flight as u64),
                    maybe(it.round_trip),
                    count(it.held_bytes as u64),
                    words(&it.doing),
                ];
                TableLine { cells, is_bad: false }
            })
            .collect(),
        View::Stages => figures
            .stages
            .iter()
            .map(|it| {
                let names = [words(&it.service), words(&it.place), count(it.n_calls)];
                let cells = names.into_iter().chain(it.ms.map(amount)).collect();
                TableLine { cells, is_bad: false }
            })
            .collect(),
    };
    let filter = shown.filter.to_lowercase();
    let has_text =
        |line: &TableLine| line.cells.iter().any(|it| it.text.to_lowercase().contains(&filter));
    lines.retain(has_text);
    lines.sort_by(|a, b| compare(a, b, shown.order));
    lines
}

/// Numbers begin with the highest, what is unknown comes last; equal lines are by their names.
fn compare(a: &TableLine, b: &TableLine, order: SortOrder) -> Ordering {
    let by_column = match (&a.cells[order.column].value, &b.cells[order.column].value) {
        (CellValue::Number(a), CellValue::Number(b)) => b.total_cmp(a),
        (CellValue::Text(a), CellValue::Text(b)) => a.cmp(b),
        (CellValue::Nothing, CellValue::Nothing) => Ordering::Equal,
        (CellValue::Nothing, _) => return Ordering::Greater,
        (_, CellValue::Nothing) => return Ordering::Less,
        (CellValue::Number(_), CellValue::Text(_)) => Ordering::Less,
        (CellValue::Text(_), CellValue::Number(_)) => Ordering::Greater,
    };
    let by_column = if order.is_reversed { by_column.reverse() } else { by_column };
    let names = || {
        let name = |line: &TableLine| -> Vec<String> {
            line.cells.iter().take(2).map(|cell| cell.text.clone()).collect()
        };
        name(a).cmp(&name(b))
    };
    by_column.then_with(names)
}

/// How wide columns are where nothing is cut.
fn full_widths(view: View, lines: &[TableLine]) -> Vec<Option<usize>> {
    let width =
        |(nth, column): (usize, &Column)| Some(wanted(column, nth, lines).max(column.width));
    view.columns().enumerate().map(width).collect()
}

/// How wide a column must be for all that stands in it.
fn wanted(column: &Column, nth: usize, lines: &[TableLine]) -> usize {
    let longest = lines.iter().map(|line| line.cells[nth].text.width()).max();
    longest.unwrap_or(0).max(column.name.len())
}

/// A second line for what is wrong with a line, if the last column has no room for all of it.
pub(super) fn reason_line(
    line: &TableLine,
    widths: &[Option<usize>],
    width: usize,
) -> Option<String> {
    let reason = &line.cells.last().filter(|_| line.is_bad)?.text;
    let room = widths.last().copied().flatten().unwrap_or(0);
    (room < reason.width()).then(|| {
        let text = format!("  {reason}");
        let column = words_column("reason");
        fitted(&text, width.min(text.width()), &column)
    })
}

/// How wide columns are that together may take `width` cells of a terminal, with a space between
/// them. Columns of words share what numbers leave, by what stands in them. `None` for those at
/// the right that a narrow terminal has no room for: without its name a line says nothing.
pub(super) fn widths(view: View, lines: &[TableLine], width: usize) -> Vec<Option<usize>> {
    let columns: Vec<&Column> = view.columns().collect();
    let wanted = |nth: usize| wanted(columns[nth], nth, lines);
    let room = |n_shown: usize| {
        let fixed: usize = columns[..n_shown].iter().map(|column| column.width).sum();
        width.saturating_sub(fixed + n_shown.saturating_sub(1))
    };
    let needed = |n_shown: usize| -> usize {
        let least = |nth| if nth == 0 { MIN_NAME_WIDTH } else { MIN_TEXT_WIDTH };
        let open = (0..n_shown).filter(|nth| columns[*nth].width == 0);
        open.map(|nth| wanted(nth).min(least(nth))).sum()
    };
    let n_shown = (1..=columns.len()).rev().find(|n| needed(*n) <= room(*n)).unwrap_or(1);
    let mut widths: Vec<usize> = columns[..n_shown].iter().map(|column| column.width).collect();
    let mut left = room(n_shown);
    let mut open: Vec<usize> = (0..n_shown).filter(|nth| columns[*nth].width == 0).collect();
    // The shortest first: what they leave is for the others. The first column says what the line
    // is about, and comes before them.
    open.sort_by_key(|nth| (*nth != 0, wanted(*nth)));
    for (done, nth) in open.iter().enumerate() {
        let share = left / (open.len() - done);
        let least = if *nth == 0 { MIN_NAME_WIDTH.min(left) } else { 0 };
        widths[*nth] = wanted(*nth).min(share.max(least));
        left -= widths[*nth];
    }
    if let Some(last) = open.iter().max() {
        widths[*last] += left;
    }
    let hidden = std::iter::repeat_n(None, columns.len() - n_shown);
    widths.into_iter().map(Some).chain(hidden).collect()
}

/// A text in `width` cells of a terminal. What is too long loses its beginning if the end tells
/// more, as that of a class does.
pub(super) fn fitted(text: &str, width: usize, column: &Column) -> String {
    let text_width = text.width();
    if text_width <= width {
        let room = " ".repeat(width - text_width);
        return if column.is_number { room + text } else { text.to_owned() + &room };
    }
    let kept = width.saturating_sub(1);
    let mark = if width == 0 { "" } else { "~" };
    let fitting = |characters: &mut dyn Iterator<Item = char>| {
        let mut left = kept;
        let fits = |c: &char| {
            let rest = left.checked_sub(c.width().unwrap_or(0));
            left = rest.unwrap_or(left);
            rest.is_some()
        };
        let fitting: Vec<char> = characters.take_while(fits).collect();
        // A wide character may leave a cell.
        (fitting, " ".repeat(left))
    };
    match column.name {
        "service" => {
            let (end, room) = fitting(&mut text.chars().rev());
            mark.to_owned() + &end.into_iter().rev().collect::<String>() + &room
        }
        _ => {
            let (beginning, room) = fitting(&mut text.chars());
            beginning.into_iter().collect::<String>() + mark + &room
        }
    }
}

/// What stands above the table.
pub(super) fn headline(figures: &AgentFigures, shown: &Shown, n_lines: usize) -> String {
    let AgentFigures { agent, version, rate, errors, errors_without_endpoint, in_flight, .. } =
        figures;
    // No line of an endpoint has them.
    let early = match *errors_without_endpoint {
        0.0 => String::new(),
        early => format!(" ({} without an endpoint)", amount(early).text),
    };
    let filter = match &*shown.filter {
        "" => String::new(),
        text => format!(" with \"{text}\""),
    };
    let unread = match shown.view {
        View::Endpoints => figures.missing.endpoints,
        View::Services => figures.missing.services,
        View::Connections => figures.missing.connections,
        View::Stages => 0,
    };
    let be = |n| if n == 1 { "is" } else { "are" };
    let mut unread = match unread {
        0 => String::new(),
        n => format!(" ({n} more {} not read)", be(n)),
    };
    // What is said of services is the sum of what is said of their endpoints.
    if let (View::Services, n @ 1..) = (shown.view, figures.missing.endpoints) {
        let endpoints = doctor::counted(n as u64, "endpoint", "endpoints");
        unread += &format!(" (without {endpoints} that {} not read)", be(n));
    }
    let silent = match figures.missing.workers {
        0 => String::new(),
        n => format!("; workers that do not answer: {n}"),
    };
    format!(
        "{} {}: {} calls/s, {} errors/s{early}, {in_flight} in flight; \
         {}{filter}{unread}{silent}",
        plain(agent),
        plain(version),
        amount(*rate).text,
        amount(*errors).text,
        shown.view.counted(n_lines)
    )
}

/// The whole table, for a terminal of that width. Without one, nothing is cut.
pub(super) fn text(figures: &AgentFigures, shown: &Shown, width: Option<usize>) -> String {
    let lines = lines(figures, shown);
    let widths = match width {
        Some(width) => widths(shown.view, &lines, width),
        None => full_widths(shown.view, &lines),
    };
    let row = |cells: Vec<String>| cells.join(" ").trim_end().to_owned() + "\n";
    let columns = || shown.view.columns().zip(&widths);
    let cell = |text: &str, column: &Column, width: Option<usize>| {
        width.map(|width| fitted(text, width, column))
    };
    let mut text = headline(figures, shown, lines.len()) + "\n";
    let names = columns().filter_map(|(column, width)| cell(column.name, column, *width));
    text += &row(names.collect());
    for line in &lines {
        let cells = line.cells.iter().zip(columns());
        let cells = cells.filter_map(|(it, (column, width))| cell(&it.text, column, *width));
        text += &row(cells.collect());
        if let Some(reason) = width.and_then(|width| reason_line(line, &widths, width)) {
            text += &row(vec![reason]);
        }
    }
    text
}

#[cfg(test)]
mod tests;
