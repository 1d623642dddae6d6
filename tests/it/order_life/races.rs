//! Everything at the same instant: exactly one of the contenders wins, and the money and the unit follow the winner.

use std::sync::Arc;
use std::time::Duration;

use http::Method;
use seckill::domain::ids::{OrderId, UserId, VoucherId};
use seckill::domain::order::{Order, Status};
use seckill::domain::payment::PaymentState;
use seckill::payment_provider::client::Provider;
use seckill::payment_provider::signature::SignedHeaders;
use seckill::service::change::ChangeError;
use seckill::service::notice::{Heard, NoticeError, Notices};
use seckill::service::purchase::Answer;
use seckill::shutdown::Shutdown;
use tokio::sync::Barrier;

use super::{PATIENCE, PRICE, SECRET, keys, paid, put_money};
use crate::support::app::{On, TestApp};
use crate::support::long;

/// A shop whose loops are run by hand, and orders that nobody has decided yet; their time to pay is over.
pub(super) struct Overdue {
    pub(super) app: Box<TestApp>,
    pub(super) voucher: VoucherId,
    pub(super) orders: Vec<(UserId, OrderId)>,
    shutdown: Shutdown,
}

impl Overdue {
    /// `count` orders of as many buyers, each with money at the provider under `t-ORDER`.
    pub(super) async fn of(on: On, count: usize) -> Self {
        let start = TestApp::on(on).with("--payment-secret", SECRET).with("--roles", "web").start();
        let app = Box::new(Box::pin(start).await);
        let voucher = app.sale(i64::try_from(count).unwrap()).await;
        let services = app.app.services.clone();
        let mut tx = services.store.begin().await.unwrap();
        let users = tx.insert_users_bulk(18_000_000_000, count as u64, app.clock.now()).await.unwrap();
        tx.commit().await.unwrap();
        let shutdown = Shutdown::default();
        super::consume(&app, &shutdown);
        let mut orders = Vec::with_capacity(count);
        for users in users.chunks(64) {
            let clicks = users.iter().map(|user| services.purchase.buy(*user, voucher));
            for (user, answer) in users.iter().zip(futures_util::future::join_all(clicks).await) {
                match answer.unwrap() {
                    Answer::Admitted { order, .. } => orders.push((*user, order)),
                    other => panic!("{other:?}"),
                }
            }
        }
        let mut tx = services.store.begin().await.unwrap();
        for (_, order) in &orders {
            put_money(&mut tx, &app.clock, *order, &format!("t-{order}"), PRICE).await;
        }
        tx.commit().await.unwrap();
        let give_up = tokio::time::Instant::now() + PATIENCE;
        while services.store.live_orders_of(voucher).await.unwrap().len() < count {
            assert!(tokio::time::Instant::now() < give_up, "the orders are not saved");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        app.clock.advance(Duration::from_mins(15) + Duration::from_secs(1));
        Self { app, voucher, orders, shutdown }
    }

    /// Carries out what is owed on both sides, then checks the unit, the money here and the money at the provider. Answers
    /// how many orders are paid.
    pub(super) async fn reckon(&self) -> Result<usize, String> {
        let services = &self.app.app.services;
        let give_up = tokio::time::Instant::now() + Duration::from_mins(5);
        loop {
            let refunds = services.money.refunds.round().await.map_err(|e| e.to_string())?;
            let released = services.releases.apply_due().await.map_err(|e| e.to_string())?.done;
            let open = services.store.open_outbox_count("refund").await.unwrap()
                + services.store.open_outbox_count(seckill::store::RELEASE).await.unwrap();
            if refunds + released == 0 && open == 0 {
                break;
            }
            if tokio::time::Instant::now() > give_up {
                return Err(format!("{open} refunds or releases are left"));
            }
        }
        let (mut kept, mut live) = (0, 0);
        for (user, id) in &self.orders {
            let order = services.store.order(*id).await.unwrap().unwrap();
            kept += self.money_of(&order).await?;
            live += usize::from(services.store.live_order_of(*user, self.voucher).await.unwrap().is_some());
        }
        let sandbox = services.money.sandbox.as_ref().unwrap().books().await.unwrap();
        let kept_there = sandbox.paid.0 - sandbox.refunded.0;
        let never_told = self.orders.len() - self.told().await;
        if kept_there - i64::try_from(never_told).unwrap() * PRICE != i64::try_from(kept).unwrap() * PRICE {
            return Err(format!("the provider keeps {kept_there} fen for {kept} paid orders"));
        }
        let report = services.audit.run().await.map_err(|e| e.to_string())?;
        if !report.ok {
            return Err(serde_json::to_string(&report).unwrap());
        }
        let left = services.store.sale(self.voucher).await.unwrap().unwrap().stock_left;
        if left + i64::try_from(live).unwrap() != i64::try_from(self.orders.len()).unwrap() {
            return Err(format!("{left} units left beside {live} live orders"));
        }
        Ok(kept)
    }

    /// Orders that a notice came for.
    async fn told(&self) -> usize {
        let mut told = 0;
        for (_, id) in &self.orders {
            told += usize::from(!self.app.app.services.store.payments_of(*id).await.unwrap().is_empty());
        }
        told
    }

    /// 1 where the order's money is kept, 0 where none is; an error where money and state do not agree.
    async fn money_of(&self, order: &Order) -> Result<usize, String> {
        let payments = self.app.app.services.store.payments_of(order.id).await.unwrap();
        let kept = payments.iter().filter(|p| p.state == PaymentState::Applied).count();
        if payments.iter().any(|p| matches!(p.state, PaymentState::Early | PaymentState::RefundDue)) {
            return Err(format!("order {} has an undecided payment", order.id));
        }
        match (order.status, kept) {
            (Status::Paid, 1) | (Status::Cancelled | Status::Refunded, 0) => Ok(kept),
            (status, kept) => Err(format!("order {} is {status:?} and keeps {kept} payments", order.id)),
        }
    }

    pub(super) async fn finish(self) {
        self.shutdown.begin();
        Box::pin(self.app.finish()).await;
    }

    pub(super) async fn abandon(self) {
        self.shutdown.begin();
        Box::pin(self.app.abandon("a guard was out")).await;
    }
}

/// A notice, signed and handed to the service without HTTP.
pub(super) async fn hear(notices: &Notices, event: &str, body: &str) -> Result<Heard, NoticeError> {
    let seconds = notices.clock.now().0 / 1000;
    let (timestamp, signature) = (seconds.to_string(), keys().sign(event, seconds, body.as_bytes()));
    Box::pin(notices.hear(SignedHeaders { id: event, timestamp: &timestamp, signature: &signature }, body.as_bytes())).await
}

/// Neither side must always be the first to reach the database.
async fn jitter(most: Duration) {
    let until = std::time::Instant::now() + most.mul_f64(rand::random_range(0.0..1.0));
    while std::time::Instant::now() < until {
        tokio::task::yield_now().await;
    }
}

/// How a round ended: whether the payment, and whether the timeout won.
type Outcome = (bool, bool);

fn check(wins: &[Outcome], least: usize) {
    assert!(wins.iter().all(|(pay, timeout)| pay != timeout), "exactly one wins: {wins:?}");
    let paid = wins.iter().filter(|(pay, _)| *pay).count();
    assert!(paid >= least && wins.len() - paid >= least, "both win often: {paid} of {} were paid", wins.len());
}

async fn pay_against_timeout_at_the_services(on: On, rounds: usize) {
    let overdue = Overdue::of(on, rounds).await;
    let (money, tasks) = (overdue.app.app.services.money.clone(), Shutdown::default());
    let mut wins = Vec::with_capacity(rounds);
    for (_, id) in &overdue.orders {
        let barrier = Arc::new(Barrier::new(2));
        let pay = tasks.spawn({
            let (barrier, notices, id) = (barrier.clone(), money.notices.clone(), *id);
            async move {
                let body = paid(id, &format!("t-{id}"), PRICE);
                barrier.wait().await;
                jitter(Duration::from_micros(600)).await;
                match hear(&notices, &format!("e-{id}"), &body).await {
                    Ok(Heard::Applied) => true,
                    Ok(Heard::RefundDue) => false,
                    other => panic!("{other:?}"),
                }
            }
        });
        let timeout = tasks.spawn({
            let (cancels, id) = (money.cancels.clone(), *id);
            async move {
                barrier.wait().await;
                jitter(Duration::from_micros(600)).await;
                match cancels.time_out(id).await {
                    Ok(order) => order.status == Status::Cancelled,
                    Err(ChangeError::WrongState(order)) => {
                        assert_eq!(order.status, Status::Paid);
                        false
                    }
                    Err(other) => panic!("{other:?}"),
                }
            }
        });
        wins.push((pay.await.unwrap(), timeout.await.unwrap()));
    }
    check(&wins, rounds / 100);
    let kept = overdue.reckon().await.unwrap();
    super::figure(&format!(
        "{on:?}: pay against timeout, {rounds} rounds at the services: {kept} paid, {} timed out",
        rounds - kept
    ));
    assert_eq!(kept, wins.iter().filter(|(pay, _)| *pay).count());
    overdue.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn pay_against_timeout_at_the_same_instant_on_sqlite() {
    pay_against_timeout_at_the_services(On::Sqlite, if long() { 4_750 } else { 475 }).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn pay_against_timeout_at_the_same_instant_on_postgresql() {
    pay_against_timeout_at_the_services(On::Postgres, if long() { 4_750 } else { 475 }).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn pay_against_timeout_at_the_same_instant_over_http() {
    let rounds = if long() { 500 } else { 50 };
    let overdue = Overdue::of(On::chosen(), rounds).await;
    let admin = overdue.app.admin().await;
    let (http, clock) = (&overdue.app.http, &overdue.app.clock);
    let mut wins = Vec::with_capacity(rounds);
    for (_, id) in &overdue.orders {
        let (body, path) = (paid(*id, &format!("t-{id}"), PRICE), format!("/api/voucher-order/{id}/timeout"));
        let pay = async {
            // The other side has a session to look up.
            jitter(Duration::from_millis(8)).await;
            let answer = super::notify(http, clock, &format!("e-{id}"), &body).await;
            assert_eq!(answer.status, 200);
        };
        let timeout = async {
            jitter(Duration::from_millis(2)).await;
            http.send(Method::POST, &path, &[("authorization", admin.token.as_str())], "").await.status == 200
        };
        let ((), timed_out) = tokio::join!(pay, timeout);
        let order = overdue.app.app.services.store.order(*id).await.unwrap().unwrap();
        wins.push((order.status == Status::Paid, timed_out));
    }
    check(&wins, rounds / 100);
    let kept = overdue.reckon().await.unwrap();
    super::figure(&format!("pay against timeout, {rounds} rounds over HTTP: {kept} paid, {} timed out", rounds - kept));
    overdue.finish().await;
}

/// Cancel, notice, timeout and an admin's refund, from one barrier.
async fn four_at_once(on: On, rounds: usize) {
    let overdue = Overdue::of(on, rounds).await;
    let (money, tasks) = (overdue.app.app.services.money.clone(), Shutdown::default());
    let mut ends: Vec<Status> = Vec::new();
    for (n, (user, id)) in overdue.orders.iter().enumerate() {
        let (barrier, user, id) = (Arc::new(Barrier::new(4)), *user, *id);
        let at_once = |barrier: Arc<Barrier>| async move {
            barrier.wait().await;
            jitter(Duration::from_millis(2)).await;
        };
        let allowed = |answer: Result<Order, ChangeError>| match answer {
            Ok(_) | Err(ChangeError::WrongState(_)) => {}
            Err(other) => panic!("{other:?}"),
        };
        let cancel = tasks.spawn({
            let (barrier, cancels) = (barrier.clone(), money.cancels.clone());
            async move {
                at_once(barrier).await;
                allowed(cancels.cancel(id, user).await);
            }
        });
        let timeout = tasks.spawn({
            let (barrier, cancels) = (barrier.clone(), money.cancels.clone());
            async move {
                at_once(barrier).await;
                allowed(cancels.time_out(id).await);
            }
        });
        let notice = tasks.spawn({
            let (barrier, notices) = (barrier.clone(), money.notices.clone());
            async move {
                let body = paid(id, &format!("t-{id}"), PRICE);
                at_once(barrier).await;
                hear(&notices, &format!("e-{id}"), &body).await.unwrap();
            }
        });
        let refund = tasks.spawn({
            let (barrier, refunds) = (barrier.clone(), money.refunds.clone());
            async move {
                at_once(barrier).await;
                // Pressed until it is too late or done: an admin who sees it paid.
                for _ in 0..10 {
                    let answer = refunds.start(id, n % 2 == 0, user).await;
                    let done = answer.is_ok();
                    allowed(answer);
                    if done {
                        break;
                    }
                    jitter(Duration::from_millis(2)).await;
                }
            }
        });
        for task in [cancel, timeout, notice, refund] {
            task.await.unwrap();
        }
    }
    let kept = overdue.reckon().await.unwrap();
    for (_, id) in &overdue.orders {
        ends.push(overdue.app.app.services.store.order(*id).await.unwrap().unwrap().status);
    }
    let count = |status| ends.iter().filter(|s| **s == status).count();
    let [cancelled, paid, refunded] = [Status::Cancelled, Status::Paid, Status::Refunded].map(count);
    super::figure(&format!("{on:?}: four at once, {rounds} rounds: {cancelled} cancelled, {paid} paid, {refunded} refunded"));
    assert_eq!((cancelled + paid + refunded, paid), (rounds, kept), "one terminal state each");
    overdue.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn cancel_notice_timeout_and_refund_from_one_barrier() {
    let rounds = if long() { 500 } else { 50 };
    four_at_once(On::Sqlite, rounds).await;
    four_at_once(On::Postgres, rounds).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn thirty_cancels_at_once_give_one_unit_back() {
    for on in [On::Sqlite, On::Postgres] {
        let overdue = Overdue::of(on, 1).await;
        let ((user, id), cancels) = (overdue.orders[0], overdue.app.app.services.money.cancels.clone());
        let sweeps = (0..4).map(|_| cancels.close_due(200));
        let clicks = (0..30).map(|_| cancels.cancel(id, user));
        let (clicks, sweeps) = tokio::join!(futures_util::future::join_all(clicks), futures_util::future::join_all(sweeps));
        assert!(sweeps.iter().all(Result::is_ok), "{sweeps:?}");
        let order = overdue.app.app.services.store.order(id).await.unwrap().unwrap();
        assert_eq!((order.status, order.version), (Status::Cancelled, 2), "one change");
        assert!(clicks.iter().filter(|c| c.is_ok()).count() <= 1);
        assert_eq!(overdue.reckon().await, Ok(0));
        let stocks = overdue.app.app.services.gate.stocks(&[overdue.voucher]).await.unwrap();
        assert_eq!(stocks, [Some(1)]);
        overdue.finish().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn twenty_refunds_at_once_are_one_payout() {
    for on in [On::Sqlite, On::Postgres] {
        let overdue = Overdue::of(on, 1).await;
        let ((user, id), money) = (overdue.orders[0], overdue.app.app.services.money.clone());
        hear(&money.notices, "e-1", &paid(id, &format!("t-{id}"), PRICE)).await.unwrap();
        let presses = (0..20).map(|i| money.refunds.start(id, i % 2 == 0, user));
        let started = futures_util::future::join_all(presses).await.iter().filter(|r| r.is_ok()).count();
        assert_eq!(started, 1);
        // Two processes carry it out at the same time.
        let rounds = (0..4).map(|_| money.refunds.round());
        for round in futures_util::future::join_all(rounds).await {
            round.unwrap();
        }
        assert_eq!(overdue.reckon().await, Ok(0));
        let books = money.sandbox.as_ref().unwrap().books().await.unwrap();
        assert_eq!((books.paid.0, books.refunded.0, books.entries.len()), (PRICE, PRICE, 2), "{books:?}");
        overdue.finish().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_refund_whose_answer_was_lost_is_asked_for_again_under_the_same_key() {
    let overdue = Overdue::of(On::chosen(), 3).await;
    let (money, tasks) = (overdue.app.app.services.money.clone(), Shutdown::default());
    let proxy = crate::support::proxy::Proxy::start(overdue.app.app.address, &tasks).await;
    let sandbox = money.sandbox.clone().unwrap();
    let through = format!("http://{}/sandbox-provider", proxy.address);
    let provider = Provider::new(seckill::payment_provider::http::Http::default(), through, Some(sandbox.token.clone()));
    let refunds = seckill::service::refund::Refunds { provider, ..money.refunds.clone() };
    for (user, id) in &overdue.orders {
        hear(&money.notices, &format!("e-{id}"), &paid(*id, &format!("t-{id}"), PRICE)).await.unwrap();
        refunds.start(*id, true, *user).await.unwrap();
    }
    proxy.swallow.store(3, std::sync::atomic::Ordering::SeqCst);
    assert_eq!(refunds.round().await.unwrap(), 0, "nobody heard an answer");
    let there = sandbox.books().await.unwrap();
    assert_eq!(there.refunded.0, 3 * PRICE, "and the money went");
    for (_, id) in &overdue.orders {
        assert_eq!(overdue.app.app.services.store.order(*id).await.unwrap().unwrap().status, Status::Refunding);
    }
    let give_up = tokio::time::Instant::now() + PATIENCE;
    let mut done = 0;
    while done < 3 {
        done += refunds.round().await.unwrap();
        assert!(tokio::time::Instant::now() < give_up, "{done} refunds are noted");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(overdue.reckon().await, Ok(0));
    assert_eq!(sandbox.books().await.unwrap().refunded.0, 3 * PRICE, "once each");
    tasks.begin();
    overdue.finish().await;
}
