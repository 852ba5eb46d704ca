//! What the processes of a cell and its guardian tell one another: short texts, with descriptors where some are handed over.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType,
    recvmsg, sendmsg, socketpair,
};

/// The longest message.
const MAX: usize = 4096;
/// Descriptors in one message at most; the kernel takes 253.
pub(super) const MAX_FDS: usize = 64;

/// Two ends that keep messages apart.
pub(super) fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?)
}

pub(super) fn say(fd: impl AsFd, text: &str) -> io::Result<()> {
    hand(fd, text, &[])
}

/// Says something and hands descriptors over.
pub(super) fn hand(fd: impl AsFd, text: &str, fds: &[BorrowedFd<'_>]) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FDS))];
    let mut with = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() && !with.push(SendAncillaryMessage::ScmRights(fds)) {
        return Err(io::Error::other("too many descriptors for one message"));
    }
    let end = (0..=text.len().min(MAX)).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    sendmsg(fd, &[IoSlice::new(&text.as_bytes()[..end])], &mut with, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// The next message; `None` when the other side is gone.
pub(super) fn hear(fd: impl AsFd) -> io::Result<Option<(String, Vec<OwnedFd>)>> {
    let mut text = [0; MAX];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FDS))];
    let mut with = RecvAncillaryBuffer::new(&mut space);
    let got = loop {
        match recvmsg(fd.as_fd(), &mut [IoSliceMut::new(&mut text)], &mut with, RecvFlags::CMSG_CLOEXEC) {
            Err(rustix::io::Errno::INTR) => {}
            got => break got?,
        }
    };
    let mut fds = Vec::new();
    for message in with.drain() {
        if let RecvAncillaryMessage::ScmRights(handed) = message {
            fds.extend(handed);
        }
    }
    Ok((got.bytes > 0).then(|| (String::from_utf8_lossy(&text[..got.bytes]).into_owned(), fds)))
}
