//! What a person sees: the pages in a real Chromium, with their scripts and without them.

mod admin;
mod axe;
mod buying;
mod desk;
mod form;
mod hands;
mod keyboard;
mod pages;
mod state;
mod text;
mod times;
mod trouble;
mod walks;
mod weight;

use seckill::domain::ids::{UserId, VoucherId};
use seckill::domain::order::{Order, Status};
use seckill::service::users::Registration;

use crate::support::app::TestApp;

/// Somebody who logs in through the page.
struct Person {
    id: UserId,
    phone: &'static str,
}

const PASSWORD: &str = "korrekt pferd";

async fn person(app: &TestApp, phone: &'static str, nick_name: Option<&str>, admin: bool) -> Person {
    let nick_name = nick_name.map(str::to_owned);
    let typed = Registration { phone: phone.to_owned(), password: PASSWORD.to_owned().into(), nick_name, admin };
    Person { id: app.app.services.users.register(typed).await.unwrap().id, phone }
}

/// The one order of a user, saved and waiting for payment; fails when there are two.
async fn only_order(app: &TestApp, user: UserId) -> Order {
    app.settled().await;
    let orders = app.app.services.store.orders_of(user, None, 10).await.unwrap();
    assert_eq!(orders.len(), 1, "{orders:?}");
    assert_eq!(orders[0].status, Status::Pending);
    orders.into_iter().next().unwrap()
}

/// The card of a voucher that is sold here.
fn card(voucher: VoucherId) -> String {
    format!("article.ticket[data-voucher='{voucher}'][data-state]")
}

/// The button of that card.
fn button(voucher: VoucherId) -> String {
    format!("{} button[data-action='buy']", card(voucher))
}

/// The page of an order that is created, with the news of it.
const CREATED: &str = "div[data-order][data-status='PENDING']";
const NEWS: &str = "[role='status'][data-event='order.created']";
