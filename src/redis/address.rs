//! What `--redis-url` may say, read strictly: one server, a primary that Sentinels name, or a Cluster.
//!
//! `redis://`, `rediss://` and `unix://` are the library's; the lists of Sentinel and Cluster are read here. No message
//! repeats the address: it may hold a password.

use std::collections::BTreeMap;

use redis::io::tcp::TcpSettings;
use redis::{ConnectionAddr, ConnectionInfo, IntoConnectionInfo, RedisConnectionInfo, RedisResult};

use super::RedisError;

/// Where Redis is.
#[derive(Debug, Clone)]
pub(super) enum Address {
    /// One server.
    One(ConnectionInfo),
    /// Whoever the Sentinels call the primary of `service`.
    Sentinel {
        /// The Sentinels.
        sentinels: Vec<ConnectionInfo>,
        /// The name under which they watch the primary.
        service: String,
        /// How the primary is spoken to, wherever it is.
        manner: Manner,
    },
    /// A Cluster, found by any of these nodes.
    Cluster {
        /// Nodes that are asked first.
        seeds: Vec<(String, u16)>,
        /// How every node is spoken to.
        manner: Manner,
    },
}

/// How a server is spoken to, apart from where it is.
#[derive(Debug, Clone)]
pub(super) struct Manner {
    tls: bool,
    settings: RedisConnectionInfo,
}

impl Manner {
    /// The server at `host:port`.
    pub(super) fn at(&self, host: &str, port: u16) -> RedisResult<ConnectionInfo> {
        let host = host.to_owned();
        let address = if self.tls {
            ConnectionAddr::TcpTls { host, port, insecure: false, tls_params: None }
        } else {
            ConnectionAddr::Tcp(host, port)
        };
        at(address, self.settings.clone())
    }
}

/// Small requests must not wait for each other's packets.
fn at(address: ConnectionAddr, settings: RedisConnectionInfo) -> RedisResult<ConnectionInfo> {
    let info = address.into_connection_info()?;
    Ok(info.set_redis_settings(settings).set_tcp_settings(TcpSettings::default().set_nodelay(true)))
}

impl Address {
    /// Reads an address as an operator writes it.
    pub(super) fn read(url: &str) -> Result<Self, RedisError> {
        for (scheme, tls) in [("redis+", false), ("rediss+", true)] {
            if let Some(rest) = url.strip_prefix(scheme) {
                return match rest.split_once("://") {
                    Some(("sentinel", rest)) => sentinel(rest, tls),
                    Some(("cluster", rest)) => cluster(rest, tls),
                    _ => Err(bad("redis+ is followed by sentinel:// or cluster://")),
                };
            }
        }
        let info = url.into_connection_info().map_err(|e| unusable(&e))?;
        Ok(Self::One(info.set_tcp_settings(TcpSettings::default().set_nodelay(true))))
    }

    /// The unix socket at `path`.
    pub(super) fn socket(path: &std::path::Path) -> Result<Self, RedisError> {
        at(ConnectionAddr::Unix(path.to_owned()), RedisConnectionInfo::default()).map(Self::One).map_err(|e| unusable(&e))
    }
}

/// The library's own message could repeat the address, and with it a password.
pub(super) fn unusable(e: &redis::RedisError) -> RedisError {
    RedisError::BadAddress(String::from(e.category()))
}

fn bad(why: &str) -> RedisError {
    RedisError::BadAddress(String::from(why))
}

fn sentinel(rest: &str, tls: bool) -> Result<Address, RedisError> {
    const FORM: &str = "write redis+sentinel://host:port,host:port/SERVICE, and /DB after it if need be";
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (list, path) = rest.split_once('/').ok_or_else(|| bad(FORM))?;
    let (service, db) = path.split_once('/').map_or((path, None), |(service, db)| (service, Some(db)));
    let service = decode(service)?;
    if service.is_empty() || service.chars().any(|c| c.is_whitespace() || c.is_control()) {
        return Err(bad(FORM));
    }
    let (settings, hosts) = list_of(list, 26379, FORM)?;
    let settings = match db {
        Some(db) => settings.set_db(db.parse::<u16>().map_err(|_| bad("the database is a small number"))?.into()),
        None => settings,
    };
    // Sentinels have a password of their own, or none; the primary's is not shown to them.
    let mut own = RedisConnectionInfo::default();
    for (name, value) in words(query, &["sentinel_username", "sentinel_password"])? {
        own = if name == "sentinel_username" { own.set_username(value) } else { own.set_password(value) };
    }
    let asked = Manner { tls, settings: own };
    let sentinels: RedisResult<_> = hosts.iter().map(|(host, port)| asked.at(host, *port)).collect();
    let sentinels = sentinels.map_err(|e| unusable(&e))?;
    Ok(Address::Sentinel { sentinels, service, manner: Manner { tls, settings } })
}

fn cluster(rest: &str, tls: bool) -> Result<Address, RedisError> {
    const FORM: &str = "write redis+cluster://host:port,host:port; a Cluster has one database and no service";
    let rest = rest.strip_suffix('/').unwrap_or(rest);
    if rest.contains(['/', '?']) {
        return Err(bad(FORM));
    }
    let (settings, seeds) = list_of(rest, 6379, FORM)?;
    Ok(Address::Cluster { seeds, manner: Manner { tls, settings } })
}

/// `[user:password@]host:port,host:port`: who to be, and where. A port may be left out.
fn list_of(list: &str, port: u16, form: &str) -> Result<(RedisConnectionInfo, Vec<(String, u16)>), RedisError> {
    let (who, hosts) = list.rsplit_once('@').map_or((None, list), |(who, hosts)| (Some(who), hosts));
    let mut settings = RedisConnectionInfo::default();
    if let Some(who) = who {
        let (user, password) = who.split_once(':').ok_or_else(|| bad("write user:password@, or :password@"))?;
        let (user, password) = (decode(user)?, decode(password)?);
        if !user.is_empty() {
            settings = settings.set_username(user);
        }
        settings = settings.set_password(password);
    }
    let one = |text: &str| -> Option<(String, u16)> {
        // Brackets hold an IPv6 address, which has colons of its own.
        let (host, rest) = match text.strip_prefix('[') {
            Some(rest) => rest.split_once(']')?,
            None => text.split_at(text.find(':').unwrap_or(text.len())),
        };
        let port = match rest {
            "" => port,
            rest => rest.strip_prefix(':')?.parse().ok().filter(|port| *port > 0)?,
        };
        let plain = !host.is_empty() && !host.contains(|c: char| c.is_whitespace() || matches!(c, '/' | '?' | '#' | '@'));
        plain.then(|| (host.to_owned(), port))
    };
    let hosts: Option<Vec<_>> = hosts.split(',').map(one).collect();
    Ok((settings, hosts.ok_or_else(|| bad(form))?))
}

/// `name=value&…`, only of these names.
fn words(query: &str, names: &[&str]) -> Result<BTreeMap<String, String>, RedisError> {
    let mut found = BTreeMap::new();
    for word in query.split('&').filter(|word| !word.is_empty()) {
        let (name, value) = word.split_once('=').unwrap_or((word, ""));
        if !names.contains(&name) {
            return Err(bad("after the question mark only sentinel_username and sentinel_password are understood"));
        }
        found.insert(name.to_owned(), decode(value)?);
    }
    Ok(found)
}

/// Percent signs as in every address.
fn decode(text: &str) -> Result<String, RedisError> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let digits = after.get(..2).and_then(|two| std::str::from_utf8(two).ok()).filter(|two| !two.starts_with('+'));
        bytes.push(
            digits.and_then(|two| u8::from_str_radix(two, 16).ok()).ok_or_else(|| bad("a % stands before two hex digits"))?,
        );
        rest = &after[2..];
    }
    String::from_utf8(bytes).map_err(|_| bad("it is not UTF-8"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(sentinels: &[ConnectionInfo]) -> Vec<String> {
        sentinels.iter().map(|one| one.addr().to_string()).collect()
    }

    #[test]
    fn sentinels_are_listed_with_the_service_that_they_watch() {
        let read = Address::read("redis+sentinel://us%3Aer:p%40ss@10.0.0.1:26380,sentinel.example,[::1]:7/my-shop/3").unwrap();
        let Address::Sentinel { sentinels, service, manner } = read else { panic!("{read:?}") };
        assert_eq!(places(&sentinels), ["10.0.0.1:26380", "sentinel.example:26379", "::1:7"]);
        assert_eq!(sentinels[0].redis_settings().password(), None, "the primary's password is not shown to a Sentinel");
        let primary = manner.at("10.0.0.9", 6379).unwrap();
        assert_eq!(service, "my-shop");
        assert_eq!(
            (primary.redis_settings().username(), primary.redis_settings().password(), primary.redis_settings().db()),
            (Some("us:er"), Some("p@ss"), 3)
        );
        let read = Address::read("redis+sentinel://h:1/s?sentinel_password=x%25").unwrap();
        let Address::Sentinel { sentinels, .. } = read else { panic!("{read:?}") };
        assert_eq!(sentinels[0].redis_settings().password(), Some("x%"));
    }

    #[test]
    fn a_cluster_is_a_list_of_nodes() {
        let read = Address::read("rediss+cluster://:secret@a:7000,b").unwrap();
        let Address::Cluster { seeds, manner } = read else { panic!("{read:?}") };
        assert_eq!(seeds, [(String::from("a"), 7000), (String::from("b"), 6379)]);
        let node = manner.at("c", 1).unwrap();
        assert!(matches!(node.addr(), ConnectionAddr::TcpTls { host, port: 1, insecure: false, .. } if host == "c"));
        assert_eq!((node.redis_settings().username(), node.redis_settings().password()), (None, Some("secret")));
    }

    #[test]
    fn what_cannot_be_meant_is_refused_without_repeating_a_password() {
        for url in [
            "redis+sentinel://h:1",
            "redis+sentinel://h:1/",
            "redis+sentinel:///s",
            "redis+sentinel://h:1,/s",
            "redis+sentinel://h:0/s",
            "redis+sentinel://h:99999/s",
            "redis+sentinel://h:1/s/x",
            "redis+sentinel://hunter2@h:1/s",
            "redis+sentinel://h:1/s?password=hunter2",
            "redis+cluster://",
            "redis+cluster://h:1/0",
            "redis+cluster://h:1/2",
            "redis+cluster://h:x",
            "redis+cluster://:hunter2%zz@h:1",
            "redis+other://h:1",
            "redis+cluster:h:1",
            "http://hunter2@h",
            "hunter2",
        ] {
            match Address::read(url) {
                Err(e @ RedisError::BadAddress(_)) => assert!(!e.to_string().contains("hunter2"), "{e}"),
                other => panic!("{url}: {other:?}"),
            }
        }
        for url in ["redis://h", "rediss://u:p@h:1/2", "unix:///tmp/x", "redis+cluster://h:1/"] {
            assert!(Address::read(url).is_ok(), "{url}");
        }
    }
}
