//! The guardian's side of a cell's doors: each connection is led to the host that it is for, if the script may speak to it.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use super::doors::{Behind, Doors};

/// Connections of one worker at a time.
const MAX_CONNECTIONS: usize = 256;
/// How long a connection to a host may take to be made, and the words to the proxy to come.
const PATIENCE: Duration = Duration::from_secs(10);
/// The longest head of a request to the proxy.
const MAX_HEAD: usize = 64 << 10;
const STACK: usize = 256 << 10;

/// Serves the doors for as long as this process lives.
pub(super) fn serve(doors: Doors, listeners: Vec<TcpListener>) -> io::Result<()> {
    let doors = Arc::new(doors);
    let open = Arc::new(AtomicUsize::new(0));
    for listener in listeners {
        let (doors, open) = (Arc::clone(&doors), Arc::clone(&open));
        thread(move || listen(&listener, &doors, &open))?;
    }
    Ok(())
}

fn thread(work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    std::thread::Builder::new().stack_size(STACK).spawn(work).map(drop)
}

fn listen(listener: &TcpListener, doors: &Arc<Doors>, open: &Arc<AtomicUsize>) {
    loop {
        let Ok((inner, _)) = listener.accept() else {
            std::thread::sleep(Duration::from_millis(10));
            continue;
        };
        if open.fetch_add(1, Ordering::Relaxed) >= MAX_CONNECTIONS {
            open.fetch_sub(1, Ordering::Relaxed);
            continue;
        }
        let (doors, counted) = (Arc::clone(doors), Arc::clone(open));
        let started = thread(move || {
            // what goes wrong has been said to the script, or shows as the end of its connection
            let _ = lead(&inner, &doors);
            counted.fetch_sub(1, Ordering::Relaxed);
        });
        if started.is_err() {
            open.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

fn lead(inner: &TcpStream, doors: &Doors) -> io::Result<()> {
    let SocketAddr::V4(local) = inner.local_addr()? else { return Ok(()) };
    match doors.behind(local) {
        Some(Behind::Host(name)) => {
            let outer = connect(doors, &name, local.port()).map_err(|refused| io::Error::other(refused.why))?;
            join(inner, &outer)
        }
        Some(Behind::Proxy) => be_proxy(inner, doors),
        None => Ok(()),
    }
}

/// Why there is no connection, and the status that says so.
struct Refused {
    status: u16,
    why: String,
}

fn connect(doors: &Doors, host: &str, port: u16) -> Result<TcpStream, Refused> {
    let forbidden = |why: crate::script::http::Denied| Refused { status: 403, why: why.0 };
    let failed = |why: String| Refused { status: 502, why };
    doors.hosts.check_name(host, port).map_err(forbidden)?;
    let found = (host, port).to_socket_addrs().map_err(|error| failed(format!("{host} is not found: {error}")))?;
    let mut last = failed(format!("{host} has no address"));
    for address in found {
        if let Err(why) = doors.hosts.check_address(host, address.ip()) {
            last = forbidden(why);
            continue;
        }
        match TcpStream::connect_timeout(&address, PATIENCE) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = failed(format!("{host} port {port}: {error}")),
        }
    }
    Err(last)
}

/// A request as it begins.
struct Request {
    host: String,
    port: u16,
    /// What the host is sent in its place; nothing where a tunnel was asked for.
    onward: Option<Vec<u8>>,
    /// What came behind the head.
    rest: Vec<u8>,
}

fn be_proxy(mut inner: &TcpStream, doors: &Doors) -> io::Result<()> {
    inner.set_read_timeout(Some(PATIENCE))?;
    let (head, rest) = head(inner)?;
    inner.set_read_timeout(None)?;
    let reached = request(&head, rest).and_then(|request| Ok((connect(doors, &request.host, request.port)?, request)));
    match reached {
        Ok((mut outer, request)) => {
            match &request.onward {
                Some(head) => outer.write_all(head)?,
                None => inner.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n")?,
            }
            outer.write_all(&request.rest)?;
            join(inner, &outer)
        }
        Err(Refused { status, why }) => {
            let why = why.replace(['\r', '\n'], " ");
            inner.write_all(
                format!("HTTP/1.1 {status} {why}\r\nContent-Type: text/plain\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{why}\n", why.len() + 1)
                    .as_bytes(),
            )
        }
    }
}

/// Reads up to the blank line; gives the head with it, and what came behind.
fn head(mut inner: &TcpStream) -> io::Result<(Vec<u8>, Vec<u8>)> {
    let (mut text, mut buffer) = (Vec::new(), [0; 4096]);
    loop {
        if let Some(end) = text.windows(4).position(|four| four == b"\r\n\r\n") {
            let rest = text.split_off(end + 4);
            return Ok((text, rest));
        }
        let count = inner.read(&mut buffer)?;
        if count == 0 || text.len() > MAX_HEAD {
            return Err(io::ErrorKind::InvalidData.into());
        }
        text.extend_from_slice(&buffer[..count]);
    }
}

fn request(head: &[u8], rest: Vec<u8>) -> Result<Request, Refused> {
    let wrong = |why: &str| Refused { status: 400, why: why.to_owned() };
    let text = std::str::from_utf8(head).map_err(|_| wrong("the request is not UTF-8"))?;
    let (first, headers) = text.split_once("\r\n").ok_or_else(|| wrong("the request has no line"))?;
    let mut words = first.split(' ');
    let (Some(method), Some(target), Some(version)) = (words.next(), words.next(), words.next()) else { return Err(wrong("the request line has three parts")) };
    if method == "CONNECT" {
        let (host, port) = target.rsplit_once(':').ok_or_else(|| wrong("CONNECT names a host and a port"))?;
        let port = port.parse().map_err(|_| wrong("CONNECT names a host and a port"))?;
        return Ok(Request { host: bare(host), port, onward: None, rest });
    }
    let after = target.strip_prefix("http://").ok_or_else(|| wrong("a proxy is asked for an http:// URL, or by CONNECT"))?;
    let (authority, path) = after.find('/').map_or((after, "/"), |at| after.split_at(at));
    let authority = authority.rsplit('@').next().unwrap_or(authority);
    let (host, port) = match authority.rsplit_once(':').filter(|(_, port)| port.bytes().all(|each| each.is_ascii_digit())) {
        Some((host, port)) => (host, port.parse().map_err(|_| wrong("there is no such port"))?),
        None => (authority, 80),
    };
    let mut onward = format!("{method} {path} {version}\r\n");
    for line in headers.split("\r\n").filter(|line| !line.is_empty()) {
        let name = line.split(':').next().unwrap_or_default().to_ascii_lowercase();
        if !name.starts_with("proxy-") && name != "connection" && name != "keep-alive" {
            onward.push_str(line);
            onward.push_str("\r\n");
        }
    }
    // one request a connection: the next may be for another host
    onward.push_str("Connection: close\r\n\r\n");
    Ok(Request { host: bare(host), port, onward: Some(onward.into_bytes()), rest })
}

fn bare(host: &str) -> String {
    host.trim_start_matches('[').trim_end_matches(']').to_owned()
}

/// Passes on what either side says until both have said all.
fn join(inner: &TcpStream, outer: &TcpStream) -> io::Result<()> {
    let (from, to) = (inner.try_clone()?, outer.try_clone()?);
    thread(move || pass(&from, &to))?;
    pass(outer, inner);
    Ok(())
}

fn pass(mut from: &TcpStream, mut to: &TcpStream) {
    let done = io::copy(&mut from, &mut to);
    if done.is_err() {
        // neither will get anywhere any more
        let _ = from.shutdown(Shutdown::Both);
        let _ = to.shutdown(Shutdown::Both);
    }
    let _ = to.shutdown(Shutdown::Write);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_to_a_proxy_are_read() {
        let tunnel = request(b"CONNECT [::1]:443 HTTP/1.1\r\nHost: x\r\n\r\n", Vec::new()).ok().unwrap();
        assert_eq!((tunnel.host.as_str(), tunnel.port, tunnel.onward.is_none()), ("::1", 443, true));
        let plain = request(
            b"GET http://u:p@a.test:8080/x?y HTTP/1.1\r\nHost: a.test:8080\r\nProxy-Connection: keep-alive\r\nConnection: keep-alive\r\nA: b\r\n\r\n",
            b"z".to_vec(),
        )
        .ok()
        .unwrap();
        assert_eq!((plain.host.as_str(), plain.port, plain.rest.as_slice()), ("a.test", 8080, b"z".as_slice()));
        assert_eq!(plain.onward.unwrap(), b"GET /x?y HTTP/1.1\r\nHost: a.test:8080\r\nA: b\r\nConnection: close\r\n\r\n");
        let bare = request(b"GET http://a.test HTTP/1.1\r\n\r\n", Vec::new()).ok().unwrap();
        assert_eq!((bare.port, bare.onward.unwrap().as_slice()), (80, b"GET / HTTP/1.1\r\nConnection: close\r\n\r\n".as_slice()));
        for wrong in ["GET /x HTTP/1.1\r\n\r\n", "CONNECT a HTTP/1.1\r\n\r\n", "GET\r\n\r\n", "GET http://a:99999/ HTTP/1.1\r\n\r\n"] {
            assert_eq!(request(wrong.as_bytes(), Vec::new()).err().unwrap().status, 400, "{wrong}");
        }
    }
}
