//! Who takes part in a call: its caller, its endpoints, and the call itself, as rules see them.

use std::borrow::Cow;

use parameters::Parameters;

/// A caller or an endpoint, as a URL of Dubbo describes it.
#[derive(Clone, Copy, Debug)]
pub struct UrlView<'a> {
    /// The scheme.
    pub protocol: &'a str,
    /// Name or address; IPv6 without brackets.
    pub host: &'a str,
    /// TCP port; 0 for none.
    pub port: u16,
    /// The path, without `/` in front.
    pub path: &'a str,
    /// Its parameters.
    pub params: &'a Parameters,
    /// It takes no calls now: nobody can reach it, or its weight is 0. A destination that has only
    /// such endpoints is not drawn while another one has better ones.
    pub is_down: bool,
}

impl<'a> UrlView<'a> {
    /// A parameter, and nothing else.
    pub(super) fn param(&self, key: &str) -> Option<&'a str> {
        self.params.get(key)
    }

    /// What a condition finds by the name `key`: a part of the URL, or a parameter.
    pub(super) fn value(&self, key: &str) -> Option<Cow<'a, str>> {
        match key {
            "protocol" => Some(self.protocol.into()),
            "host" => Some(self.host.into()),
            "port" if self.port != 0 => Some(self.port.to_string().into()),
            "path" => Some(self.path.into()),
            "address" if self.port == 0 => Some(self.host.into()),
            "address" => Some(format!("{}:{}", self.host, self.port).into()),
            _ => self.param(key).map(Cow::Borrowed),
        }
    }

    /// What `$key` means: a part of the caller's URL, or its parameter.
    pub(super) fn raw(&self, key: &str) -> Option<Cow<'a, str>> {
        match key {
            "port" => Some(self.port.to_string().into()),
            "address" => self.param(key).map(Cow::Borrowed),
            _ => self.value(key),
        }
    }
}

/// A call.
#[derive(Clone, Copy)]
pub struct CallView<'a> {
    /// Who calls.
    pub consumer: UrlView<'a>,
    /// The method's name.
    pub method: &'a str,
    /// The attachment of a name.
    pub attachment: &'a dyn Fn(&str) -> Option<Cow<'a, str>>,
    /// The argument at an index, as Java's `String.valueOf` shows it.
    pub argument: &'a dyn Fn(usize) -> Option<Cow<'a, str>>,
}

impl std::fmt::Debug for CallView<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CallView").field("method", &self.method).finish_non_exhaustive()
    }
}
