//! `/ws`: one task for each socket. It writes what the hub hands it and reads very little.
//!
//! Order matters: listen first, then read the snapshot, then send. The other way round an order could fall between.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::FromRequestParts;
use axum::extract::ws::{CloseFrame, Message, WebSocket, WebSocketUpgrade};
use axum::extract::{Request, State};
use axum::http::header::{HOST, ORIGIN};
use axum::http::{HeaderMap, Uri};
use axum::response::Response;
use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt, StreamExt};
use serde::Deserialize;
use tokio::time::Instant;
use tokio_tungstenite::tungstenite;

use crate::config::PublicUrl;
use crate::domain::ids::VoucherId;
use crate::push::hub::{Closing, Socket, ToSocket};
use crate::push::order_json::{malformed_message, snapshot_message};
use crate::web::desk_feed::{self, DeskFeed};
use crate::web::error::Problem;
use crate::web::extract::{chrome, is_admin_now};
use crate::web::identify::Visitor;
use crate::web::page::Chrome;
use crate::web::session::{Known, SessionUser};
use crate::web::state::AppState;

const MAX_MESSAGE: usize = 4 * 1024;
/// Bytes that may wait in one socket; a snapshot of fifty orders fits many times.
const MAX_UNSENT: usize = 256 * 1024;
const MESSAGES_A_MINUTE: usize = 60;
/// Pings and pongs, which browsers send only in answer to ours.
const CONTROLS_A_MINUTE: usize = 240;
const BAD_MESSAGES: u32 = 10;
const AUTH_WITHIN: Duration = Duration::from_secs(5);
const PING: Duration = Duration::from_secs(20);
/// How long one write may take before the reader counts as gone.
const WRITE: Duration = Duration::from_secs(10);
/// After the bus was away, snapshots are read within this time, not all at once.
const RESYNC_SPREAD_MS: u64 = 2000;

const GOING_AWAY: u16 = 1001;
const PROTOCOL: u16 = 1002;
const NOT_TEXT: u16 = 1007;
const POLICY: u16 = 1008;
const TOO_BIG: u16 = 1009;

/// What a client may say.
#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase", deny_unknown_fields)]
pub enum FromClient {
    /// Who it is, when the upgrade did not say so.
    Auth {
        /// The bearer token.
        token: String,
    },
    /// A visitor's wish to hear of a sale.
    Watch {
        /// Of which voucher.
        voucher_id: VoucherId,
    },
    /// Everything once more, please.
    Sync {},
    /// A page of the control room, of one voucher or of all: for admins.
    Desk {
        /// The one voucher.
        voucher_id: Option<VoucherId>,
    },
}

impl FromClient {
    /// Reads a text message; none when it is not one of these, whole and without more.
    #[must_use]
    pub fn read(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }
}

/// Whether a page of `origin` may open a socket here: its own host (as the request names it) or the public address.
/// No `Origin` at all is no browser.
fn origin_fits(headers: &HeaderMap, uri: &Uri, public_url: &PublicUrl) -> bool {
    let Some(origin) = headers.get(ORIGIN) else { return true };
    let Ok(origin) = origin.to_str() else { return false };
    let host = uri.authority().map(axum::http::uri::Authority::as_str);
    let host = host.or_else(|| headers.get(HOST).and_then(|h| h.to_str().ok()));
    let named = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
    origin == public_url.0 || (named.is_some() && named == host)
}

/// Checks the origin, then upgrades.
pub async fn upgrade(State(state): State<AppState>, request: Request) -> Result<Response, Problem> {
    let (mut parts, _) = request.into_parts();
    if !origin_fits(&parts.headers, &parts.uri, &state.public_url) {
        return Err(Problem::Forbidden);
    }
    if state.shutdown.has_begun() {
        return Err(Problem::Busy(String::from("shutting down")));
    }
    let visitor = parts.extensions.get::<Visitor>().cloned().unwrap_or(Visitor::Nobody);
    let chrome = chrome(&parts, &state);
    let upgrade = WebSocketUpgrade::from_request_parts(&mut parts, &state).await.map_err(|_| Problem::Malformed)?;
    let upgrade = upgrade.max_message_size(MAX_MESSAGE).max_frame_size(MAX_MESSAGE);
    // The library's own 128 KiB would be taken by every idle socket.
    let upgrade = upgrade.read_buffer_size(MAX_MESSAGE).write_buffer_size(MAX_MESSAGE).max_write_buffer_size(MAX_UNSENT);
    let running = state.clone();
    Ok(upgrade.on_upgrade(move |socket| async move {
        let shutdown = running.shutdown.clone();
        // Tracked, so that the end of the process waits for the closing handshake.
        let _ = shutdown.spawn(serve(running, socket, visitor, chrome)).await;
    }))
}

/// Why the task ends: a close code for the client, or a connection that is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Close(u16),
    Gone,
}

type Step = Result<(), End>;

struct Conversation {
    state: AppState,
    sink: SplitSink<WebSocket, Message>,
    source: SplitStream<WebSocket>,
    bad: u32,
    minute: Instant,
    in_minute: usize,
    controls: usize,
    heard_at: Instant,
    /// The words and times of what a control room hears.
    chrome: Chrome,
}

async fn serve(state: AppState, socket: WebSocket, visitor: Visitor, chrome: Chrome) {
    let (sink, source) = socket.split();
    let now = Instant::now();
    let mut talk = Conversation { state, sink, source, bad: 0, minute: now, in_minute: 0, controls: 0, heard_at: now, chrome };
    let End::Close(code) = talk.run(visitor).await else { return };
    let frame = CloseFrame { code, reason: "".into() };
    let _ = tokio::time::timeout(Duration::from_secs(1), talk.sink.send(Message::Close(Some(frame)))).await;
    // Wait a moment for the other half of the handshake, or the client may see a broken connection instead of the code.
    let _ = tokio::time::timeout(Duration::from_secs(1), async { while let Some(Ok(_)) = talk.source.next().await {} }).await;
}

impl Conversation {
    async fn run(&mut self, visitor: Visitor) -> End {
        match self.introduced(visitor).await {
            Ok((socket, user)) => match self.listen(socket, user.as_deref()).await {
                Ok(()) => End::Gone,
                Err(end) => end,
            },
            Err(end) => end,
        }
    }

    /// Finds out who it is: by the headers of the upgrade, else by the first message.
    async fn introduced(&mut self, visitor: Visitor) -> Result<(Socket, Option<Arc<SessionUser>>), End> {
        let over = End::Close(Closing::SessionOver.code());
        match visitor {
            Visitor::User(user) => return Ok((self.register(&user), Some(user))),
            Visitor::Stale | Visitor::Torn => return Err(over),
            Visitor::CannotTell => return Err(End::Close(Closing::TooSlow.code())), // "reconnect": in a moment it can be told
            Visitor::Nobody => {}
        }
        let shutdown = self.state.shutdown.clone();
        let first = tokio::select! {
            first = tokio::time::timeout(AUTH_WITHIN, self.next_message()) => first.map_err(|_| over)??,
            () = shutdown.begun() => return Err(End::Close(GOING_AWAY)),
        };
        match first {
            Some(FromClient::Auth { token }) => match self.state.sessions.load(&token).await {
                Known::Yes(user) => Ok((self.register(&user), Some(user))),
                Known::No => Err(over),
                Known::CannotTell => Err(End::Close(Closing::TooSlow.code())),
            },
            Some(FromClient::Watch { voucher_id }) => {
                let socket = self.state.hub.register(None, None);
                self.watch(&socket, voucher_id).await?;
                Ok((socket, None))
            }
            Some(FromClient::Sync {} | FromClient::Desk { .. }) | None => Err(over),
        }
    }

    fn register(&self, user: &SessionUser) -> Socket {
        self.state.hub.register(Some(user.id), Some(user.session.to_string()))
    }

    async fn listen(&mut self, mut socket: Socket, user: Option<&SessionUser>) -> Step {
        let shutdown = self.state.shutdown.clone();
        let mut pings = tokio::time::interval_at(Instant::now() + PING, PING);
        pings.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut resync_at: Option<Instant> = None;
        let mut desk: Option<DeskFeed> = None;
        let mut looks = tokio::time::interval(desk_feed::EVERY);
        looks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        if let Some(user) = user {
            self.snapshot(user).await?;
        }
        loop {
            let closing = *socket.closing.borrow_and_update();
            if let Some(why) = closing {
                return Err(End::Close(why.code()));
            }
            let resync = async {
                match resync_at {
                    Some(at) => tokio::time::sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                () = shutdown.begun() => return Err(End::Close(GOING_AWAY)),
                _ = socket.closing.changed() => {}
                told = socket.messages.recv() => match told {
                    Some(ToSocket::Text(text)) => self.send_text(text.to_string(), &socket).await?,
                    Some(ToSocket::Resync) => {
                        let spread = Duration::from_millis(rand::random_range(0..RESYNC_SPREAD_MS));
                        resync_at.get_or_insert(Instant::now() + spread);
                    }
                    // Dropped by the hub: the reason is in `closing`.
                    None => return Err(End::Close((*socket.closing.borrow()).unwrap_or(Closing::TooSlow).code())),
                },
                () = resync => {
                    resync_at = None;
                    if let Some(user) = user {
                        self.snapshot(user).await?;
                    }
                }
                _ = pings.tick() => self.ping().await?,
                _ = looks.tick(), if desk.is_some() => {
                    if let Some(text) = desk_news(&mut desk, user, &self.state).await? {
                        self.send_text(text, &socket).await?;
                    }
                }
                message = self.next_message() => match message? {
                    Some(FromClient::Sync {}) => match user {
                        Some(user) => self.snapshot(user).await?,
                        None => self.malformed().await?,
                    },
                    Some(FromClient::Watch { voucher_id }) => self.watch(&socket, voucher_id).await?,
                    Some(FromClient::Desk { voucher_id }) if self.is_admin(user).await? => {
                        socket.at_desk();
                        desk = Some(DeskFeed::new(self.chrome.clone(), voucher_id, self.state.clock.now()));
                        looks.reset_immediately();
                    }
                    Some(FromClient::Desk { .. } | FromClient::Auth { .. }) | None => self.malformed().await?,
                },
            }
        }
    }

    /// The next message that counts: none when it could not be understood.
    async fn next_message(&mut self) -> Result<Option<FromClient>, End> {
        loop {
            let message = match self.source.next().await {
                Some(Ok(message)) => message,
                Some(Err(error)) => return Err(end_of(error)),
                None => return Err(End::Gone),
            };
            self.heard_at = Instant::now();
            if self.minute.elapsed() >= Duration::from_mins(1) {
                (self.minute, self.in_minute, self.controls) = (Instant::now(), 0, 0);
            }
            let text = match message {
                Message::Text(text) => text,
                Message::Binary(_) => "".into(),
                Message::Ping(_) | Message::Pong(_) => {
                    self.controls += 1;
                    if self.controls > CONTROLS_A_MINUTE {
                        return Err(End::Close(POLICY));
                    }
                    continue;
                }
                Message::Close(_) => return Err(End::Gone),
            };
            self.in_minute += 1;
            if self.in_minute > MESSAGES_A_MINUTE {
                return Err(End::Close(POLICY));
            }
            return Ok(FromClient::read(&text));
        }
    }

    async fn malformed(&mut self) -> Step {
        self.bad += 1;
        if self.bad >= BAD_MESSAGES {
            return Err(End::Close(POLICY));
        }
        let text = malformed_message(self.state.clock.now());
        self.write(Message::Text(text.into())).await
    }

    async fn write(&mut self, message: Message) -> Step {
        match tokio::time::timeout(WRITE, self.sink.send(message)).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) => Err(End::Gone),
            Err(_) => Err(End::Close(Closing::TooSlow.code())),
        }
    }

    /// Writes unless the hub closes the socket meanwhile: a reader that stands still must not hold its own end up.
    async fn send_text(&mut self, text: String, socket: &Socket) -> Step {
        let mut closing = socket.closing.clone();
        let closed = async {
            match closing.wait_for(Option::is_some).await {
                Ok(why) => why.unwrap_or(Closing::TooSlow),
                Err(_) => Closing::TooSlow,
            }
        };
        tokio::select! {
            biased;
            written = self.write(Message::Text(text.into())) => written,
            why = closed => Err(End::Close(why.code())),
        }
    }

    async fn snapshot(&mut self, user: &SessionUser) -> Step {
        let changes = self.state.hub.changes_of(user.id);
        match self.state.orders.snapshot(user.id).await {
            Ok(snapshot) => {
                let text = snapshot_message(&snapshot.orders, self.state.clock.now());
                if let Some(changes) = changes {
                    let place = |(id, position)| Some((snapshot.orders.iter().find(|o| o.id == id)?.clone(), position));
                    self.state.hub.queue(user.id, changes, snapshot.positions.iter().copied().filter_map(place).collect());
                }
                self.write(Message::Text(text.into())).await
            }
            Err(error) => {
                // Without a snapshot the client would believe that nothing is there: let it come again.
                tracing::debug!(%error, "no snapshot for a socket");
                Err(End::Close(Closing::TooSlow.code()))
            }
        }
    }

    /// Registered first, told from memory then: a change in between is in the queue and comes after.
    async fn watch(&mut self, socket: &Socket, voucher: VoucherId) -> Step {
        if voucher.0 < 1 || !socket.watch(voucher) {
            return self.malformed().await;
        }
        for text in self.state.board.messages(voucher, self.state.clock.now()).into_iter().flatten() {
            self.write(Message::Text(text.into())).await?;
        }
        Ok(())
    }

    /// Whether the control room may speak to him; while that cannot be told he is asked to come again.
    async fn is_admin(&self, user: Option<&SessionUser>) -> Result<bool, End> {
        let Some(user) = user else { return Ok(false) };
        is_admin_now(&self.state, user).await.map_err(|_| End::Close(Closing::TooSlow.code()))
    }

    async fn ping(&mut self) -> Step {
        // No answer to the ping before this one.
        if self.heard_at.elapsed() > PING * 3 / 2 {
            return Err(End::Gone);
        }
        self.write(Message::Ping(bytes::Bytes::new())).await
    }
}

/// News of the control room for `reader`; the end when he is no admin any more.
async fn desk_news(desk: &mut Option<DeskFeed>, reader: Option<&SessionUser>, state: &AppState) -> Result<Option<String>, End> {
    let (Some(desk), Some(reader)) = (desk, reader) else { return Ok(None) };
    if desk.may_go_on(state, reader).await { Ok(desk.news(state).await) } else { Err(End::Close(POLICY)) }
}

/// What a broken reading side means: the client is told where it can still be told.
fn end_of(error: axum::Error) -> End {
    match error.into_inner().downcast_ref() {
        Some(tungstenite::Error::Capacity(_)) => End::Close(TOO_BIG),
        Some(tungstenite::Error::Utf8(_)) => End::Close(NOT_TEXT),
        Some(tungstenite::Error::Protocol(tungstenite::error::ProtocolError::ResetWithoutClosingHandshake)) | None => End::Gone,
        Some(tungstenite::Error::Protocol(_)) => End::Close(PROTOCOL),
        Some(_) => End::Gone,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_pages_of_our_own_may_open_a_socket() {
        let public: PublicUrl = "https://shop.example".parse().unwrap();
        let fits = |origin: Option<&'static str>| {
            let mut headers = HeaderMap::new();
            headers.insert(HOST, "127.0.0.1:8080".parse().unwrap());
            origin.map(|o| headers.insert(ORIGIN, o.parse().unwrap()));
            origin_fits(&headers, &Uri::from_static("/ws"), &public)
        };
        assert!([None, Some("http://127.0.0.1:8080"), Some("https://shop.example")].into_iter().all(fits));
        for foreign in ["https://evil.example", "null", "http://127.0.0.1:9090", "http://127.0.0.1:8080.evil.example", ""] {
            assert!(!fits(Some(foreign)), "{foreign}");
        }
    }

    #[test]
    fn a_message_is_understood_or_it_is_not() {
        let read = |text: &str| serde_json::from_str::<FromClient>(text).ok();
        assert!(matches!(read(r#"{"type":"sync"}"#), Some(FromClient::Sync {})));
        assert!(matches!(read(r#"{"type":"watch","voucherId":10}"#), Some(FromClient::Watch { voucher_id: VoucherId(10) })));
        assert!(matches!(read(r#"{"type":"auth","token":"x"}"#), Some(FromClient::Auth { .. })));
        for bad in ["", "{}", "sync", r#"{"type":"other"}"#, r#"{"type":"watch","voucherId":"10"}"#] {
            assert!(read(bad).is_none(), "{bad}");
        }
    }
}
