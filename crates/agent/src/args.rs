//! The arguments of a call as the caller wrote them, and their way into a serialization.

mod encoded_method;
pub(crate) mod fits;
mod gson;
mod java_text;
mod owned;
mod types;
mod unknown;

pub use self::encoded_method::EncodedMethod;
pub use self::java_text::{member_of_json, text_of_json};
pub use self::owned::OwnedArguments;

use std::borrow::Cow;

use bytes::Bytes;
use dubbo_proto::{GenericHead, Serialization, ServiceDefinition};
use hessian::json::{self, JsonError, JsonKind, JsonReader, JsonRule};
use hessian::transcode::{InputOptions, ScalarCheck, Schema};
use hessian::{JavaType, Limits};
use memchr::memmem;
use wire::Hold;

use crate::error::{CallError, Code};
use crate::offload::Thread;
use crate::route::constants::{Constant, NotedConstants};
use crate::route::{ParameterTypes, Plan, Route, unsupported};

use self::encoded_method::ArgumentsOf;
use self::fits::Fit;
use self::java_text::text_of_number;
pub use self::types::parse_types;
pub(crate) use self::types::understood;

/// More parameters than any Java method has.
pub const MAX_ARGUMENTS: usize = 255;

/// The arguments of one call.
#[derive(Debug)]
pub struct ArgumentList<'a> {
    texts: Texts<'a>,
    /// What the texts are parts of, if that can be shared with another thread.
    source: Option<&'a Bytes>,
}

#[derive(Debug)]
enum Texts<'a> {
    /// Each is one JSON text.
    Json(Vec<&'a [u8]>),
    /// The same; `{"$ref":"$.a"}` in one names another value of the same argument.
    JsonWithRefs(Vec<&'a [u8]>),
    /// Each is plain text, to be understood by its parameter's type.
    Plain(&'a [Cow<'a, str>]),
}

impl<'a> ArgumentList<'a> {
    /// Reads a JSON array of arguments, one bare value, or nothing at all.
    ///
    /// # Errors
    /// [`Code::BadRequest`] with the place if it is not JSON, is nested too deep, or holds too
    /// many arguments. [`Code::BodyTooLarge`] if it holds too many values.
    pub fn json(body: &'a [u8]) -> Result<Self, CallError> {
        let mut reader = JsonReader::new(body, Limits::of_whole());
        let mut values = Vec::new();
        if reader.is_at_end() {
            return Ok(Self::of_values(values));
        }
        if reader.peek().map_err(broken)? == json::JsonKind::Array {
            let mut array = reader.begin_array().map_err(broken)?;
            while reader.next_element(&mut array).map_err(broken)? {
                if values.len() == MAX_ARGUMENTS {
                    let message = format!("more than {MAX_ARGUMENTS} arguments");
                    return Err(CallError::new(Code::BadRequest, message));
                }
                values.push(reader.skip_value().map_err(broken)?);
            }
        } else {
            values.push(reader.skip_value().map_err(broken)?);
        }
        reader.finish().map_err(broken)?;
        Ok(Self::of_values(values))
    }

    /// The same of a body that can be shared with another thread.
    ///
    /// # Errors
    /// As [`ArgumentList::json`].
    pub fn of_body(body: &'a Bytes) -> Result<Self, CallError> {
        Ok(Self { source: Some(body), ..Self::json(body)? })
    }

    /// Arguments that are one JSON text each.
    pub fn of_values(values: Vec<&'a [u8]>) -> Self {
        Self { texts: Texts::Json(values), source: None }
    }

    /// Arguments that are plain text each, to be understood by their parameters' types.
    pub fn plain(texts: &'a [Cow<'a, str>]) -> Self {
        Self { texts: Texts::Plain(texts), source: None }
    }

    /// Bytes of all arguments, as they came.
    pub fn len_in_bytes(&self) -> usize {
        match &self.texts {
            Texts::Json(values) | Texts::JsonWithRefs(values) => {
                values.iter().map(|value| value.len()).sum()
            }
            Texts::Plain(texts) => texts.iter().map(|text| text.len()).sum(),
        }
    }

    /// Takes references in JSON for what they name.
    #[must_use]
    pub fn with_refs(self) -> Self {
        let texts = match self.texts {
            Texts::Json(values) => Texts::JsonWithRefs(values),
            other => other,
        };
        Self { texts, ..self }
    }

    /// Arguments that were written again.
    pub fn of_texts(texts: &'a [Vec<u8>]) -> Self {
        Self::of_values(texts.iter().map(Vec::as_slice).collect())
    }

    /// Each argument as JSON text inside of a JSON string, for `generic=gson`.
    pub fn quoted(&self) -> Vec<Vec<u8>> {
        let quoted = |index| {
            let mut text = Vec::new();
            let json = self.json_at(index, None);
            json::write_string(&mut text, &String::from_utf8_lossy(&json));
            text
        };
        (0..self.len()).map(quoted).collect()
    }

    /// The last `n_packed` arguments as one array.
    pub fn packed(&self, n_packed: usize) -> Vec<Vec<u8>> {
        let n_front = self.len().saturating_sub(n_packed);
        let text = |index| self.json_at(index, None).into_owned();
        let mut texts: Vec<Vec<u8>> = (0..n_front).map(text).collect();
        let elements: Vec<Vec<u8>> = (n_front..self.len()).map(text).collect();
        texts.push([b"[", elements.join(&b',').as_slice(), b"]"].concat());
        texts
    }

    /// Whether the last argument is an element of the array that its parameter wants.
    pub fn ends_in_element(&self, types: &[JavaType]) -> bool {
        let Some((JavaType::Array(element), front)) = types.split_last() else { return false };
        if self.len() != types.len() {
            return false;
        }
        let text = self.json_at(front.len(), None);
        match JsonReader::new(&text, Limits::of_whole()).peek() {
            Ok(JsonKind::Array | JsonKind::Null) | Err(_) => false,
            // Text stands for an array of these.
            Ok(JsonKind::String) => !matches!(**element, JavaType::Byte | JavaType::Char),
            Ok(_) => true,
        }
    }

    /// Whether the text has the name of a class somewhere.
    pub(crate) fn mentions(&self, class: &str) -> bool {
        let finder = memmem::Finder::new(class);
        match &self.texts {
            Texts::Json(values) | Texts::JsonWithRefs(values) => {
                values.iter().any(|text| finder.find(text).is_some())
            }
            Texts::Plain(values) => {
                values.iter().any(|text| finder.find(text.as_bytes()).is_some())
            }
        }
    }

    /// How well the argument at `index` fits a type.
    pub(crate) fn fits(
        &self,
        index: usize,
        ty: &JavaType,
        service: Option<&ServiceDefinition>,
    ) -> Fit {
        fits::of_json(&self.json_at(index, Some(ty)), ty, service)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        match &self.texts {
            Texts::Json(values) | Texts::JsonWithRefs(values) => values.len(),
            Texts::Plain(values) => values.len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The argument at `index` as Java's `String.valueOf` shows it, if it is a text, a number, a
    /// boolean or null. `ty` is the type of its parameter, if that is known.
    pub fn text_at(&self, index: usize, ty: Option<&JavaType>) -> Option<Cow<'_, str>> {
        match &self.texts {
            Texts::Json(values) | Texts::JsonWithRefs(values) => {
                text_of_json(values.get(index)?, ty)
            }
            // Without a type it is a text.
            Texts::Plain(values) => {
                let text = values.get(index)?;
                let is_number = text.starts_with(|c: char| c == '-' || c.is_ascii_digit());
                let ty = ty.filter(|_| is_number);
                Some(ty.map_or(Cow::Borrowed(&**text), |ty| text_of_number(text, Some(ty))))
            }
        }
    }

    /// The same of what is at a path in the argument at `index`.
    pub fn member_at(&self, index: usize, path: &[String]) -> Option<Cow<'_, str>> {
        match &self.texts {
            Texts::Json(values) | Texts::JsonWithRefs(values) => {
                member_of_json(values.get(index)?, path)
            }
            Texts::Plain(values) => member_of_json(values.get(index)?.as_bytes(), path),
        }
    }

    /// All of them as a JSON array, of which no more is written once it has so many bytes.
    pub fn shown(&self, max_len: usize) -> String {
        let texts = (0..self.len()).map(|index| self.json_at(index, None));
        join_json(texts, max_len)
    }

    /// The argument at `index` as JSON text, by the type of its parameter.
    fn json_at(&self, index: usize, ty: Option<&JavaType>) -> Cow<'a, [u8]> {
        match &self.texts {
            Texts::Json(values) | Texts::JsonWithRefs(values) => {
                Cow::Borrowed(values.get(index).copied().unwrap_or(b"null"))
            }
            Texts::Plain(values) => {
                let text = values.get(index).map_or("", |text| text);
                let mut reader = JsonReader::new(text.as_bytes(), Limits::of_whole());
                let is_json = !ty.is_some_and(is_text)
                    && reader.skip_value().is_ok()
                    && reader.finish().is_ok();
                let mut quoted = Vec::new();
                match is_json {
                    true => quoted.extend_from_slice(text.as_bytes()),
                    false => json::write_string(&mut quoted, text),
                }
                Cow::Owned(quoted)
            }
        }
    }

    /// Plain text for a parameter that takes text: the way of most calls of a form.
    fn plain_text_at(&self, index: usize, ty: Option<&JavaType>) -> Option<&str> {
        match &self.texts {
            Texts::Plain(values) if ty.is_some_and(is_text) => {
                values.get(index).map(|text| &**text)
            }
            _ => None,
        }
    }

    /// Checks the arguments that are sent without their types, whose values Java would make fit:
    /// `is_sent` says which are sent with them. What has no type may name classes that `schema`
    /// knows. `writes_constants` is whether the name of a constant is sent for its number.
    ///
    /// # Errors
    /// [`Code::BadArguments`] with a value that the type of its place does not have.
    pub fn check_scalars(
        &self,
        types: &[JavaType],
        schema: &dyn Schema,
        writes_constants: bool,
        is_sent: impl Fn(usize) -> bool,
    ) -> Result<(), CallError> {
        let refs = matches!(self.texts, Texts::JsonWithRefs(_));
        let known = ScalarCheck { schema, refs, takes_ordinals: writes_constants };
        for index in (0..self.len()).filter(|&index| !is_sent(index)) {
            let ty = types.get(index);
            if self.plain_text_at(index, ty).is_some() {
                continue;
            }
            let text = self.json_at(index, ty);
            known
                .check(&mut JsonReader::new(&text, Limits::of_whole()), ty)
                .map_err(|error| bad_argument(index, ty, &error.to_string()))?;
        }
        Ok(())
    }

    /// The texts that may be constants of enums whose values are listed. If there is a value that
    /// its type does not have, those before it.
    pub(crate) fn constants(&self, types: &[JavaType], plan: &Plan) -> Vec<Constant> {
        let noted = NotedConstants::of(plan);
        // What does not fit is refused when it is written.
        let _ = self.check_scalars(types, &noted, true, |_| false);
        noted.into_found()
    }

    /// Appends the arguments of a call of `route` to `out`.
    ///
    /// # Errors
    /// As [`ArgumentList::encode_for`].
    pub fn encode(
        &self,
        route: &Route,
        serialization: Serialization,
        out: &mut Vec<u8>,
    ) -> Result<(), CallError> {
        let (method, parameters) = (&*route.method, &route.parameters);
        let target = EncodedMethod { method, parameters, plan: Some(&route.plan) };
        self.encode_for(target, serialization, out)
    }

    /// The arguments of a long request of `route`, encoded by that thread. Other calls get on
    /// meanwhile. `held` is what counts the memory that this takes, if it is counted.
    ///
    /// # Errors
    /// As [`ArgumentList::encode_for`].
    pub async fn encoded_offloaded(
        &self,
        route: &Route,
        serialization: Serialization,
        thread: Thread,
        held: Option<Hold>,
    ) -> Result<Vec<u8>, CallError> {
        let (args, method) = (self.for_thread(), route.method.clone());
        let (parameters, plan) = (route.parameters.clone(), route.plan.for_encoding());
        let encode = move || {
            let args = args.list();
            let target =
                EncodedMethod { method: &method, parameters: &parameters, plan: Some(&plan) };
            let mut out = Vec::with_capacity(args.len_in_bytes());
            args.encode_for(target, serialization, &mut out)?;
            Ok(out)
        };
        thread.run(held, encode).await
    }

    /// Appends the arguments to `out`.
    ///
    /// # Errors
    /// [`Code::BadArguments`] with the argument that does not fit, [`Code::NoEndpoint`] for a
    /// serialization that we do not write.
    pub fn encode_for(
        &self,
        target: EncodedMethod<'_>,
        serialization: Serialization,
        out: &mut Vec<u8>,
    ) -> Result<(), CallError> {
        if let ParameterTypes::Given(types) | ParameterTypes::Named(types, _) = target.parameters
            && types.len() != self.len()
        {
            let (wants, has, method) = (types.len(), self.len(), target.method);
            let message = format!(
                "{method} takes {wants} {} according to its types, but the call has {has}",
                if wants == 1 { "argument" } else { "arguments" }
            );
            return Err(CallError::new(Code::BadArguments, message));
        }
        let values = serialization.values().ok_or_else(|| unsupported(serialization))?;
        let is_generic = target.parameters.is_generic();
        let types = match target.parameters {
            ParameterTypes::Named(types, _) | ParameterTypes::Asked(types) => Some(&types[..]),
            ParameterTypes::Given(_) | ParameterTypes::Unknown => None,
        };
        let generic = is_generic.then_some(GenericHead { method: target.method, types });
        let refs = matches!(self.texts, Texts::JsonWithRefs(_));
        let options = InputOptions {
            schema: target.schema(),
            refs,
            as_maps: is_generic,
            ..InputOptions::default()
        };
        let args = ArgumentsOf { list: self, target };
        values
            .write_args(&args, generic, &options, out)
            .map_err(|error| CallError::new(Code::BadArguments, error.to_string()))
    }
}

/// JSON texts as an array, of which no more is written once it has so many bytes.
pub fn join_json<T: AsRef<[u8]>>(texts: impl IntoIterator<Item = T>, max_len: usize) -> String {
    let mut out = String::from("[");
    for text in texts {
        if max_len <= out.len() {
            return out;
        }
        if out.len() != 1 {
            out.push(',');
        }
        let text = text.as_ref();
        out.push_str(&String::from_utf8_lossy(&text[..text.len().min(max_len)]));
    }
    out.push(']');
    out
}

fn is_text(ty: &JavaType) -> bool {
    matches!(ty, JavaType::Class(class)
        if matches!(class.name(), "java.lang.String" | "java.lang.CharSequence"))
}

/// Why a body holds no arguments that can be read.
#[cold]
fn broken(error: JsonError) -> CallError {
    let (code, message) = match error.rule {
        JsonRule::Items { .. } => {
            (Code::BodyTooLarge, format!("the arguments hold too much: {error}; send less"))
        }
        JsonRule::Depth { .. } => {
            (Code::BadRequest, format!("the arguments are nested too deep: {error}"))
        }
        _ => {
            let message = format!(
                "the arguments are not JSON: {error}; write an array such as [\"a\", 1], or one \
                 value such as \"a\""
            );
            (Code::BadRequest, message)
        }
    };
    CallError::new(code, message)
}

fn bad_argument(index: usize, ty: Option<&JavaType>, what: &str) -> CallError {
    let of = ty.map_or(String::new(), |ty| format!(" ({})", ty.java_name()));
    CallError::new(Code::BadArguments, format!("argument {index}{of}: {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::route::Generic;

    #[test]
    fn a_body_is_an_array_a_value_or_nothing() {
        let len = |body: &str| ArgumentList::json(body.as_bytes()).map(|list| list.len());
        assert_eq!(len(" [1, \"a\", [2, 3]] "), Ok(3));
        assert_eq!(len("{\"a\": [1]}"), Ok(1));
        assert_eq!((len("[]"), len(""), len(" ")), (Ok(0), Ok(0), Ok(0)));
        for broken in ["[1", "[1]]", "{\"a\"}", "nul", "[1,]"] {
            assert_eq!(len(broken).unwrap_err().code, Code::BadRequest, "{broken}");
        }
    }

    /// Java would make the value fit, and drop what does not.
    #[test]
    fn a_generic_call_refuses_what_its_types_do_not_have_in_every_serialization() {
        for (ty, right, wrong) in [
            ("int", "7", "3000000000"),
            ("byte", "7", "300"),
            ("boolean", "true", "\"yes\""),
            ("java.lang.Integer", "7", "1.5"),
            ("java.util.Date", "\"2024-02-29\"", "\"2024-02-30\""),
            ("java.util.UUID", "\"1-2-3-4-5\"", "\"nope\""),
            ("byte[]", "[255]", "[256]"),
        ] {
            let types = vec![JavaType::parse(ty).expect("it is a type")];
            let parameters = &ParameterTypes::Named(types, Generic::Map);
            let target = EncodedMethod { method: "take", parameters, plan: None };
            for serialization in Serialization::WRITTEN {
                let encode = |value: &str| {
                    let args = ArgumentList::of_values(vec![value.as_bytes()]);
                    args.encode_for(target, serialization, &mut Vec::new())
                };
                let refused = encode(wrong).map_err(|error| error.code);
                assert_eq!(encode(right), Ok(()), "{ty} {right} {serialization:?}");
                assert_eq!(refused, Err(Code::BadArguments), "{ty} {wrong} {serialization:?}");
            }
        }
    }
}
