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

/// Between the answer to a login and the next try: what `Retry-After` says.
const PAUSE: Duration = Duration::from_secs(1);
/// Connections of the buyers: enough that none waits for another at this rate.
const CONNECTIONS: usize = 64;

/// What the crowd heard.
#[derive(Debug, Default)]
struct Crowd {
    over: AtomicBool,
    checked: AtomicU64,
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
        let body =
            serde_json::json!({"phone": format!("137{:08}", phone % 100_000_000), "password": "falsches pferd"}).to_string();
        let request = format!(
            "POST /api/user/login HTTP/1.1\r\nhost: {host}\r\nx-forwarded-for: {from}\r\ncontent-type: application/json\r\n\
             content-length: {}\r\n\r\n{body}",
            body.len()
        );
        let status = client.ask(request.as_bytes()).await?.status;
        let count = if status == 200 { &crowd.checked } else { &crowd.refused };
        count.fetch_add(1, Ordering::Relaxed);
        phone += of;
        sleep(PAUSE.mul_f64(rand::random_range(0.9..1.1))).await;
    }
    Ok(())
}

/// Measures clicks alone and beside the crowd, in turn.
pub async fn measure(settings: &Settings, report: &mut Report) -> anyhow::Result<()> {
    let mut shop = Shop::new(None, settings.beside_clicks).await?;
    shop.serve(&["--trusted-proxies", "127.0.0.1/32"]).await?;
    let target = shop.target()?;
    let (mut alone, mut beside, mut memory) = (Vec::new(), Vec::new(), Vec::new());
    for run in 1..=settings.runs {
        for crowded in [false, true] {
            let voucher = shop.sale(settings.units).await?;
            let burst = Burst {
                target: &target,
                voucher,
                buyers: &shop.buyers,
                connections: CONNECTIONS,
                rate: Some(settings.beside_rate),
            };
            if !crowded {
                alone.push(burst.run().await?.p99_ms);
                continue;
            }
            let (crowd, mut tasks) = (Arc::new(Crowd::default()), JoinSet::new());
            for nth in 0..settings.logins {
                tasks.spawn(log_in_again_and_again(target.clone(), nth, settings.logins, crowd.clone()));
            }
            // They have all begun.
            sleep(PAUSE).await;
            beside.push(burst.run().await?.p99_ms);
            memory.push(resident_mb(shop.process()?)?);
            crowd.over.store(true, Ordering::Relaxed);
            while let Some(done) = tasks.join_next().await {
                done??;
            }
            say(&format!(
                "logins {run}: p99 {:.2} ms alone, {:.2} ms beside {} who log in ({} checked, {} refused), {:.1} MB",
                alone[run - 1],
                beside[run - 1],
                settings.logins,
                crowd.checked.load(Ordering::Relaxed),
                crowd.refused.load(Ordering::Relaxed),
                memory[run - 1]
            ));
        }
    }
    let figure = format!("purchase p99, {} a second, beside {} who log in", settings.beside_rate, settings.logins);
    report.row(Row::ratio(&figure, "ms", beside, "nobody logs in", alone, Goal::at_most(1.2, 1.05)));
    report.row(Row::alone("resident memory beside them", "MB", memory, Goal::none()));
    report.audited(&mut shop).await
}
