//! What the tests stand on: real servers, started for one test and gone with it.

pub mod postgres;
pub mod redis;
