//! `/api/shop…` and what the course project's pages ask besides: shops, their types, empty blogs.

use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use serde::Serialize;

use crate::domain::ids::ShopId;
use crate::domain::money::Fen;
use crate::domain::voucher::{FieldError, is_hidden};
use crate::service::shops::{Found, Order, Place};
use crate::store::{NewShop, Page};
use crate::web::error::Problem;
use crate::web::extract::{Admin, PathId};
use crate::web::fields::{Fields, JsonFields, QueryFields};
use crate::web::reply;
use crate::web::state::AppState;

/// Shops on one page of a list.
const PER_PAGE: i64 = 5;
/// The picture of a shop that has none. Under `/api`, because that is all that a foreign web server passes on.
const PICTURE: &str = "/api/picture/shop.svg";

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ShopJson<'a> {
    id: ShopId,
    name: &'a str,
    type_id: i64,
    images: &'a str,
    area: &'a str,
    address: &'a str,
    x: f64,
    y: f64,
    /// Whole yuan, as those pages print it.
    avg_price: i64,
    sold: i64,
    comments: i64,
    score: i64,
    open_hours: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    distance: Option<f64>,
}

fn degrees(millionths: i64) -> f64 {
    f64::from(i32::try_from(millionths).unwrap_or(0)) / 1e6
}

impl<'a> From<&'a Found> for ShopJson<'a> {
    fn from(found: &'a Found) -> Self {
        let s = &found.shop;
        Self {
            id: s.id,
            name: &s.name,
            type_id: s.type_id,
            images: if s.images.is_empty() { PICTURE } else { &s.images },
            area: &s.area,
            address: &s.address,
            x: degrees(s.x),
            y: degrees(s.y),
            avg_price: s.avg_price.whole_yuan(),
            sold: s.sold,
            comments: s.comments,
            score: s.score,
            open_hours: &s.open_hours,
            distance: found.distance,
        }
    }
}

/// `GET /api/shop/{id}`
pub async fn one(State(state): State<AppState>, PathId(id): PathId<ShopId>) -> Result<Response, Problem> {
    let shop = state.shops.one(id).await?.ok_or(Problem::NotFound)?;
    Ok(reply::ok(ShopJson::from(&Found { shop, distance: None })))
}

fn page(fields: &mut Fields) -> Result<Page, Problem> {
    let current = fields.integer("current").unwrap_or(1);
    if !fields.errors.is_empty() || !(1..=1_000_000).contains(&current) {
        return Err(Problem::Malformed);
    }
    Ok(Page { offset: (current - 1) * PER_PAGE, limit: PER_PAGE })
}

/// Degrees as decimal text to millionths; none for anything that is no place on earth.
fn millionths(text: &str, limit: i64) -> Option<i64> {
    let degrees: f64 = text.trim().parse().ok()?;
    if !degrees.is_finite() || degrees.abs() > 180.0 {
        return None;
    }
    let micro = format!("{:.0}", degrees * 1e6).parse::<i64>().ok()?;
    (micro.abs() <= limit * 1_000_000).then_some(micro)
}

fn place(fields: &Fields) -> Option<Place> {
    Some(Place { x: millionths(fields.typed("x"), 180)?, y: millionths(fields.typed("y"), 90)? })
}

fn list(found: &[Found]) -> Response {
    reply::ok(found.iter().map(ShopJson::from).collect::<Vec<_>>())
}

/// `GET /api/shop/of/type?typeId&current&x&y&sortBy`
pub async fn of_type(State(state): State<AppState>, QueryFields(mut fields): QueryFields) -> Result<Response, Problem> {
    let page = page(&mut fields)?;
    let type_id = fields.integer("typeId").ok_or(Problem::Malformed)?;
    let order = match fields.typed("sortBy") {
        "comments" => Order::Comments,
        "score" => Order::Score,
        _ => Order::Near,
    };
    Ok(list(&state.shops.of_type(type_id, place(&fields), order, page).await?))
}

/// `GET /api/shop/of/name?name&current`
pub async fn of_name(State(state): State<AppState>, QueryFields(mut fields): QueryFields) -> Result<Response, Problem> {
    let page = page(&mut fields)?;
    let part: String = fields.typed("name").chars().take(100).collect();
    Ok(list(&state.shops.by_name(&part, page).await?))
}

#[derive(Serialize)]
struct TypeJson<'a> {
    id: i64,
    name: &'a str,
    icon: &'a str,
    sort: i64,
}

/// `GET /api/shop-type/list`
pub async fn types(State(state): State<AppState>) -> Result<Response, Problem> {
    let types = state.shops.types().await?;
    let json: Vec<_> = types.iter().map(|t| TypeJson { id: t.id, name: &t.name, icon: &t.icon, sort: t.sort }).collect();
    Ok(reply::ok(json))
}

const FIELDS: &[&str] = &["name", "typeId", "images", "area", "address", "x", "y", "avgPrice", "openHours"];

/// A text of at most `max` characters, without hidden ones.
fn short_text(fields: &mut Fields, name: &'static str, max: usize) -> Result<String, Problem> {
    let text = fields.text(name)?.unwrap_or_default().to_owned();
    if text.chars().count() > max {
        fields.errors.insert(name, FieldError::TooLong { max });
    } else if text.chars().any(is_hidden) {
        fields.errors.insert(name, FieldError::ControlCharacter);
    }
    Ok(text)
}

fn read_shop(fields: &mut Fields) -> Result<NewShop, Problem> {
    fields.only(FIELDS)?;
    let name = short_text(fields, "name", 100)?;
    if name.trim().is_empty() {
        fields.errors.insert("name", FieldError::Missing);
    }
    let mut shop = NewShop::named(&name);
    shop.type_id = fields.integer("typeId").unwrap_or(shop.type_id);
    shop.images = short_text(fields, "images", 1000)?;
    shop.area = short_text(fields, "area", 100)?;
    shop.address = short_text(fields, "address", 200)?;
    shop.open_hours = short_text(fields, "openHours", 50)?;
    for (axis, limit, to) in [("x", 180, &mut shop.x), ("y", 90, &mut shop.y)] {
        if let Some(text) = fields.number_text(axis) {
            match millionths(&text, limit) {
                Some(value) => *to = value,
                None => drop(fields.errors.insert(axis, FieldError::OutOfRange { min: -limit, max: limit })),
            }
        }
    }
    match fields.integer("avgPrice") {
        Some(yuan) if (0..=1_000_000).contains(&yuan) => shop.avg_price = Fen(yuan * 100),
        Some(_) => drop(fields.errors.insert("avgPrice", FieldError::OutOfRange { min: 0, max: 1_000_000 })),
        None => {}
    }
    if fields.errors.is_empty() { Ok(shop) } else { Err(Problem::Invalid(std::mem::take(&mut fields.errors))) }
}

/// `POST /api/shop`
pub async fn create(
    State(state): State<AppState>,
    Admin(by): Admin,
    JsonFields(mut fields): JsonFields,
) -> Result<Response, Problem> {
    let shop = read_shop(&mut fields)?;
    let types = state.shops.types().await?;
    if types.iter().all(|t| t.id != shop.type_id) {
        let max = types.iter().map(|t| t.id).max().unwrap_or(1);
        return Err(Problem::Invalid([("typeId", FieldError::OutOfRange { min: 1, max })].into()));
    }
    Ok(reply::ok(state.sales.create_shop(by.id, &shop).await?))
}

/// `GET /api/picture/shop.svg`: the built-in picture.
pub async fn picture() -> Response {
    let svg = include_str!("../../../static/mark.svg");
    ([(header::CONTENT_TYPE, "image/svg+xml")], svg).into_response()
}

/// `GET /api/blog/hot` and `/api/blog/of/me`: there are no blogs here.
pub async fn no_blogs() -> Response {
    reply::ok(Vec::<()>::new())
}

/// `GET /api/blog/of/follow`: nor anybody to follow.
pub async fn nothing() -> Response {
    reply::done()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_read_in_degrees_and_nonsense_is_no_place() {
        assert_eq!(millionths("120.149993", 180), Some(120_149_993));
        assert_eq!(millionths("-0.5", 90), Some(-500_000));
        for bad in ["", "NaN", "inf", "91", "abc", "1e9"] {
            assert_eq!(millionths(bad, 90), None, "{bad}");
        }
    }
}
