//! The demo: one shop, an everyday voucher, three sales, a buyer and an admin. Loopback only; `cli.rs` refuses anything else.

use std::time::Duration;

use crate::clock::Clock;
use crate::domain::ids::{ShopId, UserId};
use crate::domain::money::Fen;
use crate::domain::user::Phone;
use crate::domain::voucher::{NewSale, NewVoucher};
use crate::service::ServiceError;
use crate::service::sales::Sales;
use crate::service::users::{Registration, Users};
use crate::store::{NewShop, Store};

/// The demo's buyer.
pub const BUYER: &str = "13800000001";
/// The demo's admin.
pub const ADMIN: &str = "13800000002";

/// Who may log in to the demo of this start.
#[derive(Debug)]
pub struct DemoUser {
    /// His id.
    pub id: UserId,
    /// His phone.
    pub phone: &'static str,
    /// His new password.
    pub password: String,
}

/// Makes what the demo shows.
pub struct Demo<'a> {
    /// The books.
    pub store: &'a Store,
    /// Makes vouchers.
    pub sales: &'a Sales,
    /// Makes users.
    pub users: &'a Users,
    /// The time.
    pub clock: &'a Clock,
}

impl Demo<'_> {
    /// Whether this data belongs to somebody: users with a password other than the demo's two. Those of `user seed` have
    /// none, so that the demo can be put under load.
    pub async fn has_own_users(&self) -> Result<bool, ServiceError> {
        Ok(self.store.has_users_beside(&phone_of(BUYER)?, &phone_of(ADMIN)?).await?)
    }

    /// Buyer and admin, each with a new random password.
    pub async fn users(&self) -> Result<[DemoUser; 2], ServiceError> {
        let mut made = Vec::with_capacity(2);
        for (phone, name, admin) in [(BUYER, "买家小顾", false), (ADMIN, "店长小掌", true)] {
            let password = random_password();
            let id = self.user(phone, name, &password, admin).await?;
            made.push(DemoUser { id, phone, password });
        }
        made.try_into().map_err(|_| ServiceError::Internal(String::from("two demo users")))
    }

    async fn user(&self, phone: &str, name: &str, password: &str, admin: bool) -> Result<UserId, ServiceError> {
        if let Some(known) = self.store.user_by_phone(&phone_of(phone)?).await? {
            self.users.reset_password(known.user.id, password).await?;
            return Ok(known.user.id);
        }
        let typed = Registration {
            phone: phone.to_owned(),
            password: password.to_owned().into(),
            nick_name: Some(name.to_owned()),
            admin,
        };
        Ok(self.users.register(typed).await?.id)
    }

    /// The shop and its vouchers; sales are made again when none is on.
    pub async fn shop(&self, admin: UserId) -> Result<ShopId, ServiceError> {
        let shop = match self.store.shops().await?.first() {
            Some(shop) => shop.id,
            None => self.sales.create_shop(admin, &demo_shop()).await?,
        };
        let now = self.clock.now();
        let on = self.sales.listed(shop).await?;
        if on.is_empty() {
            let plain = voucher(shop, "工作日咖啡券", "周一至周五", Fen(1800), Fen(2500));
            self.sales.create_voucher(Some(admin), None, &plain).await?;
        }
        if on.iter().any(|l| l.voucher.sale.is_some_and(|s| s.begin <= now && s.end > now)) {
            return Ok(shop);
        }
        let day = Duration::from_hours(24);
        let minute = Duration::from_mins(1);
        let now_on = (
            voucher(shop, "双人下午茶代金券", "周一至周日 14:00–17:30", Fen(4900), Fen(10_000)),
            NewSale { stock: 100, begin: now, end: now + day, captcha: false },
        );
        let soon = (
            voucher(shop, "招牌炖汤券", "午市、晚市通用", Fen(990), Fen(3800)),
            NewSale { stock: 200, begin: now + minute, end: now + day, captcha: false },
        );
        for (voucher, sale) in [&now_on, &soon] {
            self.sales.create_sale(Some(admin), None, voucher, sale).await?;
        }
        // Over already: saved as a sale of the past, which a form would refuse.
        let over = voucher(shop, "早鸟早餐券", "每日 7:00–9:30", Fen(500), Fen(1800));
        let past = NewSale { stock: 100, begin: now - day, end: now - minute, captcha: false };
        self.sales.create_sale(Some(admin), None, &over, &past).await?;
        Ok(shop)
    }
}

fn demo_shop() -> NewShop {
    NewShop {
        area: String::from("示例区"),
        address: String::from("样板路 1 号"),
        x: 120_155_000,
        y: 30_274_000,
        avg_price: Fen(5800),
        score: 46,
        open_hours: String::from("7:00–24:00"),
        ..NewShop::named("演示小馆")
    }
}

fn voucher(shop: ShopId, title: &str, sub_title: &str, pay_value: Fen, actual_value: Fen) -> NewVoucher {
    NewVoucher {
        shop,
        title: title.to_owned(),
        sub_title: sub_title.to_owned(),
        rules: String::from("堂食可用，一桌一张，不找零，不与其他优惠同用。售出后 90 天内有效。"),
        pay_value,
        actual_value,
    }
}

fn phone_of(text: &str) -> Result<Phone, ServiceError> {
    Phone::parse(text).map_err(|e| ServiceError::Internal(e.to_string()))
}

/// Twelve characters, none that look alike: about 58 bits, for one run on loopback.
fn random_password() -> String {
    const ALPHABET: &[u8] = b"abcdefghjkmnpqrstuvwxyz23456789";
    (0..12).map(|_| char::from(ALPHABET[rand::random_range(0..ALPHABET.len())])).collect()
}
