//! `/api/admin/report/{voucherId}` and its table of orders, which is written as it is read.

use std::fmt::Write as _;

use axum::body::Body;
use axum::extract::{RawPathParams, State};
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::{StreamExt, stream};
use serde::Serialize;

use crate::domain::ids::VoucherId;
use crate::domain::money::Fen;
use crate::domain::time::Millis;
use crate::service::reports::Report;
use crate::store::OrderLine;
use crate::web::error::Problem;
use crate::web::extract::Admin;
use crate::web::handlers::control::FiguresJson;
use crate::web::reply;
use crate::web::state::AppState;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ReportJson<'a> {
    #[serde(flatten)]
    figures: FiguresJson,
    title: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    sold_out_at: Option<Millis>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sold_out_after_ms: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    turned_away: Option<i64>,
    ever_paid: i64,
    /// Of a thousand who were admitted.
    #[serde(skip_serializing_if = "Option::is_none")]
    paid_permille: Option<i64>,
    lost_to_timeout: i64,
    money_in: Fen,
    money_back: Fen,
}

fn report_json(state: &AppState, report: &Report) -> Response {
    let (figures, sold_out_at) = (&report.figures, report.sold_out_at);
    reply::ok(ReportJson {
        figures: FiguresJson::new(state, figures),
        title: &report.voucher.fields.title,
        sold_out_at,
        sold_out_after_ms: sold_out_at.map(|at| at.0 - figures.books.begin.0),
        turned_away: report.turned_away,
        ever_paid: report.ever_paid(),
        paid_permille: report.paid_permille(),
        lost_to_timeout: figures.books.timed_out,
        money_in: report.money_in,
        money_back: report.money_back,
    })
}

/// `GET /api/admin/report/{voucherId}` and `…/{voucherId}.csv`
pub async fn report(State(state): State<AppState>, _: Admin, params: RawPathParams) -> Result<Response, Problem> {
    let text = params.iter().next().map_or("", |(_, text)| text);
    let (id, as_table) = text.strip_suffix(".csv").map_or((text, false), |id| (id, true));
    let id: VoucherId = id.parse().map_err(|_| Problem::Malformed)?;
    if as_table {
        return table(state, id).await;
    }
    let report = state.desk.reports.of(id).await?.ok_or(Problem::NotFound)?;
    Ok(report_json(&state, &report))
}

const HEAD: &str =
    "orderId,userId,status,closeReason,payAmount,admittedAt,createdAt,payBefore,paidAt,closedAt,refundedAt,couponCode\r\n";

/// A text as a cell. What a spreadsheet would take for a formula gets an apostrophe before it.
fn cell(text: &str) -> String {
    let risky = text.starts_with(['=', '+', '-', '@', '\t', '\r', '\n']);
    let text = if risky { format!("'{text}") } else { text.to_owned() };
    if text.contains(['"', ',', '\r', '\n']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text }
}

fn row(out: &mut String, line: &OrderLine) {
    let at = |ms: Option<i64>| ms.map(|ms| Millis(ms).to_string()).unwrap_or_default();
    // An order id has more digits than a spreadsheet's numbers: a tab in front would be read back with it, so the digits
    // stand alone, and whoever opens the file imports that column as text.
    let _never_fails = write!(
        out,
        "{},{},{},{},{},{},{},{},{},{},{},{}\r\n",
        line.id,
        line.user_id,
        cell(&line.status),
        cell(line.close_reason.as_deref().unwrap_or_default()),
        line.pay_amount,
        at(Some(line.admitted_at)),
        at(Some(line.created_at)),
        at(line.pay_before),
        at(line.paid_at),
        at(line.closed_at),
        at(line.refunded_at),
        cell(line.coupon_code.as_deref().unwrap_or_default()),
    );
}

/// A page of rows is in memory at a time, whatever the sale sold.
async fn table(state: AppState, id: VoucherId) -> Result<Response, Problem> {
    state.store.sale(id).await?.ok_or(Problem::NotFound)?;
    let first = state.desk.reports.lines(id, 0).await?;
    let pages = stream::unfold(Some((state, Some(first), 0_i64)), move |at| async move {
        let (state, ready, after) = at?;
        let lines = match ready {
            Some(lines) => lines,
            None => match state.desk.reports.lines(id, after).await {
                Ok(lines) => lines,
                // The status is told by now: a broken end tells the reader that rows are missing.
                Err(error) => return Some((Err(std::io::Error::other(error.to_string())), None)),
            },
        };
        let mut text = if after == 0 { format!("\u{feff}{HEAD}") } else { String::new() };
        for line in &lines {
            row(&mut text, line);
        }
        let next = lines.last().map(|line| (state, None, line.id));
        if text.is_empty() { None } else { Some((Ok(Bytes::from(text)), next)) }
    });
    // Fused: a body that is compressed on its way is asked once more after its end.
    let mut response = Body::from_stream(pages.fuse()).into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/csv; charset=utf-8"));
    if let Ok(name) = HeaderValue::from_str(&format!("attachment; filename=\"orders-{id}.csv\"")) {
        headers.insert(header::CONTENT_DISPOSITION, name);
    }
    Ok(response)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_is_never_a_formula_and_never_two_cells() {
        for risky in ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1"] {
            assert!(cell(risky).trim_start_matches('"').starts_with('\''), "{risky:?}");
        }
        assert_eq!(cell("a,b"), "\"a,b\"");
        assert_eq!(cell("say \"x\"\n"), "\"say \"\"x\"\"\n\"");
        assert_eq!(cell("PAID"), "PAID");
    }
}
