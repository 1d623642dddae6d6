//! Sockets: tokens in an address, frames that break the protocol, wishes for what belongs to somebody else.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::support::app::TestApp;
use crate::support::socket::Socket;

#[tokio::test(flavor = "multi_thread")]
async fn a_token_in_the_address_of_a_socket_opens_nothing() {
    let app = TestApp::start().await;
    let buyer = app.buyer().await;
    for query in [
        format!("token={}", buyer.token),
        format!("authorization={}", buyer.token),
        format!("access_token=Bearer%20{}", buyer.token),
    ] {
        let (status, mut stream) = upgraded(&app, &format!("/ws?{query}"), "").await;
        assert_eq!(status, 101, "a visitor, who has five seconds to say who he is");
        assert_eq!(close_code(&mut stream).await, Some(4401), "{query}");
    }
    app.finish().await;
}

/// Opens a socket by hand: the status, and the connection after the head.
async fn upgraded(app: &TestApp, path: &str, headers: &str) -> (u16, TcpStream) {
    let address = app.base.trim_start_matches("http://");
    let mut stream = TcpStream::connect(address).await.unwrap();
    let head = format!(
        "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
         Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n{headers}\r\n"
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    while !answer.ends_with(b"\r\n\r\n") {
        answer.push(stream.read_u8().await.unwrap());
    }
    let text = String::from_utf8_lossy(&answer).into_owned();
    (text.split(' ').nth(1).unwrap().parse().unwrap(), stream)
}

/// Reads to the close frame: its code; none when the connection is cut.
async fn close_code(stream: &mut TcpStream) -> Option<u16> {
    let reading = async {
        loop {
            let kind = stream.read_u8().await.ok()?;
            let length = match stream.read_u8().await.ok()? {
                126 => usize::from(stream.read_u16().await.ok()?),
                short => usize::from(short),
            };
            let mut body = vec![0; length];
            stream.read_exact(&mut body).await.ok()?;
            if kind & 0x0f == 8 {
                return Some(u16::from_be_bytes([*body.first()?, *body.get(1)?]));
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(15), reading).await.expect("the socket stays open")
}

#[tokio::test(flavor = "multi_thread")]
async fn frames_that_break_the_protocol_end_the_socket() {
    let app = TestApp::start().await;
    let buyer = app.buyer().await;
    let masked = |first: u8, body: &[u8]| {
        let mut frame = vec![first, 0x80 | u8::try_from(body.len()).unwrap(), 0, 0, 0, 0];
        frame.extend_from_slice(body);
        frame
    };
    let huge = |length: u64| {
        let mut frame = vec![0x81, 0xff];
        frame.extend_from_slice(&length.to_be_bytes());
        frame.extend_from_slice(&[0; 4]);
        frame
    };
    for (what, bytes, expected) in [
        ("unmasked", vec![0x81, 0x02, b'{', b'}'], &[1002][..]),
        ("a reserved bit: compression that nobody agreed on", masked(0xc1, b"{}"), &[1002]),
        ("an unknown opcode", masked(0x83, b"{}"), &[1002]),
        ("text that is no UTF-8", masked(0x81, b"\xff\xfe"), &[1007]),
        ("a continuation of nothing", masked(0x80, b"{}"), &[1002]),
        ("a control frame in pieces", masked(0x09, b"a"), &[1002]),
        ("17 MiB announced", huge(17 << 20), &[1009]),
        ("70 MiB announced", huge(70 << 20), &[1009]),
        ("2^63 announced", huge(1 << 63), &[1009, 1002]),
        ("pieces that never finish", [masked(0x01, &[b'a'; 100]), masked(0x00, &[b'a'; 100]).repeat(60)].concat(), &[1009]),
    ] {
        let (status, mut stream) = upgraded(&app, "/ws", &format!("authorization: {}\r\n", buyer.token)).await;
        assert_eq!(status, 101);
        let _ = stream.write_all(&bytes).await;
        let code = close_code(&mut stream).await;
        assert!(code.is_some_and(|code| expected.contains(&code)), "{what}: {code:?}");
    }
    // No version but 13, and no upgrade without a key.
    let address = app.base.trim_start_matches("http://");
    for headers in
        ["Sec-WebSocket-Version: 12\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n", "Sec-WebSocket-Version: 13\r\n"]
    {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let head =
            format!("GET /ws HTTP/1.1\r\nHost: {address}\r\nConnection: Upgrade, close\r\nUpgrade: websocket\r\n{headers}\r\n");
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut answer = [0; 12];
        stream.read_exact(&mut answer).await.unwrap();
        assert_eq!(&answer, b"HTTP/1.1 400", "{headers}");
    }
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_hears_of_the_orders_of_another_whatever_he_asks_for() {
    let app = TestApp::start().await;
    let (voucher, buyers) = (app.sale(2).await, app.buyers(2).await);
    let (mut own, _) = Socket::of(&app.base, &buyers[0].token).await;
    let (mut other, _) = Socket::of(&app.base, &buyers[1].token).await;
    let owner = buyers[0].id;
    for wish in [
        format!("{{\"type\":\"subscribe\",\"userId\":{owner}}}"),
        format!("{{\"type\":\"watch\",\"voucherId\":{voucher},\"userId\":{owner}}}"),
        format!("{{\"type\":\"sync\",\"userId\":{owner}}}"),
        String::from("{\"type\":\"desk\",\"voucherId\":1}"),
        String::from("{\"type\":\"desk\"}"),
        format!("{{\"type\":\"auth\",\"token\":\"{}\"}}", buyers[0].token),
    ] {
        other.send(&wish).await;
        assert_eq!(other.next().await.unwrap()["code"], "MALFORMED", "{wish}");
    }
    other.send(&format!("{{\"type\":\"watch\",\"voucherId\":{voucher}}}")).await;
    let order = app.admitted(&app.buy(&buyers[0], voucher).await);
    assert_eq!(own.wait_for("order.created").await["order"]["id"], order.to_string());
    assert!(other.hears_no("order.created", Duration::from_millis(300)).await);
    other.send("{\"type\":\"sync\"}").await;
    assert_eq!(other.wait_for("snapshot").await["orders"], serde_json::json!([]));
    app.finish().await;
}
