//! `/admin/seconds`: what was admitted, saved and refused in each of the last seconds in which anything happened.

use std::collections::BTreeMap;

use askama::Template;
use axum::http::StatusCode;

use crate::domain::time::Millis;
use crate::domain::voucher::Voucher;
use crate::web::page::admin::plot::Series;
use crate::web::page::{Chrome, format, is_response};

/// Rows of the table.
const ROWS: usize = 100;

/// Sums over one second.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Second {
    admitted: i64,
    saved: i64,
    refused: i64,
    /// The most that waited, of each lane.
    waiting: BTreeMap<u16, i64>,
}

/// One row.
struct Row {
    at: String,
    datetime: String,
    figures: [String; 4],
}

/// The page.
#[derive(Template)]
#[template(path = "admin/seconds.html")]
pub struct SecondsPage {
    /// 200 unless an answer asks for another.
    pub status: StatusCode,
    c: Chrome,
    /// The voucher that it is of: its address and title; none: all sales.
    of: Option<(String, String)>,
    lead: String,
    rows: Vec<Row>,
}

/// The seconds in which something happened, newest first.
fn seconds(series: &[Series]) -> Vec<(i64, Second)> {
    let mut seconds: BTreeMap<i64, Second> = BTreeMap::new();
    for one in series {
        for pair in one.samples.windows(2) {
            let (before, after) = (pair[0], pair[1]);
            let second = seconds.entry(after.at.0.div_euclid(1000)).or_default();
            second.admitted += (after.admitted - before.admitted).max(0);
            second.saved += (after.saved - before.saved).max(0);
            second.refused += (after.refused - before.refused).max(0);
            let most = second.waiting.entry(one.lane.0).or_default();
            *most = after.waiting.max(*most); // sales of one lane share its queue
        }
    }
    let happened = |second: &Second| {
        second.admitted + second.saved + second.refused > 0 || second.waiting.values().any(|waiting| *waiting > 0)
    };
    seconds.into_iter().rev().filter(|(_, second)| happened(second)).take(ROWS).collect()
}

impl SecondsPage {
    /// The table over `series`; `voucher`: the one sale that they are of; `process`: who answers.
    #[must_use]
    pub fn new(c: Chrome, voucher: Option<&Voucher>, series: &[Series], process: &str) -> Self {
        let row = |(second, sum): (i64, Second)| {
            let at = Millis(second * 1000);
            let figures = [sum.admitted, sum.saved, sum.refused, sum.waiting.values().sum()].map(format::figure);
            Row { at: format::exact(&c, at), datetime: at.rfc3339(), figures }
        };
        Self {
            status: StatusCode::OK,
            of: voucher.map(|v| (format!("/admin/vouchers/{}", v.id), v.fields.title.clone())),
            lead: c.f("seconds-lead", &[("process", &process)]),
            rows: seconds(series).into_iter().map(row).collect(),
            c,
        }
    }
}
is_response!(SecondsPage);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::ids::Lane;
    use crate::service::rings::Sample;

    #[test]
    fn a_second_sums_all_sales_and_idle_ones_are_left_out() {
        let sample =
            |at: i64, n: i64, waiting| Sample { at: Millis(at), admitted: n, saved: n, paid: 0, refused: n, left: 0, waiting };
        let one = Series { lane: Lane(0), samples: vec![sample(1000, 5, 0), sample(2000, 9, 3), sample(3000, 9, 0)] };
        let two = Series { lane: Lane(0), samples: vec![sample(1100, 0, 1), sample(2100, 1, 2)] };
        let waiting = BTreeMap::from([(0, 3)]);
        assert_eq!(seconds(&[one, two]), [(2, Second { admitted: 5, saved: 5, refused: 5, waiting })]);
    }
}
