//! How bad input goes over the wire: requests with any bytes in their headers, heads that no client library would send,
//! messages and frames of a socket.

use http::Method;
use rand::SeedableRng;
use rand::rngs::StdRng;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::cases::Case;
use super::words::Words;
use super::{figure, open, seed, wanted};
use crate::support::http::{Answer, Http};
use crate::support::socket::Socket;

/// Sends a case as it is. The shop closes a connection whose body it did not read, and a pool may just then put the next
/// request on it: that one is sent again on a connection of its own, once, and counted in `again`.
pub async fn send(http: &Http, base: &str, case: &Case, again: &AtomicUsize) -> Result<Answer, String> {
    let headers: Vec<(&str, http::HeaderValue)> =
        case.headers.iter().filter_map(|(name, value)| Some((*name, http::HeaderValue::from_bytes(value).ok()?))).collect();
    let path: http::Uri = case.path.parse().map_err(|e| format!("the test's own path: {e}"))?;
    let path = path.path_and_query().map_or_else(String::new, ToString::to_string);
    let first = http.try_send_raw(case.method.clone(), &path, headers.clone(), case.body.clone()).await;
    if first.as_ref().is_err_and(|error| error.contains("SendRequest")) {
        again.fetch_add(1, Ordering::Relaxed);
        return Http::new(base).try_send_raw(case.method.clone(), &path, headers, case.body.clone()).await;
    }
    first
}

/// The status of whatever comes back; none when the connection is closed without a word.
async fn raw(address: &str, bytes: &[u8]) -> Option<u16> {
    let mut stream = TcpStream::connect(address).await.unwrap();
    // The server may answer and close before all is sent.
    let _ = stream.write_all(bytes).await;
    let _ = stream.shutdown().await;
    let mut answer = Vec::new();
    let read = tokio::time::timeout(Duration::from_secs(20), stream.read_to_end(&mut answer)).await;
    assert!(read.is_ok(), "no end within 20 s for {:?}", String::from_utf8_lossy(bytes));
    if answer.is_empty() {
        return None;
    }
    let text = String::from_utf8_lossy(&answer);
    let status = text.strip_prefix("HTTP/1.1 ").or_else(|| text.strip_prefix("HTTP/1.0 ")).and_then(|t| t.get(..3)?.parse().ok());
    Some(status.unwrap_or_else(|| panic!("not HTTP: {text:?}")))
}

#[tokio::test(flavor = "multi_thread")]
async fn broken_heads_get_a_status_or_a_closed_connection() {
    let (count, seed) = (wanted() / 20, seed());
    let (app, world) = open().await;
    let address = app.base.trim_start_matches("http://").to_owned();
    let mut statuses = std::collections::BTreeMap::<Option<u16>, usize>::new();
    for n in 0..count {
        let mut w = Words::new(StdRng::seed_from_u64(seed ^ n as u64));
        let mut head = format!(
            "POST /api/voucher-order/seckill/{} HTTP/1.1\r\nHost: {address}\r\nAuthorization: nobody\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{{}}",
            world.voucher
        )
        .into_bytes();
        for _ in 0..=w.below(3) {
            let at = w.below(head.len());
            match w.below(5) {
                0 => head[at] = u8::try_from(w.below(256)).unwrap(),
                1 if head.len() > 1 => drop(head.remove(at)),
                1 => {}
                2 => head.truncate(at.max(1)),
                3 => {
                    let piece = *w.one(&[
                        "\r\n",
                        "\n",
                        "\r",
                        "\0",
                        " ",
                        "\t",
                        ":",
                        "Host: b\r\n",
                        "Content-Length: 7\r\n",
                        "Transfer-Encoding: chunked\r\n",
                        "\r\n ",
                        "HTTP/9.9",
                        "%00",
                    ]);
                    head.splice(at..at, piece.bytes());
                }
                _ => {
                    let bytes = w.bytes(50);
                    head.splice(at..at, bytes);
                }
            }
        }
        let status = raw(&address, &head).await;
        // Nobody bought: whatever was understood was not a click of somebody who is known.
        assert!(
            status.is_none_or(|s| (200..500).contains(&s) || matches!(s, 501 | 503 | 505)),
            "case {n} of seed {seed}: {status:?} {:?}",
            String::from_utf8_lossy(&head)
        );
        *statuses.entry(status).or_default() += 1;
    }
    figure(&format!("broken heads: {count}, seed {seed}: {statuses:?}"));
    assert!(count >= super::FLOOR / 20 && statuses.len() > 2, "{statuses:?}");
    assert_eq!(app.http.send(Method::GET, "/healthz", &[], "").await.status, 200);
    app.finish().await;
}

/// A message that a client might send, mostly wrong.
fn message(w: &mut Words) -> String {
    let text = serde_json::to_string(&w.text()).unwrap();
    match w.below(6) {
        0 => w.text(),
        1 => String::from_utf8_lossy(&w.no_json()).into_owned(),
        2 => format!("{{\"type\":{text}}}"),
        3 => format!("{{\"type\":\"{}\",\"voucherId\":{}}}", w.one(&["watch", "desk", "subscribe", "Watch"]), w.no_number()),
        4 => format!("{{\"type\":\"auth\",\"token\":{text}}}"),
        _ => format!(
            "{{\"type\":\"{}\",\"orderId\":{text},\"userId\":1}}",
            w.one(&["sync", "watch", "order.created", "subscribe"])
        ),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_of_a_socket_are_answered_or_end_it_and_never_move_the_shop() {
    let (count, seed) = (wanted() / 10, seed());
    let (app, world) = open().await;
    let before = super::kept(&app, &world).await;
    let mut said = 0;
    let mut ends = std::collections::BTreeMap::<u16, usize>::new();
    let mut round = 0;
    while said < count {
        round += 1;
        let mut w = Words::new(StdRng::seed_from_u64(seed ^ round));
        let token = if round % 2 == 0 { &world.buyer } else { &world.stranger };
        let (mut socket, _) = Socket::of(&app.base, token).await;
        // Ten wrong ones are the end.
        for _ in 0..12 {
            let text = message(&mut w);
            said += 1;
            if socket.try_send(&text).await.is_err() {
                break;
            }
        }
        // Some of them may have been understood: these are surely not.
        for _ in 0..10 {
            let _ = socket.try_send("x").await;
        }
        let code = loop {
            match socket.next().await {
                Ok(told) => {
                    let kind = told["type"].as_str().unwrap_or_default();
                    assert!(
                        kind == "error" || kind == "snapshot" || kind.starts_with("voucher."),
                        "{told} (seed {seed}, round {round})"
                    );
                    if kind == "error" {
                        assert_eq!(told["code"], "MALFORMED");
                    }
                }
                Err(code) => break code,
            }
        };
        *ends.entry(code).or_default() += 1;
    }
    figure(&format!("socket messages: {said}, ends {ends:?}, seed {seed}"));
    assert!(said >= super::FLOOR / 10 && ends.keys().all(|code| [1006, 1008, 1009].contains(code)), "{ends:?}");
    assert!(ends.contains_key(&1008), "{ends:?}");
    assert_eq!(super::kept(&app, &world).await, before);
    app.finish().await;
}
