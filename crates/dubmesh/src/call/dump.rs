//! What went over the wire, for people: headers and fields by name, arguments and results as JSON,
//! and every byte.

use std::fmt::Write as _;

use agent::attachments::Replied;
use agent::terminal::is_unsafe;
use bytes::{Bytes, BytesMut};
use dubbo_proto::frame::{self, Frame, HEADER_LEN, Header};
use dubbo_proto::{
    BodyLimits, DEFAULT_PAYLOAD_LIMIT, Reply, ReplyKind, Request, Serialization, Status,
};
use hessian::transcode::JsonOptions;
use registry::Protocol;

use super::tap::{Piece, Tap};

/// Bytes of a frame that are shown.
const MAX_SHOWN_LEN: usize = 4096;
/// Characters of a value that are shown.
const MAX_VALUE_LEN: usize = 2000;
const BYTES_PER_LINE: usize = 16;

/// Everything that went through a relay.
pub(super) fn show(tap: &Tap) -> String {
    let mut out = String::new();
    let (mut ours, mut theirs) = (BytesMut::new(), BytesMut::new());
    for Piece { is_ours, at, bytes } in tap.pieces() {
        let buffer = if is_ours { &mut ours } else { &mut theirs };
        buffer.extend_from_slice(&bytes);
        let arrow = if is_ours { "-->" } else { "<--" };
        let ms = at.as_secs_f64() * 1000.0;
        let head = format!("{arrow} {} at {ms:.1} ms", tap.address);
        if tap.protocol == Protocol::Link {
            let bytes = buffer.split().freeze();
            let _ = writeln!(out, "{head}: {} bytes of a link", bytes.len());
            hex(&mut out, &bytes);
            continue;
        }
        loop {
            // The bytes themselves are shown too, and so are kept before the frame is taken apart.
            let before = buffer.clone().freeze();
            match frame::decode(buffer, DEFAULT_PAYLOAD_LIMIT) {
                Ok(Some(frame)) => {
                    let len = HEADER_LEN + frame.body.len();
                    let _ = writeln!(out, "{head}: {} of {len} bytes", kind(&frame.header));
                    dubbo(&mut out, &frame);
                    hex(&mut out, before.get(..len).unwrap_or_default());
                }
                Ok(None) => break,
                Err(error) => {
                    let _ = writeln!(out, "{head}: not Dubbo: {error}");
                    hex(&mut out, &buffer.split());
                    break;
                }
            }
        }
    }
    for (rest, what) in [(&ours, "-->"), (&theirs, "<--")] {
        if !rest.is_empty() {
            let _ = writeln!(
                out,
                "{what} {}: {} bytes of a frame that did not end",
                tap.address,
                rest.len()
            );
            hex(&mut out, rest);
        }
    }
    out
}

fn kind(header: &Header) -> &'static str {
    match (header.is_event, header.is_request) {
        (true, true) => "event",
        (true, false) => "answer to an event",
        (false, true) => "request",
        (false, false) => "response",
    }
}

fn field(out: &mut String, name: &str, value: &str) {
    let _ = writeln!(out, "  {name:<13} {}", clip(value));
}

fn dubbo(out: &mut String, frame: &Frame) {
    let header = &frame.header;
    let serialization = header.serialization;
    let two_way = if header.two_way { ", two-way" } else { "" };
    let status = match header.is_request {
        true => String::new(),
        false => format!(", status {}", Status::from_u8(header.status)),
    };
    let text = format!(
        "id {}, serialization {} ({}){two_way}{status}, body of {} bytes",
        header.id,
        serialization.id(),
        serialization.name(),
        header.body_len
    );
    field(out, "header", &text);
    match (header.is_event, header.is_request) {
        (true, _) => {}
        (false, true) => request(out, serialization, &frame.body),
        (false, false) => response(out, serialization, header.status, &frame.body),
    }
}

fn request(out: &mut String, serialization: Serialization, body: &Bytes) {
    let request = match Request::decode(serialization, body.clone(), &BodyLimits::default()) {
        Ok(request) => request,
        Err(error) => return field(out, "body", &format!("not shown: {error}")),
    };
    for (name, value) in [
        ("dubbo version", request.dubbo_version()),
        ("path", request.path()),
        ("version", request.version()),
        ("method", request.method()),
        ("types", request.descriptor()),
    ] {
        field(out, name, value);
    }
    for (index, value) in values(request.serialization(), request.args()).iter().enumerate() {
        field(out, &format!("argument {index}"), value);
    }
    for (name, value) in request.attachments() {
        field(out, "attachment", &format!("{name} = {value}"));
    }
}

fn response(out: &mut String, serialization: Serialization, status: u8, body: &[u8]) {
    let outcome = match Reply::decode(serialization, Status::from_u8(status), body) {
        Ok(Reply::Done(outcome)) => outcome,
        Ok(Reply::Failed { text, .. }) => return field(out, "error", &text),
        Err(error) => return field(out, "body", &format!("not shown: {error}")),
    };
    let name = match outcome.kind() {
        ReplyKind::Exception => "exception",
        ReplyKind::Value => "value",
        ReplyKind::Null => return field(out, "value", "null"),
    };
    let limits = BodyLimits::default();
    match outcome.value(&limits) {
        Ok(value) => {
            let shown = values(outcome.serialization(), value);
            field(out, name, &shown.join("\n"));
        }
        Err(error) => field(out, name, &format!("not shown: {error}")),
    }
    for (name, json) in Replied::of(&outcome, &JsonOptions::default()).members {
        let json = String::from_utf8_lossy(&json);
        let text: Option<String> = serde_json::from_str(&json).unwrap_or_default();
        let value = text.as_deref().unwrap_or(&json);
        field(out, "attachment", &format!("{name} = {value}"));
    }
}

/// The values of a body, each as JSON.
fn values(serialization: Serialization, bytes: &[u8]) -> Vec<String> {
    let options = JsonOptions { class_name: true, ..JsonOptions::default() };
    match serialization.values() {
        Some(values) => values.shown(bytes, &options),
        None => vec![format!("{} bytes", bytes.len())],
    }
}

/// Text on one line or several, cut where it becomes too long.
fn clip(text: &str) -> String {
    let end = text.floor_char_boundary(MAX_VALUE_LEN);
    let mut out = String::with_capacity(end);
    for character in text.get(..end).unwrap_or_default().chars() {
        match character {
            '\n' => out.push_str("\n                "),
            '\t' => out.push_str("  "),
            '\r' => {}
            // What would move the cursor, or worse.
            _ if is_unsafe(character) => out.push(char::REPLACEMENT_CHARACTER),
            _ => out.push(character),
        }
    }
    if end < text.len() {
        let _ = write!(out, "... ({} bytes)", text.len());
    }
    out
}

/// `00000010  6a 61 76 61 ..  |java|`
fn hex(out: &mut String, bytes: &[u8]) {
    let shown = bytes.get(..MAX_SHOWN_LEN).unwrap_or(bytes);
    for (index, line) in shown.chunks(BYTES_PER_LINE).enumerate() {
        let _ = write!(out, "  {:08x} ", index * BYTES_PER_LINE);
        for byte in line {
            let _ = write!(out, " {byte:02x}");
        }
        let n_missing = BYTES_PER_LINE - line.len();
        let is_plain = |byte: &u8| byte.is_ascii_graphic() || *byte == b' ';
        let text: String =
            line.iter().map(|byte| if is_plain(byte) { char::from(*byte) } else { '.' }).collect();
        let _ = writeln!(out, "{}  |{text}|", "   ".repeat(n_missing));
    }
    if shown.len() < bytes.len() {
        let _ = writeln!(out, "  ... {} bytes more", bytes.len() - shown.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_shown_with_offset_and_text() {
        let mut out = String::new();
        hex(&mut out, b"0123456789abcdef\x00\xffz");
        assert_eq!(
            out,
            "  00000000  30 31 32 33 34 35 36 37 38 39 61 62 63 64 65 66  |0123456789abcdef|\n  \
             00000010  00 ff 7a                                         |..z|\n"
        );
        let mut long = String::new();
        hex(&mut long, &[0; MAX_SHOWN_LEN + 1]);
        assert!(long.ends_with("  ... 1 bytes more\n"));
    }

    #[test]
    fn frames_are_taken_apart() {
        for (name, bytes, parts) in [
            (
                "request",
                &include_bytes!("../../../dubbo-proto/vectors/java27_hessian2_add_request.bin")[..],
                &[
                    "method        add",
                    "types         II",
                    "argument 1    ",
                    "attachment    path = ",
                ][..],
            ),
            (
                "response",
                include_bytes!("../../../dubbo-proto/vectors/java27_hessian2_fail_response.bin"),
                &[
                    "status 20 OK",
                    "exception     {\"class\":\"org.dubmesh.interop.BusinessException\"",
                ],
            ),
            (
                "response",
                include_bytes!(
                    "../../../dubbo-proto/vectors/java33_hessian2_missing_method_response.bin"
                ),
                &[
                    "status 70 SERVICE_ERROR",
                    "error         org.apache.dubbo.rpc.RpcException: No such",
                ],
            ),
            (
                "request",
                include_bytes!("../../../dubbo-proto/vectors/java27_fastjson_add_request.bin"),
                &["serialization 6 (fastjson)", "argument 0    "],
            ),
            (
                "request",
                include_bytes!("../../../dubbo-proto/vectors/java32_fastjson2_add_request.bin"),
                &["serialization 23 (fastjson2)", "argument 0    ", "argument 1    "],
            ),
            (
                "response",
                include_bytes!("../../../dubbo-proto/vectors/java32_fastjson2_add_response.bin"),
                &["status 20 OK", "value         "],
            ),
        ] {
            let mut buffer = BytesMut::from(bytes);
            let frame = frame::decode(&mut buffer, DEFAULT_PAYLOAD_LIMIT).unwrap().unwrap();
            assert_eq!(kind(&frame.header), name);
            let mut out = String::new();
            dubbo(&mut out, &frame);
            for part in parts {
                assert!(out.contains(part), "{part} in {out}");
            }
        }
    }
}
