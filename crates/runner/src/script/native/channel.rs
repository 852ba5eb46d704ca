//! The worker's end of the protocol: frames in and out, one attempt at a time.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::script::call::Context;
use crate::script::ends::frame;
use crate::script::fault::{Fault, FaultKind};

/// The protocol socket.
pub(super) struct Channel {
    fd: OwnedFd,
}

/// What an attempt is given.
#[derive(Deserialize)]
pub(super) struct Given {
    pub(super) id: String,
    pub(super) context: Context,
    pub(super) args: Box<RawValue>,
    /// The secrets that the script declares: texts by their names.
    #[serde(default)]
    pub(super) secrets: Map<String, Value>,
}

impl Given {
    /// The arguments; they are an object, as the engine only sends such.
    pub(super) fn arguments(&self) -> Result<Map<String, Value>, Fault> {
        serde_json::from_str(self.args.get()).map_err(|error| Fault::new(FaultKind::Annotation, format!("the arguments cannot be read: {error}")))
    }
}

impl Channel {
    pub(super) fn new(fd: OwnedFd) -> Channel {
        Channel { fd }
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// The next frame: its kind and its body. The end of the stream is an error: the engine is gone.
    pub(super) fn receive(&mut self) -> io::Result<(u8, Vec<u8>)> {
        let mut size = [0; 4];
        self.read(&mut size)?;
        let size = u32::from_le_bytes(size) as usize;
        let mut body = vec![0; size];
        self.read(&mut body)?;
        let kind = *body.first().ok_or(io::ErrorKind::InvalidData)?;
        body.remove(0);
        Ok((kind, body))
    }

    /// The next attempt.
    pub(super) fn next_call(&mut self) -> io::Result<Given> {
        let (_, body) = self.receive()?;
        Ok(serde_json::from_slice(&body)?)
    }

    /// Asks the engine something; the refusal is a sentence.
    pub(super) fn ask(&mut self, kind: u8, question: &Value) -> io::Result<Result<Value, String>> {
        self.send(kind, question.to_string().as_bytes())?;
        let (_, body) = self.receive()?;
        let mut answer: Map<String, Value> = serde_json::from_slice(&body)?;
        Ok(match answer.remove("refused") {
            Some(refusal) => Err(refusal.as_str().unwrap_or_default().to_owned()),
            None => Ok(answer.remove("value").unwrap_or_default()),
        })
    }

    /// Says that the worker is ready.
    pub(super) fn ready(&mut self) -> io::Result<()> {
        self.send(b'k', b"true")
    }

    /// The attempt's end.
    pub(super) fn end(&mut self, outcome: Result<Vec<u8>, Fault>) -> io::Result<()> {
        match outcome {
            Ok(value) => self.send(b'r', &value),
            Err(fault) => self.send(b'x', &serde_json::to_vec(&fault)?),
        }
    }

    pub(super) fn send(&mut self, kind: u8, body: &[u8]) -> io::Result<()> {
        let frame = frame(kind, &[body]);
        let mut rest = frame.as_slice();
        while !rest.is_empty() {
            match rustix::io::write(&self.fd, rest) {
                Ok(count) => rest = &rest[count..],
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    fn read(&mut self, mut buffer: &mut [u8]) -> io::Result<()> {
        while !buffer.is_empty() {
            match rustix::io::read(&self.fd, &mut *buffer) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(count) => buffer = &mut buffer[count..],
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }
}

/// A value as it is sent, or why it cannot be.
pub(super) fn checked(value: &Value, limit: usize, what: &str) -> Result<Vec<u8>, Fault> {
    let wrong = |problem: String| Fault::new(FaultKind::InvalidOutput, problem);
    if let Some(problem) = unfit(value, 0) {
        return Err(wrong(format!("{what} is not what a value may be: {problem}")));
    }
    let bytes = serde_json::to_vec(value).map_err(|error| wrong(format!("{what} is not JSON: {error}")))?;
    if bytes.len() > limit {
        return Err(wrong(format!("{what} takes {} bytes as JSON, more than the limit of {limit}", bytes.len())));
    }
    Ok(bytes)
}

/// The same bounds as for every other language's values.
fn unfit(value: &Value, depth: usize) -> Option<String> {
    const MAX_DEPTH: usize = 100;
    match value {
        Value::Number(number) if number.is_u64() && !number.is_i64() => Some(format!("an integer outside the 64-bit range: {number}")),
        Value::Array(_) | Value::Object(_) if depth >= MAX_DEPTH => Some(format!("nested deeper than {MAX_DEPTH} levels")),
        Value::Array(items) => items.iter().find_map(|item| unfit(item, depth + 1)),
        Value::Object(map) => map.values().find_map(|item| unfit(item, depth + 1)),
        _ => None,
    }
}
