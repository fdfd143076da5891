//! The contest's way of writing a call: a form.
//!
//! `interface=com.acme.IHello&method=hash&parameterTypesString=Ljava/lang/String;&parameter=abc`,
//! percent-encoded or not. `parameter` may come several times, in the order of the types.

use std::borrow::Cow;
use std::ops::Range;

use super::call_headers::CallHeaders;
use crate::args::ArgumentList;
use crate::error::{CallError, Code};
use crate::invocation::{CallOrigin, Invocation};
use crate::route::RouteName;

/// More parameters than any Java method has.
const MAX_PARAMETERS: usize = 255;

/// The fields of a form, decoded.
#[derive(Default)]
pub(super) struct FormFields<'a> {
    interface: Cow<'a, str>,
    method: Cow<'a, str>,
    /// As it is in the body: it is only read when the route is not known yet.
    types: Option<&'a str>,
    parameters: Vec<Cow<'a, str>>,
}

impl<'a> FormFields<'a> {
    /// Reads the body of a form.
    pub(super) fn parse(body: &'a [u8]) -> Result<Self, CallError> {
        let mut form = Self::default();
        // One look at the whole body does for all parts of a form that is plain text, as most are.
        let is_plain = memchr::memchr2(b'%', b'+', body).is_none();
        let plain = std::str::from_utf8(body).ok().filter(|_| is_plain);
        let decode = |part: &Range<usize>| match plain.and_then(|body| body.get(part.clone())) {
            Some(part) => Cow::Borrowed(part),
            None => decode(body.get(part.clone()).unwrap_or_default()),
        };
        for (name, value) in fields(body) {
            match &*decode(&name) {
                "interface" => form.interface = decode(&value),
                "method" => form.method = decode(&value),
                "parameterTypesString" => form.types = Some(text(&body[value])?),
                "parameter" if form.parameters.len() < MAX_PARAMETERS => {
                    form.parameters.push(decode(&value));
                }
                "parameter" => {
                    let message = format!("more than {MAX_PARAMETERS} parameters");
                    return Err(CallError::new(Code::BadRequest, message));
                }
                _ => {}
            }
        }
        for (name, value) in [("interface", &form.interface), ("method", &form.method)] {
            if value.is_empty() {
                let message = format!(
                    "the form has no {name}; it needs interface, method, parameterTypesString \
                     and parameter (calls with JSON go to /INTERFACE/METHOD)"
                );
                return Err(CallError::new(Code::BadRequest, message));
            }
        }
        Ok(form)
    }

    /// The call that the form and the request's headers describe.
    pub(super) fn invocation(
        &'a self,
        mut headers: CallHeaders<'a>,
        more: &'a [(String, String)],
    ) -> Invocation<'a> {
        let attachments = headers.all_attachments(more);
        let name = RouteName {
            interface: &self.interface,
            version: headers.version,
            group: headers.group,
            method: &self.method,
            types: self.types.or(headers.types),
            generic: headers.generic,
        };
        let args = ArgumentList::plain(&self.parameters);
        let (timeout, timeout_key) = (headers.timeout, super::call_headers::TIMEOUT);
        Invocation {
            name,
            args,
            timeout,
            timeout_key,
            attachments,
            origin: CallOrigin::default(),
            clock: None,
            is_copy: false,
            not_at: None,
        }
    }
}

/// Where names and values of a form are, not yet decoded.
fn fields(body: &[u8]) -> impl Iterator<Item = (Range<usize>, Range<usize>)> {
    let mut begin = 0;
    std::iter::from_fn(move || {
        while body.get(begin) == Some(&b'&') {
            begin += 1;
        }
        let rest = body.get(begin..).filter(|rest| !rest.is_empty())?;
        let len = memchr::memchr(b'&', rest).unwrap_or(rest.len());
        let (start, end) = (begin, begin + len);
        begin = end;
        Some(match memchr::memchr(b'=', &rest[..len]) {
            Some(at) => (start..start + at, start + at + 1..end),
            None => (start..end, end..end),
        })
    })
}

fn text(part: &[u8]) -> Result<&str, CallError> {
    std::str::from_utf8(part)
        .map_err(|_| CallError::new(Code::BadRequest, "parameterTypesString is not UTF-8"))
}

/// Whether a form escapes bytes that are not ASCII.
#[cold]
pub(super) fn has_escaped_beyond_ascii(form: &[u8]) -> bool {
    let is_escape = |two: &[u8]| matches!(two, [b'%', b'8' | b'9' | b'a'..=b'f' | b'A'..=b'F']);
    form.windows(2).any(is_escape)
}

/// Undoes the encoding of one name or value. What is not UTF-8 becomes U+FFFD, as Java's own
/// decoders of forms have it.
fn decode(part: &[u8]) -> Cow<'_, str> {
    if memchr::memchr2(b'%', b'+', part).is_none()
        && let Ok(text) = std::str::from_utf8(part)
    {
        return Cow::Borrowed(text);
    }
    // The library reads pairs: as the value of a nameless one, every byte of this part is read.
    let pair = [b"=", part].concat();
    let value = form_urlencoded::parse(&pair).next().map(|(_, value)| value.into_owned());
    Cow::Owned(value.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_those_of_the_standard() {
        for body in [
            "a=b&c=d",
            "a=b=c&&=x&y&z=",
            "p=%41+b%2Fc%3D%26&q=%zz%",
            "snow=\u{2603}&x=%E2%98%83",
            "",
            "&",
        ] {
            let ours: Vec<_> = fields(body.as_bytes())
                .map(|(name, value)| [name, value].map(|part| decode(&body.as_bytes()[part])))
                .map(|[name, value]| (name, value))
                .collect();
            let standard: Vec<_> = form_urlencoded::parse(body.as_bytes()).collect();
            assert_eq!(ours, standard, "{body}");
        }
        assert_eq!(decode(b"\xff"), "\u{fffd}");
    }

    #[test]
    fn plain_and_encoded_forms_say_the_same() {
        let head = "interface=a.B&method=c&parameterTypesString=I;";
        let plain = format!("{head}&parameter=snow\u{2603}");
        for parameter in ["snow%E2%98%83", "%73now\u{2603}"] {
            let encoded = format!("{head}&parameter={parameter}");
            let (plain, encoded) =
                (FormFields::parse(plain.as_bytes()), FormFields::parse(encoded.as_bytes()));
            let (plain, encoded) = (plain.unwrap(), encoded.unwrap());
            assert_eq!(plain.parameters, encoded.parameters);
            assert_eq!((&*plain.interface, plain.types), (&*encoded.interface, encoded.types));
        }
        let broken = [head.as_bytes(), b"&parameter=\xff"].concat();
        assert_eq!(FormFields::parse(&broken).unwrap().parameters, ["\u{fffd}"]);
    }
}
