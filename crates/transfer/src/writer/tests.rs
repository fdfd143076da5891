use std::future::poll_fn;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::task::Wake;
use std::thread::Thread;

use proptest::prelude::*;

use super::*;
use crate::SourceIdentity;
use crate::checkpoint::Checkpoint;
use crate::checksum::SentLine;
use crate::line_step::{Contest, Unchanged};
use crate::lines::LineEnds;

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    let waker = Arc::new(Unpark(std::thread::current())).into();
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(value) => return value,
            Poll::Pending => std::thread::park(),
        }
    }
}

struct OutputFolder(tempfile::TempDir);

impl OutputFolder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap()
    }

    fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.0.path()).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    fn options(&self) -> OutputOptions {
        OutputOptions::new(self.path("out"))
    }

    fn open(&self, options: OutputOptions) -> Result<Writer, TransferError> {
        Writer::open(options, subject("none"), WriterOptions::default())
    }

    fn resume(&self) -> Result<Writer, TransferError> {
        self.open(OutputOptions { resume: true, ..self.options() })
    }
}

fn subject(step: &str) -> Subject {
    Subject {
        source: SourceIdentity { len: 9, modified_ns: 5, ends: LineEnds::Crlf },
        step: step.to_owned(),
    }
}

fn line(number: u64) -> String {
    format!("{}\r\n", "x".repeat(usize::try_from(number % 50).unwrap()))
}

fn totals_of(numbers: impl Iterator<Item = u64>) -> Totals {
    let mut totals = Totals::default();
    numbers.for_each(|number| totals.add(SentLine::of(number, line(number).as_bytes())));
    totals
}

fn text_of(numbers: std::ops::Range<u64>) -> String {
    numbers.map(line).collect()
}

fn push(sender: &mut LineSender, number: u64) -> Result<(), TransferError> {
    block_on(poll_fn(|cx| sender.poll_room(number, cx)))?;
    sender.push(number, line(number).as_bytes());
    Ok(())
}

#[test]
fn a_whole_output_gets_its_name() {
    let folder = OutputFolder::new();
    let writer = folder.open(folder.options()).unwrap();
    let mut sender = writer.sender(&Unchanged);
    for number in (0..1000).rev() {
        push(&mut sender, number).unwrap();
    }
    push(&mut sender, 7).unwrap();
    drop(sender);
    // The journal is there first, so that the file is known to be a transfer's own.
    assert_eq!(folder.names(), ["out.partial", "out.partial.journal"]);
    let written = writer.finish(totals_of(0..1000)).unwrap();
    assert_eq!((written.totals, written.duplicates), (totals_of(0..1000), 1));
    assert_eq!(folder.read("out"), text_of(0..1000));
    assert_eq!(written.len, text_of(0..1000).len() as u64);
    assert_eq!(folder.names(), ["out"]);
}

#[test]
fn an_empty_output_is_whole_too() {
    let folder = OutputFolder::new();
    folder.open(folder.options()).unwrap().finish(Totals::default()).unwrap();
    assert_eq!(folder.read("out"), "");
}

#[test]
fn what_differs_stays_partial() {
    for (expected, what) in [
        (totals_of(0..11), "the number of lines is 10, the server says 11"),
        (Totals { bytes: 1, ..totals_of(0..10) }, "the length of the lines as sent is "),
        (Totals { sum: 1, ..totals_of(0..10) }, "the checksum of the lines is "),
    ] {
        let folder = OutputFolder::new();
        let writer = folder.open(folder.options()).unwrap();
        let mut sender = writer.sender(&Unchanged);
        (0..10).for_each(|number| push(&mut sender, number).unwrap());
        sender.flush();
        let error = writer.finish(expected).unwrap_err();
        assert!(error.to_string().starts_with(what), "{error}");
        assert_eq!(folder.names(), ["out.partial", "out.partial.journal"]);
    }
}

#[test]
fn files_that_exist_are_kept() {
    let folder = OutputFolder::new();
    std::fs::write(folder.path("out"), "old").unwrap();
    let error = folder.open(folder.options()).unwrap_err();
    assert!(matches!(error, TransferError::OutputExists { .. }), "{error}");
    let writer = folder.open(OutputOptions { force: true, ..folder.options() }).unwrap();
    let error = folder.open(OutputOptions { force: true, ..folder.options() }).unwrap_err();
    assert!(matches!(error, TransferError::OutputBusy { .. }), "{error}");
    assert_eq!(folder.read("out"), "old");
    writer.finish(Totals::default()).unwrap();
    assert_eq!(folder.read("out"), "");

    std::fs::remove_file(folder.path("out")).unwrap();
    std::fs::write(folder.path("out.partial"), "old").unwrap();
    let error = folder.open(folder.options()).unwrap_err();
    assert!(matches!(error, TransferError::PartialExists { .. }), "{error}");
    let error = Writer::open(
        OutputOptions::new(folder.path("none/out")),
        subject("none"),
        WriterOptions::default(),
    );
    assert!(error.unwrap_err().to_string().starts_with("cannot create "));
}

#[test]
fn a_transfer_is_resumed() {
    let folder = OutputFolder::new();
    let writer = folder.resume().unwrap(); // there is nothing to resume yet
    let mut sender = writer.sender(&Unchanged);
    for number in (0..500).chain(501..700) {
        push(&mut sender, number).unwrap();
    }
    drop(sender);
    writer.leave().unwrap();
    assert_eq!(folder.read("out.partial"), text_of(0..500));

    // Bytes that the journal does not vouch for are dropped.
    std::fs::write(folder.path("out.partial"), text_of(0..510)).unwrap();
    let writer = folder.resume().unwrap();
    assert_eq!(writer.totals(), totals_of(0..500));
    let mut sender = writer.sender(&Unchanged);
    for number in 490..1000 {
        push(&mut sender, number).unwrap();
    }
    drop(sender);
    writer.finish(totals_of(0..500).plus(totals_of(500..1000))).unwrap();
    assert_eq!(folder.read("out"), text_of(0..1000));
    assert_eq!(folder.names(), ["out"]);
}

#[test]
fn only_the_same_transfer_is_resumed() {
    let folder = OutputFolder::new();
    let writer = folder.open(folder.options()).unwrap();
    let mut sender = writer.sender(&Unchanged);
    (0..500).for_each(|number| push(&mut sender, number).unwrap());
    drop(sender);
    writer.leave().unwrap();
    let resume = |subject| {
        let options = OutputOptions { resume: true, ..folder.options() };
        Writer::open(options, subject, WriterOptions::default()).unwrap_err()
    };
    let error = resume(subject("contest"));
    assert!(
        error.to_string().contains("the processing step none, but now it is contest"),
        "{error}"
    );
    let (source, ends) = (subject("none").source, LineEnds::Lf);
    let error = resume(Subject { source: SourceIdentity { ends, ..source }, ..subject("none") });
    assert!(error.to_string().ends_with("--lines lf; start over with --force"), "{error}");
    let source = SourceIdentity { len: 10, ..source };
    let error = resume(Subject { source, ..subject("none") });
    assert!(matches!(error, TransferError::OtherTransfer { what: "a source", .. }), "{error}");

    let mut bytes = std::fs::read(folder.path("out.partial")).unwrap();
    bytes[77] ^= 1;
    std::fs::write(folder.path("out.partial"), &bytes).unwrap();
    assert!(matches!(resume(subject("none")), TransferError::PartialDamaged { .. }));
    std::fs::write(folder.path("out.partial"), &bytes[..77]).unwrap();
    assert!(matches!(resume(subject("none")), TransferError::PartialDamaged { .. }));
    std::fs::write(folder.path("out.partial.journal"), "nonsense").unwrap();
    assert!(matches!(resume(subject("none")), TransferError::BadJournal { .. }));
}

/// What has bytes and no journal may be somebody's file; killed before the first byte, a transfer
/// begins again.
#[test]
fn a_file_that_is_not_ours_is_kept() {
    let folder = OutputFolder::new();
    std::fs::write(folder.path("out.partial"), "precious").unwrap();
    let error = folder.resume().unwrap_err();
    assert!(error.to_string().contains("it is missing; start over with --force"), "{error}");
    assert_eq!(folder.read("out.partial"), "precious");

    std::fs::remove_file(folder.path("out.partial")).unwrap();
    std::fs::write(folder.path("precious"), "precious").unwrap();
    std::os::unix::fs::symlink(folder.path("precious"), folder.path("out.partial")).unwrap();
    for options in [
        OutputOptions { resume: true, ..folder.options() },
        OutputOptions { force: true, ..folder.options() },
    ] {
        let error = folder.open(options).unwrap_err();
        assert!(matches!(error, TransferError::NotAFile { .. }), "{error}");
        assert_eq!(folder.read("precious"), "precious");
    }

    std::fs::remove_file(folder.path("out.partial")).unwrap();
    let writer = folder.open(folder.options()).unwrap();
    assert_eq!(folder.names(), ["out.partial", "out.partial.journal", "precious"]);
    let killed = OutputFolder::new();
    std::fs::copy(folder.path("out.partial.journal"), killed.path("out.partial.journal")).unwrap();
    std::fs::write(killed.path("out.partial"), text_of(0..3)).unwrap();
    assert_eq!(killed.resume().unwrap().totals().lines, 0);
    drop(writer);
    assert_eq!(folder.names(), ["precious"]);
}

/// A server on this machine may serve the output, or the file in its partial place.
#[test]
fn a_file_that_is_served_is_kept() {
    for name in ["out", "out.partial"] {
        let folder = OutputFolder::new();
        std::fs::write(folder.path(name), "a\r\n").unwrap();
        let source = crate::Source::open(&folder.path(name)).unwrap().identity();
        let subject = Subject { source, ..subject("none") };
        let options = OutputOptions { force: true, ..folder.options() };
        let error = Writer::open(options, subject, WriterOptions::default()).unwrap_err();
        assert!(matches!(error, TransferError::OutputIsServed { .. }), "{error}");
        assert_eq!((folder.names(), folder.read(name)), (vec![name.to_owned()], "a\r\n".into()));
    }
}

#[test]
fn a_complete_output_leaves_nothing_to_resume() {
    let folder = OutputFolder::new();
    folder.resume().unwrap().finish(Totals::default()).unwrap();
    let error = folder.resume().unwrap_err();
    assert!(matches!(error, TransferError::NothingToResume { .. }), "{error}");
    std::fs::write(folder.path("out.partial"), "").unwrap();
    let error = folder.resume().unwrap_err();
    assert!(matches!(error, TransferError::OutputExists { .. }), "{error}");
}

/// Progress is recorded while the transfer goes on: what a killed process leaves can be resumed.
#[test]
fn progress_is_on_the_disk_before_the_end() {
    let folder = OutputFolder::new();
    let options = OutputOptions { checkpoint: Some(Duration::ZERO), ..folder.options() };
    let writer = folder.open(options).unwrap();
    let mut sender = writer.sender(&Unchanged);
    let journal = folder.path("out.partial.journal");
    let mut number = 0;
    // The first journal vouches for nothing.
    while Checkpoint::load(&journal).unwrap().unwrap().totals.lines == 0 {
        push(&mut sender, number).unwrap();
        number += 1;
    }
    // As if killed: the copies are what is found after it.
    let killed = OutputFolder::new();
    for name in ["out.partial.journal", "out.partial"] {
        std::fs::copy(folder.path(name), killed.path(name)).unwrap();
    }
    let resumed = killed.resume().unwrap();
    let lines = resumed.totals().lines;
    assert!(0 < lines && lines <= number);
    assert_eq!(resumed.totals(), totals_of(0..lines));
}

#[test]
fn a_full_disk_ends_the_transfer_and_wakes_those_who_wait() {
    let folder = OutputFolder::new();
    let (output, totals) = Output::open(folder.options(), subject("none")).unwrap();
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let small = WriterOptions { window: 1 << 14, budget: 1 << 20 };
    let writer = Writer::start(output.onto(full), totals, LineEnds::Crlf, small).unwrap();
    let mut sender = writer.sender(&Unchanged);
    let mut waits = writer.sender(&Unchanged);
    let error = std::thread::scope(|scope| {
        let waiter = scope.spawn(|| push(&mut waits, 10_000_000).unwrap_err());
        let error = (0..).find_map(|number| push(&mut sender, number).err()).unwrap();
        assert_eq!(waiter.join().unwrap().to_string(), error.to_string());
        error
    });
    assert!(error.to_string().contains("No space left on device"), "{error}");
    assert_eq!(writer.failure().unwrap().to_string(), error.to_string());
    drop((sender, waits));
    assert_eq!(writer.finish(Totals::default()).unwrap_err().to_string(), error.to_string());
    assert!(!Path::new(&folder.path("out")).exists());
}

/// Four senders that each have every fourth line, run far apart, with little room: they wait for
/// each other, never for ever, and the memory held stays bounded.
#[test]
fn lanes_wait_for_the_oldest_line() {
    const COUNT: u64 = 100_000;
    for small in [
        WriterOptions { window: 64, budget: 1 << 20 },
        WriterOptions { window: 1 << 16, budget: 200 },
        WriterOptions { window: 1, budget: 1 },
    ] {
        let count = if small.window == 1 { 1000 } else { COUNT };
        let folder = OutputFolder::new();
        let options = OutputOptions { sync: false, ..folder.options() };
        let writer = Writer::open(options, subject("contest"), small).unwrap();
        std::thread::scope(|scope| {
            for first in 0..4 {
                let mut sender = writer.sender(&Contest);
                scope.spawn(move || {
                    for number in (first..count).step_by(4) {
                        push(&mut sender, number).unwrap();
                    }
                });
            }
        });
        writer.finish(totals_of(0..count)).unwrap();
        let mut expected = String::new();
        for number in 0..count {
            let len = usize::try_from(number % 50).unwrap();
            expected += &format!("{number}{}\r\n", "x".repeat(len - len / 3));
        }
        assert!(folder.read("out") == expected);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]
    /// However often a transfer is broken off and resumed, the output is the same.
    #[test]
    fn any_number_of_resumptions(pieces in proptest::collection::vec(0..300u64, 1..6)) {
        let folder = OutputFolder::new();
        let fast = OutputOptions { resume: true, sync: false, ..folder.options() };
        let mut end = 0;
        for piece in pieces {
            let writer = folder.open(fast.clone()).unwrap();
            prop_assert_eq!(writer.totals(), totals_of(0..end));
            let mut sender = writer.sender(&Unchanged);
            for number in end..end + piece {
                push(&mut sender, number).unwrap();
            }
            push(&mut sender, end + piece + 3).unwrap(); // lost: it is not in order
            drop(sender);
            writer.leave().unwrap();
            end += piece;
        }
        let writer = folder.open(fast).unwrap();
        writer.finish(totals_of(0..end)).unwrap();
        prop_assert_eq!(folder.read("out"), text_of(0..end));
    }
}
