//! Who is it? Sessions: made at login, known by an opaque token, renewed by use, ended by logout.
//!
//! No request without a token asks Redis anything. While Redis cannot be asked, sessions seen lately are believed.

mod captchas;
mod guesses;
mod login_codes;
mod lookups;
mod redis_sessions;
mod token;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use tower_sessions::session::{Id, Record};
use tower_sessions::{Expiry, Session, SessionStore};

pub use captchas::Captchas;
pub use guesses::{Guessed, Guesses};
pub use login_codes::{LoginCodes, Sent};
pub use redis_sessions::{RedisSessions, hash_of};
pub use token::{CookieRules, cookie, token_in_cookie, token_in_header};

use lookups::Lookups;

use crate::clock::Clock;
use crate::domain::ids::UserId;
use crate::domain::time::Millis;
use crate::domain::user::User;
use crate::push::bus::Bus;
use crate::push::hub::Hub;
use crate::shutdown::Shutdown;

/// How long a session that was seen is believed without asking: the longest that a logout on another process may take to count
/// here when nobody tells of it.
const FRESH: Duration = Duration::from_millis(900);
/// How long a session that was seen is believed while Redis cannot be asked.
const BELIEVED: Duration = Duration::from_mins(10);
/// Sessions remembered by one process.
const REMEMBERED: usize = 200_000;
/// After a failure Redis is not asked again for this long: a crowd of requests must not each wait for the same silence.
const PAUSE: Duration = Duration::from_millis(250);
/// The shortest time between two renewals of one session (shorter only when sessions themselves are short).
const RENEWAL: Duration = Duration::from_mins(1);

/// Redis could not be asked.
#[derive(Debug, thiserror::Error)]
#[error("sessions cannot be asked: {0}")]
pub struct SessionsAway(String);

impl From<tower_sessions::session_store::Error> for SessionsAway {
    fn from(error: tower_sessions::session_store::Error) -> Self {
        Self(error.to_string())
    }
}

impl From<tower_sessions::session::Error> for SessionsAway {
    fn from(error: tower_sessions::session::Error) -> Self {
        Self(error.to_string())
    }
}

/// What a session holds: the value of its key, as JSON.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Body {
    user_id: UserId,
    nick_name: String,
    admin: bool,
    created_at: i64,
    /// The last renewal; behind the last use by up to [`RENEWAL`].
    seen_at: i64,
}

impl Body {
    fn of(user: &User, now: Millis) -> Self {
        Self { user_id: user.id, nick_name: user.nick_name.clone(), admin: user.admin, created_at: now.0, seen_at: now.0 }
    }

    fn data(&self) -> HashMap<String, serde_json::Value> {
        match serde_json::to_value(self) {
            Ok(serde_json::Value::Object(map)) => map.into_iter().collect(),
            _ => HashMap::new(),
        }
    }
}

/// A user with a living session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionUser {
    /// Who.
    pub id: UserId,
    /// The name to show.
    pub nick_name: String,
    /// May use the control room.
    pub admin: bool,
    /// The session's name: the hash of its token.
    pub session: Arc<str>,
}

/// What a token means.
#[derive(Debug, Clone)]
pub enum Known {
    /// A living session.
    Yes(Arc<SessionUser>),
    /// No such session, or no longer.
    No,
    /// Redis cannot be asked, and this process has not seen the token lately.
    CannotTell,
}

/// One session as this process saw it last.
#[derive(Debug)]
struct Seen {
    user: Arc<SessionUser>,
    body: Body,
    /// When Redis last confirmed it.
    confirmed_at: AtomicI64,
    /// When this process last renewed it, or began to.
    renewed_at: AtomicI64,
}

impl Seen {
    fn new(hash: &str, body: Body, now: Millis) -> Self {
        let user = SessionUser { id: body.user_id, nick_name: body.nick_name.clone(), admin: body.admin, session: hash.into() };
        let renewed_at = AtomicI64::new(body.seen_at);
        Self { user: Arc::new(user), body, confirmed_at: AtomicI64::new(now.0), renewed_at }
    }
}

/// Limits of a session's life.
#[derive(Debug, Clone, Copy)]
pub struct Life {
    /// It ends when it was not used for this long.
    pub idle: Duration,
    /// It ends this long after the login.
    pub max: Duration,
}

/// All sessions; cheap to clone.
#[derive(Debug, Clone)]
pub struct Sessions {
    store: Arc<RedisSessions>,
    lookups: Lookups,
    /// By the hash of the token.
    seen: Arc<quick_cache::sync::Cache<Arc<str>, Arc<Seen>>>,
    away_until: Arc<AtomicI64>,
    life: Life,
    clock: Clock,
    bus: Bus,
    shutdown: Shutdown,
}

impl Sessions {
    /// Sessions over `store`. Ends of sessions are told to `bus`, and heard from `hub`.
    #[must_use]
    pub fn new(store: RedisSessions, life: Life, clock: Clock, hub: &Hub, bus: Bus, shutdown: &Shutdown) -> Self {
        let seen = Arc::new(quick_cache::sync::Cache::new(REMEMBERED));
        let store = Arc::new(store);
        let lookups = Lookups::new(store.clone(), shutdown.clone());
        let shutdown_too = shutdown.clone();
        let sessions = Self { store, lookups, seen, away_until: Arc::default(), life, clock, bus, shutdown: shutdown_too };
        let (mut ended, listener, until) = (hub.ended_sessions(), sessions.clone(), shutdown.clone());
        shutdown.spawn_loop("ended sessions", async move {
            use tokio::sync::broadcast::error::RecvError;
            loop {
                let heard = tokio::select! { heard = ended.recv() => heard, () = until.begun() => return };
                match heard {
                    // Ended on another process: not to be believed here when Redis goes away next.
                    Ok(hash) => listener.forget(&[hash]),
                    Err(RecvError::Lagged(_)) => listener.seen.clear(),
                    Err(RecvError::Closed) => return,
                }
            }
        });
        sessions
    }

    fn record(&self, body: &Body, id: Id) -> Record {
        Record { id, data: body.data(), expiry_date: instant(self.last_instant(body)) }
    }

    /// The first instant at which the session is over.
    fn last_instant(&self, body: &Body) -> Millis {
        (Millis(body.seen_at) + self.life.idle).min(Millis(body.created_at) + self.life.max)
    }

    /// Makes a session for a user who has just shown who he is; `old`: the tokens that the request came with,
    /// dead afterwards. The token is returned once and kept nowhere.
    pub async fn create(&self, user: &User, old: &[&str]) -> Result<(String, Arc<SessionUser>), SessionsAway> {
        for token in old {
            self.end_token(token).await?;
        }
        let now = self.clock.now();
        let body = Body::of(user, now);
        let until = Expiry::AtDateTime(instant(self.last_instant(&body)));
        let session = Session::new(None, self.store.clone(), Some(until));
        for (key, value) in body.data() {
            session.insert_value(&key, value).await?;
        }
        session.save().await?;
        let Some(id) = session.id() else { return Err(SessionsAway(String::from("no id was given"))) };
        let hash = hash_of(&id);
        if let Err(error) = self.store.list(user.id, &hash, now + self.life.max, now).await {
            // A session that cannot be found again could not be ended with the others.
            session.flush().await?;
            return Err(error.into());
        }
        let seen = self.confirm(&hash, body, now);
        Ok((id.to_string(), seen.user.clone()))
    }

    /// Makes one session for each user, without looking at old ones (load tests). Tokens in the order of `users`.
    pub async fn seed(&self, users: &[User]) -> Result<Vec<String>, SessionsAway> {
        let now = self.clock.now();
        let mut tokens = Vec::with_capacity(users.len());
        for chunk in users.chunks(1000) {
            let records: Vec<_> = chunk
                .iter()
                .map(|user| (user.id, self.record(&Body::of(user, now), Id::default()), now + self.life.max))
                .collect();
            self.store.create_many(&records).await?;
            tokens.extend(records.iter().map(|(_, record, _)| record.id.to_string()));
        }
        Ok(tokens)
    }

    /// What `token` means now: from memory when it was read within the last second, else by a read of Redis that concurrent
    /// calls share. A living session is renewed in the background when it is time.
    pub async fn load(&self, token: &str) -> Known {
        let Ok(id) = token.parse::<Id>() else { return Known::No };
        let (hash, now) = (hash_of(&id), self.clock.now());
        if now.0 < self.away_until.load(Ordering::Relaxed) {
            return self.recall(&hash, now);
        }
        if let Some(seen) = self.fresh(&hash, now) {
            self.renew(id, &seen, now);
            return Known::Yes(seen.user.clone());
        }
        match self.lookups.load(hash.clone()).await {
            Ok(body) => {
                let Some(body) = body.filter(|b| now < self.last_instant(b)) else {
                    self.seen.remove(hash.as_str());
                    return Known::No;
                };
                let seen = self.confirm(&hash, body, now);
                self.renew(id, &seen, now);
                Known::Yes(seen.user.clone())
            }
            Err(error) => {
                tracing::debug!(%error, "a session could not be asked for");
                // From now, not from before the wait.
                self.away_until.store((self.clock.now() + PAUSE).0, Ordering::Relaxed);
                self.recall(&hash, now)
            }
        }
    }

    fn fresh(&self, hash: &str, now: Millis) -> Option<Arc<Seen>> {
        let seen = self.seen.get(hash)?;
        let confirmed = Millis(seen.confirmed_at.load(Ordering::Relaxed));
        (confirmed <= now && confirmed.until(now) <= FRESH && now < self.last_instant(&seen.body)).then_some(seen)
    }

    fn recall(&self, hash: &str, now: Millis) -> Known {
        match self.seen.get(hash) {
            Some(seen)
                if Millis(seen.confirmed_at.load(Ordering::Relaxed)).until(now) <= BELIEVED
                    && now < self.last_instant(&seen.body) =>
            {
                Known::Yes(seen.user.clone())
            }
            _ => Known::CannotTell,
        }
    }

    fn confirm(&self, hash: &str, body: Body, now: Millis) -> Arc<Seen> {
        if let Some(seen) = self.seen.get(hash)
            && seen.body == body
        {
            seen.confirmed_at.store(now.0, Ordering::Relaxed);
            return seen;
        }
        let seen = Arc::new(Seen::new(hash, body, now));
        self.seen.insert(seen.user.session.clone(), seen.clone());
        seen
    }

    fn renew(&self, id: Id, seen: &Seen, now: Millis) {
        // A quarter of a short life: somebody who keeps clicking must not be thrown out between two renewals.
        let every = RENEWAL.min(self.life.idle / 4);
        let last = seen.renewed_at.load(Ordering::Relaxed);
        let due = now >= Millis(last) + every;
        if !due || seen.renewed_at.compare_exchange(last, now.0, Ordering::Relaxed, Ordering::Relaxed).is_err() {
            return;
        }
        let body = Body { seen_at: now.0, ..seen.body.clone() };
        let (record, store) = (self.record(&body, id), self.store.clone());
        self.shutdown.spawn(async move {
            if let Err(error) = store.save(&record).await {
                tracing::debug!(%error, "a session was not renewed");
            }
        });
    }

    /// The last instant of each of these sessions as it stands now; none: it is over. Asks without renewing (an open
    /// socket is no use).
    pub async fn last_instants(&self, sessions: &[String]) -> Result<Vec<Option<Millis>>, SessionsAway> {
        let now = self.clock.now();
        let bodies = self.store.load_bodies(sessions).await?;
        let last = |body: Option<Body>| body.map(|body| self.last_instant(&body));
        Ok(bodies.into_iter().map(|body| last(body).filter(|last| now < *last)).collect())
    }

    async fn end_token(&self, token: &str) -> Result<(), SessionsAway> {
        let Ok(id) = token.parse::<Id>() else { return Ok(()) };
        let hash = hash_of(&id);
        Session::new(Some(id), self.store.clone(), None).flush().await?;
        self.forget(std::slice::from_ref(&hash));
        self.bus.end_sessions(vec![hash]);
        Ok(())
    }

    /// Ends one session and closes its sockets everywhere.
    pub async fn end(&self, user: &SessionUser) -> Result<(), SessionsAway> {
        self.end_hashes(user.id, vec![user.session.to_string()]).await
    }

    /// Ends every session of a user, but for the one named `except`.
    pub async fn end_all(&self, user: UserId, except: Option<&str>) -> Result<(), SessionsAway> {
        let mut hashes = self.store.listed(user).await?;
        hashes.retain(|hash| Some(hash.as_str()) != except);
        self.end_hashes(user, hashes).await
    }

    async fn end_hashes(&self, user: UserId, hashes: Vec<String>) -> Result<(), SessionsAway> {
        self.store.delete_hashes(user, &hashes).await?;
        self.forget(&hashes);
        if !hashes.is_empty() {
            self.bus.end_sessions(hashes);
        }
        Ok(())
    }

    fn forget(&self, hashes: &[String]) {
        for hash in hashes {
            self.seen.remove(hash.as_str());
        }
    }
}

fn instant(at: Millis) -> OffsetDateTime {
    OffsetDateTime::from_unix_timestamp_nanos(i128::from(at.0) * 1_000_000).unwrap_or(OffsetDateTime::UNIX_EPOCH)
}
