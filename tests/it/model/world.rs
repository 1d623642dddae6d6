//! The whole world of one schedule as one small value: database, Redis servers, processes, and what buyers were told.
//!
//! It is `Copy` and has no pointer in it, so that a state can be kept, compared and gone back to.

use seckill::domain::ids::OrderId;
use seckill::domain::order::{CloseReason, Status};
use seckill::domain::time::Millis;

use super::mutants::{Guard, Mutants};
use super::server::{Entry, Late, LoadArgs, Server};
use super::sql::Database;

pub const USERS: usize = 4;
pub const SALES: usize = 2;
/// Order ids that ever came in, in one schedule.
pub const IDS: usize = 20;
pub const PAYS: usize = 8;
pub const LETTERS: usize = 8;
pub const TASKS: usize = 26;
pub const INSTANCES: usize = 3;
/// Nobody holds it; no such thing.
pub const NOBODY: u8 = 255;
/// Numbers in a block of order ids.
pub const BLOCK: u8 = 4;

/// An index that is kept small.
pub const fn u(small: u8) -> usize {
    small as usize
}

/// What may go wrong in a schedule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Class {
    /// One writer, as SQLite.
    pub sqlite: bool,
    /// Calls and commits get lost, in thousandths of the steps.
    pub trouble: u16,
    /// Redis restarts with all it had, in thousandths.
    pub restart: u16,
    /// Redis loses something: keys, everything, its tail, a failover; in thousandths.
    pub loss: u16,
    /// Tasks stand still for a while, in thousandths.
    pub freeze: u16,
    /// Processes die, in thousandths.
    pub crash: u16,
    /// A stream that lost its tail hands out the same stream ids again.
    pub ids_repeat: bool,
    /// Entries that cannot be saved, in thousandths of those read.
    pub bury: u16,
    /// Refunds, stock changes, pauses, in thousandths of an administrator's turns.
    pub admin: u16,
    /// Epoch 0 at the start: never loaded.
    pub new_sale: bool,
}

/// A number of thousandths of all turns of a task.
pub type Rate = u16;

/// What a call from a process met.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Way {
    /// It is answered.
    Fine,
    /// It was never sent, and the caller knows it.
    Refused,
    /// It is lost, and the caller does not know.
    Lost,
    /// It happens, and its answer is lost.
    Void,
    /// It happens later, after the caller gave up.
    Late,
}

/// What kind of call a step made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Used {
    Nothing,
    Redis,
    Statement,
    Commit,
    Provider,
}

/// Who a task is; what it does next is [`At`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    Buyer,
    Consumer,
    Releaser,
    Canceller,
    Payer,
    Sweep,
    Refunder,
    Admin,
    Reconciler,
    Poller,
    IdSource,
}

/// The next step of a task. One step is what can happen without anybody else in between.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum At {
    Idle,
    // a purchase
    TakeId,
    AskEpochOfGate,
    Admit,
    RefreshEpoch,
    // order ids
    AskBlock,
    RegisterBlock,
    RaiseCounter,
    // the consumer and the placing transaction
    Receive,
    SettleFirst,
    PlaceBegin,
    CloseLetter,
    InsertPending,
    Identify,
    InsertDuplicate,
    ApplyEarly,
    TakeUnits,
    AloneBegin,
    AloneCloseLetter,
    AloneIdentify,
    AloneEpoch,
    AloneInsert,
    AloneTouch,
    BuryBegin,
    Bury,
    Settle,
    SettleDelete,
    NextPart,
    // transactions in general
    Commit,
    // releases
    ReleaseLook,
    ReleaseApply,
    ReleaseDone,
    // cancel and time-out
    ReleaseTooEarly,
    CancelUpdate,
    CancelRelease,
    ReturnUnit,
    // money
    NoticeInsert,
    PaymentLock,
    PaymentOrder,
    PaymentApply,
    ProviderRefund,
    RefundTake,
    RefundEnd,
    RefundRelease,
    RefundStart,
    RefundStartPayment,
    // dead letters by hand
    DiscardBegin,
    DiscardInsert,
    DiscardTouch,
    Requeue,
    // the rebuild
    Compare,
    CompareGate,
    Burn,
    AskClaim,
    Close,
    Drain,
    RebuildBegin,
    ReadBeforeLock,
    MoveEpoch,
    ReadUnderLock,
    AbsorbReleases,
    Load,
    RebuildCommit,
    ReadEpoch,
    Open,
    // stock change and pause
    ChangeStock,
    IncrStock,
    SetPaused,
    CopyPause,
    // asking
    PollTicket,
    PollEpoch,
    PollRow,
    PollHolder,
    PollRowAgain,
    DropNames,
}

/// What a dead letter's closing means for the transaction that closes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Decision {
    None,
    Retry,
    Discard,
}

/// One task with everything that it remembers; gone when its process dies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(clippy::struct_excessive_bools, reason = "a memory of many small things")]
pub struct Task {
    pub kind: Kind,
    pub at: At,
    /// Where a known commit leads.
    pub then: At,
    /// Where an error of the database, or an unknown commit, leads.
    pub fail: At,
    pub instance: u8,
    /// Ends when it is idle: the small cases.
    pub once: bool,
    pub done: bool,
    pub in_tx: bool,
    /// The server dropped its connection; it hears of that at its next statement.
    pub dropped: bool,
    /// Stands still until this step.
    pub frozen: u16,
    /// The name under which it reads.
    pub consumer: u8,
    /// It has entries of its own on the server's list.
    pub own: bool,
    pub sale: u8,
    pub user: u8,
    pub key: u8,
    pub id: i64,
    pub epoch: u8,
    pub seen: u8,
    pub claim: u8,
    pub last: u8,
    pub delta: i8,
    pub load: LoadArgs,
    pub batch: [Entry; 2],
    pub n: u8,
    pub lo: u8,
    pub hi: u8,
    pub i: u8,
    pub new: u8,
    pub dup: u8,
    pub reason: Option<CloseReason>,
    pub letter: u8,
    pub decision: Decision,
    pub pay: u8,
    pub tries: u8,
    pub flag: bool,
    pub before: Shown,
}

/// What a buyer saw of an order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Shown {
    Nothing,
    Unknown,
    Queued,
    Row(Status),
    Failed(CloseReason),
}

/// What buyers know of an id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Told {
    pub user: u8,
    pub sale: u8,
    /// Epochs of the first and of the newest ticket; 0: no ticket.
    pub tickets: [u8; 2],
    pub shown: Shown,
}

/// A process: several tasks, one memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Instance {
    /// The Redis server that it talks to.
    pub server: u8,
    /// The run id that it read when it connected first.
    pub run_seen: u8,
    /// SQL's epochs as it remembers them.
    pub epochs: [u8; SALES],
    /// Sales that it was asked to look at.
    pub nudged: [bool; SALES],
    /// How often it saw the gate closed in a row.
    pub closed: [u8; SALES],
    /// Numbers of order ids that it may use, a bit each, and their day.
    pub numbers: u64,
    pub day: u8,
}

/// Everything.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct World {
    pub rng: u64,
    pub class: Class,
    pub mutants: Mutants,
    pub sales: u8,
    pub users: u8,
    pub instances: u8,
    pub tasks_n: u8,
    pub step: u16,
    pub healing: bool,
    /// Redis lost something in this schedule.
    pub lossy: bool,
    pub day: u8,
    pub second: u8,
    pub names: u8,
    pub stream_clock: u8,
    pub run_ids: u8,
    pub db: Database,
    pub servers: [Server; 2],
    pub primary: u8,
    /// What the log or the replica has.
    pub copy: Server,
    pub late: [Option<Late>; 4],
    pub tasks: [Task; TASKS],
    pub inst: [Instance; INSTANCES],
    /// Order ids that came in, in that order.
    pub ids: [i64; IDS],
    pub ids_n: u8,
    /// Ids that were put aside once: their LOST is no surprise.
    pub buried: u32,
    pub told: [Option<Told>; IDS],
    /// Payments at the provider: the order's key plus one.
    pub paid: [u8; PAYS],
    pub refunds: [u8; PAYS],
    /// For the trace and the checks of the step that just ran.
    pub used: Used,
    pub broken: Option<&'static str>,
}

impl World {
    /// Whether a guard is out.
    pub fn without(&self, guard: Guard) -> bool {
        self.mutants.has(guard)
    }

    /// The first thing that went wrong stays.
    pub fn break_with(&mut self, what: &'static str) {
        if self.broken.is_none() {
            self.broken = Some(what);
        }
    }

    /// The next random number (splitmix64).
    pub fn random(&mut self) -> u64 {
        self.rng = self.rng.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.rng;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `n`.
    pub fn below(&mut self, n: u8) -> u8 {
        ((self.random() >> 33) % u64::from(n.max(1))) as u8
    }

    /// True in `rate` of a thousand cases.
    pub fn chance(&mut self, rate: Rate) -> bool {
        rate > 0 && (self.random() >> 33) % 1000 < u64::from(rate)
    }

    /// The id that would be born now with `number`.
    pub fn id_of(&self, number: u8) -> i64 {
        let now = Millis(1_700_006_400_000 + i64::from(self.day) * 86_400_000 + i64::from(self.second) * 1000);
        OrderId::new(now, u32::from(number)).0
    }

    /// The small key of an id that comes in now.
    pub fn intern(&mut self, id: i64) -> u8 {
        for key in 0..self.ids_n {
            if self.ids[u(key)] == id {
                return key;
            }
        }
        self.ids[u(self.ids_n)] = id;
        self.ids_n += 1;
        self.ids_n - 1
    }

    /// Whether another purchase still finds room in this world.
    pub fn has_room(&self) -> bool {
        u(self.ids_n) + 4 < IDS
    }

    /// The buyer of `key` now knows it, with a ticket of `epoch` when that is not 0.
    pub fn tell(&mut self, key: u8, user: u8, sale: u8, epoch: u8) {
        let told = &mut self.told[u(key)];
        match told {
            None => *told = Some(Told { user, sale, tickets: [epoch, epoch], shown: Shown::Nothing }),
            Some(t) if t.user == user && t.sale == sale => {
                if t.tickets[0] == 0 {
                    t.tickets[0] = epoch;
                }
                if epoch > 0 {
                    t.tickets[1] = epoch;
                }
            }
            Some(_) => self.break_with("one id was told to two buyers"),
        }
    }
}
