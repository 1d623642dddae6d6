//! Random sequences of notices and actions against the sandbox's books: whatever comes in whatever order, the ledger sums
//! to zero.

use std::time::Duration;

use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, RngExt, SeedableRng};
use seckill::domain::ids::{Lane, OrderId, UserId, VoucherId};
use seckill::domain::order::Status;
use seckill::payment_provider::signature::SignedHeaders;
use seckill::service::change::ChangeError;
use seckill::service::money::Money;
use seckill::service::notice::{Heard, NoticeError};
use seckill::service::purchase::Answer;
use seckill::shutdown::Shutdown;
use seckill::store::Store;
use seckill::worker::consumer::Consumer;

use super::races::hear;
use super::{PRICE, SECRET, keys, paid, put_money};
use crate::support::app::{On, TestApp};
use crate::support::long;

/// Sequences of one group: they wait in the stream together.
const GROUP: usize = 50;

#[derive(Debug, Clone, Copy)]
enum Step {
    /// Money that came, told rightly for the first time.
    Right,
    /// An earlier notice, byte for byte.
    Again,
    /// An earlier transaction under a new id.
    NewId,
    /// An earlier id with another body.
    OtherBody,
    WrongAmount,
    Forged,
    Stale,
    Malformed,
    UnknownOrder,
    Cancel,
    TimeOut,
    Refund,
}

const STEPS: [Step; 12] = [
    Step::Right,
    Step::Again,
    Step::NewId,
    Step::OtherBody,
    Step::WrongAmount,
    Step::Forged,
    Step::Stale,
    Step::Malformed,
    Step::UnknownOrder,
    Step::Cancel,
    Step::TimeOut,
    Step::Refund,
];

/// One order and what was told of it.
struct Sequence {
    user: UserId,
    order: OrderId,
    random: StdRng,
    /// Events that were accepted: id, transaction, body.
    told: Vec<(String, String, String)>,
    steps: usize,
}

impl Sequence {
    fn name(&mut self, what: &str) -> String {
        self.steps += 1;
        format!("{what}-{}-{}", self.order, self.steps)
    }

    /// One step, and whether the answer is the one that it must get.
    async fn take(&mut self, money: &Money, step: Step) {
        let earlier = self.told.choose(&mut self.random).cloned();
        match (step, earlier) {
            (Step::Right, _) => self.right(money, PRICE).await,
            (Step::Again, Some((event, _, body))) => {
                assert!(matches!(hear(&money.notices, &event, &body).await, Ok(Heard::Repeated)), "{body}");
            }
            (Step::NewId, Some((_, _, body))) => {
                let event = self.name("e");
                let heard = hear(&money.notices, &event, &body).await;
                assert!(matches!(heard, Ok(Heard::Repeated)), "{heard:?} {body}");
            }
            (Step::OtherBody, Some((event, ..))) => {
                let other = paid(self.order, &self.name("t"), PRICE);
                let heard = hear(&money.notices, &event, &other).await;
                assert!(matches!(heard, Err(NoticeError::OtherBody)), "{heard:?}");
            }
            (Step::WrongAmount, _) => {
                let amount = *[1, PRICE - 1, PRICE + 1, 10 * PRICE].choose(&mut self.random).unwrap();
                let known = money.notices.store.order(self.order).await.unwrap().is_some();
                if known {
                    let body = paid(self.order, &self.name("t"), amount);
                    let heard = hear(&money.notices, &self.name("e"), &body).await;
                    assert!(matches!(heard, Err(NoticeError::WrongAmount)), "{heard:?}");
                } else {
                    // Nobody can compare it yet: it is kept, and goes back.
                    self.right(money, amount).await;
                }
            }
            (Step::Forged | Step::Stale, _) => {
                let (body, event) = (paid(self.order, &self.name("t"), PRICE), self.name("e"));
                let now = money.notices.clock.now().0 / 1000;
                let at = if matches!(step, Step::Stale) { now - 301 } else { now };
                let mut signature = keys().sign(&event, at, body.as_bytes());
                if matches!(step, Step::Forged) {
                    signature = keys().sign(&event, at, format!("{body} ").as_bytes());
                }
                let headers = SignedHeaders { id: &event, timestamp: &at.to_string(), signature: &signature };
                let heard = money.notices.hear(headers, body.as_bytes()).await;
                assert!(matches!(heard, Err(NoticeError::NotBelieved(_))), "{heard:?}");
            }
            (Step::Malformed, _) => {
                let body = paid(self.order, "t", PRICE).replace("orderId", "order");
                let heard = hear(&money.notices, &self.name("e"), &body).await;
                assert!(matches!(heard, Err(NoticeError::Malformed)), "{heard:?}");
            }
            (Step::UnknownOrder, _) => {
                let body = paid(OrderId(self.random.random_range(1..i64::from(u32::MAX))), &self.name("t"), PRICE);
                let heard = hear(&money.notices, &self.name("e"), &body).await;
                assert!(matches!(heard, Err(NoticeError::UnknownOrder)), "{heard:?}");
            }
            (Step::Cancel, _) => done_or_refused(&money.cancels.cancel(self.order, self.user).await),
            (Step::TimeOut, _) => done_or_refused(&money.cancels.time_out(self.order).await),
            (Step::Refund, _) => done_or_refused(&money.refunds.start(self.order, self.random.random(), self.user).await),
            (Step::Again | Step::NewId | Step::OtherBody, None) => {}
        }
    }

    /// Money that the provider took, told for the first time.
    async fn right(&mut self, money: &Money, amount: i64) {
        let (event, transaction) = (self.name("e"), self.name("t"));
        let mut tx = money.notices.store.begin().await.unwrap();
        put_money(&mut tx, &money.notices.clock, self.order, &transaction, amount).await;
        tx.commit().await.unwrap();
        let body = paid(self.order, &transaction, amount);
        let heard = hear(&money.notices, &event, &body).await;
        assert!(matches!(heard, Ok(Heard::Applied | Heard::RefundDue | Heard::Kept)), "{heard:?} {body}");
        self.told.push((event, transaction, body));
    }
}

fn done_or_refused<T: std::fmt::Debug>(answer: &Result<T, ChangeError>) {
    let fine = matches!(answer, Ok(_) | Err(ChangeError::WrongState(_) | ChangeError::NotFound | ChangeError::Queued));
    assert!(fine, "{answer:?}");
}

/// Runs `count` sequences and reckons.
async fn sequences(on: On, count: usize, seed: u64) {
    let app = TestApp::on(on).with("--payment-secret", SECRET).with("--roles", "web").start().await;
    let days = 300 * 86_400_000;
    let voucher = app.sale_between(i64::try_from(count).unwrap(), -1_000, days).await;
    let services = app.app.services.clone();
    let (store, money) = (&services.store, &services.money);
    let mut random = StdRng::seed_from_u64(seed);
    let mut consumer = Consumer {
        reader: services.queue.reader(Lane(0)),
        queue: services.queue.clone(),
        place: services.place.clone(),
        pace: seckill::worker::pace::Pace::new(services.queue.clone(), None, 1, Shutdown::default()),
        bus: services.bus.clone(),
        wakes: money.wakes.clone(),
        shutdown: Shutdown::default(),
    };
    let mut tx = store.begin().await.unwrap();
    let users = tx.insert_users_bulk(17_000_000_000, count as u64, app.clock.now()).await.unwrap();
    tx.commit().await.unwrap();
    let (mut steps, tasks) = (0, Shutdown::default());
    for users in users.chunks(GROUP) {
        let mut group = bought(&services.purchase, voucher, users, &mut random).await;
        for sequence in &mut group {
            // Some are paid before their row is there.
            for _ in 0..sequence.random.random_range(0..3) {
                let step = *[Step::Right, Step::Again, Step::WrongAmount, Step::NewId].choose(&mut sequence.random).unwrap();
                sequence.take(money, step).await;
            }
        }
        while consumer.step(None, Duration::from_millis(5)).await.unwrap().fresh > 0 {}
        if random.random() {
            app.clock.advance(Duration::from_mins(15) + Duration::from_secs(1));
        }
        let runs = group.into_iter().map(|mut sequence| {
            let money = money.clone();
            tasks.spawn(async move {
                for _ in 0..sequence.random.random_range(1..6) {
                    let step = *STEPS.choose(&mut sequence.random).unwrap();
                    sequence.take(&money, step).await;
                }
                sequence.steps
            })
        });
        for run in futures_util::future::join_all(runs).await {
            steps += run.unwrap();
        }
    }
    reckon(store, money, &app, voucher, count).await;
    super::figure(&format!("{on:?}: {count} sequences with {steps} notices (seed {seed}): the ledger sums to zero"));
    app.finish().await;
}

async fn bought(
    purchase: &seckill::service::purchase::Purchase,
    voucher: VoucherId,
    users: &[UserId],
    random: &mut StdRng,
) -> Vec<Sequence> {
    let answers = futures_util::future::join_all(users.iter().map(|user| purchase.buy(*user, voucher))).await;
    let pairs = users.iter().zip(answers);
    pairs
        .map(|(user, answer)| match answer.unwrap() {
            Answer::Admitted { order, .. } => {
                let random = StdRng::seed_from_u64(random.next_u64());
                Sequence { user: *user, order, random, told: Vec::new(), steps: 0 }
            }
            other => panic!("{other:?}"),
        })
        .collect()
}

/// Everything that is owed is carried out; then money here, money there and units agree.
async fn reckon(store: &Store, money: &Money, app: &TestApp, voucher: VoucherId, count: usize) {
    app.clock.advance(Duration::from_mins(16));
    loop {
        let swept = money.notices.sweep().await.unwrap();
        let closed = money.cancels.close_due(200).await.unwrap();
        let refunded = money.refunds.round().await.unwrap();
        let released = app.app.services.releases.apply_due().await.unwrap().done;
        let open = store.open_outbox_count("refund").await.unwrap();
        if swept + closed + refunded + released == 0 && open == 0 {
            break;
        }
    }
    let books = money.sandbox.as_ref().unwrap().books().await.unwrap();
    let (mut kept, mut seen) = (0, 0);
    for entry in books.entries.iter().filter(|e| e.way == seckill::store::Way::Paid) {
        let payments = store.payments_of(entry.order).await.unwrap();
        let own = payments.iter().find(|p| p.transaction == entry.transaction).unwrap();
        match own.state.as_str() {
            "APPLIED" => {
                assert_eq!(store.order(entry.order).await.unwrap().unwrap().status, Status::Paid);
                kept += own.amount.0;
            }
            "REFUNDED" => {}
            state => panic!("{} is {state}", own.transaction),
        }
        seen += 1;
    }
    assert_eq!(books.paid.0 - books.refunded.0 - kept, 0, "the ledger sums to zero over {seen} transactions");
    let live = store.live_orders_of(voucher).await.unwrap().len();
    assert!(live < count && live > 0, "{live} of {count} are live");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn random_sequences_of_notices_leave_a_ledger_that_sums_to_zero() {
    let count = if long() { 5_000 } else { 500 };
    Box::pin(sequences(On::Sqlite, count, 1)).await;
    Box::pin(sequences(On::Postgres, count, 2)).await;
}
