//! Signed requests to endpoints: an HMAC over the time, the method, the path and the body.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use ring::hmac;
use viat_engine::journal::Millis;

use crate::cli::error::CliError;
use crate::links;

/// What the endpoints' secrets are derived for.
const CONTEXT: &str = "viat 2026 endpoint signatures";
/// How far a request's time may be from the server's, either way.
const WINDOW_MS: Millis = 300_000;
/// The most signatures that are remembered; when there are more, requests are refused until some are too old to come again.
const MOST: usize = 100_000;

/// The secret of an endpoint with this salt: it is nowhere kept, but derived from the home's key, which lies outside the database.
pub fn secret(home: &Path, salt: &str) -> Result<String, CliError> {
    let key = links::secret(home, CONTEXT).map_err(|error| CliError::failed(format!("the home's key cannot be read or made: {error}")))?;
    Ok(blake3::keyed_hash(&key, salt.as_bytes()).to_hex().to_string())
}

/// A request as it is signed.
pub struct Signed<'a> {
    /// `viat-timestamp`: seconds since 1970.
    pub timestamp: &'a str,
    /// `viat-signature`: `v1=` and 64 hexadecimal digits.
    pub signature: &'a str,
    /// The method.
    pub method: &'a str,
    /// The path, and the query if there is one.
    pub target: &'a str,
    /// The body.
    pub body: &'a [u8],
}

/// Signatures that were seen within the window: none is taken twice.
#[derive(Default)]
pub struct Seen(Mutex<BTreeMap<String, Millis>>);

impl Signed<'_> {
    /// Whether the request is its sender's, of this time, and new; or why not.
    pub fn check(&self, secret: &str, now: Millis, seen: &Seen) -> Result<(), &'static str> {
        let seconds: i64 = self.timestamp.parse().map_err(|_| "viat-timestamp is not a number of seconds since 1970")?;
        let at = seconds.saturating_mul(1_000);
        if at.abs_diff(now) > WINDOW_MS.unsigned_abs() {
            return Err("viat-timestamp is more than 300 s from the server's time");
        }
        let digits = self.signature.strip_prefix("v1=").ok_or("viat-signature does not begin with v1=")?;
        let tag = links::unhex(digits).ok_or("viat-signature is not hexadecimal")?;
        let key = hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes());
        let mut text = format!("{}.{}.{}.", self.timestamp, self.method, self.target).into_bytes();
        text.extend_from_slice(self.body);
        hmac::verify(&key, &text, &tag).map_err(|_| "viat-signature does not fit the request")?;
        seen.take(digits.to_ascii_lowercase(), at, now)
    }
}

impl Seen {
    fn take(&self, signature: String, at: Millis, now: Millis) -> Result<(), &'static str> {
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if seen.contains_key(&signature) {
            return Err("this signature was used already: sign each request anew");
        }
        if seen.len() >= MOST {
            seen.retain(|_, at| at.abs_diff(now) <= WINDOW_MS.unsigned_abs());
        }
        if seen.len() >= MOST {
            return Err("too many signed requests came within 300 s");
        }
        seen.insert(signature, at);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = "5ec2e7";

    fn sign(timestamp: &str, body: &str) -> String {
        let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, SECRET.as_bytes()), format!("{timestamp}.POST./e/a?b=1.{body}").as_bytes());
        format!("v1={}", links::hex(tag.as_ref()))
    }

    fn check(timestamp: &str, signature: &str, body: &str, seen: &Seen) -> Result<(), &'static str> {
        Signed { timestamp, signature, method: "POST", target: "/e/a?b=1", body: body.as_bytes() }.check(SECRET, 1_000_000, seen)
    }

    #[test]
    fn only_the_senders_own_request_of_this_time_and_once() {
        let seen = Seen::default();
        let good = sign("1000", "{}");
        assert_eq!(check("1000", &good, "{ }", &seen), Err("viat-signature does not fit the request"));
        assert!(check("1001", &good, "{}", &seen).is_err());
        assert_eq!(check("1000", &good, "{}", &seen), Ok(()));
        assert!(check("1000", &good, "{}", &seen).expect_err("again").contains("used already"));
        assert!(check("1000", &good.to_uppercase().replace("V1", "v1"), "{}", &seen).expect_err("again").contains("used already"));
        for (at, fits) in [("700", true), ("699", false), ("1300", true), ("1301", false), ("-9223372036854775808", false), ("x", false), ("", false)] {
            assert_eq!(check(at, &sign(at, "{}"), "{}", &seen).is_ok(), fits, "{at}");
        }
        for bad in ["", "v1=", "v1=0", "v1=zz", &good[3..]] {
            assert!(check("1000", bad, "{}", &seen).is_err(), "{bad}");
        }
    }
}
