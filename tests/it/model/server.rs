//! A Redis server and the scripts of `lua/`, each one atomic step. The verdict is the program's own.

use seckill::domain::admission::Admission;
use seckill::domain::ids::OrderId;
use seckill::domain::ledger::gate_sum_holds;
use seckill::domain::sale::{GateView, verdict};
use seckill::domain::time::Millis;

use super::mutants::Guard;
pub use super::stream::{Entry, Stream};
use super::world::{BLOCK, NOBODY, SALES, Task, USERS, Used, Way, World, u};

/// Entries from which nobody else comes in.
const BACKLOG: u8 = 6;

/// The hash of a sale.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SaleHash {
    pub epoch: u8,
    pub claim: u8,
    pub run: u8,
    pub open: bool,
    pub paused: bool,
    pub total: i8,
}

/// One server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Server {
    pub alive: bool,
    pub run: u8,
    pub sale: [Option<SaleHash>; SALES],
    pub stock: [Option<i8>; SALES],
    /// Key plus one, by user.
    pub holders: [[u8; USERS]; SALES],
    pub stream: Stream,
    /// Highest block of each day.
    pub counter: [u8; 2],
    /// Places beside the stream, a bit for each key.
    pub places: u32,
}

impl Server {
    pub const EMPTY: Self = Self {
        alive: true,
        run: 0,
        sale: [None; SALES],
        stock: [None; SALES],
        holders: [[0; USERS]; SALES],
        stream: Stream::NONE,
        counter: [0; 2],
        places: 0,
    };

    /// `HLEN`.
    pub fn held(&self, sale: u8) -> i8 {
        let mut n = 0;
        for user in 0..USERS {
            n += i8::from(self.holders[u(sale)][user] != 0);
        }
        n
    }

    /// Everything that a client wrote goes away.
    pub fn flush(&mut self) {
        *self = Self { alive: self.alive, run: self.run, ..Self::EMPTY };
    }
}

/// What a load carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct LoadArgs {
    pub left: i8,
    pub total: i8,
    pub paused: bool,
    pub holders: [u8; USERS],
}

/// A call of a script, or of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Call {
    Admit {
        sale: u8,
        epoch: u8,
        user: u8,
        id: i64,
        run_seen: u8,
    },
    Release {
        sale: u8,
        epoch: u8,
        user: u8,
        key: u8,
    },
    /// XACK and XDEL; the mutant does the first or the second alone.
    Settle {
        n: u8,
        which: [(u8, u8); 2],
        ack: bool,
        delete: bool,
    },
    Close {
        sale: u8,
        claim: u8,
    },
    Load {
        sale: u8,
        claim: u8,
        args: LoadArgs,
    },
    Open {
        sale: u8,
        claim: u8,
    },
    Pause {
        sale: u8,
        epoch: u8,
        paused: bool,
    },
    /// A mutant's stock change.
    Incr {
        sale: u8,
        by: i8,
    },
    /// A mutant's retry.
    Requeue {
        entry: Entry,
    },
    Read {
        consumer: u8,
    },
    Claim {
        consumer: u8,
    },
    Own {
        consumer: u8,
    },
    First,
    Look {
        sale: u8,
    },
    NextBlock {
        day: u8,
    },
    Raise {
        day: u8,
        by: u8,
    },
    DropNames {
        consumer: u8,
    },
}

/// A gate as a look sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Gate {
    pub hash: Option<SaleHash>,
    pub run_fits: bool,
    pub stock: Option<i8>,
    pub held: i8,
    pub holders: [u8; USERS],
    pub stream: bool,
}

/// What a call answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reply {
    Done,
    NotReady,
    Refused,
    Admission(Admission, u8),
    Closed(u8),
    Entries(u8, [Entry; 2]),
    First(Option<u8>),
    Gate(Gate),
    Block(u8),
}

/// What a caller hears.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Heard {
    Reply(Reply),
    /// It certainly did not happen.
    Nothing,
    /// Nobody knows.
    Unknown,
}

/// A call that lands after its caller gave up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Late {
    pub server: u8,
    pub call: Call,
}

impl World {
    /// A call of `k`'s process.
    pub fn redis(&mut self, k: &Task, call: Call, way: Way) -> Heard {
        self.used = Used::Redis;
        let server = self.inst[u(k.instance)].server;
        if !self.servers[u(server)].alive || way == Way::Refused {
            self.inst[u(k.instance)].server = self.primary;
            return Heard::Nothing;
        }
        match way {
            Way::Fine => Heard::Reply(self.run_call(server, call)),
            Way::Void => {
                self.run_call(server, call);
                Heard::Unknown
            }
            Way::Late => {
                if let Some(free) = self.late.iter_mut().find(|l| l.is_none()) {
                    *free = Some(Late { server, call });
                }
                Heard::Unknown
            }
            Way::Lost | Way::Refused => Heard::Unknown,
        }
    }

    /// A late call lands.
    pub fn land(&mut self, slot: usize) {
        if let Some(late) = self.late[slot].take()
            && self.servers[u(late.server)].alive
        {
            self.run_call(late.server, late.call);
        }
    }

    fn run_call(&mut self, server: u8, call: Call) -> Reply {
        let s = u(server);
        match call {
            Call::Admit { sale, epoch, user, id, run_seen } => self.admit(server, sale, epoch, user, id, run_seen),
            Call::Release { sale, epoch, user, key } => self.release(server, sale, epoch, user, key),
            Call::Settle { n, which, ack, delete } => self.settle(server, &which[..u(n)], ack, delete),
            Call::Close { sale, claim } => {
                let blind = self.without(Guard::CloseNeedsClaim);
                let server = &mut self.servers[s];
                if let Some(hash) = &mut server.sale[u(sale)] {
                    if hash.claim > claim && !blind {
                        return Reply::Refused;
                    }
                    (hash.claim, hash.open) = (claim, false);
                }
                Reply::Closed(if server.stream.there { server.stream.last } else { 0 })
            }
            Call::Load { sale, claim, args } => self.load(server, sale, claim, &args),
            Call::Open { sale, claim } => {
                let blind = self.without(Guard::OpenNeedsClaim);
                match &mut self.servers[s].sale[u(sale)] {
                    Some(hash) if hash.epoch == claim && (hash.claim == claim || blind) => {
                        hash.open = true;
                        Reply::Done
                    }
                    _ => Reply::Refused,
                }
            }
            Call::Pause { sale, epoch, paused } => {
                let opens = self.without(Guard::PauseIsAFieldOfItsOwn);
                match &mut self.servers[s].sale[u(sale)] {
                    Some(hash) if hash.epoch == epoch => {
                        hash.paused = paused;
                        if opens {
                            hash.open = !paused;
                        }
                        Reply::Done
                    }
                    _ => Reply::NotReady,
                }
            }
            Call::Incr { sale, by } => {
                let stock = &mut self.servers[s].stock[u(sale)];
                *stock = Some(stock.unwrap_or(0) + by);
                if let Some(hash) = &mut self.servers[s].sale[u(sale)] {
                    hash.total += by;
                }
                Reply::Done
            }
            Call::Requeue { entry } => {
                self.append(server, Entry { owner: NOBODY, ..entry });
                Reply::Done
            }
            Call::Read { consumer } => self.deliver(server, |stream, e| (e.sid > stream.read).then_some(()), consumer, true),
            Call::Claim { consumer } => {
                self.deliver(server, |_, e| (e.owner != NOBODY && e.owner != consumer).then_some(()), consumer, false)
            }
            Call::Own { consumer } => self.deliver(server, |_, e| (e.owner == consumer).then_some(()), consumer, false),
            Call::First => {
                let stream = &self.servers[s].stream;
                Reply::First((stream.there && stream.len > 0).then(|| stream.entries[0].sid))
            }
            Call::Look { sale } => {
                let server = &self.servers[s];
                let hash = server.sale[u(sale)];
                Reply::Gate(Gate {
                    hash,
                    run_fits: hash.is_some_and(|h| h.run == server.run),
                    stock: server.stock[u(sale)],
                    held: server.held(sale),
                    holders: server.holders[u(sale)],
                    stream: server.stream.there,
                })
            }
            Call::NextBlock { day } => {
                let counter = &mut self.servers[s].counter[u(day)];
                *counter = counter.saturating_add(1);
                Reply::Block(*counter - 1)
            }
            Call::Raise { day, by } => {
                let counter = &mut self.servers[s].counter[u(day)];
                *counter = counter.saturating_add(by);
                Reply::Done
            }
            Call::DropNames { consumer } => {
                let stream = &mut self.servers[s].stream;
                // Only a name without entries goes away, which changes nothing; the mutant drops its entries with it.
                if self.mutants.has(Guard::NamesWithEntriesStay) {
                    for e in &mut stream.entries[..u(stream.len)] {
                        if e.owner == consumer {
                            e.owner = NOBODY;
                        }
                    }
                }
                Reply::Done
            }
        }
    }

    fn admit(&mut self, server: u8, sale: u8, epoch: u8, user: u8, id: i64, run_seen: u8) -> Reply {
        let (s, v) = (u(server), u(sale));
        let now = &self.servers[s];
        let Some(hash) = now.sale[v] else { return Reply::NotReady };
        let own_run = if self.without(Guard::RunIdOfTheServer) { run_seen } else { now.run };
        let Some(stock) = now.stock[v] else { return Reply::NotReady };
        let ready = (hash.epoch == epoch || self.without(Guard::AdmitComparesEpoch))
            && (hash.run == own_run || self.without(Guard::AdmitComparesRunId))
            && (now.stream.there || self.without(Guard::StreamIsNotRecreated))
            && (gate_sum_holds(i64::from(stock), i64::from(now.held(sale)), i64::from(hash.total)) || self.without(Guard::Sum))
            && hash.open;
        if !ready {
            return Reply::NotReady;
        }
        let held = now.holders[v][u(user)];
        let mut view = GateView {
            holder: (held > 0).then(|| OrderId(self.ids[u(held - 1)])),
            paused: hash.paused,
            begin: Millis(0),
            end: Millis(2),
            stock: i64::from(stock),
            backlog: i64::from(now.stream.len),
        };
        if self.without(Guard::HolderBeforeStock) && stock <= 0 {
            view.holder = None;
        }
        let said = verdict(&view, Millis(1), i64::from(BACKLOG), OrderId(id));
        match said {
            Admission::Admitted { .. } => {
                if self.ids[..u(self.ids_n)].contains(&id) {
                    self.break_with("an order id was born twice");
                }
                let key = self.intern(id);
                self.append(server, Entry { sid: 0, key, user, sale, epoch: hash.epoch, owner: NOBODY });
                let now = &mut self.servers[s];
                now.holders[v][u(user)] = key + 1;
                now.stock[v] = Some(stock - 1);
                now.places |= 1 << key;
                Reply::Admission(said, key)
            }
            Admission::SoldOut => {
                self.check_sold_out(server, sale, user);
                Reply::Admission(said, NOBODY)
            }
            Admission::Duplicate(_) => Reply::Admission(said, held - 1),
            _ => Reply::Admission(said, NOBODY),
        }
    }

    /// `XADD`; without the guard it makes the stream.
    fn append(&mut self, server: u8, entry: Entry) {
        let repeat = self.class.ids_repeat;
        self.stream_clock += u8::from(!repeat);
        let clock = self.stream_clock;
        let stream = &mut self.servers[u(server)].stream;
        stream.there = true;
        stream.last = if repeat { stream.last + 1 } else { clock.max(stream.last + 1) };
        stream.entries[u(stream.len)] = Entry { sid: stream.last, ..entry };
        stream.len += 1;
    }

    fn release(&mut self, server: u8, sale: u8, epoch: u8, user: u8, key: u8) -> Reply {
        let v = u(sale);
        let blind = self.without(Guard::ReleaseComparesGate);
        let bare = self.without(Guard::ReleaseComparesHolder);
        let makes = self.without(Guard::ReleaseNeedsStock);
        let absent_is_done = self.without(Guard::ReleaseNeedsHash);
        let now = &mut self.servers[u(server)];
        if bare {
            now.holders[v][u(user)] = 0;
            now.stock[v] = now.stock[v].map(|stock| stock + 1);
            return Reply::Done;
        }
        let Some(hash) = now.sale[v] else { return if absent_is_done { Reply::Done } else { Reply::NotReady } };
        if !blind && (hash.epoch != epoch || hash.run != now.run) {
            return Reply::NotReady;
        }
        let stock = match now.stock[v] {
            Some(stock) => stock,
            None if makes => 0,
            None => return Reply::NotReady,
        };
        if now.holders[v][u(user)] == key + 1 {
            now.holders[v][u(user)] = 0;
            now.stock[v] = Some(stock + 1);
        }
        Reply::Done
    }

    fn settle(&mut self, server: u8, which: &[(u8, u8)], ack: bool, delete: bool) -> Reply {
        let blind = self.without(Guard::SettleComparesOrder);
        let now = &mut self.servers[u(server)];
        for &(sid, key) in which {
            match now.stream.find(sid) {
                None => now.places &= !(1 << key),
                Some(at) if now.stream.entries[at].key == key || blind => {
                    if ack {
                        now.stream.entries[at].owner = NOBODY;
                    }
                    if delete {
                        now.places &= !(1 << now.stream.entries[at].key);
                        now.stream.remove(at);
                    }
                }
                Some(_) => {}
            }
        }
        Reply::Done
    }

    fn load(&mut self, server: u8, sale: u8, claim: u8, args: &LoadArgs) -> Reply {
        let v = u(sale);
        let blind = self.without(Guard::LoadNeedsClaim);
        let keeps = self.without(Guard::LoadDropsOldHolders);
        let others = !self.without(Guard::OtherSalesOfTheLaneClose);
        let opens = self.without(Guard::LoadStaysClosed);
        let now = &mut self.servers[u(server)];
        if now.sale[v].is_some_and(|hash| hash.claim > claim) && !blind {
            return Reply::Refused;
        }
        if !now.stream.there {
            for other in 0..SALES {
                if other != v && others {
                    now.sale[other] = None;
                }
            }
            now.places = 0;
            // The group begins at 0 and the stream is empty.
            now.stream = Stream { there: true, ..Stream::NONE };
        }
        if keeps {
            for user in 0..USERS {
                if args.holders[user] != 0 {
                    now.holders[v][user] = args.holders[user];
                }
            }
        } else {
            now.holders[v] = args.holders;
        }
        now.stock[v] = Some(args.left);
        now.sale[v] = Some(SaleHash { epoch: claim, claim, run: now.run, open: opens, paused: args.paused, total: args.total });
        Reply::Done
    }

    /// Gives at most two entries to a name.
    fn deliver(&mut self, server: u8, fits: impl Fn(&Stream, &Entry) -> Option<()>, consumer: u8, new: bool) -> Reply {
        let makes = self.without(Guard::StreamIsNotRecreated);
        let stream = &mut self.servers[u(server)].stream;
        stream.there |= makes;
        let (mut n, mut given) = (0, [Entry::NONE; 2]);
        for at in 0..u(stream.len) {
            if n < 2 && fits(stream, &stream.entries[at]).is_some() {
                stream.entries[at].owner = consumer;
                if new {
                    stream.read = stream.entries[at].sid;
                }
                given[u(n)] = stream.entries[at];
                n += 1;
            }
        }
        Reply::Entries(n, given)
    }

    /// The first free number of a block.
    pub fn first_of(block: u8) -> u8 {
        block * BLOCK
    }
}
