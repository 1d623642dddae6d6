//! What pages give away, and what reaches a header or a page from somebody's text.

use http::Method;
use seckill::payment_provider::signature::SigningKeys;
use serde_json::json;

use crate::support::app::TestApp;
use crate::support::until;

#[tokio::test(flavor = "multi_thread")]
async fn a_bearer_call_needs_no_page_and_no_foreign_page_may_read_an_answer() {
    let app = TestApp::start().await;
    let (voucher, buyer) = (app.sale(2).await, app.buyer().await);
    for path in ["/api/user/me", "/api/voucher-order", "/api/shop-type/list", "/", "/openapi.json"] {
        for origin in ["https://evil.example", "null", app.base.as_str()] {
            let answer = app.http.send(Method::GET, path, &[("authorization", &buyer.token), ("origin", origin)], "").await;
            assert_eq!(answer.status, 200, "{path} from {origin}");
            for name in ["access-control-allow-origin", "access-control-allow-credentials"] {
                assert_eq!(answer.header(name), "", "{path} from {origin}");
            }
        }
    }
    let asked = [("origin", "https://evil.example"), ("access-control-request-method", "POST")];
    let preflight = app.http.send(Method::OPTIONS, "/api/user/login", &asked, "").await;
    assert_eq!((preflight.status.as_u16(), preflight.header("access-control-allow-methods")), (405, ""));
    // No cookie, no origin, no fetch metadata: a program with its token.
    app.admitted(&app.buy(&buyer, voucher).await);
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_page_holds_the_session_that_asked_for_it() {
    let app = TestApp::start().await;
    let (voucher, admin) = (app.sale(2).await, app.admin().await);
    let order = app.admitted(&app.buy(&admin, voucher).await);
    app.settled().await;
    let cookie = format!("seckill_session={}", admin.token);
    for path in [
        String::from("/"),
        format!("/shop/{}", app.shop),
        String::from("/account"),
        String::from("/orders"),
        format!("/orders/{order}"),
        String::from("/admin"),
        String::from("/admin/users"),
        String::from("/admin/audit-log"),
        format!("/admin/vouchers/{voucher}"),
        String::from("/docs"),
        String::from("/nowhere"),
    ] {
        let page = app.http.page(Some(&cookie), &path).await;
        let heads = format!("{:?}", page.headers);
        assert!(!page.text().contains(&admin.token) && !heads.contains(&admin.token), "{path}");
        assert!(!page.text().contains("$argon2"), "{path}");
    }
    for call in ["/api/user/me", "/api/voucher-order"] {
        let text = app.http.get_as(&admin.token, call).await.text();
        assert!(!text.contains(&admin.token) && !text.contains("password") && !text.contains("argon2"), "{call}: {text}");
    }
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_answer_holds_a_hash_or_anything_of_another_user() {
    let app = TestApp::with("--payment-secret", "whsec_c2Vja2lsbCB0ZXN0cyBzaWduIHdpdGggdGhpcyE=").start().await;
    let (voucher, buyer, admin) = (app.sale(5).await, app.buyer().await, app.admin().await);
    // Somebody else with everything that a person can have here: a name, a phone, an order, a code.
    let account = json!({"phone": "13577776666", "password": "korrekt pferd", "nickName": "Fremder Name"});
    let other = app.http.json(None, "/api/user/register", &account).await.data().as_str().unwrap().to_owned();
    let buy = format!("/api/voucher-order/seckill/{voucher}");
    let theirs = app.admitted(&app.http.post_as(&other, &buy).await);
    let own = app.admitted(&app.buy(&buyer, voucher).await);
    app.settled().await;
    let (keys, now) =
        ("whsec_c2Vja2lsbCB0ZXN0cyBzaWduIHdpdGggdGhpcyE=".parse::<SigningKeys>().unwrap(), app.clock.now().0 / 1000);
    let notice = json!({"type": "payment.succeeded", "data": {"orderId": theirs, "transactionId": "t-fremd", "amount": 4900}});
    let (body, at) = (notice.to_string(), now.to_string());
    let signature = keys.sign("e-1", now, body.as_bytes());
    let headers = [("webhook-id", "e-1"), ("webhook-timestamp", at.as_str()), ("webhook-signature", signature.as_str())];
    assert_eq!(app.http.send(Method::POST, "/api/payment/callback", &headers, body).await.status, 200);
    let mut code = String::new();
    until("the code is there", std::time::Duration::from_secs(10), async || {
        let order = app.http.get_as(&other, &format!("/api/voucher-order/{theirs}")).await.data();
        order["couponCode"].as_str().unwrap_or_default().clone_into(&mut code);
        !code.is_empty()
    })
    .await;

    let mut read = 0;
    for (who, is_admin) in [(None, false), (Some(&buyer), false), (Some(&admin), true)] {
        for (_, template, _) in super::may::ROUTES.iter().filter(|(method, ..)| *method == "GET") {
            let id = if template.contains("order") {
                own.0
            } else if template.contains("shop") {
                app.shop.0
            } else {
                voucher.0
            };
            let path = super::may::path_of(template).replace("987654321", &id.to_string());
            let cookie = who.map(|b| format!("seckill_session={}", b.token));
            let answer = if template.starts_with("/ws") { continue } else { app.http.page(cookie.as_deref(), &path).await };
            let text = format!("{:?} {}", answer.headers, String::from_utf8_lossy(&answer.body));
            for never in ["$argon2", "password_hash", "passwordHash", other.as_str(), buyer.token.as_str(), "whsec_"] {
                assert!(!text.contains(never), "{never} in {path} for {who:?}");
            }
            // An admin may see who bought; nobody else anything of anybody.
            let foreign = ["Fremder Name", "13577776666", "t-fremd", code.as_str(), &theirs.to_string()];
            let told: Vec<_> = foreign.into_iter().filter(|word| text.contains(word)).collect();
            assert!(is_admin || told.is_empty(), "{told:?} in {path} for {who:?}");
            read += usize::from(answer.status == 200);
        }
    }
    assert!(read > 60, "{read}");
    app.finish().await;
}

/// What goes into a page as it is: parts that are templates of their own, and JSON, whose filter escapes markup.
const RAW: &[&str] = &[
    "as_of",
    "below",
    "c.script_words()|json",
    "extra",
    "p.sale",
    "p.tools",
    "plot",
    "s.plot",
    "s.sale",
    "s.tools",
    "system",
    "wrong",
];

#[test]
fn no_template_switches_escaping_off() {
    let mut open = vec![std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("templates")];
    let (mut read, mut raws) = (0, 0);
    while let Some(folder) = open.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path);
            } else if path.extension().is_some_and(|e| e == "html") {
                let text = std::fs::read_to_string(&path).unwrap();
                assert!(!text.contains("autoescape false"), "{}", path.display());
                for raw in text
                    .split("safe }}")
                    .map(|before| before.rsplit("{{").next().unwrap())
                    .filter(|raw| raw.trim_end().ends_with('|'))
                {
                    let raw = raw.trim().trim_end_matches('|');
                    assert!(
                        RAW.contains(&raw),
                        "{}: {raw} goes into the page as it is: where does it come from?",
                        path.display()
                    );
                    raws += 1;
                }
                assert!(
                    !text.contains(" onclick=") && !text.contains(" style=\"") && !text.contains("javascript:"),
                    "{}",
                    path.display()
                );
                read += 1;
            }
        }
    }
    assert!(read > 10 && raws >= RAW.len(), "{read} templates, {raws} raw parts");
    let scripts = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("static");
    for entry in std::fs::read_dir(scripts).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|e| e == "js") {
            let text = std::fs::read_to_string(&path).unwrap();
            for word in ["insertAdjacentHTML", "document.write", "eval(", "localStorage", "sessionStorage", "outerHTML"] {
                assert!(!text.contains(word), "{}: {word}", path.display());
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_line_end_in_a_parameter_never_becomes_a_header() {
    let app = TestApp::start().await;
    app.http.json(None, "/api/user/register", &json!({"phone": "13500000601", "password": "korrekt pferd"})).await.data();
    let evil = "%0d%0aSet-Cookie:%20zq=1%0d%0aX-Zq:%201";
    let form = format!("phone=13500000601&password=korrekt+pferd&next=/orders{evil}&lang=en{evil}");
    let mut answers = vec![app.http.form(None, "/login", &form).await];
    for path in [
        format!("/?lang=en{evil}"),
        format!("/?theme=dark{evil}"),
        format!("/login?next=/{evil}"),
        format!("/account?x={evil}"),
        format!("/orders/{evil}"),
        format!("/static/0/app.css{evil}"),
        format!("/sandbox-pay/{evil}"),
        format!("/api/shop/of/name?name={evil}"),
        format!("/api/user/code?phone={evil}"),
    ] {
        answers.push(app.http.get(&path).await);
    }
    answers.push(app.http.send(Method::GET, "/", &[("x-request-id", "a%0d%0aX-Zq: 1")], "").await);
    for answer in answers {
        assert_eq!(answer.header("x-zq"), "");
        let cookies = answer.headers.get_all("set-cookie").iter();
        assert!(cookies.into_iter().all(|c| !c.to_str().unwrap().starts_with("zq")), "{:?}", answer.headers);
        assert!(!answer.header("location").contains(['\r', '\n']));
    }
    app.finish().await;
}
