//! The transfer as a service of the link: its methods, and how their messages become payloads.
//!
//! The answer to `next` has no type: the server writes a line from where it lies straight into the
//! reply, and the client leaves it in the bytes that were received. Neither allocates for it.

use bytes::Bytes;
use link::Method;
use link::codec::{Codec, CodecError};

use crate::checksum::Totals;
use crate::messages::{
    BeforeRequest, CloseRequest, LookReply, LookRequest, Message, OpenReply, OpenRequest, Refusal,
};

/// The service's name.
pub(crate) const SERVICE: &str = "dubmesh.Transfer";

/// Begins a transfer. A second one that nobody uses, because the first answer was lost, does no
/// harm.
pub(crate) const OPEN: Method<OpenRequest, OpenReply, Refusal> =
    Method::fallible::<(MessageCodec,)>(SERVICE, "open").idempotent();
/// Asks for a line. A [`NextRequest`](crate::messages::NextRequest) in, a
/// [`NextReply`](crate::messages::NextReply) out; both are raw.
pub(crate) const NEXT: &str = "next";
/// Ends a transfer.
pub(crate) const CLOSE: Method<CloseRequest, Totals, Refusal> =
    Method::fallible::<(MessageCodec,)>(SERVICE, "close").idempotent();
/// Adds up lines of an earlier transfer.
pub(crate) const BEFORE: Method<BeforeRequest, Totals, Refusal> =
    Method::fallible::<(MessageCodec,)>(SERVICE, "before").idempotent();
/// Asks whether the server is there, and how far a transfer is.
pub(crate) const LOOK: Method<LookRequest, LookReply> =
    Method::new::<(MessageCodec,)>(SERVICE, "look").idempotent();

/// The messages of [`wire`](crate::messages) as they are: to the link, raw bytes.
pub(crate) struct MessageCodec;

/// The codec's number.
pub(crate) const NUMBER: u8 = 1;
const NAME: &str = "raw";

impl<M: Message> Codec<M> for MessageCodec {
    const NUMBER: u8 = NUMBER;
    const NAME: &'static str = NAME;

    fn encode(message: &M, out: &mut Vec<u8>) -> Result<(), CodecError> {
        message.encode(out);
        Ok(())
    }

    fn decode(bytes: Bytes) -> Result<M, CodecError> {
        M::decode(&bytes).map_err(CodecError::new)
    }
}
