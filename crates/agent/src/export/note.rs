//! What is told of the calls that other agents make.

use bytes::Bytes;
use link_proto::{Meta, RouteDef};

use crate::call::Whole;
use crate::codec;
use crate::facts::{WholeFacts, note_encoded};
use crate::journal::{Entry, Named};
use crate::route::WHOLE;

/// Notes in `entry` what a request of a route says.
#[cold]
pub(super) fn note(entry: &mut Entry, def: &RouteDef, (codec, meta, payload): (u8, &Meta, &Bytes)) {
    let serialization = codec::serialization(codec);
    if def.method == WHOLE {
        return WholeFacts::new(Whole { serialization, body: payload }).note(entry);
    }
    let trace = meta.iter().find(|(name, _)| *name == "traceparent").map(|(_, value)| value);
    let named = Named { service: &def.service, method: &def.method, trace };
    note_encoded(entry, named, serialization, (payload, &def.descriptor));
}
