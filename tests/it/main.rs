//! The one integration binary: it links once. Every test here runs against real services that it starts itself.

#![cfg(test)]

mod support;

mod admin;
mod admission_cases;
mod architecture;
mod bad_input;
mod batcher;
mod browser;
mod captcha;
mod commands;
mod crowd;
mod docs;
mod drift;
mod every_click;
mod forms;
mod hmdp;
mod least_trust;
mod limits;
mod lua_contract;
mod machines;
mod managed_redis;
mod model;
mod order_life;
mod programs;
mod purchase;
mod push;
mod queue;
mod recovery;
mod redis_trouble;
mod security;
mod sessions;
mod silence;
mod sockets;
mod split_stock;
mod stampede;
mod store_contract;
mod storm;
mod stream_cases;
mod survives;
mod torn_log;
mod transport;
mod verdicts;
mod who_may;
