//! The arguments of a call as the caller wrote them, and their way into a serialization.

pub(crate) mod fits;
mod types;

use std::borrow::Cow;

use dubbo_proto::{Serialization, ServiceDefinition, fastjson};
use hessian::json::{self, JsonKind, JsonReader};
use hessian::transcode::{
    DateStyle, InputOptions, JsonOptions, Schema, check_scalars, hessian_to_json,
    json_to_hessian_by,
};
use hessian::{Decoder, Encoder, JavaType, Limits};
use java_json::number::InGenericCall;
use jsonb::json_to_jsonb_by;
use memchr::memmem;

use crate::error::{CallError, Code};
use crate::route::{Parameters, Plan, Route};

use self::fits::Fit;
pub use self::types::parse_types;
pub(crate) use self::types::understood;

/// More parameters than any Java method has.
pub const MAX_ARGUMENTS: usize = 255;

/// The arguments of one call.
#[derive(Debug)]
pub enum ArgumentList<'a> {
    /// Each is one JSON text.
    Json(Vec<&'a [u8]>),
    /// The same; `{"$ref":"$.a"}` in one names another value of the same argument.
    JsonWithRefs(Vec<&'a [u8]>),
    /// Each is plain text, to be understood by its parameter's type.
    Text(&'a [Cow<'a, str>]),
}

impl<'a> ArgumentList<'a> {
    /// Reads a JSON array of arguments, one bare value, or nothing at all.
    ///
    /// # Errors
    /// [`Code::BadRequest`] with the place if it is not JSON, or holds too many arguments.
    pub fn json(body: &'a [u8]) -> Result<Self, CallError> {
        let broken = |error: json::JsonError| {
            CallError::new(Code::BadRequest, format!("the body is not JSON: {error}"))
        };
        let mut reader = JsonReader::new(body, Limits::default());
        let mut values = Vec::new();
        if reader.is_at_end() {
            return Ok(Self::Json(values));
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
        Ok(Self::Json(values))
    }

    /// Takes references in JSON for what they name.
    #[must_use]
    pub fn with_refs(self) -> Self {
        match self {
            Self::Json(values) => Self::JsonWithRefs(values),
            other => other,
        }
    }

    /// Arguments that were written anew.
    pub fn of_texts(texts: &'a [Vec<u8>]) -> Self {
        Self::Json(texts.iter().map(Vec::as_slice).collect())
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
        match JsonReader::new(&text, Limits::default()).peek() {
            Ok(JsonKind::Array | JsonKind::Null) | Err(_) => false,
            // Text stands for an array of these.
            Ok(JsonKind::String) => !matches!(**element, JavaType::Byte | JavaType::Char),
            Ok(_) => true,
        }
    }

    /// Whether the text has the name of a class somewhere.
    pub(crate) fn mentions(&self, class: &str) -> bool {
        let finder = memmem::Finder::new(class);
        match self {
            Self::Json(values) | Self::JsonWithRefs(values) => {
                values.iter().any(|text| finder.find(text).is_some())
            }
            Self::Text(values) => values.iter().any(|text| finder.find(text.as_bytes()).is_some()),
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
        match self {
            Self::Json(values) | Self::JsonWithRefs(values) => values.len(),
            Self::Text(values) => values.len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The argument at `index` as JSON text, by the type of its parameter.
    fn json_at(&self, index: usize, ty: Option<&JavaType>) -> Cow<'a, [u8]> {
        match self {
            Self::Json(values) | Self::JsonWithRefs(values) => {
                Cow::Borrowed(values.get(index).copied().unwrap_or(b"null"))
            }
            Self::Text(values) => {
                let text = values.get(index).map_or("", |text| text);
                let mut reader = JsonReader::new(text.as_bytes(), Limits::default());
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
        match self {
            Self::Text(values) if ty.is_some_and(is_text) => values.get(index).map(|text| &**text),
            _ => None,
        }
    }

    fn encode_hessian(&self, target: Target<'_>, out: &mut Vec<u8>) -> Result<(), CallError> {
        let mut encoder = Encoder::new(out);
        let refs = matches!(self, Self::JsonWithRefs(_));
        let as_maps = target.parameters.is_generic();
        let options = InputOptions { schema: target.schema(), refs, as_maps };
        if target.parameters.is_generic() {
            // Dubbo's generic call: the method's name, its types if they are known, all arguments in one array.
            encoder.string(target.method);
            match target.parameters {
                Parameters::Named(types, _) | Parameters::Asked(types) => {
                    encoder.list_begin(Some("[string"), types.len());
                    types.iter().for_each(|ty| encoder.string(&ty.java_name()));
                }
                _ => encoder.null(),
            }
            encoder.list_begin(Some("[object"), self.len());
        }
        for index in 0..self.len() {
            let ty = target.parameters.at(index);
            if let Some(text) = self.plain_text_at(index, ty) {
                encoder.string(text);
                continue;
            }
            let text = self.json_at(index, ty);
            let mut reader = JsonReader::new(&text, Limits::default());
            json_to_hessian_by(&mut reader, ty, &mut encoder, &options)
                .map_err(|error| bad_argument(index, ty, &error.to_string()))?;
        }
        Ok(())
    }

    /// Checks the arguments that are sent without their types, whose values Java would make fit: `is_sent` tells
    /// which are sent with them.
    ///
    /// # Errors
    /// [`Code::BadArguments`] with a value that the scalar type of its place does not have.
    pub fn check_scalars(
        &self,
        types: &[JavaType],
        schema: &dyn Schema,
        is_sent: impl Fn(usize) -> bool,
    ) -> Result<(), CallError> {
        for (index, ty) in types.iter().enumerate().take(self.len()) {
            if is_sent(index) || self.plain_text_at(index, Some(ty)).is_some() {
                continue;
            }
            let text = self.json_at(index, Some(ty));
            let mut reader = JsonReader::new(&text, Limits::default());
            check_scalars(&mut reader, ty, schema)
                .map_err(|error| bad_argument(index, Some(ty), &error.to_string()))?;
        }
        Ok(())
    }

    /// One line per argument, the last without its end.
    fn encode_fastjson(&self, target: Target<'_>, out: &mut Vec<u8>) -> Result<(), CallError> {
        let is_generic = target.parameters.is_generic();
        if is_generic {
            json::write_string(out, target.method);
            match target.parameters {
                Parameters::Named(types, _) | Parameters::Asked(types) => {
                    out.push(b'\n');
                    write_names(out, types);
                    out.extend_from_slice(b"\n[");
                }
                _ => out.extend_from_slice(b"\nnull\n["),
            }
        }
        for index in 0..self.len() {
            if index != 0 {
                out.push(if is_generic { b',' } else { b'\n' });
            }
            let ty = target.parameters.at(index);
            match self.plain_text_at(index, ty) {
                Some(text) => json::write_string(out, text),
                None => {
                    let text = self.json_at(index, ty);
                    if ty.is_some() || is_generic && InGenericCall::may_have_nothing(&text) {
                        self.check_written(index, &text, ty, target)?;
                    }
                    match is_generic && matches!(self, Self::Json(_)) {
                        true => write_plain_values(index, &text, out)?,
                        false => write_on_one_line(out, &text),
                    }
                }
            }
        }
        if is_generic {
            out.push(b']');
        }
        Ok(())
    }

    /// A provider's fastjson makes every value fit, or takes it for null, and unboxes that; we look first, by what the
    /// other serializations take.
    fn check_written(
        &self,
        index: usize,
        text: &[u8],
        ty: Option<&JavaType>,
        target: Target<'_>,
    ) -> Result<(), CallError> {
        let mut unused = Vec::with_capacity(16);
        let mut reader = JsonReader::new(text, Limits::default());
        let refs = matches!(self, Self::JsonWithRefs(_));
        let as_maps = target.parameters.is_generic();
        let options = InputOptions { schema: target.schema(), refs, as_maps };
        json_to_hessian_by(&mut reader, ty, &mut Encoder::new(&mut unused), &options)
            .map_err(|error| bad_argument(index, ty, &error.to_string()))
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
        let target = Target { method, parameters, plan: Some(&route.plan) };
        self.encode_for(target, serialization, out)
    }

    /// Appends the arguments to `out`.
    ///
    /// # Errors
    /// [`Code::BadArguments`] with the argument that does not fit, [`Code::NoEndpoint`] for a
    /// serialization that we do not write.
    pub fn encode_for(
        &self,
        target: Target<'_>,
        serialization: Serialization,
        out: &mut Vec<u8>,
    ) -> Result<(), CallError> {
        if let Parameters::Given(types) | Parameters::Named(types, _) = target.parameters
            && types.len() != self.len()
        {
            let (wants, has, method) = (types.len(), self.len(), target.method);
            let message = format!(
                "{method} takes {wants} arguments according to its types, but the call \
                    has {has}"
            );
            return Err(CallError::new(Code::BadArguments, message));
        }
        match serialization {
            Serialization::Hessian2 => self.encode_hessian(target, out),
            Serialization::Fastjson => self.encode_fastjson(target, out),
            Serialization::FastjsonSized => {
                let mut lines = Vec::new();
                self.encode_fastjson(target, &mut lines)?;
                fastjson::reframe(&lines, Serialization::Fastjson, serialization, out)
                    .map_err(|error| CallError::new(Code::BadArguments, error.to_string()))
            }
            Serialization::Fastjson2 => self.encode_fastjson2(target, out),
            other @ Serialization::Other(_) => Err(crate::route::unsupported(other)),
        }
    }

    /// Each argument behind its length.
    fn encode_fastjson2(&self, target: Target<'_>, out: &mut Vec<u8>) -> Result<(), CallError> {
        if !target.parameters.is_generic() {
            for index in 0..self.len() {
                let ty = target.parameters.at(index);
                sized(out, |out| {
                    self.write_jsonb(index, ty, target, "$", &mut jsonb::Encoder::new(out))
                })?;
            }
            return Ok(());
        }
        sized(out, |out| {
            jsonb::Encoder::new(out).string(target.method);
            Ok(())
        })?;
        sized(out, |out| {
            let mut encoder = jsonb::Encoder::new(out);
            match target.parameters {
                Parameters::Named(types, _) | Parameters::Asked(types) => {
                    encoder.array_begin(types.len());
                    types.iter().for_each(|ty| encoder.string(&ty.java_name()));
                }
                _ => encoder.null(),
            }
            Ok(())
        })?;
        sized(out, |out| {
            let mut encoder = jsonb::Encoder::new(out);
            encoder.array_begin(self.len());
            (0..self.len()).try_for_each(|index| {
                let root = format!("$[{index}]");
                self.write_jsonb(index, None, target, &root, &mut encoder)
            })
        })
    }

    /// `root` is where the argument stands in its message.
    fn write_jsonb(
        &self,
        index: usize,
        ty: Option<&JavaType>,
        target: Target<'_>,
        root: &str,
        encoder: &mut jsonb::Encoder<'_>,
    ) -> Result<(), CallError> {
        if let Some(text) = self.plain_text_at(index, ty) {
            encoder.string(text);
            return Ok(());
        }
        let text = self.json_at(index, ty);
        let mut reader = JsonReader::new(&text, Limits::default());
        let refs = matches!(self, Self::JsonWithRefs(_));
        let as_maps = target.parameters.is_generic();
        let options = InputOptions { schema: target.schema(), refs, as_maps };
        json_to_jsonb_by(&mut reader, ty, encoder, &options, root)
            .map_err(|error| bad_argument(index, ty, &error.to_string()))
    }
}

/// Appends what `write` writes, behind its length in four bytes.
fn sized(
    out: &mut Vec<u8>,
    write: impl FnOnce(&mut Vec<u8>) -> Result<(), CallError>,
) -> Result<(), CallError> {
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    write(out)?;
    let len = u32::try_from(out.len() - start - 4).unwrap_or(u32::MAX);
    if let Some(place) = out.get_mut(start..start + 4) {
        place.copy_from_slice(&len.to_be_bytes());
    }
    Ok(())
}

/// What arguments are encoded for.
#[derive(Clone, Copy, Debug)]
pub struct Target<'a> {
    /// The method's name.
    pub method: &'a str,
    /// What is known of its parameters.
    pub parameters: &'a Parameters,
    /// What else is known of the method.
    pub plan: Option<&'a Plan>,
}

impl<'a> Target<'a> {
    /// What tells the types of fields that are written. In a generic call the provider makes the objects.
    fn schema(&self) -> &'a dyn Schema {
        match self.plan {
            Some(plan) if self.parameters.is_generic() => &plan.records,
            Some(plan) => plan,
            None => &(),
        }
    }
}

/// The names of types as a JSON array, for a generic call.
fn write_names(out: &mut Vec<u8>, types: &[JavaType]) {
    out.push(b'[');
    for (index, ty) in types.iter().enumerate() {
        if index != 0 {
            out.push(b',');
        }
        json::write_string(out, &ty.java_name());
    }
    out.push(b']');
}

fn is_text(ty: &JavaType) -> bool {
    matches!(ty, JavaType::Class(class)
        if matches!(class.name(), "java.lang.String" | "java.lang.CharSequence"))
}

fn bad_argument(index: usize, ty: Option<&JavaType>, what: &str) -> CallError {
    let of = ty.map_or(String::new(), |ty| format!(" ({})", ty.java_name()));
    CallError::new(Code::BadArguments, format!("argument {index}{of}: {what}"))
}

/// JSON for a generic call by fastjson, which says nothing of the types of values: what names a class that is no
/// JSON object (`{"class":"java.util.Date","value":0}`) becomes the plain value, as Java's own generic callers write it
/// there. The provider makes of it what a field or parameter is declared as.
fn write_plain_values(index: usize, text: &[u8], out: &mut Vec<u8>) -> Result<(), CallError> {
    if memmem::find(text, b"\"class\"").is_none() {
        write_on_one_line(out, text);
        return Ok(());
    }
    let (mut value, mut plain) = (Vec::with_capacity(text.len()), Vec::new());
    let mut reader = JsonReader::new(text, Limits::default());
    let options = InputOptions { as_maps: true, ..InputOptions::default() };
    json_to_hessian_by(&mut reader, None, &mut Encoder::new(&mut value), &options)
        .map_err(|error| bad_argument(index, None, &error.to_string()))?;
    let options = JsonOptions { dates: DateStyle::Millis, ..JsonOptions::default() };
    let mut decoder = Decoder::new(&value, Limits::default());
    hessian_to_json(&mut decoder, &mut plain, &options)
        .map_err(|error| bad_argument(index, None, &error.to_string()))?;
    out.extend_from_slice(&plain);
    Ok(())
}

/// JSON text without line ends: where they are allowed at all they mean nothing.
fn write_on_one_line(out: &mut Vec<u8>, text: &[u8]) {
    if text.iter().any(|byte| matches!(byte, b'\n' | b'\r')) {
        out.extend(text.iter().filter(|byte| !matches!(byte, b'\n' | b'\r')));
    } else {
        out.extend_from_slice(text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
