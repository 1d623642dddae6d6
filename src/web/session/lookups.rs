//! Questions for single sessions, made into few reads of Redis: what is asked while a read is under way goes with the next one.
//!
//! The same shape as the batcher in front of the gate: an idle reader asks at once, a crowd shares a round trip.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;
use tower_sessions::session_store::Error;

use super::Body;
use super::redis_sessions::RedisSessions;
use crate::shutdown::Shutdown;

/// Sessions asked for in one read.
const MOST_AT_ONCE: usize = 256;
/// Questions that may wait; more is a Redis that does not answer.
const ROOM: usize = 16_384;

type Answer = Result<Option<Body>, Error>;

struct Question {
    hash: String,
    answer: oneshot::Sender<Answer>,
}

#[derive(Default)]
struct Queue {
    waiting: Vec<Question>,
    /// A task is reading.
    running: bool,
}

/// The questions of this process; cheap to clone.
#[derive(Clone)]
pub(super) struct Lookups(Arc<Parts>);

struct Parts {
    store: Arc<RedisSessions>,
    queue: Mutex<Queue>,
    shutdown: Shutdown,
}

impl std::fmt::Debug for Lookups {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Lookups")
    }
}

impl Parts {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        // Nothing that holds the lock can leave it half done.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next questions. None: idle now, and the caller's task must end.
    fn next(&self) -> Option<Vec<Question>> {
        let mut queue = self.queue();
        let some = queue.waiting.len().min(MOST_AT_ONCE);
        queue.running = some > 0;
        queue.running.then(|| queue.waiting.drain(..some).collect())
    }

    async fn read(&self) {
        while let Some(questions) = self.next() {
            let (hashes, askers): (Vec<_>, Vec<_>) = questions.into_iter().map(|q| (q.hash, q.answer)).unzip();
            match self.store.load_bodies(&hashes).await {
                Ok(bodies) => {
                    for (asker, body) in askers.into_iter().zip(bodies) {
                        tell(asker, Ok(body));
                    }
                }
                Err(error) => {
                    let words = error.to_string();
                    for asker in askers {
                        tell(asker, Err(Error::Backend(words.clone())));
                    }
                }
            }
        }
    }
}

fn tell(asker: oneshot::Sender<Answer>, answer: Answer) {
    let _gone_meanwhile = asker.send(answer);
}

impl Lookups {
    pub(super) fn new(store: Arc<RedisSessions>, shutdown: Shutdown) -> Self {
        Self(Arc::new(Parts { store, queue: Mutex::default(), shutdown }))
    }

    /// What the session of this hash holds; none: there is no such session.
    pub(super) async fn load(&self, hash: String) -> Answer {
        let (answer, told) = oneshot::channel();
        {
            let mut queue = self.0.queue();
            if queue.waiting.len() >= ROOM {
                return Err(Error::Backend(String::from("too many wait for an answer")));
            }
            queue.waiting.push(Question { hash, answer });
            if !queue.running {
                queue.running = true;
                let parts = Arc::clone(&self.0);
                self.0.shutdown.spawn(async move { parts.read().await });
            }
        }
        told.await.unwrap_or_else(|_| Err(Error::Backend(String::from("the reader went away"))))
    }
}
