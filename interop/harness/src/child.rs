//! A child process that cannot outlive its owner, and whose last output is kept.
//!
//! Invariants:
//! - The child leads its own process group. Dropping [`Child`] kills the whole group.
//! - A small watchdog in that group kills it when this process ends without dropping anything
//!   (a test that is killed, a panic that aborts). It sees that by the end of its input.
//! - The kept output is bounded, however much the child writes.

use std::collections::VecDeque;
use std::io::Read;
use std::process::{ChildStdin, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, kill_process, kill_process_group, waitid,
};

use crate::error::HarnessError;

/// Lines of output kept per child; enough for some Java stack traces with their causes.
const MAX_LINES: usize = 1000;
/// Bytes kept of one line.
const MAX_LINE_LEN: usize = 4096;
/// A child that writes much is not held up by many small reads.
const CHUNK_LEN: usize = 64 * 1024;
/// Lines of output that go into an error.
const TAIL_LINES: usize = 60;
/// How often a wait looks whether the child has ended.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// Runs "$@" as the leader of this group, with a watchdog that kills the group when the pipe on
/// standard input closes. The watchdog keeps the pipe as file 3 because a shell gives background
/// jobs an empty standard input.
const WATCHDOG: &str =
    r#"exec 3<&0; { read -r _ <&3; kill -9 0; } >/dev/null 2>&1 & exec 3<&-; exec "$@""#;

/// A running (or ended) child process with everything it started.
#[derive(Debug)]
pub struct Child {
    name: String,
    process: std::process::Child,
    output: Arc<Output>,
    /// The threads that fill `output`.
    readers: Vec<JoinHandle<()>>,
    /// Whether the group was killed, after which its id may belong to somebody else.
    is_killed: bool,
    /// Held open for as long as the child may live; see [`WATCHDOG`].
    _stdin: Option<ChildStdin>,
}

#[derive(Debug, Default)]
struct Output {
    /// Bytes that were read from both streams, kept or not.
    len: AtomicU64,
    lines: Mutex<VecDeque<Line>>,
    changed: Condvar,
}

#[derive(Debug)]
struct Line {
    is_stdout: bool,
    text: String,
}

impl Child {
    /// Starts `command` in a process group of its own. Its output is captured; its standard
    /// input stays open and empty until this process ends.
    ///
    /// # Errors
    /// When there is no `sh`. A missing program shows as an early end with status 127.
    pub fn spawn(name: &str, command: &Command) -> Result<Self, HarnessError> {
        use std::os::unix::process::CommandExt;

        let mut shell = Command::new("sh");
        shell.args(["-c", WATCHDOG, "sh"]).arg(command.get_program()).args(command.get_args());
        for (key, value) in command.get_envs() {
            match value {
                Some(value) => shell.env(key, value),
                None => shell.env_remove(key),
            };
        }
        if let Some(dir) = command.get_current_dir() {
            shell.current_dir(dir);
        }
        shell.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        let mut process = shell
            .spawn()
            .map_err(|source| HarnessError::Spawn { name: name.to_owned(), source })?;
        let output = Arc::new(Output::default());
        let mut readers = Vec::new();
        if let Some(stdout) = process.stdout.take() {
            readers.push(collect(Arc::clone(&output), stdout, true));
        }
        if let Some(stderr) = process.stderr.take() {
            readers.push(collect(Arc::clone(&output), stderr, false));
        }
        let stdin = process.stdin.take();
        Ok(Self {
            name: name.to_owned(),
            process,
            output,
            readers,
            is_killed: false,
            _stdin: stdin,
        })
    }

    /// The child's process id (of the program itself, not of a wrapper).
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Waits for a line on standard output that begins with `prefix`, and returns that line.
    ///
    /// # Errors
    /// When the child ends first or `timeout` passes; both show the last output.
    pub fn wait_for_line(
        &mut self,
        prefix: &str,
        timeout: Duration,
    ) -> Result<String, HarnessError> {
        let deadline = Instant::now() + timeout;
        loop {
            let ended = self.process.try_wait().ok().flatten();
            if ended.is_some() {
                self.join_readers();
            }
            if let Some(line) = self.output.find(prefix) {
                return Ok(line);
            }
            if let Some(status) = ended {
                return Err(self.ended(status));
            }
            if Instant::now() >= deadline {
                return Err(self.not_ready(timeout));
            }
            self.output.wait_for_more();
        }
    }

    /// Waits until `ready` holds, for as long as the child lives.
    ///
    /// # Errors
    /// When the child ends first or `timeout` passes; both show the last output.
    pub fn wait_ready(
        &mut self,
        timeout: Duration,
        mut ready: impl FnMut() -> bool,
    ) -> Result<(), HarnessError> {
        let deadline = Instant::now() + timeout;
        while !ready() {
            if let Some(status) = self.try_wait() {
                self.join_readers();
                return Err(self.ended(status));
            }
            if Instant::now() >= deadline {
                return Err(self.not_ready(timeout));
            }
            thread::sleep(POLL_INTERVAL);
        }
        Ok(())
    }

    /// How the child ended, or `None` while it runs.
    pub fn try_wait(&mut self) -> Option<ExitStatus> {
        self.process.try_wait().ok().flatten()
    }

    /// Waits for the child to end by itself.
    ///
    /// # Errors
    /// When it still runs after `timeout`.
    pub fn wait(&mut self, timeout: Duration) -> Result<ExitStatus, HarnessError> {
        let deadline = Instant::now() + timeout;
        loop {
            if let Some(status) = self.try_wait() {
                return Ok(status);
            }
            if Instant::now() >= deadline {
                return Err(self.not_ready(timeout));
            }
            thread::sleep(POLL_INTERVAL);
        }
    }

    /// Waits for the child to end by itself with status 0, and returns what it wrote to
    /// standard output (see [`Child::stdout`]).
    ///
    /// # Errors
    /// When it ends otherwise, or still runs after `timeout`.
    pub fn finish(&mut self, timeout: Duration) -> Result<String, HarnessError> {
        let status = self.wait(timeout)?;
        self.join_readers();
        if status.success() { Ok(self.stdout()) } else { Err(self.ended(status)) }
    }

    /// Asks the child to end by SIGTERM and waits for it. A child that does not end is killed.
    ///
    /// # Errors
    /// When it still ran after `timeout`.
    pub fn stop_gracefully(&mut self, timeout: Duration) -> Result<ExitStatus, HarnessError> {
        self.terminate();
        let status = self.wait(timeout);
        self.kill9();
        status
    }

    /// Asks the child to end by SIGTERM, and returns at once.
    pub fn terminate(&mut self) {
        self.signal(Signal::TERM);
    }

    /// Kills the whole group by SIGKILL and waits until the child is gone.
    pub fn kill9(&mut self) {
        if !self.is_killed
            && let Some(group) = self.group()
        {
            let _ = kill_process_group(group, Signal::KILL);
        }
        let _ = self.process.wait();
        self.is_killed = true;
    }

    /// Stops the child's clock by SIGSTOP: its sockets stay open, and nothing answers on them.
    /// Returns when its last thread stands still, which is a while after the signal.
    pub fn suspend(&mut self) {
        self.signal(Signal::STOP);
        while self.try_wait().is_none() && !self.is_suspended() {
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// Whether every thread of the child is stopped. The kernel is asked to keep the answer, so
    /// that it is the same the next time.
    fn is_suspended(&self) -> bool {
        let wanted = WaitIdOptions::STOPPED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        // Without such a child there is nothing to wait for.
        self.group().is_none_or(|pid| !matches!(waitid(WaitId::Pid(pid), wanted), Ok(None)))
    }

    /// Lets a suspended child go on.
    pub fn resume(&mut self) {
        self.signal(Signal::CONT);
    }

    /// The last 60 lines that the child wrote to either stream.
    #[must_use]
    pub fn tail(&self) -> String {
        self.output.last_lines(TAIL_LINES, |_| true)
    }

    /// The last 1000 lines less those that the child wrote to standard error.
    #[must_use]
    pub fn stdout(&self) -> String {
        self.output.last_lines(MAX_LINES, |line| line.is_stdout)
    }

    /// How many bytes the child has written to both streams together.
    #[must_use]
    pub fn output_len(&self) -> u64 {
        self.output.len.load(Ordering::Relaxed)
    }

    /// Signals the child alone, never its watchdog.
    fn signal(&mut self, signal: Signal) {
        if self.try_wait().is_none()
            && let Some(pid) = self.group()
        {
            let _ = kill_process(pid, signal);
        }
    }

    /// The id of the child and of its group. The watchdog keeps the group, and so the id, alive
    /// until the group is killed.
    fn group(&self) -> Option<Pid> {
        i32::try_from(self.process.id()).ok().and_then(Pid::from_raw)
    }

    /// Waits, once the child has ended, for the rest of its output. A grandchild that still holds
    /// the pipes is killed for that.
    fn join_readers(&mut self) {
        self.kill9();
        for reader in self.readers.drain(..) {
            let _ = reader.join();
        }
    }

    fn ended(&self, status: ExitStatus) -> HarnessError {
        HarnessError::Ended {
            name: self.name.clone(),
            status: status.to_string(),
            tail: self.tail(),
        }
    }

    fn not_ready(&self, waited: Duration) -> HarnessError {
        HarnessError::NotReady { name: self.name.clone(), waited, tail: self.tail() }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        self.kill9();
    }
}

impl Output {
    fn lock(&self) -> MutexGuard<'_, VecDeque<Line>> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, is_stdout: bool, bytes: &[u8]) {
        let mut lines = self.lock();
        if lines.len() == MAX_LINES {
            lines.pop_front();
        }
        lines.push_back(Line { is_stdout, text: String::from_utf8_lossy(bytes).into_owned() });
        self.changed.notify_all();
    }

    fn find(&self, prefix: &str) -> Option<String> {
        let lines = self.lock();
        let found = lines.iter().find(|line| line.is_stdout && line.text.starts_with(prefix));
        found.map(|line| line.text.clone())
    }

    fn last_lines(&self, n_lines: usize, wanted: impl Fn(&Line) -> bool) -> String {
        let lines = self.lock();
        let skip = lines.len().saturating_sub(n_lines);
        let wanted = lines.iter().skip(skip).filter(|line| wanted(line));
        wanted.fold(String::new(), |text, line| text + &line.text + "\n")
    }

    fn wait_for_more(&self) {
        let lines = self.lock();
        let _ = self.changed.wait_timeout(lines, POLL_INTERVAL);
    }
}

/// Reads `stream` to its end on a thread of its own, so that the child never blocks on a full
/// pipe.
fn collect(
    output: Arc<Output>,
    mut stream: impl Read + Send + 'static,
    is_stdout: bool,
) -> JoinHandle<()> {
    thread::spawn(move || {
        let mut line = Vec::new();
        let mut chunk = vec![0; CHUNK_LEN];
        while let Ok(len @ 1..) = stream.read(&mut chunk) {
            output.len.fetch_add(u64::try_from(len).unwrap_or(0), Ordering::Relaxed);
            for piece in chunk[..len].split_inclusive(|byte| *byte == b'\n') {
                let (text, is_whole) = match piece.split_last() {
                    Some((b'\n', text)) => (text, true),
                    _ => (piece, false),
                };
                line.extend_from_slice(&text[..text.len().min(MAX_LINE_LEN - line.len())]);
                if is_whole {
                    output.push(is_stdout, &line);
                    line.clear();
                }
            }
        }
        if !line.is_empty() {
            output.push(is_stdout, &line);
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn finds_the_ready_line() {
        let script = "echo warming up; echo READY 7; sleep 60";
        let mut child = Child::spawn("a script", &shell(script)).unwrap();
        let line = child.wait_for_line("READY ", Duration::from_secs(10)).unwrap();
        assert_eq!(line, "READY 7");
    }

    #[test]
    fn an_early_end_shows_the_last_output() {
        let mut child = Child::spawn("a script", &shell("echo no luck >&2; exit 3")).unwrap();
        let error = child.wait_for_line("READY", Duration::from_secs(10)).unwrap_err();
        let text = error.to_string();
        assert!(text.contains("exit status: 3") && text.contains("no luck"), "{text}");
    }

    #[test]
    fn long_lines_are_cut_and_all_bytes_are_counted() {
        let script = "head -c 100000 /dev/zero | tr '\\0' x; echo; echo short";
        let mut child = Child::spawn("a script", &shell(script)).unwrap();
        let text = child.finish(Duration::from_secs(10)).unwrap();
        let lines: Vec<usize> = text.lines().map(str::len).collect();
        assert_eq!((lines, child.output_len()), (vec![MAX_LINE_LEN, 5], 100_007));
    }

    #[test]
    fn grandchildren_die_with_the_child() {
        let script = "sleep 60 & echo PID $!; wait";
        let mut child = Child::spawn("a script", &shell(script)).unwrap();
        let line = child.wait_for_line("PID ", Duration::from_secs(10)).unwrap();
        let grandchild = line["PID ".len()..].to_owned();
        drop(child);
        wait_until_gone(&grandchild);
    }

    #[test]
    fn dies_with_its_owner_when_nothing_is_dropped() {
        let mut child = Child::spawn("a script", &shell("echo READY; sleep 60")).unwrap();
        let _ = child.wait_for_line("READY", Duration::from_secs(10)).unwrap();
        // What the kernel does to the pipe when the owner is killed.
        drop(child._stdin.take());
        let status = child.wait(Duration::from_secs(10)).unwrap();
        assert!(!status.success(), "{status}");
    }

    #[test]
    fn a_suspended_child_can_be_resumed_and_stopped() {
        let script = "trap 'echo bye; exit 0' TERM; echo READY; while :; do sleep 0.01; done";
        let mut child = Child::spawn("a script", &shell(script)).unwrap();
        let _ = child.wait_for_line("READY", Duration::from_secs(10)).unwrap();
        let stat = format!("/proc/{}/stat", child.pid());
        let is_stopped = || std::fs::read_to_string(&stat).unwrap().contains(") T ");
        for _ in 0..2 {
            child.suspend();
            assert!(is_stopped());
        }
        child.resume();
        crate::wait_until("its going on", Duration::from_secs(10), || !is_stopped());
        child.suspend();
        assert!(is_stopped());
        child.resume();
        let status = child.stop_gracefully(Duration::from_secs(10)).unwrap();
        assert!(status.success(), "{status}");
    }

    fn wait_until_gone(pid: &str) {
        let stat = format!("/proc/{pid}/stat");
        crate::wait_until("the grandchild's end", Duration::from_secs(10), || {
            std::fs::read_to_string(&stat).map_or(true, |stat| stat.contains(") Z "))
        });
    }
}
