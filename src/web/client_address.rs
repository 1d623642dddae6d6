//! Where a request comes from. `X-Forwarded-For` is believed only as far as trusted proxies wrote it.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use axum::extract::ConnectInfo;
use axum::http::request::Parts;
use axum::http::{Extensions, HeaderMap};
use ipnet::IpNet;

/// The client's address: of the connection, or the rightmost address in `X-Forwarded-For` that no trusted proxy has.
#[must_use]
pub fn client_address(parts: &Parts, trusted: &[IpNet]) -> IpAddr {
    forwarded(peer(&parts.extensions), &parts.headers, trusted)
}

/// The other end of the connection. Without one (a request that never was on a wire) the local machine.
#[must_use]
pub fn peer(extensions: &Extensions) -> IpAddr {
    let address = extensions.get::<ConnectInfo<SocketAddr>>().map(|c| c.0.ip());
    address.unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST)).to_canonical()
}

fn forwarded(peer: IpAddr, headers: &HeaderMap, trusted: &[IpNet]) -> IpAddr {
    let is_trusted = |address: &IpAddr| trusted.iter().any(|net| net.contains(address));
    let mut address = peer;
    if !is_trusted(&address) {
        return address;
    }
    let lines: Vec<&str> = headers.get_all("x-forwarded-for").iter().map(|h| h.to_str().unwrap_or("?")).collect();
    for hop in lines.iter().flat_map(|line| line.split(',')).rev() {
        let hop = hop.trim();
        let with_port = || hop.parse::<SocketAddr>().map(|a| a.ip());
        // Nonsense: the last address that a trusted proxy vouched for is the best that is known.
        let Ok(next) = hop.parse::<IpAddr>().or_else(|_| with_port()) else { return address };
        address = next.to_canonical();
        if !is_trusted(&address) {
            return address;
        }
    }
    address
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_client_writes_into_the_header_is_not_believed() {
        let trusted = ["10.0.0.0/8".parse().unwrap()];
        let from = |peer: &str, lines: &[&'static str]| {
            let mut headers = HeaderMap::new();
            for line in lines {
                headers.append("x-forwarded-for", line.parse().unwrap());
            }
            forwarded(peer.parse().unwrap(), &headers, &trusted).to_string()
        };
        assert_eq!(from("203.0.113.9", &["1.1.1.1"]), "203.0.113.9");
        assert_eq!(from("10.0.0.1", &["1.1.1.1, 203.0.113.9"]), "203.0.113.9");
        assert_eq!(from("10.0.0.1", &["1.1.1.1", "203.0.113.9:4711, 10.0.0.2"]), "203.0.113.9");
        assert_eq!(from("10.0.0.1", &["203.0.113.9, nonsense, 10.0.0.2"]), "10.0.0.2");
        assert_eq!(from("10.0.0.1", &[]), "10.0.0.1");
    }
}
