//! The attacks, by family. What is common to all: where they aim, what stands around, and what is
//! judged besides the limits that hold for every attack.

mod crowd;
mod dubbo;
mod http1;
mod http2;
mod limits;
mod link;

use bench::target::Target;

use crate::callers::Caller;
use crate::error::AttackError;
use crate::peer::Attacking;
use crate::runner::Seen;

/// One attack.
pub(crate) struct Attack {
    pub(crate) name: &'static str,
    /// What the peer does, in a line.
    pub(crate) about: &'static str,
    /// The listener that is attacked.
    pub(crate) door: Door,
    pub(crate) scene: Scene,
    /// Who behaves well meanwhile.
    pub(crate) callers: &'static [Caller],
    pub(crate) incident: Option<Incident>,
    pub(crate) peer: Attacking,
    /// What is judged besides the common limits.
    pub(crate) goals: fn(&Seen) -> Vec<Target>,
}

/// A listener.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Door {
    Http,
    Dubbo,
    Link,
    Admin,
}

/// What is started.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scene {
    /// Whether calls go over a link, so that there are two agents: the provider's is attacked.
    pub(crate) has_link: bool,
    /// Whether the attacked agent also exports an HTTP app, which never gives a whole answer.
    pub(crate) has_http_app: bool,
    /// `max_connections` of every ingress, if not the default.
    pub(crate) max_connections: Option<u32>,
    /// The most descriptors that an agent may have.
    pub(crate) max_files: Option<u32>,
}

/// What happens besides, a quarter into the attack.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Incident {
    /// The provider is killed and started again.
    ProviderRestart,
}

const SCENE: Scene =
    Scene { has_link: false, has_http_app: false, max_connections: None, max_files: None };

/// What most attacks have in common.
pub(crate) const COMMON: Attack = Attack {
    name: "",
    about: "",
    door: Door::Http,
    scene: SCENE,
    callers: &[Caller::HTTP],
    incident: None,
    peer: |_| Box::pin(async {}),
    goals: |_| Vec::new(),
};

/// Every attack.
pub(crate) fn all() -> impl Iterator<Item = &'static Attack> {
    [http1::ALL, http2::ALL, dubbo::ALL, link::ALL, crowd::ALL, limits::ALL, crate::h2spec::ALL]
        .into_iter()
        .flatten()
}

/// The attack of that name.
pub(crate) fn find(name: &str) -> Result<&'static Attack, AttackError> {
    let found = all().find(|attack| attack.name == name);
    found.ok_or_else(|| AttackError::Unknown { name: name.to_owned() })
}

/// A whole HTTP/1.1 request that has its text come back; its head and its body.
fn echo_request(interface: &str, text_len: usize) -> (String, Vec<u8>) {
    let body = json_text(text_len);
    (http_head(interface, "echo", body.len()), body)
}

/// One text as JSON.
fn json_text(text_len: usize) -> Vec<u8> {
    let mut body = vec![b'a'; text_len + 4];
    body[..2].copy_from_slice(b"[\"");
    body[text_len + 2..].copy_from_slice(b"\"]");
    body
}

/// The head of a call by HTTP/1.1.
fn http_head(interface: &str, method: &str, body_len: usize) -> String {
    format!(
        "POST /{interface}/{method} HTTP/1.1\r\nhost: 127.0.0.1\r\n\
         content-type: application/json\r\ncontent-length: {body_len}\r\n\r\n"
    )
}
