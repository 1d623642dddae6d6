//! `/sandbox-pay/{paymentId}`: the sandbox provider's page, where each way that a payment can go is a button.

use askama::Template;
use axum::http::StatusCode;

use crate::domain::ids::OrderId;
use crate::domain::money::Fen;
use crate::web::page::{Chrome, format, is_response};

/// A button: the form's word, its label and its one sentence.
struct Choice {
    word: &'static str,
    label: String,
    why: String,
    go: bool,
}

/// The page.
#[derive(Template)]
#[template(path = "order/sandbox.html")]
pub struct SandboxPage {
    /// 200.
    pub status: StatusCode,
    c: Chrome,
    order: String,
    amount: String,
    payment: String,
    back: String,
    choices: Vec<Choice>,
}

impl SandboxPage {
    /// The page of `payment`; `back` is where a buyer goes who does not pay.
    #[must_use]
    pub fn new(c: Chrome, order: OrderId, amount: Fen, payment: &str, back: String) -> Self {
        let choices = [
            ("approve", "sandbox-approve", "sandbox-approve-why"),
            ("decline", "sandbox-decline", "sandbox-decline-why"),
            ("twice", "sandbox-twice", "sandbox-twice-why"),
            ("late", "sandbox-late", "sandbox-late-why"),
            ("wrong-amount", "sandbox-wrong-amount", "sandbox-wrong-amount-why"),
        ];
        let choice = |(word, label, why)| Choice { word, label: c.t(label), why: c.t(why), go: word == "approve" };
        Self {
            status: StatusCode::OK,
            order: order.to_string(),
            amount: format::yuan(amount),
            payment: payment.to_owned(),
            back,
            choices: choices.map(choice).into(),
            c,
        }
    }

    fn title(&self) -> String {
        self.c.f("sandbox-title", &[("amount", &self.amount)])
    }
}
is_response!(SandboxPage);
