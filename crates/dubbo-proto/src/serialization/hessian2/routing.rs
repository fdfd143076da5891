//! The little that somebody who passes a request on has to read of it.

use std::ops::Range;

use hessian::{Decoder, ValueKind};

use super::read_field;
use crate::body::{BodyLimits, Routing, deadline};
use crate::serialization::codec::{ArgumentSurroundings, RoutingParts};
use crate::{ProtoError, descriptor};

/// Longest head or tail that is worth comparing.
const MAX_LIKENESS_LEN: usize = 2048;

/// What is read of a request.
struct Parts<'a> {
    routing: Routing<'a>,
    /// Where the arguments are.
    args: Range<usize>,
    n_args: usize,
    /// Whether attachments hold nothing but plain values.
    is_plain: bool,
}

pub(super) fn read<'a>(
    body: &'a [u8],
    limits: &BodyLimits,
) -> Result<RoutingParts<'a>, ProtoError> {
    let Parts { routing, args, n_args, is_plain } = read_parts(body, limits)?;
    let (head, tail) = (body.get(..args.start), body.get(args.end..));
    let short = |bytes: &&[u8]| bytes.len() <= MAX_LIKENESS_LEN;
    let likeness = match (head.filter(short), tail.filter(short)) {
        (Some(head), Some(tail)) if is_plain => {
            Some(ArgumentSurroundings { head: head.into(), n_args, tail: tail.into() })
        }
        _ => None,
    };
    Ok((routing, likeness))
}

#[inline]
pub(super) fn is_like(likeness: &ArgumentSurroundings, body: &[u8], limits: &BodyLimits) -> bool {
    let Some(rest) = body.strip_prefix(&*likeness.head) else { return false };
    // The arguments show where the tail begins; that it is there at all is seen more cheaply.
    let Some(args) = rest.strip_suffix(&*likeness.tail) else { return false };
    if likeness.n_args == 1 && hessian::is_ascii_string(args, &limits.hessian) {
        return true;
    }
    let mut decoder = Decoder::new(rest, limits.hessian);
    (0..likeness.n_args).all(|_| decoder.skip_value().is_ok())
        && decoder.position() + likeness.tail.len() == rest.len()
}

fn read_parts<'a>(body: &'a [u8], limits: &BodyLimits) -> Result<Parts<'a>, ProtoError> {
    let wrap = |field| move |source| ProtoError::Hessian { field, source };
    let mut decoder = Decoder::new(body, limits.hessian);
    decoder.skip_value().map_err(wrap("dubbo version"))?;
    let path = read_field(&mut decoder, "path")?;
    let version = read_field(&mut decoder, "version")?;
    let mut routing = Routing::default();
    decoder.skip_value().map_err(wrap("method"))?;
    let n_args = descriptor::count(&read_field(&mut decoder, "descriptor")?)?;
    let start = decoder.position();
    for _ in 0..n_args {
        decoder.skip_value().map_err(wrap("argument"))?;
    }
    let args = start..decoder.position();
    let mut is_plain = true;
    if !decoder.is_at_end() && !decoder.read_null().map_err(wrap("attachments"))? {
        is_plain = read_attachments(&mut routing, &mut decoder, limits.max_attachments)?;
    }
    if routing.path.is_empty() {
        routing.path = path;
    }
    if routing.version.is_empty() {
        routing.version = version;
    }
    Ok(Parts { routing, args, n_args, is_plain })
}

/// Says whether all names are texts, and all values plain.
fn read_attachments<'a>(
    routing: &mut Routing<'a>,
    decoder: &mut Decoder<'a>,
    max: usize,
) -> Result<bool, ProtoError> {
    let wrap = |source| ProtoError::Hessian { field: "attachments", source };
    let (mut left, mut timeout) = (None, None);
    let mut count = 0;
    let mut is_plain = true;
    let mut map = decoder.read_map_begin().map_err(wrap)?;
    while map.next(decoder).map_err(wrap)? {
        count += 1;
        if count > max {
            return Err(ProtoError::TooMany { what: "attachments", count, max });
        }
        if decoder.peek().map_err(wrap)? != ValueKind::String {
            is_plain = false;
            decoder.skip_value().map_err(wrap)?;
            decoder.skip_value().map_err(wrap)?;
            continue;
        }
        let name = decoder.read_string().map_err(wrap)?;
        is_plain &= matches!(
            decoder.peek().map_err(wrap)?,
            ValueKind::String
                | ValueKind::Int
                | ValueKind::Long
                | ValueKind::Bool
                | ValueKind::Null
        );
        let text = match &*name {
            "path" => &mut routing.path,
            "interface" => &mut routing.interface,
            "version" => &mut routing.version,
            "group" => &mut routing.group,
            "_TO" => {
                left = read_ms(decoder).map_err(wrap)?;
                continue;
            }
            "timeout" => {
                timeout = read_ms(decoder).map_err(wrap)?;
                continue;
            }
            _ => {
                decoder.skip_value().map_err(wrap)?;
                continue;
            }
        };
        if decoder.peek().map_err(wrap)? != ValueKind::String {
            decoder.skip_value().map_err(wrap)?;
            continue;
        }
        *text = decoder.read_string().map_err(wrap)?;
    }
    routing.timeout = deadline(left, timeout);
    Ok(is_plain)
}

/// Dubbo writes these as texts, but an attachment may be any object.
fn read_ms(decoder: &mut Decoder<'_>) -> Result<Option<i64>, hessian::HessianError> {
    Ok(match decoder.peek()? {
        ValueKind::String => decoder.read_string()?.parse().ok(),
        ValueKind::Int => Some(decoder.read_int()?.into()),
        ValueKind::Long => Some(decoder.read_long()?),
        _ => {
            decoder.skip_value()?;
            None
        }
    })
}
