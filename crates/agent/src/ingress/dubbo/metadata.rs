//! Answers consumers of Dubbo 3 that ask an instance what it offers: `MetadataService`, for what
//! this agent has registered at application level.

use dubbo_proto::application::{METADATA_CLASS, METADATA_METHOD, MetadataClasses};
use dubbo_proto::{BodyLimits, ReplyKind, Request};
use java_json::JavaType;

use super::received::DubboRequest;
use crate::error::{CallError, Code};
use crate::worker::Worker;

/// A result in the serialization of its request.
pub(super) struct MetadataResult {
    pub(super) kind: ReplyKind,
    pub(super) value: Vec<u8>,
}

/// The metadata of the revision that a request asks for; null if there is no such revision.
///
/// # Errors
/// [`Code::BadRequest`] if the request cannot be read, [`Code::MethodNotFound`] for other methods.
pub(super) fn tell(worker: &Worker, received: &DubboRequest) -> Result<MetadataResult, CallError> {
    let bad = |error: String| CallError::new(Code::BadRequest, error);
    let body = received.body.clone();
    let request = Request::decode(received.to.serialization, body, &BodyLimits::default());
    let request = request.map_err(|error| bad(error.to_string()))?;
    let service = request.service_key().map_err(|error| bad(error.to_string()))?;
    if request.method() != METADATA_METHOD {
        let method = request.method();
        let message = format!("this agent does not offer {service}.{method}");
        return Err(CallError::new(Code::MethodNotFound, message));
    }
    let serialization = request.serialization();
    let values = serialization.values().ok_or_else(|| {
        bad(format!("{} is not supported here; use hessian2", serialization.name()))
    })?;
    let revision = values.read_string(request.args()).map_err(|error| bad(error.to_string()))?;
    let announced = worker.outbound.registries().find_map(|registry| {
        registry.announced(&service.group, revision.as_deref().unwrap_or_default())
    });
    let Some(metadata) = announced else {
        return Ok(MetadataResult { kind: ReplyKind::Null, value: Vec::new() });
    };
    let (mut value, ty) = (Vec::new(), JavaType::class(METADATA_CLASS));
    let classes = MetadataClasses::default();
    values
        .write_value(metadata.to_json().as_bytes(), Some(&ty), &classes, &mut value)
        .map_err(|error| CallError::new(Code::Internal, error.to_string()))?;
    Ok(MetadataResult { kind: ReplyKind::Value, value })
}
