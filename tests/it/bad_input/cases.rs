//! Requests that are wrong in one place or in many, each made from a number: the same number makes the same request.

use http::Method;
use rand::SeedableRng;
use rand::rngs::StdRng;
use seckill::payment_provider::signature::SigningKeys;

use super::World;
use super::words::Words;

/// What an answer may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expect {
    /// Never a success.
    Refused,
    /// Whatever our answers are: it only reads.
    Read,
}

/// One request.
#[derive(Debug)]
pub struct Case {
    pub surface: &'static str,
    pub method: Method,
    pub path: String,
    pub headers: Vec<(&'static str, Vec<u8>)>,
    pub body: Vec<u8>,
    pub expect: Expect,
}

type Maker = fn(&mut Words, &World) -> Case;

/// The surfaces; each gets its share of the cases.
pub const SURFACES: &[(&str, Maker)] = &[
    ("ids", ids),
    ("purchase", purchase),
    ("credentials", credentials),
    ("queries", queries),
    ("tickets and cursors", tickets),
    ("account JSON", account_json),
    ("account forms", account_forms),
    ("voucher JSON", voucher_json),
    ("voucher form", voucher_form),
    ("desk forms", desk_forms),
    ("notices", notices),
    ("headers", headers),
];

/// The case of this number.
pub fn nth(world: &World, seed: u64, n: usize) -> Case {
    let (surface, make) = SURFACES[n % SURFACES.len()];
    let mut words = Words::new(StdRng::seed_from_u64(seed ^ (n as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15)));
    Case { surface, ..make(&mut words, world) }
}

fn get(path: String) -> Case {
    Case { surface: "", method: Method::GET, path, headers: Vec::new(), body: Vec::new(), expect: Expect::Read }
}

fn post(path: &str, kind: &str, body: impl Into<Vec<u8>>) -> Case {
    let headers = vec![("content-type", kind.as_bytes().to_vec())];
    Case { surface: "", method: Method::POST, path: path.to_owned(), headers, body: body.into(), expect: Expect::Refused }
}

const JSON: &str = "application/json";
const FORM: &str = "application/x-www-form-urlencoded";

impl Case {
    fn with(mut self, name: &'static str, value: impl Into<Vec<u8>>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    fn by(self, token: &str) -> Self {
        self.with("authorization", token)
    }

    /// As a browser posts a form of our own page.
    fn in_a_page(self, token: &str) -> Self {
        self.with("cookie", format!("seckill_session={token}")).with("sec-fetch-site", "same-origin").with("accept", "text/html")
    }
}

fn ids(w: &mut Words, world: &World) -> Case {
    const READS: &[&str] = &[
        "/api/shop/",
        "/api/voucher/list/",
        "/api/voucher-order/",
        "/api/captcha/",
        "/shop/",
        "/orders/",
        "/admin/vouchers/",
        "/admin/reports/",
    ];
    const WRITES: &[(&str, &str)] = &[
        ("/api/voucher-order/", "/cancel"),
        ("/api/voucher-order/", "/pay"),
        ("/api/voucher-order/", "/timeout"),
        ("/api/voucher-order/", "/refund"),
        ("/api/user/", "/disable"),
        ("/api/user/", "/enable"),
        ("/api/user/", "/logout"),
        ("/vouchers/", "/buy"),
        ("/orders/", "/pay"),
        ("/orders/", "/cancel"),
        ("/admin/dead-letters/", "/retry"),
        ("/admin/users/", "/disable"),
        ("/admin/vouchers/", "/rebuild"),
    ];
    let id = w.no_id();
    let id = w.encoded(&id);
    let who = if w.below(2) == 0 { &world.admin } else { &world.buyer };
    if w.below(2) == 0 {
        let case = get(format!("{}{id}", w.one(READS))).by(who);
        return Case { expect: Expect::Refused, ..case };
    }
    let (before, after) = w.one(WRITES);
    let path = format!("{before}{id}{after}");
    if before.starts_with("/api") { post(&path, JSON, "").by(who) } else { post(&path, FORM, "").in_a_page(who) }
}

fn purchase(w: &mut Words, world: &World) -> Case {
    let path = "/api/voucher-order/seckill/";
    match w.below(4) {
        0 => {
            let id = w.no_id();
            post(&format!("{path}{}", w.encoded(&id)), JSON, "").by(&world.buyer)
        }
        // Nobody, or somebody whom nobody knows.
        1 => {
            let token = w.header();
            post(&format!("{path}{}", world.voucher), JSON, "").by(&token)
        }
        2 => {
            let body = w.no_json();
            let body = if body.is_empty() { b"{".to_vec() } else { body };
            post(&format!("{path}{}", world.voucher), JSON, body).by(&world.buyer)
        }
        _ => {
            let answer = serde_json::to_string(&w.text()).unwrap();
            let id = serde_json::to_string(&w.text()).unwrap();
            let body = format!("{{\"captcha\":{{\"id\":{id},\"answer\":{answer}}}}}");
            post(&format!("{path}{}", world.guarded), JSON, body).by(&world.buyer)
        }
    }
}

fn credentials(w: &mut Words, world: &World) -> Case {
    let path = *w.one(&["/api/user/me", "/api/voucher-order", "/account", "/orders", "/admin", "/api/voucher-order/seckill/1"]);
    let mut token = w.header();
    match w.below(8) {
        0 => token = world.buyer.to_lowercase() + "x",
        1 => token = format!("Bearer  {}x", world.buyer),
        2 => token = format!("Basic {}", world.buyer),
        3 => token = format!("{},{}", world.buyer, world.admin),
        4 => token = world.buyer[..world.buyer.len() - 1].to_owned(),
        _ => {}
    }
    let mut case = get(path.to_owned());
    case.expect = Expect::Refused;
    match w.below(4) {
        0 => case.with("cookie", format!("seckill_session={token}")),
        1 => case.with("cookie", format!("{token}; =; seckill_session; seckill_session={token}; a=b=c;;")),
        2 => case.by(&token).with("authorization", world.buyer.clone()),
        _ => case.by(&token),
    }
}

fn queries(w: &mut Words, world: &World) -> Case {
    const READS: &[(&str, &[&str])] = &[
        ("/api/shop/of/type", &["typeId", "current", "x", "y", "sortBy"]),
        ("/api/shop/of/name", &["name", "current"]),
        ("/api/voucher-order", &["limit", "cursor"]),
        ("/orders", &["cursor", "lang", "theme"]),
        ("/", &["lang", "theme", "shop"]),
        ("/login", &["next", "lang", "code"]),
        ("/docs", &["lang"]),
        ("/admin/vouchers/new", &["copy", "from"]),
        ("/admin/audit-log", &["cursor"]),
        ("/admin/outbox", &["cursor"]),
        ("/admin/users", &["q", "phone", "cursor"]),
        ("/admin/dead-letters", &["cursor"]),
        ("/healthz", &["x"]),
    ];
    let (path, names) = *w.one(READS);
    let mut query = String::new();
    for _ in 0..=w.below(3) {
        let value = if w.below(2) == 0 { w.text() } else { w.no_id() };
        let value: String = value.chars().take(400).collect();
        for part in ["&", w.word(names), "=", &w.encoded(&value)] {
            query.push_str(part);
        }
    }
    let who = if w.below(2) == 0 { &world.admin } else { &world.buyer };
    get(format!("{path}?{query}")).by(who).with("accept", *w.one(&["text/html", "application/json", "*/*", ""]))
}

fn tickets(w: &mut Words, world: &World) -> Case {
    // A good one with one letter changed, or anything.
    let mut ticket = world.ticket.clone().into_bytes();
    let text = if w.below(2) == 0 {
        let at = w.below(ticket.len());
        ticket[at] = if ticket[at] == b'A' { b'B' } else { b'A' };
        String::from_utf8(ticket).unwrap()
    } else {
        w.text().chars().take(700).collect()
    };
    let case = match w.below(3) {
        0 => get(format!("/api/voucher-order?cursor={}", w.encoded(&format!("x{text}")))).by(&world.buyer),
        _ => get(format!("/api/voucher-order/{}?ticket={}", world.order, w.encoded(&text))).by(&world.stranger),
    };
    Case { expect: Expect::Refused, ..case }
}

fn account_json(w: &mut Words, world: &World) -> Case {
    let path = *w.one(&["/api/user/register", "/api/user/login", "/api/user/password"]);
    let kind = *w.one(&[JSON, JSON, JSON, "application/json; charset=utf-8", "text/plain", FORM, "application/xml", ""]);
    let quoted = |text: String| serde_json::to_string(&text).unwrap();
    let body = match w.below(4) {
        0 => w.no_json(),
        1 => format!("{{\"phone\":{},\"password\":{}}}", quoted(w.no_phone()), quoted(w.text())).into_bytes(),
        // A field that nobody asks for: somebody wants to be more than he is.
        2 => {
            let extra = *w.one(&["admin", "isAdmin", "is_admin", "role", "id", "userId", "status", "credits", "Phone"]);
            format!(
                "{{\"phone\":\"13512345678\",\"password\":\"korrekt pferd\",\"{extra}\":{}}}",
                w.one(&["true", "1", "\"admin\"", "[]"])
            )
            .into_bytes()
        }
        _ => format!("{{\"phone\":{},\"password\":{}}}", w.no_number(), w.no_number()).into_bytes(),
    };
    let case = post(path, kind, body);
    if path.ends_with("password") { case.by(&world.buyer) } else { case }
}

fn account_forms(w: &mut Words, world: &World) -> Case {
    let path = *w.one(&["/register", "/login", "/account/password"]);
    let (phone, password, next) = (w.no_phone(), w.text(), w.text());
    let body = match w.below(3) {
        0 => w.bytes(400),
        1 => format!("phone={}&password={}&next={}", w.encoded(&phone), w.encoded(&password), w.encoded(&next)).into_bytes(),
        _ => format!("phone={0}&phone={0}&nickName={1}&oldPassword={1}&newPassword={1}", w.encoded(&phone), w.encoded(&next))
            .into_bytes(),
    };
    let kind = *w.one(&[FORM, FORM, FORM, "multipart/form-data; boundary=x", "text/plain", JSON]);
    let who = if w.below(2) == 0 { "nobody" } else { &world.buyer };
    post(path, kind, body).in_a_page(who)
}

/// The fields of a sale with `wrong` in place of one of them.
fn sale(world: &World, field: &str, wrong: &str, form: bool) -> String {
    let shop = world.shop.to_string();
    let good = [
        ("shopId", shop.as_str()),
        ("title", "\"午餐\""),
        ("payValue", "4900"),
        ("actualValue", "10000"),
        ("stock", "10"),
        ("beginTime", "\"2030-01-01T00:00:00Z\""),
        ("endTime", "\"2030-02-01T00:00:00Z\""),
    ];
    let mut parts = Vec::new();
    for (name, value) in good {
        let value = if name == field { wrong } else { value };
        parts.push(if form { format!("{name}={}", value.trim_matches('"')) } else { format!("\"{name}\":{value}") });
    }
    if !good.iter().any(|(name, _)| *name == field) {
        parts.push(if form { format!("{field}={wrong}") } else { format!("\"{field}\":{wrong}") });
    }
    if form { parts.join("&") } else { format!("{{{}}}", parts.join(",")) }
}

const NUMBERS: &[&str] = &["payValue", "actualValue", "stock", "shopId"];
const TIMES: &[&str] = &["beginTime", "endTime"];

fn voucher_json(w: &mut Words, world: &World) -> Case {
    let quoted = |text: &str| serde_json::to_string(text).unwrap();
    let (field, wrong) = match w.below(6) {
        0 => (*w.one(TIMES), quoted(&w.no_time())),
        1 => ("title", quoted(w.word(&["", " ", "\u{0}", "\u{202e}a", "a\nb", "\u{1b}[1m"]))),
        2 => ("title", quoted(&"店".repeat(101 + w.below(900)))),
        3 => (*w.one(&["stock_left", "id", "epoch", "version", "status", "sold", "Stock", "x"]), String::from("1")),
        _ => (*w.one(NUMBERS), w.no_number()),
    };
    // An empty title or end is as missing; an empty begin too: each of them is asked for.
    let case = if w.below(8) == 0 {
        post("/api/voucher/seckill", JSON, w.no_json())
    } else {
        post("/api/voucher/seckill", JSON, sale(world, field, &wrong, false))
    };
    match w.below(8) {
        0 => case.by(&world.buyer),
        1 => case.by(&world.admin).with("idempotency-key", w.header()),
        _ => case.by(&world.admin),
    }
}

fn voucher_form(w: &mut Words, world: &World) -> Case {
    let (field, wrong) = match w.below(4) {
        0 => (*w.one(TIMES), w.no_time()),
        1 => ("title", (*w.one(&["", " ", "\u{0}", "\u{202e}a", "\u{1b}[1m"])).to_owned()),
        _ => {
            let text = w.no_id();
            // An amount in yuan may have what a number may not.
            (
                *w.one(&["stock", "shopId"]),
                if text.trim().parse::<i64>().is_ok_and(|n| n >= 0) { String::from("x") } else { text },
            )
        }
    };
    let wrong = form_urlencoded::byte_serialize(wrong.as_bytes()).collect::<String>();
    let body = if w.below(8) == 0 { w.bytes(500) } else { sale(world, field, &wrong, true).into_bytes() };
    post("/admin/vouchers/new", FORM, body).in_a_page(if w.below(6) == 0 { &world.buyer } else { &world.admin })
}

fn desk_forms(w: &mut Words, world: &World) -> Case {
    let (what, fields): (&str, &[&str]) = *w.one(&[
        ("stock", &["delta", "version"][..]),
        ("edit", &["title", "subTitle", "rules", "version"]),
        ("end", &["version"]),
    ]);
    let mut body = String::new();
    for field in fields {
        let value = if *field == "title" || *field == "rules" { w.text() } else { format!("x{}", w.no_id()) };
        let value: String = form_urlencoded::byte_serialize(value.as_bytes()).collect();
        for part in [field, "=", &value, "&"] {
            body.push_str(part);
        }
    }
    // Somebody who may not, or somebody who may and says nonsense. The end of a sale needs no more than a click: a buyer's only.
    let who = if what == "end" || w.below(3) == 0 { &world.buyer } else { &world.admin };
    post(&format!("/admin/vouchers/{}/{what}", world.voucher), FORM, body).in_a_page(who)
}

fn notices(w: &mut Words, world: &World) -> Case {
    let keys: SigningKeys = super::SECRET.parse().unwrap();
    let good = format!(
        "{{\"type\":\"payment.succeeded\",\"data\":{{\"orderId\":\"{}\",\"transactionId\":\"fuzz\",\"amount\":4900}}}}",
        world.order
    );
    let seconds = world.clock.now().0 / 1000;
    let id = format!("fuzz-{}", w.below(1_000_000));
    let signed = |body: &[u8]| keys.sign(&id, seconds, body);
    let (signature, at, body) = match w.below(5) {
        // One bit of a signed call.
        0 => {
            let signature = signed(good.as_bytes());
            let mut body = good.into_bytes();
            let at = w.below(body.len() * 8);
            body[at / 8] ^= 1 << (at % 8);
            (signature, seconds.to_string(), body)
        }
        1 => {
            let mut signature = signed(good.as_bytes()).into_bytes();
            let at = w.below(signature.len() - 2);
            signature[at] = if signature[at] == b'A' { b'B' } else { b'A' };
            (String::from_utf8(signature).unwrap(), seconds.to_string(), good.into_bytes())
        }
        2 => (signed(good.as_bytes()), w.header(), good.into_bytes()),
        3 => (w.header(), seconds.to_string(), good.into_bytes()),
        // Signed well, and nonsense.
        _ => {
            let body = match w.below(4) {
                0 => w.no_json(),
                1 => {
                    good.replace("4900", w.word(&["\"4900\"", "4900.0", "1e9", "null", "{}", "9223372036854775808"])).into_bytes()
                }
                2 => good
                    .replace(
                        &world.order.to_string(),
                        w.word(&["0", "-1", "01", "１", "", "9223372036854775808", " 1", "1e3", "\\u0000"]),
                    )
                    .into_bytes(),
                _ => good.replace("fuzz", w.word(&["", "a b", "\\n", "\\u0000", "店"])).into_bytes(),
            };
            // What is no notice at all: another type is answered and ignored.
            (signed(&body), seconds.to_string(), body)
        }
    };
    post("/api/payment/callback", JSON, body)
        .with("webhook-id", id.clone())
        .with("webhook-timestamp", at)
        .with("webhook-signature", signature)
}

fn headers(w: &mut Words, world: &World) -> Case {
    const NAMES: &[&str] = &[
        "accept",
        "accept-language",
        "accept-encoding",
        "x-request-id",
        "x-forwarded-for",
        "x-forwarded-proto",
        "forwarded",
        "x-real-ip",
        "referer",
        "origin",
        "range",
        "if-none-match",
        "x-http-method-override",
        "sec-fetch-site",
        "te",
        "user-agent",
        "cookie",
        "content-encoding",
    ];
    let path = *w.one(&[
        "/",
        "/login",
        "/api/shop-type/list",
        "/nowhere",
        "/api/nowhere",
        "/static/app.css",
        "/openapi.json",
        "/ws",
        "/shop/1",
        "/metrics",
        "/readyz",
    ]);
    let mut case = get(path.to_owned());
    if w.below(3) == 0 {
        case = case.by(&world.buyer);
    }
    for _ in 0..=w.below(5) {
        let name = *w.one(NAMES);
        // Bytes above ASCII may stand in a header.
        let value = if w.below(3) == 0 { w.bytes(60).into_iter().map(|b| b | 0x80).collect() } else { w.header().into_bytes() };
        case = case.with(name, value);
    }
    case
}
