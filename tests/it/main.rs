//! The one integration binary: it links once. Every test here runs against real services that it starts itself.

#![cfg(test)]

mod support;

mod architecture;
mod docs;
mod store_contract;
