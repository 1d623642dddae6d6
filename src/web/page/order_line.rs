//! The time line of an order: what has happened, where it stands, what is to come.

use crate::domain::order::{CloseReason, Order, Refund, Status};
use crate::domain::time::Millis;
use crate::web::page::card::pay_minutes;
use crate::web::page::{Chrome, format};

/// One step.
pub(super) struct Step {
    /// Has happened.
    pub(super) done: bool,
    /// Where the order stands.
    pub(super) here: bool,
    pub(super) words: String,
    /// A time or a word at the right; empty for none.
    pub(super) at: String,
    /// RFC 3339 when `at` is a time.
    pub(super) datetime: String,
    /// A sentence below; empty for none.
    pub(super) why: String,
}

struct Line<'a> {
    c: &'a Chrome,
    steps: Vec<Step>,
}

impl Line<'_> {
    fn push(&mut self, done: bool, here: bool, words: String, at: Option<Millis>) -> &mut Step {
        let (text, datetime) = at.map(|at| (format::exact(self.c, at), at.rfc3339())).unwrap_or_default();
        self.steps.push(Step { done, here, words, at: text, datetime, why: String::new() });
        let last = self.steps.len() - 1;
        &mut self.steps[last]
    }

    fn done(&mut self, words: String, at: Option<Millis>) {
        self.push(true, false, words, at);
    }

    fn here(&mut self, words: String, at: Option<Millis>) -> &mut Step {
        self.push(false, true, words, at)
    }

    fn later(&mut self, key: &str) {
        let words = self.c.t(key);
        self.push(false, false, words, None);
    }
}

/// The steps of an order, oldest first.
pub(super) fn steps(c: &Chrome, order: &Order) -> Vec<Step> {
    let mut line = Line { c, steps: Vec::new() };
    let paid = c.f("line-paid", &[("amount", &format::yuan(order.pay_amount))]);
    let refunding = c.f("line-refunding", &[("amount", &format::yuan(order.pay_amount))]);
    let refunded = c.f("line-refunded", &[("amount", &format::yuan(order.pay_amount))]);
    line.done(c.t("line-admitted"), Some(order.id.born_at()));
    if !matches!(order.status, Status::Queued | Status::Failed) {
        line.done(c.t("line-created"), Some(order.created_at));
    }
    match order.status {
        Status::Queued => {
            let step = line.here(c.t("line-saving"), None);
            step.at = c.t("line-saving-now");
            step.why = c.f("line-saving-why", &[("minutes", &pay_minutes(c))]);
            line.later("line-pay");
            line.later("line-coupon");
        }
        Status::Pending => {
            let until = order.pay_before.map(|at| c.f("line-until", &[("time", &format::exact(c, at))]));
            line.here(c.t("line-waiting"), None).at = until.unwrap_or_default();
            line.later("line-coupon");
        }
        Status::Paid => {
            line.done(paid, order.paid_at);
            match order.coupon_code {
                Some(_) => line.done(c.t("line-coupon-sent"), order.paid_at),
                None => drop(line.here(c.t("line-coupon"), None)),
            }
        }
        Status::Cancelled => {
            let timeout = order.close_reason == Some(CloseReason::Timeout);
            let words = c.t(if timeout { "line-timeout" } else { "line-cancelled" });
            match order.refund {
                None => drop(line.here(words, order.closed_at)),
                Some(refund) => {
                    line.done(words, order.closed_at);
                    line.done(paid, order.paid_at);
                    let done = refund == Refund::Done;
                    line.here(if done { refunded } else { refunding }, order.refunded_at.filter(|_| done));
                }
            }
        }
        Status::Refunding => {
            line.done(paid, order.paid_at);
            line.here(refunding, None);
        }
        Status::Refunded => {
            line.done(paid, order.paid_at);
            line.here(refunded, order.refunded_at);
        }
        Status::Failed => {
            let lost = order.close_reason == Some(CloseReason::Lost);
            let step = line.here(c.t("line-failed"), order.closed_at);
            step.why = c.t(if lost { "line-failed-lost" } else { "line-failed-final" });
        }
    }
    line.steps
}
