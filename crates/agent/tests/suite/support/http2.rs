//! HTTP/2 whose frames are written by hand.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use agent::Agent;

use super::PATIENCE;

/// A connection.
pub struct Http2 {
    pub stream: TcpStream,
}

pub const DATA: u8 = 0;
pub const HEADERS: u8 = 1;
pub const RST_STREAM: u8 = 3;
pub const SETTINGS: u8 = 4;
pub const PING: u8 = 6;
pub const GOAWAY: u8 = 7;
pub const WINDOW_UPDATE: u8 = 8;
pub const CONTINUATION: u8 = 9;
pub const END_STREAM: u8 = 1;
pub const ACK: u8 = 1;
pub const END_HEADERS: u8 = 4;

impl Http2 {
    pub fn to(agent: &Agent, initial_window: u32) -> Self {
        Self::connect(agent.addresses().http[0], initial_window)
    }

    pub fn connect(address: SocketAddr, initial_window: u32) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_nodelay(true).unwrap();
        let mut http2 = Self { stream };
        http2.stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").unwrap();
        let window = initial_window.to_be_bytes();
        http2.frame(SETTINGS, 0, 0, &[&[0, 4][..], &window].concat());
        // From now on as much may be sent as the agent says.
        http2.next(WINDOW_UPDATE);
        http2.frame(SETTINGS, ACK, 0, &[]);
        // The windows of streams are what holds answers back, not that of the connection.
        http2.frame(WINDOW_UPDATE, 0, 0, &(1_u32 << 30).to_be_bytes());
        http2
    }

    pub fn frame(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
        let len = u32::try_from(payload.len()).unwrap().to_be_bytes();
        let head = [&len[1..], &[kind, flags], &stream.to_be_bytes()].concat();
        let _ = self.stream.write_all(&[&head, payload].concat());
    }

    /// The head of a call, and `n` more fields of a byte each on the wire.
    pub fn head(n: usize, path: &str) -> Vec<u8> {
        let mut block = vec![0x83, 0x86, 0x04, u8::try_from(path.len()).unwrap()];
        block.extend_from_slice(path.as_bytes());
        block.extend_from_slice(b"\x41\x01x");
        for (name, value) in [("x-dubbo-parameter-types", "java.lang.String"), ("a", "b")] {
            block.extend_from_slice(&[0x40, u8::try_from(name.len()).unwrap()]);
            block.extend_from_slice(name.as_bytes());
            block.push(u8::try_from(value.len()).unwrap());
            block.extend_from_slice(value.as_bytes());
        }
        block.extend(std::iter::repeat_n(0xbe, n));
        block
    }

    /// The next frame of that kind: its stream, and what is in it.
    pub fn next(&mut self, wanted: u8) -> (u32, Vec<u8>) {
        let (_, stream, payload) = self.next_of(&[wanted]);
        (stream, payload)
    }

    /// The next frame of one of these kinds, and its kind.
    pub fn next_of(&mut self, wanted: &[u8]) -> (u8, u32, Vec<u8>) {
        self.stream.set_read_timeout(Some(PATIENCE)).unwrap();
        loop {
            let mut head = [0; 9];
            self.stream.read_exact(&mut head).unwrap();
            let len = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
            let mut payload = vec![0; len];
            self.stream.read_exact(&mut payload).unwrap();
            if wanted.contains(&head[3]) {
                return (
                    head[3],
                    u32::from_be_bytes([head[5], head[6], head[7], head[8]]),
                    payload,
                );
            }
        }
    }
}
