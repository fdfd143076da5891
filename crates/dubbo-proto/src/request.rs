//! Requests on their way in: what is asked for is read, the arguments are only walked past.
//!
//! Source: apache/dubbo, `DecodeableRpcInvocation`.

use bytes::Bytes;
use java_json::JsonOptions;

use crate::body::{BodyLimits, FIELDS, RequestParts};
use crate::serialization::codec::{ReplyParts, SIZE_LEN};
use crate::serialization::texts;
use crate::service::NO_VERSION;
use crate::values::ValueError;
use crate::{PROTOCOL_VERSION, ProtoError, Serialization, ServiceKey};

/// About as much as a few more attachments take.
const MORE_LEN: usize = 256;

/// A request whose parts have been found. The texts and the arguments stay where they are in
/// the body.
#[derive(Clone, Debug)]
pub struct Request {
    pub(crate) serialization: Serialization,
    parts: RequestParts,
}

impl Request {
    /// Finds the parts of a request's body. Which framing of fastjson it has is seen from its
    /// first byte.
    ///
    /// # Errors
    /// [`ProtoError`] when the body is broken or passes a limit. The frame around it was whole,
    /// so the connection can go on.
    pub fn decode(
        serialization: Serialization,
        body: Bytes,
        limits: &BodyLimits,
    ) -> Result<Self, ProtoError> {
        let serialization = serialization.of_body(&body);
        // Read in place, for the parts are long to move.
        let mut request = Self { serialization, parts: RequestParts::of(body) };
        serialization.bodies()?.read_request(&mut request.parts, limits)?;
        Ok(request)
    }

    /// How the body is written.
    #[must_use]
    pub const fn serialization(&self) -> Serialization {
        self.serialization
    }

    /// The protocol version that the consumer speaks, such as `2.0.2`.
    #[must_use]
    pub fn dubbo_version(&self) -> &str {
        self.parts.fields[0].get(&self.parts.body)
    }

    /// The path of the service as it is in the body.
    #[must_use]
    pub fn path(&self) -> &str {
        self.parts.fields[1].get(&self.parts.body)
    }

    /// The service's version; Dubbo writes `0.0.0` for none.
    #[must_use]
    pub fn version(&self) -> &str {
        self.parts.fields[2].get(&self.parts.body)
    }

    /// The method.
    #[must_use]
    pub fn method(&self) -> &str {
        self.parts.fields[3].get(&self.parts.body)
    }

    /// JVM descriptors of the parameters.
    #[must_use]
    pub fn descriptor(&self) -> &str {
        self.parts.fields[4].get(&self.parts.body)
    }

    /// How many arguments there are, as the descriptor says.
    #[must_use]
    pub const fn n_args(&self) -> usize {
        self.parts.n_args
    }

    /// The arguments as they came: hessian2 values one after another, JSON texts joined by line
    /// breaks, or JSON texts or JSONB values each behind its length.
    #[must_use]
    pub fn args(&self) -> &[u8] {
        self.parts.body.get(self.parts.args.clone()).unwrap_or_default()
    }

    /// The same, as a slice that keeps the buffer alive.
    #[must_use]
    pub fn args_bytes(&self) -> Bytes {
        self.parts.body.slice(self.parts.args.clone())
    }

    /// The whole body, to be passed on as it came.
    #[must_use]
    pub const fn body(&self) -> &Bytes {
        &self.parts.body
    }

    /// The attachments whose values are strings.
    pub fn attachments(&self) -> impl Iterator<Item = (&str, &str)> {
        self.parts
            .attachments
            .iter()
            .map(|(name, value)| (name.get(&self.parts.body), value.get(&self.parts.body)))
    }

    /// Whether there may be attachments whose values are not strings.
    #[must_use]
    pub const fn may_have_other_attachments(&self) -> bool {
        self.parts.may_have_others
    }

    /// Appends the map of all attachments as JSON, and says whether there is one.
    ///
    /// # Errors
    /// [`ValueError`] when it is broken, or has no form in JSON.
    pub fn write_attachments_json(
        &self,
        options: &JsonOptions,
        out: &mut Vec<u8>,
    ) -> Result<bool, ValueError> {
        // They end a request as they end a reply.
        let n_values = FIELDS.len() + self.n_args();
        let body = &self.parts.body;
        let parts = ReplyParts { body, n_values, value_start: 0, value_end: None };
        match self.serialization.bodies()?.find_attachments(&parts, &BodyLimits::default())? {
            Some(map) => {
                let values = self.serialization.known_values()?;
                map.write_json(values, options, out).map(|()| true)
            }
            None => Ok(false),
        }
    }

    /// The attachment with this name; the last one if there are several, as in a Java map.
    #[must_use]
    pub fn attachment(&self, name: &str) -> Option<&str> {
        let found =
            self.parts.attachments.iter().rev().find(|(key, _)| key.get(&self.parts.body) == name);
        found.map(|(_, value)| value.get(&self.parts.body))
    }

    /// The key of the service that is asked for. The group travels only among the attachments,
    /// and a path that is there counts more than the one in the body, as in Dubbo.
    ///
    /// # Errors
    /// [`ProtoError::Name`] when a part of it is invalid.
    pub fn service_key(&self) -> Result<ServiceKey, ProtoError> {
        let interface = self.attachment("path").unwrap_or_else(|| self.path());
        ServiceKey::new(interface, self.version(), self.attachment("group").unwrap_or(""))
    }

    /// The same request of another version of the service, with more attachments. One of these
    /// takes the place of an attachment of the same name. All else stays as its consumer wrote it,
    /// but for attachments that are not texts if the end of the body is written in an unusual way.
    ///
    /// # Errors
    /// [`ProtoError`] when a name is invalid, or this crate does not write the serialization.
    pub fn changed(&self, version: &str, more: &[(&str, &str)]) -> Result<Bytes, ProtoError> {
        let bodies = self.serialization.bodies()?;
        let version = if version.is_empty() { NO_VERSION } else { version };
        let mut out = Vec::with_capacity(self.parts.body.len() + MORE_LEN);
        for field in [self.dubbo_version(), self.path(), version, self.method(), self.descriptor()]
        {
            bodies.write_text(&mut out, field);
        }
        out.extend_from_slice(self.args());
        let before_map = bodies.args_end(self.n_args()).len();
        let rest = self.parts.body.get(self.parts.args.end..).unwrap_or_default();
        let (args_end, map) = rest.split_at(before_map.min(rest.len()));
        let size_len = if bodies.is_sized() { SIZE_LEN } else { 0 };
        let mut empty = Vec::new();
        let open_len = bodies.write_map(&mut empty, &[]);
        let (open, end) = empty.split_at(open_len);
        let open = open.get(size_len..).unwrap_or_default();
        let entries = map.get(size_len..).unwrap_or_default().strip_suffix(end);
        if let Some(entries) = entries.filter(|entries| entries.starts_with(open)) {
            let has_some = bodies.begins_with_entry() || open.len() < entries.len();
            let mut written = Vec::new();
            bodies.write_entries(&mut written, has_some, more);
            out.extend_from_slice(args_end);
            if bodies.is_sized() {
                let len = entries.len() + written.len() + end.len();
                out.extend_from_slice(&texts::size(len));
            }
            out.extend_from_slice(entries);
            out.extend_from_slice(&written);
            out.extend_from_slice(end);
            return Ok(out.into());
        }
        let is_replaced = |name: &str| more.iter().any(|(other, _)| *other == name);
        let kept = self.attachments().filter(|(name, _)| !is_replaced(name));
        let all: Vec<(&str, &str)> = kept.chain(more.iter().copied()).collect();
        out.extend_from_slice(bodies.args_end(self.n_args()));
        bodies.write_map(&mut out, &all);
        Ok(out.into())
    }

    /// Whether the consumer understands attachments in replies: Dubbo's protocol versions from
    /// 2.0.2 to 2.0.99. Source: `Version.isSupportResponseAttachment`.
    #[must_use]
    pub fn takes_reply_attachments(&self) -> bool {
        // Nearly all consumers announce this one, and comparing costs much less than reading it.
        if self.parts.fields[0].is(&self.parts.body, PROTOCOL_VERSION) {
            return true;
        }
        let patch = self.dubbo_version().strip_prefix("2.0.");
        patch.and_then(|patch| patch.parse::<u32>().ok()).is_some_and(|n| (2..=99).contains(&n))
    }
}

#[cfg(test)]
mod tests;
