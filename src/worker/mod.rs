//! When, not what: the loops that run services until the process ends. Each step is a public function, so that tests can
//! run it by hand.

pub mod auditor;
pub mod backoff;
pub mod consumer;
pub mod crew;
pub mod expirer;
pub mod money;
pub mod pace;
pub mod reconciler;
pub mod releaser;
pub mod reporter;
pub mod rounds;
