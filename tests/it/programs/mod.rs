//! What other programs see: figures, logs, the description of the API, what is deployed beside the shop.

mod deploy;
mod logs;
mod metrics;
pub mod openapi;
mod pace;
mod schema;
