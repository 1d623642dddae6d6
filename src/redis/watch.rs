//! The thread that starts the managed server, looks at it every second and starts it again when it died or hangs.
//!
//! A thread of its own for the whole life of the server: the kernel ends the child together with the thread that made it.

use std::process::Child;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use rand::RngExt;
use tokio::sync::oneshot;

use super::RedisError;
use super::child::{END_PATIENCE, Spot};
use super::link::{Link, Pulse};

/// How often the server is looked at.
const LOOK: Duration = Duration::from_secs(1);
/// A server that gives no answer for this long is killed and started again.
const HUNG: Duration = Duration::from_secs(30);
/// A look that comes so late says that this process itself was stopped, not the server.
const OVERSLEPT: Duration = Duration::from_secs(5);
/// The longest pause between two starts.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// Told once: the server answers, or why it never did.
pub(super) type Ready = oneshot::Sender<Result<(), RedisError>>;

enum End {
    Asked,
    Died(String),
}

/// Keeps the server alive until `stop` is told or dropped, then ends it. The first start must succeed; later ones are
/// tried again for ever, ever slower.
pub(super) fn run(spot: &Spot, stop: &Receiver<()>, ready: Ready) {
    let mut ready = Some(ready);
    let mut failures = 0;
    loop {
        let born = Instant::now();
        let why = match spot.spawn() {
            Err(e) => e.to_string(),
            Ok(mut child) => match live(spot, &mut child, stop, &mut ready) {
                End::Asked => return end(spot, &mut child),
                End::Died(why) => why,
            },
        };
        if let Some(ready) = ready.take() {
            let _nobody_waits = ready.send(Err(RedisError::Start(format!("{why}; it wrote: {}", spot.last_words()))));
            return;
        }
        failures = if born.elapsed() > HUNG { 0 } else { failures + 1 };
        let pause = pause_after(failures);
        tracing::error!(
            why,
            log = spot.last_words(),
            pause_ms = pause.as_millis(),
            "the managed Redis is gone, starting it again"
        );
        if !matches!(stop.recv_timeout(pause), Err(RecvTimeoutError::Timeout)) {
            return;
        }
    }
}

fn pause_after(failures: u32) -> Duration {
    let step = Duration::from_millis(100) * 2_u32.pow(failures.min(6));
    step.min(LONGEST_PAUSE).mul_f64(rand::rng().random_range(0.5..1.0))
}

fn live(spot: &Spot, child: &mut Child, stop: &Receiver<()>, ready: &mut Option<Ready>) -> End {
    let mut link = None;
    let (mut heard, mut looked, mut answered) = (Instant::now(), Instant::now(), false);
    loop {
        if let Ok(Some(status)) = child.try_wait() {
            return End::Died(format!("the server ended by itself ({status})"));
        }
        if link.is_none() {
            link = Link::connect(&spot.socket).ok();
        }
        match link.as_mut().map(Link::pulse) {
            Some(Ok(Pulse::Alive)) => {
                (heard, answered) = (Instant::now(), true);
                if let Some(ready) = ready.take() {
                    let _nobody_waits = ready.send(Ok(()));
                }
            }
            Some(Ok(Pulse::Loading)) => heard = Instant::now(),
            Some(Err(_)) => link = None,
            Some(Ok(Pulse::Silent)) | None => {}
        }
        if looked.elapsed() > OVERSLEPT {
            heard = Instant::now();
        }
        looked = Instant::now();
        if heard.elapsed() >= HUNG || (answered && !spot.socket.exists()) {
            let _gone_already = child.kill();
            let _reaped = child.wait();
            return End::Died(String::from("the server gave no answer for too long, or its socket was removed"));
        }
        let pause = if answered { LOOK } else { Duration::from_millis(10) };
        if !matches!(stop.recv_timeout(pause), Err(RecvTimeoutError::Timeout)) {
            return End::Asked;
        }
    }
}

fn end(spot: &Spot, child: &mut Child) {
    let asked = Link::connect(&spot.socket).and_then(|mut link| link.shutdown());
    let started = Instant::now();
    while asked.is_ok() && started.elapsed() < END_PATIENCE {
        if matches!(child.try_wait(), Ok(Some(_))) {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    let _gone_already = child.kill();
    let _reaped = child.wait();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_and_stay_bounded() {
        assert!(pause_after(1) < Duration::from_millis(200));
        assert!((7..40).all(|n| pause_after(n) <= LONGEST_PAUSE && pause_after(n) >= LONGEST_PAUSE / 2));
    }
}
