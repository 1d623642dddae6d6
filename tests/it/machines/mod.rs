//! The shop on many machines: Sentinel, Cluster, several processes. Real servers, started by the test.

mod contract;
mod failover;
mod nginx;
mod start;
