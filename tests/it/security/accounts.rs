//! Accounts and sessions: tokens, passwords, hashes, and what two identities in one request are worth.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use http::Method;
#[cfg(feature = "fault-injection")]
use seckill::domain::user::Phone;
use serde_json::json;

use crate::support::app::{TestApp, short_dir};
use crate::support::process::Process;

#[tokio::test(flavor = "multi_thread")]
async fn ten_thousand_tokens_are_long_never_alike_and_kept_as_hashes() {
    let app = TestApp::start().await;
    let tokens: Vec<String> = app.buyers(10_000).await.into_iter().map(|b| b.token).collect();
    let different: BTreeSet<&String> = tokens.iter().collect();
    assert_eq!(different.len(), tokens.len());
    // 22 letters of 64 carry 128 bits; the last one of them only four values.
    assert!(
        tokens.iter().all(|t| t.len() >= 22 && t.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_".contains(&b))),
        "{}",
        tokens[0]
    );
    // Each letter of each place but the last is about as frequent as the others: 156 of 10,000, give or take six deviations.
    for place in 0..21 {
        let mut count = [0_u32; 256];
        for token in &tokens {
            count[usize::from(token.as_bytes()[place])] += 1;
        }
        let met: Vec<u32> = count.into_iter().filter(|n| *n > 0).collect();
        assert!(met.len() == 64 && met.iter().all(|n| (80..235).contains(n)), "place {place}: {met:?}");
    }
    let keys: Vec<String> = app.ask("KEYS login:token:*").await;
    assert!(keys.len() >= 10_000);
    let hashes: BTreeSet<&str> = keys.iter().map(|k| k.trim_start_matches("login:token:")).collect();
    assert!(hashes.iter().all(|h| h.len() == 64) && !tokens.iter().any(|t| hashes.contains(t.as_str())));
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_identities_in_one_request_and_tokens_in_odd_places_are_nobody() {
    let app = TestApp::start().await;
    let users = app.buyers(2).await;
    let (one, two) = (&users[0].token, &users[1].token);
    let cookie = format!("seckill_session={one}");
    let me = async |headers: &[(&str, &str)]| app.http.send(Method::GET, "/api/user/me", headers, "").await.status.as_u16();
    assert_eq!(me(&[("cookie", &cookie)]).await, 200, "the control");
    assert_eq!(me(&[("cookie", &cookie), ("authorization", one)]).await, 200, "the same twice");
    assert_eq!(me(&[("cookie", &cookie), ("authorization", two)]).await, 401);
    assert_eq!(me(&[("authorization", one), ("authorization", two)]).await, 401);
    // Two session cookies: the same twice is one; two that differ are nobody, whichever comes first and whether they share a line.
    let other = format!("seckill_session={two}");
    assert_eq!(me(&[("cookie", &format!("{cookie}; lang=en; {cookie}"))]).await, 200);
    assert_eq!(me(&[("cookie", &format!("{cookie}; __Host-{other}"))]).await, 200, "over plain HTTP that name is not ours");
    for lines in [vec![format!("{cookie}; {other}")], vec![format!("{other}; {cookie}")], vec![cookie.clone(), other.clone()]] {
        let headers: Vec<_> = lines.iter().map(|line| ("cookie", line.as_str())).collect();
        assert_eq!(me(&headers).await, 401, "{headers:?}");
    }
    let made_up = format!("{cookie}; seckill_session=AAAAAAAAAAAAAAAAAAAAAA");
    assert_eq!(me(&[("cookie", &made_up)]).await, 401, "one of them is no session at all");
    for path in [
        format!("/api/user/me?token={one}"),
        format!("/api/user/me?authorization={one}"),
        format!("/api/user/me?access_token={one}"),
        format!("/api/user/me;token={one}"),
    ] {
        let answer = app.http.get(&path).await;
        assert!(matches!(answer.status.as_u16(), 401 | 404), "{path}: {}", answer.status);
    }
    let form =
        app.http.form(None, "/account/password", &format!("token={one}&authorization={one}&oldPassword=a&newPassword=b")).await;
    assert!(form.status == 401 || form.header("location").starts_with("/login"), "{}", form.status);
    app.finish().await;
}

/// Whether two things last alike, to a tenth: they are done in turn, and the quicker quarters of them are compared, for whatever else
/// the machine does only ever adds time. Where it adds too much, more are measured; a true difference stays.
async fn last_alike(rounds: usize, mut each: impl AsyncFnMut(usize)) -> Result<(), [Duration; 2]> {
    let mut times = [Vec::new(), Vec::new()];
    let mut quarter = [Duration::ZERO; 2];
    for round in 0..rounds {
        for turn in 0..12 {
            for which in [(round + turn) % 2, (round + turn + 1) % 2] {
                let began = Instant::now();
                each(which).await;
                times[which].push(began.elapsed());
            }
        }
        for (times, quarter) in times.iter_mut().zip(&mut quarter) {
            times.sort();
            *quarter = times[times.len() / 4];
        }
        let [a, b] = quarter.map(|time| time.as_secs_f64());
        if a.max(b) < a.min(b) * 1.1 {
            return Ok(());
        }
    }
    Err(quarter)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_phone_and_a_wrong_password_look_and_last_alike() {
    let app = TestApp::start().await;
    let phones = ["13500000101", "13500000201"];
    app.http.json(None, "/api/user/register", &json!({"phone": phones[0], "password": "korrekt pferd"})).await.data();
    let mut seen = BTreeSet::new();
    let each = async |which: usize| {
        let answer = app.http.json(None, "/api/user/login", &json!({"phone": phones[which], "password": "falsches pferd"})).await;
        let mut names: Vec<String> = answer.headers.keys().map(ToString::to_string).collect();
        names.sort();
        seen.insert((answer.status.as_u16(), answer.text(), names));
    };
    last_alike(8, each).await.unwrap();
    assert_eq!(seen.len(), 1, "{seen:?}");
    assert!(seen.first().unwrap().1.contains("BAD_CREDENTIALS"), "{seen:?}");
    app.finish().await;
}

/// The same with the guard taken out, to know that the measure sees it.
#[cfg(feature = "fault-injection")]
#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_phone_that_is_answered_without_a_hash_is_noticed() {
    let app = TestApp::start().await;
    let phones = ["13500000102", "13500000202"];
    app.http.json(None, "/api/user/register", &json!({"phone": phones[0], "password": "korrekt pferd"})).await.data();
    let users = &app.app.services.users;
    let phones = phones.map(|phone| Phone::parse(phone).unwrap());
    let each = async |which: usize| assert!(users.login(&phones[which], "falsches pferd").await.is_err());
    let found = seckill::fault::without("no-hash-for-unknown-phones", last_alike(2, each)).await;
    assert!(found.is_err_and(|[known, unknown]| known > unknown * 2));
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn passwords_have_a_length_and_no_other_rule_and_nothing_is_cut_off() {
    let app = TestApp::start().await;
    let long = "ä".repeat(127);
    for (n, password) in
        ["8 zeichn", &"x".repeat(64), &format!("{long}a"), "        x", "🐎🐎🐎🐎🐎🐎🐎🐎", "kleinbuchstaben"].iter().enumerate()
    {
        let phone = format!("1350000030{n}");
        let body = json!({"phone": phone, "password": password});
        app.http.json(None, "/api/user/register", &body).await.data();
        app.http.json(None, "/api/user/login", &body).await.data();
        // One letter less or another case is another password.
        let cut: String = password.chars().take(password.chars().count() - 1).collect();
        let wrong = app.http.json(None, "/api/user/login", &json!({"phone": phone, "password": cut})).await;
        assert_eq!(wrong.code(), "BAD_CREDENTIALS", "{password}");
    }
    let long = ["x".repeat(129), "🐎".repeat(129)];
    let bad = ["1234567", "12345678", "password", "Password1", "5201314520", "WoAiNi1314", "aa123456", "13500000399", "77777777"];
    for password in bad.into_iter().chain(long.iter().map(String::as_str)) {
        let answer = app.http.json(None, "/api/user/register", &json!({"phone": "13500000399", "password": password})).await;
        assert_eq!(
            (answer.status.as_u16(), answer.code().as_str()),
            (422, "INVALID"),
            "{}",
            password.chars().take(20).collect::<String>()
        );
        assert!(answer.json()["data"]["fields"]["password"].is_string());
    }
    let began = Instant::now();
    let huge =
        app.http.json(None, "/api/user/register", &json!({"phone": "13500000399", "password": "x".repeat(1024 * 1024)})).await;
    assert!(huge.status == 413 && began.elapsed() < Duration::from_secs(5), "{}", huge.status);
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn hashes_have_the_recommended_cost_and_a_salt_of_their_own() {
    let app = TestApp::start().await;
    for phone in ["13500000401", "13500000402"] {
        app.http.json(None, "/api/user/register", &json!({"phone": phone, "password": "korrekt pferd"})).await.data();
    }
    let query = "SELECT password_hash FROM users WHERE phone LIKE '1350000040%'";
    let hashes: Vec<String> = app.sql().await.rows(query).await.into_iter().map(|(hash,)| hash).collect();
    assert_eq!(hashes.len(), 2);
    assert!(hashes.iter().all(|h| h.starts_with("$argon2id$v=19$m=19456,t=2,p=1$")), "{hashes:?}");
    let salts: BTreeSet<&str> = hashes.iter().map(|h| h.split('$').nth(4).unwrap()).collect();
    assert!(salts.len() == 2 && salts.iter().all(|s| s.len() >= 22), "{salts:?}");
    app.finish().await;
}

/// 120 logins at once: no matter of seconds, which this machine cannot judge, but of who gets an answer at all.
#[tokio::test(flavor = "multi_thread")]
async fn a_crowd_at_the_login_is_told_busy_or_served_and_purchases_go_on() {
    let app = TestApp::start().await;
    let (voucher, buyers) = (app.sale(50).await, app.buyers(50).await);
    let logins = futures_util::future::join_all((0..120).map(|n| {
        let body = json!({"phone": format!("1350001{n:04}"), "password": "falsches pferd"});
        let http = app.http.clone();
        async move { http.json(None, "/api/user/login", &body).await }
    }));
    let purchases = async {
        let mut slowest = Duration::ZERO;
        for buyer in &buyers {
            let began = Instant::now();
            app.admitted(&app.buy_for_sure(buyer, voucher).await);
            slowest = slowest.max(began.elapsed());
        }
        slowest
    };
    let (answers, slowest) = tokio::join!(logins, purchases);
    let mut busy = 0;
    for answer in &answers {
        if answer.status == 503 || answer.status == 429 {
            assert!(answer.header("retry-after").parse::<u64>().is_ok_and(|s| s > 0));
            busy += 1;
        } else {
            assert_eq!(answer.code(), "BAD_CREDENTIALS");
        }
    }
    assert!(busy < answers.len(), "some are served");
    assert!(slowest < Duration::from_secs(5), "{slowest:?}");
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_shop_has_no_user_and_a_password_is_never_on_a_command_line() {
    let dir = short_dir();
    let mut server = Process::serve(dir.path(), &[]).await;
    assert_eq!(server.printed, Vec::<String>::new(), "nothing is printed that opens a door");
    for (phone, password) in [("13800000001", "admin"), ("13800000002", "admin123"), ("13800000002", "password")] {
        let answer = server.http.json(None, "/api/user/login", &json!({"phone": phone, "password": password})).await;
        assert_eq!(answer.code(), "BAD_CREDENTIALS");
    }
    assert_eq!(server.terminate().await, 0);
    let help = std::process::Command::new(crate::support::process::BINARY).args(["user", "add", "--help"]).output().unwrap();
    let help = String::from_utf8(help.stdout).unwrap();
    assert!(help.contains("--phone") && !help.contains("--password"), "{help}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_login_leads_to_our_own_paths_only() {
    let app = TestApp::start().await;
    let body = json!({"phone": "13500000501", "password": "korrekt pferd"});
    app.http.json(None, "/api/user/register", &body).await.data();
    let login = async |next: &str| {
        let next: String = form_urlencoded::byte_serialize(next.as_bytes()).collect();
        let answer = app.http.form(None, "/login", &format!("phone=13500000501&password=korrekt+pferd&next={next}")).await;
        assert_eq!(answer.status, 303, "{next}: {}", answer.text());
        answer.header("location").to_owned()
    };
    assert_eq!(login("/orders?cursor=1").await, "/orders?cursor=1");
    for evil in [
        "https://evil.example",
        "//evil.example",
        "/\\evil.example",
        "javascript:alert(1)",
        "/a\r\nSet-Cookie: zq=1",
        "\\\\evil.example",
        "/\t/evil.example",
        "evil.example",
    ] {
        assert_eq!(login(evil).await, "/", "{evil}");
        let next: String = form_urlencoded::byte_serialize(evil.as_bytes()).collect();
        let page = app.http.page(None, &format!("/login?next={next}")).await.text();
        assert!(!page.contains("evil.example\"") && !page.contains("javascript:"), "{evil}: {page}");
    }
    app.finish().await;
}
