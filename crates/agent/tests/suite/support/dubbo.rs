//! A Dubbo consumer that waits for each answer, and shows what it got.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use dubbo_proto::{
    ClientConfig, ClientConnection, ClientEvent, Reply, ReplyKind, RequestHead, RequestTemplate,
    Serialization, Status,
};

use super::{PATIENCE, SERVICE};

/// What came back.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ProviderAnswer {
    pub status: Status,
    pub serialization: Serialization,
    pub body: Bytes,
}

impl ProviderAnswer {
    /// The text of an error.
    pub fn text(&self) -> String {
        dubbo_proto::error_text(self.serialization, &self.body).into_owned()
    }

    /// The value of a reply that went well.
    pub fn value(&self) -> &[u8] {
        match Reply::decode(self.serialization, self.status, &self.body) {
            Ok(Reply::Done(outcome)) if outcome.kind() == ReplyKind::Value => {
                outcome.value_and_rest()
            }
            other => panic!("{other:?} is no value"),
        }
    }
}

/// A connection to a provider, or to an agent.
pub struct DubboConsumer {
    pub stream: TcpStream,
    machine: ClientConnection<u64>,
    input: BytesMut,
    pub events: Vec<ClientEvent<u64>>,
}

impl DubboConsumer {
    pub fn connect(addr: SocketAddr) -> Self {
        let stream = TcpStream::connect(addr).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_nodelay(true).unwrap();
        let config = ClientConfig {
            max_request_len: 1 << 30,
            max_buffered_bytes: 1 << 30,
            ..ClientConfig::default()
        };
        let machine = ClientConnection::new(config, Instant::now());
        Self { stream, machine, input: BytesMut::new(), events: Vec::new() }
    }

    pub fn to(agent: &agent::Agent) -> Self {
        Self::connect(agent.addresses().dubbo[0])
    }

    /// Sends a request's body.
    pub fn send(&mut self, serialization: Serialization, body: &[u8], token: u64) {
        let now = Instant::now();
        self.machine.send_body(now, serialization, body, now + PATIENCE, token).unwrap();
        self.flush();
    }

    pub fn send_one_way(&mut self, serialization: Serialization, body: &[u8]) {
        self.machine.send_body_one_way(Instant::now(), serialization, body).unwrap();
        self.flush();
    }

    fn flush(&mut self) {
        let output = self.machine.transmit();
        self.stream.write_all(output).unwrap();
        output.clear();
    }

    /// Waits for the next event; `None` if the connection was closed.
    pub fn next(&mut self) -> Option<ClientEvent<u64>> {
        let mut buffer = vec![0; 64 * 1024];
        loop {
            if let Some(event) = self.machine.poll_event() {
                return Some(event);
            }
            let len = match self.stream.read(&mut buffer) {
                Ok(0) => return None,
                Ok(len) => len,
                Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => return None,
                Err(error) => panic!("{error}"),
            };
            self.input.extend_from_slice(&buffer[..len]);
            self.machine.handle_bytes(Instant::now(), &mut self.input).unwrap();
            self.flush();
        }
    }

    /// Waits for the next answer.
    pub fn answer(&mut self) -> (u64, ProviderAnswer) {
        loop {
            match self.next().expect("the connection stays") {
                ClientEvent::Reply { token, status, serialization, body } => {
                    return (token, ProviderAnswer { status, serialization, body });
                }
                other => self.events.push(other),
            }
        }
    }

    /// Whether something comes within `patience`.
    pub fn hears(&mut self, patience: Duration) -> bool {
        self.stream.set_read_timeout(Some(patience)).unwrap();
        let heard = self.stream.peek(&mut [0]).is_ok();
        self.stream.set_read_timeout(Some(PATIENCE)).unwrap();
        heard
    }

    /// Calls a method of [`SERVICE`] with one string.
    pub fn call(
        &mut self,
        method: &str,
        argument: &str,
        attachments: &[(&str, &str)],
    ) -> ProviderAnswer {
        let body = body(SERVICE, method, argument, attachments);
        self.send(Serialization::Hessian2, &body, 1);
        self.answer().1
    }
}

/// The body of a request with one string in hessian2.
pub fn body(service: &str, method: &str, argument: &str, attachments: &[(&str, &str)]) -> Vec<u8> {
    body_of_version("", service, method, argument, attachments)
}

/// The same of a version of the service.
pub fn body_of_version(
    version: &str,
    service: &str,
    method: &str,
    argument: &str,
    attachments: &[(&str, &str)],
) -> Vec<u8> {
    let descriptor = "Ljava/lang/String;";
    let head = RequestHead { path: service, version, method, descriptor };
    let mut args = Vec::new();
    hessian::write_string(&mut args, argument);
    let template = RequestTemplate::new(Serialization::Hessian2, &head, attachments).unwrap();
    let template = template.with_payload_limit(usize::MAX);
    let mut client = ClientConnection::<()>::new(ClientConfig::default(), Instant::now());
    let deadline = Instant::now() + Duration::from_secs(1);
    client.send(Instant::now(), &template, &args, &[], deadline, ()).unwrap();
    client.transmit()[16..].to_vec()
}

/// What a string looks like in hessian2.
pub fn string(text: &str) -> Vec<u8> {
    let mut value = Vec::new();
    hessian::write_string(&mut value, text);
    value
}
