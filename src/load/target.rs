//! Where the load goes: the address of a running shop, as `--url` names it.

use std::str::FromStr;

/// A shop's address: plain HTTP, a host and a port, no path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// What the Host header says.
    pub authority: String,
    /// Host and port to connect to.
    pub address: String,
}

impl FromStr for Target {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let bad = || format!("'{text}' is not an address to load: write http:// and a host, without a path");
        let uri: http::Uri = text.parse().map_err(|_| bad())?;
        let authority = uri.authority().ok_or_else(bad)?;
        if uri.scheme_str() != Some("http")
            || !matches!(uri.path(), "" | "/")
            || uri.query().is_some()
            || authority.as_str().contains('@')
        {
            return Err(bad());
        }
        let address = format!("{}:{}", authority.host(), authority.port_u16().unwrap_or(80));
        Ok(Self { authority: authority.to_string(), address })
    }
}

impl Target {
    /// The address of the live channel.
    #[must_use]
    pub fn socket_url(&self) -> String {
        format!("ws://{}/ws", self.authority)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_plain_http_with_a_host_and_no_path() {
        let target: Target = "http://127.0.0.1:8080/".parse().unwrap();
        assert_eq!((target.authority.as_str(), target.address.as_str()), ("127.0.0.1:8080", "127.0.0.1:8080"));
        assert_eq!("http://shop.example".parse::<Target>().unwrap().address, "shop.example:80");
        assert_eq!("http://[::1]:81".parse::<Target>().unwrap().address, "[::1]:81");
        for bad in
            ["", "shop.example", "https://shop.example", "http://shop.example/path", "http://a@b/", "http://b/?q", "ws://b"]
        {
            assert!(bad.parse::<Target>().is_err(), "{bad:?}");
        }
    }
}
