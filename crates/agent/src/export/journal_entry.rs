//! What is told of the calls that other agents make.

use link_proto::RouteDef;

use super::requests::Received;
use crate::call::{Encoded, Whole};
use crate::codec;
use crate::facts::{WholeFacts, note_encoded};
use crate::journal::{Entry, Named};
use crate::route::WHOLE;

/// Notes in `entry` what a request of a route says.
#[cold]
pub(super) fn note(entry: &mut Entry, def: &RouteDef, call: &Received) {
    let Received { meta, payload, .. } = call;
    let serialization = codec::serialization(call.codec);
    if def.method == WHOLE {
        return WholeFacts::new(Whole { serialization, body: payload }).note(entry);
    }
    let trace = meta.iter().find(|(name, _)| *name == "traceparent").map(|(_, value)| value);
    let named = Named { service: &def.service, method: &def.method, trace };
    note_encoded(entry, named, Encoded { serialization, bytes: payload }, &def.descriptor);
}
