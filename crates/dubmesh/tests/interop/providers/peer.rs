//! A provider that is called by one way, and what its answers have to be.

use interop_harness::DubboVersion;
use serde_json::Value;

use crate::support::{Agent, HttpResponse, TYPES, post};

/// One way to a provider.
pub(crate) struct ProviderUnderTest<'a> {
    pub(crate) consumer: &'a Agent,
    pub(crate) version: DubboVersion,
    pub(crate) serialization: &'a str,
    /// Whether groups and versions exist.
    pub(crate) has_variants: bool,
    /// Where the consumer's agent sends its calls.
    pub(crate) endpoint: String,
    /// What did not go as expected.
    pub(crate) wrong: Vec<String>,
}

pub(crate) const TYPE_HEADER: &str = "x-dubbo-parameter-types: ";

impl ProviderUnderTest<'_> {
    pub(crate) fn is_fastjson(&self) -> bool {
        self.serialization == "fastjson"
    }

    /// An enum in a field has its number there, and objects say nothing of what is 0 or false.
    pub(crate) fn is_fastjson2(&self) -> bool {
        self.serialization == "fastjson2"
    }

    pub(crate) fn green(&self) -> Value {
        if self.is_fastjson2() { 1.into() } else { "GREEN".into() }
    }

    /// Calls a method of the `TypesService`; without types it is Dubbo's generic call.
    pub(crate) fn call(
        &self,
        method: &str,
        types: Option<&str>,
        more: &[&str],
        body: &str,
    ) -> HttpResponse {
        let types = types.map(|types| format!("{TYPE_HEADER}{types}"));
        let headers: Vec<&str> = types.as_deref().into_iter().chain(more.iter().copied()).collect();
        post(self.consumer.http(), &format!("/{TYPES}/{method}"), &headers, body)
    }

    pub(crate) fn check(&mut self, what: &str, answer: &HttpResponse, is_right: bool) {
        if !is_right {
            let mut text = format!("{what}: {} {}", answer.status, answer.body);
            text.truncate(text.floor_char_boundary(600));
            self.wrong.push(text);
        }
    }

    /// Calls with the types told, then without them where `generic` is another expected value.
    pub(crate) fn returns(
        &mut self,
        method: &str,
        types: &str,
        body: &str,
        expected: &str,
        generic: bool,
    ) {
        for types in [Some(types), None].into_iter().take(1 + usize::from(generic)) {
            let answer = self.call(method, types, &[], body);
            let is_right = answer.status == 200 && is_same(&answer.body, expected);
            self.check(&format!("{method} {types:?} {body} = {expected}"), &answer, is_right);
        }
    }

    /// Calls and expects an error with this status and code whose message has all `parts`.
    pub(crate) fn fails(
        &mut self,
        (method, types, body): (&str, Option<&str>, &str),
        (status, code): (u16, &str),
        parts: &[&str],
    ) {
        let answer = self.call(method, types, &[], body);
        let message = answer.member("message");
        let is_right = (answer.status, &*answer.code()) == (status, code)
            && parts.iter().all(|part| message.contains(part));
        let what = format!("{method} {types:?} {body} fails with {status} {code} {parts:?}");
        self.check(&what, &answer, is_right);
    }

    /// Calls without types and expects an error about the arguments. Over the telnet of 2.6 an
    /// agent may know better itself.
    pub(crate) fn refuses(&mut self, method: &str, body: &str, parts: &[&str]) {
        if self.version != DubboVersion::V2_6 {
            return self.fails((method, None, body), (400, "bad_arguments"), parts);
        }
        let answer = self.call(method, None, &[], body);
        let is_right = ["bad_arguments", "ambiguous_method"].contains(&&*answer.code());
        self.check(&format!("{method} {body} is refused"), &answer, is_right);
    }

    /// Calls a method with types that the provider does not know it with.
    pub(crate) fn is_missing(&mut self, method: &str, types: &str, body: &str) {
        let (call, missing) = ((method, Some(types), body), (404, "method_not_found"));
        match self.version {
            // 2.6 takes the only method of a name, whatever the types.
            DubboVersion::V2_6 if method != "missing" => {}
            DubboVersion::V2_6 | DubboVersion::V2_7 => self.fails(call, missing, &[method]),
            // Dubbo 3 takes no notice of why it cannot read a request. In Dubbo's layout, where
            // groups and versions are, the methods of its own registration tell, and it is asked.
            DubboVersion::V3_2 | DubboVersion::V3_3 if !self.has_variants => {
                let parts = [method, "no such service, method"];
                self.fails(call, (400, "provider_rejected"), &parts);
            }
            DubboVersion::V3_2 | DubboVersion::V3_3 if method == "missing" => {
                self.fails(call, missing, &["no method missing", "it has ", "boxedInt"]);
            }
            DubboVersion::V3_2 | DubboVersion::V3_3 => {
                let what = format!("no {method}({types})");
                self.fails(call, missing, &[&what]);
            }
        }
    }

    pub(crate) fn form(&self, fields: &str) -> HttpResponse {
        post(self.consumer.http(), "/", &[], fields)
    }
}

/// Texts that are equal, or JSON values that are.
fn is_same(body: &str, expected: &str) -> bool {
    let parse = |text| serde_json::from_str::<Value>(text).ok();
    // Numbers too long for a double have to be equal to the letter.
    let is_exact = expected.bytes().filter(u8::is_ascii_digit).count() < 16 || expected.len() > 60;
    body == expected || (is_exact && parse(body).is_some_and(|body| Some(body) == parse(expected)))
}
