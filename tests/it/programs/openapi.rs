//! `/openapi.json` and `/docs`: every route is described, every description is a route, and real answers are as described.

use std::collections::BTreeSet;
use std::path::Path;

use http::Method;
use serde_json::{Value, json};

use super::schema::problems;
use crate::support::app::{Buyer, TestApp};
use crate::support::http::Answer;

/// For browsers and for the sandbox itself: pages, forms, assets.
fn is_for_programs(path: &str) -> bool {
    path.starts_with("/api")
        || ["/ws", "/healthz", "/readyz", "/metrics", "/openapi.json", "/docs", "/sandbox-pay/books"].contains(&path)
}

/// Method and path of every route in the sources.
pub fn routed() -> BTreeSet<(String, String)> {
    let mut open = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("src/web")];
    let mut all = BTreeSet::new();
    while let Some(folder) = open.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path);
                continue;
            }
            if path.extension().is_none_or(|e| e != "rs") {
                continue;
            }
            let text: String = std::fs::read_to_string(&path).unwrap();
            for route in text.split(".route(").skip(1) {
                let Some(template) = route.trim_start().strip_prefix('"').and_then(|r| r.split('"').next()) else { continue };
                // Up to the next route, or the end of the statement.
                let rest = route.split(';').next().unwrap();
                for method in ["get", "post", "patch", "put", "delete"] {
                    let called = |before: char| rest.contains(&format!("{before}{method}("));
                    if called(' ') || called('.') || called('\n') {
                        all.insert((method.to_uppercase(), template.to_owned()));
                    }
                }
            }
        }
    }
    all
}

fn described(document: &Value) -> BTreeSet<(String, String)> {
    let paths = document["paths"].as_object().unwrap();
    let of = |(path, methods): (&String, &Value)| {
        methods.as_object().unwrap().keys().map(|m| (m.to_uppercase(), path.clone())).collect::<Vec<_>>()
    };
    paths.iter().flat_map(of).collect()
}

#[test]
fn every_route_for_programs_is_described_and_every_description_is_a_route() {
    let document = seckill::web::openapi::document();
    let routed: BTreeSet<_> = routed().into_iter().filter(|(_, path)| is_for_programs(path)).collect();
    let described = described(&document);
    assert!(routed.len() > 30, "the routes were not found: {routed:?}");
    let missing: Vec<_> = routed.difference(&described).collect();
    assert!(missing.is_empty(), "add these to src/web/openapi/operations.rs: {missing:?}");
    let unrouted: Vec<_> = described.difference(&routed).collect();
    assert!(unrouted.is_empty(), "described, and no route: {unrouted:?}");
}

#[test]
fn the_description_holds_together() {
    let document = seckill::web::openapi::document();
    assert_eq!(document["openapi"], "3.1.0");
    let mut ids = BTreeSet::new();
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, op) in methods.as_object().unwrap() {
            assert!(ids.insert(op["operationId"].to_string()), "{method} {path}: its id stands twice");
            assert!(op["summary"].as_str().is_some_and(|s| s.ends_with('.')) && op["responses"].is_object(), "{method} {path}");
            let named: BTreeSet<_> = op["parameters"]
                .as_array()
                .unwrap()
                .iter()
                .filter(|p| p["in"] == "path")
                .map(|p| p["name"].as_str().unwrap())
                .collect();
            let in_path: BTreeSet<_> = path.split('{').skip(1).map(|p| p.split('}').next().unwrap()).collect();
            assert_eq!(named, in_path, "{method} {path}");
        }
    }
    let text = document.to_string();
    let mut followed = 0;
    for reference in text.split("\"$ref\":\"#").skip(1).map(|r| r.split('"').next().unwrap()) {
        assert!(document.pointer(reference).is_some(), "{reference} leads nowhere");
        followed += 1;
    }
    assert!(followed > 100);
    for (name, schema) in document["components"]["schemas"].as_object().unwrap() {
        assert!(text.contains(&format!("schemas/{name}\"")), "nobody uses {name}");
        assert!(schema.is_object(), "{name}");
    }
}

/// Asks, and holds the answer against its description.
async fn ask(
    app: &TestApp,
    document: &Value,
    method: &str,
    template: &str,
    path: &str,
    as_who: Option<&Buyer>,
    body: Option<Value>,
) -> Answer {
    let mut headers = Vec::new();
    if let Some(who) = as_who {
        headers.push(("authorization", who.token.as_str()));
    }
    if body.is_some() {
        headers.push(("content-type", "application/json"));
    }
    let text = body.map(|b| b.to_string()).unwrap_or_default();
    let answer = app.http.send(Method::from_bytes(method.as_bytes()).unwrap(), path, &headers, text).await;
    let op = &document["paths"][template][method.to_lowercase()];
    let status = answer.status.as_u16().to_string();
    let response =
        op["responses"].get(&status).unwrap_or_else(|| panic!("{method} {path}: {status} is not described: {}", answer.text()));
    if let Some(schema) = response["content"].get("application/json") {
        let found = problems(document, &schema["schema"], &answer.json(), "answer");
        assert!(found.is_empty(), "{method} {path} {status}: {found:#?}");
    } else {
        let (media, _) = response["content"].as_object().unwrap().iter().next().unwrap();
        assert!(answer.header("content-type").starts_with(media.as_str()), "{path}: {}", answer.header("content-type"));
    }
    answer
}

#[tokio::test(flavor = "multi_thread")]
async fn real_answers_are_as_described() {
    let app = TestApp::start().await;
    let served = app.http.get("/openapi.json").await;
    assert_eq!((served.status.as_u16(), served.header("content-type")), (200, "application/json"));
    let document = served.json();
    assert_eq!(document, seckill::web::openapi::document());
    let (admin, buyers) = (app.admin().await, app.buyers(3).await);
    let d = &document;
    let ask = async |method, template, path: String, who: Option<&Buyer>, body: Option<Value>| {
        ask(&app, d, method, template, &path, who, body).await
    };
    let plain = |path: &str| path.to_owned();

    let phone = "13911112222";
    let register = "/api/user/register";
    ask("POST", register, plain(register), None, Some(json!({"phone": phone, "password": "korrekt pferd"}))).await;
    ask("POST", register, plain(register), None, Some(json!({"phone": phone, "password": "korrekt pferd"}))).await;
    ask("POST", register, plain(register), None, Some(json!({"phone": "1", "password": "x"}))).await;
    ask("POST", register, plain(register), None, Some(json!([]))).await;
    let login = "/api/user/login";
    ask("POST", login, plain(login), None, Some(json!({"phone": phone, "password": "korrekt pferd"}))).await;
    ask("POST", login, plain(login), None, Some(json!({"phone": phone, "password": "wrong horse"}))).await;
    ask("POST", "/api/user/code", plain("/api/user/code?phone=13911113333"), None, None).await;
    ask("POST", "/api/user/code", plain("/api/user/code?phone=1"), None, None).await;
    for who in [None, Some(&buyers[0])] {
        ask("GET", "/api/user/me", plain("/api/user/me"), who, None).await;
    }
    ask("GET", "/api/user/info/{id}", plain("/api/user/info/1"), None, None).await;

    let sale = "/api/voucher/seckill";
    let now = app.clock.now();
    let hour = std::time::Duration::from_hours(1);
    let new = json!({"shopId": app.shop, "title": "下午茶", "payValue": 4900, "actualValue": 10000, "stock": 1, "beginTime": (now - hour).rfc3339(), "endTime": (now + hour).rfc3339()});
    let voucher = ask("POST", sale, plain(sale), Some(&admin), Some(new.clone())).await.data();
    ask("POST", sale, plain(sale), Some(&admin), Some(json!({"title": ""}))).await;
    ask("POST", sale, plain(sale), Some(&buyers[0]), Some(new.clone())).await;
    ask("POST", sale, plain(sale), None, Some(new)).await;
    let everyday = json!({"shopId": app.shop, "title": "甜品券", "payValue": 100, "actualValue": 200});
    ask("POST", "/api/voucher", plain("/api/voucher"), Some(&admin), Some(everyday)).await;
    ask("POST", "/api/shop", plain("/api/shop"), Some(&admin), Some(json!({"name": "二店"}))).await;
    ask("GET", "/api/voucher/list/{shopId}", format!("/api/voucher/list/{}", app.shop), None, None).await;
    for id in ["1", "404", "x"] {
        ask("GET", "/api/shop/{id}", format!("/api/shop/{id}"), None, None).await;
    }
    ask("GET", "/api/shop/of/type", plain("/api/shop/of/type?&typeId=1&current=1&x=120.1&y=30.3"), None, None).await;
    ask("GET", "/api/shop/of/name", plain("/api/shop/of/name?name=小"), None, None).await;
    ask("GET", "/api/shop-type/list", plain("/api/shop-type/list"), None, None).await;
    for path in [
        "/api/blog/hot",
        "/api/blog/of/me",
        "/api/blog/of/follow",
        "/api/picture/shop.svg",
        "/healthz",
        "/readyz",
        "/metrics",
        "/docs",
    ] {
        ask("GET", path, plain(path), None, None).await;
    }

    let buy = "/api/voucher-order/seckill/{voucherId}";
    let bought = ask("POST", buy, format!("/api/voucher-order/seckill/{voucher}"), Some(&buyers[0]), None).await;
    let order = app.admitted(&bought);
    let ticket = bought.json()["ticket"].as_str().unwrap().to_owned();
    let one = "/api/voucher-order/{id}";
    ask("GET", one, format!("/api/voucher-order/{order}?ticket={ticket}"), None, None).await;
    assert_eq!(
        ask("POST", buy, format!("/api/voucher-order/seckill/{voucher}"), Some(&buyers[0]), None).await.code(),
        "DUPLICATE"
    );
    assert_eq!(
        ask("POST", buy, format!("/api/voucher-order/seckill/{voucher}"), Some(&buyers[1]), None).await.code(),
        "SOLD_OUT"
    );
    ask("POST", buy, plain("/api/voucher-order/seckill/404"), Some(&buyers[1]), None).await;
    ask("POST", buy, plain("/api/voucher-order/seckill/x"), Some(&buyers[1]), None).await;
    ask("POST", buy, format!("/api/voucher-order/seckill/{voucher}"), None, None).await;
    let ahead = app.sale_between(1, 1_800_000, 3_600_000).await;
    assert_eq!(ask("POST", buy, format!("/api/voucher-order/seckill/{ahead}"), Some(&buyers[1]), None).await.code(), "NOT_BEGUN");
    app.settled().await;
    ask("GET", one, format!("/api/voucher-order/{order}"), Some(&buyers[0]), None).await;
    ask("GET", one, format!("/api/voucher-order/{order}"), Some(&buyers[1]), None).await;
    ask("GET", "/api/voucher-order", plain("/api/voucher-order?limit=1"), Some(&buyers[0]), None).await;
    ask("GET", "/api/voucher-order", plain("/api/voucher-order?cursor=x"), Some(&buyers[0]), None).await;
    for (action, who) in [
        ("pay", &buyers[0]),
        ("timeout", &admin),
        ("refund", &admin),
        ("cancel", &buyers[0]),
        ("cancel", &buyers[0]),
        ("cancel", &buyers[1]),
    ] {
        let template = format!("/api/voucher-order/{{id}}/{action}");
        super::openapi::ask(&app, d, "POST", &template, &format!("/api/voucher-order/{order}/{action}"), Some(who), None).await;
    }
    ask("POST", "/api/payment/callback", plain("/api/payment/callback"), None, Some(json!({}))).await;
    for action in ["disable", "enable", "logout"] {
        let template = format!("/api/user/{{id}}/{action}");
        super::openapi::ask(&app, d, "POST", &template, &format!("/api/user/{}/{action}", buyers[2].id), Some(&admin), None)
            .await;
        super::openapi::ask(&app, d, "POST", &template, &format!("/api/user/404/{action}"), Some(&admin), None).await;
    }
    ask("POST", "/api/user/logout", plain("/api/user/logout"), Some(&buyers[1]), None).await;
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_shows_every_call_in_both_languages_without_a_script_of_others() {
    let app = TestApp::start().await;
    for (lang, title) in [("zh-CN", "接口"), ("en", "API")] {
        let page = app.http.page(None, &format!("/docs?lang={lang}")).await;
        let text = page.text();
        assert!(page.status == 200 && text.contains(&format!("<h1>{title}</h1>")), "{lang}");
        for op in seckill::web::openapi::operations::OPERATIONS {
            assert!(text.contains(&format!("<code>{}</code>", op.path)), "{lang}: {}", op.path);
        }
        assert!(!text.contains("src=\"http") && text.len() < 50_000, "{} bytes", text.len());
    }
    app.finish().await;
}
