//! The TCP sockets of this network namespace, from the kernel (`sock_diag(7)`).
//!
//! No privileges are needed. Sockets of other namespaces, such as those of containers, are not
//! seen: run inside of them (`nsenter -t PID -n`).

use std::io;
use std::net::SocketAddr;

use netlink_packet_core::{
    ErrorContext as _, NLM_F_DUMP, NLM_F_REQUEST, NetlinkHeader, NetlinkMessage, NetlinkPayload,
};
use netlink_packet_sock_diag::SockDiagMessage;
use netlink_packet_sock_diag::constants::{AF_INET, AF_INET6, IPPROTO_TCP};
use netlink_packet_sock_diag::inet::nlas::Nla;
use netlink_packet_sock_diag::inet::{
    ExtensionFlags, InetRequest, InetResponse, SocketId as NetlinkId, StateFlags,
};
use netlink_sys::{Socket as NetlinkSocket, SocketAddr as NetlinkAddr, protocols};
use wire::TcpInfo;

use crate::figures::{Figures, Socket, SocketId};

/// The kernel gives at most 32 KiB at a time.
const BUFFER_LEN: usize = 64 * 1024;
/// States of sockets. Source: `net/tcp_states.h`.
const SYN_SENT: u8 = 2;
const CLOSE_WAIT: u8 = 8;
const LISTEN: u8 = 10;

/// All sockets at one moment.
#[derive(Clone, Debug, Default)]
pub struct SocketTable {
    /// Connections.
    pub sockets: Vec<Socket>,
    /// Sockets that wait for connections.
    pub listeners: Vec<ListenerSocket>,
    /// Connections that are being opened.
    pub connecting: Vec<Connecting>,
}

/// A connection that is being opened from here.
#[derive(Clone, Debug)]
pub struct Connecting {
    /// Which one.
    pub id: SocketId,
    /// The number by which processes hold it.
    pub inode: u64,
    /// How often it was asked for again, because nothing answered.
    pub repeats: u64,
}

/// A socket that waits for connections.
#[derive(Clone, Debug)]
pub struct ListenerSocket {
    /// Where.
    pub address: SocketAddr,
    /// The number by which processes hold it.
    pub inode: u64,
    /// Connections that were not accepted yet.
    pub waiting: u64,
    /// How many of them there may be.
    pub limit: u64,
}

/// Asks the kernel.
///
/// # Errors
/// The kernel does not give them: it has no `inet_diag`, or a sandbox forbids to ask.
pub fn look() -> io::Result<SocketTable> {
    let mut look = SocketTable::default();
    for (family, id) in [(AF_INET, NetlinkId::new_v4()), (AF_INET6, NetlinkId::new_v6())] {
        ask(family, id, &mut look)?;
    }
    Ok(look)
}

fn ask(family: u8, socket_id: NetlinkId, look: &mut SocketTable) -> io::Result<()> {
    let mut socket = NetlinkSocket::new(protocols::NETLINK_SOCK_DIAG)?;
    socket.bind_auto()?;
    socket.connect(&NetlinkAddr::new(0, 0))?;
    let mut header = NetlinkHeader::default();
    header.flags = NLM_F_REQUEST | NLM_F_DUMP;
    let request = InetRequest {
        family,
        protocol: IPPROTO_TCP,
        extensions: ExtensionFlags::INFO | ExtensionFlags::SKMEMINFO,
        states: StateFlags::ESTABLISHED
            | StateFlags::SYN_SENT
            | StateFlags::CLOSE_WAIT
            | StateFlags::LISTEN,
        socket_id,
    };
    let mut message = NetlinkMessage::new(header, SockDiagMessage::InetRequest(request).into());
    message.finalize();
    let mut bytes = vec![0; message.buffer_len()];
    message.serialize(&mut bytes);
    socket.send(&bytes, 0)?;
    let mut buffer = Vec::with_capacity(BUFFER_LEN);
    loop {
        buffer.clear();
        socket.recv(&mut buffer, 0)?;
        if buffer.is_empty() || read(&buffer, look)? {
            return Ok(());
        }
    }
}

/// Reads the messages of one answer. Tells whether there are no more.
fn read(mut bytes: &[u8], look: &mut SocketTable) -> io::Result<bool> {
    while !bytes.is_empty() {
        let message = NetlinkMessage::<SockDiagMessage>::deserialize(bytes)
            .context("an answer of sock_diag")
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error.to_string()))?;
        match message.payload {
            NetlinkPayload::Done(_) => return Ok(true),
            NetlinkPayload::Error(error) => return Err(error.to_io()),
            NetlinkPayload::InnerMessage(SockDiagMessage::InetResponse(response)) => {
                add(&response, look);
            }
            _ => {}
        }
        // Messages begin at multiples of four bytes.
        let len = usize::try_from(message.header.length).unwrap_or(usize::MAX);
        let next = len.max(1).saturating_add(3) & !3;
        bytes = bytes.get(next..).unwrap_or_default();
    }
    Ok(false)
}

fn add(response: &InetResponse, look: &mut SocketTable) {
    let header = &response.header;
    let id = &header.socket_id;
    let local = SocketAddr::new(id.source_address.to_canonical(), id.source_port);
    let remote = SocketAddr::new(id.destination_address.to_canonical(), id.destination_port);
    let inode = u64::from(header.inode);
    if header.state == LISTEN {
        look.listeners.push(ListenerSocket {
            address: local,
            inode,
            waiting: header.recv_queue.into(),
            limit: header.send_queue.into(),
        });
        return;
    }
    let mut figures = Figures::default();
    let mut send_buffer = None;
    for attribute in &response.nlas {
        match attribute {
            Nla::TcpInfo(bytes) => figures = Figures::of(&TcpInfo::from_bytes(bytes)),
            Nla::MemInfo(memory) => send_buffer = Some(u64::from(memory.send_queue_max)),
            _ => {}
        }
    }
    figures.unread_bytes = Some(header.recv_queue.into());
    figures.unacked_bytes = Some(header.send_queue.into());
    figures.send_buffer_bytes = send_buffer;
    figures.is_closed_by_peer = header.state == CLOSE_WAIT;
    let id = SocketId { local, remote };
    if header.state == SYN_SENT {
        look.connecting.push(Connecting { id, inode, repeats: figures.retransmits.unwrap_or(0) });
        return;
    }
    look.sockets.push(Socket { id, inode, figures });
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn both_ends_of_a_connection_and_its_listener_are_seen() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (server, _) = listener.accept().unwrap();
        client.write_all(&[7; 1000]).unwrap();
        let id =
            SocketId { local: server.local_addr().unwrap(), remote: server.peer_addr().unwrap() };
        let find = || {
            let look = look().unwrap();
            let find = |id| look.sockets.iter().find(|it| it.id == id).cloned();
            Some((find(id)?, find(id.reversed())?, look.listeners))
        };
        let (server, client, listeners) = loop {
            let found = find().expect("the connection is open");
            if found.1.figures.acked_bytes >= Some(1000) {
                break found;
            }
        };
        assert_eq!(server.figures.unread_bytes, Some(1000));
        assert_eq!(server.figures.received_bytes, Some(1000));
        assert_eq!(client.figures.unacked_bytes, Some(0));
        assert!(client.figures.send_buffer_bytes > Some(0) && client.inode != 0);
        assert!(listeners.iter().any(|it| it.address == id.local && 0 < it.limit));
    }

    #[test]
    fn addresses_of_version_6_that_are_of_version_4_are_shown_as_such() {
        let Ok(listener) = TcpListener::bind("[::]:0") else { return };
        let port = listener.local_addr().unwrap().port();
        let client = TcpStream::connect(("127.0.0.1", port)).unwrap();
        let (_server, _) = listener.accept().unwrap();
        let local: SocketAddr = ([127, 0, 0, 1], port).into();
        let id = SocketId { local, remote: client.local_addr().unwrap() };
        assert!(look().unwrap().sockets.iter().any(|it| it.id == id));
    }

    #[test]
    fn what_is_no_answer_is_refused() {
        let mut look = SocketTable::default();
        assert!(read(&[1, 2, 3], &mut look).is_err());
        assert!(read(&[0; 64], &mut look).is_err() || look.sockets.is_empty());
    }
}
