//! What was asked, what was answered, what was seen: the log that the checker judges. Times are microseconds of one clock.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};
use std::time::Instant;

/// What a client asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Asked {
    Buy {
        voucher: i64,
    },
    /// By its ticket, which always answers for an id that was told; or by its owner's session.
    Read {
        order: i64,
        ticket: bool,
    },
    Cancel {
        order: i64,
    },
    /// A button of the provider's page.
    Pay {
        order: i64,
    },
    Refund {
        order: i64,
    },
}

/// An order as some answer showed it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shown {
    pub order: i64,
    pub status: String,
    pub version: i64,
    pub reason: String,
}

/// How it ended for the client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// Admitted: the order's id.
    Told(i64),
    /// Refused with a code; `DUPLICATE` names an order.
    No(String, Option<i64>),
    /// An order.
    Order(Shown),
    Done,
    /// No answer, or one that says that nobody knows.
    Unknown(String),
}

/// One call, from its invocation to its answer.
#[derive(Debug, Clone)]
pub struct Call {
    pub client: usize,
    pub asked: Asked,
    pub began: u64,
    /// None: it never ended.
    pub ended: Option<u64>,
    pub answer: Answer,
}

/// A message of a socket.
#[derive(Debug, Clone)]
pub struct Push {
    pub client: usize,
    pub at: u64,
    pub shown: Shown,
}

/// A fault that was fired.
#[derive(Debug, Clone)]
pub struct Fired {
    pub row: &'static str,
    pub what: String,
    pub from: u64,
    pub to: u64,
    /// Redis may have forgotten entries that it had taken.
    pub loses: bool,
}

#[derive(Debug, Default)]
struct Log {
    calls: Vec<Call>,
    pushes: Vec<Push>,
    fired: Vec<Fired>,
    /// What a look at the running shop found that may never be.
    wrong: Vec<String>,
    /// Entries that were put in by hand and can only be buried.
    unreadable: usize,
    /// When stock and holders of a gate did not make its total.
    sums: Vec<(u64, String)>,
    /// Order → its client and the ticket that he was given first.
    tickets: BTreeMap<i64, (usize, String)>,
}

/// The log; cheap to clone.
#[derive(Debug, Clone)]
pub struct History {
    start: Instant,
    log: Arc<Mutex<Log>>,
}

impl History {
    pub fn new() -> Self {
        Self { start: Instant::now(), log: Arc::default() }
    }

    pub fn now(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_micros()).unwrap()
    }

    /// A call begins; its number.
    pub fn invoke(&self, client: usize, asked: Asked) -> usize {
        let began = self.now();
        let mut log = self.log.lock().unwrap();
        log.calls.push(Call { client, asked, began, ended: None, answer: Answer::Unknown(String::from("never ended")) });
        log.calls.len() - 1
    }

    pub fn answer(&self, call: usize, answer: Answer) {
        let ended = self.now();
        let mut log = self.log.lock().unwrap();
        log.calls[call].ended = Some(ended);
        log.calls[call].answer = answer;
    }

    pub fn push(&self, client: usize, shown: Shown) {
        let at = self.now();
        self.log.lock().unwrap().pushes.push(Push { client, at, shown });
    }

    pub fn fired(&self, fired: Fired) {
        self.log.lock().unwrap().fired.push(fired);
    }

    pub fn wrong(&self, what: &str) {
        let at = self.now() / 1000;
        self.log.lock().unwrap().wrong.push(format!("at {at} ms: {what}"));
    }

    pub fn ticket(&self, client: usize, order: i64, ticket: &str) {
        self.log.lock().unwrap().tickets.entry(order).or_insert_with(|| (client, ticket.to_owned()));
    }

    pub fn tickets(&self) -> BTreeMap<i64, (usize, String)> {
        self.log.lock().unwrap().tickets.clone()
    }

    pub fn sum(&self, what: String) {
        let at = self.now();
        self.log.lock().unwrap().sums.push((at, what));
    }

    pub fn sums(&self) -> Vec<(u64, String)> {
        self.log.lock().unwrap().sums.clone()
    }

    pub fn unreadable(&self, more: usize) {
        self.log.lock().unwrap().unreadable += more;
    }

    pub fn buried(&self) -> usize {
        self.log.lock().unwrap().unreadable
    }

    pub fn calls(&self) -> Vec<Call> {
        self.log.lock().unwrap().calls.clone()
    }

    pub fn pushes(&self) -> Vec<Push> {
        self.log.lock().unwrap().pushes.clone()
    }

    pub fn faults(&self) -> Vec<Fired> {
        self.log.lock().unwrap().fired.clone()
    }

    pub fn wrongs(&self) -> Vec<String> {
        self.log.lock().unwrap().wrong.clone()
    }

    /// How often each thing was answered.
    pub fn counts(&self) -> Vec<(String, usize)> {
        let mut counts: HashMap<String, usize> = HashMap::new();
        for call in &self.log.lock().unwrap().calls {
            let asked = match call.asked {
                Asked::Buy { .. } => "buy",
                Asked::Read { ticket: true, .. } => "read by ticket",
                Asked::Read { .. } => "read by owner",
                Asked::Cancel { .. } => "cancel",
                Asked::Pay { .. } => "pay",
                Asked::Refund { .. } => "refund",
            };
            let answer = match &call.answer {
                Answer::Told(_) => "admitted",
                Answer::No(code, _) => code,
                Answer::Order(shown) => &shown.status,
                Answer::Done => "done",
                Answer::Unknown(_) => "unknown",
            };
            *counts.entry(format!("{asked}: {answer}")).or_default() += 1;
        }
        let mut counts: Vec<_> = counts.into_iter().collect();
        counts.sort();
        counts
    }
}
