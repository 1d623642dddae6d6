//! The contract of the store: one body for each story, run on SQLite and on `PostgreSQL`, until every statement was run on
//! both. What belongs to a rule rather than to SQL is tested where the rule is.

mod control;
mod letters;
mod money;
mod opening;
mod orders;
mod outbox;
mod pay;
mod people;
mod plans;
mod sales;

use std::time::Duration;

use seckill::domain::ids::{OrderId, ShopId, UserId, VoucherId};
use seckill::domain::money::Fen;
use seckill::domain::time::Millis;
use seckill::domain::voucher::{NewSale, NewVoucher};
use seckill::store::{NewOrder, NewShop, Store};

use crate::support::postgres;

/// The instant at which these stories begin.
const NOW: Millis = Millis(1_783_123_200_000);
const MINUTE: Duration = Duration::from_mins(1);

/// A migrated database of its own.
struct Database {
    store: Store,
    url: String,
    /// Where the file is, on SQLite.
    _dir: Option<tempfile::TempDir>,
}

impl Database {
    async fn sqlite() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let url = format!("sqlite://{}", dir.path().join("100% shop?.db").display());
        Self::open(url, Some(dir)).await
    }

    async fn postgres() -> Self {
        Self::open(postgres::fresh_database().await, None).await
    }

    async fn open(url: String, dir: Option<tempfile::TempDir>) -> Self {
        let store = Store::open(&url).await.unwrap();
        store.migrate().await.unwrap();
        Self { store, url, _dir: dir }
    }

    async fn shop(&self) -> ShopId {
        let mut tx = self.store.begin().await.unwrap();
        let shop = tx.insert_shop(&NewShop::named("湖畔茶馆"), NOW).await.unwrap();
        tx.commit().await.unwrap();
        shop
    }

    /// A voucher on sale with `stock` units, an hour from [`NOW`], and `users` users.
    async fn sale(&self, stock: i64, users: u64) -> (VoucherId, Vec<UserId>) {
        let shop = self.shop().await;
        let mut tx = self.store.begin().await.unwrap();
        let voucher = tx.insert_voucher(&voucher(shop, "双人下午茶"), None, NOW).await.unwrap().id;
        tx.insert_sale(voucher, &hour(stock)).await.unwrap();
        let users = tx.insert_users_bulk(19_900_000_000, users, NOW).await.unwrap();
        tx.commit().await.unwrap();
        (voucher, users)
    }

    /// Saves orders as pending and takes their units, as the placing transaction does.
    async fn place(&self, orders: &[NewOrder]) -> Vec<OrderId> {
        let mut tx = self.store.begin().await.unwrap();
        let saved = tx.insert_pending(orders).await.unwrap();
        assert!(tx.take_units(orders[0].voucher, orders[0].epoch, i64::try_from(saved.len()).unwrap()).await.unwrap());
        tx.commit().await.unwrap();
        saved
    }
}

fn voucher(shop: ShopId, title: &str) -> NewVoucher {
    NewVoucher {
        shop,
        title: title.to_owned(),
        sub_title: String::from("周一至周日"),
        rules: String::from("一人一单\n不退不换"),
        pay_value: Fen(4900),
        actual_value: Fen(10_000),
    }
}

fn hour(stock: i64) -> NewSale {
    NewSale { stock, begin: NOW, end: NOW + 60 * MINUTE, captcha: false }
}

fn order(sequence: u32, user: UserId, voucher: VoucherId) -> NewOrder {
    NewOrder {
        id: OrderId::new(NOW, sequence),
        user,
        voucher,
        epoch: 0,
        admitted_at: NOW,
        pay_amount: Fen(4900),
        created_at: NOW + Duration::from_millis(3),
        pay_before: NOW + 15 * MINUTE,
    }
}

/// Runs each story on both databases: `on_both!(a_story, another)`.
macro_rules! on_both {
    ($($story:ident),+ $(,)?) => {
        mod sqlite {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $story() {
                super::$story(crate::store_contract::Database::sqlite().await).await;
            })+
        }
        mod postgres {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $story() {
                super::$story(crate::store_contract::Database::postgres().await).await;
            })+
        }
    };
}
use on_both;

#[test]
fn every_public_function_of_the_store_is_called_in_these_stories() {
    let read = |folder: &str| -> String {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
        let files = std::fs::read_dir(folder).unwrap().map(|entry| std::fs::read_to_string(entry.unwrap().path()).unwrap());
        files.collect()
    };
    let (store, stories) = (read("src/store"), read("tests/it/store_contract"));
    let names: Vec<&str> = store.split("pub async fn ").skip(1).filter_map(|rest| rest.split(['(', '<']).next()).collect();
    assert!(names.len() > 60, "the functions were found: {}", names.len());
    let uncalled: Vec<&&str> =
        names.iter().filter(|name| !stories.contains(&format!(".{name}(")) && !stories.contains(&format!("::{name}("))).collect();
    assert!(uncalled.is_empty(), "not called on both databases: {uncalled:?}");
}
