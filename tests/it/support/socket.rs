//! A socket as a client opens it: messages as JSON, waits bounded.

use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async};

/// How long a message may take.
const PATIENCE: Duration = Duration::from_secs(15);

/// An open socket.
pub struct Socket(WebSocketStream<MaybeTlsStream<TcpStream>>);

impl Socket {
    /// Opens `/ws` with these headers; the status of the refusal when there is no upgrade.
    pub async fn open(base: &str, headers: &[(&'static str, &str)]) -> Result<Self, u16> {
        let mut request = format!("{}/ws", base.replacen("http", "ws", 1)).into_client_request().unwrap();
        for (name, value) in headers {
            request.headers_mut().insert(*name, value.parse().unwrap());
        }
        match connect_async(request).await {
            Ok((socket, _)) => Ok(Self(socket)),
            Err(Error::Http(answer)) => Err(answer.status().as_u16()),
            Err(error) => panic!("no socket: {error}"),
        }
    }

    /// Opens `/ws` with a token and takes the snapshot that comes first.
    pub async fn of(base: &str, token: &str) -> (Self, Value) {
        let mut socket = Self::open(base, &[("authorization", token)]).await.unwrap();
        let snapshot = socket.next().await.unwrap();
        assert_eq!(snapshot["type"], "snapshot", "{snapshot}");
        (socket, snapshot)
    }

    /// The next message; the close code when the socket is closed.
    pub async fn next(&mut self) -> Result<Value, u16> {
        loop {
            let message = tokio::time::timeout(PATIENCE, self.0.next()).await.expect("no message in time");
            match message {
                Some(Ok(Message::Text(text))) => return Ok(serde_json::from_str(&text).unwrap()),
                Some(Ok(Message::Close(frame))) => return Err(frame.map_or(1005, |f| f.code.into())),
                Some(Ok(_)) => {}
                Some(Err(_)) | None => return Err(1006),
            }
        }
    }

    /// Opens `/ws` with a token; none when there is nobody to connect to, or no upgrade.
    pub async fn try_open(base: &str, token: &str) -> Option<Self> {
        let mut request = format!("{}/ws", base.replacen("http", "ws", 1)).into_client_request().unwrap();
        request.headers_mut().insert("authorization", token.parse().unwrap());
        connect_async(request).await.ok().map(|(socket, _)| Self(socket))
    }

    /// The next message, however long it takes; none when the connection is over.
    pub async fn next_ever(&mut self) -> Option<Value> {
        loop {
            match self.0.next().await? {
                Ok(Message::Text(text)) => return Some(serde_json::from_str(&text).unwrap()),
                Ok(Message::Close(_)) | Err(_) => return None,
                Ok(_) => {}
            }
        }
    }

    /// The next message of this type; others are passed over.
    pub async fn wait_for(&mut self, kind: &str) -> Value {
        loop {
            let message = self.next().await.unwrap_or_else(|code| panic!("closed {code} while waiting for {kind}"));
            if message["type"] == kind {
                return message;
            }
        }
    }

    /// Whether nothing of this type comes within `time`.
    pub async fn hears_no(&mut self, kind: &str, time: Duration) -> bool {
        let heard = async {
            loop {
                match self.next().await {
                    Ok(message) if message["type"] == kind => return,
                    Ok(_) => {}
                    Err(_) => std::future::pending().await,
                }
            }
        };
        tokio::time::timeout(time, heard).await.is_err()
    }

    /// Sends a text; an error when the socket is closed already.
    pub async fn try_send(&mut self, text: &str) -> Result<(), Error> {
        self.0.send(Message::Text(text.into())).await
    }

    /// Sends a text.
    pub async fn send(&mut self, text: &str) {
        self.0.send(Message::Text(text.into())).await.unwrap();
    }
}

/// A connection that has asked for the upgrade and then reads nothing, with hardly any room for what is sent to it.
pub struct Raw(TcpStream);

impl Raw {
    /// Opens `/ws` with a token and reads the answer's head, and no more.
    pub async fn open(base: &str, token: &str) -> Self {
        let address = base.trim_start_matches("http://");
        let socket = tokio::net::TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(4_096).unwrap();
        let mut stream = socket.connect(address.parse().unwrap()).await.unwrap();
        let head = format!(
            "GET /ws HTTP/1.1\r\nHost: {address}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
             Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nauthorization: {token}\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        while !answer.ends_with(b"\r\n\r\n") {
            answer.push(stream.read_u8().await.unwrap());
        }
        assert!(answer.starts_with(b"HTTP/1.1 101 "), "{}", String::from_utf8_lossy(&answer));
        Self(stream)
    }

    /// Reads whatever is there; the code of the close frame that comes last, none when the connection was cut.
    pub async fn read_to_close_code(&mut self) -> Option<u16> {
        loop {
            let kind = self.0.read_u8().await.ok()?;
            let length = match self.0.read_u8().await.ok()? {
                126 => usize::from(self.0.read_u16().await.ok()?),
                short => usize::from(short),
            };
            let mut body = vec![0; length];
            self.0.read_exact(&mut body).await.ok()?;
            if kind & 0x0f == 8 {
                return Some(u16::from_be_bytes([body[0], body[1]]));
            }
        }
    }
}
