//! What the fuzz targets call, and a unit test here, too: arbitrary bytes go through everything
//! that a peer's bytes can reach, and what must hold afterwards is asserted.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use serde::de::IgnoredAny;

use crate::application::{self, Instance, Metadata};
use crate::frame::{HEADER_LEN, Header};
use crate::{
    BodyLimits, ClientConfig, ClientConnection, ClientEvent, DubboUrl, Reply, ReplyKind, Request,
    RequestHead, RequestTemplate, Routing, Serialization, ServerConfig, ServerConnection,
    ServerEvent, ServiceDefinition, ServiceKey, Status, descriptor, fastjson, url,
};

const N_CALLS: usize = 4;
const MAX_BODY_LEN: usize = 4096;
const MAX_BUFFERED_LEN: usize = 4096;
/// What one small answer (a heartbeat's, or a refusal) may add after the bound was checked.
const SMALL_ANSWER_LEN: usize = 1024;

/// Bytes of a provider, against a client with a few calls in flight.
///
/// # Panics
/// When something that must hold does not.
pub fn client_bytes(data: &[u8], now: Instant) {
    let config = ClientConfig {
        heartbeat: Duration::from_secs(60),
        max_body_len: MAX_BODY_LEN,
        max_request_len: MAX_BODY_LEN,
        max_in_flight: N_CALLS,
        max_buffered_bytes: MAX_BUFFERED_LEN,
        ..ClientConfig::default()
    };
    let mut client = ClientConnection::new(config, now);
    let head = RequestHead { path: "a.B", version: "", method: "m", descriptor: "" };
    let Ok(template) = RequestTemplate::new(Serialization::Hessian2, &head, &[]) else {
        unreachable!("the names are good");
    };
    for token in 0..N_CALLS {
        let sent = client.send(now, &template, b"", &[], now + Duration::from_secs(1), token);
        assert!(sent.is_ok());
    }
    let mut n_answered = 0;
    let mut handle = |client: &mut ClientConnection<usize>| {
        while let Some(event) = client.poll_event() {
            if let ClientEvent::Reply { status, serialization, body, .. } = event {
                n_answered += 1;
                read_reply(serialization, status, &body);
            }
        }
        assert!(client.transmit().len() < MAX_BUFFERED_LEN + SMALL_ANSWER_LEN);
        n_answered
    };
    let mut n_seen = 0;
    feed(data, false, |input| {
        let alive = client.handle_bytes(now, input).is_ok();
        n_seen = handle(&mut client);
        alive && !client.is_finished()
    });
    assert_eq!(client.in_flight() + n_seen, N_CALLS);
    client.handle_timeout(now + Duration::from_secs(1));
    assert_eq!(client.in_flight(), 0);
}

fn read_reply(serialization: Serialization, status: Status, body: &[u8]) {
    if let Ok(Reply::Done(outcome)) = Reply::decode(serialization, status, body) {
        let limits = BodyLimits::default();
        if let Ok(value) = outcome.value(&limits) {
            assert!(outcome.value_and_rest().starts_with(value));
            fastjson_text(value);
        }
        if let Ok(attachments) = outcome.attachments(&limits) {
            assert!(attachments.len() <= limits.max_attachments);
        }
    }
}

/// Texts of fastjson, in its dialect.
///
/// # Panics
/// When something that must hold does not.
pub fn fastjson(texts: &[u8]) {
    for text in texts.split(|byte| *byte == b'\n').chain([texts]) {
        fastjson_text(text);
    }
}

/// JSON stays what it is, but for the names of classes; anything else is translated or refused.
fn fastjson_text(text: &[u8]) {
    for class_names in [false, true] {
        let mut plain = Vec::new();
        if fastjson::to_json(text, class_names, &mut plain).is_err() {
            continue;
        }
        // Bytes grow from two digits to four letters of base64 at most; a key gets two quotes.
        assert!(plain.len() <= 4 * text.len());
        if serde_json::from_slice::<IgnoredAny>(text).is_err() {
            continue;
        }
        if text.contains(&b'@') {
            let is_json = serde_json::from_slice::<IgnoredAny>(&plain).is_ok();
            assert!(is_json, "{} of {}", plain.escape_ascii(), text.escape_ascii());
        } else {
            assert_eq!(plain, text);
        }
    }
}

/// Bytes of a consumer, against a server that answers every second request.
///
/// # Panics
/// When something that must hold does not.
pub fn server_bytes(data: &[u8], now: Instant) {
    let config = ServerConfig {
        max_body_len: MAX_BODY_LEN,
        payload_limit: MAX_BODY_LEN,
        max_in_flight: N_CALLS,
        max_buffered_bytes: MAX_BUFFERED_LEN,
        ..ServerConfig::default()
    };
    let mut server = ServerConnection::new(config, now);
    let mut n_seen = 0;
    let mut handle = |input: &mut BytesMut| {
        let mut alive = server.handle_bytes(now, input).is_ok();
        while let Some(event) = server.poll_event() {
            let ServerEvent::Request { to, two_way, request } = event else { continue };
            drop(request.service_key());
            for (name, value) in request.attachments() {
                assert!(name.len() + value.len() <= 3 * request.body().len());
            }
            route(&request);
            n_seen += 1;
            if two_way && n_seen % 2 == 0 {
                let text = request.method();
                alive &= server.reply_error(now, to, Status::ServiceNotFound, text).is_ok();
            } else if two_way && n_seen % 3 == 0 {
                let args = request.args();
                alive &= server.reply(now, to, ReplyKind::Value, args, &[("a", "b")]).is_ok();
            }
        }
        assert!(server.in_flight() <= N_CALLS);
        assert!(server.transmit().len() < MAX_BUFFERED_LEN + MAX_BODY_LEN + SMALL_ANSWER_LEN);
        (alive && !server.is_finished(), server.has_backlog())
    };
    feed(data, true, |input| {
        loop {
            match handle(input) {
                (true, true) => {}
                (goes_on, _) => return goes_on,
            }
        }
    });
}

/// Who passes a request on sees the same service as who reads it, if he sees any.
fn route(request: &Request) {
    let limits = BodyLimits::default();
    if let Ok(routing) = Routing::read(request.serialization(), request.body(), &limits) {
        assert_eq!(routing.path, Routing::of_request(request).path);
    }
}

/// Hands `data` over in pieces: as it is, or as the bodies of frames with good headers, which
/// gets to places that random headers never reach. The first two bytes choose.
fn feed(data: &[u8], is_request: bool, mut take: impl FnMut(&mut BytesMut) -> bool) {
    let [how, cut_len, data @ ..] = data else { return };
    let framed;
    let bytes = if how & 1 == 0 {
        data
    } else {
        framed = frames(data, is_request);
        &framed
    };
    let mut input = BytesMut::new();
    for piece in bytes.chunks(usize::from(*cut_len).max(1)) {
        input.extend_from_slice(piece);
        if !take(&mut input) {
            return;
        }
        assert!(input.len() < HEADER_LEN + MAX_BODY_LEN, "a whole frame was left");
    }
}

/// Frames of `flags, status, slot, length, body` each.
fn frames(mut data: &[u8], is_request: bool) -> Vec<u8> {
    let mut out = Vec::new();
    while let [flags, status, slot, len, rest @ ..] = data {
        let (body, rest) = rest.split_at(usize::from(*len).min(rest.len()));
        let header = Header {
            is_request: is_request ^ (flags & 0x80 != 0),
            two_way: flags & 0x40 != 0,
            is_event: flags & 0x20 != 0,
            serialization: Serialization::from_id(*flags),
            status: *status,
            // The first ids that a client gives out.
            id: (1 << 32) | u64::from(*slot),
            body_len: body.len(),
        };
        out.extend_from_slice(&header.encode());
        out.extend_from_slice(body);
        data = rest;
    }
    out
}

/// Text of a registry or a configuration: URLs, keys, names and descriptors.
///
/// # Panics
/// When something that must hold does not.
pub fn url_text(text: &str) {
    assert_eq!(url::decode_key(&url::encode_key(text)).ok().as_deref(), Some(text));
    let decoded = url::decode_key(text).unwrap_or_else(|_| text.to_owned());
    if let Ok(parsed) = decoded.parse::<DubboUrl>() {
        assert_eq!(parsed.to_string().parse::<DubboUrl>().as_ref(), Ok(&parsed));
        if let Ok(key) = parsed.service_key() {
            assert!(key.to_string().len() <= decoded.len() + 2);
        }
        assert!(parsed.serializations().contains(&Serialization::Hessian2));
        assert!(parsed.weight_at(u64::MAX) <= parsed.weight());
        assert!(
            parsed.timeout("m") > Duration::ZERO
                && parsed.threads() != Some(0)
                && parsed.payload() > 0
        );
        assert!(parsed.methods().all(|method| !method.is_empty()));
    }
    if let Ok(key) = text.parse::<ServiceKey>() {
        assert_eq!(key.to_string().parse::<ServiceKey>().as_ref(), Ok(&key));
    }
    if let Ok(n_params) = descriptor::count(text) {
        assert_eq!(descriptor::split(text).filter_map(Result::ok).count(), n_params);
    }
    if let Ok(descriptor) = descriptor::from_java_name(text) {
        assert_eq!(descriptor::count(&descriptor), Ok(1), "{descriptor}");
    }
}

/// A service definition from a metadata center, or what a provider says to telnet.
///
/// # Panics
/// When something that must hold does not.
pub fn definition(text: &[u8]) {
    let telnet = ServiceDefinition::from_telnet("a.B", &String::from_utf8_lossy(text)).ok();
    for definition in ServiceDefinition::parse(text).ok().into_iter().chain(telnet) {
        for method in &definition.methods {
            assert!(method.parameters.len() <= descriptor::MAX_PARAMETERS);
            assert!(definition.overloads(&method.name).any(|found| found == method));
            for ty in &method.parameters {
                assert_eq!(descriptor::count(&ty.to_descriptor()), Ok(1), "{ty}");
            }
        }
        let n_fields = |class| definition.fields(class).map_or(0, BTreeMap::len);
        let n_all: usize = definition.classes.keys().map(|class| n_fields(class)).sum();
        assert!(n_all <= text.len());
        // What type arguments mean is told for types that can be written, and of fields that the
        // class has.
        let types = definition.methods.iter().flat_map(|it| it.parameters.iter().chain(&it.result));
        for ty in types {
            let is_known =
                |class: &hessian::ClassType| definition.instances.fields(class.key()).is_some();
            if let Some(class) = ty.find_class(&is_known) {
                let key = class.key();
                assert_eq!(
                    hessian::JavaType::parse(key).map(|ty| ty.to_string()).as_deref(),
                    Ok(key)
                );
            }
        }
    }
}

/// What anybody can write into a registry about applications: instances, metadata and mappings.
/// What is read can be written, and reads the same again.
///
/// # Panics
/// When something that must hold does not.
pub fn application(text: &[u8]) {
    let names = application::applications(&String::from_utf8_lossy(text));
    assert!(names.len() <= application::MAX_APPLICATIONS);
    assert!(names.iter().all(|name| application::is_application(name)));
    let metadata = Metadata::parse(text).ok();
    if let Some(metadata) = &metadata {
        let own = Metadata::new(&metadata.application, metadata.services.clone());
        let again = Metadata::parse(own.to_json().as_bytes());
        // Of services that differ in nothing that names them, one is left.
        assert!(again.is_ok_and(|again| again.services.len() <= own.services.len()));
    }
    if let Ok(instance) = Instance::parse(text) {
        assert!(instance.port != 0 && application::is_application(&instance.application));
        let _ = instance.metadata_address();
        for record in [instance.curator_record(0), instance.plain_record()] {
            let again = Instance::parse(record.as_bytes());
            assert_eq!(
                again.map(|it| (it.id(), it.metadata)),
                Ok((instance.id(), instance.metadata.clone()))
            );
        }
        if let Some(metadata) = &metadata {
            let mut services = metadata.services.iter();
            assert!(services.all(|service| metadata.url(service, &instance).port != 0));
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;
    use crate::test_clock::start;

    proptest! {
        #[test]
        fn anything_goes(data in vec(any::<u8>(), 0..300), text in "\\PC{0,60}") {
            client_bytes(&data, start());
            server_bytes(&data, start());
            url_text(&text);
            definition(&data);
            application(&data);
            fastjson(&data);
        }
    }

    #[test]
    fn requests_of_every_serialization_are_taken() {
        for frame in [
            &include_bytes!("../vectors/java33_hessian2_variant_request.bin")[..],
            include_bytes!("../vectors/java33_fastjson_variant_request.bin"),
            include_bytes!("../vectors/java33_fastjson2_variant_request.bin"),
            include_bytes!("../vectors/java27_fastjson_variant_request.bin"),
        ] {
            server_bytes(&[b"\0\xff", frame].concat(), start());
        }
    }

    #[test]
    fn texts_of_fastjson_are_translated() {
        for text in [
            &b"{\"@type\":\"a.B\",\"n\":-5L,1:x'00FF',\"s\":Set[new Date(0)]}"[..],
            b"{ \"@type\": \"a.B\" , \"n\" : [1, 2] }\n\"\\\"\"\r\n\nnull",
            b"{\"@type\":\"a.B\"}",
            b"\0\0\0\x011\0\0\0\x02\"\"",
            b"\xff\xff\xff\xff",
        ] {
            fastjson(text);
        }
    }

    #[test]
    fn framed_bytes_reach_their_calls() {
        // A reply to the second call, and a heartbeat.
        client_bytes(&[1, 7, 0x02, 20, 1, 1, 0x92, 0xe2, 0, 0, 1, b'N'], start());
        server_bytes(&[1, 3, 0x42, 0, 1, 2, 0x05, b'2'], start());
    }
}
