//! Clicks on a sale while a crowd logs in: what the hashing of passwords takes away from purchases.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use seckill::load::client::Client;
use seckill::load::target::Target;
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::load::Burst;
use crate::report::{Goal, Report, Row};
use crate::resident::resident_mb;
use crate::say;
use crate::settings::Settings;
use crate::shop::Shop;

/// Between the answer to a login and the next try, when the answer does not say how long.
const PAUSE: Duration = Duration::from_secs(1);
/// Connections of the buyers: enough that none waits for another at this rate.
const CONNECTIONS: usize = 64;

/// What a login sends: a wrong password, which is checked, or one longer than any can be, which is refused without a check. The
/// second tells what the calls alone cost.
fn password(checked: bool) -> String {
    if checked { String::from("falsches pferd") } else { "falsches pferd".repeat(40) }
}

/// What the crowd sends, and what it heard.
#[derive(Debug, Default)]
struct Crowd {
    password: String,
    over: AtomicBool,
    answered: AtomicU64,
    refused: AtomicU64,
}

/// One connection of the crowd: logs in, hears its answer, tries again when it may, until the crowd is over.
async fn log_in_again_and_again(target: Target, nth: usize, of: usize, crowd: Arc<Crowd>) -> anyhow::Result<()> {
    let mut client = Client::new(target.clone());
    client.connect().await?;
    // An address of its own: it is the limit for all logins together that counts, and the queue for the hashes.
    let (host, from) = (&target.authority, format!("203.0.{}.{}", 113 + nth / 250, nth % 250 + 1));
    let mut phone = nth;
    while !crowd.over.load(Ordering::Relaxed) {
        let body = serde_json::json!({"phone": format!("137{:08}", phone % 100_000_000), "password": crowd.password}).to_string();
        let request = format!(
            "POST /api/user/login HTTP/1.1\r\nhost: {host}\r\nx-forwarded-for: {from}\r\ncontent-type: application/json\r\n\
             content-length: {}\r\n\r\n{body}",
            body.len()
        );
        let answer = client.ask(request.as_bytes()).await?;
        let count = if answer.status == 200 { &crowd.answered } else { &crowd.refused };
        count.fetch_add(1, Ordering::Relaxed);
        phone += of;
        let pause = answer.retry_after.map_or(PAUSE, Duration::from_secs);
        sleep(pause.mul_f64(rand::random_range(0.9..1.1))).await;
    }
    Ok(())
}

/// What was seen while `burst` clicked beside a crowd.
struct Beside {
    p99_ms: f64,
    resident_mb: f64,
    heard: String,
}

/// The crowd while `burst` clicks on the server with this process id.
async fn beside(settings: &Settings, burst: &Burst<'_>, server: u32, checked: bool) -> anyhow::Result<Beside> {
    let (crowd, mut tasks) = (Arc::new(Crowd { password: password(checked), ..Crowd::default() }), JoinSet::new());
    for nth in 0..settings.logins {
        tasks.spawn(log_in_again_and_again(burst.target.clone(), nth, settings.logins, crowd.clone()));
    }
    // They have all begun.
    sleep(PAUSE).await;
    let p99_ms = burst.run().await?.p99_ms;
    // While they still log in: afterwards the memory of the checks is given back.
    let resident_mb = resident_mb(server)?;
    crowd.over.store(true, Ordering::Relaxed);
    // Whoever waits for its turn is not waited for.
    while let Some(done) = tasks.try_join_next() {
        done??;
    }
    tasks.shutdown().await;
    let heard = |count: &AtomicU64| count.load(Ordering::Relaxed);
    let heard = format!("{} answered, {} told to wait", heard(&crowd.answered), heard(&crowd.refused));
    Ok(Beside { p99_ms, resident_mb, heard })
}

/// Measures clicks alone, beside a crowd whose passwords are not checked, and beside one whose passwords are, in turn.
pub async fn measure(settings: &Settings, report: &mut Report) -> anyhow::Result<()> {
    let mut shop = Shop::new(None, settings.beside_clicks).await?;
    shop.serve(&["--trusted-proxies", "127.0.0.1/32"]).await?;
    let (target, server) = (shop.target()?, shop.process()?);
    let (mut alone, mut unchecked, mut checked, mut memory) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for run in 1..=settings.runs {
        for crowd in [None, Some(false), Some(true)] {
            let burst = Burst {
                target: &target,
                voucher: shop.sale(settings.units).await?,
                buyers: &shop.buyers,
                connections: CONNECTIONS,
                rate: Some(settings.beside_rate),
            };
            let Some(check) = crowd else {
                alone.push(burst.run().await?.p99_ms);
                continue;
            };
            let seen = beside(settings, &burst, server, check).await?;
            let what = if check { "who log in" } else { "whose passwords are not checked" };
            say(&format!(
                "logins {run}: p99 {:.2} ms alone, {:.2} ms beside those {what} ({}), {:.1} MB",
                alone[run - 1],
                seen.p99_ms,
                seen.heard,
                seen.resident_mb
            ));
            if check {
                checked.push(seen.p99_ms);
                memory.push(seen.resident_mb);
            } else {
                unchecked.push(seen.p99_ms);
            }
        }
    }
    let figure = format!("purchase p99, {} a second, beside {} who log in", settings.beside_rate, settings.logins);
    report.row(Row::ratio(&figure, "ms", checked.clone(), "nobody logs in", alone, Goal::at_most(1.2, 1.05)));
    report.row(Row::ratio(&figure, "ms", checked, "as many logins that check no password", unchecked, Goal::none()));
    report.row(Row::alone("resident memory beside them", "MB", memory, Goal::none()));
    report.audited(&mut shop).await
}
