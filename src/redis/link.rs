//! A bare, blocking connection to the managed server's socket: enough to ask whether it lives and to tell it to end.
//!
//! The watch thread uses it, so that its judgement depends neither on the runtime nor on a connection that others fill.

use std::io::{Error, ErrorKind, Read, Result, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// How long one look waits for an answer.
const PATIENCE: Duration = Duration::from_secs(1);

/// What a look at the server found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pulse {
    /// It answers.
    Alive,
    /// It answers that it is still reading its log.
    Loading,
    /// No answer yet; the question stands.
    Silent,
}

/// One connection, one question at a time.
pub(super) struct Link {
    stream: UnixStream,
    /// A question was sent and not answered. No second one is sent then: a hung server's buffers must not fill.
    asked: bool,
    line: Vec<u8>,
}

impl Link {
    /// Connects; reads and writes give up after a second.
    pub(super) fn connect(socket: &Path) -> Result<Self> {
        let stream = UnixStream::connect(socket)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        Ok(Self { stream, asked: false, line: Vec::new() })
    }

    /// Asks for a sign of life, or waits on for the answer to the last question. An error: the connection is broken.
    pub(super) fn pulse(&mut self) -> Result<Pulse> {
        if !self.asked {
            self.stream.write_all(b"PING\r\n")?;
            self.asked = true;
        }
        let mut chunk = [0; 256];
        loop {
            match self.stream.read(&mut chunk) {
                Ok(0) => return Err(Error::from(ErrorKind::UnexpectedEof)),
                Ok(n) => self.line.extend_from_slice(&chunk[..n]),
                Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted) => {
                    return Ok(Pulse::Silent);
                }
                Err(e) => return Err(e),
            }
            if self.line.ends_with(b"\r\n") {
                let loading = self.line.starts_with(b"-LOADING");
                self.line.clear();
                self.asked = false;
                return Ok(if loading { Pulse::Loading } else { Pulse::Alive });
            }
        }
    }

    /// Tells the server to write what it holds and end. Nothing is answered when it does.
    pub(super) fn shutdown(&mut self) -> Result<()> {
        self.stream.write_all(b"SHUTDOWN\r\n")
    }
}
