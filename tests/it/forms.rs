//! The form and the API that put up a sale: what is refused is said at its field, keeps what was typed and leaves no trace;
//! what is shown is text and nothing else.

use std::time::Duration;

use scraper::{Html, Selector};
use seckill::domain::ids::VoucherId;
use seckill::domain::time::Millis;
use serde_json::{Value, json};

use crate::support::app::{Buyer, TestApp};
use crate::support::http::Answer;

fn cookie(buyer: &Buyer) -> String {
    format!("seckill_session={}", buyer.token)
}

fn local(at: Millis) -> String {
    at.rfc3339()[..19].to_owned()
}

/// The fields of a sale that would be saved, as the form sends them; `changed` replaces some.
fn typed(app: &TestApp, changed: &[(&str, &str)]) -> Vec<(String, String)> {
    let now = app.clock.now();
    let good = [
        ("shopId", app.shop.to_string()),
        ("title", String::from("双人下午茶 & <茶>")),
        ("subTitle", String::from("周末")),
        ("rules", String::from("到店\n出示")),
        ("payValue", String::from("49.00")),
        ("actualValue", String::from("100")),
        ("stock", String::from("5")),
        ("timeZone", String::from("UTC")),
        ("beginTime", local(now - Duration::from_mins(1))),
        ("endTime", local(now + Duration::from_hours(1))),
    ];
    let value = |name: &str, old: String| changed.iter().find(|(n, _)| *n == name).map_or(old, |(_, new)| (*new).to_owned());
    good.into_iter().map(|(name, old)| (name.to_owned(), value(name, old))).collect()
}

async fn submit(app: &TestApp, admin: &Buyer, fields: &[(String, String)]) -> Answer {
    let body = form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish();
    app.http.form(Some(&cookie(admin)), "/admin/vouchers/new", &body).await
}

/// Everything that a creation would leave: vouchers, keys of the gate.
async fn traces(app: &TestApp) -> (usize, Vec<String>) {
    let mut keys: Vec<String> = app.ask("KEYS seckill:*").await;
    keys.sort();
    (app.app.services.store.vouchers_of_shop(app.shop).await.unwrap().len(), keys)
}

/// The form is back with a sentence at `field`, and holds what was typed.
fn refused_at(answer: &Answer, field: &str, fields: &[(String, String)]) {
    assert_eq!(answer.status, 422, "{field} of {fields:?}");
    let page = Html::parse_document(&answer.text());
    let one = |selector: &str| page.select(&Selector::parse(selector).unwrap()).next();
    let input = one(&format!("[name={field}]")).unwrap();
    assert_eq!(input.value().attr("aria-invalid"), Some("true"), "{field} is marked: {fields:?}");
    let said = one(&format!("#{field}-error")).unwrap_or_else(|| panic!("a sentence at {field}"));
    assert!(!said.text().collect::<String>().trim().is_empty());
    for (name, value) in fields.iter().filter(|(n, _)| n != "shopId" && n != "rules") {
        assert_eq!(one(&format!("[name={name}]")).unwrap().value().attr("value"), Some(value.as_str()), "{name} is kept");
    }
    let rules = one("[name=rules]").unwrap().text().collect::<String>();
    assert_eq!(rules.trim(), fields.iter().find(|(n, _)| n == "rules").unwrap().1);
}

fn created(answer: &Answer) -> VoucherId {
    let place = answer.header("location");
    let id = place.strip_prefix("/admin/vouchers/").and_then(|id| id.parse().ok());
    id.unwrap_or_else(|| panic!("{} {place}: {}", answer.status, answer.text()))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_window_that_makes_no_sense_is_refused_at_its_field_and_leaves_nothing() {
    let app = TestApp::start().await;
    let admin = app.admin().await;
    let now = app.clock.now();
    let at = |seconds: i64| local(Millis(now.0 + seconds * 1000));
    let before = traces(&app).await;
    let century = 100 * 365 * 86_400;
    for (begin, end, field) in [
        (at(600), at(600), "endTime"),
        (at(600), at(300), "endTime"),
        (at(-7200), at(-3600), "endTime"),
        (at(0), at(century), "endTime"),
        (at(0), at(367 * 86_400), "endTime"),
        (String::from("2026-02-30T10:00"), at(600), "beginTime"),
        (String::new(), at(600), "beginTime"),
        (at(0), String::from("morgen"), "endTime"),
    ] {
        let fields = typed(&app, &[("beginTime", &begin), ("endTime", &end)]);
        refused_at(&submit(&app, &admin, &fields).await, field, &fields);
        let body = json!({"shopId": app.shop, "title": "茶", "payValue": 4900, "actualValue": 10000, "stock": 5,
            "beginTime": format!("{begin}Z"), "endTime": format!("{end}Z")});
        let answer = app.http.json(Some(&admin.token), "/api/voucher/seckill", &body).await;
        assert_eq!((answer.status.as_u16(), answer.code().as_str()), (422, "INVALID"), "{begin} {end}");
        assert!(answer.json()["data"]["fields"][field].as_str().is_some_and(|s| !s.is_empty()), "{}", answer.text());
    }
    assert_eq!(traces(&app).await, before, "nothing was written");
    // A begin in the past with an end ahead, and a sale of one second, are sales.
    let one_second = typed(&app, &[("beginTime", &at(600)), ("endTime", &at(601))]);
    for fields in [typed(&app, &[]), one_second, typed(&app, &[("endTime", &at(365 * 86_400))])] {
        let id = created(&submit(&app, &admin, &fields).await);
        let sale = app.app.services.store.sale(id).await.unwrap().unwrap();
        let wanted = |name: &str| &fields.iter().find(|(n, _)| n == name).unwrap().1;
        assert_eq!((&local(sale.begin), &local(sale.end)), (wanted("beginTime"), wanted("endTime")));
    }
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn only_whole_numbers_in_their_range_become_a_stock_or_a_price() {
    let app = TestApp::start().await;
    let admin = app.admin().await;
    let before = traces(&app).await;
    for bad in [
        "-1",
        "-20",
        "1.5",
        "1e3",
        "1000001",
        "2147483648",
        "9223372036854775808",
        "",
        "５",
        "00012",
        "+5",
        "-0",
        "0x10",
        "1,000",
        "1 000",
        "五",
    ] {
        let fields = typed(&app, &[("stock", bad)]);
        refused_at(&submit(&app, &admin, &fields).await, "stock", &fields);
    }
    for bad in [
        "-1",
        "0",
        "0.001",
        "49.999",
        "1e3",
        "1000000.01",
        "9223372036854775808",
        "",
        "４９",
        "0049",
        "+5",
        "-0",
        "1,000",
        "0.1+0.2",
    ] {
        for field in ["payValue", "actualValue"] {
            let fields = typed(&app, &[(field, bad)]);
            refused_at(&submit(&app, &admin, &fields).await, field, &fields);
        }
    }
    for bad in
        ["-1", "1.5", "1e3", "5.0", "1000001", "2147483648", "9223372036854775808", "1e999", "\"5\"", "true", "[5]", "null"]
    {
        for field in ["stock", "payValue"] {
            if (field, bad) == ("payValue", "1000001") {
                continue;
            }
            let number = |name: &str, good: &'static str| if name == field { bad.to_owned() } else { good.to_owned() };
            let body = format!(
                r#"{{"shopId":{},"title":"茶","actualValue":10000,"beginTime":"{}","endTime":"{}","stock":{},"payValue":{}}}"#,
                app.shop,
                app.clock.now().rfc3339(),
                (app.clock.now() + Duration::from_mins(1)).rfc3339(),
                number("stock", "5"),
                number("payValue", "4900"),
            );
            let headers = [("authorization", admin.token.as_str()), ("content-type", "application/json")];
            let answer = app.http.send(http::Method::POST, "/api/voucher/seckill", &headers, body).await;
            // 1e999 is no JSON number at all.
            let wanted = if bad == "1e999" { (400, "MALFORMED") } else { (422, "INVALID") };
            assert_eq!((answer.status.as_u16(), answer.code().as_str()), wanted, "{field} {bad}: {}", answer.text());
            if wanted.0 == 422 {
                assert_eq!(answer.json()["data"]["fields"].as_object().unwrap().keys().collect::<Vec<_>>(), [field], "{bad}");
            }
        }
    }
    assert_eq!(traces(&app).await, before, "nothing was written");
    for (stock, saved) in [("0", 0), ("1", 1), ("1000000", 1_000_000), (" 12 ", 12)] {
        let id = created(&submit(&app, &admin, &typed(&app, &[("stock", stock)])).await);
        let sale = app.app.services.store.sale(id).await.unwrap().unwrap();
        assert_eq!((sale.stock_total, sale.stock_left), (saved, saved));
        assert_eq!(app.app.services.gate.stocks(&[id]).await.unwrap(), [Some(saved)]);
    }
    for (price, fen) in [("0.01", 1), ("0.3", 30), ("49", 4900), ("19.99", 1999), ("1000000", 100_000_000)] {
        let id = created(&submit(&app, &admin, &typed(&app, &[("payValue", price), ("actualValue", "1000000")])).await);
        assert_eq!(app.app.services.store.voucher(id).await.unwrap().unwrap().fields.pay_value.0, fen, "{price}");
    }
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_form_that_is_sent_twice_makes_one_voucher() {
    let app = TestApp::start().await;
    let admin = app.admin().await;
    let page = Html::parse_document(&app.http.page(Some(&cookie(&admin)), "/admin/vouchers/new").await.text());
    let key = page.select(&Selector::parse("[name=formId]").unwrap()).next().unwrap().value().attr("value").unwrap().to_owned();
    let mut fields = typed(&app, &[]);
    fields.push((String::from("formId"), key));
    let (one, two) = tokio::join!(submit(&app, &admin, &fields), submit(&app, &admin, &fields));
    let third = submit(&app, &admin, &fields).await;
    assert_eq!(created(&one), created(&two));
    assert_eq!(created(&one), created(&third));
    assert_eq!(app.app.services.store.vouchers_of_shop(app.shop).await.unwrap().len(), 1);
    app.finish().await;
}

/// Titles that would do harm as markup, as script, as template or as a line of JSON.
const TITLES: [&str; 6] = [
    "</script><script>window.pwned=1</script>",
    "<img src=x onerror=\"window.pwned=1\">",
    "\"'`{}[]\\ --> <!-- ${7*7} {{7*7}} {%x%}",
    "line\u{2028}separator\u{2029} &amp; &lt;b&gt;",
    "javascript:alert(1)//' onmouseover='window.pwned=1",
    "</title></textarea></style><b>fett</b>",
];

/// Every element of the page is the shop's own, every data block is JSON that no text can leave, and `title` stands there
/// as text.
fn shows_as_text(answer: &Answer, title: &str, at: &str) {
    assert_eq!(answer.status, 200, "{at}");
    let policy = answer.header("content-security-policy");
    assert!(policy.contains("default-src 'self'") && !policy.contains("unsafe"), "{policy}");
    let page = Html::parse_document(&answer.text());
    let all = |selector: &str| page.select(&Selector::parse(selector).unwrap()).collect::<Vec<_>>();
    for script in all("script") {
        let body = script.text().collect::<String>();
        match script.value().attr("type") {
            Some("application/json") => {
                assert!(!body.contains(['<', '>', '&']), "{at}: {body}");
                serde_json::from_str::<Value>(&body).unwrap_or_else(|e| panic!("{at}: {e} in {body}"));
            }
            _ => {
                assert!(script.value().attr("src").is_some_and(|s| s.starts_with("/static/")) && body.is_empty(), "{at}: {body}");
            }
        }
    }
    assert!(all("img").is_empty() && all("body style").is_empty(), "{at}: foreign elements");
    for element in all("*") {
        assert!(element.value().attrs().all(|(name, _)| !name.starts_with("on")), "{at}: {:?}", element.value());
    }
    let text = page.root_element().text().collect::<String>();
    assert!(text.contains(title), "{at}: {title} is not there as text");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_title_shows_as_text_on_every_page() {
    let app = TestApp::start().await;
    let (admin, mut buyer) = (app.admin().await, app.buyer().await);
    for title in TITLES {
        let id = created(&submit(&app, &admin, &typed(&app, &[("title", title)])).await);
        buyer = app.session_of(buyer.id).await;
        let order = app.admitted(&app.buy_for_sure(&buyer, id).await);
        app.settled().await;
        let (buyer_cookie, admin_cookie) = (cookie(&buyer), cookie(&admin));
        for (who, path) in [
            (None, String::from("/")),
            (None, format!("/shop/{}", app.shop)),
            (Some(&buyer_cookie), String::from("/")),
            (Some(&buyer_cookie), format!("/shop/{}", app.shop)),
            (Some(&buyer_cookie), String::from("/orders")),
            (Some(&buyer_cookie), format!("/orders/{order}")),
            (Some(&admin_cookie), String::from("/admin")),
            (Some(&admin_cookie), format!("/admin/vouchers/{id}")),
        ] {
            shows_as_text(&app.http.page(who.map(String::as_str), &path).await, title, &path);
        }
        // JSON carries it as it is.
        let listed = app.http.get(&format!("/api/voucher/list/{}", app.shop)).await.data();
        assert!(listed.as_array().unwrap().iter().any(|v| v["title"] == title), "{listed}");
        assert_eq!(app.order(&buyer, order).await["voucherTitle"], title);
        // Back in the form, too.
        let fields = typed(&app, &[("title", title), ("stock", "x")]);
        refused_at(&submit(&app, &admin, &fields).await, "stock", &fields);
    }
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_with_markup_shows_as_text() {
    let app = TestApp::start().await;
    let name = "<img src=x onerror=pwned()>";
    let body = json!({"phone": "13700000009", "password": "korrekt pferd", "nickName": name});
    let made = app.http.json(None, "/api/user/register", &body).await;
    let cookie = made.cookie().unwrap();
    assert_eq!(app.http.get_as(made.data().as_str().unwrap(), "/api/user/me").await.data()["nickName"], name);
    shows_as_text(&app.http.page(Some(&cookie), "/account").await, name, "/account");
    // What was typed into a refused registration comes back as text as well.
    let form = form_urlencoded::Serializer::new(String::new())
        .extend_pairs([("phone", "\"><script>pwned()</script>"), ("password", "short"), ("nickName", name)])
        .finish();
    let refused = app.http.form(None, "/register", &form).await;
    assert_eq!(refused.status, 422);
    let page = Html::parse_document(&refused.text());
    assert!(page.select(&Selector::parse("img, main script").unwrap()).next().is_none(), "{}", refused.text());
    let kept = |name: &str| {
        let input = page.select(&Selector::parse(&format!("[name={name}]")).unwrap()).next().unwrap();
        input.value().attr("value").unwrap_or_default().to_owned()
    };
    assert_eq!((kept("phone"), kept("nickName")), (String::from("\"><script>pwned()</script>"), name.to_owned()));
    app.finish().await;
}
