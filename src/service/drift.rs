//! Does every unit stand where the books say, seen while the sale goes on? Finds drift a unit at a time, and mends it.
//!
//! Each look puts its readings in an order in which no correct shop can fool it: a suspect is seen at one store before the
//! other is asked and again after. Even so it counts only when seen twice at one epoch. `audit.rs` is the command's report.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::time::Duration;

use crate::clock::Clock;
use crate::domain::ids::{Epoch, Lane, OrderId, UserId, VoucherId};
use crate::domain::sale::Sale;
use crate::gate::Gate;
use crate::queue::Queue;
use crate::service::ServiceError;
use crate::service::place_orders::buried_entry;
use crate::service::rebuild::{Cause, Rebuilds, Rebuilt, Shut};
use crate::store::{Standing, Store};

/// Between the two looks that a suspect must be seen in.
const LOOK_AGAIN_AFTER: Duration = Duration::from_millis(400);
/// How long a gate is kept shut for the last look. Over it, what was seen twice stands.
const CONFIRM_WITHIN: Duration = Duration::from_millis(200);
/// An order younger than this is most likely being saved right now; it is asked about in the next look.
const SETTLES_WITHIN: Duration = Duration::from_secs(3);
/// Rows of one page.
const PAGE: i64 = 1000;
/// Between two pages and two sales, so that an audit never takes the stores for itself.
const PAUSE: Duration = Duration::from_millis(2);
/// Open dead letters that are looked through; with more of them, a holder without a row proves nothing.
const LETTERS: usize = 10_000;

/// One thing that does not fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Suspect {
    /// `D + A` is not `I`.
    Books,
    /// Stock and holders at the gate are not the total.
    Sum,
    /// A holder that is no pair of ids.
    Unreadable,
    /// A holder whose order is neither live, nor on its way back, nor waiting to be saved.
    Stranger(UserId, OrderId),
    /// A live order that holds nothing at the gate.
    Missing(UserId, OrderId),
}

/// What a look found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// SQL's epoch all through the look.
    pub epoch: Epoch,
    /// What did not fit; empty: everything did.
    pub suspects: BTreeSet<Suspect>,
}

/// What one round did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Round {
    /// Sales that were looked at.
    pub looked: usize,
    /// Sales in which something did not fit at the first look.
    pub suspected: usize,
    /// Sales in which it was still there at the second: these were mended.
    pub believed: usize,
}

/// Order ids that one lane's stream carried a moment ago.
type Waiting = HashMap<Lane, HashSet<OrderId>>;

/// Looks for drift; cheap to clone.
#[derive(Clone)]
pub struct Drift {
    /// The books.
    pub store: Store,
    /// The gates.
    pub gate: Gate,
    /// The streams.
    pub queue: Queue,
    /// Puts it right.
    pub rebuilds: Rebuilds,
    /// The time.
    pub clock: Clock,
}

impl Drift {
    /// The lanes whose turn it is and who asks first: among all workers one a lane in `time`.
    pub async fn take_turns(&self, time: Duration) -> Result<Vec<Lane>, ServiceError> {
        let mut mine = Vec::new();
        for lane in (0..self.rebuilds.lanes).map(Lane) {
            if self.gate.take_audit_turn(lane, time).await? {
                mine.push(lane);
            }
        }
        Ok(mine)
    }

    /// Looks at every sale that is on, to come, or over for less than `closed_within`, in the lanes that are `mine`, and
    /// mends what two looks agree on.
    ///
    /// # Errors
    /// A store cannot be asked; what one sale alone cannot answer is logged, and the others are looked at.
    pub async fn round(&self, mine: &[Lane], closed_within: Duration) -> Result<Round, ServiceError> {
        let mut round = Round::default();
        let mut waiting = Waiting::new();
        let mut suspected: Vec<(VoucherId, Seen)> = Vec::new();
        for sale in self.store.sales_not_over(self.clock.now(), closed_within).await? {
            if !mine.contains(&self.gate.lane_of(sale.voucher)) {
                continue;
            }
            round.looked += 1;
            match self.look_with(sale.voucher, &mut waiting).await {
                Ok(Some(seen)) if !seen.suspects.is_empty() => suspected.push((sale.voucher, seen)),
                Ok(_) => {}
                Err(error @ ServiceError::Internal(_)) => {
                    tracing::error!(voucher.id = %sale.voucher, %error, "a sale cannot be audited");
                }
                Err(error) => return Err(error),
            }
            tokio::time::sleep(PAUSE).await;
        }
        round.suspected = suspected.len();
        if suspected.is_empty() {
            return Ok(round);
        }
        tokio::time::sleep(LOOK_AGAIN_AFTER).await;
        for (voucher, first) in suspected {
            if let Some(seen) = self.still_there(voucher, &first).await? {
                round.believed += 1;
                self.mend(voucher, &seen).await?;
            }
        }
        Ok(round)
    }

    /// Both looks at one sale; none: nothing was seen twice. Changes nothing.
    pub async fn check(&self, voucher: VoucherId) -> Result<Option<Seen>, ServiceError> {
        let Some(first) = self.look(voucher).await?.filter(|seen| !seen.suspects.is_empty()) else { return Ok(None) };
        tokio::time::sleep(LOOK_AGAIN_AFTER).await;
        self.still_there(voucher, &first).await
    }

    /// One look at one sale; none: it cannot be compared now (its gate is shut, or the epoch moved meanwhile).
    pub async fn look(&self, voucher: VoucherId) -> Result<Option<Seen>, ServiceError> {
        self.look_with(voucher, &mut Waiting::new()).await
    }

    async fn still_there(&self, voucher: VoucherId, first: &Seen) -> Result<Option<Seen>, ServiceError> {
        let Some(again) = self.look(voucher).await? else { return Ok(None) };
        let suspects: BTreeSet<Suspect> = again.suspects.intersection(&first.suspects).copied().collect();
        Ok((again.epoch == first.epoch && !suspects.is_empty()).then_some(Seen { epoch: again.epoch, suspects }))
    }

    async fn look_with(&self, voucher: VoucherId, waiting: &mut Waiting) -> Result<Option<Seen>, ServiceError> {
        let (Some(sale), Some(figures)) = (self.store.sale(voucher).await?, self.store.figures(voucher).await?) else {
            return Ok(None);
        };
        let mut suspects = BTreeSet::new();
        if !figures.books_balance() {
            suspects.insert(Suspect::Books);
        }
        if self.is_over(&sale) {
            // Its gate is not needed any more, and releases end without it.
            return Ok(Some(Seen { epoch: sale.epoch, suspects }));
        }
        let gate = self.gate.snapshot(voucher).await?;
        match gate.misfit(sale.epoch) {
            None => {}
            Some("sum") => drop(suspects.insert(Suspect::Sum)),
            // Somebody rebuilds it, or will in a second.
            Some(_) => return Ok(None),
        }
        if gate.holders > 0 {
            self.strangers(&sale, waiting, &mut suspects).await?;
        }
        if figures.a > 0 {
            self.missing(&sale, &mut suspects).await?;
        }
        // All of it must have been one epoch, on one server, before the end.
        let Some(after) = self.store.sale(voucher).await? else { return Ok(None) };
        let unmoved = after.epoch == sale.epoch && !self.is_over(&after);
        let fits = matches!(self.gate.snapshot(voucher).await?.misfit(sale.epoch), None | Some("sum"));
        Ok((unmoved && fits).then_some(Seen { epoch: sale.epoch, suspects }))
    }

    fn is_over(&self, sale: &Sale) -> bool {
        sale.end <= self.clock.now()
    }

    /// Holders first, rows second: what a holder stands for was written before he left the stream.
    async fn strangers(&self, sale: &Sale, waiting: &mut Waiting, suspects: &mut BTreeSet<Suspect>) -> Result<(), ServiceError> {
        let lane = self.gate.lane_of(sale.voucher);
        // The mutant: every store once, the stream before the holders.
        let once = crate::fault::mutant("audit-reads-once");
        if once {
            waiting.insert(lane, self.ids_in_stream(lane).await?);
        }
        let settled_by = self.clock.now() - SETTLES_WITHIN;
        let mut without_row: Vec<(UserId, OrderId)> = Vec::new();
        let mut closed: Vec<(UserId, OrderId)> = Vec::new();
        let mut from = None;
        loop {
            let page = self.gate.holders_page(sale.voucher, from.as_deref()).await?;
            if page.unreadable > 0 {
                suspects.insert(Suspect::Unreadable);
            }
            let rows = self.standings(page.holders.iter().map(|(_, order)| *order)).await?;
            for (user, order) in page.holders {
                match rows.get(&order) {
                    Some(row) if is_his(row, user, sale.voucher) && (row.live || row.releasing) => {}
                    Some(_) => closed.push((user, order)),
                    None if order.born_at() > settled_by && !once => {}
                    None => without_row.push((user, order)),
                }
            }
            from = page.next;
            if from.is_none() {
                break;
            }
            tokio::time::sleep(PAUSE).await;
        }
        // Without a row: in the stream, or buried, or decided by now. In this order: an entry leaves the stream after its
        // letter or row is committed, and a letter is closed together with its row.
        without_row.retain(|(_, order)| !waiting.get(&lane).is_some_and(|ids| ids.contains(order)));
        if once {
            suspects.extend(without_row.iter().chain(&closed).map(|(user, order)| Suspect::Stranger(*user, *order)));
            return Ok(());
        }
        if !without_row.is_empty() {
            let ids = self.ids_in_stream(lane).await?;
            without_row.retain(|(_, order)| !ids.contains(order));
            waiting.insert(lane, ids);
        }
        if !without_row.is_empty() {
            let letters = self.store.open_dead_letters(i64::try_from(LETTERS).unwrap_or(i64::MAX)).await?;
            let buried: HashSet<OrderId> =
                letters.iter().filter_map(|l| buried_entry(&l.letter.entry_json)).map(|entry| entry.order).collect();
            let rows = self.standings(without_row.iter().map(|(_, order)| *order)).await?;
            without_row.retain(|(_, order)| letters.len() < LETTERS && !buried.contains(order) && !rows.contains_key(order));
        }
        // Still there? A release that ended while we read has taken its holder away before it was marked as done.
        without_row.extend(closed);
        for some in without_row.chunks(usize::try_from(PAGE).unwrap_or(1000)) {
            let users: Vec<UserId> = some.iter().map(|(user, _)| *user).collect();
            let held = self.gate.held_by(sale.voucher, &users).await?;
            let still = some.iter().zip(held).filter(|((_, order), held)| *held == Some(*order));
            suspects.extend(still.map(|((user, order), _)| Suspect::Stranger(*user, *order)));
        }
        Ok(())
    }

    /// Live before the gate is asked and live after: then it was live, and a holder, all the time.
    async fn missing(&self, sale: &Sale, suspects: &mut BTreeSet<Suspect>) -> Result<(), ServiceError> {
        let mut after = UserId(0);
        loop {
            let live = self.store.live_page(sale.voucher, after, PAGE).await?;
            let Some((last, _)) = live.last() else { return Ok(()) };
            after = *last;
            let users: Vec<UserId> = live.iter().map(|(user, _)| *user).collect();
            let held = self.gate.held_by(sale.voucher, &users).await?;
            let gone: Vec<(UserId, OrderId)> =
                live.into_iter().zip(held).filter(|((_, order), held)| *held != Some(*order)).map(|(one, _)| one).collect();
            let rows = self.standings(gone.iter().map(|(_, order)| *order)).await?;
            let still = gone.into_iter().filter(|(_, order)| rows.get(order).is_some_and(|row| row.live));
            suspects.extend(still.map(|(user, order)| Suspect::Missing(user, order)));
            tokio::time::sleep(PAUSE).await;
        }
    }

    async fn standings(&self, orders: impl Iterator<Item = OrderId>) -> Result<HashMap<OrderId, Standing>, ServiceError> {
        let (orders, mut found) = (orders.collect::<Vec<_>>(), HashMap::new());
        for some in orders.chunks(usize::try_from(PAGE).unwrap_or(1000)) {
            found.extend(self.store.standings(some).await?.into_iter().map(|row| (row.order, row)));
        }
        Ok(found)
    }

    async fn ids_in_stream(&self, lane: Lane) -> Result<HashSet<OrderId>, ServiceError> {
        let entries = self.queue.entries(lane).await?.into_iter();
        Ok(entries.filter_map(|delivery| delivery.entry.ok()).map(|entry| entry.order).collect())
    }

    /// Mends what two looks agreed on: shuts the gate for a last look, then rebuilds it. True: it is open again.
    ///
    /// The last look changes nothing but the words of the log: from a shut gate there is one way out, the rebuild, and it is
    /// right whatever was seen.
    pub async fn mend(&self, voucher: VoucherId, seen: &Seen) -> Result<bool, ServiceError> {
        let gauge = metrics::gauge!("seckill_drift_units", "voucher" => voucher.to_string());
        #[expect(clippy::cast_precision_loss, reason = "a gauge is a float; nobody counts 2^53 strangers")]
        gauge.set(seen.suspects.len() as f64);
        let Some(sale) = self.store.sale(voucher).await? else { return Ok(false) };
        tracing::error!(voucher.id = %voucher, epoch = seen.epoch, suspects = %told(&seen.suspects), "the books have drifted");
        if self.is_over(&sale) {
            self.rebuilds.mend_books(voucher, &told(&seen.suspects)).await?;
            gauge.set(0.0);
            return Ok(true);
        }
        let before = self.figures_told(voucher, seen).await?;
        let Shut::By(claim) = self.rebuilds.shut(voucher).await? else { return Ok(false) };
        let confirmed = tokio::time::timeout(CONFIRM_WITHIN, self.confirmed(voucher, seen)).await;
        let reason = match confirmed {
            Ok(Ok(false)) => "drift_gone",
            Ok(Ok(true) | Err(_)) | Err(_) => "drift",
        };
        let rebuilt = self.rebuilds.go_on(voucher, claim, 0, &Cause::system(reason, Some(before))).await?;
        if let Rebuilt::GivenUp(why) = rebuilt {
            tracing::info!(voucher.id = %voucher, why, "rebuild given up; it is tried again");
        }
        let open = matches!(rebuilt, Rebuilt::Open(_));
        if open {
            gauge.set(0.0);
        }
        Ok(open)
    }

    /// With the gate shut nobody comes in; whether anything of what was seen is still there.
    async fn confirmed(&self, voucher: VoucherId, seen: &Seen) -> Result<bool, ServiceError> {
        let Some(figures) = self.store.figures(voucher).await? else { return Ok(false) };
        if seen.suspects.contains(&Suspect::Books) && !figures.books_balance() {
            return Ok(true);
        }
        let gate = self.gate.snapshot(voucher).await?;
        if seen.suspects.contains(&Suspect::Sum) && gate.misfit(seen.epoch) == Some("sum") {
            return Ok(true);
        }
        for suspect in &seen.suspects {
            let (Suspect::Stranger(user, order) | Suspect::Missing(user, order)) = suspect else { continue };
            let stranger = matches!(suspect, Suspect::Stranger(..));
            let held = self.gate.held_by(voucher, &[*user]).await?.first().copied().flatten() == Some(*order);
            let rows = self.store.standings(&[*order]).await?;
            let live = rows.first().is_some_and(|row| is_his(row, *user, voucher) && row.live);
            if held == stranger && live != stranger {
                return Ok(true);
            }
        }
        Ok(seen.suspects.contains(&Suspect::Unreadable))
    }

    async fn figures_told(&self, voucher: VoucherId, seen: &Seen) -> Result<String, ServiceError> {
        let (figures, gate) = (self.store.figures(voucher).await?.unwrap_or_default(), self.gate.snapshot(voucher).await?);
        let stock = gate.stock.map_or_else(|| String::from("none"), |stock| stock.to_string());
        Ok(format!(
            "epoch {}, I {}, D {}, A {}, gate: stock {stock}, holders {}; {}",
            seen.epoch,
            figures.i,
            figures.d,
            figures.a,
            gate.holders,
            told(&seen.suspects)
        ))
    }
}

fn is_his(row: &Standing, user: UserId, voucher: VoucherId) -> bool {
    row.user == user && row.voucher == voucher
}

/// A few suspects in words, for a log line.
fn told(suspects: &BTreeSet<Suspect>) -> String {
    let one = |suspect: &Suspect| match suspect {
        Suspect::Books => String::from("D + A is not I"),
        Suspect::Sum => String::from("stock and holders are not the total"),
        Suspect::Unreadable => String::from("a holder cannot be read"),
        Suspect::Stranger(user, order) => format!("user {user} holds a unit by order {order}, which has none"),
        Suspect::Missing(user, order) => format!("order {order} of user {user} does not hold its unit"),
    };
    let mut words: Vec<String> = suspects.iter().take(5).map(one).collect();
    if suspects.len() > words.len() {
        words.push(format!("and {} more", suspects.len() - words.len()));
    }
    words.join("; ")
}
