//! Which hosts a request may go to: by name before it is looked up, by address after.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use serde::{Deserialize, Serialize};

/// What is allowed. A pattern is `host`, `*.domain` (anything below it), either with `:port`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Hosts {
    /// The operator's list; `None` allows all.
    pub allow: Option<Vec<String>>,
    /// What the operator forbids, whatever else allows it.
    pub deny: Vec<String>,
    /// Whether addresses of this machine and of private networks are forbidden.
    pub deny_private: bool,
    /// Whether such addresses are only for hosts that the operator's list names: what a script says of itself is not enough for them.
    pub private_by_name: bool,
    /// The list of the script itself; `None` if it has none.
    pub declared: Option<Vec<String>>,
}

/// Why a request may not go where it would.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Denied(pub String);

impl std::fmt::Display for Denied {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl std::error::Error for Denied {}

impl Hosts {
    /// Reads the operator's two lists, comma-separated; the word `private` among the denied means private networks.
    pub fn from_lists(allow: Option<&str>, deny: Option<&str>) -> Hosts {
        let names = |list: &str| -> Vec<String> { list.split(',').map(str::trim).filter(|name| !name.is_empty()).map(str::to_ascii_lowercase).collect() };
        let mut deny = deny.map(names).unwrap_or_default();
        let deny_private = deny.iter().any(|name| name == "private");
        deny.retain(|name| name != "private");
        Hosts { allow: allow.filter(|list| !list.trim().is_empty()).map(names), deny, deny_private, private_by_name: false, declared: None }
    }

    /// Whether a request may go to this host by its name; an address is judged as one at once.
    ///
    /// # Errors
    /// The sentence why not.
    pub fn check_name(&self, host: &str, port: u16) -> Result<(), Denied> {
        let host = host.trim_start_matches('[').trim_end_matches(']').trim_end_matches('.').to_ascii_lowercase();
        let listed = |patterns: &[String]| patterns.iter().any(|pattern| matches(pattern, &host, port));
        if listed(&self.deny) {
            return Err(Denied(format!("{host} is denied by VIAT_HTTP_DENY")));
        }
        if self.allow.as_deref().is_some_and(|allow| !listed(allow)) {
            return Err(Denied(format!("{host} is not in VIAT_HTTP_ALLOW")));
        }
        if self.declared.as_deref().is_some_and(|declared| !listed(declared)) {
            return Err(Denied(format!("{host} is not in the `network` list of the script")));
        }
        host.parse::<IpAddr>().map_or(Ok(()), |address| self.check_address(&host, address))
    }

    /// Whether a request may go to this address, which is what the name means now.
    ///
    /// # Errors
    /// The sentence why not.
    pub fn check_address(&self, host: &str, address: IpAddr) -> Result<(), Denied> {
        let address = unmapped(address);
        if is_link_local(address) {
            return Err(Denied(format!("{host} is {address}, a link-local address: such are never asked")));
        }
        if self.deny_private && is_private(address) {
            return Err(Denied(format!("{host} is {address}, a private address, which VIAT_HTTP_DENY forbids")));
        }
        if self.private_by_name && is_private(address) && !self.is_allowed_by_name(host) {
            return Err(Denied(format!("{host} is {address}, a private address: for a strict script VIAT_HTTP_ALLOW has to name it")));
        }
        Ok(())
    }

    /// Whether the operator's list names the host, whatever the port: that was looked at with the name.
    fn is_allowed_by_name(&self, host: &str) -> bool {
        let host = host.trim_start_matches('[').trim_end_matches(']').trim_end_matches('.').to_ascii_lowercase();
        let named =
            |pattern: &String| parts(pattern).0 != "*" && parts(pattern).1.map_or_else(|| matches(pattern, &host, 0), |port| matches(pattern, &host, port));
        self.allow.iter().flatten().any(named)
    }
}

/// A pattern as name, in lower case and without brackets, and port.
pub(crate) fn parts(pattern: &str) -> (String, Option<u16>) {
    let pattern = pattern.trim().to_ascii_lowercase();
    let (name, port) = match pattern.rsplit_once(':') {
        Some((name, digits)) if !name.contains(':') || name.ends_with(']') => (name, digits.parse::<u16>().ok()),
        _ => (pattern.as_str(), None),
    };
    (name.trim_start_matches('[').trim_end_matches(']').to_owned(), port)
}

fn matches(pattern: &str, host: &str, port: u16) -> bool {
    let (name, wanted) = parts(pattern);
    if wanted.is_some_and(|wanted| wanted != port) {
        return false;
    }
    match name.strip_prefix("*.") {
        Some(domain) => host.strip_suffix(domain).is_some_and(|rest| rest.ends_with('.')),
        None => name == "*" || name == host,
    }
}

fn unmapped(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V6(six) => six.to_ipv4_mapped().map_or(address, IpAddr::V4),
        IpAddr::V4(_) => address,
    }
}

/// Where clouds keep the keys of the machine.
fn is_link_local(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(four) => four.is_link_local(),
        IpAddr::V6(six) => six.is_unicast_link_local(),
    }
}

fn is_private(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(four) => {
            let [a, b, ..] = four.octets();
            four.is_loopback() || four.is_private() || four == Ipv4Addr::UNSPECIFIED || four.is_broadcast() || (a == 100 && (64..128).contains(&b)) || a == 0
        }
        IpAddr::V6(six) => six.is_loopback() || six.is_unique_local() || six == Ipv6Addr::UNSPECIFIED,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_ports() {
        let hosts = Hosts::from_lists(Some("api.example.com, *.inner.test:8080"), Some("bad.inner.test"));
        for (host, port, allowed) in [
            ("api.example.com", 443, true),
            ("API.Example.com.", 443, true),
            ("example.com", 443, false),
            ("a.inner.test", 8080, true),
            ("a.inner.test", 80, false),
            ("inner.test", 8080, false),
            ("xinner.test", 8080, false),
            ("bad.inner.test", 8080, false),
        ] {
            assert_eq!(hosts.check_name(host, port).is_ok(), allowed, "{host}:{port}");
        }
        let declared = Hosts { declared: Some(vec!["a.test".to_owned()]), ..Hosts::default() };
        assert!(declared.check_name("a.test", 1).is_ok() && declared.check_name("b.test", 1).is_err());
    }

    #[test]
    fn private_addresses_by_name() {
        let hosts = Hosts { private_by_name: true, ..Hosts::from_lists(Some("10.1.2.3:80, *.inner.test, *"), None) };
        let private = "10.1.2.3".parse().unwrap();
        for (host, allowed) in [("10.1.2.3", true), ("a.inner.test", true), ("other.test", false)] {
            assert_eq!(hosts.check_address(host, private).is_ok(), allowed, "{host}");
        }
        assert!(hosts.check_address("other.test", "93.184.216.34".parse().unwrap()).is_ok());
    }

    #[test]
    fn addresses() {
        let open = Hosts::default();
        let closed = Hosts::from_lists(None, Some("private"));
        for (address, everywhere, private) in [
            ("127.0.0.1", true, false),
            ("10.1.2.3", true, false),
            ("172.20.0.1", true, false),
            ("100.64.0.1", true, false),
            ("169.254.169.254", false, false),
            ("[::1]", true, false),
            ("[::ffff:127.0.0.1]", true, false),
            ("[::ffff:169.254.169.254]", false, false),
            ("[fd00::1]", true, false),
            ("[fe80::1]", false, false),
            ("0.0.0.0", true, false),
            ("93.184.216.34", true, true),
        ] {
            assert_eq!(open.check_name(address, 80).is_ok(), everywhere, "{address}");
            assert_eq!(closed.check_name(address, 80).is_ok(), private, "{address}");
        }
    }
}
