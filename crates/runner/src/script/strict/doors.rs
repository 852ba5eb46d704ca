//! The doors of a cell with `network = [hosts]`: which names it knows, under which addresses, and where a connection to one leads.
//!
//! A cell has no way out of its network but listening sockets that the guardian serves. Each declared name has a loopback
//! address of its own in the cell's `/etc/hosts`, so that whatever program connects to the name at one of its ports comes to the guardian,
//! which connects on to the real host. Patterns name no host: those are reached through the proxy that the environment names.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::net::{Ipv4Addr, SocketAddrV4};

use serde::{Deserialize, Serialize};

use crate::script::http::{Hosts, parts};

/// Where the proxy listens in the cell.
pub(super) const PROXY: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(127, 77, 0, 1), 3128);
/// The ports of a host that is declared without one.
const WEB: [u16; 2] = [80, 443];

/// The doors, by what the script declares and the operator allows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Doors {
    pub(super) hosts: Hosts,
}

/// Where a connection leads.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Behind {
    /// It says so itself, as to a proxy.
    Proxy,
    /// To this host.
    Host(String),
}

impl Doors {
    /// The doors for these hosts; `None` if there are none.
    pub(super) fn of(hosts: Hosts) -> Option<Doors> {
        hosts.declared.as_ref().is_some_and(|declared| !declared.is_empty()).then_some(Doors { hosts })
    }

    /// What the environment of a cell says of them.
    pub(super) fn environment() -> [(&'static str, String); 7] {
        let proxy = format!("http://{PROXY}");
        let none = "localhost,127.0.0.1".to_owned();
        // the last one: Node takes no notice of the others without it
        [
            ("HTTP_PROXY", proxy.clone()),
            ("HTTPS_PROXY", proxy.clone()),
            ("http_proxy", proxy.clone()),
            ("https_proxy", proxy),
            ("NO_PROXY", none.clone()),
            ("no_proxy", none),
            ("NODE_USE_ENV_PROXY", "1".to_owned()),
        ]
    }

    fn declared(&self) -> impl Iterator<Item = (String, Option<u16>)> {
        self.hosts.declared.iter().flatten().map(|pattern| parts(pattern)).filter(|(name, _)| !name.contains(['*', ':']))
    }

    /// Each name once, with its address in the cell; an address is its own.
    pub(super) fn named(&self) -> Vec<(String, Ipv4Addr)> {
        let mut found: Vec<(String, Ipv4Addr)> = Vec::new();
        for (name, _) in self.declared() {
            if found.iter().all(|(known, _)| *known != name) {
                let [_, _, high, low] = u32::try_from(found.len() + 256).unwrap_or(u32::MAX).to_be_bytes();
                let address = name.parse().unwrap_or(Ipv4Addr::new(127, 77, high, low));
                found.push((name, address));
            }
        }
        found
    }

    /// Addresses outside of the loopback network that are to lead to a door.
    pub(super) fn addresses(&self) -> impl Iterator<Item = Ipv4Addr> {
        self.named().into_iter().map(|(_, address)| address).filter(|address| !address.is_loopback())
    }

    /// Every port behind which a door is.
    pub(super) fn ports(&self) -> BTreeSet<u16> {
        let given = self.declared().flat_map(|(_, port)| port.map_or(WEB.to_vec(), |port| vec![port]));
        given.chain([PROXY.port()]).collect()
    }

    /// The cell's `/etc/hosts`.
    pub(super) fn hosts_file(&self) -> String {
        let mut text = String::new();
        let named = self.named();
        for (name, address) in named.iter().filter(|(name, _)| name.parse::<Ipv4Addr>().is_err()) {
            let _ = writeln!(text, "{address} {name}");
        }
        if named.iter().all(|(name, _)| name != "localhost") {
            text.push_str("127.0.0.1 localhost\n");
        }
        text
    }

    /// Where a connection to this address of the cell leads; `None` if nowhere.
    pub(super) fn behind(&self, local: SocketAddrV4) -> Option<Behind> {
        if local == PROXY {
            return Some(Behind::Proxy);
        }
        self.named().into_iter().find(|(_, address)| address == local.ip()).map(|(name, _)| Behind::Host(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn doors(declared: &[&str]) -> Doors {
        Doors::of(Hosts { declared: Some(declared.iter().map(|each| (*each).to_owned()).collect()), ..Hosts::default() }).unwrap()
    }

    #[test]
    fn each_name_has_an_address_and_each_port_a_door() {
        let doors = doors(&["api.example.com", "Db.example.com:5432", "api.example.com:8443", "*.example.org", "10.1.2.3:8080"]);
        assert_eq!(doors.ports().into_iter().collect::<Vec<_>>(), [80, 443, 3128, 5432, 8080, 8443]);
        assert_eq!(doors.hosts_file(), "127.77.1.0 api.example.com\n127.77.1.1 db.example.com\n127.0.0.1 localhost\n");
        assert_eq!(doors.addresses().collect::<Vec<_>>(), [Ipv4Addr::new(10, 1, 2, 3)]);
        let behind = |text: &str| doors.behind(text.parse().unwrap());
        assert_eq!(behind("127.77.1.1:5432"), Some(Behind::Host("db.example.com".to_owned())));
        assert_eq!(behind("10.1.2.3:8080"), Some(Behind::Host("10.1.2.3".to_owned())));
        assert_eq!((behind("127.77.0.1:3128"), behind("127.0.0.1:80")), (Some(Behind::Proxy), None));
    }

    #[test]
    fn without_hosts_there_are_no_doors() {
        assert_eq!(Doors::of(Hosts { declared: Some(Vec::new()), ..Hosts::default() }), None);
        assert_eq!(Doors::of(Hosts::default()), None);
    }
}
