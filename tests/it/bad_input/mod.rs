//! Bad input: thousands of generated requests, messages and texts against a running shop. Never a 5xx but 503, never a
//! panic, always one of our answers, and nothing that was refused has changed anything. The count is compared with a floor.
//!
//! `SECKILL_FUZZ_CASES` says how many, `SECKILL_FUZZ_SEED` repeats a run. `make fuzz` runs 200,000 and more.

mod cases;
#[path = "../../../fuzz/entries.rs"]
mod entries;
mod parsers;
mod wire;
mod words;

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use seckill::clock::Clock;
use seckill::domain::ids::{OrderId, ShopId, VoucherId};
use serde_json::Value;

use self::cases::{Case, Expect, SURFACES, nth};
use crate::support::app::TestApp;
use crate::support::http::Answer;

/// The secret that these shops are given.
const SECRET: &str = "whsec_c2Vja2lsbCB0ZXN0cyBzaWduIHdpdGggdGhpcyE=";

/// What an ordinary run does at least, and a long one.
const FLOOR: usize = 5_000;
const FLOOR_LONG: usize = 200_000;

/// Codes that a refusal may have.
const CODES: &[&str] = &[
    "SOLD_OUT",
    "DUPLICATE",
    "NOT_BEGUN",
    "ENDED",
    "PAUSED",
    "CAPTCHA_REQUIRED",
    "BAD_CREDENTIALS",
    "BAD_CODE",
    "BAD_PHONE",
    "MALFORMED",
    "LOGIN_REQUIRED",
    "FORBIDDEN",
    "NOT_FOUND",
    "METHOD_NOT_ALLOWED",
    "TOO_LARGE",
    "URI_TOO_LONG",
    "UNSUPPORTED_MEDIA_TYPE",
    "HEADERS_TOO_LARGE",
    "WRONG_STATE",
    "QUEUED",
    "PHONE_TAKEN",
    "VERSION_CONFLICT",
    "INVALID",
    "TOO_MANY_REQUESTS",
    "BUSY",
    "UNCERTAIN",
];

/// What no answer may hold: the inside of the program, or markup that somebody typed.
const NEVER: &[&str] =
    &["panicked", "sqlx", "SQLITE", "redis::", "src/", ".rs:", "<zq", "RUST_BACKTRACE", "error returned from database"];

#[expect(clippy::disallowed_methods, reason = "no option of the program: it belongs to the tests alone")]
fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// How many cases there shall be, and at least.
fn wanted() -> usize {
    let floor = if crate::support::long() { FLOOR_LONG } else { FLOOR };
    number("SECKILL_FUZZ_CASES").map_or(floor, |n| usize::try_from(n).unwrap())
}

fn seed() -> u64 {
    number("SECKILL_FUZZ_SEED").unwrap_or_else(rand::random)
}

/// A figure of a run, for whoever runs these tests with `--nocapture`.
#[expect(clippy::print_stdout, reason = "the figures of a run")]
fn figure(text: &str) {
    println!("{text}");
}

/// What the cases are made of: a shop with something to spoil in it.
pub struct World {
    clock: Clock,
    buyer: String,
    stranger: String,
    admin: String,
    shop: ShopId,
    voucher: VoucherId,
    guarded: VoucherId,
    order: OrderId,
    ticket: String,
}

async fn open() -> (TestApp, World) {
    let app = TestApp::with("--payment-secret", SECRET).start().await;
    let (buyers, admin) = (app.buyers(2).await, app.admin().await);
    let (voucher, holder) = (app.sale(50).await, app.buyer().await);
    let guard = seckill::domain::voucher::NewSale {
        stock: 5,
        begin: app.clock.now() - Duration::from_secs(1),
        end: app.clock.now() + Duration::from_hours(1),
        captcha: true,
    };
    let guarded = app.app.services.sales.create_sale(None, None, &app.voucher("谜题"), &guard).await.unwrap();
    let bought = app.buy(&holder, voucher).await;
    let (order, ticket) = (app.admitted(&bought), bought.json()["ticket"].as_str().unwrap().to_owned());
    app.settled().await;
    let world = World {
        clock: app.clock.clone(),
        buyer: buyers[0].token.clone(),
        stranger: buyers[1].token.clone(),
        admin: admin.token,
        shop: app.shop,
        voucher,
        guarded,
        order,
        ticket,
    };
    (app, world)
}

/// Everything that is kept: every row of every table, and what the gate holds.
async fn kept(app: &TestApp, world: &World) -> BTreeMap<String, String> {
    let mut all = BTreeMap::new();
    let mut db = app.sql().await;
    let tables = db.tables().await;
    assert!(tables.len() > 10, "{tables:?}");
    for table in tables {
        let rows = db.whole(&table).await;
        all.insert(table, rows.join("\n"));
    }
    for voucher in [world.voucher, world.guarded] {
        for key in ["stock", "order"] {
            let key = format!("seckill:{{0}}:{key}:{voucher}");
            let ask = if key.contains("stock") { format!("GET {key}") } else { format!("HGETALL {key}") };
            let value: redis::Value = app.ask(&ask).await;
            all.insert(key, format!("{value:?}"));
        }
    }
    let length: i64 = app.ask("XLEN stream.orders:{0}").await;
    all.insert(String::from("stream"), length.to_string());
    all
}

/// What is wrong with an answer; none when it is one of ours.
fn fault(case: &Case, answer: &Answer) -> Option<String> {
    let status = answer.status.as_u16();
    if status >= 500 && status != 503 {
        return Some(format!("{status}"));
    }
    if answer.header("x-content-type-options") != "nosniff" || answer.header("content-security-policy").contains("unsafe") {
        return Some(String::from("no guards in the head"));
    }
    if answer.headers.iter().any(|(name, value)| value.as_bytes().windows(3).any(|w| w == b"zq=") && name == "set-cookie") {
        return Some(String::from("a cookie of somebody else"));
    }
    let text = String::from_utf8_lossy(&answer.body);
    if let Some(word) = NEVER.iter().find(|word| text.contains(**word)) {
        // The document of the API names paths of its own.
        if !case.path.starts_with("/openapi.json") && !case.path.starts_with("/docs") && !case.path.starts_with("/static/") {
            return Some(format!("{word:?} is in the answer"));
        }
    }
    let kind = answer.header("content-type");
    let json: Option<Value> =
        kind.starts_with("application/json").then(|| serde_json::from_slice(&answer.body).unwrap_or(Value::Null));
    let success = json.as_ref().and_then(|json| json["success"].as_bool());
    let path = case.path.split('?').next().unwrap();
    if (path.starts_with("/api/") || success.is_some()) && path != "/api/picture/shop.svg" {
        match (&json, success) {
            (Some(_), Some(true)) if status == 200 => {}
            (Some(json), Some(false)) if CODES.iter().any(|code| json["code"] == *code) && json["errorMsg"].is_string() => {}
            // What a provider is told has a code of its own and no words for people.
            (Some(json), Some(false)) if path == "/api/payment/callback" && json["code"].is_string() => {}
            _ => return Some(format!("not our envelope: {kind}")),
        }
    } else if status >= 400 && answer.body.is_empty() && case.method != http::Method::HEAD {
        return Some(String::from("an empty refusal"));
    }
    if case.expect == Expect::Refused {
        let redirected = answer.status.is_redirection();
        let to_login = redirected && answer.header("location").starts_with("/login");
        let refused = status >= 400 || success == Some(false) || to_login;
        // A form that leads back to its page says there what is wrong, and what is kept shows that nothing was done.
        let led_back = redirected && case.path.starts_with("/admin/");
        if !refused && !led_back {
            return Some(format!("a success: {status}"));
        }
    }
    if answer.status.is_redirection() && !answer.header("location").starts_with('/') {
        return Some(format!("leads to {}", answer.header("location")));
    }
    None
}

#[tokio::test(flavor = "multi_thread")]
async fn thousands_of_bad_requests_are_refused_in_our_words_and_change_nothing() {
    let (count, seed, began) = (wanted(), seed(), Instant::now());
    let (app, world) = open().await;
    let before = kept(&app, &world).await;
    let (faults, again) = (std::sync::Mutex::new(BTreeMap::new()), std::sync::atomic::AtomicUsize::new(0));
    let met = std::sync::Mutex::new((BTreeMap::<(&str, u16), usize>::new(), BTreeSet::new()));
    futures_util::stream::iter(0..count)
        .for_each_concurrent(24, async |n| {
            let case = nth(&world, seed, n);
            let answer = wire::send(&app.http, &app.base, &case, &again).await;
            let wrong = match &answer {
                Ok(answer) => fault(&case, answer),
                Err(error) => Some(error.clone()),
            };
            if let Some(wrong) = wrong {
                let body = String::from_utf8_lossy(&case.body).chars().take(600).collect::<String>();
                let told = answer.map_or_else(|e| e, |a| String::from_utf8_lossy(&a.body).chars().take(400).collect());
                faults.lock().unwrap().entry(format!("{} {}", case.surface, wrong)).or_insert(format!(
                    "case {n} of seed {seed} ({}): {wrong}\n  {} {}\n  {:?}\n  {body}\n  answer: {told}",
                    case.surface,
                    case.method,
                    case.path.chars().take(300).collect::<String>(),
                    case.headers.iter().map(|(n, v)| (n, String::from_utf8_lossy(v))).collect::<Vec<_>>(),
                ));
            } else if let Ok(answer) = answer {
                let mut met = met.lock().unwrap();
                *met.0.entry((case.surface, answer.status.as_u16())).or_default() += 1;
                // The same request twice is one case.
                met.1.insert(hash(&case));
            }
        })
        .await;
    let (by_surface, distinct) = met.into_inner().unwrap();
    let faults = faults.into_inner().unwrap();
    let again = again.into_inner();
    figure(&format!("sent again on a new connection: {again}"));
    assert!(again * 100 <= count, "{again} of {count} requests met a closed connection");
    let sent: usize = by_surface.values().sum();
    figure(&format!(
        "bad input: {sent} requests, {} different, seed {seed}, {} s: {by_surface:?}",
        distinct.len(),
        began.elapsed().as_secs()
    ));
    assert!(
        faults.is_empty(),
        "{} kinds of fault, the first of each:\n{}",
        faults.len(),
        faults.values().take(8).cloned().collect::<Vec<_>>().join("\n")
    );
    let floor = if crate::support::long() { FLOOR_LONG } else { FLOOR };
    assert!(sent >= floor.min(count) && sent == count, "only {sent} of {count} cases ran; the floor is {floor}");
    assert!(count >= floor, "SECKILL_FUZZ_CASES is below the floor of {floor}");
    assert!(distinct.len() * 100 >= sent * 40, "only {} of {sent} were different", distinct.len());
    for (surface, _) in SURFACES {
        let of_it: usize = by_surface.iter().filter(|((name, _), _)| name == surface).map(|(_, n)| n).sum();
        assert!(of_it >= floor / SURFACES.len() / 2, "{surface}: only {of_it}");
    }
    let after = kept(&app, &world).await;
    for (what, was) in &before {
        assert_eq!(was, &after[what], "{what} was changed by something that was refused (seed {seed})");
    }
    assert_eq!(app.http.get("/readyz").await.status, 200);
    // The negative control: a good request does change what is looked at.
    app.admitted(&app.http.post_as(&world.buyer, &format!("/api/voucher-order/seckill/{}", world.voucher)).await);
    app.settled().await;
    assert_ne!(kept(&app, &world).await["orders"], before["orders"]);
    app.finish().await;
}

fn hash(case: &Case) -> u64 {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let mut hasher = DefaultHasher::new();
    (case.method.as_str(), &case.path, &case.headers, &case.body).hash(&mut hasher);
    hasher.finish()
}
