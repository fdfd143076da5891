//! The whole protocol without its sockets: a hand-out answers callers on several threads, answers
//! get lost, the server forgets everything, the client is killed. The output is right every time.

use std::future::poll_fn;
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Wake};
use std::thread::Thread;

use proptest::prelude::*;
use transfer::generate::generate;
use transfer::verify::verify;
use transfer::{
    HandOut, Handed, LineEnds, LineRequest, LineStep, OutputOptions, Reader, Source, Subject,
    Totals, TransferError, Writer, WriterOptions, totals_before,
};

const THREADS: u32 = 3;
const CALLERS: u32 = 20;

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

/// Where processing is done.
#[derive(Clone, Copy, Debug)]
struct Sides {
    server: LineStep,
    client: LineStep,
}

/// What goes wrong, and when: after so many answers the server, or the client, is gone.
#[derive(Clone, Copy, Debug)]
enum Accident {
    Server { after: u64 },
    Client { after: u64 },
}

/// Lets all callers work until `limit` answers have come. Every seventh answer is lost and asked
/// for again. Returns whether the end was reached.
fn work(hand_out: &HandOut, writer: &Writer, step: LineStep, limit: u64) -> bool {
    let answers = AtomicU64::new(0);
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| {
                let mut sender = writer.sender(step.process());
                let mut reader = Reader::new(Arc::clone(hand_out.source()));
                let answers = &answers;
                scope.spawn(move || {
                    for turn in 1.. {
                        let mut ended = 0;
                        for caller in thread * CALLERS..(thread + 1) * CALLERS {
                            let n = answers.fetch_add(1, Ordering::Relaxed);
                            if limit <= n {
                                return false;
                            }
                            let ask = LineRequest { caller, turn };
                            if n.is_multiple_of(7) {
                                let _lost = hand_out.answer(ask, &mut reader).unwrap();
                            }
                            match hand_out.answer(ask, &mut reader).unwrap() {
                                Handed::End { .. } => ended += 1,
                                Handed::Line { number, line } => {
                                    block_on(poll_fn(|cx| sender.poll_room(number, cx))).unwrap();
                                    sender.push(number, line);
                                }
                            }
                        }
                        sender.flush();
                        if ended == CALLERS {
                            return true;
                        }
                    }
                    unreachable!("turns do not end")
                })
            })
            .collect();
        threads.into_iter().all(|thread| thread.join().unwrap())
    })
}

/// One transfer with its accidents, in order; after them it is left alone.
fn transfer(
    source: &Path,
    output: &Path,
    sides: Sides,
    accidents: &[Accident],
) -> Result<(), TransferError> {
    let open_source = || Source::open(source);
    let open_writer = || {
        let options =
            OutputOptions { resume: true, sync: false, ..OutputOptions::new(output.to_owned()) };
        let subject = Subject { source: open_source()?.identity(), step: format!("{sides:?}") };
        // No room to spare: callers have to wait for each other.
        Writer::open(options, subject, WriterOptions { window: 128, budget: 4096 })
    };
    let server = sides.server.process();
    let mut writer = open_writer()?;
    let mut accidents = accidents.iter();
    loop {
        let base = writer.totals();
        let hand_out = HandOut::new(open_source()?, server, base.lines, THREADS * CALLERS)?;
        let accident = accidents.next();
        let limit = match accident {
            None => u64::MAX,
            Some(Accident::Server { after } | Accident::Client { after }) => *after,
        };
        if work(&hand_out, &writer, sides.client, limit) {
            assert_eq!(base, totals_before(&open_source()?, server, base.lines)?);
            let written = writer.finish(base.plus(hand_out.totals()))?;
            assert_eq!(
                written.totals,
                totals_before(&open_source()?, server, written.totals.lines)?
            );
            return Ok(());
        }
        if let Some(Accident::Client { .. }) = accident {
            writer.leave()?;
            writer = open_writer()?;
        }
    }
}

fn any_accident() -> impl Strategy<Value = Accident> {
    (any::<bool>(), 0..8_000u64).prop_map(|(server, after)| match server {
        true => Accident::Server { after },
        false => Accident::Client { after },
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn whatever_happens_the_output_is_right(
        len in 0..2_000_000u64,
        seed: u64,
        on_server: bool,
        accidents in proptest::collection::vec(any_accident(), 0..5),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let [source, output] = ["source", "output"].map(|name| folder.path().join(name));
        generate(&source, len, seed, false, &mut |_| {}).unwrap();
        let sides = match on_server {
            true => Sides { server: LineStep::Contest, client: LineStep::Unchanged },
            false => Sides { server: LineStep::Unchanged, client: LineStep::Contest },
        };
        transfer(&source, &output, sides, &accidents).unwrap();
        verify(&source, &output, LineEnds::Crlf, LineStep::Contest.process(), &mut |_| {}).unwrap();
        prop_assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2);
    }
}

/// A server that hands out something else than it said in the end is found out.
#[test]
fn a_wrong_line_does_not_go_unnoticed() {
    let folder = tempfile::tempdir().unwrap();
    let [source, output] = ["source", "output"].map(|name| folder.path().join(name));
    generate(&source, 100_000, 1, false, &mut |_| {}).unwrap();
    let lines = Source::open(&source).unwrap();
    let subject = Subject { source: lines.identity(), step: "none".to_owned() };
    let writer =
        Writer::open(OutputOptions::new(output.clone()), subject, WriterOptions::default())
            .unwrap();
    let hand_out =
        HandOut::new(lines, LineStep::Unchanged.process(), 0, THREADS * CALLERS).unwrap();
    assert!(work(&hand_out, &writer, LineStep::Unchanged, u64::MAX));
    let Totals { lines, bytes, sum } = hand_out.totals();
    let error = writer.finish(Totals { lines, bytes, sum: sum ^ 1 }).unwrap_err();
    assert!(matches!(error, TransferError::Incomplete { .. }), "{error}");
    assert!(!output.exists());
}
