//! How a login code reaches a phone. The shop knows no operator: whoever runs it brings a sender, and the built-in one shows
//! the codes on a page.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use futures_util::future::BoxFuture;

use crate::clock::Clock;
use crate::domain::time::Millis;
use crate::domain::user::Phone;

/// The code was not sent.
#[derive(Debug, Clone, thiserror::Error)]
#[error("the code was not sent: {0}")]
pub struct NotSent(pub String);

/// Sends codes. It answers once the message is on its way, within a second.
pub trait CodeSender: Send + Sync {
    /// Sends `code`, six digits, to `phone`. Neither may be written to a log.
    fn send<'a>(&'a self, phone: &'a Phone, code: &'a str) -> BoxFuture<'a, Result<(), NotSent>>;
}

/// Codes that the sandbox remembers.
const REMEMBERED: usize = 50;

/// A message of the sandbox.
#[derive(Debug, Clone)]
pub struct Sms {
    /// To whom.
    pub phone: Phone,
    /// Six digits.
    pub code: String,
    /// When it was sent.
    pub at: Millis,
}

/// The built-in sender: nothing leaves this process; a page shows the last messages.
#[derive(Debug)]
pub struct SandboxSms {
    sent: Mutex<VecDeque<Sms>>,
    clock: Clock,
}

impl SandboxSms {
    /// Without messages.
    #[must_use]
    pub fn new(clock: Clock) -> Self {
        Self { sent: Mutex::default(), clock }
    }

    /// The last messages, newest first.
    #[must_use]
    pub fn sent(&self) -> Vec<Sms> {
        self.sent.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }
}

impl CodeSender for SandboxSms {
    fn send<'a>(&'a self, phone: &'a Phone, code: &'a str) -> BoxFuture<'a, Result<(), NotSent>> {
        Box::pin(async move {
            let mut sent = self.sent.lock().unwrap_or_else(PoisonError::into_inner);
            sent.truncate(REMEMBERED - 1);
            sent.push_front(Sms { phone: phone.clone(), code: code.to_owned(), at: self.clock.now() });
            Ok(())
        })
    }
}
