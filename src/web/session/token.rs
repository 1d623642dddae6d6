//! Where a token travels: the `authorization` header of programs, the cookie of browsers.

use http::header::{AUTHORIZATION, COOKIE};
use http::{HeaderMap, HeaderValue};

/// Name and attributes of the session cookie.
#[derive(Debug, Clone)]
pub struct CookieRules {
    secure: bool,
    max_age_seconds: u64,
}

impl CookieRules {
    /// `secure`: browsers come by TLS; then the name has the `__Host-` prefix, which binds the cookie to this very host.
    #[must_use]
    pub fn new(secure: bool, max_age: std::time::Duration) -> Self {
        Self { secure, max_age_seconds: max_age.as_secs() }
    }

    /// Whether the cookie is for TLS alone.
    #[must_use]
    pub fn is_secure(&self) -> bool {
        self.secure
    }

    /// The cookie's name.
    #[must_use]
    pub fn name(&self) -> &'static str {
        if self.secure { "__Host-seckill_session" } else { "seckill_session" }
    }

    fn header(&self, token: &str, max_age: u64) -> Option<HeaderValue> {
        let secure = if self.secure { "; Secure" } else { "" };
        let text = format!("{}={token}; Path=/; Max-Age={max_age}; HttpOnly; SameSite=Lax{secure}", self.name());
        HeaderValue::from_str(&text).ok()
    }

    /// The `Set-Cookie` that hands `token` to a browser.
    #[must_use]
    pub fn set(&self, token: &str) -> Option<HeaderValue> {
        self.header(token, self.max_age_seconds)
    }

    /// The `Set-Cookie` that takes it back: after a logout, and never because Redis was away.
    #[must_use]
    pub fn clear(&self) -> Option<HeaderValue> {
        self.header("", 0)
    }
}

fn cookies<'h>(headers: &'h HeaderMap, name: &str) -> impl Iterator<Item = &'h str> {
    let pairs = headers.get_all(COOKIE).iter().filter_map(|h| h.to_str().ok()).flat_map(|h| h.split(';'));
    pairs.filter_map(|pair| pair.trim().split_once('=')).filter(move |(n, _)| *n == name).map(|(_, value)| value)
}

/// The value of the cookie `name`; the first one when a browser sends several.
#[must_use]
pub fn cookie<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    cookies(headers, name).next()
}

/// The token in the session cookie; empty ones are none. Two that differ are one that nobody knows: a browser holds one cookie of
/// ours for a path, so the second was put there by somebody else (a neighbouring host can, without the `__Host-` prefix), and which
/// of them is his cannot be told. A cookie of the other name (the plain one beside `__Host-`) is not looked at.
#[must_use]
pub fn token_in_cookie<'h>(headers: &'h HeaderMap, rules: &CookieRules) -> Option<&'h str> {
    let mut tokens = cookies(headers, rules.name()).filter(|value| !value.is_empty());
    let token = tokens.next()?;
    Some(if tokens.all(|other| other == token) { token } else { "?" })
}

/// The token in the `authorization` header: bare, as the pages of the original course project send it, or after `Bearer `.
/// An empty header is none; two headers are one that nobody knows.
#[must_use]
pub fn token_in_header(headers: &HeaderMap) -> Option<&str> {
    if headers.get_all(AUTHORIZATION).iter().nth(1).is_some() {
        return Some("?");
    }
    // Bytes that are no text are no token of ours, but the header was there: it must not count as "no token".
    let value = headers.get(AUTHORIZATION)?.to_str().unwrap_or("?").trim();
    let token = match value.split_once(' ') {
        Some((scheme, rest)) if scheme.eq_ignore_ascii_case("bearer") => rest.trim(),
        _ => value,
    };
    (!token.is_empty()).then_some(token)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        pairs.iter().map(|(n, v)| (n.parse().unwrap(), HeaderValue::from_static(v))).collect()
    }

    #[test]
    fn a_token_is_found_bare_after_bearer_or_in_the_cookie() {
        assert_eq!(token_in_header(&headers(&[("authorization", "abc")])), Some("abc"));
        assert_eq!(token_in_header(&headers(&[("authorization", "bearer  abc")])), Some("abc"));
        assert_eq!(token_in_header(&headers(&[("authorization", "")])), None);
        let mut twice = headers(&[("authorization", "abc")]);
        twice.append("authorization", HeaderValue::from_static("abc"));
        assert_eq!(token_in_header(&twice), Some("?"));
        let rules = CookieRules::new(false, std::time::Duration::from_mins(1));
        let sent = headers(&[("cookie", "lang=en; seckill_session=abc;theme=dark")]);
        assert_eq!(token_in_cookie(&sent, &rules), Some("abc"));
        assert_eq!(cookie(&sent, "theme"), Some("dark"));
        let of = |line| token_in_cookie(&headers(&[("cookie", line)]), &rules).map(str::to_owned);
        assert_eq!(of("seckill_session=abc; seckill_session=abc; seckill_session=").as_deref(), Some("abc"));
        assert_eq!(of("seckill_session=abc; seckill_session=def").as_deref(), Some("?"));
        assert_eq!(of("__Host-seckill_session=abc; seckill_session=def").as_deref(), Some("def"));
    }

    #[test]
    fn the_cookie_is_out_of_reach_for_scripts_and_bound_to_the_host_under_tls() {
        let day = std::time::Duration::from_hours(24);
        assert_eq!(
            CookieRules::new(false, day).set("t").unwrap(),
            "seckill_session=t; Path=/; Max-Age=86400; HttpOnly; SameSite=Lax"
        );
        assert_eq!(
            CookieRules::new(true, day).clear().unwrap(),
            "__Host-seckill_session=; Path=/; Max-Age=0; HttpOnly; SameSite=Lax; Secure"
        );
    }
}
