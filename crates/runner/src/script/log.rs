//! Keeps the head and the tail of what an attempt writes, in bounded memory.

use std::sync::Arc;

use super::call::Log;
use super::mask::{Mask, Stream};

/// A log while it is being written.
#[derive(Debug)]
pub(crate) struct LogBuffer {
    /// Takes secrets out before anything is kept or cut, if the attempt has some.
    masked: Option<Box<Stream>>,
    head: Vec<u8>,
    tail: Vec<u8>,
    half: usize,
    total: u64,
}

impl LogBuffer {
    pub(crate) fn new(limit: usize) -> LogBuffer {
        LogBuffer { masked: None, head: Vec::new(), tail: Vec::new(), half: limit / 2, total: 0 }
    }

    /// From here on secrets are taken out.
    pub(crate) fn mask(&mut self, mask: Arc<Mask>) {
        self.masked = Some(Box::new(Stream::new(mask)));
    }

    pub(crate) fn push(&mut self, bytes: &[u8]) {
        match self.masked.take() {
            None => self.keep(bytes),
            Some(mut stream) => {
                stream.push(bytes, &mut |bytes| self.keep(bytes));
                self.masked = Some(stream);
            }
        }
    }

    fn keep(&mut self, mut bytes: &[u8]) {
        self.total += bytes.len() as u64;
        let room = self.half - self.head.len();
        if room > 0 {
            let (fits, rest) = bytes.split_at(room.min(bytes.len()));
            self.head.extend_from_slice(fits);
            bytes = rest;
        }
        if bytes.len() > self.half {
            bytes = &bytes[bytes.len() - self.half..];
            self.tail.clear();
        }
        // twice the half is let in before the front is cut off, so that a byte is moved once on average
        if self.tail.len() + bytes.len() > self.half * 2 {
            let keep = self.half - bytes.len();
            self.tail.drain(..self.tail.len() - keep);
        }
        self.tail.extend_from_slice(bytes);
    }

    pub(crate) fn finish(mut self) -> Log {
        if let Some(mut stream) = self.masked.take() {
            stream.finish(&mut |bytes| self.keep(bytes));
        }
        let surplus = self.tail.len().saturating_sub(self.half);
        let kept = (self.head.len() + self.tail.len() - surplus) as u64;
        if kept < self.total {
            let mark = format!("\n[viat: {} bytes cut here]\n", self.total - kept);
            self.head.extend_from_slice(mark.as_bytes());
        }
        self.head.extend_from_slice(&self.tail[surplus..]);
        Log { bytes: self.head, total: self.total }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::LogBuffer;
    use crate::script::mask::Mask;

    #[test]
    fn short_logs_are_kept_whole() {
        let mut log = LogBuffer::new(10);
        log.push(b"abcdef");
        log.push(b"ghij");
        let log = log.finish();
        assert_eq!((log.bytes.as_slice(), log.total), (b"abcdefghij".as_slice(), 10));
    }

    #[test]
    fn the_cut_leaves_no_part_of_a_secret() {
        let secret = "abcdefghijkl";
        for before in 0..30 {
            let mut log = LogBuffer::new(32);
            log.mask(Arc::new(Mask::of([secret]).unwrap()));
            let text = format!("{}{secret}{}{secret}{}", "-".repeat(before), "-".repeat(60), "-".repeat(30 - before));
            text.as_bytes().chunks(5).for_each(|part| log.push(part));
            let text = log.finish().text();
            assert!(!text.contains("ab") && !text.contains("kl") && text.contains("cut here"), "{before}: {text}");
        }
    }

    #[test]
    fn long_logs_keep_head_and_tail() {
        for chunk in [1, 3, 7, 100] {
            let mut log = LogBuffer::new(10);
            let text: Vec<u8> = (0..100u8).map(|n| b'a' + n % 26).collect();
            text.chunks(chunk).for_each(|part| log.push(part));
            assert!(log.tail.len() <= 10);
            let log = log.finish();
            assert_eq!(log.total, 100);
            assert!(log.bytes.starts_with(&text[..5]) && log.bytes.ends_with(&text[95..]), "{}", log.text());
            assert!(log.text().contains("90 bytes cut"));
        }
    }
}
