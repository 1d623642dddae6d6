//! The one integration binary: it links once. Every test here runs against real services that it starts itself.

#![cfg(test)]

mod support;

mod architecture;
mod batcher;
mod docs;
mod lua_contract;
mod managed_redis;
mod order_life;
mod purchase;
mod push;
mod queue;
mod recovery;
mod sessions;
mod stampede;
mod store_contract;
