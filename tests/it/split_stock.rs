//! The stock of one voucher split over several lanes, on paper: a design for the day when one Redis core is not enough.
//!
//! Nothing of the program is in here. A seeded simulation of what docs/SCALING.md describes: every step of every click, move and
//! message in a random order, messages lost and doubled. Each rule is taken out once, and then the simulation has to object.

use std::collections::{BTreeMap, BTreeSet};

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use crate::support::long;

/// What is taken out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mutant {
    None,
    /// "Sold out" after all lanes were seen empty once, one after the other.
    OneLook,
    /// An empty lane sends its buyer to the next one, instead of calling units to his own.
    BuyersMove,
    /// A message that comes twice counts twice.
    CountTwice,
    /// Units that are under way between lanes are forgotten by whoever looks.
    ForgetTheWay,
}

/// One lane's part of the stock. Everything a step does to one of these is one script: atomic.
#[derive(Default)]
struct Share {
    stock: i64,
    /// Grows whenever units come.
    version: u64,
    holders: BTreeSet<usize>,
    /// Units on their way to another lane, by the number of the move; kept until the other one has them.
    sent: BTreeMap<u64, (usize, i64)>,
    received: BTreeSet<u64>,
}

#[derive(Clone)]
enum Step {
    /// Ask a lane for a unit; the home lane, unless buyers move.
    Ask(usize),
    /// Look at all lanes, one by one; the versions seen.
    First(Vec<u64>),
    /// Look again: unchanged and empty, or from the start.
    Second(Vec<u64>, usize),
    /// Call units from this lane to the home lane.
    Call(usize),
}

struct Click {
    user: usize,
    step: Step,
    /// There was an instant since the click at which no unit was to be had anywhere.
    saw_none: bool,
}

enum Message {
    Units { number: u64, from: usize, to: usize, units: i64 },
    Got { number: u64, from: usize },
}

struct World {
    random: StdRng,
    mutant: Mutant,
    shares: Vec<Share>,
    clicks: Vec<Click>,
    messages: Vec<Message>,
    moves: u64,
    total: i64,
    admitted: usize,
    refused: usize,
}

impl World {
    fn new(seed: u64, mutant: Mutant) -> Self {
        let mut random = StdRng::seed_from_u64(seed);
        let lanes = random.random_range(2..=5);
        let mut shares: Vec<Share> = (0..lanes).map(|_| Share::default()).collect();
        let total: i64 = random.random_range(0..=8);
        for _ in 0..total {
            let lane = random.random_range(0..lanes);
            shares[lane].stock += 1;
        }
        // Some press twice.
        let clicks = (0..random.random_range(4..=20))
            .map(|_| random.random_range(0..12))
            .map(|user| Click { user, step: Step::Ask(user % lanes), saw_none: false })
            .collect();
        Self { random, mutant, shares, clicks, messages: Vec::new(), moves: 0, total, admitted: 0, refused: 0 }
    }

    fn under_way(&self) -> i64 {
        let not_yet = |number: &u64, to: usize| !self.shares[to].received.contains(number);
        self.shares.iter().flat_map(|s| &s.sent).filter(|(n, (to, _))| not_yet(n, *to)).map(|(_, (_, units))| units).sum()
    }

    fn to_be_had(&self) -> i64 {
        self.shares.iter().map(|s| s.stock).sum::<i64>() + self.under_way()
    }

    /// What must hold after every step.
    fn check(&mut self) -> Result<(), String> {
        let holders: Vec<usize> = self.shares.iter().flat_map(|s| s.holders.iter().copied()).collect();
        let held = i64::try_from(holders.len()).unwrap_or(i64::MAX);
        if self.to_be_had() + held != self.total {
            return Err(format!("{} to be had and {held} held of {}", self.to_be_had(), self.total));
        }
        if holders.iter().collect::<BTreeSet<_>>().len() != holders.len() {
            return Err(String::from("somebody holds two"));
        }
        if self.to_be_had() == 0 {
            self.clicks.iter_mut().for_each(|click| click.saw_none = true);
        }
        Ok(())
    }

    /// One random step of somebody; false: nothing is left to do.
    fn step(&mut self) -> Result<bool, String> {
        self.check()?;
        if self.clicks.is_empty() {
            return Ok(false);
        }
        match self.random.random_range(0..10) {
            0..=6 => {
                let which = self.random.random_range(0..self.clicks.len());
                self.click(which)?;
            }
            7 | 8 if !self.messages.is_empty() => self.message(),
            // What was sent and not confirmed is sent again: messages may be lost.
            9 => {
                for from in 0..self.shares.len() {
                    for (number, (to, units)) in self.shares[from].sent.clone() {
                        self.messages.push(Message::Units { number, from, to, units });
                    }
                }
                if self.random.random_bool(0.3) {
                    self.give_back();
                }
            }
            _ => {}
        }
        Ok(true)
    }

    /// A buyer cancels: his unit comes back to his lane.
    fn give_back(&mut self) {
        let lane = self.random.random_range(0..self.shares.len());
        let share = &mut self.shares[lane];
        if share.holders.pop_first().is_some() {
            share.stock += 1;
            share.version += 1;
        }
    }

    fn click(&mut self, which: usize) -> Result<(), String> {
        let lanes = self.shares.len();
        let (user, step) = (self.clicks[which].user, self.clicks[which].step.clone());
        let home = user % lanes;
        let next = match step {
            Step::Ask(lane) => {
                let share = &mut self.shares[lane];
                if share.holders.contains(&user) {
                    self.clicks.swap_remove(which);
                    return Ok(());
                }
                if share.stock > 0 {
                    share.stock -= 1;
                    share.holders.insert(user);
                    self.admitted += 1;
                    self.clicks.swap_remove(which);
                    return Ok(());
                }
                let other = (lane + 1) % lanes;
                if self.mutant == Mutant::BuyersMove && other != home { Step::Ask(other) } else { Step::First(Vec::new()) }
            }
            Step::First(mut seen) => {
                let share = &self.shares[seen.len()];
                if share.stock > 0 {
                    Step::Call(seen.len())
                } else if !share.sent.is_empty() && self.mutant != Mutant::ForgetTheWay {
                    Step::Ask(home)
                } else {
                    seen.push(share.version);
                    if seen.len() < lanes {
                        Step::First(seen)
                    } else if self.mutant == Mutant::OneLook {
                        return self.sold_out(which);
                    } else {
                        Step::Second(seen, 0)
                    }
                }
            }
            Step::Second(seen, at) => {
                let share = &self.shares[at];
                let same = share.stock == 0 && share.version == seen[at];
                if !same || !(share.sent.is_empty() || self.mutant == Mutant::ForgetTheWay) {
                    Step::Ask(home)
                } else if at + 1 == lanes {
                    return self.sold_out(which);
                } else {
                    Step::Second(seen, at + 1)
                }
            }
            Step::Call(from) => {
                let share = &mut self.shares[from];
                let units = (share.stock + 1) / 2;
                if units > 0 && from != home {
                    share.stock -= units;
                    self.moves += 1;
                    share.sent.insert(self.moves, (home, units));
                    self.messages.push(Message::Units { number: self.moves, from, to: home, units });
                }
                Step::Ask(home)
            }
        };
        self.clicks[which].step = next;
        Ok(())
    }

    fn sold_out(&mut self, which: usize) -> Result<(), String> {
        let click = self.clicks.swap_remove(which);
        self.refused += 1;
        if click.saw_none { Ok(()) } else { Err(String::from("told sold out, and at every instant there was a unit")) }
    }

    fn message(&mut self) {
        let which = self.random.random_range(0..self.messages.len());
        // A fifth is lost, a fifth comes again.
        let fate = self.random.random_range(0..5);
        let message = self.messages.swap_remove(which);
        if fate == 0 {
            return;
        }
        match message {
            Message::Units { number, from, to, units } => {
                let share = &mut self.shares[to];
                if share.received.insert(number) || self.mutant == Mutant::CountTwice {
                    share.stock += units;
                    share.version += 1;
                }
                self.messages.push(Message::Got { number, from });
                if fate == 1 {
                    self.messages.push(Message::Units { number, from, to, units });
                }
            }
            Message::Got { number, from } => {
                self.shares[from].sent.remove(&number);
            }
        }
    }
}

/// Runs one schedule to its end: how many were admitted and refused, or which rule was broken.
fn run(seed: u64, mutant: Mutant) -> Result<(usize, usize), String> {
    let mut world = World::new(seed, mutant);
    for _ in 0..20_000 {
        if !world.step()? {
            return Ok((world.admitted, world.refused));
        }
    }
    Err(String::from("a click never hears an answer"))
}

#[test]
fn a_stock_split_over_lanes_is_sold_to_the_last_unit_once_a_user_and_sold_out_is_true() {
    let schedules = if long() { 1_000_000 } else { 30_000 };
    let (mut admitted, mut refused) = (0, 0);
    for seed in 0..schedules {
        let (a, r) = run(seed, Mutant::None).unwrap_or_else(|why| panic!("seed {seed}: {why}"));
        (admitted, refused) = (admitted + a, refused + r);
    }
    assert!(admitted > 50_000 && refused > 50_000, "{admitted} were admitted, {refused} refused");
}

#[test]
fn without_any_one_of_its_rules_the_simulation_objects() {
    for (mutant, objection) in [
        (Mutant::OneLook, "told sold out"),
        (Mutant::BuyersMove, "somebody holds two"),
        (Mutant::CountTwice, "to be had"),
        (Mutant::ForgetTheWay, "told sold out"),
    ] {
        let found = (0..30_000).find_map(|seed| run(seed, mutant).err());
        assert!(found.as_ref().is_some_and(|why| why.contains(objection)), "{mutant:?}: {found:?}");
    }
}
