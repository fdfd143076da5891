//! What the fuzz target and a test do with any bytes: read them as a form and as JSON, and encode
//! what they say for a provider. None of it may panic, and what is encoded can be read again.

use dubbo_proto::Serialization;
use hessian::json::JsonReader;
use hessian::{Decoder, JavaType, Limits};

use super::call_headers::CallHeaders;
use super::form::FormFields;
use super::json::MethodPath;
use crate::args::{ArgumentList, EncodedMethod, parse_types};
use crate::route::{Generic, ParameterTypes};

/// Reads `data` in every way in which a caller can write a call: up to the first zero byte
/// parameter types, up to the second a path, and then a body.
pub fn mapping(data: &[u8]) {
    let mut parts = data.splitn(3, |byte| *byte == 0);
    let mut text = || String::from_utf8_lossy(parts.next().unwrap_or_default()).into_owned();
    let (types, path) = (text(), text());
    let body = parts.next().unwrap_or_default();
    let _ = MethodPath::parse(&path);
    let parameters = parse_types(&types).map_or(ParameterTypes::Unknown, ParameterTypes::Given);
    if let Ok(args) = ArgumentList::json(body) {
        encode(&args, &parameters);
        encode(&args, &ParameterTypes::Unknown);
    }
    let _ = crate::attachments::read(body);
    let head = http::Request::post("/").body(()).map(|request| request.into_parts().0);
    if let (Ok(form), Ok(head)) = (FormFields::parse(body), head)
        && let Ok(headers) = CallHeaders::read(&head, false)
    {
        let invocation = form.invocation(headers, &[]);
        encode(&invocation.args, &parameters);
        encode(&invocation.args, &ParameterTypes::Unknown);
        if let ParameterTypes::Given(types) = &parameters {
            for mode in [Generic::Map, Generic::Gson] {
                encode(&invocation.args, &ParameterTypes::Named(types.clone(), mode));
            }
            rewrite(&invocation.args, types);
        }
    }
}

fn encode(args: &ArgumentList<'_>, parameters: &ParameterTypes) {
    let target = EncodedMethod { method: "method", parameters, plan: None };
    let mut hessian = Vec::new();
    if args.encode_for(target, Serialization::Hessian2, &mut hessian).is_ok() {
        let mut decoder = Decoder::new(&hessian, Limits::default());
        while !decoder.is_at_end() {
            decoder.skip_value().expect("what we encode can be decoded");
        }
    }
    let mut lines = Vec::new();
    if args.encode_for(target, Serialization::Fastjson, &mut lines).is_ok() {
        let n_lines = match parameters {
            ParameterTypes::Given(_) => args.len().max(1),
            ParameterTypes::Named(..) | ParameterTypes::Asked(_) | ParameterTypes::Unknown => 3,
        };
        assert_eq!(lines.split(|byte| *byte == b'\n').count(), n_lines, "one line an argument");
    }
}

/// What is written again for a generic call or for a method of any number of arguments is JSON,
/// too; and what looks like a type by nature can be written as it.
fn rewrite(args: &ArgumentList<'_>, types: &[JavaType]) {
    for texts in [args.quoted(), args.packed(args.len() / 2)] {
        for text in &texts {
            let mut reader = JsonReader::new(text, Limits::default());
            assert!(reader.skip_value().is_ok() && reader.finish().is_ok());
        }
    }
    for (index, ty) in types.iter().enumerate().take(args.len()) {
        let _ = args.fits(index, ty, None);
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn calls_in_every_form() {
        for data in [
            &b"Ljava/lang/String;I\0/a.B/c\0[\"x\", 1]"[..],
            b"java.util.List<com.acme.Order>\0/a/b\0[[{\"class\":\"com.acme.Order\",\"n\":\n1.5}]]",
            b"\0//\0[]",
            b"I\0\0interface=a.B&method=c&parameterTypesString=I&parameter=12",
            b"Ljava/util/Date;\0%ff\0interface=a.B&method=c&parameter=2026-11-21&parameter=%00",
            b"[[B\0/x/y\0[[\"AAEC\"]]",
            b"\xff\0\xff\0\xff",
            b"",
        ] {
            super::mapping(data);
        }
    }
}
