//! What the embedded provider offers: `hash(String)`, `echo(String)`, `twice(String)`,
//! `sized(String)`, and Dubbo's `$echo` and generic calls of them. Requests in, values and
//! refusals out; no socket, clock or task.
//!
//! Invariant: a refusal has the status, and in its text the words, by which real Dubbo providers
//! say the same; callers tell some of them apart by nothing else.

use std::borrow::Cow;

use dubbo_proto::{
    JsonTexts, ReadOptions, ReplyKind, Request, Serialization, ServiceKey, Status, ThrownTexts,
    ValueCodec,
};
use hessian::Limits;
use hessian::json::{self, JsonKind, JsonReader};
use hessian::transcode::JsonOptions;

/// The interface of the Dubbo Mesh contest, which the Java samples offer, too.
pub const HELLO: &str = "com.alibaba.dubbo.performance.demo.provider.IHelloService";
/// The descriptor of all methods.
const ONE_TEXT: &str = "Ljava/lang/String;";
/// The descriptor of `$echo`.
const ONE_OBJECT: &str = "Ljava/lang/Object;";
/// The descriptor of `$invoke`, which Dubbo compares to the letter.
const GENERIC: &str = "Ljava/lang/String;[Ljava/lang/String;[Ljava/lang/Object;";
/// What the generic call names their parameter.
const TEXT_NAME: &str = "java.lang.String";
/// Where Dubbo refuses what a generic call asks for. Callers tell such a refusal by this frame.
const FILTER_FRAME: &str =
    "\n\tat org.apache.dubbo.rpc.filter.GenericFilter.invoke(GenericFilter.java)";
/// How many arguments `$invoke` has.
const N_GENERIC_ARGS: usize = 3;

/// The methods, for registries.
pub const METHODS: [&str; 4] = ["hash", "echo", "twice", "sized"];
/// The longest text that `sized` gives, in characters.
const MAX_SIZED_LEN: usize = 64 << 20;

/// The service of the embedded provider.
#[derive(Clone, Debug)]
pub(crate) struct HelloService {
    key: ServiceKey,
}

/// Why a request was not carried out.
#[derive(Debug, Eq, PartialEq)]
pub(crate) struct RequestRefusal {
    /// Dubbo's status for it.
    pub status: Status,
    /// What the caller is told.
    pub text: String,
}

/// How a caller writes the argument and reads the result.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum CallForm {
    /// Not by a generic call.
    Plain,
    /// As they are; `true` and `raw.return`, which are one where nothing is an object.
    Map,
    /// As JSON in strings.
    Gson,
}

impl CallForm {
    /// What the attachment `generic` of a generic call asks for. As in Dubbo, a word that it does
    /// not know is none.
    fn of_generic(request: &Request) -> Result<Self, RequestRefusal> {
        match request.attachment("generic") {
            Some("gson") => Ok(Self::Gson),
            Some(other @ ("bean" | "nativejava" | "protobuf-json")) => Err(bad_generic(&format!(
                "org.apache.dubbo.rpc.RpcException: Generic serialization [{other}] is not \
                 supported by this provider; use generic=true or gson"
            ))),
            _ => Ok(Self::Map),
        }
    }
}

#[derive(Clone, Copy)]
enum ProviderMethod {
    Hash,
    Echo,
    Twice,
    Sized,
}

impl ProviderMethod {
    fn named(name: &str) -> Option<Self> {
        match name {
            "hash" => Some(Self::Hash),
            "echo" => Some(Self::Echo),
            "twice" => Some(Self::Twice),
            "sized" => Some(Self::Sized),
            _ => None,
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
    ) -> Result<ReplyKind, RequestRefusal> {
        let (method, descriptor) = (request.method(), request.descriptor());
        let is_generic = matches!(method, "$invoke" | "$invokeAsync") && descriptor == GENERIC;
        let is_echo = method == "$echo" && descriptor == ONE_OBJECT;
        self.check_key(request, is_generic || is_echo)?;
        let serialization = request.serialization();
        let Some(values) = serialization.values() else { return Err(unexpected(serialization)) };
        let only_arg = || serialization.only_arg(request.args()).map_err(|e| bad_argument(&e));
        match ProviderMethod::named(method) {
            Some(method) if descriptor == ONE_TEXT => {
                let raw = only_arg()?;
                let text = values.read_string(raw).map_err(|error| bad_argument(&error))?;
                Ok(match (method, &text) {
                    (ProviderMethod::Echo, Some(_)) => give_back(values, raw, out),
                    _ => run(method, text.as_deref(), CallForm::Plain, values, out),
                })
            }
            _ if is_generic => self.generic(request, values, out),
            _ if is_echo => Ok(give_back(values, only_arg()?, out)),
            _ => Err(self.no_such_method(method)),
        }
    }

    /// Dubbo looks a plain call up twice, by the interface and then by the whole key, and says
    /// something different each time.
    fn check_key(&self, request: &Request, is_special: bool) -> Result<(), RequestRefusal> {
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
            "Not found exported service: {asked}; this provider offers {key}; check version and \
             group"
        );
        Err(RequestRefusal { status: Status::ServiceError, text })
    }

    fn not_found(&self, path: &str, method: &str) -> RequestRefusal {
        let text = format!(
            "Service not found:{path}, {method}; this provider offers {} with {}",
            self.key,
            METHODS.join(", ")
        );
        RequestRefusal { status: Status::BadRequest, text }
    }

    fn no_such_method(&self, method: &str) -> RequestRefusal {
        self.not_found(&self.key.interface, method)
    }

    /// `$invoke(name, type names, arguments)`, which are read as the JSON that they stand for.
    fn generic(
        &self,
        request: &Request,
        values: &dyn ValueCodec,
        out: &mut Vec<u8>,
    ) -> Result<ReplyKind, RequestRefusal> {
        let form = CallForm::of_generic(request)?;
        let options = ReadOptions { json: &JsonOptions::default(), schema: None };
        let texts = values
            .read_args(request.args(), N_GENERIC_ARGS, None, options)
            .map_err(|error| bad_argument(&error))?;
        let call = GenericCall::read(&texts).map_err(|error| bad_argument(&error))?;
        let has_types = call.types.as_ref().is_none_or(|types| types == &[TEXT_NAME]);
        let Some(method) = ProviderMethod::named(&call.method).filter(|_| has_types) else {
            let (interface, method) = (&self.key.interface, &call.method);
            let types = call.types.unwrap_or_default().join(",");
            let text = format!(
                "java.lang.NoSuchMethodException: {interface}.{method}({types}); the methods are \
                 {}, with one {TEXT_NAME}",
                METHODS.join(", ")
            );
            return Err(RequestRefusal { status: Status::ServiceError, text });
        };
        let [raw] = call.args[..] else {
            return Err(bad_generic(&format!(
                "org.apache.dubbo.rpc.RpcException: GenericFilter#invoke args.length != \
                 types.length; {} takes 1 argument, not {}",
                call.method,
                call.args.len()
            )));
        };
        let text = match form {
            CallForm::Plain | CallForm::Map => text_of(raw),
            CallForm::Gson => text_in_text(raw),
        };
        let text = text.map_err(|error| {
            let class = "java.lang.IllegalArgumentException";
            bad_generic(&format!(
                "{class}: the argument of {} is no {TEXT_NAME}: {error}",
                call.method
            ))
        })?;
        Ok(run(method, text.as_deref(), form, values, out))
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
    fn read(texts: &'a JsonTexts) -> Result<Self, json::JsonError> {
        let reader =
            |index| JsonReader::new(texts.at(index).unwrap_or(b"null"), Limits::of_whole());
        let method = reader(0).read_string()?;
        let mut reader_of_types = reader(1);
        let types = match reader_of_types.peek()? {
            JsonKind::Null => None,
            _ => {
                let (mut types, mut array) = (Vec::new(), reader_of_types.begin_array()?);
                while reader_of_types.next_element(&mut array)? {
                    types.push(reader_of_types.read_string()?);
                }
                Some(types)
            }
        };
        let (mut args, mut reader) = (Vec::new(), reader(2));
        if reader.peek()? != JsonKind::Null {
            let mut array = reader.begin_array()?;
            while reader.next_element(&mut array)? {
                args.push(reader.skip_value()?);
            }
        }
        Ok(Self { method, types, args })
    }
}

/// A text, or null.
fn text_of(json: &[u8]) -> Result<Option<Cow<'_, str>>, json::JsonError> {
    let mut reader = JsonReader::new(json, Limits::of_whole());
    match reader.peek()? {
        JsonKind::Null => Ok(None),
        _ => reader.read_string().map(Some),
    }
}

/// The same in the JSON that a text holds. Gson takes a number and a boolean for a text, too.
fn text_in_text(json: &[u8]) -> Result<Option<Cow<'_, str>>, json::JsonError> {
    let inner = JsonReader::new(json, Limits::of_whole()).read_string()?;
    let mut reader = JsonReader::new(inner.as_bytes(), Limits::of_whole());
    let text = match reader.peek()? {
        JsonKind::Number | JsonKind::Bool => {
            Some(String::from_utf8_lossy(reader.skip_value()?).into_owned())
        }
        JsonKind::Null => {
            reader.skip_value()?;
            None
        }
        _ => Some(reader.read_string()?.into_owned()),
    };
    reader.finish()?;
    Ok(text.map(Cow::Owned))
}

/// A generic call that Dubbo refuses before it looks at the method's own code.
fn bad_generic(text: &str) -> RequestRefusal {
    RequestRefusal { status: Status::ServiceError, text: format!("{text}{FILTER_FRAME}") }
}

/// In the words of a Java provider that does not permit a serialization.
fn unexpected(serialization: Serialization) -> RequestRefusal {
    let text = format!(
        "Unexpected serialization id:{} received from network, please check if the peer \
         send the right id.",
        serialization.id()
    );
    RequestRefusal { status: Status::BadRequest, text }
}

fn bad_argument(error: &dyn std::fmt::Display) -> RequestRefusal {
    let text = format!("java.lang.IllegalArgumentException: the arguments cannot be read: {error}");
    RequestRefusal { status: Status::BadRequest, text }
}

fn run(
    method: ProviderMethod,
    text: Option<&str>,
    form: CallForm,
    values: &dyn ValueCodec,
    out: &mut Vec<u8>,
) -> ReplyKind {
    match (method, text) {
        (ProviderMethod::Echo, Some(text)) => write_text(text, form, values, out),
        (ProviderMethod::Twice, Some(text)) => write_text(&text.repeat(2), form, values, out),
        (ProviderMethod::Sized, Some(number)) => match number.parse() {
            Ok(len @ 0..=MAX_SIZED_LEN) => write_text(&"x".repeat(len), form, values, out),
            _ => {
                let exception = "java.lang.IllegalArgumentException";
                let message = format!("sized() takes a number from 0 to {MAX_SIZED_LEN}");
                write_exception(values, exception, &message, form, out);
                return ReplyKind::Exception;
            }
        },
        (ProviderMethod::Echo | ProviderMethod::Twice | ProviderMethod::Sized, None) => {
            return ReplyKind::Null;
        }
        (ProviderMethod::Hash, Some(text)) => match form {
            CallForm::Plain | CallForm::Map => values.write_int(java_hash(text), out),
            CallForm::Gson => values.write_string(&java_hash(text).to_string(), out),
        },
        (ProviderMethod::Hash, None) => {
            let exception = "java.lang.NullPointerException";
            write_exception(values, exception, "hash() has no hash code for null", form, out);
            return ReplyKind::Exception;
        }
    }
    ReplyKind::Value
}

fn write_text(text: &str, form: CallForm, values: &dyn ValueCodec, out: &mut Vec<u8>) {
    match form {
        CallForm::Plain | CallForm::Map => values.write_string(text, out),
        CallForm::Gson => {
            let mut json = Vec::new();
            json::write_string(&mut json, text);
            values.write_string(&String::from_utf8_lossy(&json), out);
        }
    }
}

/// Gives an argument back as it is.
fn give_back(values: &dyn ValueCodec, raw: &[u8], out: &mut Vec<u8>) -> ReplyKind {
    if values.is_null(raw) {
        return ReplyKind::Null;
    }
    out.extend_from_slice(raw);
    ReplyKind::Value
}

/// As Java's provider writes it; a generic call gets it wrapped, since its caller may not have the
/// exception's class.
fn write_exception(
    values: &dyn ValueCodec,
    class: &str,
    message: &str,
    form: CallForm,
    out: &mut Vec<u8>,
) {
    const WRAPPER: &str = "org.apache.dubbo.rpc.service.GenericException";
    let (class, fields): (_, &[(&str, &str)]) = match form {
        CallForm::Plain => (class, &[]),
        CallForm::Map | CallForm::Gson => {
            (WRAPPER, &[("exceptionClass", class), ("exceptionMessage", message)])
        }
    };
    values.write_exception(ThrownTexts { class, message, fields }, out);
}

/// Java's `String.hashCode`: 31-fold of what came before, plus the next unit of UTF-16.
pub fn java_hash(text: &str) -> i32 {
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
