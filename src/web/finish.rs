//! The outermost layer that knows HTTP: refuses heads that are oversized or name two hosts, words every problem, puts the security headers on.

use std::time::Duration;

use axum::extract::{Request, State};
use axum::http::header::{
    ACCEPT, ALLOW, CACHE_CONTROL, CONNECTION, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HOST, HeaderName, HeaderValue, LOCATION,
    REFERER, REFERRER_POLICY, RETRY_AFTER, SET_COOKIE, STRICT_TRANSPORT_SECURITY, TRANSFER_ENCODING, X_CONTENT_TYPE_OPTIONS,
};
use axum::http::request::Parts;
use axum::http::{HeaderMap, Method, StatusCode, Uri, Version};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use tower_http::request_id::RequestId;

use crate::i18n::Lang;
use crate::store::with_patience;
use crate::web::error::Problem;
use crate::web::extract::{chrome, is_api, lang_of};
use crate::web::fields::QueryFields;
use crate::web::own_path::login_address;
use crate::web::page::{ErrorPage, Theme};
use crate::web::reply;
use crate::web::scheme::{proxy_says_tls, secure_cookies};
use crate::web::state::AppState;

const MAX_URI: usize = 8 * 1024;
const MAX_HEADERS: usize = 16 * 1024;
/// How long an answer waits for a database that says nothing: a visitor hears BUSY within a second.
const DATABASE_WITHIN: Duration = Duration::from_millis(900);

/// What a browser may load and where a page may stand.
pub const POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'self'; img-src 'self' data:; object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
);
/// The same for an order's page where a real provider takes the money: browsers count the way on from a posted form as its
/// action, and the provider's page is elsewhere.
const POLICY_OF_ORDERS: HeaderValue = HeaderValue::from_static(
    "default-src 'self'; img-src 'self' data:; object-src 'none'; base-uri 'none'; form-action 'self' http: https:; frame-ancestors 'none'",
);
const A_YEAR: u32 = 31_536_000;

/// Runs the request and makes its answer fit to be seen.
pub async fn finish(State(state): State<AppState>, request: Request, next: Next) -> Response {
    let (parts, body) = request.into_parts();
    let before = unfit(parts.version, &parts.uri, &parts.headers);
    // Only what the words need: the rest goes on with the request.
    let seen = Seen::of(&parts);
    let tls_unsaid = !state.public_url.is_tls() && proxy_says_tls(&parts, &state.trusted_proxies);
    let response = if let Some(problem) = before {
        problem.into_response()
    } else {
        let work = next.run(Request::from_parts(parts, body));
        // A report may read for long, and an admin waits for it.
        if seen.uri.path().contains("/report") { work.await } else { with_patience(DATABASE_WITHIN, work).await }
    };
    let mut response = worded(&state, &seen, response);
    remember_choices(&seen, response.headers_mut());
    if tls_unsaid {
        secure_cookies(response.headers_mut());
    }
    let pays_elsewhere = state.money.sandbox.is_none() && seen.uri.path().starts_with("/orders/");
    let policy = if pays_elsewhere { POLICY_OF_ORDERS } else { POLICY };
    protect(&state, is_api(seen.uri.path()), policy, response.headers_mut());
    hang_up_on_excess(&mut response);
    response
}

/// Who sends more than is read hears that the connection ends: whatever he has not sent yet would be taken for his next request, and a
/// client that keeps connections would put its own next one on a connection that is about to close.
pub fn hang_up_on_excess(response: &mut Response) {
    if response.status() == StatusCode::PAYLOAD_TOO_LARGE {
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
}

/// Why a head is not looked at any further; none: it is.
pub fn unfit(version: Version, uri: &Uri, headers: &HeaderMap) -> Option<Problem> {
    // Of two hosts, a proxy may have checked the one and we would believe the other.
    if headers.get_all(HOST).iter().nth(1).is_some() {
        return Some(Problem::Malformed);
    }
    // Whoever leaves it out is no browser, and what it asks could be understood in two ways.
    if version == Version::HTTP_11 && !headers.contains_key(HOST) {
        return Some(Problem::Malformed);
    }
    // The address names a host too, and another one: which of them a proxy looked at, nobody knows.
    if let Some(authority) = uri.authority()
        && headers.get(HOST).is_some_and(|host| host.as_bytes() != authority.as_str().as_bytes())
    {
        return Some(Problem::Malformed);
    }
    // Where a body ends is said in one way here; what else it was folded into, nobody would unfold.
    let mut codings = headers.get_all(TRANSFER_ENCODING).iter();
    if codings.next().is_some_and(|coding| !coding.as_bytes().eq_ignore_ascii_case(b"chunked")) || codings.next().is_some() {
        return Some(Problem::Malformed);
    }
    if let Some(whole) = uri.path_and_query() {
        if whole.as_str().len() > MAX_URI {
            return Some(Problem::UriTooLong);
        }
        // No text here holds a zero byte; for some programs it ends one, and for Postgres it is none.
        if whole.path().contains("%00") {
            return Some(if is_api(whole.path()) { Problem::Malformed } else { Problem::NotFound });
        }
        if whole.query().is_some_and(|query| query.contains("%00")) {
            return Some(Problem::Malformed);
        }
    }
    let bytes: usize = headers.iter().map(|(name, value)| name.as_str().len() + value.len() + 4).sum();
    (bytes > MAX_HEADERS).then_some(Problem::HeadersTooLarge)
}

/// What is kept of a request to word its answer. Everything here is cheap to clone.
struct Seen {
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    extensions: axum::http::Extensions,
}

impl Seen {
    fn of(parts: &Parts) -> Self {
        let wanted = [ACCEPT, axum::http::header::ACCEPT_LANGUAGE, axum::http::header::COOKIE, REFERER];
        let mut headers = HeaderMap::with_capacity(4);
        for name in wanted {
            if let Some(value) = parts.headers.get(&name) {
                headers.insert(name, value.clone());
            }
        }
        let mut extensions = axum::http::Extensions::new();
        if let Some(visitor) = parts.extensions.get::<crate::web::identify::Visitor>() {
            extensions.insert(visitor.clone());
        }
        if let Some(id) = parts.extensions.get::<RequestId>() {
            extensions.insert(id.clone());
        }
        Self { method: parts.method.clone(), uri: parts.uri.clone(), headers, extensions }
    }

    fn lang(&self) -> Lang {
        lang_of(self.uri.query(), &self.headers)
    }

    fn request_id(&self) -> &str {
        self.extensions.get::<RequestId>().and_then(|id| id.header_value().to_str().ok()).unwrap_or("-")
    }

    /// Programs that ask for JSON get it on every path; everybody else gets a page outside of `/api`.
    fn wants_json(&self) -> bool {
        let accept = self.headers.get(ACCEPT).and_then(|h| h.to_str().ok()).unwrap_or_default();
        is_api(self.uri.path()) || (accept.contains("application/json") && !accept.contains("text/html"))
    }

    fn parts(&self) -> Option<Parts> {
        let (mut parts, ()) = axum::http::Request::builder().uri(self.uri.clone()).body(()).ok()?.into_parts();
        parts.headers = self.headers.clone();
        parts.extensions = self.extensions.clone();
        Some(parts)
    }

    /// Where a visitor was when he was sent to the login: here, or the page that held the form.
    fn came_from(&self) -> String {
        if self.method == Method::GET {
            return self.uri.path_and_query().map_or_else(String::new, ToString::to_string);
        }
        let referer = self.headers.get(REFERER).and_then(|h| h.to_str().ok()).and_then(|r| r.parse::<Uri>().ok());
        referer.and_then(|r| r.path_and_query().map(ToString::to_string)).unwrap_or_default()
    }
}

/// The truth is for the log, once, here at the edge.
pub fn note(problem: &Problem, request_id: &str, path: &str) {
    match problem {
        Problem::Internal(truth) => tracing::error!(request = request_id, path, truth, "failed"),
        Problem::Busy(truth) => tracing::debug!(request = request_id, path, truth, "busy"),
        _ => {}
    }
}

/// A problem becomes JSON, a page, or the way to the login; a bare error of a layer below becomes a problem first.
fn worded(state: &AppState, seen: &Seen, mut response: Response) -> Response {
    let problem = response.extensions_mut().remove::<Problem>().or_else(|| {
        let is_ours = response
            .headers()
            .get(CONTENT_TYPE)
            .is_some_and(|t| t.as_bytes().starts_with(b"text/html") || t.as_bytes().starts_with(b"application/json"));
        if is_ours { None } else { Problem::of_bare_status(response.status()) }
    });
    let Some(problem) = problem else { return response };
    note(&problem, seen.request_id(), seen.uri.path());
    let mut worded = if seen.wants_json() {
        reply::problem(&problem, seen.lang(), seen.request_id())
    } else if matches!(problem, Problem::LoginRequired) {
        let to = HeaderValue::from_str(&login_address(&seen.came_from())).unwrap_or(HeaderValue::from_static("/login"));
        (StatusCode::SEE_OTHER, [(LOCATION, to)]).into_response()
    } else {
        let (_, code) = problem.status_and_code();
        let (status, wait) = (problem.page_status(), problem.retry_after());
        match seen.parts() {
            Some(parts) => ErrorPage::new(chrome(&parts, state), status, code, seen.request_id(), wait).into_response(),
            None => status.into_response(),
        }
    };
    for name in [ALLOW, RETRY_AFTER, SET_COOKIE] {
        if let Some(value) = response.headers_mut().remove(&name) {
            worded.headers_mut().append(name, value);
        }
    }
    worded
}

/// `?lang=` and `?theme=` are remembered in cookies of their own.
fn remember_choices(seen: &Seen, headers: &mut HeaderMap) {
    let Some(query) = seen.uri.query().filter(|q| q.contains("lang=") || q.contains("theme=")) else { return };
    if is_api(seen.uri.path()) || seen.method != Method::GET {
        return;
    }
    let QueryFields(fields) = QueryFields::of(Some(query));
    let lang = Lang::from_tag(fields.typed("lang")).map(|lang| ("lang", lang.tag()));
    let theme = Theme::from_word(fields.typed("theme")).map(|theme| ("theme", theme.as_str()));
    for (name, value) in [lang, theme].into_iter().flatten() {
        let text = format!("{name}={value}; Path=/; Max-Age={A_YEAR}; SameSite=Lax");
        if let Ok(value) = HeaderValue::from_str(&text) {
            headers.append(SET_COOKIE, value);
        }
    }
}

/// The headers that every answer has. `private`: nobody may keep the answer, whatever it says itself.
pub fn protect(state: &AppState, private: bool, policy: HeaderValue, headers: &mut HeaderMap) {
    if state.public_url.is_tls() {
        // Browsers take it only from TLS; without subdomains, which are not ours to decide about.
        headers.insert(STRICT_TRANSPORT_SECURITY, HeaderValue::from_static("max-age=31536000"));
    }
    let set: [(HeaderName, HeaderValue); 3] = [
        (CONTENT_SECURITY_POLICY, policy),
        (X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
        (REFERRER_POLICY, HeaderValue::from_static("same-origin")),
    ];
    for (name, value) in set {
        headers.insert(name, value);
    }
    // Private by default; assets say for themselves how long they keep.
    if private || !headers.contains_key(CACHE_CONTROL) {
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    }
}
