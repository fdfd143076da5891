//! Where panics of the program's own code end: of its handlers, codecs, observers and wakers, and
//! of what these leave to be dropped. Only the call that such code belongs to feels the panic. The
//! program's panic hook has reported it by then, so nothing is logged here.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::Waker;

/// What a panic carries may panic as it is dropped, and so may what that panic carries. After so
/// many of them the next one is leaked.
const MAX_DROPS: usize = 8;

/// Does work that may panic. The error is the panic's text.
///
/// Whoever calls this drops or resets what the work may have left half done.
#[inline]
pub(crate) fn contain<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(work)).map_err(text_of)
}

/// Drops a value that may panic meanwhile.
#[inline]
pub(crate) fn contain_drop<T>(value: T) {
    // What the panic says has been reported, and nobody waits for it.
    let _ = contain(|| drop(value));
}

/// Wakes a task; its executor may panic.
#[inline]
pub(crate) fn wake(waker: Waker) {
    let _ = contain(|| waker.wake());
}

/// The text of a panic, which is dropped.
#[cold]
fn text_of(mut panic: Box<dyn Any + Send>) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    let text = text.unwrap_or("no text").to_owned();
    for _ in 0..MAX_DROPS {
        match catch_unwind(AssertUnwindSafe(|| drop(panic))) {
            Ok(()) => return text,
            Err(next) => panic = next,
        }
    }
    std::mem::forget(panic);
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::panic_any;

    /// Panics when it is dropped, with one that does the same a few times.
    struct Bomb(usize);

    impl Drop for Bomb {
        fn drop(&mut self) {
            match self.0.checked_sub(1) {
                Some(rest) => panic_any(Bomb(rest)),
                None => panic!("dropped"),
            }
        }
    }

    #[test]
    fn a_panic_becomes_its_text() {
        assert_eq!(contain(|| 7), Ok(7));
        assert_eq!(contain::<()>(|| panic!("plain")), Err("plain".to_owned()));
        assert_eq!(contain::<()>(|| panic!("number {}", 7)), Err("number 7".to_owned()));
        assert_eq!(contain::<()>(|| panic_any(7_u8)), Err("no text".to_owned()));
    }

    #[test]
    fn what_panics_when_it_is_dropped_is_contained() {
        for n in [0, 1, MAX_DROPS, 3 * MAX_DROPS] {
            contain_drop(Bomb(n));
            assert_eq!(contain::<()>(|| panic_any(Bomb(n))), Err("no text".to_owned()));
        }
    }

    #[test]
    fn a_drop_is_contained_while_its_thread_unwinds() {
        struct Owner(Option<Bomb>);
        impl Drop for Owner {
            fn drop(&mut self) {
                contain_drop(self.0.take());
            }
        }
        let text = contain::<()>(|| {
            let _owner = Owner(Some(Bomb(2)));
            panic!("first");
        });
        assert_eq!(text, Err("first".to_owned()));
    }
}
