//! What every handler may use, put together once by `app.rs`.

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use ipnet::IpNet;
use jiff::tz::TimeZone;
use metrics_exporter_prometheus::PrometheusHandle;

use crate::clock::Clock;
use crate::config::{PublicUrl, RateLimit};
use crate::push::hub::Hub;
use crate::redis::Redis;
use crate::service::code_sender::SandboxSms;
use crate::service::desk::Desk;
use crate::service::money::Money;
use crate::service::orders::Orders;
use crate::service::purchase::Purchase;
use crate::service::sales::Sales;
use crate::service::scrape::Scrape;
use crate::service::shops::Shops;
use crate::service::users::Users;
use crate::shutdown::Shutdown;
use crate::store::Store;
use crate::web::captcha::Pressure;
use crate::web::limits::Limits;
use crate::web::sale_watch::SaleBoard;
use crate::web::session::{Captchas, CookieRules, Guesses, LoginCodes, Sessions};

/// The parts that `app.rs` hands over.
pub struct Parts {
    /// Reads only.
    pub store: Store,
    /// For readiness only.
    pub redis: Redis,
    /// The time.
    pub clock: Clock,
    /// Who is it?
    pub sessions: Sessions,
    /// Login codes.
    pub codes: LoginCodes,
    /// Guesses at accounts.
    pub guesses: Guesses,
    /// Challenges that wait for their answer.
    pub captchas: Captchas,
    /// The sender that shows codes on a page; none: they go elsewhere, or nowhere.
    pub sandbox_sms: Option<Arc<SandboxSms>>,
    /// Whether that page is shown to everybody, or on this machine only.
    pub sandbox_for_all: bool,
    /// People.
    pub users: Users,
    /// Shops.
    pub shops: Shops,
    /// Vouchers and sales.
    pub sales: Arc<Sales>,
    /// The control room.
    pub desk: Arc<Desk>,
    /// Clicks.
    pub purchase: Arc<Purchase>,
    /// Orders.
    pub orders: Arc<Orders>,
    /// What becomes of a saved order.
    pub money: Arc<Money>,
    /// Sockets.
    pub hub: Hub,
    /// Zone of times without an offset, and of pages.
    pub zone: TimeZone,
    /// Where browsers reach the shop.
    pub public_url: PublicUrl,
    /// How fast one client may be.
    pub rate_limit: RateLimit,
    /// Whose `X-Forwarded-For` is believed.
    pub trusted_proxies: Vec<IpNet>,
    /// How long a session lives at most: the cookie's age.
    pub session_max: Duration,
    /// How long a buyer has to pay: pages say it.
    pub pay_window: Duration,
    /// The figures of the process.
    pub metrics: PrometheusHandle,
    /// `/metrics` has a listener of its own and is not on this one.
    pub metrics_elsewhere: bool,
    /// What the figures ask the stores for.
    pub scrape: Scrape,
    /// Whether the end has begun.
    pub shutdown: Shutdown,
}

/// The parts and what is made of them.
pub struct Shared {
    /// As handed over.
    pub parts: Parts,
    /// The buckets.
    pub limits: Limits,
    /// How the session cookie is written.
    pub cookie: CookieRules,
    /// How fast challenges are asked for.
    pub pressure: Pressure,
    /// What watchers of sales were told last.
    pub board: SaleBoard,
}

impl Deref for Shared {
    type Target = Parts;
    fn deref(&self) -> &Parts {
        &self.parts
    }
}

/// The state of every route; cheap to clone.
#[derive(Clone)]
pub struct AppState(Arc<Shared>);

impl AppState {
    /// Puts the parts together.
    #[must_use]
    pub fn new(parts: Parts) -> Self {
        let limits = Limits::new(parts.rate_limit, parts.clock.clone());
        let cookie = CookieRules::new(parts.public_url.is_tls(), parts.session_max);
        Self(Arc::new(Shared { parts, limits, cookie, pressure: Pressure::default(), board: SaleBoard::default() }))
    }
}

impl Deref for AppState {
    type Target = Shared;
    fn deref(&self) -> &Shared {
        &self.0
    }
}
