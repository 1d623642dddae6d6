//! Scripts against people: many accounts behind few addresses, who click at the first moment and never rest, and as many people who
//! have an address, a computer and a reaction each. Both come through `deploy/nginx.conf`, the limits of gateway and shop as shipped.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use http::Method;
use seckill::clock::Clock;
use seckill::domain::ids::VoucherId;
use seckill::domain::time::Millis;
use seckill::domain::voucher::NewSale;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::support::app::{Buyer, On, TestApp};
use crate::support::http::{Answer, Http};
use crate::support::long;
use crate::support::nginx::Nginx;

#[expect(clippy::print_stdout, reason = "the figures of a run")]
fn figure(text: &str) {
    println!("{text}");
}

/// Accounts behind one address, and people for each such address.
const EACH: usize = 200;
/// Connections that a script opens from one address.
const CONNECTIONS: usize = 24;
/// A script that was refused tries again after this.
const AGAIN: Duration = Duration::from_millis(100);
/// Hashes a second of a person's browser.
const BROWSER: u64 = 40_000;
const WAIT_FOR_BEGIN: i64 = 1_500;

/// One sale, and what came of it.
#[derive(Default)]
struct Race {
    voucher: i64,
    begin: i64,
    captcha: bool,
    over: AtomicBool,
    hashes: AtomicU64,
    /// When the last unit went, in milliseconds.
    last: AtomicI64,
}

impl Race {
    fn path(&self) -> String {
        format!("/api/voucher-order/seckill/{}", self.voucher)
    }

    async fn until(&self, after: Duration) {
        let now = Clock::default().now().0;
        let left = u64::try_from(self.begin - now).unwrap_or(0);
        tokio::time::sleep(Duration::from_millis(left) + after).await;
    }

    fn over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    async fn click(&self, http: &Http, token: &str, captcha: Option<&(String, String)>) -> Answer {
        let body = captcha.map(|(id, answer)| json!({"captcha": {"id": id, "answer": answer}}).to_string());
        let mut headers = vec![("authorization", token)];
        if body.is_some() {
            headers.push(("content-type", "application/json"));
        }
        http.send(Method::POST, &self.path(), &headers, body.unwrap_or_default()).await
    }

    /// Whether the clicker is done: he has his unit, or there is none left.
    fn done(&self, answer: &Answer) -> bool {
        if !matches!(answer.status.as_u16(), 200) {
            return self.over();
        }
        let json = answer.json();
        if json["success"] == true {
            self.last.store(Clock::default().now().0, Ordering::Relaxed);
        } else if json["code"] == "SOLD_OUT" {
            self.over.store(true, Ordering::Relaxed);
        }
        json["success"] == true || json["code"] == "DUPLICATE" || self.over()
    }
}

fn sum_of(asked: &Value) -> String {
    let (a, b) = asked["question"].as_str().unwrap().strip_suffix(" = ?").unwrap().split_once(" + ").unwrap();
    (a.parse::<u32>().unwrap() + b.parse::<u32>().unwrap()).to_string()
}

fn bits_of(asked: &Value) -> u32 {
    u32::try_from(asked["difficulty"].as_u64().unwrap()).unwrap()
}

/// The time in which no answer counts.
fn wait(asked: &Value) -> Duration {
    Duration::from_millis(asked["wait"].as_u64().unwrap_or(0))
}

/// The time that the sum wants to be looked at.
fn patience(asked: &Value) -> Duration {
    let patience = Duration::from_millis(500) * (bits_of(asked) - u32::from(seckill::domain::captcha::EASIEST));
    patience.max(wait(asked)) + Duration::from_millis(20)
}

/// Hashes until it has a nonce; none when somebody was quicker.
fn nonce_of(asked: &Value, stop: &AtomicBool, hashes: &AtomicU64) -> Option<String> {
    let start = Sha256::new_with_prefix(format!("{}:", asked["challenge"].as_str().unwrap()));
    let mut nonce = 0_u64;
    loop {
        let text = nonce.to_string();
        let hash = start.clone().chain_update(&text).finalize();
        nonce += 1;
        if u32::from_be_bytes([hash[0], hash[1], hash[2], hash[3]]).leading_zeros() >= bits_of(asked) {
            hashes.fetch_add(nonce, Ordering::Relaxed);
            return Some(text);
        }
        if nonce.is_multiple_of(512) && stop.load(Ordering::Relaxed) {
            hashes.fetch_add(nonce, Ordering::Relaxed);
            return None;
        }
    }
}

/// Where an address's accounts share a machine: so many connections, and one core that hashes.
struct Machine {
    http: Http,
    connections: Semaphore,
    core: Semaphore,
}

/// The script's answer: the proof of work as soon as its machine gets to it, or the sum as soon as it counts.
async fn scripted_answer(race: &Arc<Race>, machine: &Machine, asked: &Value) -> String {
    let (stop, counts) = (Arc::new(AtomicBool::new(false)), Instant::now() + wait(asked));
    let solve = async {
        let turn = machine.core.acquire().await.unwrap();
        let (race, asked, stop) = (race.clone(), asked.clone(), stop.clone());
        let nonce = tokio::task::spawn_blocking(move || nonce_of(&asked, &stop, &race.hashes)).await.unwrap();
        drop(turn);
        tokio::time::sleep_until(counts).await;
        nonce.unwrap()
    };
    let answer = tokio::select! {
        nonce = solve => nonce,
        () = tokio::time::sleep(patience(asked)) => sum_of(asked),
    };
    stop.store(true, Ordering::Relaxed);
    answer
}

async fn script(race: Arc<Race>, machine: Arc<Machine>, me: Buyer) {
    race.until(Duration::ZERO).await;
    let mut answer = None;
    while !race.over() {
        if race.captcha && answer.is_none() {
            let turn = machine.connections.acquire().await.unwrap();
            let asked = machine.http.get_as(&me.token, &format!("/api/captcha/{}", race.voucher)).await;
            drop(turn);
            if asked.status != 200 {
                tokio::time::sleep(AGAIN).await;
                continue;
            }
            let asked = asked.data();
            answer = Some((asked["id"].as_str().unwrap().to_owned(), scripted_answer(&race, &machine, &asked).await));
        }
        let turn = machine.connections.acquire().await.unwrap();
        let heard = race.click(&machine.http, &me.token, answer.as_ref()).await;
        drop(turn);
        if race.done(&heard) {
            return;
        }
        if heard.status != 429 {
            answer = None;
        }
        tokio::time::sleep(AGAIN).await;
    }
}

async fn person(race: Arc<Race>, http: Http, me: Buyer, reaction: Duration) {
    race.until(reaction).await;
    let mut answer = None;
    while !race.over() {
        let heard = race.click(&http, &me.token, answer.as_ref()).await;
        if race.done(&heard) {
            return;
        }
        if heard.status == 200 && heard.code() == "CAPTCHA_REQUIRED" {
            let asked = heard.json()["data"].clone();
            // What a browser needs; the sum stands for the nonce that it finds, and may have to wait longer.
            let work = Duration::from_millis((1 << bits_of(&asked)) * 1000 / BROWSER);
            tokio::time::sleep(work.max(patience(&asked))).await;
            answer = Some((asked["id"].as_str().unwrap().to_owned(), sum_of(&asked)));
        } else {
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    }
}

/// One sale of a unit for every fourth account; the scripts' share of it in a hundred.
async fn share_of_scripts(app: &TestApp, base: &str, addresses: usize, captcha: bool, what: &str) -> usize {
    let (scripts, people, stock) = (app.buyers(addresses * EACH).await, app.buyers(addresses * EACH).await, addresses * EACH / 2);
    let begin = Clock::default().now().0 + WAIT_FOR_BEGIN;
    let sale = NewSale { stock: i64::try_from(stock).unwrap(), begin: Millis(begin), end: Millis(begin + 3_600_000), captcha };
    let VoucherId(voucher) = app.app.services.sales.create_sale(None, None, &app.voucher("下午茶"), &sale).await.unwrap();
    let race = Arc::new(Race { voucher, begin, captcha, ..Race::default() });
    let mut all = JoinSet::new();
    for (at, accounts) in scripts.chunks(EACH).enumerate() {
        let address = IpAddr::V4(Ipv4Addr::new(127, 0, 1, u8::try_from(at).unwrap() + 1));
        let http = Http::from_address(base, address);
        let machine = Machine { http, connections: Semaphore::new(CONNECTIONS), core: Semaphore::new(1) };
        let machine = Arc::new(machine);
        for me in accounts {
            all.spawn(script(race.clone(), machine.clone(), me.clone()));
        }
    }
    for (n, me) in people.iter().enumerate() {
        let [high, low] = u16::try_from(n).unwrap().to_be_bytes();
        let http = Http::from_address(base, IpAddr::V4(Ipv4Addr::new(127, 1, high, low.max(1))));
        // From 0.3 to 3.3 s, evenly, in no order.
        let reaction = Duration::from_millis(300 + (n as u64 * 1_117) % 3_000);
        all.spawn(person(race.clone(), http, me.clone(), reaction));
    }
    tokio::time::timeout(Duration::from_mins(2), async { while all.join_next().await.is_some() {} }).await.expect("it ends");
    let took = race.last.load(Ordering::Relaxed) - begin;
    // By the rows, not by what was told: an answer may get lost where a machine has more to do than it can.
    app.settled().await;
    let query = format!("SELECT user_id FROM orders WHERE voucher_id = {voucher} AND live");
    let buyers: Vec<i64> = app.sql().await.rows(&query).await.into_iter().map(|(buyer,)| buyer).collect();
    assert_eq!(buyers.len(), stock, "{what}: everything is sold");
    let scripts = buyers.iter().filter(|buyer| scripts.iter().any(|me| me.id.0 == **buyer)).count();
    let share = scripts * 100 / stock;
    let hashes = race.hashes.load(Ordering::Relaxed);
    figure(&format!(
        "{what}: {scripts} of {stock} units to scripts, {share} in a hundred; sold out after {took} ms; {hashes} hashes"
    ));
    share
}

#[tokio::test(flavor = "multi_thread")]
async fn scripts_behind_few_addresses_get_less_than_their_share_and_with_the_captcha_far_less() {
    let addresses = if long() { 5 } else { 1 };
    let app = TestApp::on(On::Sqlite).with("--rate-limit", "10/20").with("--trusted-proxies", "127.0.0.1/32").start().await;
    let gateway = Nginx::before([&app.base, &app.base]).await;
    // The control: where nothing counts addresses, the quickest take nearly everything.
    let alone = share_of_scripts(&app, &app.base, addresses, false, "no gateway, no captcha").await;
    assert!(alone > 80, "{alone}");
    let limited = share_of_scripts(&app, &gateway.base, addresses, false, "limits by address").await;
    assert!(limited <= 50, "{limited}");
    let asked = share_of_scripts(&app, &gateway.base, addresses, true, "limits by address, captcha").await;
    assert!(asked <= 25 && asked < limited, "{asked} after {limited}");
    app.finish().await;
}
