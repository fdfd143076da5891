//! Requests on their way in: what is asked for is read, the arguments are only walked past.
//!
//! Source: apache/dubbo, `DecodeableRpcInvocation`.

use bytes::Bytes;

use crate::body::{BodyLimits, RequestParts};
use crate::{PROTOCOL_VERSION, ProtoError, Serialization, ServiceKey};

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
