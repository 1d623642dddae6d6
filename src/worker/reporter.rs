//! The loop that keeps what only Redis counted of a sale, once it is over.

use std::sync::Arc;

use crate::service::reports::Reports;
use crate::shutdown::Shutdown;
use crate::worker::crew::Crew;
use crate::worker::rounds;

/// Starts the loop.
pub fn start(reports: Reports, crew: &Crew, shutdown: &Shutdown) {
    shutdown.spawn(rounds::run("reports", Arc::default(), crew.clone(), shutdown.clone(), move || {
        let reports = reports.clone();
        async move { reports.keep().await }
    }));
}
