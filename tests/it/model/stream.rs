//! The stream of the lane: entries, who was given which, and how far the group has read.

use super::world::NOBODY;

const ENTRIES: usize = 12;

/// An admitted buyer in the stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Entry {
    pub sid: u8,
    pub key: u8,
    pub user: u8,
    pub sale: u8,
    pub epoch: u8,
    /// The name it was delivered to.
    pub owner: u8,
}

impl Entry {
    pub const NONE: Self = Self { sid: 0, key: 0, user: 0, sale: 0, epoch: 0, owner: NOBODY };
}

/// The stream of the lane and its group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Stream {
    pub there: bool,
    pub len: u8,
    pub last: u8,
    pub read: u8,
    pub entries: [Entry; ENTRIES],
}

impl Stream {
    pub const NONE: Self = Self { there: false, len: 0, last: 0, read: 0, entries: [Entry::NONE; ENTRIES] };

    pub fn remove(&mut self, at: usize) {
        for i in at..usize::from(self.len) - 1 {
            self.entries[i] = self.entries[i + 1];
        }
        self.len -= 1;
        self.entries[usize::from(self.len)] = Entry::NONE;
    }

    pub fn find(&self, sid: u8) -> Option<usize> {
        (0..usize::from(self.len)).find(|&i| self.entries[i].sid == sid)
    }
}
