//! Long arguments, encoded beside the event loop.

use std::time::Instant;

use dubbo_proto::Serialization;
use wire::Conn;

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
    // What is made of them is about as long in any form, and is made in any case.
    let (len, copied_len) = (args.len_in_bytes(), args.copied_len());
    let held = conn.look(|machine| match machine.account().take(len.saturating_add(copied_len)) {
        Err(_) if copied_len == 0 => Ok(machine.account().count(len)),
        held => held,
    });
    let Ok(held) = held else {
        let mut bytes = Vec::new();
        args.encode(call.method, serialization, &mut bytes)?;
        return Ok(bytes);
    };
    let bytes = args.encoded_offloaded(call.method, serialization, thread, held).await?;
    check_time(deadline)?;
    Ok(bytes)
}
