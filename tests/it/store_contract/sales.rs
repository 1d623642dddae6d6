//! Stories of the hot row: claims, epochs, units.

use std::time::Duration;

use seckill::domain::ids::VoucherId;
use seckill::domain::ledger::Figures;
use seckill::domain::order::{CloseReason, Status};
use seckill::store::{Release, Stamps, StoreError};

use super::{Database, MINUTE, NOW, hour, on_both, order};

on_both!(
    a_sale_is_read_until_it_was_over_long_enough,
    a_claim_is_burnt_once_and_an_epoch_moves_only_from_the_one_that_was_seen,
    units_are_taken_under_their_epoch_and_never_below_nothing,
    a_sale_is_paused_by_the_first_of_two,
    orders_tell_how_they_stand_a_page_at_a_time,
    the_figures_of_a_sale_balance_in_one_snapshot,
    two_transactions_of_one_sale_take_turns,
);

async fn a_sale_is_read_until_it_was_over_long_enough(db: Database) {
    let (id, _) = db.sale(5, 0).await;
    let sale = db.store.sale(id).await.unwrap().unwrap();
    assert_eq!((sale.stock_total, sale.stock_left, sale.epoch, sale.epoch_claimed, sale.paused), (5, 5, 0, 0, false));
    assert_eq!((sale.begin, sale.end, sale.captcha), (NOW, NOW + 60 * MINUTE, false));
    assert!(db.store.sale(VoucherId(404)).await.unwrap().is_none());
    let end = sale.end;
    for (at, within, found) in [
        (NOW, Duration::ZERO, 1),
        (end, Duration::ZERO, 0),
        (end, Duration::from_millis(1), 1),
        (end + 60 * MINUTE, 60 * MINUTE, 0),
    ] {
        assert_eq!(db.store.sales_not_over(at, within).await.unwrap().len(), found, "{at} {within:?}");
        let vouchers = db.store.vouchers_not_over(at, within).await.unwrap();
        assert_eq!(vouchers.iter().filter_map(|v| v.sale).count(), found, "{at} {within:?}");
    }
    assert_eq!(db.store.all_sales().await.unwrap(), [sale]);
    assert_eq!(db.store.voucher_ends(VoucherId(0)).await.unwrap(), [(id, Some(end))]);
    assert!(db.store.voucher_ends(id).await.unwrap().is_empty());
    assert_eq!(db.store.keep_setting("lanes", "4").await.unwrap(), "4");
    assert_eq!(db.store.keep_setting("lanes", "8").await.unwrap(), "4", "the first value is kept");
    let mut tx = db.store.begin().await.unwrap();
    assert!(matches!(tx.insert_sale(id, &hour(1)).await, Err(StoreError::Conflict)));
    // A failed statement spoils its transaction on both databases alike.
    assert!(matches!(tx.commit().await, Err(StoreError::Corrupt(_))));
    let mut tx = db.store.begin().await.unwrap();
    assert!(matches!(tx.insert_sale(VoucherId(404), &hour(1)).await, Err(StoreError::UnknownReference)));
}

async fn a_claim_is_burnt_once_and_an_epoch_moves_only_from_the_one_that_was_seen(db: Database) {
    let (id, _) = db.sale(5, 0).await;
    assert_eq!(db.store.burn_claim(id).await.unwrap(), Some((1, 0)));
    assert_eq!(db.store.burn_claim(id).await.unwrap(), Some((2, 0)));
    assert_eq!(db.store.burn_claim(VoucherId(404)).await.unwrap(), None);

    let mut tx = db.store.begin().await.unwrap();
    assert!(tx.move_epoch(id, 0, 2, 3).await.unwrap());
    let locked = tx.sale_locked(id).await.unwrap().unwrap();
    assert_eq!((locked.epoch, locked.stock_total, locked.stock_left), (2, 8, 8));
    assert!(tx.sale_locked(VoucherId(404)).await.unwrap().is_none());
    tx.commit().await.unwrap();
    let mut tx = db.store.begin().await.unwrap();
    assert!(!tx.move_epoch(id, 0, 1, 3).await.unwrap(), "who woke up late moves nothing");
    tx.commit().await.unwrap();
    let mut tx = db.store.begin().await.unwrap();
    assert!(matches!(tx.move_epoch(id, 2, 2, -9).await, Err(StoreError::Other(_))), "fewer than nothing");
    tx.rollback().await.unwrap();
    assert_eq!(db.store.burn_claim(id).await.unwrap(), Some((3, 2)));
    assert_eq!(db.store.sale(id).await.unwrap().unwrap().stock_left, 8);
}

async fn units_are_taken_under_their_epoch_and_never_below_nothing(db: Database) {
    let (id, users) = db.sale(3, 3).await;
    let mut tx = db.store.begin().await.unwrap();
    assert!(!tx.take_units(id, 0, 4).await.unwrap(), "more than are left");
    assert!(!tx.take_units(id, 1, 1).await.unwrap(), "another epoch");
    assert!(!tx.take_units(VoucherId(404), 0, 0).await.unwrap());
    assert!(tx.take_units(id, 0, 0).await.unwrap(), "none is a lock and a check");
    assert!(tx.take_units(id, 0, 2).await.unwrap());
    assert!(!tx.touch_sale_sold_out(id, 0).await.unwrap());
    assert!(tx.take_units(id, 0, 1).await.unwrap());
    assert!(tx.touch_sale_sold_out(id, 0).await.unwrap());
    assert!(!tx.touch_sale_sold_out(id, 1).await.unwrap());
    assert_eq!(tx.sale_epoch_and_left(id).await.unwrap(), Some((0, 0)));
    assert_eq!(tx.sale_epoch_and_left(VoucherId(404)).await.unwrap(), None);
    assert!(tx.return_unit(id).await.unwrap());
    assert!(!tx.return_unit(VoucherId(404)).await.unwrap());
    tx.commit().await.unwrap();
    assert_eq!(db.store.sale(id).await.unwrap().unwrap().stock_left, 1);

    let mut tx = db.store.begin().await.unwrap();
    for _ in 0..2 {
        assert!(tx.return_unit(id).await.unwrap());
    }
    assert!(matches!(tx.return_unit(id).await, Err(StoreError::Other(_))), "more than there ever were");
    drop(tx);
    // Dropped is rolled back.
    assert_eq!(db.store.sale(id).await.unwrap().unwrap().stock_left, 1);
    assert_eq!(users.len(), 3);
}

async fn a_sale_is_paused_by_the_first_of_two(db: Database) {
    let (id, _) = db.sale(3, 0).await;
    let mut tx = db.store.begin().await.unwrap();
    assert!(tx.set_paused(id, true, 1).await.unwrap());
    assert!(!tx.set_paused(id, false, 1).await.unwrap());
    tx.commit().await.unwrap();
    let sale = db.store.sale(id).await.unwrap().unwrap();
    assert_eq!((sale.paused, sale.version), (true, 2));
}

async fn the_figures_of_a_sale_balance_in_one_snapshot(db: Database) {
    let (id, users) = db.sale(10, 3).await;
    let orders = [order(1, users[0], id), order(2, users[1], id), order(3, users[2], id)];
    db.place(&orders).await;
    let mut tx = db.store.begin().await.unwrap();
    let stamps = Stamps { closed_at: Some(NOW), close_reason: Some(CloseReason::User), ..Stamps::default() };
    let gone = tx.transition(orders[0].id, Status::Pending, Status::Cancelled, &stamps).await.unwrap().unwrap();
    let release = Release { voucher: id, user: gone.user, order: gone.id };
    assert_eq!(tx.put_releases(&[release], NOW).await.unwrap(), 1);
    assert!(tx.return_unit(id).await.unwrap());
    tx.commit().await.unwrap();

    let figures = db.store.figures(id).await.unwrap().unwrap();
    assert_eq!(figures, Figures { i: 10, d: 8, a: 2, u: 1, r: 0, f: 0 });
    assert!(figures.books_balance());
    assert!(db.store.figures(VoucherId(404)).await.unwrap().is_none());
    let holders = vec![(users[1], orders[1].id), (users[2], orders[2].id)];
    assert_eq!(db.store.live_orders_of(id).await.unwrap(), holders);
    assert_eq!(db.store.open_releases_of(id).await.unwrap(), [release]);

    // A rebuild takes the open releases in: the load has absorbed them.
    let mut tx = db.store.begin().await.unwrap();
    tx.sale_locked(id).await.unwrap().unwrap();
    assert_eq!(tx.live_holders(id).await.unwrap(), holders);
    assert_eq!(tx.close_releases_of(id, NOW).await.unwrap(), 1);
    assert_eq!(tx.close_releases_of(id, NOW).await.unwrap(), 0);
    tx.commit().await.unwrap();
    assert_eq!(db.store.figures(id).await.unwrap().unwrap().u, 0);
}

async fn two_transactions_of_one_sale_take_turns(db: Database) {
    let (id, _) = db.sale(40, 0).await;
    let take = || async {
        let mut tx = db.store.begin().await?;
        let taken = tx.take_units(id, 0, 1).await?;
        tx.commit().await.map(|()| taken)
    };
    let buyers = (0..40).map(|_| async {
        loop {
            match take().await {
                Ok(taken) => return taken,
                Err(error) => assert!(error.is_transient(), "{error}"),
            }
        }
    });
    let taken = futures_util::future::join_all(buyers).await;
    assert!(taken.into_iter().all(|taken| taken));
    assert_eq!(db.store.sale(id).await.unwrap().unwrap().stock_left, 0);
}

async fn orders_tell_how_they_stand_a_page_at_a_time(db: Database) {
    let (voucher, users) = db.sale(5, 3).await;
    let orders: Vec<_> = users.iter().zip(1..).map(|(user, n)| order(n, *user, voucher)).collect();
    let ids = db.place(&orders).await;
    let page = db.store.live_page(voucher, users[0], 10).await.unwrap();
    assert_eq!(page, [(users[1], ids[1]), (users[2], ids[2])], "above the given user, by user");
    assert_eq!(db.store.live_page(voucher, seckill::domain::ids::UserId(0), 1).await.unwrap(), [(users[0], ids[0])]);

    let stamps = Stamps { closed_at: Some(NOW), close_reason: Some(CloseReason::User), ..Stamps::default() };
    let mut tx = db.store.begin().await.unwrap();
    for (order, release) in [(&orders[0], true), (&orders[1], false)] {
        tx.transition(order.id, Status::Pending, Status::Cancelled, &stamps).await.unwrap().unwrap();
        if release {
            tx.put_releases(&[Release { voucher, user: order.user, order: order.id }], NOW).await.unwrap();
        }
    }
    tx.commit().await.unwrap();
    let unknown = seckill::domain::ids::OrderId::new(NOW, 99);
    let mut standings = db.store.standings(&[ids[0], ids[1], ids[2], unknown]).await.unwrap();
    standings.sort_by_key(|row| row.order);
    let told: Vec<_> = standings.iter().map(|row| (row.order, row.user, row.live, row.releasing)).collect();
    let expected = [(ids[0], users[0], false, true), (ids[1], users[1], false, false), (ids[2], users[2], true, false)];
    assert_eq!(told, expected);
    assert!(standings.iter().all(|row| row.voucher == voucher));

    let mut tx = db.store.begin().await.unwrap();
    tx.sale_locked(voucher).await.unwrap().unwrap();
    tx.mend_stock_left(voucher, 4).await.unwrap();
    assert!(tx.mend_stock_left(voucher, 6).await.is_err(), "more than the total");
    tx.rollback().await.unwrap();
    assert_eq!(db.store.sale(voucher).await.unwrap().unwrap().stock_left, 2);
}
