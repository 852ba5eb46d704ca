//! The engine's ends of a worker's protocol socket, control socket and log pipe, polled from one task.
//!
//! Reads and writes are tried first and waited for only when the kernel says so; a warm call is one write,
//! one wait and one read, with no task between the caller and the socket.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::task::{Context, Poll};

use rustix::buffer::spare_capacity;
use rustix::io::Errno;
use tokio::io::unix::AsyncFd;

use super::log::LogBuffer;

/// A frame: a little-endian u32 length, one byte of kind, and the body.
pub(crate) const HEADER: usize = 5;
const KINDS: &[u8] = b"rxybdpqk";
/// Room in a frame for what stands around a value of the greatest size.
const SLACK: usize = 1 << 20;
const READ: usize = 8 << 10;
/// How much of a flooded log is read before the sockets get their turn.
const LOG_TURN: usize = 1 << 20;

/// One frame from the worker.
pub(crate) struct Frame {
    bytes: Vec<u8>,
}

impl Frame {
    pub(crate) fn kind(&self) -> u8 {
        self.bytes[4]
    }

    pub(crate) fn body(&self) -> &[u8] {
        &self.bytes[HEADER..]
    }
}

/// What can come from the other side.
pub(crate) enum Arrival {
    /// A whole frame of a known kind.
    Frame(Frame),
    /// Bytes that are no frame.
    Garbage(String),
    /// The worker's end of the protocol socket is closed.
    ProtocolClosed,
    /// A line of the guardian's.
    Control(String),
    /// The guardian is gone.
    ControlClosed,
}

/// The three descriptors with what is half read and half written.
pub(crate) struct Ends {
    protocol: AsyncFd<OwnedFd>,
    control: AsyncFd<OwnedFd>,
    log: AsyncFd<OwnedFd>,
    inbox: Vec<u8>,
    lines: Vec<u8>,
    outbox: Vec<u8>,
    sent: usize,
    frame_limit: usize,
    protocol_open: bool,
    control_open: bool,
    log_open: bool,
}

impl Ends {
    pub(crate) fn new(protocol: OwnedFd, control: OwnedFd, log: OwnedFd, value_limit: usize) -> io::Result<Ends> {
        for fd in [&protocol, &control, &log] {
            let flags = rustix::fs::fcntl_getfl(fd)?;
            rustix::fs::fcntl_setfl(fd, flags | rustix::fs::OFlags::NONBLOCK)?;
        }
        Ok(Ends {
            protocol: watched(protocol)?,
            control: watched(control)?,
            log: watched(log)?,
            inbox: Vec::new(),
            lines: Vec::new(),
            outbox: Vec::new(),
            sent: 0,
            frame_limit: value_limit + SLACK,
            protocol_open: true,
            control_open: true,
            log_open: true,
        })
    }

    /// Starts sending; what does not fit the socket's buffer now follows while the ends are polled.
    pub(crate) fn send(&mut self, frame: Vec<u8>) {
        let start = match rustix::io::write(self.protocol.get_ref(), &frame) {
            Ok(count) => count,
            Err(Errno::AGAIN | Errno::INTR) => 0,
            Err(_) => return, // the closed end shows when it is read
        };
        if start < frame.len() {
            (self.outbox, self.sent) = (frame, start);
        }
    }

    /// Whether all that was sent has left.
    pub(crate) fn is_sent(&self) -> bool {
        self.outbox.is_empty()
    }

    /// Tells the guardian something; a guardian that is gone shows as [`Arrival::ControlClosed`].
    pub(crate) fn tell(&self, line: &str) {
        let _ = rustix::io::write(self.control.get_ref(), format!("{line}\n").as_bytes());
    }

    /// Whether nothing has arrived and both peers are there: an idle worker is fit for use.
    pub(crate) fn is_quiet(&self) -> bool {
        let mut byte = [0u8; 1];
        self.inbox.is_empty()
            && self.protocol_open
            && self.control_open
            && matches!(rustix::io::read(self.protocol.get_ref(), &mut byte), Err(Errno::AGAIN))
            && matches!(rustix::io::read(self.control.get_ref(), &mut byte), Err(Errno::AGAIN))
    }

    /// Reads what is in the log pipe now.
    pub(crate) fn drain_log(&mut self, log: &mut LogBuffer) {
        let mut left = 2 * LOG_TURN;
        while self.log_open && left > 0 {
            match read_log(self.log.get_ref(), log) {
                Ok(0) => self.log_open = false,
                Ok(count) if count < LOG_READ => return,
                Ok(count) => left = left.saturating_sub(count),
                Err(Errno::INTR) => {}
                Err(_) => return,
            }
        }
    }

    /// The next thing that arrives; log bytes are taken on the way.
    pub(crate) fn poll_arrival(&mut self, cx: &mut Context<'_>, log: &mut LogBuffer) -> Poll<Arrival> {
        self.poll_send(cx);
        self.poll_log(cx, log);
        if self.protocol_open
            && let Poll::Ready(arrival) = self.poll_protocol(cx)
        {
            return Poll::Ready(arrival);
        }
        if self.control_open {
            return self.poll_control(cx);
        }
        Poll::Pending
    }

    fn poll_send(&mut self, cx: &mut Context<'_>) {
        while self.sent < self.outbox.len() {
            let Poll::Ready(Ok(mut guard)) = self.protocol.poll_write_ready(cx) else { return };
            match rustix::io::write(self.protocol.get_ref(), &self.outbox[self.sent..]) {
                Ok(count) => self.sent += count,
                Err(Errno::AGAIN) => guard.clear_ready(),
                Err(Errno::INTR) => {}
                Err(_) => break,
            }
        }
        (self.outbox, self.sent) = (Vec::new(), 0);
    }

    fn poll_log(&mut self, cx: &mut Context<'_>, log: &mut LogBuffer) {
        let mut left = LOG_TURN;
        while self.log_open {
            let Poll::Ready(Ok(mut guard)) = self.log.poll_read_ready(cx) else { return };
            match read_log(self.log.get_ref(), log) {
                Ok(0) => self.log_open = false,
                Ok(count) if count < LOG_READ => guard.clear_ready(),
                Ok(count) => left = left.saturating_sub(count),
                Err(Errno::AGAIN) => guard.clear_ready(),
                Err(Errno::INTR) => {}
                Err(_) => self.log_open = false,
            }
            if left == 0 {
                return cx.waker().wake_by_ref();
            }
        }
    }

    fn poll_protocol(&mut self, cx: &mut Context<'_>) -> Poll<Arrival> {
        loop {
            if let Some(arrival) = self.next_frame() {
                return Poll::Ready(arrival);
            }
            let Poll::Ready(ready) = self.protocol.poll_read_ready(cx) else { return Poll::Pending };
            let Ok(mut guard) = ready else { return Poll::Pending };
            self.inbox.reserve(READ.max(missing(&self.inbox).min(READ << 5)));
            match rustix::io::read(self.protocol.get_ref(), spare_capacity(&mut self.inbox)) {
                Ok(0) => break,
                Ok(_) if self.inbox.len() < self.inbox.capacity() => guard.clear_ready(),
                Ok(_) | Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => guard.clear_ready(),
                Err(_) => break,
            }
        }
        self.protocol_open = false;
        Poll::Ready(Arrival::ProtocolClosed)
    }

    fn next_frame(&mut self) -> Option<Arrival> {
        let size = length(&self.inbox)?;
        let kind = *self.inbox.get(4)?;
        if size <= 4 || size > self.frame_limit || !KINDS.contains(&kind) {
            self.protocol_open = false;
            return Some(Arrival::Garbage(String::from_utf8_lossy(&self.inbox[..self.inbox.len().min(40)]).into_owned()));
        }
        if self.inbox.len() < size {
            return None;
        }
        let rest = self.inbox.split_off(size);
        let bytes = std::mem::replace(&mut self.inbox, rest);
        Some(Arrival::Frame(Frame { bytes }))
    }

    fn poll_control(&mut self, cx: &mut Context<'_>) -> Poll<Arrival> {
        loop {
            if let Some(end) = self.lines.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.lines.drain(..=end).collect();
                return Poll::Ready(Arrival::Control(String::from_utf8_lossy(&line[..end]).into_owned()));
            }
            let Poll::Ready(ready) = self.control.poll_read_ready(cx) else { return Poll::Pending };
            let Ok(mut guard) = ready else { return Poll::Pending };
            self.lines.reserve(256);
            match rustix::io::read(self.control.get_ref(), spare_capacity(&mut self.lines)) {
                Ok(0) => break,
                Ok(_) | Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => guard.clear_ready(),
                Err(_) => break,
            }
        }
        self.control_open = false;
        Poll::Ready(Arrival::ControlClosed)
    }
}

/// `AsyncFd::new` is deprecated because a caller's type may break the rules of I/O safety, in favour of an unsafe
/// function; an `OwnedFd` cannot break them.
#[allow(deprecated)]
pub(super) fn watched(fd: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    AsyncFd::new(fd)
}

/// The whole frame's length, header included, once it is known.
fn length(inbox: &[u8]) -> Option<usize> {
    let size = inbox.first_chunk::<4>()?;
    Some(u32::from_le_bytes(*size) as usize + 4)
}

fn missing(inbox: &[u8]) -> usize {
    length(inbox).map_or(0, |size| size.saturating_sub(inbox.len()))
}

const LOG_READ: usize = 64 << 10;

fn read_log(fd: impl AsFd, log: &mut LogBuffer) -> Result<usize, Errno> {
    let mut buffer = [MaybeUninit::<u8>::uninit(); LOG_READ];
    let (bytes, _) = rustix::io::read(fd, &mut buffer)?;
    log.push(bytes);
    Ok(bytes.len())
}

/// A frame to the worker, put together from the body's parts.
pub(crate) fn frame(kind: u8, parts: &[&[u8]]) -> Vec<u8> {
    let size: usize = 1 + parts.iter().map(|part| part.len()).sum::<usize>();
    let mut bytes = Vec::with_capacity(size + 4);
    bytes.extend_from_slice(&u32::try_from(size).unwrap_or(u32::MAX).to_le_bytes());
    bytes.push(kind);
    parts.iter().for_each(|part| bytes.extend_from_slice(part));
    bytes
}
