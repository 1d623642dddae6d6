//! A front end that is not ours: each call of hmdp's public pages, with the headers, the query form and the patience that
//! axios has there. The token goes bare; POST has no body and no type; queries begin with `&`; 2 s and the page gives up.

use std::time::{Duration, Instant};

use http::Method;
use serde_json::{Value, json};

use crate::support::app::TestApp;
use crate::support::http::Answer;

/// The page's axios: its base URL, its token, its time-out, its answer as the page gets it.
struct Axios<'a> {
    app: &'a TestApp,
    token: Option<String>,
}

impl Axios<'_> {
    async fn call(&self, method: Method, path: &str, body: Option<Value>) -> Answer {
        let mut headers = vec![
            ("accept", "application/json, text/plain, */*"),
            ("accept-language", "zh-CN,zh;q=0.9"),
            ("referer", "http://127.0.0.1/shop-detail.html"),
            ("sec-fetch-site", "same-origin"),
            ("sec-fetch-mode", "cors"),
        ];
        if method != Method::GET {
            headers.push(("origin", &self.app.base));
        }
        if let Some(token) = &self.token {
            headers.push(("authorization", token));
        }
        if body.is_some() {
            headers.push(("content-type", "application/json;charset=UTF-8"));
        }
        let begun = Instant::now();
        let body = body.map(|b| b.to_string()).unwrap_or_default();
        let answer = self.app.http.send(method, &format!("/api{path}"), &headers, body).await;
        assert!(begun.elapsed() < Duration::from_secs(2), "{path}: the page has given up");
        answer
    }

    /// What the page's interceptor makes of it: the data, or the sentence that the page shows.
    async fn ask(&self, method: Method, path: &str, body: Option<Value>) -> Result<Value, String> {
        let answer = self.call(method, path, body).await;
        if answer.status != 200 {
            return Err(format!("status {}", answer.status.as_u16()));
        }
        let envelope = answer.json();
        if envelope["success"] == true {
            Ok(envelope["data"].clone())
        } else {
            Err(envelope["errorMsg"].as_str().unwrap().to_owned())
        }
    }

    async fn get(&self, path: &str) -> Result<Value, String> {
        self.ask(Method::GET, path, None).await
    }

    async fn post(&self, path: &str) -> Result<Value, String> {
        self.ask(Method::POST, path, None).await
    }
}

/// The last code on the sandbox's page.
async fn code_on_page(app: &TestApp) -> String {
    let page = app.http.page(None, "/sandbox-sms").await.text();
    let at = page.find("data-code>").unwrap_or_else(|| panic!("{page}")) + "data-code>".len();
    page[at..at + 6].to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_phone_logs_in_by_code_and_a_new_one_gets_an_account() {
    let app = TestApp::start().await;
    let mut page = Axios { app: &app, token: None };
    assert_eq!(page.post("/user/code?phone=138").await.unwrap_err(), "手机号要 11 位数字");
    page.post("/user/code?phone=13812345678").await.unwrap();
    let code = code_on_page(&app).await;
    let again = page.call(Method::POST, "/user/code?phone=13812345678", None).await;
    assert_eq!((again.status.as_u16(), again.code().as_str()), (429, "TOO_MANY_REQUESTS"));
    let wait: u64 = again.header("retry-after").parse().unwrap();
    assert!((50..=60).contains(&wait), "{wait}");
    let left: i64 = app.ask("PTTL login:code:13812345678").await;
    assert!((110_000..=120_000).contains(&left), "{left}");

    let login = |code: &str| json!({"phone": "13812345678", "code": code});
    let wrong = if code == "000000" { "111111" } else { "000000" };
    assert_eq!(page.ask(Method::POST, "/user/login", Some(login(wrong))).await.unwrap_err(), "验证码不对或已过期，重新要一个");
    let token = page.ask(Method::POST, "/user/login", Some(login(&code))).await.unwrap();
    page.token = Some(token.as_str().unwrap().to_owned());
    let me = page.get("/user/me").await.unwrap();
    assert!(me["nickName"].as_str().unwrap().starts_with("user_"), "{me}");
    assert!(me["id"].is_i64() && me["icon"].is_string());
    // Good once.
    assert!(page.ask(Method::POST, "/user/login", Some(login(&code))).await.is_err());
    // The same phone again: the same account.
    page.post("/user/logout").await.unwrap();
    assert_eq!(page.get("/user/me").await.unwrap_err(), "status 401", "the page goes to its login");
    page.post("/user/code?phone=13812345678").await.unwrap();
    let code = code_on_page(&app).await;
    let token = page.ask(Method::POST, "/user/login", Some(json!({"phone": "13812345678", "code": code, "password": ""}))).await;
    page.token = Some(token.unwrap().as_str().unwrap().to_owned());
    assert_eq!(page.get("/user/me").await.unwrap()["id"], me["id"]);
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_code_lives_through_five_tries_and_no_more() {
    let app = TestApp::start().await;
    let page = Axios { app: &app, token: None };
    page.post("/user/code?phone=13812345679").await.unwrap();
    let code = code_on_page(&app).await;
    let wrong = if code == "000000" { "111111" } else { "000000" };
    for typed in [wrong, wrong, wrong, wrong, wrong, &code] {
        let body = json!({"phone": "13812345679", "code": typed});
        assert!(page.ask(Method::POST, "/user/login", Some(body)).await.is_err(), "{typed}");
    }
    let again = page.call(Method::POST, "/user/code?phone=13812345679", None).await;
    assert_eq!(again.status, 429, "guessing wrong does not send more of them");
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_call_of_the_public_pages_is_answered_as_they_expect() {
    let app = TestApp::start().await;
    let sale = app.sale(1).await;
    let plain = {
        let voucher = app.voucher("代金券");
        app.app.services.sales.create_voucher(None, None, &voucher).await.unwrap()
    };
    let shop = app.shop;
    let mut page = Axios { app: &app, token: None };

    // index.html
    let types = page.get("/shop-type/list").await.unwrap();
    for t in types.as_array().unwrap() {
        assert!(t["id"].is_i64() && t["name"].is_string() && t["icon"].is_string() && t["sort"].is_i64(), "{t}");
    }
    assert_eq!(page.get("/blog/hot?&current=1").await.unwrap(), json!([]));

    // shop-list.html: the query begins with &, an empty sort order is left out, coordinates are decimals.
    let one = page.get(&format!("/shop/{shop}")).await.unwrap();
    let list = page.get(&format!("/shop/of/type?&typeId={}&current=1&x=120.149993&y=30.334229", one["typeId"])).await.unwrap();
    let listed = list.as_array().unwrap().iter().find(|s| s["id"] == one["id"]).unwrap_or_else(|| panic!("{list}"));
    for field in ["id", "typeId", "avgPrice", "sold", "comments", "score"] {
        assert!(listed[field].is_i64(), "{field}: {listed}");
    }
    for field in ["name", "images", "area", "address", "openHours"] {
        assert!(listed[field].is_string(), "{field}: {listed}");
    }
    assert!(!listed["images"].as_str().unwrap().split(',').next().unwrap().is_empty());
    assert!(listed["x"].is_number() && listed["y"].is_number());
    assert_eq!(page.get(&format!("/shop/of/type?&typeId={}&current=99", one["typeId"])).await.unwrap(), json!([]));
    assert!(page.get("/shop/of/name?&name=小馆").await.unwrap().is_array());

    // shop-detail.html as a visitor
    let vouchers = page.get(&format!("/voucher/list/{shop}")).await.unwrap();
    let of = |id: i64| vouchers.as_array().unwrap().iter().find(|v| v["id"] == id).unwrap().clone();
    let (flash, everyday) = (of(sale.0), of(plain.0));
    assert_eq!((&flash["type"], &flash["stock"]), (&1.into(), &1.into()));
    assert!(flash["beginTime"].is_string() && flash["endTime"].is_string() && flash["payValue"].is_i64());
    assert_eq!((&everyday["type"], everyday.get("stock")), (&0.into(), None));
    let buy = format!("/voucher-order/seckill/{sale}");
    assert_eq!(page.post(&buy).await.unwrap_err(), "status 401", "the page goes to its login");

    // login2.html, and the click
    let body = json!({"phone": "13900001111", "password": "korrekt pferd"});
    app.http.json(None, "/api/user/register", &body).await.data();
    let bad = json!({"phone": "13900001111", "password": "falsches pferd"});
    assert_eq!(page.ask(Method::POST, "/user/login", Some(bad)).await.unwrap_err(), "手机号或密码不对");
    let right = json!({"phone": "13900001111", "password": "korrekt pferd", "type": "password"});
    let token = page.ask(Method::POST, "/user/login", Some(right)).await.unwrap();
    page.token = Some(token.as_str().unwrap().to_owned());
    let id = page.post(&buy).await.unwrap();
    assert!(id.as_str().unwrap().parse::<i64>().unwrap() > 9_007_199_254_740_992, "as text: a number would be rounded");
    assert_eq!(page.post(&buy).await.unwrap_err(), "不能重复下单");
    let other = Axios { app: &app, token: Some(app.buyer().await.token) };
    assert_eq!(other.post(&buy).await.unwrap_err(), "库存不足");
    let soon = app.sale_between(5, 60_000, 600_000).await;
    assert!(other.post(&format!("/voucher-order/seckill/{soon}")).await.unwrap_err().contains("开始"));

    // info.html
    let me = page.get("/user/me").await.unwrap();
    let info = page.call(Method::GET, &format!("/user/info/{}", me["id"]), None).await.json();
    assert_eq!((&info["success"], info.get("data")), (&true.into(), None));
    assert_eq!(page.get("/blog/of/me").await.unwrap(), json!([]));
    let follow = page.call(Method::GET, "/blog/of/follow?&offset=0&lastId=1720000000000", None).await.json();
    assert_eq!((&follow["success"], follow.get("data")), (&true.into(), None));
    page.post("/user/logout").await.unwrap();

    // A stale token is nobody on public paths, and a login elsewhere.
    assert!(page.get(&format!("/shop/{shop}")).await.is_ok());
    assert!(page.get(&format!("/voucher/list/{shop}")).await.is_ok());
    assert_eq!(page.post(&buy).await.unwrap_err(), "status 401");
    app.finish().await;
}
