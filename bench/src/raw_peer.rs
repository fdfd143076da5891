//! A connection of the programs on bare sockets: reads a batch, has it handled, writes a batch.

use std::io::{self, Read, Write};
use std::time::Duration;

use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Token};

/// Room for what the kernel tells at a time.
pub(crate) const EVENTS_PER_TURN: usize = 64;
const READ_LEN: usize = 256 * 1024;

/// Waits until a peer is ready, unless one is already.
pub(crate) fn wait(poll: &mut Poll, events: &mut Events, peers: &mut [Peer]) -> io::Result<()> {
    let is_busy = peers.iter().any(|peer| peer.is_ready);
    poll.poll(events, is_busy.then_some(Duration::ZERO))?;
    for event in &*events {
        if let Some(peer) = peers.get_mut(event.token().0) {
            peer.is_ready = true;
        }
    }
    Ok(())
}

/// One connection of either side.
pub(crate) struct Peer {
    stream: TcpStream,
    input: Vec<u8>,
    len: usize,
    /// What is to be written.
    pub(crate) out: Vec<u8>,
    /// There may be more to read.
    pub(crate) is_ready: bool,
    /// There is nothing more to come.
    pub(crate) is_over: bool,
}

impl Peer {
    pub(crate) fn new(mut stream: TcpStream, poll: &Poll, number: usize) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        let interest = Interest::READABLE | Interest::WRITABLE;
        poll.registry().register(&mut stream, Token(number), interest)?;
        let (input, out) = (vec![0; READ_LEN], Vec::new());
        Ok(Self { stream, input, len: 0, out, is_ready: true, is_over: false })
    }

    /// Reads once, so that no connection gets ahead of the others, has it handled, and writes.
    pub(crate) fn turn(
        &mut self,
        mut handle: impl FnMut(&[u8], &mut Vec<u8>) -> io::Result<usize>,
    ) -> io::Result<()> {
        match self.stream.read(&mut self.input[self.len..]) {
            Ok(0) => (self.is_ready, self.is_over) = (false, true),
            Ok(len) => {
                self.len += len;
                let done = handle(&self.input[..self.len], &mut self.out)?;
                self.input.copy_within(done..self.len, 0);
                self.len -= done;
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.is_ready = false,
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => {
                (self.is_ready, self.is_over) = (false, true);
            }
            Err(error) => return Err(error),
        }
        self.flush()
    }

    pub(crate) fn flush(&mut self) -> io::Result<()> {
        while !self.out.is_empty() && !self.is_over {
            match self.stream.write(&self.out) {
                Ok(len) => drop(self.out.drain(..len)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}
