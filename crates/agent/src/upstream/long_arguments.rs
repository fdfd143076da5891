//! Long arguments, encoded beside the event loop.

use std::rc::Rc;
use std::time::Instant;

use dubbo_proto::Serialization;
use wire::{Account, Conn, Hold};

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
    let Some(held) = conn.look(|machine| hold(machine.account(), args)) else {
        let mut bytes = Vec::new();
        args.encode(call.method, serialization, &mut bytes)?;
        return Ok(bytes);
    };
    let bytes = args.encoded_offloaded(call.method, serialization, thread, held).await?;
    check_time(deadline)?;
    Ok(bytes)
}

/// What counts a copy of arguments, where they are copied, and what is made of them, which is about
/// as long and is made in any case.
fn hold(account: &Rc<Account>, args: &ArgumentList<'_>) -> Option<Hold> {
    let (len, copied_len) = (args.len_in_bytes(), args.copied_len());
    match account.take(len.saturating_add(copied_len)) {
        Ok(held) => Some(held),
        Err(_) if copied_len == 0 => Some(account.count(len)),
        Err(_) => None,
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
            (ArgumentList::json_of(&body).unwrap(), ArgumentList::json(&body).unwrap());
        for (limit, copied_len) in [(1 << 30, Some(2 * borrowed.len_in_bytes())), (1 << 16, None)] {
            let lease = Budget::new(limit).lease();
            let account = Account::shared(&lease, &Group::new());
            let len = |args| hold(&account, args).map(|held| held.len());
            assert_eq!(len(&shared), Some(shared.len_in_bytes()), "{limit}");
            assert_eq!(len(&borrowed), copied_len, "{limit}");
        }
    }
}
