//! Long arguments, encoded beside the event loop.

use std::rc::Rc;
use std::time::Instant;

use dubbo_proto::Serialization;
use wire::{Account, Conn, Hold, OverBudget};

use crate::args::ArgumentList;
use crate::call::RoutedCall;
use crate::error::CallError;
use crate::memory::{Buffers, Metered};
use crate::offload::{Threads, check_time};

/// The arguments of a call, for that connection. The memory that it takes is counted there. Where
/// there is none left for a copy of them, and they cannot be shared, it is done in place.
///
/// # Errors
/// As [`ArgumentList::encode_for`]; or [`Code::Timeout`](crate::error::Code::Timeout), of no
/// endpoint, if the deadline passes before they are encoded.
pub(super) async fn encoded_offloaded<M: Buffers>(
    args: &ArgumentList<'_>,
    call: &RoutedCall<'_>,
    serialization: Serialization,
    conn: &Conn<Metered<M>>,
    threads: &Threads,
) -> Result<Vec<u8>, CallError> {
    let deadline: Option<Instant> = Some(call.times.deadline);
    let thread = threads.free(deadline).await?;
    let Ok(held) = conn.look(|machine| hold(machine.account(), args)) else {
        let mut bytes = Vec::new();
        args.encode(call.method, serialization, &mut bytes)?;
        return Ok(bytes);
    };
    let bytes = args.encoded_offloaded(call.method, serialization, thread, held).await?;
    check_time(deadline)?;
    Ok(bytes)
}

/// What counts a copy of arguments, where they are copied, and what is made of them, which is
/// about as long. That is made in any case. Where there is no room it is not counted, which is no
/// more than one of each thread. Nor is a body that is shared, once its caller has left.
///
/// # Errors
/// There is no room for a copy.
fn hold(account: &Rc<Account>, args: &ArgumentList<'_>) -> Result<Option<Hold>, OverBudget> {
    let copied_len = args.copied_len();
    match account.take(args.len_in_bytes().saturating_add(copied_len)) {
        Ok(held) => Ok(Some(held)),
        Err(_) if copied_len == 0 => Ok(None),
        Err(refused) => Err(refused),
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use wire::{Budget, Group};

    use super::*;

    #[test]
    fn where_memory_is_used_up_nothing_is_copied() {
        let body = Bytes::from(format!("[\"{}\"]", "a".repeat(1 << 20)));
        let (shared, borrowed) =
            (ArgumentList::of_body(&body).unwrap(), ArgumentList::json(&body).unwrap());
        let (len, small) = (shared.len_in_bytes(), 1 << 16);
        let held_len = |limit, args| {
            let account =
                Account::shared(&Budget::new(limit).lease(), &Group::new(), &Group::new());
            hold(&account, args).ok().map(|held| held.map(|held| held.len()))
        };
        assert_eq!(held_len(usize::MAX, &shared), Some(Some(len)));
        assert_eq!(held_len(usize::MAX, &borrowed), Some(Some(2 * len)));
        assert_eq!(held_len(small, &shared), Some(None));
        assert_eq!(held_len(small, &borrowed), None);
    }
}
