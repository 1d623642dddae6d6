//! Stories of users, shops and vouchers.

use seckill::domain::ids::{ShopId, UserId, VoucherId};
use seckill::domain::money::Fen;
use seckill::domain::user::{NickName, Phone};
use seckill::store::{NewShop, Page, StoreError, VoucherTexts};

use super::{Database, NOW, hour, on_both, voucher};

on_both!(
    a_user_is_found_by_phone_and_id_and_a_phone_is_taken_once,
    seeded_users_are_made_once_and_come_back_in_the_order_of_their_phones,
    shops_are_listed_by_type_and_found_by_a_part_of_their_name,
    a_double_submit_makes_one_voucher,
    the_second_editor_of_the_same_version_is_told,
);

async fn a_user_is_found_by_phone_and_id_and_a_phone_is_taken_once(db: Database) {
    let (phone, nick) = (Phone::parse("13800000001").unwrap(), NickName::parse("O'Brien 😀 茶").unwrap());
    let mut tx = db.store.begin().await.unwrap();
    let id = tx.insert_user(&phone, &nick, Some("$argon2id$x"), true, NOW).await.unwrap();
    let again = tx.insert_user(&phone, &nick, None, false, NOW).await;
    assert!(matches!(again, Err(StoreError::Conflict)));
    // A phone that is taken is an answer, not a broken transaction.
    tx.commit().await.unwrap();

    let found = db.store.user_by_phone(&phone).await.unwrap().unwrap();
    assert_eq!((found.user.id, found.user.nick_name.as_str(), found.user.admin), (id, nick.as_str(), true));
    assert_eq!(found.password_hash.as_deref(), Some("$argon2id$x"));
    assert!(db.store.user_by_phone(&Phone::parse("13800000002").unwrap()).await.unwrap().is_none());

    let mut tx = db.store.begin().await.unwrap();
    assert!(tx.set_password_hash(id, "$argon2id$y").await.unwrap());
    assert!(tx.set_nick_name(id, &NickName::parse("新名字").unwrap()).await.unwrap());
    assert!(tx.set_disabled(id, true).await.unwrap());
    assert!(tx.add_credits(id, 49).await.unwrap());
    assert!(tx.add_credits(id, -9).await.unwrap());
    assert!(!tx.set_disabled(UserId(404), true).await.unwrap());
    tx.commit().await.unwrap();
    let changed = db.store.user_by_id(id).await.unwrap().unwrap();
    assert_eq!(changed.password_hash.as_deref(), Some("$argon2id$y"));
    assert_eq!((changed.user.nick_name.as_str(), changed.user.disabled, changed.user.credits), ("新名字", true, 40));
    let phones = ["13800000001", "13800000009"].map(|p| Phone::parse(p).unwrap());
    assert!(!db.store.has_users_beside(&phones[0], &phones[1]).await.unwrap());
    assert!(db.store.has_users_beside(&phones[1], &phones[1]).await.unwrap());
    assert!(db.store.user_by_id(UserId(404)).await.unwrap().is_none());
}

async fn seeded_users_are_made_once_and_come_back_in_the_order_of_their_phones(db: Database) {
    let mut tx = db.store.begin().await.unwrap();
    let first = tx.insert_users_bulk(19_900_000_000, 600, NOW).await.unwrap();
    tx.commit().await.unwrap();
    let mut tx = db.store.begin().await.unwrap();
    let second = tx.insert_users_bulk(19_900_000_000, 1100, NOW).await.unwrap();
    assert!(tx.insert_users_bulk(19_900_000_000, 0, NOW).await.unwrap().is_empty());
    assert!(matches!(tx.insert_users_bulk(99_999_999_999, 2, NOW).await, Err(StoreError::Corrupt(_))));
    tx.commit().await.unwrap();
    assert_eq!((first.len(), second.len()), (600, 1100));
    assert_eq!(first, second[..600]);
    let nobody = Phone::parse("13800000009").unwrap();
    assert!(!db.store.has_users_beside(&nobody, &nobody).await.unwrap(), "seeded users have no password");
    let last = db.store.user_by_phone(&Phone::parse("19900001099").unwrap()).await.unwrap().unwrap();
    assert_eq!(Some(&last.user.id), second.last());
    assert_eq!(last.password_hash, None);
}

async fn shops_are_listed_by_type_and_found_by_a_part_of_their_name(db: Database) {
    let types = db.store.shop_types().await.unwrap();
    assert_eq!((types.len(), types[0].name.as_str(), types[1].name.as_str()), (10, "美食", "KTV"));

    let mut ids = Vec::new();
    let mut tx = db.store.begin().await.unwrap();
    for name in ["Tea 100%", "TEA house", "茶_室", "Noodles"] {
        let shop =
            NewShop { type_id: 2, x: 120_149_192, y: -30_316_078, avg_price: Fen(8000), score: 47, ..NewShop::named(name) };
        ids.push(tx.insert_shop(&shop, NOW).await.unwrap());
    }
    tx.commit().await.unwrap();
    let page = |offset, limit| Page { offset, limit };
    let names = |shops: Vec<seckill::store::Shop>| shops.into_iter().map(|shop| shop.name).collect::<Vec<_>>();
    assert_eq!(names(db.store.shops_of_type(2, page(1, 2)).await.unwrap()), ["TEA house", "茶_室"]);
    assert!(db.store.shops_of_type(2, page(4, 5)).await.unwrap().is_empty());
    assert!(db.store.shops_of_type(1, page(0, 5)).await.unwrap().is_empty());
    assert_eq!(names(db.store.shops_by_name("tea", page(0, 5)).await.unwrap()), ["Tea 100%", "TEA house"]);
    assert_eq!(names(db.store.shops_by_name("%", page(0, 5)).await.unwrap()), ["Tea 100%"]);
    assert_eq!(names(db.store.shops_by_name("_", page(0, 5)).await.unwrap()), ["茶_室"]);
    assert!(db.store.shops_by_name("\\", page(0, 5)).await.unwrap().is_empty());
    assert_eq!(db.store.shops().await.unwrap().len(), 4);
    let shop = db.store.shop_by_id(ids[0]).await.unwrap().unwrap();
    assert_eq!((shop.x, shop.y, shop.avg_price, shop.score, shop.sold), (120_149_192, -30_316_078, Fen(8000), 47, 0));
    assert!(db.store.shop_by_id(ShopId(404)).await.unwrap().is_none());

    let mut tx = db.store.begin().await.unwrap();
    let nowhere = tx.insert_shop(&NewShop { type_id: 404, ..NewShop::named("x") }, NOW).await;
    assert!(matches!(nowhere, Err(StoreError::UnknownReference)));
}

async fn a_double_submit_makes_one_voucher(db: Database) {
    let shop = db.shop().await;
    let mut tx = db.store.begin().await.unwrap();
    let first = tx.insert_voucher(&voucher(shop, "一"), Some("form-1"), NOW).await.unwrap();
    tx.insert_sale(first.id, &hour(10)).await.unwrap();
    tx.commit().await.unwrap();
    let mut tx = db.store.begin().await.unwrap();
    let second = tx.insert_voucher(&voucher(shop, "一"), Some("form-1"), NOW).await.unwrap();
    let plain = tx.insert_voucher(&voucher(shop, "二"), None, NOW).await.unwrap();
    let other = tx.insert_voucher(&voucher(shop, "三"), None, NOW).await.unwrap();
    tx.commit().await.unwrap();
    assert!(first.fresh && !second.fresh && plain.fresh && other.fresh);
    assert_eq!(first.id, second.id);

    let listed = db.store.vouchers_of_shop(shop).await.unwrap();
    assert_eq!(listed.iter().map(|v| v.fields.title.as_str()).collect::<Vec<_>>(), ["一", "二", "三"]);
    assert_eq!(listed[0].fields, voucher(shop, "一"));
    let sale = listed[0].sale.unwrap();
    assert_eq!((sale.voucher, sale.stock_left, sale.begin, sale.version), (first.id, 10, NOW, 1));
    assert_eq!(listed[1].sale, None);
    assert_eq!(db.store.voucher(first.id).await.unwrap().as_ref(), Some(&listed[0]));
    assert!(db.store.voucher(VoucherId(404)).await.unwrap().is_none());

    // Only what is on sale can be ordered, so only that has a price for an order.
    let prices = db.store.prices_of(&[plain.id, first.id, VoucherId(404)]).await.unwrap();
    assert_eq!(prices.len(), 1);
    assert_eq!((prices[0].voucher, prices[0].pay_value, prices[0].title.as_str()), (first.id, Fen(4900), "一"));
    assert!(db.store.prices_of(&[]).await.unwrap().is_empty());

    let mut tx = db.store.begin().await.unwrap();
    assert!(matches!(tx.insert_voucher(&voucher(ShopId(404), "x"), None, NOW).await, Err(StoreError::UnknownReference)));
}

async fn the_second_editor_of_the_same_version_is_told(db: Database) {
    let shop = db.shop().await;
    let mut tx = db.store.begin().await.unwrap();
    let id = tx.insert_voucher(&voucher(shop, "旧"), None, NOW).await.unwrap().id;
    let texts = |title| VoucherTexts { title, sub_title: "", rules: "新规则" };
    assert!(tx.update_voucher_texts(id, texts("新"), 1).await.unwrap());
    assert!(!tx.update_voucher_texts(id, texts("更新"), 1).await.unwrap());
    tx.commit().await.unwrap();
    let read = db.store.voucher(id).await.unwrap().unwrap();
    assert_eq!((read.fields.title.as_str(), read.fields.rules.as_str(), read.version), ("新", "新规则", 2));
}
