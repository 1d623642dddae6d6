//! The payment provider: how it signs, what it says, how it is spoken to, and the built-in sandbox's part in it.
//!
//! No SQL and no orders here: what a notice means for an order is `service/`'s to carry out.

pub mod client;
pub mod http;
pub mod notice;
pub mod sandbox;
pub mod signature;
