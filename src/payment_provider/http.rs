//! One JSON POST and its answer, bounded in time and size: the way to the provider, and the sandbox's way back.
//!
//! Plain HTTP. A provider on the internet is reached through a local proxy that speaks TLS (`docs/OPERATIONS.md`), so
//! that certificates are the operator's to choose and no second TLS stack lives in this program.

use std::time::Duration;

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{Method, Request};
use http_body_util::{BodyExt, Full, Limited};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};

/// How long a connection may take to open.
const CONNECT_WITHIN: Duration = Duration::from_secs(2);

/// The most bytes of an answer that are read.
const MOST_ANSWER: usize = 64 * 1024;

/// Why there is no answer. Whether the request was carried out is unknown, unless nobody listened.
#[derive(Debug, thiserror::Error)]
pub enum HttpError {
    /// The address cannot be spoken to.
    #[error("not an http:// address that can be called")]
    BadAddress,
    /// No connection, or it broke.
    #[error("no connection: {0}")]
    Connection(String),
    /// Not all of the answer came in time.
    #[error("no answer in time")]
    Slow,
}

/// What came back.
#[derive(Debug)]
pub struct Answer {
    /// The HTTP status. A redirect is an answer like any other: it is never followed.
    pub status: u16,
    /// The whole body, 64 KiB at most.
    pub body: Bytes,
}

impl Answer {
    /// Whether the other side says that it did what it was asked.
    #[must_use]
    pub fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }
}

/// Keeps connections open for a while; cheap to clone.
#[derive(Debug, Clone)]
pub struct Http(Client<HttpConnector, Full<Bytes>>);

impl Default for Http {
    fn default() -> Self {
        let mut connector = HttpConnector::new();
        connector.set_connect_timeout(Some(CONNECT_WITHIN));
        connector.set_nodelay(true);
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(Duration::from_secs(10))
            .pool_max_idle_per_host(8)
            .build(connector);
        Self(client)
    }
}

impl Http {
    /// Sends `body` as JSON to `url` with more `headers`; everything together within `limit`.
    pub async fn post(&self, url: &str, headers: &[(&str, &str)], body: Bytes, limit: Duration) -> Result<Answer, HttpError> {
        let mut request = Request::builder().method(Method::POST).uri(url).header(CONTENT_TYPE, "application/json");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Full::new(body)).map_err(|_| HttpError::BadAddress)?;
        let exchange = async {
            let answer = self.0.request(request).await.map_err(|e| HttpError::Connection(e.to_string()))?;
            let status = answer.status().as_u16();
            let body = Limited::new(answer.into_body(), MOST_ANSWER).collect().await;
            let body = body.map_err(|e| HttpError::Connection(e.to_string()))?.to_bytes();
            Ok(Answer { status, body })
        };
        tokio::time::timeout(limit, exchange).await.unwrap_or(Err(HttpError::Slow))
    }
}
