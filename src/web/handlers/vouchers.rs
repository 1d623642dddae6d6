//! `/api/voucher…`: a shop's list, and what an admin puts up.

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use serde::Serialize;

use crate::domain::ids::{ShopId, VoucherId};
use crate::domain::money::Fen;
use crate::domain::time::Millis;
use crate::service::sales::Listed;
use crate::web::error::Problem;
use crate::web::extract::{Admin, PathId};
use crate::web::fields::{Fields, JsonFields};
use crate::web::handlers::voucher_fields::{self, idempotency_key};
use crate::web::reply;
use crate::web::state::AppState;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct VoucherJson<'a> {
    id: VoucherId,
    shop_id: ShopId,
    title: &'a str,
    sub_title: &'a str,
    rules: &'a str,
    pay_value: Fen,
    actual_value: Fen,
    /// 0: everyday; 1: on sale here.
    r#type: u8,
    #[serde(skip_serializing_if = "Option::is_none")]
    stock: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    begin_time: Option<Millis>,
    #[serde(skip_serializing_if = "Option::is_none")]
    end_time: Option<Millis>,
}

impl<'a> From<&'a Listed> for VoucherJson<'a> {
    fn from(listed: &'a Listed) -> Self {
        let (fields, sale) = (&listed.voucher.fields, listed.voucher.sale.as_ref());
        Self {
            id: listed.voucher.id,
            shop_id: fields.shop,
            title: &fields.title,
            sub_title: &fields.sub_title,
            rules: &fields.rules,
            pay_value: fields.pay_value,
            actual_value: fields.actual_value,
            r#type: u8::from(sale.is_some()),
            stock: sale.map(|_| listed.left),
            begin_time: sale.map(|s| s.begin),
            end_time: sale.map(|s| s.end),
        }
    }
}

/// `GET /api/voucher/list/{shopId}`
pub async fn list(State(state): State<AppState>, PathId(shop): PathId<ShopId>) -> Result<Response, Problem> {
    let listed = state.sales.listed(shop).await?;
    Ok(reply::ok(listed.iter().map(VoucherJson::from).collect::<Vec<_>>()))
}

fn no_errors(fields: &mut Fields) -> Result<(), Problem> {
    if fields.errors.is_empty() { Ok(()) } else { Err(Problem::Invalid(std::mem::take(&mut fields.errors))) }
}

fn key(headers: &HeaderMap) -> Result<Option<&str>, Problem> {
    let header = headers.get("idempotency-key").map(|h| h.to_str().map_err(|_| Problem::Malformed)).transpose()?;
    idempotency_key(header)
}

/// `POST /api/voucher`
pub async fn create(
    State(state): State<AppState>,
    Admin(by): Admin,
    headers: HeaderMap,
    JsonFields(mut fields): JsonFields,
) -> Result<Response, Problem> {
    fields.only(voucher_fields::VOUCHER)?;
    let voucher = voucher_fields::voucher(&state, &mut fields).await?;
    no_errors(&mut fields)?;
    Ok(reply::ok(state.sales.create_voucher(Some(by.id), key(&headers)?, &voucher).await?))
}

/// `POST /api/voucher/seckill`
pub async fn create_sale(
    State(state): State<AppState>,
    Admin(by): Admin,
    headers: HeaderMap,
    JsonFields(mut fields): JsonFields,
) -> Result<Response, Problem> {
    fields.only(voucher_fields::SALE)?;
    let sale = voucher_fields::sale(&state, &mut fields)?;
    let voucher = voucher_fields::voucher(&state, &mut fields).await?;
    no_errors(&mut fields)?;
    Ok(reply::ok(state.sales.create_sale(Some(by.id), key(&headers)?, &voucher, &sale).await?))
}
