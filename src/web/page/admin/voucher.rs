//! `/admin/vouchers/{id}`: one voucher as its merchant sees it, and what he may do to it.

use askama::Template;
use axum::http::StatusCode;

use crate::domain::voucher::{FieldErrors, Voucher};
use crate::i18n;
use crate::service::sales::Listed;
use crate::web::page::admin::plot::{PlotPart, Series};
use crate::web::page::admin::sale::{SalePart, SaleView, ToolsPart, window};
use crate::web::page::admin::{Part, Said};
use crate::web::page::card::{Action, Card};
use crate::web::page::form::{Field, summary};
use crate::web::page::{Chrome, is_response, voucher_look};

/// What was typed into the forms of the page, where it was refused.
#[derive(Debug, Clone, Default)]
pub struct Typed {
    /// `delta`
    pub delta: String,
    /// `title`, `subTitle` and `rules`; none: that form was not sent.
    pub texts: Option<[String; 3]>,
}

/// What is there of a sale.
struct OfSale {
    sale: SalePart,
    tools: ToolsPart,
    plot: PlotPart,
}

/// The page.
#[derive(Template)]
#[template(path = "admin/voucher.html")]
pub struct VoucherPage {
    /// 200, or what a refusal asks for.
    pub status: StatusCode,
    c: Chrome,
    id: String,
    name: String,
    said: Said,
    minds: Vec<String>,
    range: String,
    shop_link: String,
    card: Card,
    of_sale: Option<OfSale>,
    version: i64,
    title: Field,
    sub_title: Field,
    rules: Field,
    delta: Field,
    /// What somebody typed who was second: it is not lost with the latest in the fields.
    yours: Option<[String; 3]>,
}

impl VoucherPage {
    /// The voucher; `view`: the figures of its sale, when it has one, and the last minutes of it.
    #[must_use]
    pub fn new(c: Chrome, listed: &Listed, view: Option<SaleView<'_>>, series: &[Series], said: Said) -> Self {
        let v = &listed.voucher;
        let none = FieldErrors::new();
        let field = |name, value: &str| Field::new(&c, name, value, &none);
        let of_sale = view.map(|view| OfSale {
            sale: SalePart::new(&c, view),
            tools: ToolsPart::new(&c, view),
            plot: PlotPart::new(&c, Some(v.id), series),
        });
        Self {
            status: StatusCode::OK,
            id: v.id.to_string(),
            name: v.fields.title.clone(),
            said,
            minds: Vec::new(),
            range: window(&c, v),
            shop_link: format!("/shop/{}", v.fields.shop),
            card: Card { preview: true, ..Card::new(&c, listed, None, None) },
            of_sale,
            version: v.sale.map_or(v.version, |sale| sale.version),
            title: field("title", &v.fields.title),
            sub_title: field("subTitle", &v.fields.sub_title),
            rules: field("rules", &v.fields.rules),
            delta: field("delta", ""),
            yours: None,
            c,
        }
    }

    /// The voucher was made just now: with what its merchant may want to look at.
    #[must_use]
    pub fn created(mut self, voucher: &Voucher) -> Self {
        let (fields, stock) = (&voucher.fields, voucher.sale.map(|sale| sale.stock_total));
        self.said.done = self.c.t("voucher-created");
        self.minds = voucher_look::minds(&self.c, Some(fields.pay_value), Some(fields.actual_value), stock, None);
        self
    }

    /// What was typed is wrong (422): it stays in its fields, each with what is wrong.
    #[must_use]
    pub fn invalid(mut self, typed: &Typed, errors: &FieldErrors) -> Self {
        self.status = StatusCode::UNPROCESSABLE_ENTITY;
        self.said.not = summary(&self.c, errors).unwrap_or_default();
        self.delta = Field::new(&self.c, "delta", &typed.delta, errors);
        if let Some([title, sub_title, rules]) = &typed.texts {
            self.title = Field::new(&self.c, "title", title, errors);
            self.sub_title = Field::new(&self.c, "subTitle", sub_title, errors);
            self.rules = Field::new(&self.c, "rules", rules, errors);
        }
        self
    }

    /// The page with the sentence of `code` (`VERSION_CONFLICT`, `BUSY`, …), the latest in its fields, and beside it what
    /// was typed.
    #[must_use]
    pub fn refused(mut self, status: StatusCode, code: &str, typed: &Typed, seconds: u64) -> Self {
        self.status = status;
        self.said.not = i18n::page_message(self.c.lang, code, "", seconds, "");
        typed.delta.clone_into(&mut self.delta.value);
        self.yours.clone_from(&typed.texts);
        self
    }

    /// The page after something that cannot be done to a sale that is over.
    #[must_use]
    pub fn over(mut self) -> Self {
        self.status = StatusCode::CONFLICT;
        self.said.not = self.c.t("desk-over");
        self
    }

    /// Every part of it that changes by itself.
    #[must_use]
    pub fn parts(&self) -> Vec<Part> {
        let of = |s: &OfSale| [s.sale.part(), s.tools.part(), s.plot.part()];
        self.of_sale.iter().flat_map(of).collect()
    }
}
is_response!(VoucherPage);

/// Asks once more before a sale is ended for good.
#[derive(Template)]
#[template(path = "admin/end.html")]
pub struct EndPage {
    /// 200 unless an answer asks for another.
    pub status: StatusCode,
    c: Chrome,
    id: String,
    name: String,
    range: String,
}

impl EndPage {
    /// The question about this voucher's sale.
    #[must_use]
    pub fn new(c: Chrome, voucher: &Voucher) -> Self {
        let (id, name) = (voucher.id.to_string(), voucher.fields.title.clone());
        Self { status: StatusCode::OK, id, name, range: window(&c, voucher), c }
    }
}
is_response!(EndPage);
