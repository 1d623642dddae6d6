//! A lean HTTP/1.1 client: one keep-alive connection, one request at a time, one write and one read for most of them.
//!
//! It reads only what this shop answers (a Content-Length); it is no general client, and nothing but the load uses it.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::target::Target;

const CONNECT_LIMIT: Duration = Duration::from_secs(3);
const ANSWER_LIMIT: Duration = Duration::from_secs(10);
const MAX_HEAD: usize = 16 * 1024;
const MAX_BODY: usize = 1024 * 1024;

/// Why there was no answer. Whether the request was carried out is unknown then.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// Nobody listens, or the connection broke.
    #[error("{0}")]
    Io(#[from] std::io::Error),
    /// Not connected within 3 s, or not answered within 10 s.
    #[error("no answer in time")]
    Slow,
    /// Closed before the whole answer was there.
    #[error("the connection was closed")]
    Closed,
    /// Not an HTTP/1.1 answer with a length.
    #[error("not an answer that this client reads: {0}")]
    Unreadable(&'static str),
}

/// An answer.
#[derive(Debug, PartialEq, Eq)]
pub struct Answer {
    /// The HTTP status.
    pub status: u16,
    /// The whole seconds after which the server would like to be asked again, when it says so.
    pub retry_after: Option<u64>,
    /// The whole body.
    pub body: Vec<u8>,
}

/// A connection that is opened when it is needed and opened again after it broke.
#[derive(Debug)]
pub struct Client {
    target: Target,
    stream: Option<TcpStream>,
    buffer: Vec<u8>,
}

impl Client {
    /// A client that has not connected yet.
    #[must_use]
    pub fn new(target: Target) -> Self {
        Self { target, stream: None, buffer: Vec::with_capacity(4096) }
    }

    /// Connects unless it is connected already.
    pub async fn connect(&mut self) -> Result<(), ClientError> {
        if self.stream.is_none() {
            let stream =
                timeout(CONNECT_LIMIT, TcpStream::connect(&self.target.address)).await.map_err(|_| ClientError::Slow)??;
            stream.set_nodelay(true)?;
            self.stream = Some(stream);
        }
        Ok(())
    }

    /// Sends one whole request (head and body) and waits for its answer, for 10 s at most.
    pub async fn ask(&mut self, request: &[u8]) -> Result<Answer, ClientError> {
        self.connect().await?;
        // Taken out: whatever goes wrong below, a connection in an unknown state is never used again.
        let mut stream = self.stream.take().ok_or(ClientError::Closed)?;
        self.buffer.clear();
        let read =
            timeout(ANSWER_LIMIT, exchange(&mut stream, request, &mut self.buffer)).await.map_err(|_| ClientError::Slow)??;
        let body = self.buffer[read.body..read.body + read.length].to_vec();
        // Bytes beyond the answer belong to nobody: one request is in flight.
        if read.keep_alive && self.buffer.len() == read.body + read.length {
            self.stream = Some(stream);
        }
        Ok(Answer { status: read.status, retry_after: read.retry_after, body })
    }
}

/// What a head says.
#[derive(Debug, PartialEq, Eq)]
struct Head {
    status: u16,
    retry_after: Option<u64>,
    body: usize,
    length: usize,
    keep_alive: bool,
}

async fn exchange(stream: &mut TcpStream, request: &[u8], buffer: &mut Vec<u8>) -> Result<Head, ClientError> {
    stream.write_all(request).await?;
    let head = loop {
        let searched = buffer.len().saturating_sub(3);
        if stream.read_buf(buffer).await? == 0 {
            return Err(ClientError::Closed);
        }
        if let Some(at) = buffer[searched..].windows(4).position(|w| w == b"\r\n\r\n") {
            break read_head(buffer, searched + at + 4)?;
        }
        if buffer.len() > MAX_HEAD {
            return Err(ClientError::Unreadable("the head is too long"));
        }
    };
    while buffer.len() < head.body + head.length {
        if stream.read_buf(buffer).await? == 0 {
            return Err(ClientError::Closed);
        }
    }
    Ok(head)
}

fn read_head(buffer: &[u8], end: usize) -> Result<Head, ClientError> {
    let text = std::str::from_utf8(&buffer[..end]).map_err(|_| ClientError::Unreadable("the head is not text"))?;
    let mut lines = text.split("\r\n");
    let status = lines.next().and_then(|line| line.strip_prefix("HTTP/1.1 ")?.get(..3)?.parse().ok());
    let status = status.ok_or(ClientError::Unreadable("no status line"))?;
    let (mut length, mut retry_after, mut keep_alive) = (None, None, true);
    for (name, value) in lines.filter_map(|line| line.split_once(':')) {
        if name.eq_ignore_ascii_case("content-length") {
            length = value.trim().parse().ok();
        } else if name.eq_ignore_ascii_case("retry-after") {
            retry_after = value.trim().parse().ok();
        } else if name.eq_ignore_ascii_case("connection") && value.trim().eq_ignore_ascii_case("close") {
            keep_alive = false;
        }
    }
    match length {
        Some(length) if length <= MAX_BODY => Ok(Head { status, retry_after, body: end, length, keep_alive }),
        Some(_) => Err(ClientError::Unreadable("the body is too long")),
        None if matches!(status, 204 | 304) => Ok(Head { status, retry_after, body: end, length: 0, keep_alive }),
        None => Err(ClientError::Unreadable("no Content-Length")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(text: &str) -> Result<Head, ClientError> {
        read_head(text.as_bytes(), text.len())
    }

    #[test]
    fn a_head_is_read_whatever_the_case_of_its_names() {
        let found = head("HTTP/1.1 200 OK\r\ncontent-LENGTH: 12\r\nConnection: Close\r\n\r\n").unwrap();
        assert_eq!((found.status, found.length, found.keep_alive, found.retry_after), (200, 12, false, None));
        assert_eq!(head("HTTP/1.1 429 -\r\nRetry-after: 7\r\nContent-Length: 0\r\n\r\n").unwrap().retry_after, Some(7));
        assert_eq!(head("HTTP/1.1 204 No Content\r\n\r\n").unwrap().length, 0);
    }

    #[test]
    fn what_this_client_cannot_read_is_refused() {
        for bad in [
            "HTTP/1.0 200 OK\r\n\r\n",
            "HTTP/1.1 200 OK\r\n\r\n",
            "\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 9999999\r\n\r\n",
        ] {
            assert!(head(bad).is_err(), "{bad:?}");
        }
    }
}
