//! What the embedded provider offers: `hash(String)`, `echo(String)`, and Dubbo's `$echo` and
//! generic calls of them. Requests in, values and refusals out; no socket, clock or task.
//!
//! Invariant: a refusal has the status, and in its text the words, by which real Dubbo providers
//! say the same; callers tell some of them apart by nothing else.

use std::borrow::Cow;

use dubbo_proto::{ReplyKind, Request, Serialization, ServiceKey, Status, fastjson};
use hessian::json::{self, JsonKind, JsonReader};
use hessian::transcode::JsonOptions;
use hessian::{Decoder, Encoder, Limits};

/// The descriptor of `hash` and `echo`.
const ONE_TEXT: &str = "Ljava/lang/String;";
/// The descriptor of `$echo`.
const ONE_OBJECT: &str = "Ljava/lang/Object;";
/// The descriptor of `$invoke`, which Dubbo compares to the letter.
const GENERIC: &str = "Ljava/lang/String;[Ljava/lang/String;[Ljava/lang/Object;";
/// What the generic call names a parameter of `hash` and `echo`.
const TEXT_NAME: &str = "java.lang.String";

/// Null in JSONB.
const JSONB_NULL: u8 = 0xaf;

/// The methods, for registries.
pub(crate) const METHODS: [&str; 2] = ["hash", "echo"];

/// The service of the embedded provider.
#[derive(Clone, Debug)]
pub(crate) struct HelloService {
    key: ServiceKey,
}

/// Why a request was not carried out.
#[derive(Debug, Eq, PartialEq)]
pub(crate) struct Refusal {
    /// Dubbo's status for it.
    pub(crate) status: Status,
    /// What the caller is told.
    pub(crate) text: String,
}

#[derive(Clone, Copy)]
enum Method {
    Hash,
    Echo,
}

impl Method {
    fn named(name: &str) -> Option<Self> {
        match name {
            "hash" => Some(Self::Hash),
            "echo" => Some(Self::Echo),
            _ => None,
        }
    }
}

/// One argument as it came, in the request's serialization; of a generic call all three.
struct Argument<'a> {
    serialization: Serialization,
    raw: &'a [u8],
}

impl<'a> Argument<'a> {
    /// `None` for null.
    fn text(&self) -> Result<Option<Cow<'a, str>>, Refusal> {
        match self.serialization {
            Serialization::Fastjson2 => jsonb::Decoder::new(self.raw, Limits::default())
                .read_opt_text()
                .map(|text| text.map(jsonb::Text::to_str))
                .map_err(|error| bad_argument(&error)),
            Serialization::Fastjson | Serialization::FastjsonSized => {
                let mut reader = JsonReader::new(self.raw, Limits::default());
                let text = match reader.peek() {
                    Ok(JsonKind::Null) => return Ok(None),
                    _ => reader.read_string(),
                };
                text.map(Some).map_err(|error| bad_argument(&error))
            }
            Serialization::Hessian2 => Decoder::new(self.raw, Limits::default())
                .read_opt_string()
                .map_err(|error| bad_argument(&error)),
            other @ Serialization::Other(_) => Err(unexpected(other)),
        }
    }

    fn is_null(&self) -> bool {
        match self.serialization {
            Serialization::Fastjson | Serialization::FastjsonSized => {
                self.raw.trim_ascii() == b"null"
            }
            Serialization::Fastjson2 => self.raw == [JSONB_NULL],
            Serialization::Hessian2 => self.raw == b"N",
            Serialization::Other(_) => false,
        }
    }
}

impl HelloService {
    /// The service under the name `key`.
    pub(crate) fn new(key: ServiceKey) -> Self {
        Self { key }
    }

    /// Carries a request out; the result's value is appended to `out` in the request's
    /// serialization.
    ///
    /// # Errors
    /// What a Dubbo provider answers to a request that it cannot carry out.
    pub(crate) fn answer(
        &self,
        request: &Request,
        out: &mut Vec<u8>,
    ) -> Result<ReplyKind, Refusal> {
        let (method, descriptor) = (request.method(), request.descriptor());
        let is_generic = matches!(method, "$invoke" | "$invokeAsync") && descriptor == GENERIC;
        let is_echo = method == "$echo" && descriptor == ONE_OBJECT;
        self.check_key(request, is_generic || is_echo)?;
        let answer_in = match request.serialization() {
            // The two framings of fastjson have the same texts.
            Serialization::FastjsonSized => Serialization::Fastjson,
            other => other,
        };
        let mut lines = Vec::new();
        let (serialization, raw) = match request.serialization() {
            sized @ Serialization::FastjsonSized => {
                fastjson::reframe(request.args(), sized, Serialization::Fastjson, &mut lines)
                    .map_err(|error| bad_argument(&error))?;
                (Serialization::Fastjson, &lines[..])
            }
            // The arguments of a generic call are read as the JSON that they stand for.
            Serialization::Fastjson2 if is_generic => {
                for value in sized(request.args())? {
                    let mut decoder = jsonb::Decoder::new(value, Limits::default());
                    jsonb::jsonb_to_json(&mut decoder, &mut lines, &JsonOptions::default())
                        .map_err(|error| bad_argument(&error))?;
                    lines.push(b'\n');
                }
                (Serialization::Fastjson, &lines[..])
            }
            Serialization::Fastjson2 => {
                let values = sized(request.args())?;
                (Serialization::Fastjson2, values.first().copied().unwrap_or_default())
            }
            other @ (Serialization::Hessian2 | Serialization::Fastjson) => (other, request.args()),
            other @ Serialization::Other(_) => return Err(unexpected(other)),
        };
        let argument = Argument { serialization, raw };
        match Method::named(method) {
            Some(method) if descriptor == ONE_TEXT => run(method, &argument, false, answer_in, out),
            _ if is_generic => self.generic(&argument, answer_in, out),
            _ if is_echo => Ok(give_back(&argument, out)),
            _ => Err(self.no_such_method(method)),
        }
    }

    /// Dubbo looks a plain call up twice, by the interface and then by the whole key, and says
    /// something different each time.
    fn check_key(&self, request: &Request, is_special: bool) -> Result<(), Refusal> {
        let path = request.attachment("path").unwrap_or_else(|| request.path());
        let version = match request.version() {
            dubbo_proto::service::NO_VERSION => "",
            version => version,
        };
        let group = request.attachment("group").unwrap_or("");
        let key = &self.key;
        if path == key.interface && version == key.version && group == key.group {
            return Ok(());
        }
        if path != key.interface && !is_special {
            return Err(self.not_found(path, request.method()));
        }
        let asked = ServiceKey {
            interface: path.to_owned(),
            version: version.to_owned(),
            group: group.to_owned(),
        };
        let text = format!(
            "Not found exported service: {asked}; this provider offers {key}: \
             do version and group fit?"
        );
        Err(Refusal { status: Status::ServiceError, text })
    }

    fn not_found(&self, path: &str, method: &str) -> Refusal {
        let text = format!(
            "Service not found:{path}, {method}; this provider offers {} with {}",
            self.key,
            METHODS.join(", ")
        );
        Refusal { status: Status::BadRequest, text }
    }

    fn no_such_method(&self, method: &str) -> Refusal {
        self.not_found(&self.key.interface, method)
    }

    /// `$invoke(name, type names, arguments)`.
    fn generic(
        &self,
        arguments: &Argument<'_>,
        answer_in: Serialization,
        out: &mut Vec<u8>,
    ) -> Result<ReplyKind, Refusal> {
        let serialization = arguments.serialization;
        let call = match serialization {
            Serialization::Hessian2 => GenericCall::read_hessian(arguments.raw)?,
            // The others come as JSON.
            Serialization::Fastjson | Serialization::FastjsonSized | Serialization::Fastjson2 => {
                GenericCall::read_json(arguments.raw)?
            }
            other @ Serialization::Other(_) => return Err(unexpected(other)),
        };
        let has_types = call.types.as_ref().is_none_or(|types| types == &[TEXT_NAME]);
        let Some(method) = Method::named(&call.method).filter(|_| has_types) else {
            let (interface, method) = (&self.key.interface, &call.method);
            let types = call.types.unwrap_or_default().join(",");
            let text = format!(
                "java.lang.NoSuchMethodException: {interface}.{method}({types}); there are {} \
                 with one {TEXT_NAME}",
                METHODS.join(", ")
            );
            return Err(Refusal { status: Status::ServiceError, text });
        };
        let [raw] = call.args[..] else {
            let text = format!("{} takes 1 argument, not {}", call.method, call.args.len());
            return Err(Refusal { status: Status::ServiceError, text });
        };
        run(method, &Argument { serialization, raw }, true, answer_in, out)
    }
}

/// The arguments of `$invoke`.
struct GenericCall<'a> {
    method: Cow<'a, str>,
    /// `None` if the caller leaves it to the provider.
    types: Option<Vec<Cow<'a, str>>>,
    args: Vec<&'a [u8]>,
}

impl<'a> GenericCall<'a> {
    fn read_hessian(args: &'a [u8]) -> Result<Self, Refusal> {
        Self::decode_hessian(args).map_err(|error| bad_argument(&error))
    }

    fn decode_hessian(args: &'a [u8]) -> Result<Self, hessian::HessianError> {
        let mut decoder = Decoder::new(args, Limits::default());
        let method = decoder.read_string()?;
        let types = match decoder.read_null()? {
            true => None,
            false => {
                let (mut types, mut list) = (Vec::new(), decoder.read_list_begin()?);
                while list.next(&mut decoder)? {
                    types.push(decoder.read_string()?);
                }
                Some(types)
            }
        };
        let mut values = Vec::new();
        if !decoder.read_null()? {
            let mut list = decoder.read_list_begin()?;
            while list.next(&mut decoder)? {
                let start = decoder.position();
                decoder.skip_value()?;
                values.push(args.get(start..decoder.position()).unwrap_or_default());
            }
        }
        Ok(Self { method, types, args: values })
    }

    fn read_json(args: &'a [u8]) -> Result<Self, Refusal> {
        Self::decode_json(args).map_err(|error| bad_argument(&error))
    }

    /// The lines are read as one text, since a line end is nothing but space to JSON.
    fn decode_json(args: &'a [u8]) -> Result<Self, json::JsonError> {
        let mut reader = JsonReader::new(args, Limits::default());
        let method = reader.read_string()?;
        let types = match reader.peek()? {
            JsonKind::Null => {
                reader.read_null()?;
                None
            }
            _ => {
                let (mut types, mut array) = (Vec::new(), reader.begin_array()?);
                while reader.next_element(&mut array)? {
                    types.push(reader.read_string()?);
                }
                Some(types)
            }
        };
        let mut values = Vec::new();
        match reader.peek()? {
            JsonKind::Null => reader.read_null()?,
            _ => {
                let mut array = reader.begin_array()?;
                while reader.next_element(&mut array)? {
                    values.push(reader.skip_value()?);
                }
            }
        }
        Ok(Self { method, types, args: values })
    }
}

/// In the words of a Java provider that does not permit a serialization.
fn unexpected(serialization: Serialization) -> Refusal {
    let text = format!(
        "Unexpected serialization id:{} received from network, please check if the peer \
         send the right id.",
        serialization.id()
    );
    Refusal { status: Status::BadRequest, text }
}

fn bad_argument(error: &dyn std::fmt::Display) -> Refusal {
    let text = format!("java.lang.IllegalArgumentException: the arguments cannot be read: {error}");
    Refusal { status: Status::BadRequest, text }
}

/// The values of a body in JSONB, each of which stands behind its length.
fn sized(args: &[u8]) -> Result<Vec<&[u8]>, Refusal> {
    let (mut values, mut rest) = (Vec::new(), args);
    while let Some((len, behind)) = rest.split_first_chunk::<4>() {
        let len = usize::try_from(u32::from_be_bytes(*len)).unwrap_or(usize::MAX);
        let short = || bad_argument(&"one of them is shorter than it says");
        let (value, behind) = behind.split_at_checked(len).ok_or_else(short)?;
        values.push(value);
        rest = behind;
    }
    Ok(values)
}

/// `answer_in` is what the caller speaks; of a generic call the argument may be in another serialization.
fn run(
    method: Method,
    argument: &Argument<'_>,
    is_generic: bool,
    answer_in: Serialization,
    out: &mut Vec<u8>,
) -> Result<ReplyKind, Refusal> {
    let text = argument.text()?;
    match method {
        Method::Echo if argument.serialization == answer_in => Ok(give_back(argument, out)),
        Method::Echo => match text {
            Some(text) => {
                jsonb::Encoder::new(out).string(&text);
                Ok(ReplyKind::Value)
            }
            None => Ok(ReplyKind::Null),
        },
        Method::Hash => match text {
            Some(text) => {
                let hash = java_hash(&text);
                match answer_in {
                    Serialization::Fastjson | Serialization::FastjsonSized => {
                        json::write_i64(out, i64::from(hash));
                    }
                    Serialization::Fastjson2 => jsonb::Encoder::new(out).int(hash),
                    Serialization::Hessian2 => hessian::write_int(out, hash),
                    other @ Serialization::Other(_) => return Err(unexpected(other)),
                }
                Ok(ReplyKind::Value)
            }
            None => {
                let exception = "java.lang.NullPointerException";
                let message = "hash() has no hash code for null";
                write_exception(answer_in, exception, message, is_generic, out);
                Ok(ReplyKind::Exception)
            }
        },
    }
}

fn give_back(argument: &Argument<'_>, out: &mut Vec<u8>) -> ReplyKind {
    if argument.is_null() {
        return ReplyKind::Null;
    }
    out.extend_from_slice(argument.raw);
    ReplyKind::Value
}

/// As Java's provider writes it; a generic call gets it wrapped, since its caller may not have the
/// exception's class.
fn write_exception(
    serialization: Serialization,
    class: &str,
    message: &str,
    is_generic: bool,
    out: &mut Vec<u8>,
) {
    const WRAPPER: &str = "org.apache.dubbo.rpc.service.GenericException";
    let (outer, fields): (_, &[(&str, &str)]) = match is_generic {
        true => (WRAPPER, &[("exceptionClass", class), ("exceptionMessage", message)]),
        false => (class, &[]),
    };
    if serialization == Serialization::Fastjson {
        out.extend_from_slice(b"{\"@type\":");
        json::write_string(out, outer);
        for (name, value) in fields.iter().chain(&[("message", message)]) {
            out.push(b',');
            json::write_string(out, name);
            out.push(b':');
            json::write_string(out, value);
        }
        out.push(b'}');
        return;
    }
    if serialization == Serialization::Fastjson2 {
        let mut encoder = jsonb::Encoder::new(out);
        encoder.class(outer);
        encoder.object_begin();
        for (name, value) in fields.iter().chain(&[("detailMessage", message)]) {
            encoder.string(name);
            encoder.string(value);
        }
        encoder.object_end();
        return;
    }
    let names: Vec<&str> = fields.iter().map(|(name, _)| *name).chain(["detailMessage"]).collect();
    let mut encoder = Encoder::new(out);
    encoder.object_begin(outer, &names);
    fields.iter().for_each(|(_, value)| encoder.string(value));
    encoder.string(message);
}

/// Java's `String.hashCode`: 31-fold of what came before, plus the next unit of UTF-16.
pub(crate) fn java_hash(text: &str) -> i32 {
    let hash = match text.is_ascii() {
        true => ascii_hash(text.as_bytes()),
        false => text.encode_utf16().fold(0_u32, |hash, unit| step(hash, u32::from(unit))),
    };
    hash.cast_signed()
}

const fn step(hash: u32, unit: u32) -> u32 {
    hash.wrapping_mul(31).wrapping_add(unit)
}

/// Sixteen bytes at a time, because one multiplication after the other takes four cycles a byte:
/// a thousand bytes would cost more than all the rest of a call.
fn ascii_hash(bytes: &[u8]) -> u32 {
    const LEN: usize = 16;
    const POWERS: [u32; LEN] = {
        let mut powers = [1_u32; LEN];
        let mut i = LEN - 1;
        while 0 < i {
            powers[i - 1] = powers[i].wrapping_mul(31);
            i -= 1;
        }
        powers
    };
    const WHOLE: u32 = POWERS[0].wrapping_mul(31);
    let (chunks, rest) = bytes.as_chunks::<LEN>();
    let hash = chunks.iter().fold(0_u32, |hash, chunk| {
        let terms =
            chunk.iter().zip(POWERS).map(|(byte, power)| u32::from(*byte).wrapping_mul(power));
        hash.wrapping_mul(WHOLE).wrapping_add(terms.fold(0, u32::wrapping_add))
    });
    rest.iter().fold(hash, |hash, byte| step(hash, u32::from(*byte)))
}

#[cfg(test)]
mod tests;
