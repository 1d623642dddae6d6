//! `/admin/vouchers/new`: the form that puts up a sale.

use axum::extract::State;
use axum::response::{IntoResponse, Redirect, Response};

use crate::domain::ids::{ShopId, UserId, VoucherId};
use crate::domain::voucher::{FieldErrors, NewSale, NewVoucher, Voucher};
use crate::web::error::Problem;
use crate::web::extract::{Admin, Frame};
use crate::web::fields::{Fields, FormFields, QueryFields};
use crate::web::handlers::voucher_fields::{self, idempotency_key};
use crate::web::page::{Chrome, FormText, VoucherFormPage};
use crate::web::state::AppState;

async fn shops(state: &AppState) -> Result<Vec<(ShopId, String)>, Problem> {
    Ok(state.store.shops().await?.into_iter().map(|s| (s.id, s.name)).collect())
}

/// Earlier vouchers offered for a copy.
const COPIES: usize = 20;

/// The latest sales, newest first.
async fn earlier(state: &AppState) -> Result<Vec<Voucher>, Problem> {
    let mut sales = state.store.all_sales().await?;
    sales.sort_by_key(|sale| std::cmp::Reverse(sale.voucher));
    let mut vouchers = Vec::new();
    for sale in sales.iter().take(COPIES) {
        vouchers.extend(state.store.voucher(sale.voucher).await?);
    }
    Ok(vouchers)
}

/// `GET /admin/vouchers/new`; `?copy=ID` begins with an earlier voucher, a wrong id with an empty form.
pub async fn form(
    State(state): State<AppState>,
    _: Admin,
    Frame(chrome): Frame,
    QueryFields(query): QueryFields,
) -> Result<Response, Problem> {
    let from = match query.typed("copy").parse::<VoucherId>() {
        Ok(id) => state.store.voucher(id).await?,
        Err(_) => None,
    };
    let text = match &from {
        Some(voucher) => FormText::copy_of(voucher, chrome.now, &chrome.zone),
        None => FormText::fresh(chrome.now, &chrome.zone),
    };
    // The same id on every submit of this form: a double click makes one voucher.
    let text = FormText { form_id: format!("{:032x}", rand::random::<u128>()), ..text };
    let page = VoucherFormPage::new(chrome, &shops(&state).await?, &text, &FieldErrors::new());
    Ok(page.with_copies(&earlier(&state).await?, from.as_ref()).into_response())
}

fn typed(fields: &Fields) -> FormText {
    let text = |name: &str| fields.typed(name).to_owned();
    FormText {
        form_id: text("formId"),
        time_zone: text("timeZone"),
        shop_id: text("shopId"),
        title: text("title"),
        sub_title: text("subTitle"),
        rules: text("rules"),
        pay_value: text("payValue"),
        actual_value: text("actualValue"),
        stock: text("stock"),
        begin_time: text("beginTime"),
        end_time: text("endTime"),
        captcha: fields.switch("captcha").unwrap_or_default(),
    }
}

/// Reads the form; what is wrong with it is in `fields.errors`.
async fn read(state: &AppState, fields: &mut Fields) -> Result<(NewVoucher, NewSale), Problem> {
    let sale = voucher_fields::sale(state, fields)?;
    Ok((voucher_fields::voucher(state, fields).await?, sale))
}

async fn create(state: &AppState, by: UserId, fields: &mut Fields) -> Result<VoucherId, Problem> {
    let (voucher, sale) = read(state, fields).await?;
    if !fields.errors.is_empty() {
        return Err(Problem::Invalid(std::mem::take(&mut fields.errors)));
    }
    let key = idempotency_key(Some(fields.typed("formId")))?;
    Ok(state.sales.create_sale(Some(by), key, &voucher, &sale).await?)
}

/// `POST /admin/vouchers/new`; the button `do=preview` saves nothing.
pub async fn submit(
    State(state): State<AppState>,
    Admin(by): Admin,
    Frame(chrome): Frame,
    FormFields(mut fields): FormFields,
) -> Result<Response, Problem> {
    if fields.typed("do") == "preview" {
        read(&state, &mut fields).await?;
        let page = VoucherFormPage::new(chrome, &shops(&state).await?, &typed(&fields), &fields.errors);
        return Ok(page.previewed().into_response());
    }
    let problem = match create(&state, by.id, &mut fields).await {
        Ok(id) => return Ok(Redirect::to(&format!("/admin/vouchers/{id}")).into_response()),
        Err(problem) => problem,
    };
    refused(&state, chrome, &fields, problem).await
}

async fn refused(state: &AppState, chrome: Chrome, fields: &Fields, problem: Problem) -> Result<Response, Problem> {
    let none = FieldErrors::new();
    let errors = match &problem {
        Problem::Invalid(errors) => errors,
        Problem::Busy(_) | Problem::Uncertain => &none,
        _ => return Err(problem),
    };
    // Without the list of shops (the database is away) the form is still worth keeping.
    let shops = shops(state).await.unwrap_or_default();
    let page = VoucherFormPage::new(chrome, &shops, &typed(fields), errors);
    if errors.is_empty() {
        let ((_, code), status, wait) = (problem.status_and_code(), problem.page_status(), problem.retry_after());
        return Ok(page.refused(status, code, wait).into_response());
    }
    Ok(page.into_response())
}
