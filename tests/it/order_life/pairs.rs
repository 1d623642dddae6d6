//! Actions one after the other and beside each other: what is not allowed changes nothing, and nobody's loss refunds a winner.

use seckill::domain::ids::{OrderId, UserId};
use seckill::domain::order::{Action, Status, next};
use seckill::service::money::Money;
use seckill::service::notice::Heard;

use super::races::{Overdue, hear};
use super::{PRICE, paid, put_money};
use crate::support::app::On;

const ACTIONS: [Action; 4] = [Action::Cancel, Action::TimeOut, Action::Pay, Action::Refund];

/// Carries out one action; true when it changed the order.
async fn act(money: &Money, action: Action, user: UserId, id: OrderId, turn: usize) -> bool {
    match action {
        Action::Cancel => money.cancels.cancel(id, user).await.is_ok(),
        Action::TimeOut => money.cancels.time_out(id).await.is_ok(),
        Action::Refund => money.refunds.start(id, true, user).await.is_ok(),
        Action::Pay | Action::CompleteRefund => {
            let heard = hear(&money.notices, &format!("e-{id}-{turn}"), &paid(id, &format!("t-{id}"), PRICE)).await;
            matches!(heard.unwrap(), Heard::Applied)
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_pair_of_actions_each_twice_goes_as_the_state_machine_says() {
    for on in [On::Sqlite, On::Postgres] {
        let overdue = Overdue::of(on, ACTIONS.len() * ACTIONS.len()).await;
        let services = overdue.app.app.services.clone();
        let mut orders = overdue.orders.iter();
        for first in ACTIONS {
            for second in ACTIONS {
                let (user, id) = *orders.next().unwrap();
                let mut state = Status::Pending;
                for (turn, action) in [first, first, second, second].into_iter().enumerate() {
                    let expected = next(state, action);
                    // A notice of money that is known already changes nothing, in whatever state.
                    let told = turn > 0 && action == Action::Pay && !services.store.payments_of(id).await.unwrap().is_empty();
                    let changed = act(&services.money, action, user, id, turn).await;
                    assert_eq!(changed, expected.is_some() && !told, "{first:?}, {second:?}: {action:?} from {state:?}");
                    state = expected.filter(|_| changed).unwrap_or(state);
                    assert_eq!(services.store.order(id).await.unwrap().unwrap().status, state);
                    assert!(services.store.figures(overdue.voucher).await.unwrap().unwrap().books_balance());
                }
            }
        }
        // What was only refunded in vain still waits for its payment.
        assert_eq!(services.money.cancels.close_due(200).await.unwrap(), 1);
        overdue.reckon().await.unwrap();
        overdue.finish().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refunded_order_is_not_revived_by_its_old_notice() {
    let overdue = Overdue::of(On::chosen(), 1).await;
    let ((user, id), services) = (overdue.orders[0], overdue.app.app.services.clone());
    let body = paid(id, &format!("t-{id}"), PRICE);
    assert!(matches!(hear(&services.money.notices, "e-1", &body).await, Ok(Heard::Applied)));
    services.money.refunds.start(id, true, user).await.unwrap();
    for event in ["e-1", "e-2"] {
        assert!(matches!(hear(&services.money.notices, event, &body).await, Ok(Heard::Repeated)));
    }
    overdue.reckon().await.unwrap();
    let before = services.store.order(id).await.unwrap().unwrap();
    for event in ["e-1", "e-2", "e-3"] {
        assert!(matches!(hear(&services.money.notices, event, &body).await, Ok(Heard::Repeated)));
    }
    let after = services.store.order(id).await.unwrap().unwrap();
    assert_eq!((after.status, after.version), (Status::Refunded, before.version));
    assert_eq!(overdue.reckon().await, Ok(0));
    overdue.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn two_payments_a_refusal_and_a_cancel_at_once_never_refund_the_winner() {
    let rounds = if crate::support::long() { 200 } else { 40 };
    for on in [On::Sqlite, On::Postgres] {
        let overdue = Overdue::of(on, rounds).await;
        let services = overdue.app.app.services.clone();
        let mut tx = services.store.begin().await.unwrap();
        for (_, id) in &overdue.orders {
            put_money(&mut tx, &overdue.app.clock, *id, &format!("u-{id}"), PRICE).await;
        }
        tx.commit().await.unwrap();
        for (user, id) in &overdue.orders {
            let tell = async |transaction: &str, body: String| hear(&services.money.notices, transaction, &body).await.unwrap();
            let (one, two) = (format!("t-{id}"), format!("u-{id}"));
            let refusal = format!("r-{id}");
            tokio::join!(
                tell(&one, paid(*id, &one, PRICE)),
                tell(&two, paid(*id, &two, PRICE)),
                tell(&refusal, paid(*id, "-", PRICE).replace("succeeded", "failed")),
                async { drop(Box::pin(services.money.cancels.cancel(*id, *user)).await) },
            );
        }
        let kept = overdue.reckon().await.unwrap();
        super::figure(&format!("{on:?}: two payments and a cancel at once, {rounds} rounds: {kept} keep exactly one payment"));
        overdue.finish().await;
    }
}
