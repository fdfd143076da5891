//! What is told of the calls that other agents make.

use link_proto::RouteDef;

use super::requests::PeerRequest;
use crate::call::{Encoded, WholeBody};
use crate::codec;
use crate::facts::{WholeFacts, note_encoded};
use crate::journal::{JournalEntry, RequestNames};
use crate::route::WHOLE;

/// Notes in `entry` what a request of a route says.
#[cold]
pub(super) fn note(entry: &mut JournalEntry, def: &RouteDef, call: &PeerRequest) {
    let PeerRequest { meta, payload, .. } = call;
    let serialization = codec::serialization(call.codec);
    if def.method == WHOLE {
        return WholeFacts::new(WholeBody { serialization, body: payload }).note(entry);
    }
    let trace = meta.iter().find(|(name, _)| *name == "traceparent").map(|(_, value)| value);
    let named = RequestNames { service: &def.service, method: &def.method, trace };
    note_encoded(entry, named, Encoded { serialization, bytes: payload }, &def.descriptor);
}
