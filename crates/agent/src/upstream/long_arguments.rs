//! Long arguments, encoded beside the event loop.

use std::time::Instant;

use dubbo_proto::Serialization;
use wire::Conn;

use crate::args::ArgumentList;
use crate::call::RoutedCall;
use crate::error::CallError;
use crate::memory::{Buffers, Metered};
use crate::offload::{Threads, check_time};

/// The arguments of a call, for that connection. The memory that it takes is counted there; where
/// there is none left, it is done in place, without a copy.
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
    // A copy of them, and what is made of it; they are about as long in any form.
    let len = args.len_in_bytes().saturating_mul(2);
    let held = conn.look(|machine| machine.account().take(len));
    let Ok(held) = held else {
        let mut bytes = Vec::new();
        args.encode(call.method, serialization, &mut bytes)?;
        return Ok(bytes);
    };
    let bytes = args.encoded_offloaded(call.method, serialization, thread, held).await?;
    check_time(deadline)?;
    Ok(bytes)
}
