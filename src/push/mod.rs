//! Telling browsers: the hub knows the sockets of this process, the bus reaches the other processes.
//!
//! A message is a hint that something is new; the truth stays in SQL. Whoever misses one reads the snapshot.

pub mod bus;
pub mod hub;
pub mod order_json;
