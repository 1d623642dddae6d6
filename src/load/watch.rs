//! `seckill watch`: every message of the live channel, one JSON a line.

use std::io::{self, Write};
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use futures_util::{SinkExt, StreamExt};
use secrecy::{ExposeSecret, SecretString};
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;

use super::push::Socket;
use super::target::Target;
use super::{CannotRun, complain, socket};
use crate::domain::ids::VoucherId;

/// Options of `seckill watch`.
#[derive(Debug, Clone, Args)]
pub struct WatchArgs {
    /// A session's token, as login answers it
    #[arg(long, env = "SECKILL_TOKEN", value_name = "T", hide_env_values = true)]
    pub token: SecretString,
    /// A voucher whose stock and state are told too
    #[arg(long, env = "SECKILL_VOUCHER", value_name = "V")]
    pub voucher: Option<VoucherId>,
    /// The shop
    #[arg(long, env = "SECKILL_URL", default_value = "http://127.0.0.1:8080", value_name = "URL")]
    pub url: Target,
}

/// Prints messages until the channel is closed; then says the close code on stderr.
///
/// Ends with 0 when the shop said goodbye (1000, 1001) or nobody reads any more, 1 on any other end, 2 when the channel could
/// not be opened.
pub async fn run(args: WatchArgs) -> ExitCode {
    let opened = match socket::open(&args.url, args.token.expose_secret()).await {
        Ok(socket) => follow(socket, args.voucher).await,
        Err(error) => Err(error),
    };
    opened.unwrap_or_else(|CannotRun(why)| {
        complain(&why);
        ExitCode::from(2)
    })
}

async fn follow(mut socket: Socket, voucher: Option<VoucherId>) -> Result<ExitCode, CannotRun> {
    if let Some(voucher) = voucher {
        let ask = Message::text(format!(r#"{{"type":"watch","voucherId":{voucher}}}"#));
        let sent = timeout(Duration::from_secs(5), socket.send(ask)).await;
        sent.map_err(|_| CannotRun("the channel takes no message".to_owned()))?.map_err(|e| CannotRun(e.to_string()))?;
    }
    loop {
        match socket.next().await {
            Some(Ok(Message::Text(text))) => {
                // A line break inside JSON is only white space; a message stays on its line.
                let line = text.replace(['\r', '\n'], " ");
                let mut out = io::stdout().lock();
                if writeln!(out, "{line}").and_then(|()| out.flush()).is_err() {
                    return Ok(ExitCode::SUCCESS);
                }
            }
            Some(Ok(Message::Close(frame))) => {
                let (code, reason) = frame.map_or((CloseCode::Status, String::new()), |f| (f.code, f.reason.to_string()));
                complain(format!("closed {} {reason}", u16::from(code)).trim_end());
                return Ok(if matches!(code, CloseCode::Normal | CloseCode::Away) {
                    ExitCode::SUCCESS
                } else {
                    ExitCode::FAILURE
                });
            }
            Some(Ok(_)) => {}
            Some(Err(error)) => {
                complain(&format!("the channel broke: {error}"));
                return Ok(ExitCode::FAILURE);
            }
            None => return Ok(ExitCode::FAILURE),
        }
    }
}
