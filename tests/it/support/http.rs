//! A client as small as the tests need: one connection pool, no redirects followed, cookies only when given.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde_json::Value;

/// An answer, read whole.
#[derive(Debug)]
pub struct Answer {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl Answer {
    /// The body as text.
    pub fn text(&self) -> String {
        String::from_utf8(self.body.to_vec()).unwrap()
    }

    /// The body as JSON.
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|e| panic!("{} is no JSON ({e}): {}", self.status, self.text()))
    }

    /// The `data` of a successful envelope.
    #[track_caller]
    pub fn data(&self) -> Value {
        let json = self.json();
        assert_eq!(json["success"], true, "{} {json}", self.status);
        json["data"].clone()
    }

    /// The `code` of a refusal.
    #[track_caller]
    pub fn code(&self) -> String {
        let json = self.json();
        assert_eq!(json["success"], false, "{} {json}", self.status);
        json["code"].as_str().unwrap().to_owned()
    }

    /// A header as text; empty when absent.
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |v| v.to_str().unwrap())
    }

    /// The session cookie that was set, as `name=value`.
    pub fn cookie(&self) -> Option<String> {
        let set = self.headers.get_all("set-cookie").iter().map(|v| v.to_str().unwrap());
        set.filter_map(|v| v.split(';').next()).find(|v| v.contains("seckill_session=")).map(str::to_owned)
    }
}

/// Talks to one shop.
#[derive(Clone)]
pub struct Http {
    base: String,
    client: Client<HttpConnector, Full<Bytes>>,
}

impl Http {
    /// `base` as `http://127.0.0.1:PORT`.
    pub fn new(base: &str) -> Self {
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        Self { base: base.to_owned(), client: Client::builder(TokioExecutor::new()).build(connector) }
    }

    /// The same as seen from another address of this machine.
    pub fn from_address(base: &str, address: std::net::IpAddr) -> Self {
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        connector.set_local_address(Some(address));
        Self { base: base.to_owned(), client: Client::builder(TokioExecutor::new()).build(connector) }
    }

    /// Any request; panics when there is no answer within 20 s.
    pub async fn send(&self, method: Method, path: &str, headers: &[(&str, &str)], body: impl Into<Bytes>) -> Answer {
        self.try_send(method, path, headers, body).await.unwrap_or_else(|e| panic!("{path}: {e}"))
    }

    /// Any request; an error when the connection fails.
    pub async fn try_send(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Bytes>,
    ) -> Result<Answer, String> {
        let headers = headers.iter().map(|(name, value)| (*name, HeaderValue::from_str(value).unwrap())).collect();
        self.try_send_raw(method, path, headers, body).await
    }

    /// The same with any bytes in its headers that a header may have.
    pub async fn try_send_raw(
        &self,
        method: Method,
        path: &str,
        headers: Vec<(&str, HeaderValue)>,
        body: impl Into<Bytes>,
    ) -> Result<Answer, String> {
        let mut request = Request::builder().method(method).uri(format!("{}{path}", self.base));
        for (name, value) in headers {
            request = request.header(name, value);
        }
        let request = request.body(Full::new(body.into())).unwrap();
        let exchange = async {
            let response = self.client.request(request).await.map_err(|e| e.to_string())?;
            let (parts, body) = response.into_parts();
            let body = body.collect().await.map_err(|e| e.to_string())?.to_bytes();
            Ok(Answer { status: parts.status, headers: parts.headers, body })
        };
        tokio::time::timeout(Duration::from_secs(20), exchange).await.map_err(|_| String::from("no answer within 20 s"))?
    }

    pub async fn get(&self, path: &str) -> Answer {
        self.send(Method::GET, path, &[], "").await
    }

    pub async fn get_as(&self, token: &str, path: &str) -> Answer {
        self.send(Method::GET, path, &[("authorization", token)], "").await
    }

    /// POST without body or content type, as hmdp's pages do it.
    pub async fn post_as(&self, token: &str, path: &str) -> Answer {
        self.send(Method::POST, path, &[("authorization", token)], "").await
    }

    pub async fn json(&self, token: Option<&str>, path: &str, body: &Value) -> Answer {
        let mut headers = vec![("content-type", "application/json")];
        if let Some(token) = token {
            headers.push(("authorization", token));
        }
        self.send(Method::POST, path, &headers, body.to_string()).await
    }

    /// A form post as a browser sends it, with a cookie when there is one.
    pub async fn form(&self, cookie: Option<&str>, path: &str, body: &str) -> Answer {
        let mut headers = vec![
            ("content-type", "application/x-www-form-urlencoded"),
            ("sec-fetch-site", "same-origin"),
            ("accept", "text/html"),
        ];
        if let Some(cookie) = cookie {
            headers.push(("cookie", cookie));
        }
        self.send(Method::POST, path, &headers, body.to_owned()).await
    }

    /// A page, with a cookie when there is one.
    pub async fn page(&self, cookie: Option<&str>, path: &str) -> Answer {
        let mut headers = vec![("accept", "text/html")];
        if let Some(cookie) = cookie {
            headers.push(("cookie", cookie));
        }
        self.send(Method::GET, path, &headers, "").await
    }
}
