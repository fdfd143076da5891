//! What fuzz targets call.

use std::collections::HashMap;

use prost::Message as _;

use crate::{Answer, Heard, Payload};

/// The types that a server can say a message has.
const KINDS: [&str; 9] = [
    "NotifySubscriberRequest",
    "ConfigChangeNotifyRequest",
    "SetupAckRequest",
    "ClientDetectionRequest",
    "ConnectResetRequest",
    "SubscribeServiceResponse",
    "ConfigQueryResponse",
    "ErrorResponse",
    "SomethingNew",
];

/// What a hostile server can send. The first byte says what the rest is taken for: JSON of one of
/// the known types, or a whole message.
///
/// # Panics
/// If what was read breaks a limit.
pub fn server_bytes(data: &[u8]) {
    let Some((&first, data)) = data.split_first() else { return };
    let payload = match KINDS.get(usize::from(first)) {
        Some(kind) => Payload::raw(kind, HashMap::new(), data.to_vec()),
        None => match Payload::decode(data) {
            Ok(payload) => payload,
            Err(_) => return,
        },
    };
    let _ = Heard::read(&payload);
    let Ok(Ok(answer)) = Answer::read(payload) else { return };
    let _ = answer.handshake();
    let _ = answer.service_names();
    let _ = answer.document();
    let _ = answer.changed();
    if let Ok(Some(info)) = answer.service_info() {
        for host in info.hosts.into_iter().flatten() {
            let weight = host.bounded_weight();
            assert!((0.0..=10_000.0).contains(&weight));
            let _ = host.metadata_len();
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_bytes_are_taken(data: Vec<u8>) {
            super::server_bytes(&data);
        }

        #[test]
        fn any_json_is_taken(kind in 0_u8..9, text in r#"(\{"(hosts|serviceInfo|metadata|weight|ip|port|count)":)*(\[|\{|1e999|-1|"x"|null|\]|\}){0,20}"#) {
            let mut data = vec![kind];
            data.extend(text.bytes());
            super::server_bytes(&data);
        }
    }
}
