//! The views in a terminal, with keys.

use std::sync::mpsc::{self, Receiver, TryRecvError};
use std::time::{Duration, Instant};

use ratatui::DefaultTerminal;
use ratatui::Frame;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use ratatui::crossterm::{cursor, execute};
use ratatui::layout::{Constraint, Layout};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line as TextLine, Span};
use tokio::runtime::Runtime;
use tokio::signal::unix::{SignalKind, signal};

use super::sample::{AgentFigures, Sample};
use super::table::{Shown, SortOrder, View, fitted, headline, lines, reason_line, widths};

const KEYS: &str = "Tab view  s sort  r reverse  / filter  Space stop  q quit";

/// How long to wait for a key until an answer is looked for again.
const KEY_WAIT: Duration = Duration::from_millis(50);

/// Shows the views until somebody quits.
///
/// # Errors
/// The terminal cannot be used, or the agent cannot be read at first. Later it is asked again.
pub(super) fn run(
    runtime: &Runtime,
    admin: &str,
    every: Duration,
    shown: Shown,
) -> Result<(), String> {
    let first = runtime.block_on(Sample::take(admin))?;
    let mut screen = Screen {
        figures: first.since(&first),
        shown,
        last: first,
        trouble: None,
        typing: None,
        scroll: 0,
        is_stopped: false,
    };
    let mut terminal = ratatui::try_init().map_err(|error| format!("no terminal: {error}"))?;
    runtime.spawn(leave_on_signal());
    let done = screen.until_quit(&mut terminal, runtime, admin, every);
    ratatui::restore();
    done.map_err(|error| format!("the terminal cannot be used: {error}"))
}

/// Gives the terminal back when a signal ends the process.
async fn leave_on_signal() {
    let watch =
        || std::io::Result::Ok((signal(SignalKind::terminate())?, signal(SignalKind::hangup())?));
    // Unwatched, a signal ends the process as it does by itself.
    let Ok((mut terminate, mut hang_up)) = watch() else { return };
    let number = tokio::select! {
        _ = terminate.recv() => SignalKind::terminate(),
        _ = hang_up.recv() => SignalKind::hangup(),
    };
    ratatui::restore();
    // Nobody need be there to see it.
    let _ = execute!(std::io::stdout(), cursor::Show);
    // As a shell says of a process that a signal has ended.
    std::process::exit(128 + number.as_raw_value());
}

/// Takes a look beside the keys: an agent that hangs keeps nobody from quitting.
fn ask(runtime: &Runtime, admin: &str) -> Receiver<Result<Sample, String>> {
    let (give, take) = mpsc::channel();
    let admin = admin.to_owned();
    runtime.spawn(async move {
        // Whoever has quit needs no answer.
        let _ = give.send(Sample::take(&admin).await);
    });
    take
}

struct Screen {
    figures: AgentFigures,
    last: Sample,
    shown: Shown,
    /// Why the last look failed.
    trouble: Option<String>,
    /// A filter that is being written, and the one before.
    typing: Option<String>,
    /// Lines above the first one that is seen.
    scroll: usize,
    is_stopped: bool,
}

impl Screen {
    fn until_quit(
        &mut self,
        terminal: &mut DefaultTerminal,
        runtime: &Runtime,
        admin: &str,
        every: Duration,
    ) -> std::io::Result<()> {
        let mut due = Instant::now() + every;
        let mut asked: Option<Receiver<Result<Sample, String>>> = None;
        loop {
            terminal.draw(|frame| self.draw(frame))?;
            let left = due.saturating_duration_since(Instant::now());
            if event::poll(if asked.is_some() { KEY_WAIT } else { left })? {
                if let Event::Key(key) = event::read()?
                    && key.kind == KeyEventKind::Press
                    && !self.press(key)
                {
                    return Ok(());
                }
                continue;
            }
            match asked.as_ref().map(Receiver::try_recv) {
                Some(Err(TryRecvError::Empty)) => continue,
                Some(Ok(taken)) => self.look(taken),
                Some(Err(TryRecvError::Disconnected)) => {}
                None if self.is_stopped => {}
                None => {
                    asked = Some(ask(runtime, admin));
                    continue;
                }
            }
            (asked, due) = (None, Instant::now() + every);
        }
    }

    fn look(&mut self, taken: Result<Sample, String>) {
        match taken {
            Ok(sample) => {
                self.figures = sample.since(&self.last);
                (self.last, self.trouble) = (sample, None);
            }
            Err(message) => self.trouble = Some(message),
        }
    }

    /// Does what a key says; `false` to quit.
    fn press(&mut self, key: KeyEvent) -> bool {
        if key.modifiers.contains(KeyModifiers::CONTROL) && key.code == KeyCode::Char('c') {
            return false;
        }
        if self.typing.is_some() {
            self.type_in(key.code);
            return true;
        }
        match key.code {
            KeyCode::Char('q') | KeyCode::Esc => return false,
            KeyCode::Tab => self.show(self.shown.view.next()),
            KeyCode::Char(digit @ '1'..='4') => {
                let nth = digit as usize - '1' as usize;
                self.show(View::ALL[nth]);
            }
            KeyCode::Char('s') => {
                let n_columns = self.shown.view.columns().len();
                self.shown.order.column = (self.shown.order.column + 1) % n_columns;
            }
            KeyCode::Char('r') => self.shown.order.is_reversed ^= true,
            KeyCode::Char('/') => self.typing = Some(std::mem::take(&mut self.shown.filter)),
            KeyCode::Char(' ') => self.is_stopped ^= true,
            KeyCode::Up => self.scroll = self.scroll.saturating_sub(1),
            KeyCode::Down => self.scroll += 1,
            KeyCode::PageUp => self.scroll = self.scroll.saturating_sub(20),
            KeyCode::PageDown => self.scroll += 20,
            KeyCode::Home => self.scroll = 0,
            _ => {}
        }
        true
    }

    fn show(&mut self, view: View) {
        self.shown = Shown { view, order: SortOrder::of(view), filter: self.shown.filter.clone() };
        self.scroll = 0;
    }

    fn type_in(&mut self, code: KeyCode) {
        match code {
            KeyCode::Enter => self.typing = None,
            KeyCode::Esc => self.shown.filter = self.typing.take().unwrap_or_default(),
            KeyCode::Backspace => drop(self.shown.filter.pop()),
            KeyCode::Char(c) => self.shown.filter.push(c),
            _ => {}
        }
    }

    fn draw(&mut self, frame: &mut Frame<'_>) {
        let [top, names, body, bottom] = Layout::vertical([
            Constraint::Length(1),
            Constraint::Length(1),
            Constraint::Fill(1),
            Constraint::Length(1),
        ])
        .areas(frame.area());
        let lines = lines(&self.figures, &self.shown);
        self.scroll = self.scroll.min(lines.len().saturating_sub(1));
        let width = usize::from(frame.area().width);
        let widths = widths(self.shown.view, &lines, width);
        let bold = Style::new().add_modifier(Modifier::BOLD);
        let headline = headline(&self.figures, &self.shown, lines.len());
        // What is on the screen is what the agent said last.
        let age = if self.trouble.is_some() { "not current: " } else { "" };
        frame.render_widget(TextLine::styled(format!("{age}{headline}"), bold), top);
        let columns = || self.shown.view.columns().zip(&widths).enumerate();
        let spans = columns().filter_map(|(nth, (column, width))| {
            let is_sorted = nth == self.shown.order.column;
            let style = if is_sorted { bold } else { Style::new() };
            let text = fitted(column.name, (*width)?, column) + " ";
            Some(Span::styled(text, style.add_modifier(Modifier::REVERSED)))
        });
        frame.render_widget(TextLine::from_iter(spans), names);
        let mut rows = body.rows();
        for line in lines.iter().skip(self.scroll) {
            let style = if line.is_bad { Style::new().fg(Color::Red) } else { Style::new() };
            let cells = line.cells.iter().zip(columns());
            let text: Vec<String> = cells
                .filter_map(|(cell, (_, (column, width)))| {
                    Some(fitted(&cell.text, (*width)?, column))
                })
                .collect();
            let reason = reason_line(line, &widths, width);
            for text in std::iter::once(text.join(" ")).chain(reason) {
                let Some(row) = rows.next() else { break };
                frame.render_widget(TextLine::styled(text, style), row);
            }
        }
        frame.render_widget(self.foot(), bottom);
    }

    fn foot(&self) -> TextLine<'_> {
        match (&self.typing, &self.trouble) {
            (Some(_), _) => TextLine::from(format!("filter: {}_", self.shown.filter)),
            (None, Some(trouble)) => TextLine::styled(&**trouble, Style::new().fg(Color::Red)),
            (None, None) if self.is_stopped => TextLine::from(format!("stopped  {KEYS}")),
            (None, None) => TextLine::from(KEYS),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use ratatui::Terminal;
    use ratatui::backend::TestBackend;
    use ratatui::buffer::Cell;

    use super::*;

    #[test]
    fn figures_of_an_agent_that_is_gone_are_not_shown_as_current() {
        let sample = || Sample::of_nothing();
        let mut screen = Screen {
            figures: sample().since(&sample()),
            shown: Shown {
                view: View::Services,
                order: SortOrder::of(View::Services),
                filter: String::new(),
            },
            last: sample(),
            trouble: None,
            typing: None,
            scroll: 0,
            is_stopped: false,
        };
        let mut terminal = Terminal::new(TestBackend::new(40, 5)).unwrap();
        let mut rows = |screen: &mut Screen| {
            let frame = terminal.draw(|frame| screen.draw(frame)).unwrap();
            let text: String = frame.buffer.content().iter().map(Cell::symbol).collect();
            [text[..40].to_owned(), text[160..].to_owned()]
        };
        screen.look(Err("no agent answers".to_owned()));
        let [top, bottom] = rows(&mut screen);
        assert!(top.starts_with("not current: shop 1.0: 0 calls/s"), "{top}");
        assert!(bottom.starts_with("no agent answers "), "{bottom}");
        screen.look(Ok(sample()));
        let [top, bottom] = rows(&mut screen);
        assert!(top.starts_with("shop 1.0: 0 calls/s"), "{top}");
        assert!(bottom.starts_with("Tab view "), "{bottom}");
    }

    #[test]
    fn an_agent_that_hangs_holds_up_no_keys() {
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        let runtime = builder.worker_threads(1).enable_all().build().unwrap();
        let silent = TcpListener::bind("127.0.0.1:0").unwrap();
        let answer = ask(&runtime, &silent.local_addr().unwrap().to_string());
        // It was asked, and has said nothing.
        let _connection = silent.accept().unwrap();
        assert!(matches!(answer.try_recv(), Err(TryRecvError::Empty)));
        runtime.shutdown_background();
    }
}
