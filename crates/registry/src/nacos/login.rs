//! The login of a user, by HTTP. Source: `HttpLoginProcessor`.

use std::sync::Arc;
use std::time::Duration;

use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use nacos_proto::Secret;
use serde::Deserialize;
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};

use crate::repeated::without_secret;

use super::settings::{LoginSettings, NacosServer, NacosSettings, destination};

/// Nacos 3, and Nacos 2.
const PATHS: [&str; 2] = ["/v3/auth/user/login", "/v1/auth/users/login"];

/// The longest answer, in bytes.
const MAX_ANSWER_LEN: usize = 64 << 10;

/// A token of an unknown life is taken for one of this.
const UNKNOWN_TTL: Duration = Duration::from_secs(5 * 3600);

/// The shortest life of a token that we go by, so that logins are never too many.
const MIN_TTL: Duration = Duration::from_secs(10);

/// A login that connections share.
pub(super) struct Login {
    settings: Arc<NacosSettings>,
    token: Mutex<Option<Token>>,
}

struct Token {
    secret: Secret,
    /// When it should be renewed: a tenth of its life before it runs out.
    renew_at: Instant,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Granted {
    access_token: String,
    #[serde(default)]
    token_ttl: Option<u64>,
}

impl Login {
    pub(super) fn new(settings: &Arc<NacosSettings>) -> Self {
        Self { settings: Arc::clone(settings), token: Mutex::new(None) }
    }

    /// The token for a new connection to a server, if there is a user.
    pub(super) async fn token(&self, server: &NacosServer) -> Result<Option<Secret>, String> {
        let Some(login) = &self.settings.login else { return Ok(None) };
        let mut token = self.token.lock().await;
        if let Some(token) = token.as_ref().filter(|token| Instant::now() < token.renew_at) {
            return Ok(Some(token.secret.clone()));
        }
        let after = self.settings.connect_timeout;
        if let Some(tls) = &login.tls {
            tls.renew(after).await;
        }
        // It may have changed since the last login.
        let password = login.password.read_by(&self.settings.files, after).await;
        let password = password.map_err(|error| format!("login of {}: {error}", login.user))?;
        let granted = timeout(after, log_in(login, &password, server, after)).await;
        let granted = granted.unwrap_or_else(|_| Err(format!("no answer within {after:?}")));
        let granted = granted.map_err(|error| {
            let error = without_secret(&error, &password);
            format!("login of {}: {error}", login.user)
        })?;
        let ttl = granted.token_ttl.map_or(UNKNOWN_TTL, Duration::from_secs);
        let renew_at =
            Instant::now() + ttl.clamp(MIN_TTL, Duration::from_secs(30 * 86400)) / 10 * 9;
        let secret = Secret(granted.access_token);
        *token = Some(Token { secret: secret.clone(), renew_at });
        Ok(Some(secret))
    }

    /// When connections with this login should be made anew.
    pub(super) async fn expires_at(&self) -> Option<Instant> {
        self.token.lock().await.as_ref().map(|token| token.renew_at)
    }

    /// A server does not take the token.
    pub(super) async fn forget(&self) {
        *self.token.lock().await = None;
    }

    /// Another token than this one, which a server does not take; `None` if there is no user. It
    /// may be known already: connections share a login.
    pub(super) async fn another(
        &self,
        server: &NacosServer,
        refused: Option<&Secret>,
    ) -> Result<Option<Secret>, String> {
        let is_refused = |token: &mut Token| Some(&token.secret) == refused;
        let _refused = self.token.lock().await.take_if(is_refused);
        self.token(server).await
    }
}

async fn log_in(
    login: &LoginSettings,
    password: &str,
    server: &NacosServer,
    connect_timeout: Duration,
) -> Result<Granted, String> {
    let mut refused = String::new();
    for path in PATHS {
        let path = format!("{}{path}", login.context_path);
        let (status, body) = post(login, password, server, &path, connect_timeout).await?;
        match status {
            200 => {
                return serde_json::from_slice(&body)
                    .map_err(|error| format!("{path} returned no token: {error}"));
            }
            404 | 501 => {}
            401 | 403 => return Err("the server does not take this user and password".to_owned()),
            _ => {}
        }
        // Before it is cut, since a part of the password is not known for one.
        let said = without_secret(&String::from_utf8_lossy(&body), password);
        let said: String = said.chars().take(200).collect();
        refused = format!("{path} answers {status} {said}");
        if ![404, 501].contains(&status) {
            break;
        }
    }
    Err(refused)
}

async fn post(
    login: &LoginSettings,
    password: &str,
    server: &NacosServer,
    path: &str,
    connect_timeout: Duration,
) -> Result<(u16, Bytes), String> {
    let destination = destination(&server.host, server.port, login.tls.as_ref());
    let stream = destination.connect("http", connect_timeout).await;
    let stream = stream.map_err(|error| error.to_string())?;
    let (mut sender, connection) =
        http1::handshake(TokioIo::new(stream)).await.map_err(|error| error.to_string())?;
    let form = form_urlencoded::Serializer::new(String::new())
        .append_pair("username", &login.user)
        .append_pair("password", password)
        .finish();
    let request = http::Request::post(path)
        .header("host", server.to_string())
        .header("content-type", "application/x-www-form-urlencoded")
        .header("connection", "close")
        .body(Full::new(Bytes::from(form)));
    let request = request.map_err(|error| error.to_string())?;
    let exchange = async {
        let answer = sender.send_request(request).await.map_err(|error| error.to_string())?;
        let status = answer.status().as_u16();
        let body = Limited::new(answer.into_body(), MAX_ANSWER_LEN).collect().await;
        let body = body.map_err(|error| format!("the answer cannot be read: {error}"))?;
        Ok((status, body.to_bytes()))
    };
    tokio::select! {
        outcome = exchange => outcome,
        Err(error) = connection => Err(error.to_string()),
    }
}
