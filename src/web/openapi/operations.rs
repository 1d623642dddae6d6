//! Every path that programs may call, as a table: who may, what goes in, what comes out, how it can be refused.
//!
//! A test holds it against the routes, both ways, and real answers against its schemas. What each does stands in the
//! catalogue, as `op-…`.

use crate::i18n::Lang;

/// Who may call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Who {
    /// Anybody.
    Anyone,
    /// A user with a session.
    User,
    /// An admin.
    Admin,
    /// Its owner, an admin, or whoever has a ticket for it.
    Ticket,
    /// The payment provider, by its signature.
    Provider,
}

/// What a successful answer is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// The envelope around a schema.
    Data(&'static str),
    /// The same, with a ticket beside the data.
    DataAndTicket(&'static str),
    /// The envelope alone.
    Done,
    /// A schema without the envelope, as JSON.
    Json(&'static str),
    /// Something that is no JSON: its media type.
    Other(&'static str),
    /// The connection becomes a WebSocket.
    Upgrade,
}

/// A value in the query: name, schema, whether it must be there.
pub type Query = (&'static str, &'static str, bool);

/// One method of one path.
#[derive(Debug, Clone, Copy)]
pub struct Operation {
    /// Upper case.
    pub method: &'static str,
    /// As in the routes.
    pub path: &'static str,
    /// What it belongs to.
    pub tag: &'static str,
    /// Who may.
    pub who: Who,
    /// What may stand in the query.
    pub query: &'static [Query],
    /// The schema of the body; a leading `?`: it may be left out.
    pub body: Option<&'static str>,
    /// An `Idempotency-Key` makes a repeat harmless.
    pub keyed: bool,
    /// What comes out.
    pub answer: Answer,
    /// Codes of CONTRACT beyond those that every such operation shares.
    pub refusals: &'static [&'static str],
}

const fn op(method: &'static str, path: &'static str, tag: &'static str, who: Who, answer: Answer) -> Operation {
    Operation { method, path, tag, who, query: &[], body: None, keyed: false, answer, refusals: &[] }
}

impl Operation {
    /// What it does, in one sentence.
    #[must_use]
    pub fn summary(&self, lang: Lang) -> String {
        lang.t(&format!("op-{}", self.id().replace('_', "-")))
    }

    const fn keyed(mut self) -> Self {
        self.keyed = true;
        self
    }
    const fn body(mut self, schema: &'static str) -> Self {
        self.body = Some(schema);
        self
    }
    const fn query(mut self, query: &'static [Query]) -> Self {
        self.query = query;
        self
    }
    const fn refuses(mut self, codes: &'static [&'static str]) -> Self {
        self.refusals = codes;
        self
    }
}

const LIST: &[Query] = &[("limit", "limit", false), ("cursor", "cursor", false)];
/// How a list of orders is narrowed.
const ORDERS: &[Query] = &[
    ("limit", "limit", false),
    ("cursor", "cursor", false),
    ("status", "status", false),
    ("closeReason", "closeReason", false),
    ("live", "live", false),
];
const OUTBOX: &[Query] =
    &[("limit", "limit", false), ("cursor", "cursor", false), ("state", "outboxState", false), ("voucherId", "id", false)];
const LIMITED: &str = "TOO_MANY_REQUESTS";

use Answer::{Data, DataAndTicket, Done, Json, Other, Upgrade};
use Who::{Admin, Anyone, Provider, Ticket, User};

/// The table.
pub const OPERATIONS: &[Operation] = &[
    op("POST", "/api/voucher-order/seckill/{voucherId}", "purchase", User, DataAndTicket("OrderId")).body("?Purchase").refuses(
        &["SOLD_OUT", "DUPLICATE", "NOT_BEGUN", "ENDED", "PAUSED", "CAPTCHA_REQUIRED", "NOT_FOUND", LIMITED, "UNCERTAIN"],
    ),
    op("GET", "/api/captcha/{voucherId}", "purchase", User, Data("Captcha")).refuses(&["NOT_FOUND", LIMITED]),
    op("GET", "/api/voucher-order/{id}", "orders", Ticket, Data("OrderWithPayments"))
        .query(&[("ticket", "ticket", false)])
        .refuses(&["NOT_FOUND"]),
    op("GET", "/api/voucher-order", "orders", User, Data("Orders")).query(LIST),
    op("POST", "/api/voucher-order/{id}/cancel", "orders", User, Data("Order")).refuses(&["NOT_FOUND", "WRONG_STATE", "QUEUED"]),
    op("POST", "/api/voucher-order/{id}/pay", "orders", User, Data("PayUrl")).refuses(&["NOT_FOUND", "WRONG_STATE", "QUEUED"]),
    op("POST", "/api/voucher-order/{id}/timeout", "orders", Admin, Data("Order")).refuses(&[
        "NOT_FOUND",
        "WRONG_STATE",
        "QUEUED",
    ]),
    op("POST", "/api/voucher-order/{id}/refund", "orders", Admin, Data("Order")).body("?Refund").refuses(&[
        "NOT_FOUND",
        "WRONG_STATE",
        "QUEUED",
    ]),
    op("POST", "/api/payment/callback", "payments", Provider, Done).body("Notice").refuses(&[
        "BAD_SIGNATURE",
        "NOT_FOUND",
        "OTHER_BODY",
        "OTHER_ORDER",
        "WRONG_AMOUNT",
        LIMITED,
    ]),
    op("POST", "/api/user/register", "users", Anyone, Data("Token")).body("Register").refuses(&[
        "INVALID",
        "PHONE_TAKEN",
        LIMITED,
    ]),
    op("POST", "/api/user/login", "users", Anyone, Data("Token")).body("Login").refuses(&[
        "BAD_CREDENTIALS",
        "BAD_CODE",
        "BAD_PHONE",
        LIMITED,
    ]),
    op("POST", "/api/user/code", "users", Anyone, Done).query(&[("phone", "phone", true)]).refuses(&["BAD_PHONE", LIMITED]),
    op("POST", "/api/user/logout", "users", User, Done),
    op("POST", "/api/user/password", "users", User, Done).body("PasswordChange").refuses(&[
        "BAD_CREDENTIALS",
        "INVALID",
        LIMITED,
    ]),
    op("GET", "/api/user/me", "users", User, Data("Me")),
    op("GET", "/api/user/info/{id}", "users", Anyone, Done),
    op("POST", "/api/user/{id}/disable", "users", Admin, Data("UserState")).refuses(&["NOT_FOUND"]),
    op("POST", "/api/user/{id}/enable", "users", Admin, Data("UserState")).refuses(&["NOT_FOUND"]),
    op("POST", "/api/user/{id}/logout", "users", Admin, Done).refuses(&["NOT_FOUND"]),
    op("GET", "/api/shop/{id}", "shops", Anyone, Data("Shop")).refuses(&["NOT_FOUND"]),
    op("GET", "/api/shop/of/type", "shops", Anyone, Data("Shops")).query(&[
        ("typeId", "id", true),
        ("current", "page", false),
        ("x", "degrees", false),
        ("y", "degrees", false),
        ("sortBy", "sortBy", false),
    ]),
    op("GET", "/api/shop/of/name", "shops", Anyone, Data("Shops")).query(&[("name", "text", false), ("current", "page", false)]),
    op("GET", "/api/shop-type/list", "shops", Anyone, Data("ShopTypes")),
    op("GET", "/api/picture/shop.svg", "shops", Anyone, Other("image/svg+xml")),
    op("POST", "/api/shop", "shops", Admin, Data("Id")).body("NewShop").refuses(&["INVALID"]),
    op("GET", "/api/voucher/list/{shopId}", "vouchers", Anyone, Data("Vouchers")),
    op("POST", "/api/voucher", "vouchers", Admin, Data("Id")).keyed().body("NewVoucher").refuses(&["INVALID"]),
    op("POST", "/api/voucher/seckill", "vouchers", Admin, Data("Id")).keyed().body("NewSale").refuses(&["INVALID"]),
    op("GET", "/api/blog/hot", "shops", Anyone, Data("Empty")),
    op("GET", "/api/blog/of/me", "shops", Anyone, Data("Empty")),
    op("GET", "/api/blog/of/follow", "shops", Anyone, Done),
    op("GET", "/api/admin/sale/{voucherId}", "control room", Admin, Data("Sale")).refuses(&["NOT_FOUND"]),
    op("GET", "/api/admin/sale/{voucherId}/samples", "control room", Admin, Data("Answer")).refuses(&["NOT_FOUND"]),
    op("GET", "/api/admin/sale/{voucherId}/orders", "control room", Admin, Data("Page")).query(ORDERS).refuses(&["NOT_FOUND"]),
    op("POST", "/api/admin/sale/{voucherId}/pause", "control room", Admin, Data("Answer")).refuses(&["NOT_FOUND", "WRONG_STATE"]),
    op("POST", "/api/admin/sale/{voucherId}/resume", "control room", Admin, Data("Answer"))
        .refuses(&["NOT_FOUND", "WRONG_STATE"]),
    op("POST", "/api/admin/sale/{voucherId}/end", "control room", Admin, Data("Answer")).refuses(&["NOT_FOUND", "WRONG_STATE"]),
    op("POST", "/api/admin/sale/{voucherId}/rebuild", "control room", Admin, Data("Answer"))
        .refuses(&["NOT_FOUND", "WRONG_STATE"]),
    op("POST", "/api/admin/sale/{voucherId}/stock", "control room", Admin, Data("Answer")).body("StockChange").refuses(&[
        "NOT_FOUND",
        "WRONG_STATE",
        "VERSION_CONFLICT",
        "INVALID",
    ]),
    op("PATCH", "/api/admin/voucher/{id}", "control room", Admin, Data("Answer")).body("VoucherChange").refuses(&[
        "NOT_FOUND",
        "VERSION_CONFLICT",
        "INVALID",
    ]),
    op("GET", "/api/admin/dead-letter", "control room", Admin, Data("Page")).query(LIST),
    op("POST", "/api/admin/dead-letter/{id}/retry", "control room", Admin, Data("Answer")).refuses(&["NOT_FOUND", "WRONG_STATE"]),
    op("POST", "/api/admin/dead-letter/{id}/discard", "control room", Admin, Data("Answer"))
        .refuses(&["NOT_FOUND", "WRONG_STATE"]),
    op("GET", "/api/admin/outbox", "control room", Admin, Data("Page")).query(OUTBOX),
    op("GET", "/api/admin/audit-log", "control room", Admin, Data("Page")).query(LIST),
    op("GET", "/api/admin/report/{voucherId}", "control room", Admin, Data("Report")).refuses(&["NOT_FOUND"]),
    op("GET", "/ws", "live", Anyone, Upgrade),
    op("GET", "/healthz", "operation", Anyone, Other("text/plain")),
    op("GET", "/readyz", "operation", Anyone, Json("Ready")),
    op("GET", "/metrics", "operation", Anyone, Other("text/plain")),
    op("GET", "/openapi.json", "operation", Anyone, Json("Answer")),
    op("GET", "/docs", "operation", Anyone, Other("text/html")),
    op("GET", "/sandbox-pay/books", "payments", Admin, Json("Books")).refuses(&["NOT_FOUND"]),
];
