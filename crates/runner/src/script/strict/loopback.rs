//! The network of a cell with doors: its loopback device is brought up, given addresses, and listened on.

use std::io;
use std::net::{Ipv4Addr, TcpListener};

use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socket_with};

use super::doors::Doors;
use super::message::MAX_FDS;

/// The loopback device is the first of every network.
const LOOPBACK: u32 = 1;
const NEW_LINK: u16 = 16;
const NEW_ADDRESS: u16 = 20;
const REQUEST_WITH_ANSWER: u16 = 1 | 4;

/// Makes the network of the calling process, which is the cell's, lead to the doors; gives them as listening sockets.
pub(super) fn open(doors: &Doors) -> io::Result<Vec<TcpListener>> {
    let ports = doors.ports();
    if ports.len() > MAX_FDS {
        return Err(io::Error::other(format!("`network` names {} ports; at most {MAX_FDS} are taken", ports.len())));
    }
    // family, type, index, flags and which of them are meant: up
    let up = [[0u8; 4], LOOPBACK.to_ne_bytes(), 1u32.to_ne_bytes(), 1u32.to_ne_bytes()].concat();
    ask(NEW_LINK, &up)?;
    for address in doors.addresses() {
        ask(NEW_ADDRESS, &new_address(address))?;
    }
    ports.into_iter().map(|port| TcpListener::bind((Ipv4Addr::UNSPECIFIED, port))).collect()
}

/// IPv4, all 32 bits, for this machine alone, on loopback; as what is local and what is at the other end.
fn new_address(address: Ipv4Addr) -> Vec<u8> {
    let mut text = vec![2, 32, 0, 254];
    text.extend(LOOPBACK.to_ne_bytes());
    for kind in [2u16, 1] {
        text.extend(8u16.to_ne_bytes());
        text.extend(kind.to_ne_bytes());
        text.extend(address.octets());
    }
    text
}

/// One request to the kernel's routing, and its answer.
fn ask(kind: u16, body: &[u8]) -> io::Result<()> {
    // the protocol that netlink has by default is routing
    let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, None)?;
    let size = u32::try_from(16 + body.len()).unwrap_or(u32::MAX);
    let mut request = [size.to_ne_bytes().as_slice(), &kind.to_ne_bytes(), &REQUEST_WITH_ANSWER.to_ne_bytes(), &1u32.to_ne_bytes(), &[0; 4]].concat();
    request.extend(body);
    send(&socket, &request, SendFlags::empty())?;
    let mut answer = [0u8; 1024];
    let (count, _) = recv(&socket, &mut answer[..], RecvFlags::empty())?;
    // a header, then the error's number, negated; 0 is none
    let number = answer[..count].get(16..20).and_then(|bytes| bytes.try_into().ok()).map(i32::from_ne_bytes);
    match number {
        Some(0) => Ok(()),
        Some(number) => Err(io::Error::from_raw_os_error(-number)),
        None => Err(io::Error::other("the kernel's routing does not answer")),
    }
}
