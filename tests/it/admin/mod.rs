//! The control room's API: who may, what each action does, and that its numbers are the database's.

mod actions;
mod feeds;
mod figures;
mod letters;
mod lists;
mod reports;

use http::Method;
use serde_json::{Value, json};

use crate::support::app::TestApp;
use crate::support::http::Answer;

/// Every route of the control room's API.
const ROUTES: &[(Method, &str)] = &[
    (Method::GET, "/api/admin/sale/ID"),
    (Method::GET, "/api/admin/sale/ID/samples"),
    (Method::GET, "/api/admin/sale/ID/orders"),
    (Method::POST, "/api/admin/sale/ID/pause"),
    (Method::POST, "/api/admin/sale/ID/resume"),
    (Method::POST, "/api/admin/sale/ID/end"),
    (Method::POST, "/api/admin/sale/ID/rebuild"),
    (Method::POST, "/api/admin/sale/ID/stock"),
    (Method::PATCH, "/api/admin/voucher/ID"),
    (Method::GET, "/api/admin/dead-letter"),
    (Method::POST, "/api/admin/dead-letter/ID/retry"),
    (Method::POST, "/api/admin/dead-letter/ID/discard"),
    (Method::GET, "/api/admin/outbox"),
    (Method::GET, "/api/admin/audit-log"),
    (Method::GET, "/api/admin/report/ID"),
    (Method::GET, "/api/admin/report/ID.csv"),
];

async fn call(app: &TestApp, token: Option<&str>, method: &Method, path: &str) -> Answer {
    let mut headers = vec![("content-type", "application/json")];
    headers.extend(token.map(|token| ("authorization", token)));
    let body = match *method {
        Method::GET => String::new(),
        _ if path.ends_with("/stock") => json!({ "delta": 1, "version": 1 }).to_string(),
        Method::PATCH => json!({ "title": "x", "version": 1 }).to_string(),
        _ => String::new(),
    };
    app.http.send(method.clone(), path, &headers, body).await
}

/// The figures of a sale as the API tells them.
async fn sale(app: &TestApp, token: &str, voucher: impl std::fmt::Display) -> Value {
    app.http.get_as(token, &format!("/api/admin/sale/{voucher}")).await.data()
}

/// The newest line of the audit log.
async fn last_line(app: &TestApp, token: &str) -> Value {
    app.http.get_as(token, "/api/admin/audit-log?limit=1").await.data()["items"][0].clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_route_is_for_admins_alone_and_strict_about_ids_and_methods() {
    let app = TestApp::start().await;
    let (buyer, admin, voucher) = (app.buyer().await, app.admin().await, app.sale(3).await);
    for (method, route) in ROUTES {
        let path = route.replace("ID", &voucher.to_string());
        let visitor = call(&app, None, method, &path).await;
        assert_eq!((visitor.status.as_u16(), visitor.code().as_str()), (401, "LOGIN_REQUIRED"), "{method} {path}");
        let other = call(&app, Some(&buyer.token), method, &path).await;
        assert_eq!((other.status.as_u16(), other.code().as_str()), (403, "FORBIDDEN"), "{method} {path}");
        let wrong = call(&app, Some(&admin.token), &Method::DELETE, &path).await;
        assert_eq!(wrong.status, 405, "DELETE {path}");
        if route.contains("ID") {
            let unknown = call(&app, Some(&admin.token), method, &route.replace("ID", "404")).await;
            assert_eq!((unknown.status.as_u16(), unknown.code().as_str()), (404, "NOT_FOUND"), "{method} {route}");
            for bad in ["0", "01", "-1", "x", "99999999999999999999"] {
                let bad = call(&app, Some(&admin.token), method, &route.replace("ID", bad)).await;
                assert_eq!((bad.status.as_u16(), bad.code().as_str()), (400, "MALFORMED"), "{method} {route}");
            }
        } else {
            for query in ["?limit=0", "?limit=101", "?limit=x", "?cursor=x", "?cursor=MDE"] {
                assert_eq!(call(&app, Some(&admin.token), method, &format!("{path}{query}")).await.status, 400, "{path}{query}");
            }
        }
    }
    let plain = app.app.services.sales.create_voucher(None, None, &app.voucher("普通券")).await.unwrap();
    let answer = app.http.get_as(&admin.token, &format!("/api/admin/sale/{plain}")).await;
    assert_eq!(answer.status, 404, "an everyday voucher has no sale");
    app.finish().await;
}
