use std::io::Write;
use std::sync::Barrier;

use proptest::prelude::*;

use super::*;
use crate::checksum::SentLine;
use crate::line_step::{Contest, Unchanged};

struct File {
    _file: tempfile::NamedTempFile,
    source: Arc<Source>,
    lines: Vec<String>,
}

fn file_of(count: u64) -> File {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    let lines: Vec<_> = (0..count).map(|number| format!("this is {number}\r\n")).collect();
    file.write_all(lines.concat().as_bytes()).unwrap();
    let source = Source::open(file.path()).unwrap();
    File { _file: file, source, lines }
}

fn totals_of(lines: &[String], first: usize) -> Totals {
    let mut totals = Totals::default();
    for (number, line) in lines.iter().enumerate().skip(first) {
        totals.add(SentLine::of(number as u64, line.as_bytes()));
    }
    totals
}

fn number_of(answer: Result<Handed<'_>, TransferError>) -> Option<u64> {
    match answer.unwrap() {
        Handed::Line { number, .. } => Some(number),
        Handed::End { .. } => None,
    }
}

#[test]
fn one_caller_gets_all_lines_in_order() {
    let file = file_of(30_000);
    let hand_out = HandOut::new(Arc::clone(&file.source), &Unchanged, 0, 1).unwrap();
    let mut reader = Reader::new(Arc::clone(&file.source));
    for (number, expected) in (0..).zip(&file.lines) {
        let answer =
            hand_out.answer(LineRequest { caller: 0, turn: number + 1 }, &mut reader).unwrap();
        assert_eq!(answer, Handed::Line { number, line: expected.as_bytes() });
    }
    let end = hand_out.answer(LineRequest { caller: 0, turn: 30_001 }, &mut reader).unwrap();
    assert_eq!(end, Handed::End { count: 30_000 });
    assert_eq!(hand_out.totals(), totals_of(&file.lines, 0));
}

#[test]
fn asking_again_brings_the_same_line() {
    let file = file_of(10);
    let hand_out = HandOut::new(Arc::clone(&file.source), &Contest, 4, 2).unwrap();
    let mut reader = Reader::new(Arc::clone(&file.source));
    let mut ask =
        |caller, turn| number_of(hand_out.answer(LineRequest { caller, turn }, &mut reader));
    assert_eq!(ask(0, 1), Some(4));
    assert_eq!(ask(1, 1), Some(5));
    assert_eq!(ask(0, 1), Some(4));
    assert_eq!(ask(0, 2), Some(6));
    assert_eq!(ask(1, 1), Some(5));
    assert_eq!(
        (3..9).map(|turn| ask(0, turn)).collect::<Vec<_>>(),
        [Some(7), Some(8), Some(9), None, None, None]
    );
    assert_eq!(ask(0, 8), None);
    assert_eq!(ask(1, 2), None);
    assert_eq!(hand_out.totals().lines, 6);
}

#[test]
fn wrong_requests_are_refused() {
    let file = file_of(10);
    let source = || Arc::clone(&file.source);
    let hand_out = HandOut::new(source(), &Unchanged, 0, 2).unwrap();
    let mut reader = Reader::new(source());
    let mut refused =
        |caller, turn| hand_out.answer(LineRequest { caller, turn }, &mut reader).unwrap_err();
    assert!(matches!(refused(2, 1), TransferError::UnknownCaller { callers: 2, .. }));
    assert!(matches!(refused(0, 0), TransferError::OutOfTurn { last: 0, .. }));
    assert!(matches!(refused(0, 2), TransferError::OutOfTurn { last: 0, .. }));
    assert!(matches!(refused(0, u64::MAX), TransferError::OutOfTurn { last: 0, .. }));

    let error = HandOut::new(source(), &Unchanged, 11, 1).unwrap_err();
    assert!(matches!(error, TransferError::NoSuchLine { count: 10, .. }));
    let error = HandOut::new(source(), &Unchanged, 0, MAX_CALLERS + 1).unwrap_err();
    assert!(matches!(error, TransferError::TooManyCallers { .. }));
    let nothing_left = HandOut::new(source(), &Unchanged, 10, 1).unwrap();
    let mut reader = Reader::new(source());
    assert_eq!(
        number_of(nothing_left.answer(LineRequest { caller: 0, turn: 1 }, &mut reader)),
        None
    );
    assert_eq!(nothing_left.totals(), Totals::default());
}

#[test]
fn a_source_that_changes_ends_the_transfer() {
    let file = file_of(50_000);
    let hand_out = HandOut::new(Arc::clone(&file.source), &Unchanged, 0, 1).unwrap();
    let mut reader = Reader::new(Arc::clone(&file.source));
    file._file.as_file().set_len(5).unwrap();
    let failed =
        (1..).find_map(|turn| hand_out.answer(LineRequest { caller: 0, turn }, &mut reader).err());
    assert!(matches!(failed, Some(TransferError::SourceChanged { .. })), "{failed:?}");
    let again = hand_out.answer(LineRequest { caller: 0, turn: 1 }, &mut reader).unwrap_err();
    assert!(matches!(again, TransferError::SourceChanged { .. }), "{again:?}");
}

#[test]
fn totals_of_an_earlier_transfer() {
    let file = file_of(20_000);
    let before = totals_before(&file.source, &Unchanged, 15_000).unwrap();
    assert_eq!(before, totals_of(&file.lines[..15_000], 0));
    assert_eq!(before.plus(totals_of(&file.lines, 15_000)), totals_of(&file.lines, 0));
    let error = totals_before(&file.source, &Unchanged, 20_001).unwrap_err();
    assert!(matches!(error, TransferError::NoSuchLine { count: 20_000, .. }));
}

/// Four threads with callers of their own, some of whose answers get lost: every line arrives
/// once.
#[test]
fn many_threads_get_every_line_once() {
    const CALLERS: u32 = 25;
    let file = file_of(100_000);
    let hand_out = HandOut::new(Arc::clone(&file.source), &Unchanged, 100, 4 * CALLERS).unwrap();
    let start = Barrier::new(4);
    let work = |thread: u32| {
        let mut reader = Reader::new(Arc::clone(&file.source));
        let (mut seen, mut asked) = (Vec::new(), 0u32);
        start.wait();
        for turn in 1.. {
            let before = seen.len();
            for caller in thread * CALLERS..(thread + 1) * CALLERS {
                asked += 1;
                let ask = LineRequest { caller, turn };
                if asked % 7 == 0 {
                    let _lost = hand_out.answer(ask, &mut reader).unwrap();
                }
                seen.extend(number_of(hand_out.answer(ask, &mut reader)));
            }
            if seen.len() == before {
                break;
            }
        }
        seen
    };
    let mut seen: Vec<u64> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|thread| scope.spawn(move || work(thread))).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    seen.sort_unstable();
    assert_eq!(seen, (100..100_000).collect::<Vec<_>>());
    assert_eq!(hand_out.totals(), totals_of(&file.lines, 100));
}

/// Two threads send the same requests, as after a connection that was given up too early: they get
/// the same answers, or one is told to ask again.
#[test]
fn the_same_request_twice_at_once() {
    let file = file_of(20_000);
    let hand_out = HandOut::new(Arc::clone(&file.source), &Unchanged, 0, 1).unwrap();
    let work = || {
        let mut reader = Reader::new(Arc::clone(&file.source));
        let mut turn = 1;
        while turn < 20_000 {
            match hand_out.answer(LineRequest { caller: 0, turn }, &mut reader) {
                Ok(Handed::Line { number, .. }) => {
                    assert_eq!(number, turn - 1);
                    turn += 1;
                }
                Ok(Handed::End { .. }) => panic!("no end before the last line"),
                Err(TransferError::BeingAnswered { .. }) => std::hint::spin_loop(),
                Err(TransferError::OutOfTurn { last, .. }) => turn = last + 1,
                Err(error) => panic!("{error}"),
            }
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(work);
        scope.spawn(work);
    });
    assert_eq!(hand_out.totals().bytes, totals_of(&file.lines[..19_999], 0).bytes);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    /// Whatever callers do, in any order: every answer is the next line or the caller's last one.
    #[test]
    fn any_requests(asks in proptest::collection::vec((0..3u32, 0..5u64), 0..200), first in 0..40usize) {
        let file = file_of(40);
        let hand_out = HandOut::new(Arc::clone(&file.source), &Unchanged, first as u64, 3).unwrap();
        let mut reader = Reader::new(Arc::clone(&file.source));
        let mut last = [(0, None); 3];
        let mut next = first;
        for (caller, ahead) in asks {
            let (turn, line) = &mut last[caller as usize];
            let asked = (*turn + ahead).saturating_sub(1);
            let answer = hand_out.answer(LineRequest { caller, turn: asked }, &mut reader);
            if asked == *turn && asked != 0 {
                prop_assert_eq!(number_of(answer), *line);
            } else if asked == *turn + 1 {
                *turn += 1;
                *line = (next < 40).then_some(next as u64);
                next += 1;
                prop_assert_eq!(number_of(answer), *line);
            } else {
                prop_assert!(answer.is_err());
            }
        }
        prop_assert_eq!(hand_out.totals(), totals_of(&file.lines[..next.min(40)], first));
    }
}
