//! Rules: what a sale, an order, a payment mean.
//!
//! Pure: no clock, no network, no SQL, no async, no text for people. Everything here is a value in and a value out, so
//! that each rule can be tested over all of its inputs.

pub mod admission;
pub mod captcha;
pub mod event;
pub mod ids;
pub mod ledger;
pub mod money;
pub mod order;
pub mod password;
pub mod payment;
pub mod sale;
pub mod ticket;
pub mod time;
pub mod user;
pub mod voucher;
