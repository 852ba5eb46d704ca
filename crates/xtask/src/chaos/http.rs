//! The little of HTTP that people need who ask a server that may die in the middle of a sentence.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::Value;

/// Far beyond what any answer takes; a server that is silent for so long hangs.
const PATIENCE: Duration = Duration::from_secs(60);

/// What was answered.
#[derive(Debug)]
pub struct Answer {
    /// The status.
    pub status: u16,
    /// The body; `null` if it is not JSON.
    pub body: Value,
}

/// The server is gone, or went before it had answered: whether it did what was asked is unknown.
#[derive(Debug)]
pub struct Gone;

impl From<std::io::Error> for Gone {
    fn from(_: std::io::Error) -> Gone {
        Gone
    }
}

/// Asks the server on `port`.
///
/// # Errors
/// [`Gone`].
pub fn ask(port: u16, method: &str, path: &str, key: Option<&str>, body: Option<&Value>) -> Result<Answer, Gone> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let body = body.map(Value::to_string).unwrap_or_default();
    let key = key.map(|key| format!("idempotency-key: {key}\r\n")).unwrap_or_default();
    let head = format!(
        "{method} {path} HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\nconnection: close\r\ncontent-type: application/json\r\n{key}content-length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(format!("{head}{body}").as_bytes())?;
    let mut text = Vec::new();
    stream.read_to_end(&mut text)?;
    read(&text).ok_or(Gone)
}

/// An answer that is there whole; nothing if it broke off.
fn read(text: &[u8]) -> Option<Answer> {
    let text = std::str::from_utf8(text).ok()?;
    let (head, body) = text.split_once("\r\n\r\n")?;
    let status = head.split(' ').nth(1)?.parse().ok()?;
    let length = head.lines().find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length: ").and_then(|length| length.parse().ok()));
    (length == Some(body.len())).then(|| Answer { status, body: serde_json::from_str(body).unwrap_or_default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_that_broke_off_is_none() {
        let whole = "HTTP/1.1 201 Created\r\nContent-Length: 10\r\n\r\n{\"id\":\"a\"}";
        let answer = read(whole.as_bytes()).expect("it is whole");
        assert_eq!((answer.status, &answer.body["id"]), (201, &Value::from("a")));
        assert!(read(&whole.as_bytes()[..whole.len() - 1]).is_none());
        assert!(read(b"HTTP/1.1 20").is_none());
    }
}
