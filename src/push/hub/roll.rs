//! Who listens on this process, for the control room: how many sockets of each kind, and a bounded look at the newest.

use super::{Hub, Socket};
use crate::domain::ids::{UserId, VoucherId};
use crate::domain::time::Millis;

/// One open socket. Nothing of its session is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listener {
    /// Its number in this process: the later it came, the higher.
    pub id: u64,
    /// Whose; none: a visitor's.
    pub user: Option<UserId>,
    /// When it was opened.
    pub since: Millis,
    /// What it watches, ascending: the sales on the page that it belongs to.
    pub watched: Vec<VoucherId>,
    /// It belongs to a page of the control room.
    pub desk: bool,
}

/// The sockets of this process at one instant.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Roll {
    /// How many are open.
    pub all: usize,
    /// How many of them are visitors'.
    pub visitors: usize,
    /// The vouchers that are watched by most, each with the number of its sockets.
    pub watched: Vec<(VoucherId, usize)>,
    /// The newest, the last that came first.
    pub newest: Vec<Listener>,
}

impl Hub {
    /// Counts the sockets of this process and shows the newest, `most` at most, and as many vouchers. It passes once over
    /// all of them while nothing can be sent: for somebody's click, not for a loop.
    #[must_use]
    pub fn roll(&self, most: usize) -> Roll {
        let registry = self.lock();
        let mut ids: Vec<u64> = registry.sockets.keys().copied().collect();
        if ids.len() > most {
            ids.select_nth_unstable_by(most, |a, b| b.cmp(a));
            ids.truncate(most);
        }
        ids.sort_unstable_by(|a, b| b.cmp(a));
        let listener = |id: u64| {
            let entry = registry.sockets.get(&id)?;
            let mut watched: Vec<VoucherId> = entry.watched.iter().copied().collect();
            watched.sort_unstable();
            Some(Listener { id, user: entry.user, since: entry.since, watched, desk: entry.desk })
        };
        let newest = ids.into_iter().filter_map(listener).collect();
        let visitors = registry.sockets.values().filter(|entry| entry.user.is_none()).count();
        let mut watched: Vec<(VoucherId, usize)> = registry.watchers.iter().map(|(id, by)| (*id, by.len())).collect();
        watched.sort_unstable_by_key(|(voucher, by)| (std::cmp::Reverse(*by), *voucher));
        watched.truncate(most);
        Roll { all: registry.sockets.len(), visitors, watched, newest }
    }
}

impl Socket {
    /// From now on this socket counts as one of the control room.
    pub fn at_desk(&self) {
        if let Some(entry) = self.hub.lock().sockets.get_mut(&self.id) {
            entry.desk = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Clock;

    #[test]
    fn the_newest_are_shown_and_all_are_counted() {
        let hub = Hub::new(Clock::default());
        let visitor = hub.register(None, None);
        let users: Vec<_> = (1..=5).map(|n| hub.register(Some(UserId(n)), Some(format!("s{n}")))).collect();
        assert!(visitor.watch(VoucherId(10)) && users[4].watch(VoucherId(11)) && users[4].watch(VoucherId(10)));
        users[3].at_desk();
        let roll = hub.roll(2);
        assert_eq!((roll.all, roll.visitors, roll.watched), (6, 1, vec![(VoucherId(10), 2), (VoucherId(11), 1)]));
        let shown: Vec<_> = roll.newest.iter().map(|l| (l.user, l.watched.len(), l.desk)).collect();
        assert_eq!(shown, [(Some(UserId(5)), 2, false), (Some(UserId(4)), 0, true)]);
        drop((users, visitor));
        assert_eq!(hub.roll(2), Roll::default());
    }
}
