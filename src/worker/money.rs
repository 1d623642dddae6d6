//! The loops around money, each on its own: overdue orders, early payments, refunds, codes, credits, the sandbox's notices.

use crate::clock::Clock;
use crate::service::money::Money;
use crate::shutdown::Shutdown;
use crate::worker::crew::Crew;
use crate::worker::{expirer, rounds};

/// Starts the shop's loops.
pub fn start(money: &Money, clock: &Clock, crew: &Crew, shutdown: &Shutdown) {
    shutdown.spawn_loop("overdue orders", expirer::run(money.cancels.clone(), clock.clone(), crew.clone(), shutdown.clone()));

    let (notices, wake) = (money.notices.clone(), money.wakes.early.clone());
    shutdown.spawn_loop(
        "early payments",
        rounds::run("early payments", wake, crew.clone(), shutdown.clone(), move || {
            let notices = notices.clone();
            async move { notices.sweep().await }
        }),
    );
    let (refunds, wake) = (money.refunds.clone(), money.wakes.refunds.clone());
    shutdown.spawn_loop(
        "refunds",
        rounds::run("refunds", wake, crew.clone(), shutdown.clone(), move || {
            let refunds = refunds.clone();
            async move { refunds.round().await }
        }),
    );
    let (coupons, wake) = (money.follow_ups.clone(), money.wakes.coupons.clone());
    shutdown.spawn_loop(
        "coupons",
        rounds::run("coupons", wake, crew.clone(), shutdown.clone(), move || {
            let coupons = coupons.clone();
            async move { coupons.coupons().await }
        }),
    );
    let (credits, wake) = (money.follow_ups.clone(), money.wakes.credits.clone());
    shutdown.spawn_loop(
        "credits",
        rounds::run("credits", wake, crew.clone(), shutdown.clone(), move || {
            let credits = credits.clone();
            async move { credits.credits().await }
        }),
    );
}

/// Starts the sandbox's own loop, when the sandbox is used: in the process that has its page.
pub fn start_sandbox(money: &Money, shutdown: &Shutdown) {
    let Some(sandbox) = money.sandbox.clone() else { return };
    // These are the web processes, whose number nobody knows; their notices are few.
    let (wake, crew) = (money.wakes.letters.clone(), Crew::alone());
    shutdown.spawn_loop(
        "the sandbox's notices",
        rounds::run("the sandbox's notices", wake, crew.clone(), shutdown.clone(), move || {
            let sandbox = sandbox.clone();
            async move { sandbox.send_due().await }
        }),
    );
}
