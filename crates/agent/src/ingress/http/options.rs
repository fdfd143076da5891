//! Which form of JSON a request wants: the header `x-dubbo-json`, and the parameter `json` of its
//! URL.

use std::borrow::Cow;

use hessian::transcode::JsonOptions;
use http::request::Parts;
use percent_encoding::percent_decode_str;

use super::call_headers::{JSON, header};
use crate::error::{CallError, Code};
use crate::grown_text::IN_PLACE_LEN;

const PARAMETER: &str = "json";

/// The options of a request; what the URL says counts after what the header says. Without headers
/// of ours (`has_ours`) there is only the URL. The limit of the text is that of texts in place.
pub(super) fn read(head: &Parts, has_ours: bool) -> Result<JsonOptions, CallError> {
    let chosen = chosen(head, has_ours)?;
    Ok(JsonOptions { max_out_len: IN_PLACE_LEN, ..chosen })
}

fn chosen(head: &Parts, has_ours: bool) -> Result<JsonOptions, CallError> {
    let in_header = if has_ours { header(head, JSON)? } else { None };
    let in_url = head.uri.query().map_or(Ok(None), parameter)?;
    let (text, place) = match (in_header, in_url) {
        (None, None) => return Ok(JsonOptions::default()),
        (Some(text), None) => (Cow::Borrowed(text), "header x-dubbo-json"),
        (None, Some(text)) => (text, "parameter json"),
        (Some(first), Some(second)) => {
            (format!("{first};{second}").into(), "header x-dubbo-json and parameter json")
        }
    };
    JsonOptions::parse(&text)
        .map_err(|error| CallError::new(Code::BadRequest, format!("{place}: {error}")))
}

/// The value of the parameter `json` in a URL's query.
fn parameter(query: &str) -> Result<Option<Cow<'_, str>>, CallError> {
    let value = query.split('&').find_map(|pair| pair.strip_prefix(PARAMETER)?.strip_prefix('='));
    value
        .map(|value| percent_decode_str(value).decode_utf8())
        .transpose()
        .map_err(|_| CallError::new(Code::BadRequest, "parameter json: it is not UTF-8".to_owned()))
}

#[cfg(test)]
mod tests {
    use hessian::transcode::{DateStyle, RefStyle};

    use super::*;

    fn options(uri: &str, header: Option<&str>) -> Result<JsonOptions, CallError> {
        let mut request = http::Request::post(uri);
        if let Some(header) = header {
            request = request.header(JSON, header);
        }
        chosen(&request.body(()).unwrap().into_parts().0, true)
    }

    #[test]
    fn header_and_parameter_say_the_same() {
        let expected = JsonOptions {
            dates: DateStyle::Millis,
            refs: RefStyle::Path,
            ..JsonOptions::default()
        };
        assert_eq!(options("/a.B/c", Some("dates=millis; refs=path")), Ok(expected.clone()));
        let uri = "/a.B/c?x=1&json=dates%3Dmillis%3B%20refs=path";
        assert_eq!(options(uri, None), Ok(expected.clone()));
        let both = options("/a.B/c?json=dates=millis", Some("dates=iso;refs=path"));
        assert_eq!(both, Ok(expected));
        assert_eq!(options("/a.B/c?jsonx=1", None), Ok(JsonOptions::default()));
    }

    #[test]
    fn what_is_no_option_is_a_bad_request() {
        for (uri, header, part) in [
            ("/a", Some("dates=never"), "header x-dubbo-json: invalid value \"never\" of dates"),
            ("/a?json=colour=red", None, "parameter json: unknown option \"colour\""),
            ("/a?json=%ff", None, "UTF-8"),
        ] {
            let error = options(uri, header).unwrap_err();
            assert_eq!(error.code, Code::BadRequest);
            assert!(error.message.contains(part), "{}", error.message);
        }
    }
}
