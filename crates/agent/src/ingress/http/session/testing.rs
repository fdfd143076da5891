//! What tests of sessions share.

use std::rc::Rc;
use std::sync::Arc;

use wire::{Group, Peer};

use super::HttpSession;
use crate::config;
use crate::error::Code;
use crate::ingress::http::HttpListener;
use crate::metrics::Hub;
use crate::testing::{account, worker_setup};
use crate::worker::Worker;

const CONFIG: &str = r#"
    [[ingress]]
    protocol = "http"
    listen = "127.0.0.1:0"
    [[registry]]
    kind = "file"
    path = "services.toml"
"#;

/// A session that has no connection yet, of a worker of its own.
pub(in crate::ingress::http) fn session() -> Rc<HttpSession> {
    let config = config::parse(CONFIG, "test.toml").unwrap().http.remove(0);
    let stats = vec![Hub::new(&Code::NAMES).ingress("test")];
    let listener = Arc::new(HttpListener { config, stats, memory: Group::new() });
    HttpSession::new(&Worker::new(worker_setup(Vec::new())), &listener, account(), Peer::Unix)
}
