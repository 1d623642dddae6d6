//! Every path of the shop, on one page. The hot one carries no layer at all.

use axum::Router;
use axum::middleware::{from_fn, from_fn_with_state};
use axum::routing::{get, patch, post};
use tower_http::catch_panic::CatchPanicLayer;
use tower_http::compression::CompressionLayer;
use tower_http::limit::RequestBodyLimitLayer;
use tower_http::request_id::{PropagateRequestIdLayer, SetRequestIdLayer};

use crate::web::csrf::{Csrf, guard};
use crate::web::error::Problem;
use crate::web::fields::MAX_BODY;
use crate::web::finish::finish;
use crate::web::handlers::{
    account, admin, callback, captcha, desk, desk_lists, desk_live, docs, front, order_life, orders, purchase, sandbox, shops,
    users, vouchers,
};
use crate::web::handlers::{admin_lists, control, reports};
use crate::web::hot::{self, Hot};
use crate::web::identify::identify;
use crate::web::observe::observe;
use crate::web::state::AppState;
use crate::web::{assets, health, openapi, request_id, socket};

/// The whole outside. Serve it with `into_make_service_with_connect_info::<SocketAddr>()`: limits and `/metrics` ask
/// where a request comes from.
pub fn router(state: AppState) -> Router {
    // What became of a click.
    let warm = Router::new()
        .route("/api/voucher-order/{id}", get(orders::one))
        .route("/api/captcha/{voucherId}", get(captcha::challenge))
        .route("/ws", get(socket::upgrade));

    let api = Router::new()
        .route("/api/user/register", post(users::register))
        .route("/api/user/login", post(users::login))
        .route("/api/user/code", post(users::code))
        .route("/api/user/logout", post(users::logout))
        .route("/api/user/password", post(users::password))
        .route("/api/user/me", get(users::me))
        .route("/api/user/info/{id}", get(users::info))
        .route("/api/user/{id}/disable", post(users::disable))
        .route("/api/user/{id}/enable", post(users::enable))
        .route("/api/user/{id}/logout", post(users::logout_everywhere))
        .route("/api/shop", post(shops::create))
        .route("/api/shop/{id}", get(shops::one))
        .route("/api/shop/of/type", get(shops::of_type))
        .route("/api/shop/of/name", get(shops::of_name))
        .route("/api/shop-type/list", get(shops::types))
        .route("/api/picture/shop.svg", get(shops::picture))
        .route("/api/voucher", post(vouchers::create))
        .route("/api/voucher/seckill", post(vouchers::create_sale))
        .route("/api/voucher/list/{shopId}", get(vouchers::list))
        .route("/api/voucher-order", get(orders::list))
        .route("/api/voucher-order/{id}/cancel", post(order_life::cancel))
        .route("/api/voucher-order/{id}/timeout", post(order_life::time_out))
        .route("/api/voucher-order/{id}/pay", post(order_life::pay))
        .route("/api/voucher-order/{id}/refund", post(order_life::refund))
        .route("/api/admin/sale/{voucherId}", get(control::sale))
        .route("/api/admin/sale/{voucherId}/samples", get(control::samples))
        .route("/api/admin/sale/{voucherId}/orders", get(admin_lists::orders))
        .route("/api/admin/sale/{voucherId}/pause", post(control::pause))
        .route("/api/admin/sale/{voucherId}/resume", post(control::resume))
        .route("/api/admin/sale/{voucherId}/end", post(control::end))
        .route("/api/admin/sale/{voucherId}/rebuild", post(control::rebuild))
        .route("/api/admin/sale/{voucherId}/stock", post(control::stock))
        .route("/api/admin/voucher/{id}", patch(control::edit))
        .route("/api/admin/dead-letter", get(admin_lists::dead_letters))
        .route("/api/admin/dead-letter/{id}/retry", post(admin_lists::retry))
        .route("/api/admin/dead-letter/{id}/discard", post(admin_lists::discard))
        .route("/api/admin/outbox", get(admin_lists::outbox))
        .route("/api/admin/audit-log", get(admin_lists::audit_log))
        .route("/api/admin/report/{voucherId}", get(reports::report))
        .route("/api/blog/hot", get(shops::no_blogs))
        .route("/api/blog/of/me", get(shops::no_blogs))
        .route("/api/blog/of/follow", get(shops::nothing));

    let pages = Router::new()
        .route("/", get(front::front))
        .route("/shop/{id}", get(front::shop))
        .route("/vouchers/{id}/buy", post(purchase::buy_form))
        .route("/login", get(account::login_page).post(account::login))
        .route("/register", get(account::register_page).post(account::register))
        .route("/logout", post(account::logout))
        .route("/account", get(account::account))
        .route("/account/password", post(account::password))
        .route("/orders", get(orders::list_page))
        .route("/orders/{id}", get(orders::one_page))
        .route("/orders/{id}/pay", post(order_life::pay_form))
        .route("/orders/{id}/cancel", post(order_life::cancel_form))
        .route("/docs", get(docs::page))
        .route("/sandbox-sms", get(users::sandbox_sms))
        .route("/sandbox-pay/books", get(sandbox::books))
        .route("/sandbox-pay/{paymentId}", get(sandbox::page).post(sandbox::press))
        .merge(control_room());

    // Nobody has to be known for these.
    let plain = health_routes().route("/openapi.json", get(openapi::serve)).route("/static/{*path}", get(assets::serve));

    // The provider's notices: a signature of their own, no session, no browser.
    let provider = sandbox_routes().route("/api/payment/callback", post(callback::notice));

    let known = warm
        .merge(api.merge(pages).layer(CompressionLayer::new()))
        .fallback(|| async { Problem::NotFound })
        .layer(from_fn_with_state(Csrf::new(&state.public_url), guard));
    let known = outer(known, &state, MAX_BODY).layer(from_fn_with_state(state.clone(), identify));
    let plain = outer(plain.layer(CompressionLayer::new()), &state, MAX_BODY);

    let layered = numbered(known.merge(plain).merge(outer(provider, &state, callback::MAX_NOTICE)), state.clone());

    // A click on "buy" goes through the same checks without a single layer.
    let clicks = Router::new()
        .route("/api/voucher-order/seckill/{voucherId}", post(hot::buy).fallback(hot::other_method))
        .with_state(Hot::new(state));
    layered.merge(clicks)
}

/// The control room and the lists behind its numbers.
fn control_room() -> Router<AppState> {
    Router::new()
        .route("/admin", get(desk::control_room))
        .route("/admin/vouchers/new", get(admin::form).post(admin::submit))
        .route("/admin/vouchers/{id}", get(desk::voucher))
        .route("/admin/vouchers/{id}/pause", post(desk::pause))
        .route("/admin/vouchers/{id}/resume", post(desk::resume))
        .route("/admin/vouchers/{id}/rebuild", post(desk::rebuild))
        .route("/admin/vouchers/{id}/end", get(desk::end_page).post(desk::end))
        .route("/admin/vouchers/{id}/stock", get(desk_lists::stock).post(desk::stock))
        .route("/admin/vouchers/{id}/edit", post(desk::edit))
        .route("/admin/vouchers/{id}/orders", get(desk_lists::orders))
        .route("/admin/vouchers/{id}/refusals", get(desk_lists::refusals))
        .route("/admin/reports/{id}", get(desk_lists::report))
        .route("/admin/sockets", get(desk_live::sockets))
        .route("/admin/waiting", get(desk_live::waiting))
        .route("/admin/seconds", get(desk_live::seconds))
        .route("/admin/outbox", get(desk_lists::outbox))
        .route("/admin/audit-log", get(desk_lists::audit_log))
        .route("/admin/dead-letters", get(desk_lists::letters))
        .route("/admin/dead-letters/{id}/retry", post(desk_lists::retry))
        .route("/admin/dead-letters/{id}/discard", get(desk_lists::discard_page).post(desk_lists::discard))
        .route("/admin/users", get(desk_lists::users))
        .route("/admin/users/{id}/disable", post(desk_lists::disable))
        .route("/admin/users/{id}/enable", post(desk_lists::enable))
        .route("/admin/users/{id}/logout", post(desk_lists::logout))
}

/// What a process without the web role answers: health and figures, and nothing else but itself, when its loops speak to the
/// sandbox.
pub fn health_only(state: AppState) -> Router {
    let routes = health_routes().merge(sandbox_routes()).fallback(|| async { Problem::NotFound });
    numbered(outer(routes, &state, MAX_BODY), state)
}

/// The sandbox's interface, for whoever has its token; to everybody else it is not there.
fn sandbox_routes() -> Router<AppState> {
    Router::new()
        .route("/sandbox-provider/payments", post(sandbox::create))
        .route("/sandbox-provider/refunds", post(sandbox::refund))
}

fn health_routes() -> Router<AppState> {
    Router::new()
        .route("/healthz", get(health::healthz))
        .route("/readyz", get(health::readyz))
        .route("/metrics", get(health::metrics))
}

/// What `--metrics-listen` answers: the figures, to everybody who reaches it, and whether the process lives.
pub fn metrics_only(state: AppState) -> Router {
    let routes = Router::new()
        .route("/metrics", get(health::metrics_for_all))
        .route("/healthz", get(health::healthz))
        .route("/readyz", get(health::readyz))
        .fallback(|| async { Problem::NotFound });
    numbered(outer(routes, &state, MAX_BODY), state)
}

/// Gives every request its number, and measures it.
fn numbered(routes: Router<AppState>, state: AppState) -> Router {
    routes
        .layer(from_fn(observe))
        .layer(PropagateRequestIdLayer::x_request_id())
        .layer(SetRequestIdLayer::x_request_id(request_id::NewId))
        .layer(from_fn(request_id::only_good))
        .with_state(state)
}

/// What stands around every route: words for problems, panics turned into one, a limit on bodies.
fn outer(routes: Router<AppState>, state: &AppState, most_bytes: usize) -> Router<AppState> {
    routes
        .layer(RequestBodyLimitLayer::new(most_bytes))
        .layer(CatchPanicLayer::custom(request_id::panicked))
        .layer(from_fn_with_state(state.clone(), finish))
}
