//! How long the JSON of a message may become, where it is written, and who pays for it.
//!
//! References make JSON of any length out of a short message: a list of lists that refer to each
//! other names a value of 1 kB many thousand times in 1 kB. So the length of a message says
//! nothing, and what counts is the text while it grows.
//!
//! Invariants:
//! - In place, which is on an event loop, no text grows beyond [`IN_PLACE_LEN`] by references.
//! - What becomes longer is written by one of the [`Threads`], and draws from the budget while it
//!   grows.
//! - A text that would be longer than it may ever become is a final error. One for which there is
//!   no memory just now is not, where nothing has been done for it yet.

use std::borrow::Cow;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use hessian::transcode::{JsonOptions, OutRoom, TextRoom};
use wire::{Account, Growth, OverBudget};

use crate::error::{CallError, Code};
use crate::offload::{LONG_LEN, Threads};

/// Texts up to this length are written in place: that takes a fraction of a millisecond.
pub const IN_PLACE_LEN: usize = 256 * 1024;
/// Of the largest share of the budget, this part is left for the message itself.
const MESSAGE_PART: usize = 8;

/// A text that grows where memory is short grows by so much at a time.
const SMALL_STEP_LEN: usize = 16 * 1024;
/// What a text without references has at most, in times of its message.
const PLAIN_TIMES: usize = 8;

/// The same options for a text that is written in place.
pub fn in_place(options: &JsonOptions) -> Cow<'_, JsonOptions> {
    match options.max_out_len <= IN_PLACE_LEN {
        true => Cow::Borrowed(options),
        false => Cow::Owned(JsonOptions { max_out_len: IN_PLACE_LEN, ..options.clone() }),
    }
}

/// How long a text in place may become where it cannot be written anywhere else: as long as that
/// of a message of `len` bytes without references.
pub fn plain_len(len: usize) -> usize {
    len.saturating_mul(PLAIN_TIMES).max(IN_PLACE_LEN)
}

/// A text that is being written from one message. Clones are of the same text.
#[derive(Clone)]
pub struct GrownText {
    message_len: usize,
    max: usize,
    drawn: Arc<Drawn>,
}

/// What a text takes of the budget.
struct Drawn {
    growth: Growth,
    refused: Mutex<Option<OverBudget>>,
}

impl TextRoom for Drawn {
    /// Asked for half as much again as there is; where that is too much, for a little more, and at
    /// last for what is needed.
    fn extend(&self, len: usize) -> Option<usize> {
        let steps = [(len / 2).max(IN_PLACE_LEN), len / 16, SMALL_STEP_LEN, 0];
        let mut refused = None;
        for end in steps.map(|step| len.saturating_add(step)) {
            match self.growth.grow_to(end) {
                Ok(()) => return Some(end),
                Err(error) => refused = Some(error),
            }
        }
        *self.refused.lock().unwrap_or_else(PoisonError::into_inner) = refused;
        None
    }
}

impl GrownText {
    /// Nothing yet, of a message of that length that `account` is asked for.
    pub fn new(account: &Account, message_len: usize) -> Self {
        let growth = account.growth();
        let largest = growth.largest() - growth.largest() / MESSAGE_PART;
        let max = JsonOptions::max_len_of(message_len).min(largest);
        Self { message_len, max, drawn: Arc::new(Drawn { growth, refused: Mutex::default() }) }
    }

    /// Takes room for `len` bytes before anything is written.
    ///
    /// # Errors
    /// [`OverBudget`].
    pub fn reserve(&self, len: usize) -> Result<(), OverBudget> {
        self.drawn.growth.grow_to(len)
    }

    /// Counts a copy of what was written.
    pub fn count_copy(&self, len: usize) {
        self.drawn.growth.count(len);
    }

    /// The same options, for this text.
    pub fn options(&self, options: &JsonOptions) -> JsonOptions {
        let drawn: Arc<dyn TextRoom> = Arc::<Drawn>::clone(&self.drawn);
        JsonOptions { max_out_len: self.max, room: Some(OutRoom(drawn)), ..options.clone() }
    }

    /// Has one of the threads write it; `held` is dropped when that has ended. If none is free for
    /// a while, a long message is worked on in place, as far as that takes no longer than without
    /// references.
    ///
    /// # Errors
    /// [`Code::Timeout`] if the deadline passes before, and those of `write`.
    pub async fn write<R: Send + 'static>(
        &self,
        threads: &Threads,
        deadline: Option<Instant>,
        held: impl Sized + 'static,
        write: impl Fn(&Self) -> Result<R, CallError> + Send + 'static,
    ) -> Result<R, CallError> {
        let mut thread = match self.message_len < LONG_LEN {
            true => threads.wait(deadline).await?,
            false => threads.free(deadline).await?,
        };
        if thread.is_in_place() {
            let max = self.max.min(plain_len(self.message_len));
            let written = write(&Self { max, ..self.clone() });
            let is_whole = !written.as_ref().is_err_and(is_too_long);
            if is_whole || max == self.max {
                return written.map_err(|error| self.explained(error));
            }
            thread = threads.wait(deadline).await?;
        }
        let text = self.clone();
        let written = thread.run(held, move || write(&text)).await;
        written.map_err(|error| self.explained(error))
    }

    /// The same error, with the limit that was met.
    fn explained(&self, error: CallError) -> CallError {
        if !is_too_long(&error) {
            return error;
        }
        let refused = *self.drawn.refused.lock().unwrap_or_else(PoisonError::into_inner);
        let len = self.message_len;
        if let Some(refused) = refused {
            // A call that was answered is not made again for want of memory.
            let code = match error.code {
                Code::BodyTooLarge if !refused.is_final() => Code::Overloaded,
                code => code,
            };
            let message = format!("{}; it is made of {len} bytes: {refused}", error.message);
            return CallError { code, message: message.into(), ..error };
        }
        let message = format!(
            "{}; the JSON of a message of {len} bytes may have {} bytes: 128 times as many (at least \
             16 MiB, at most 64 MiB), or 8 times where that is more, and in any case no more than \
             seven sixteenths of memory_bytes of [agent]. A value that others refer to is written \
             for each of them",
            error.message, self.max
        );
        CallError { message: message.into(), ..error }
    }
}

/// Whether an error says that a text is longer than it may become.
pub fn is_too_long(error: &CallError) -> bool {
    matches!(error.code, Code::ReplyTooLarge | Code::BodyTooLarge)
}

#[cfg(test)]
mod tests {
    use wire::{Budget, Group};

    use super::*;
    use crate::testing::on_worker;

    fn account(limit: usize) -> (Budget, std::rc::Rc<Account>) {
        let budget = Budget::new(limit);
        let account = Account::shared(&budget.lease(), &Group::new(), &Group::new());
        (budget, account)
    }

    #[test]
    fn a_text_draws_from_the_budget_while_it_grows_and_gives_it_back() {
        let (budget, account) = account(64 << 20);
        let text = GrownText::new(&account, 1000);
        let options = text.options(&JsonOptions::default());
        let mut granted = 0;
        while let Some(end) = options.extend(granted + 1) {
            assert!(granted < end && end <= text.max, "{granted} {end}");
            assert!(end <= budget.used(), "{end} bytes are granted, {} drawn", budget.used());
            granted = end;
        }
        assert_eq!(granted, 16 << 20, "what a short message may always become");
        drop((text, options));
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn no_text_is_longer_than_its_share_of_the_budget() {
        let (budget, account) = account(16 << 20);
        let text = GrownText::new(&account, 1000);
        assert_eq!(text.max, 7 << 20);
        // Others have most of it.
        let other = GrownText::new(&account, 1000);
        other.count_copy(10 << 20);
        let options = text.options(&JsonOptions::default());
        let mut granted = 0;
        while let Some(end) = options.extend(granted + 1) {
            granted = end;
        }
        assert!(granted <= 3 << 20, "{granted}");
        assert!(budget.used() <= 14 << 20, "{}", budget.used());
        let too_long = |code| CallError::new(code, "the JSON text is longer");
        // A request may be sent again later; a method that has answered is not called again.
        assert_eq!(text.explained(too_long(Code::BodyTooLarge)).code, Code::Overloaded);
        assert_eq!(text.explained(too_long(Code::ReplyTooLarge)).code, Code::ReplyTooLarge);
        // What can never be is a final error.
        let error = other.explained(too_long(Code::BodyTooLarge));
        assert_eq!(error.code, Code::BodyTooLarge);
        assert!(error.message.contains("may have 7340032 bytes: 128 times"), "{}", error.message);
    }

    #[test]
    fn a_short_message_whose_text_is_long_never_grows_on_the_event_loop() {
        on_worker(async || {
            let (_, account) = account(64 << 20);
            let this_thread = || std::thread::current().id();
            let here = this_thread();
            let written = |text: GrownText, n| async move {
                let threads = Threads::patient(n, std::time::Duration::from_millis(1));
                let soon = Some(Instant::now() + std::time::Duration::from_millis(200));
                text.write(&threads, soon, (), move |text| match text.max <= plain_len(LONG_LEN) {
                    true => Err(CallError::new(Code::BodyTooLarge, "")),
                    false => Ok(this_thread()),
                })
                .await
            };
            let short = GrownText::new(&account, 1000);
            assert!(written(short.clone(), 1).await.is_ok_and(|thread| thread != here));
            assert_eq!(written(short, 0).await.unwrap_err().code, Code::Timeout);
            // A long one is begun in place after a while, and goes no further than that.
            let long = GrownText::new(&account, LONG_LEN);
            assert_eq!(written(long, 0).await.unwrap_err().code, Code::Timeout);
        });
    }
}
