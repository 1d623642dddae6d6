//! The circuit breaker in front of each server's shared connection: while it gives no answer, nobody waits for it again.
//!
//! It opens when a call is refused or waits in vain while nobody else gets an answer either. Then every call fails at once,
//! as if refused: nothing was sent. One PING a second, never a caller's own call, finds out when Redis is back.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use redis::aio::ConnectionLike;
use redis::{Cmd, Pipeline, RedisError, RedisFuture, RedisResult, Value};

/// The first PING after the opening: most silences are a restart, or a short one.
const FIRST_PROBE_AFTER: Duration = Duration::from_millis(250);
/// Between the beginnings of two PINGs.
const PROBE_EVERY: Duration = Duration::from_secs(1);
/// How long a PING is waited for.
const PROBE_WITHIN: Duration = Duration::from_millis(700);
/// A call that its caller gave up after this long says the same as one that timed out.
const GIVEN_UP_AFTER: Duration = Duration::from_millis(250);

/// The state that all handles of one server share.
#[derive(Debug, Default)]
pub(super) struct Breaker {
    open: AtomicBool,
    /// Answers of any kind, errors of the server included: it lives.
    answers: AtomicU64,
}

/// A connection behind the breaker; cheap to clone.
#[derive(Clone)]
pub struct Guarded<C> {
    inner: C,
    breaker: Arc<Breaker>,
}

impl<C> Guarded<C>
where
    C: ConnectionLike + Clone + Send + Sync + 'static,
{
    pub(super) fn new(inner: C) -> Self {
        Self { inner, breaker: Arc::default() }
    }

    /// Runs one call, or refuses it while the breaker is open.
    async fn pass<T>(&mut self, call: impl AsyncFnOnce(&mut C) -> RedisResult<T>) -> RedisResult<T> {
        if self.breaker.open.load(Ordering::Acquire) {
            // A caller that tries again at once must let the PING have its turn.
            tokio::task::yield_now().await;
            let why = "Redis gives no answer; it is asked again once a second";
            return Err(io::Error::new(io::ErrorKind::ConnectionRefused, why).into());
        }
        let mut flight = Flight {
            breaker: &self.breaker,
            connection: self.inner.clone(),
            began: Instant::now(),
            answers: self.breaker.answers.load(Ordering::Acquire),
            landed: false,
        };
        let answer = call(&mut self.inner).await;
        flight.landed = true;
        match &answer {
            Err(e) if e.is_timeout() || e.is_connection_refusal() => flight.silent(e),
            // Cut off: the next call connects anew, and finds out.
            Err(e) if e.is_io_error() => {}
            _ => drop(self.breaker.answers.fetch_add(1, Ordering::AcqRel)),
        }
        answer
    }
}

/// A call under way. Dropped before it lands: its caller gave up.
struct Flight<'a, C: ConnectionLike + Clone + Send + Sync + 'static> {
    breaker: &'a Arc<Breaker>,
    connection: C,
    began: Instant,
    answers: u64,
    landed: bool,
}

impl<C: ConnectionLike + Clone + Send + Sync + 'static> Flight<'_, C> {
    fn silent(&self, why: &dyn std::fmt::Display) {
        // Somebody was answered meanwhile: slow is not silent.
        if self.breaker.answers.load(Ordering::Acquire) == self.answers && !self.breaker.open.swap(true, Ordering::AcqRel) {
            if self.answers == 0 {
                // It never answered: a command that needs it says so itself, in one sentence.
                tracing::debug!(%why, "Redis gives no answer yet");
            } else {
                tracing::warn!(%why, "Redis gives no answer; calls fail at once until it does");
            }
            metrics::counter!("seckill_redis_breaker_opened_total").increment(1);
            metrics::gauge!("seckill_redis_breaker_open").set(1.0);
            start_probing(Arc::downgrade(self.breaker), self.connection.clone());
        }
    }
}

impl<C: ConnectionLike + Clone + Send + Sync + 'static> Drop for Flight<'_, C> {
    fn drop(&mut self) {
        if !self.landed && self.began.elapsed() >= GIVEN_UP_AFTER {
            self.silent(&"a caller gave up");
        }
    }
}

/// The task ends by itself with the last handle; the end of the process need not wait for it.
fn start_probing<C: ConnectionLike + Send + 'static>(breaker: Weak<Breaker>, connection: C) {
    // A caller may be dropped together with the whole runtime.
    if let Ok(runtime) = tokio::runtime::Handle::try_current() {
        runtime.spawn(probe(breaker, connection));
    }
}

async fn probe(breaker: Weak<Breaker>, mut connection: impl ConnectionLike) {
    let opened = Instant::now();
    let mut wait = FIRST_PROBE_AFTER;
    loop {
        tokio::time::sleep(wait).await;
        let asked = Instant::now();
        let ping = redis::cmd("PING");
        let answer = tokio::time::timeout(PROBE_WITHIN, connection.req_packed_command(&ping)).await;
        let Some(breaker) = breaker.upgrade() else { return };
        if answer.is_ok_and(|answer| !answer.as_ref().is_err_and(RedisError::is_io_error)) {
            breaker.answers.fetch_add(1, Ordering::AcqRel);
            breaker.open.store(false, Ordering::Release);
            metrics::gauge!("seckill_redis_breaker_open").set(0.0);
            tracing::info!(silent_ms = opened.elapsed().as_millis(), "Redis answers again");
            return;
        }
        wait = PROBE_EVERY.saturating_sub(asked.elapsed());
    }
}

impl<C> ConnectionLike for Guarded<C>
where
    C: ConnectionLike + Clone + Send + Sync + 'static,
{
    fn req_packed_command<'a>(&'a mut self, cmd: &'a Cmd) -> RedisFuture<'a, Value> {
        Box::pin(self.pass(async move |inner: &mut C| inner.req_packed_command(cmd).await))
    }

    fn req_packed_commands<'a>(&'a mut self, pipeline: &'a Pipeline, offset: usize, count: usize) -> RedisFuture<'a, Vec<Value>> {
        Box::pin(self.pass(async move |inner: &mut C| inner.req_packed_commands(pipeline, offset, count).await))
    }

    fn get_db(&self) -> i64 {
        self.inner.get_db()
    }
}
