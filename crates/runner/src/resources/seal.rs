//! A secret as it is stored: encrypted with ChaCha20-Poly1305, bound to its name and version.

use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::rand::{SecureRandom, SystemRandom};
use serde::{Deserialize, Serialize};

use super::ResourceError;
use super::keys::{Key, Keyring};

/// What is sealed is filled up to a multiple of this many bytes, so that its length says little.
const BLOCK: usize = 64;

/// A secret, sealed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sealed {
    /// The id of its key.
    pub key: String,
    /// Hexadecimal.
    nonce: String,
    /// Hexadecimal; the tag is at its end.
    data: String,
}

/// The name and the version that a secret is bound to.
#[derive(Clone, Copy)]
pub(super) struct Bound<'a> {
    pub(super) name: &'a str,
    pub(super) version: u64,
}

impl Bound<'_> {
    fn text(self) -> String {
        format!("viat secret {} {}", self.version, self.name)
    }
}

/// Seals a value.
pub(super) fn seal(key: &Key, bound: Bound<'_>, value: &str) -> Result<Sealed, ResourceError> {
    let cannot = || ResourceError::Key("the secret could not be sealed".to_owned());
    // a random nonce of 96 bits is safe for some billions of values under one key
    let mut nonce = [0; NONCE_LEN];
    SystemRandom::new().fill(&mut nonce).map_err(|_| cannot())?;
    let mut data = value.as_bytes().to_vec();
    data.push(0x80);
    data.resize(data.len().next_multiple_of(BLOCK), 0);
    let cipher = cipher(key).ok_or_else(cannot)?;
    cipher.seal_in_place_append_tag(Nonce::assume_unique_for_key(nonce), Aad::from(bound.text()), &mut data).map_err(|_| cannot())?;
    Ok(Sealed { key: key.id(), nonce: hex(&nonce), data: hex(&data) })
}

/// Opens a sealed value.
pub(super) fn open(keys: &Keyring, bound: Bound<'_>, sealed: &Sealed) -> Result<String, ResourceError> {
    let what = format!("secret {}", bound.name);
    let key = keys.find(&sealed.key).ok_or_else(|| keys.missing(&what, &sealed.key))?;
    let damaged =
        || ResourceError::Unreadable(format!("{what} (version {}) has been changed since it was sealed, or moved from another name or version", bound.version));
    let nonce: [u8; NONCE_LEN] = unhex(&sealed.nonce).and_then(|nonce| nonce.try_into().ok()).ok_or_else(damaged)?;
    let mut data = unhex(&sealed.data).ok_or_else(damaged)?;
    let cipher = cipher(key).ok_or_else(damaged)?;
    let opened = cipher.open_in_place(Nonce::assume_unique_for_key(nonce), Aad::from(bound.text()), &mut data).map_err(|_| damaged())?;
    let end = opened.iter().rposition(|byte| *byte != 0).filter(|end| opened[*end] == 0x80).ok_or_else(damaged)?;
    String::from_utf8(opened[..end].to_vec()).map_err(|_| damaged())
}

fn cipher(key: &Key) -> Option<LessSafeKey> {
    UnboundKey::new(&CHACHA20_POLY1305, &key.bytes).ok().map(LessSafeKey::new)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let pairs = text.as_bytes().chunks(2);
    pairs.map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok().filter(|_| pair.len() == 2)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resources::keys::Keys;

    const BOUND: Bound<'static> = Bound { name: "token", version: 3 };

    #[test]
    fn a_seal_holds_and_is_bound() {
        let keys = Keys::at(tempfile::tempdir().unwrap().path()).or_given(Some("07".repeat(32)), None).load().unwrap();
        for value in ["hunter22", "", "ö\0\u{80}", &"x".repeat(63), &"x".repeat(64), &"x".repeat(30_000)] {
            let sealed = seal(keys.first().unwrap(), BOUND, value).unwrap();
            assert_eq!(open(&keys, BOUND, &sealed).unwrap(), value);
            assert!(value.is_empty() || !serde_json::to_string(&sealed).unwrap().contains(value));
            assert_ne!(seal(keys.first().unwrap(), BOUND, value).unwrap(), sealed);
            for bound in [Bound { name: "token2", ..BOUND }, Bound { version: 2, ..BOUND }] {
                assert!(open(&keys, bound, &sealed).unwrap_err().to_string().contains("has been changed"));
            }
            let mut data = sealed.data.clone().into_bytes();
            data[0] = if data[0] == b'0' { b'1' } else { b'0' };
            let changed = Sealed { data: String::from_utf8(data).unwrap(), ..sealed.clone() };
            assert!(open(&keys, BOUND, &changed).is_err());
            for data in ["", "0", "zz", "öö"] {
                assert!(open(&keys, BOUND, &Sealed { data: data.to_owned(), ..sealed.clone() }).is_err());
            }
        }
        let lengths = ["a", &"a".repeat(60)].map(|value| seal(keys.first().unwrap(), BOUND, value).unwrap().data.len());
        assert_eq!(lengths[0], lengths[1]);
    }

    #[test]
    fn a_key_that_is_not_there_is_named() {
        let home = tempfile::tempdir().unwrap();
        let ring = |byte: &str| Keys::at(home.path()).or_given(Some(byte.repeat(32)), None).load().unwrap();
        let (first, second) = (ring("01"), ring("02"));
        let sealed = seal(first.first().unwrap(), BOUND, "hunter22").unwrap();
        let error = open(&second, BOUND, &sealed).unwrap_err().to_string();
        assert!(error.contains(&first.first_id().unwrap()) && error.contains(&second.first_id().unwrap()), "{error}");
    }
}
