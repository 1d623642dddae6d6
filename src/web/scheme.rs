//! Whether a browser came by TLS, as far as this side of a proxy can tell, and what becomes of a session cookie when the options
//! say one thing and the connection another. Nobody is refused for it: what a proxy leaves out is not held against a visitor.

use axum::http::header::{HeaderValue, ORIGIN, SET_COOKIE};
use axum::http::request::Parts;
use axum::http::{Extensions, HeaderMap};
use axum::response::Redirect;
use ipnet::IpNet;

use crate::web::client_address::peer;
use crate::web::own_path::own_path;
use crate::web::session::CookieRules;

/// The word in the login page's query: a browser was sent there with a cookie that it may not have taken.
const BY_HTTP: (&str, &str) = ("came", "http");

/// Whether a trusted proxy says that the browser speaks TLS to it.
#[must_use]
pub fn proxy_says_tls(parts: &Parts, trusted: &[IpNet]) -> bool {
    says_tls(&parts.extensions, &parts.headers, trusted)
}

fn says_tls(extensions: &Extensions, headers: &HeaderMap, trusted: &[IpNet]) -> bool {
    let Some(said) = headers.get_all("x-forwarded-proto").iter().next_back().and_then(|value| value.to_str().ok()) else {
        return false;
    };
    let nearest = said.rsplit(',').next().unwrap_or_default().trim();
    nearest.eq_ignore_ascii_case("https") && trusted.iter().any(|net| net.contains(&peer(extensions)))
}

/// Makes every cookie of an answer `Secure`: for a browser that came by TLS to a shop whose `--public-url` does not say so.
pub fn secure_cookies(headers: &mut HeaderMap) {
    if !headers.contains_key(SET_COOKIE) {
        return;
    }
    let cookies: Vec<HeaderValue> = headers.get_all(SET_COOKIE).iter().cloned().collect();
    headers.remove(SET_COOKIE);
    for cookie in cookies {
        let text = cookie.to_str().ok().filter(|text| !text.contains("; Secure"));
        let secure = text.and_then(|text| HeaderValue::from_str(&format!("{text}; Secure")).ok());
        headers.append(SET_COOKIE, secure.unwrap_or(cookie));
    }
}

/// Where a browser goes after it logged in: `next`, or by way of the login page when its own form came from a page over plain HTTP
/// while the cookie is for TLS. Most browsers do not take such a cookie, and would ask for the login again without a word; the
/// login page sees whether it is there, goes on where it is, and says why not where it is not.
pub fn after_login(rules: &CookieRules, headers: &HeaderMap, next: &str) -> Redirect {
    let next = own_path(next).unwrap_or("/");
    let plain = headers.get(ORIGIN).is_some_and(|origin| origin.as_bytes().starts_with(b"http://"));
    if !(rules.is_secure() && plain) {
        return Redirect::to(next);
    }
    let (name, value) = BY_HTTP;
    let next: String = form_urlencoded::byte_serialize(next.as_bytes()).collect();
    Redirect::to(&format!("/login?{name}={value}&next={next}"))
}

/// Whether the query of the login page says that a login just went by way of it.
#[must_use]
pub fn is_back_from_login(rules: &CookieRules, typed: &str) -> bool {
    rules.is_secure() && typed == BY_HTTP.1
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;
    use std::time::Duration;

    use axum::extract::ConnectInfo;
    use axum::http::header::LOCATION;
    use axum::response::IntoResponse;

    use super::*;

    #[test]
    fn only_a_trusted_proxy_may_say_tls_and_the_nearest_one_counts() {
        let trusted = ["10.0.0.0/8".parse().unwrap()];
        let says = |peer: &str, lines: &[&'static str]| {
            let mut extensions = Extensions::new();
            extensions.insert(ConnectInfo(SocketAddr::new(peer.parse().unwrap(), 1)));
            let mut headers = HeaderMap::new();
            for line in lines {
                headers.append("x-forwarded-proto", line.parse().unwrap());
            }
            says_tls(&extensions, &headers, &trusted)
        };
        assert!(says("10.0.0.1", &["https"]) && says("10.0.0.1", &["http, HTTPS"]) && says("10.0.0.1", &["http", "https"]));
        assert!(!says("10.0.0.1", &["https, http"]) && !says("10.0.0.1", &[]) && !says("203.0.113.9", &["https"]));
    }

    #[test]
    fn every_cookie_becomes_secure_once() {
        let mut headers = HeaderMap::new();
        for cookie in ["a=1; Path=/", "b=2; Secure"] {
            headers.append(SET_COOKIE, cookie.parse().unwrap());
        }
        secure_cookies(&mut headers);
        let all: Vec<&str> = headers.get_all(SET_COOKIE).iter().map(|c| c.to_str().unwrap()).collect();
        assert_eq!(all, ["a=1; Path=/; Secure", "b=2; Secure"]);
    }

    #[test]
    fn only_a_page_over_plain_http_is_asked_to_show_its_cookie() {
        let to = |secure: bool, origin: Option<&'static str>, next: &str| {
            let mut headers = HeaderMap::new();
            origin.map(|origin| headers.insert(ORIGIN, origin.parse().unwrap()));
            let rules = CookieRules::new(secure, Duration::from_mins(1));
            after_login(&rules, &headers, next).into_response().headers()[LOCATION].to_str().unwrap().to_owned()
        };
        assert_eq!(to(true, Some("http://10.0.0.7:8080"), "/orders?a=b&c"), "/login?came=http&next=%2Forders%3Fa%3Db%26c");
        assert_eq!(to(true, Some("http://10.0.0.7:8080"), "//evil"), "/login?came=http&next=%2F");
        for (secure, origin) in [(false, Some("http://10.0.0.7")), (true, Some("https://shop.example")), (true, None)] {
            assert_eq!(to(secure, origin, "/orders"), "/orders", "{secure} {origin:?}");
        }
    }
}
