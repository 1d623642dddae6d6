//! Every path that programs may call, as a table: who may, what goes in, what comes out, how it can be refused.
//!
//! A test holds it against the routes, both ways, and real answers against its schemas.

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
    /// One sentence.
    pub summary: &'static str,
    /// Who may.
    pub who: Who,
    /// What may stand in the query.
    pub query: &'static [Query],
    /// The schema of the body; a leading `?`: it may be left out.
    pub body: Option<&'static str>,
    /// What comes out.
    pub answer: Answer,
    /// Codes of CONTRACT beyond those that every such operation shares.
    pub refusals: &'static [&'static str],
}

const fn op(
    method: &'static str,
    path: &'static str,
    tag: &'static str,
    who: Who,
    answer: Answer,
    summary: &'static str,
) -> Operation {
    Operation { method, path, tag, summary, who, query: &[], body: None, answer, refusals: &[] }
}

impl Operation {
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
const LIMITED: &str = "TOO_MANY_REQUESTS";

use Answer::{Data, DataAndTicket, Done, Json, Other, Upgrade};
use Who::{Admin, Anyone, Provider, Ticket, User};

/// The table.
pub const OPERATIONS: &[Operation] = &[
    op(
        "POST",
        "/api/voucher-order/seckill/{voucherId}",
        "purchase",
        User,
        DataAndTicket("OrderId"),
        "Buy one unit. The order is queued; a holder always hears DUPLICATE with the order that he has.",
    )
    .body("?Purchase")
    .refuses(&[
        "SOLD_OUT",
        "DUPLICATE",
        "NOT_BEGUN",
        "ENDED",
        "PAUSED",
        "CAPTCHA_REQUIRED",
        "NOT_FOUND",
        LIMITED,
        "UNCERTAIN",
    ]),
    op(
        "GET",
        "/api/captcha/{voucherId}",
        "purchase",
        User,
        Data("Captcha"),
        "A challenge for a sale that asks for one; 404 for any other.",
    )
    .refuses(&["NOT_FOUND", LIMITED]),
    op("GET", "/api/voucher-order/{id}", "orders", Ticket, Data("OrderWithPayments"), "One order, also while it is queued.")
        .query(&[("ticket", "ticket", false)])
        .refuses(&["NOT_FOUND"]),
    op("GET", "/api/voucher-order", "orders", User, Data("Orders"), "Your orders, newest first.").query(LIST),
    op("POST", "/api/voucher-order/{id}/cancel", "orders", User, Data("Order"), "Cancel an order that is not paid.").refuses(&[
        "NOT_FOUND",
        "WRONG_STATE",
        "QUEUED",
    ]),
    op(
        "POST",
        "/api/voucher-order/{id}/pay",
        "orders",
        User,
        Data("PayUrl"),
        "Where to pay; the same payment as long as the order waits for it.",
    )
    .refuses(&["NOT_FOUND", "WRONG_STATE", "QUEUED"]),
    op("POST", "/api/voucher-order/{id}/timeout", "orders", Admin, Data("Order"), "Close an order past its pay window.")
        .refuses(&["NOT_FOUND", "WRONG_STATE", "QUEUED"]),
    op("POST", "/api/voucher-order/{id}/refund", "orders", Admin, Data("Order"), "Send the money of a paid order back, once.")
        .body("?Refund")
        .refuses(&["NOT_FOUND", "WRONG_STATE", "QUEUED"]),
    op(
        "POST",
        "/api/payment/callback",
        "payments",
        Provider,
        Done,
        "A notice of payment, signed as Standard Webhooks has it. 202 when its order is not saved yet.",
    )
    .body("Notice")
    .refuses(&["BAD_SIGNATURE", "NOT_FOUND", "OTHER_BODY", "OTHER_ORDER", "WRONG_AMOUNT", LIMITED]),
    op("POST", "/api/user/register", "users", Anyone, Data("Token"), "Make an account and log in.").body("Register").refuses(&[
        "INVALID",
        "PHONE_TAKEN",
        LIMITED,
    ]),
    op("POST", "/api/user/login", "users", Anyone, Data("Token"), "Log in by password or code.").body("Login").refuses(&[
        "BAD_CREDENTIALS",
        "BAD_CODE",
        "BAD_PHONE",
        LIMITED,
    ]),
    op("POST", "/api/user/code", "users", Anyone, Done, "Send a login code, one a minute for each phone.")
        .query(&[("phone", "phone", true)])
        .refuses(&["BAD_PHONE", LIMITED]),
    op("POST", "/api/user/logout", "users", User, Done, "End this session."),
    op("POST", "/api/user/password", "users", User, Done, "Change the password; the other sessions end.")
        .body("PasswordChange")
        .refuses(&["BAD_CREDENTIALS", "INVALID", LIMITED]),
    op("GET", "/api/user/me", "users", User, Data("Me"), "Who you are."),
    op("GET", "/api/user/info/{id}", "users", Anyone, Done, "Nothing is told of anybody."),
    op("POST", "/api/user/{id}/disable", "users", Admin, Data("UserState"), "Lock a user out and end his sessions.")
        .refuses(&["NOT_FOUND"]),
    op("POST", "/api/user/{id}/enable", "users", Admin, Data("UserState"), "Let a user in again.").refuses(&["NOT_FOUND"]),
    op("POST", "/api/user/{id}/logout", "users", Admin, Done, "End every session of a user.").refuses(&["NOT_FOUND"]),
    op("GET", "/api/shop/{id}", "shops", Anyone, Data("Shop"), "One shop.").refuses(&["NOT_FOUND"]),
    op(
        "GET",
        "/api/shop/of/type",
        "shops",
        Anyone,
        Data("Shops"),
        "Shops of a type, five a page; nearest first when a place is given.",
    )
    .query(&[
        ("typeId", "id", true),
        ("current", "page", false),
        ("x", "degrees", false),
        ("y", "degrees", false),
        ("sortBy", "sortBy", false),
    ]),
    op("GET", "/api/shop/of/name", "shops", Anyone, Data("Shops"), "Shops by a part of their name, five a page.")
        .query(&[("name", "text", false), ("current", "page", false)]),
    op("GET", "/api/shop-type/list", "shops", Anyone, Data("ShopTypes"), "The types of shops."),
    op("GET", "/api/picture/shop.svg", "shops", Anyone, Other("image/svg+xml"), "The picture of a shop that has none."),
    op("POST", "/api/shop", "shops", Admin, Data("Id"), "Add a shop.").body("NewShop").refuses(&["INVALID"]),
    op("GET", "/api/voucher/list/{shopId}", "vouchers", Anyone, Data("Vouchers"), "The vouchers of a shop, sales among them."),
    op(
        "POST",
        "/api/voucher",
        "vouchers",
        Admin,
        Data("Id"),
        "Add an everyday voucher. The same Idempotency-Key gives the same voucher.",
    )
    .body("NewVoucher")
    .refuses(&["INVALID"]),
    op(
        "POST",
        "/api/voucher/seckill",
        "vouchers",
        Admin,
        Data("Id"),
        "Add a voucher with a sale; it can be bought within a second. The same Idempotency-Key gives the same voucher.",
    )
    .body("NewSale")
    .refuses(&["INVALID"]),
    op("GET", "/api/blog/hot", "shops", Anyone, Data("Empty"), "There are no blogs."),
    op("GET", "/api/blog/of/me", "shops", Anyone, Data("Empty"), "There are no blogs."),
    op("GET", "/api/blog/of/follow", "shops", Anyone, Done, "Nobody to follow."),
    op("GET", "/api/admin/sale/{voucherId}", "control room", Admin, Data("Sale"), "The figures of a sale, from both stores.")
        .refuses(&["NOT_FOUND"]),
    op(
        "GET",
        "/api/admin/sale/{voucherId}/samples",
        "control room",
        Admin,
        Data("Answer"),
        "The figures of the last ten minutes, a sample a second, as the answering process saw them.",
    )
    .refuses(&["NOT_FOUND"]),
    op("GET", "/api/admin/sale/{voucherId}/orders", "control room", Admin, Data("Page"), "The orders of a sale, newest first.")
        .query(LIST)
        .refuses(&["NOT_FOUND"]),
    op(
        "POST",
        "/api/admin/sale/{voucherId}/pause",
        "control room",
        Admin,
        Data("Answer"),
        "Stop admission; who is queued keeps his unit.",
    )
    .refuses(&["NOT_FOUND", "WRONG_STATE"]),
    op("POST", "/api/admin/sale/{voucherId}/resume", "control room", Admin, Data("Answer"), "Admit again.")
        .refuses(&["NOT_FOUND", "WRONG_STATE"]),
    op("POST", "/api/admin/sale/{voucherId}/end", "control room", Admin, Data("Answer"), "End the sale now.")
        .refuses(&["NOT_FOUND", "WRONG_STATE"]),
    op(
        "POST",
        "/api/admin/sale/{voucherId}/rebuild",
        "control room",
        Admin,
        Data("Answer"),
        "Build the gate anew from the books.",
    )
    .refuses(&["NOT_FOUND", "WRONG_STATE"]),
    op(
        "POST",
        "/api/admin/sale/{voucherId}/stock",
        "control room",
        Admin,
        Data("Answer"),
        "Add units or take some away while it sells.",
    )
    .body("StockChange")
    .refuses(&["NOT_FOUND", "WRONG_STATE", "VERSION_CONFLICT", "INVALID"]),
    op("PATCH", "/api/admin/voucher/{id}", "control room", Admin, Data("Answer"), "Change the texts of a voucher.")
        .body("VoucherChange")
        .refuses(&["NOT_FOUND", "VERSION_CONFLICT", "INVALID"]),
    op("GET", "/api/admin/dead-letter", "control room", Admin, Data("Page"), "Entries that were put aside, newest first.")
        .query(LIST),
    op("POST", "/api/admin/dead-letter/{id}/retry", "control room", Admin, Data("Answer"), "Try to save one again.")
        .refuses(&["NOT_FOUND", "WRONG_STATE"]),
    op(
        "POST",
        "/api/admin/dead-letter/{id}/discard",
        "control room",
        Admin,
        Data("Answer"),
        "Give one up: its buyer reads FAILED, its unit goes back.",
    )
    .refuses(&["NOT_FOUND", "WRONG_STATE"]),
    op("GET", "/api/admin/outbox", "control room", Admin, Data("Page"), "Follow-ups that are not done.").query(LIST),
    op("GET", "/api/admin/audit-log", "control room", Admin, Data("Page"), "Who changed what, newest first.").query(LIST),
    op(
        "GET",
        "/api/admin/report/{voucherId}",
        "control room",
        Admin,
        Data("Report"),
        "What became of a sale. With .csv after the id: its orders as a table.",
    )
    .refuses(&["NOT_FOUND"]),
    op(
        "GET",
        "/ws",
        "live",
        Anyone,
        Upgrade,
        "The live channel: a snapshot, then every change of your orders; a visitor may watch vouchers.",
    ),
    op("GET", "/healthz", "operation", Anyone, Other("text/plain"), "200 once HTTP answers."),
    op(
        "GET",
        "/readyz",
        "operation",
        Anyone,
        Json("Ready"),
        "200 when database, Redis and the open sales are there, else 503 with the reasons.",
    ),
    op(
        "GET",
        "/metrics",
        "operation",
        Anyone,
        Other("text/plain"),
        "Figures for Prometheus; to clients on this machine, or on a listener of its own.",
    ),
    op("GET", "/openapi.json", "operation", Anyone, Json("Answer"), "This description."),
    op("GET", "/docs", "operation", Anyone, Other("text/html"), "This description as a page."),
    op("GET", "/sandbox-pay/books", "payments", Admin, Json("Books"), "The sandbox provider's own books.")
        .refuses(&["NOT_FOUND"]),
];
