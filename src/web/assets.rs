//! Style sheet, scripts and picture, out of the binary: `/static/HASH/NAME`.
//!
//! One hash stands for all files, so that a script's `import "./other.js"` stays inside the same set.

use std::fmt::Write as _;
use std::future::{Ready, ready};
use std::sync::LazyLock;

use axum::body::Body;
use axum::http::{HeaderMap, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use rust_embed::RustEmbed;
use sha2::{Digest, Sha256};

#[derive(RustEmbed)]
#[folder = "static/"]
struct Files;

/// The first 16 hex digits of the hash over every name and content.
static SET: LazyLock<String> = LazyLock::new(|| {
    let mut names: Vec<_> = Files::iter().collect();
    names.sort();
    let mut hasher = Sha256::new();
    for name in names {
        if let Some(file) = Files::get(&name) {
            hasher.update(name.as_bytes());
            hasher.update(file.metadata.sha256_hash());
        }
    }
    hex(&hasher.finalize()[..8])
});

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, b| {
        let _ = write!(text, "{b:02x}");
        text
    })
}

/// The address of a file of `static/`; it changes whenever any of them does.
#[must_use]
pub fn url(name: &str) -> String {
    format!("/static/{}/{name}", *SET)
}

/// Answers GET and HEAD of `/static/{hash}/{name}`; 404 for a name that is not there.
///
/// Under the present hash a file may be kept for ever. Under another one (a page of an older or newer instance during a
/// rollout) the file of this instance is sent, but must be asked for again.
#[expect(clippy::needless_pass_by_value, reason = "axum hands the parts of a request over by value")]
pub fn serve(uri: Uri, headers: HeaderMap) -> Ready<Response> {
    ready(answer(&uri, &headers))
}

fn answer(uri: &Uri, headers: &HeaderMap) -> Response {
    let path = uri.path().trim_start_matches("/static/");
    let Some((hash, name)) = path.split_once('/') else { return StatusCode::NOT_FOUND.into_response() };
    let Some(file) = Files::get(name) else { return StatusCode::NOT_FOUND.into_response() };
    let etag = format!("\"{}\"", hex(&file.metadata.sha256_hash()[..16]));
    let cache = if hash == *SET { "public, max-age=31536000, immutable" } else { "no-cache" };
    let known = headers.get_all(header::IF_NONE_MATCH).iter().filter_map(|v| v.to_str().ok()).any(|v| matches(v, &etag));
    let common = [(header::ETAG, etag), (header::CACHE_CONTROL, cache.to_owned())];
    if known {
        return (StatusCode::NOT_MODIFIED, common).into_response();
    }
    let mime = file.metadata.mimetype();
    let kind = if mime.starts_with("text/") { format!("{mime}; charset=utf-8") } else { mime.to_owned() };
    (common, [(header::CONTENT_TYPE, kind)], Body::from(file.data)).into_response()
}

/// The weak comparison of RFC 9110, 13.1.2: a proxy that compresses weakens the tag.
fn matches(if_none_match: &str, etag: &str) -> bool {
    if_none_match.split(',').map(str::trim).any(|tag| tag == "*" || tag.trim_start_matches("W/") == etag)
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn get(path: &str, tag: Option<&str>) -> Response {
        let mut headers = HeaderMap::new();
        if let Some(tag) = tag {
            headers.insert(header::IF_NONE_MATCH, tag.parse().unwrap());
        }
        serve(path.parse().unwrap(), headers).await
    }

    #[tokio::test]
    async fn a_file_is_kept_for_ever_under_its_own_hash_and_asked_for_again_under_another() {
        let fresh = get(&url("app.css"), None).await;
        assert_eq!(fresh.status(), StatusCode::OK);
        assert_eq!(fresh.headers()[header::CONTENT_TYPE], "text/css; charset=utf-8");
        assert!(fresh.headers()[header::CACHE_CONTROL].to_str().unwrap().contains("immutable"));
        let old = get("/static/0000/app.js", None).await;
        assert_eq!(old.headers()[header::CACHE_CONTROL], "no-cache");
        assert_eq!(old.headers()[header::CONTENT_TYPE], "text/javascript; charset=utf-8");
        let tag = fresh.headers()[header::ETAG].to_str().unwrap().to_owned();
        for tag in [tag.clone(), format!("\"x\", W/{tag}"), "*".to_owned()] {
            assert_eq!(get(&url("app.css"), Some(&tag)).await.status(), StatusCode::NOT_MODIFIED);
        }
        assert_eq!(get(&url("app.css"), Some("\"other\"")).await.status(), StatusCode::OK);
        assert_eq!(get(&url("nothing.css"), None).await.status(), StatusCode::NOT_FOUND);
        assert_eq!(get("/static/app.css", None).await.status(), StatusCode::NOT_FOUND);
    }
}
