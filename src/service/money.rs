//! The stories of an order's life after it was saved, put together once, so that the front doors and the loops share them.

use std::sync::Arc;
use std::time::Duration;

use crate::clock::Clock;
use crate::payment_provider::client::Provider;
use crate::payment_provider::http::Http;
use crate::payment_provider::signature::SigningKeys;
use crate::push::bus::Bus;
use crate::service::cancel::Cancels;
use crate::service::change::Wakes;
use crate::service::follow_up::FollowUps;
use crate::service::notice::Notices;
use crate::service::orders::Orders;
use crate::service::pay::{Addresses, Payments};
use crate::service::refund::Refunds;
use crate::service::release::Releases;
use crate::service::sandbox_provider::SandboxProvider;
use crate::store::Store;

/// What the stories stand on.
pub struct MoneyParts {
    /// The books.
    pub store: Store,
    /// Where an order is.
    pub orders: Arc<Orders>,
    /// Units given back.
    pub releases: Releases,
    /// Tells the buyers.
    pub bus: Bus,
    /// The time.
    pub clock: Clock,
    /// Whom to wake.
    pub wakes: Wakes,
    /// What notices are signed with.
    pub keys: SigningKeys,
    /// How long a buyer has to pay.
    pub pay_window: Duration,
    /// The provider's address; none: the sandbox.
    pub provider_url: Option<String>,
    /// Where this process answers itself, without a slash at the end.
    pub local: String,
    /// Where browsers reach the shop, without a slash at the end.
    pub public: String,
    /// What the sandbox knows its shop by.
    pub sandbox_token: String,
}

/// The stories; cheap to clone.
#[derive(Clone)]
pub struct Money {
    /// Unpaid orders end.
    pub cancels: Cancels,
    /// Payments begin.
    pub payments: Payments,
    /// Money came.
    pub notices: Notices,
    /// Money goes back.
    pub refunds: Refunds,
    /// What a payment is followed by.
    pub follow_ups: FollowUps,
    /// The built-in provider, when it is used.
    pub sandbox: Option<SandboxProvider>,
    /// Whom to wake.
    pub wakes: Wakes,
}

impl Money {
    /// Puts the stories together.
    #[must_use]
    pub fn new(parts: MoneyParts) -> Self {
        let MoneyParts {
            store,
            orders,
            releases,
            bus,
            clock,
            wakes,
            keys,
            pay_window,
            provider_url,
            local,
            public,
            sandbox_token,
        } = parts;
        let http = Http::default();
        // The sandbox's notices stay in this process whatever browsers use: they must not depend on a proxy in front.
        let (provider, provider_name, callback_base) = if let Some(url) = &provider_url {
            (Provider::new(http.clone(), url.clone(), None), "external", &public)
        } else {
            let base = format!("{local}/sandbox-provider");
            (Provider::new(http.clone(), base, Some(sandbox_token.clone())), "sandbox", &local)
        };
        let addresses = Addresses { callback: format!("{callback_base}/api/payment/callback"), public: public.clone() };
        let sandbox = provider_url.is_none().then(|| SandboxProvider {
            store: store.clone(),
            http,
            keys: keys.clone(),
            clock: clock.clone(),
            local,
            public,
            late: pay_window,
            token: sandbox_token,
        });
        Self {
            cancels: Cancels {
                store: store.clone(),
                orders: orders.clone(),
                releases,
                bus: bus.clone(),
                clock: clock.clone(),
                wakes: wakes.clone(),
            },
            payments: Payments { store: store.clone(), orders, provider: provider.clone(), clock: clock.clone(), addresses },
            notices: Notices {
                store: store.clone(),
                bus: bus.clone(),
                clock: clock.clone(),
                keys,
                provider: provider_name,
                pay_window,
                wakes: wakes.clone(),
            },
            refunds: Refunds { store: store.clone(), provider, bus: bus.clone(), clock: clock.clone(), wakes: wakes.clone() },
            follow_ups: FollowUps { store, bus, clock },
            sandbox,
            wakes,
        }
    }
}
