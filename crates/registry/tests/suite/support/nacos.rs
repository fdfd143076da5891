//! A Nacos for tests: what a client needs of one server, with faults at will. Its messages are
//! those of Nacos 2.5: what it is sent is checked as Nacos checks it.

use std::collections::{BTreeMap, HashMap};
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::Poll::Ready;
use std::time::Duration;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper::{HeaderMap, Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use nacos_proto::{MAX_METADATA_LEN, Payload, md5};
use prost::Message;
use registry::NacosConfig;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

type Body = BoxBody<Bytes, Infallible>;
type Services = BTreeMap<String, Vec<Value>>;

/// A server. It ends when it is dropped.
pub(crate) struct Nacos {
    pub(crate) state: Arc<Mutex<State>>,
    address: SocketAddr,
    task: JoinSet<()>,
}

/// What a server knows, and how it behaves.
#[derive(Default)]
pub(crate) struct State {
    /// By `group@@name`: instances that somebody registered for good.
    pub(crate) persistent: Services,
    /// By connection: its instances by `group@@name`.
    pub(crate) ephemeral: HashMap<u64, Services>,
    pub(crate) documents: BTreeMap<(String, String), String>,
    /// How often each kind of message came.
    pub(crate) asked: BTreeMap<String, usize>,
    /// Kinds of messages that are not answered.
    pub(crate) is_deaf_to: Vec<&'static str>,
    /// How long it takes to answer a subscription.
    pub(crate) thinks_for: Duration,
    /// Subscriptions that wait for their answer, and the most there have been at a time.
    n_waiting: usize,
    pub(crate) max_waiting: usize,
    /// The token that every message must carry.
    pub(crate) token: Option<String>,
    pub(crate) n_logins: usize,
    /// It says when a connection can be used, as servers from 2.5 on do.
    pub(crate) negotiates: bool,
    /// Refuses metadata that are too long, as servers from 2.3 on do.
    pub(crate) refused: Vec<String>,
    /// What is registered on connections up to this one is forgotten at once.
    pub(crate) forgets_until: u64,
    connections: HashMap<u64, FakeNacosConnection>,
    last_id: u64,
    clock: i64,
}

struct FakeNacosConnection {
    pushes: Option<mpsc::UnboundedSender<Payload>>,
    subscribed: Vec<String>,
    listened: Vec<(String, String)>,
    is_set_up: bool,
    n_unanswered: usize,
    end: Option<tokio::sync::oneshot::Sender<()>>,
}

pub(crate) fn grouped(name: &str) -> String {
    format!("DEFAULT_GROUP@@{name}")
}

impl Nacos {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        Self::on(listener, Arc::default())
    }

    fn on(listener: TcpListener, state: Arc<Mutex<State>>) -> Self {
        let address = listener.local_addr().unwrap();
        let mut task = JoinSet::new();
        task.spawn(accept(listener, Arc::clone(&state)));
        Self { state, address, task }
    }

    /// The same server after a kill: what belonged to connections is gone.
    pub(crate) async fn restart(self) -> Self {
        let Self { state, address, mut task } = self;
        task.shutdown().await;
        {
            let mut state = state.lock().unwrap();
            state.connections.clear();
            state.ephemeral.clear();
        }
        let socket = tokio::net::TcpSocket::new_v4().unwrap();
        socket.set_reuseaddr(true).unwrap();
        socket.bind(address).unwrap();
        Self::on(socket.listen(64).unwrap(), state)
    }

    pub(crate) fn config(&self) -> NacosConfig {
        // The port of gRPC is the only one that this server has.
        let mut config = NacosConfig::new([self.address.to_string()]);
        config.grpc_port_offset = 0;
        config
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// Changes the instances of a service that are there for good.
    pub(crate) fn set(&self, name: &str, instances: &Value) {
        let mut state = self.state();
        let instances = instances.as_array().unwrap().clone();
        state.persistent.insert(grouped(name), instances);
        state.push_list(&grouped(name));
    }

    /// The same, and tells nobody.
    pub(crate) fn set_silently(&self, name: &str, instances: &Value) {
        let instances = instances.as_array().unwrap().clone();
        self.state().persistent.insert(grouped(name), instances);
    }

    pub(crate) fn write(&self, group: &str, data_id: &str, text: &str) {
        self.state().publish(group, data_id, text);
    }

    /// Sends a message to every connection.
    pub(crate) fn say(&self, kind: &str, body: &str) {
        let message = Payload::raw(kind, HashMap::new(), body.as_bytes().to_vec());
        for connection in self.state().connections.values() {
            if let Some(pushes) = &connection.pushes {
                let _ = pushes.send(message.clone());
            }
        }
    }

    /// Ends every connection.
    pub(crate) fn hang_up(&self) {
        for (_, connection) in std::mem::take(&mut self.state().connections) {
            drop(connection.end);
        }
    }
}

impl State {
    /// All instances of a service.
    pub(crate) fn instances(&self, service: &str) -> Vec<Value> {
        let ephemeral = self.ephemeral.values();
        let all = ephemeral.chain([&self.persistent]).filter_map(|it| it.get(service));
        all.flatten().cloned().collect()
    }

    pub(crate) fn n_connections(&self) -> usize {
        self.connections.values().filter(|it| it.is_set_up).count()
    }

    pub(crate) fn n_unanswered(&self) -> usize {
        self.connections.values().map(|it| it.n_unanswered).sum()
    }

    fn info(&mut self, service: &str) -> Value {
        self.clock += 1;
        let (group, name) = service.split_once("@@").unwrap();
        json!({"name": name, "groupName": group, "clusters": "", "hosts": self.instances(service),
            "lastRefTime": self.clock, "allIPs": false, "reachProtectionThreshold": false})
    }

    fn push_list(&mut self, service: &str) {
        let info = self.info(service);
        let body = json!({"requestId": self.clock.to_string(), "serviceInfo": info});
        let message = Payload::new("NotifySubscriberRequest", HashMap::new(), &body);
        for connection in self.connections.values_mut() {
            if connection.subscribed.iter().any(|it| it == service)
                && let Some(pushes) = &connection.pushes
            {
                connection.n_unanswered += 1;
                let _ = pushes.send(message.clone());
            }
        }
    }

    fn publish(&mut self, group: &str, data_id: &str, text: &str) {
        let key = (group.to_owned(), data_id.to_owned());
        self.documents.insert(key.clone(), text.to_owned());
        let body = json!({"requestId": "1", "group": group, "dataId": data_id, "tenant": ""});
        let message = Payload::new("ConfigChangeNotifyRequest", HashMap::new(), &body);
        for connection in self.connections.values() {
            if connection.listened.contains(&key)
                && let Some(pushes) = &connection.pushes
            {
                let _ = pushes.send(message.clone());
            }
        }
    }

    fn end(&mut self, id: u64) {
        self.connections.remove(&id);
        for service in self.ephemeral.remove(&id).unwrap_or_default().keys() {
            self.push_list(service);
        }
    }

    /// Answers a question.
    fn answer(&mut self, id: u64, payload: &Payload) -> Value {
        let kind = payload.kind();
        let body: Value = payload.read().unwrap();
        let is_internal = ["ServerCheckRequest", "ConnectionSetupRequest"].contains(&kind);
        if !is_internal && !self.connections.get(&id).is_some_and(|it| it.is_set_up) {
            let message = "Connection is unregistered.";
            return json!({"resultCode": 500, "errorCode": 301, "success": false, "message": message});
        }
        // Whoever has no token may still ask whether the server is alive.
        if !is_internal
            && kind != "HealthCheckRequest"
            && let Some(token) = &self.token
            && payload.header("accessToken") != Some(token)
        {
            return json!({"resultCode": 500, "errorCode": 403, "success": false, "message": "who?"});
        }
        let text = |key: &str| body[key].as_str().unwrap_or_default().to_owned();
        let service = format!("{}@@{}", text("groupName"), text("serviceName"));
        let document = (text("group"), text("dataId"));
        // To a server, services of `` are not those of `public`, and documents of `public` are not
        // those of ``, where Java's client has them by default.
        if body.get("groupName").is_some() {
            assert_eq!(body["namespace"], "public", "{kind}");
        } else if let Some(tenant) = body.get("tenant") {
            assert_eq!(tenant, "", "{kind}");
        }
        let mut answer = json!({"resultCode": 200, "errorCode": 0, "success": true});
        let refuse = |code: i32, message: &str| json!({"resultCode": 500, "errorCode": code, "success": false, "message": message});
        match kind {
            "ServerCheckRequest" => {
                answer["connectionId"] = id.to_string().into();
                answer["supportAbilityNegotiation"] = self.negotiates.into();
            }
            "HealthCheckRequest" => {}
            "InstanceRequest" | "BatchInstanceRequest" => {
                let is_over = text("type") == "deregisterInstance";
                let instances = match body.get("instances") {
                    Some(instances) => instances.as_array().unwrap().clone(),
                    None if is_over => Vec::new(),
                    None => vec![body["instance"].clone()],
                };
                assert!(instances.iter().all(|it| it.get("serviceName").is_none()), "as Java's");
                let len = |it: &Value| {
                    let metadata = it["metadata"].as_object().unwrap().iter();
                    metadata.map(|(k, v)| k.len() + v.as_str().unwrap().len()).sum::<usize>()
                };
                if instances.iter().any(|it| MAX_METADATA_LEN < len(it)) {
                    self.refused.push(service);
                    return refuse(400, "Param 'Metadata' is illegal");
                }
                if id <= self.forgets_until {
                    return answer;
                }
                let mine = self.ephemeral.entry(id).or_default();
                match instances.is_empty() {
                    true => drop(mine.remove(&service)),
                    false => drop(mine.insert(service.clone(), instances)),
                }
                self.push_list(&service);
            }
            "SubscribeServiceRequest" => {
                answer["serviceInfo"] = self.info(&service);
                let Some(connection) = self.connections.get_mut(&id) else { return answer };
                connection.subscribed.retain(|it| *it != service);
                if body["subscribe"] == true {
                    connection.subscribed.push(service);
                }
            }
            "ServiceQueryRequest" => answer["serviceInfo"] = self.info(&service),
            "ServiceListRequest" => {
                let prefix = service;
                let all = self.ephemeral.values().chain([&self.persistent]);
                let mut names: Vec<_> = all.flat_map(BTreeMap::keys).collect();
                names.sort();
                names.dedup();
                let names: Vec<_> =
                    names.iter().filter_map(|it| it.strip_prefix(&prefix)).collect();
                let page = usize::try_from(body["pageNo"].as_u64().unwrap()).unwrap() - 1;
                let len = usize::try_from(body["pageSize"].as_u64().unwrap()).unwrap();
                answer["count"] = names.len().into();
                answer["serviceNames"] = names.chunks(len).nth(page).unwrap_or_default().into();
            }
            "ConfigBatchListenRequest" => {
                let mut changed = Vec::new();
                for context in body["configListenContexts"].as_array().unwrap() {
                    let of = |key: &str| context[key].as_str().unwrap().to_owned();
                    let key = (of("group"), of("dataId"));
                    let known = self.documents.get(&key).map(|text| md5(text)).unwrap_or_default();
                    if known != of("md5") {
                        changed.push(json!({"group": key.0, "dataId": key.1, "tenant": ""}));
                    }
                    let Some(connection) = self.connections.get_mut(&id) else { continue };
                    connection.listened.retain(|it| *it != key);
                    if body["listen"] == true {
                        connection.listened.push(key);
                    }
                }
                answer["changedConfigs"] = changed.into();
            }
            "ConfigQueryRequest" => match self.documents.get(&document) {
                Some(text) => {
                    answer["content"] = text.as_str().into();
                    answer["md5"] = md5(text).into();
                }
                None => return refuse(300, "config data not exist"),
            },
            "ConfigPublishRequest" => {
                let known = self.documents.get(&document).map_or("0".into(), |text| md5(text));
                if text("casMd5") != known {
                    return refuse(500, "Cas publish fail, server md5 may have changed.");
                }
                self.publish(&document.0, &document.1, &text("content"));
            }
            other => panic!("unexpected {other}"),
        }
        answer
    }
}

async fn accept(listener: TcpListener, state: Arc<Mutex<State>>) {
    let mut connections = JoinSet::new();
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        let state = Arc::clone(&state);
        connections.spawn(async move {
            let (end, ended) = tokio::sync::oneshot::channel();
            let id = {
                let mut state = state.lock().unwrap();
                state.last_id += 1;
                let connection = FakeNacosConnection {
                    pushes: None,
                    subscribed: Vec::new(),
                    listened: Vec::new(),
                    is_set_up: false,
                    n_unanswered: 0,
                    end: Some(end),
                };
                let id = state.last_id;
                state.connections.insert(id, connection);
                id
            };
            let of_requests = Arc::clone(&state);
            let service = service_fn(move |request| serve(request, id, Arc::clone(&of_requests)));
            let server = hyper_util::server::conn::auto::Builder::new(TokioExecutor::new());
            tokio::select! {
                _ = server.serve_connection(TokioIo::new(stream), service) => {}
                _ = ended => {}
            }
            state.lock().unwrap().end(id);
        });
    }
}

async fn serve(
    request: Request<Incoming>,
    id: u64,
    state: Arc<Mutex<State>>,
) -> Result<Response<Body>, Infallible> {
    if request.uri().path().contains("/auth/") {
        return Ok(log_in(request, &state).await);
    }
    let is_stream = request.uri().path() == nacos_proto::STREAM_PATH;
    let mut body = request.into_body();
    if !is_stream {
        let mut bytes = body.collect().await.unwrap().to_bytes();
        bytes.advance(5);
        let payload = Payload::decode(bytes).unwrap();
        let kind = payload.kind().to_owned();
        let is_deaf = {
            let mut state = state.lock().unwrap();
            *state.asked.entry(kind.clone()).or_default() += 1;
            state.is_deaf_to.iter().any(|it| *it == kind)
        };
        if is_deaf {
            std::future::pending::<()>().await;
        }
        if kind == "SubscribeServiceRequest" {
            think(&state).await;
        }
        let answer = state.lock().unwrap().answer(id, &payload);
        let kind = kind.replace("Request", "Response");
        let framed = framed(&Payload::new(&kind, HashMap::new(), &answer));
        let body = Full::new(framed).with_trailers(async { Some(Ok(good())) });
        return Ok(response(body.boxed()));
    }
    let (pushes, mut to_push) = mpsc::unbounded_channel();
    let of_stream = Arc::clone(&state);
    tokio::spawn(async move {
        let mut input = BytesMut::new();
        while let Some(Ok(frame)) = body.frame().await {
            input.extend_from_slice(&frame.into_data().unwrap_or_default());
            while 5 <= input.len() {
                let len = usize::try_from((&input[1..5]).get_u32()).unwrap();
                if input.len() < 5 + len {
                    break;
                }
                let message = input.split_to(5 + len).freeze().slice(5..);
                take_message(
                    &mut of_stream.lock().unwrap(),
                    id,
                    &Payload::decode(message).unwrap(),
                    &pushes,
                );
            }
        }
        drop(pushes);
    });
    // The headers of the answer come with its first message, as grpc-java sends them.
    let mut first = to_push.recv().await;
    let frames = futures_util::stream::poll_fn(move |context| {
        let next = first.take().map_or_else(|| to_push.poll_recv(context), |it| Ready(Some(it)));
        next.map(|it| it.map(|it| Ok(Frame::data(framed(&it)))))
    });
    Ok(response(BodyExt::boxed(StreamBody::new(frames))))
}

async fn think(state: &Mutex<State>) {
    let thinks_for = {
        let mut state = state.lock().unwrap();
        state.n_waiting += 1;
        state.max_waiting = state.max_waiting.max(state.n_waiting);
        state.thinks_for
    };
    tokio::time::sleep(thinks_for).await;
    state.lock().unwrap().n_waiting -= 1;
}

/// The login of Nacos 2, by HTTP: everybody who knows the password gets a new token.
async fn log_in(request: Request<Incoming>, state: &Mutex<State>) -> Response<Body> {
    let path = request.uri().path().to_owned();
    let form = request.into_body().collect().await.unwrap().to_bytes();
    let (status, text) = match path.as_str() {
        "/nacos/v1/auth/users/login" if &form[..] == b"username=u&password=a%26b" => {
            let mut state = state.lock().unwrap();
            state.n_logins += 1;
            let token = format!("token {}", state.n_logins);
            state.token = Some(token.clone());
            (200, json!({"accessToken": token, "tokenTtl": 18000, "globalAdmin": true}).to_string())
        }
        "/nacos/v1/auth/users/login" => (403, "unknown user!".to_owned()),
        _ => (404, String::new()),
    };
    let body = Full::new(Bytes::from(text)).boxed();
    Response::builder().status(status).body(body).unwrap()
}

fn take_message(
    state: &mut State,
    id: u64,
    payload: &Payload,
    pushes: &mpsc::UnboundedSender<Payload>,
) {
    let negotiates = state.negotiates;
    let Some(connection) = state.connections.get_mut(&id) else { return };
    match payload.kind() {
        "ConnectionSetupRequest" => {
            connection.is_set_up = true;
            connection.pushes = Some(pushes.clone());
            if negotiates {
                let done = json!({"requestId": "1", "abilityTable": {}});
                let _ = pushes.send(Payload::new("SetupAckRequest", HashMap::new(), &done));
            }
        }
        "NotifySubscriberResponse" => {
            connection.n_unanswered = connection.n_unanswered.saturating_sub(1);
        }
        "SetupAckResponse" => panic!("the end of the setup must not be answered"),
        _ => {}
    }
}

fn framed(payload: &Payload) -> Bytes {
    let mut bytes = BytesMut::new();
    bytes.put_u8(0);
    bytes.put_u32(u32::try_from(payload.encoded_len()).unwrap());
    payload.encode(&mut bytes).unwrap();
    bytes.freeze()
}

fn good() -> HeaderMap {
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", "0".parse().unwrap());
    trailers
}

fn response(body: Body) -> Response<Body> {
    Response::builder().header("content-type", "application/grpc").body(body).unwrap()
}
