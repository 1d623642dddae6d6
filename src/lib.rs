//! seckill: a flash-sale voucher shop that never sells a unit twice and never loses a buyer's place.
//!
//! The crate doc is the map; `docs/ARCHITECTURE.md` tells it at length.
//!
//! - [`domain`]: the rules, pure.
//! - [`store`]: SQL and nothing but SQL. [`gate`], [`queue`], [`push`]: Redis' admission, stream and bus.
//! - [`service`]: one file a story; it composes the rooms above. [`web`] and [`worker`] are its two front doors.
//! - [`load`]: a client, not a part of the shop.
//! - [`app`]: the composition root, the only file that sees every room.

pub mod app;
pub mod cli;
pub mod clock;
pub mod config;
pub mod domain;
pub mod fault;
pub mod gate;
pub mod i18n;
pub mod keys;
pub mod load;
pub mod payment_provider;
pub mod push;
pub mod queue;
pub mod redis;
pub mod secrets;
pub mod service;
pub mod shutdown;
pub mod store;
pub mod telemetry;
pub mod web;
pub mod worker;
