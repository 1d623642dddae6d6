//! How fast one client may be: a bucket for each client and kind of call, kept in this process.
//!
//! The generic cell rate algorithm: one instant a bucket, "when it will be empty again", is the whole state.

use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::clock::Clock;
use crate::config::RateLimit;
use crate::domain::ids::UserId;
use crate::web::error::Problem;

/// What is being counted; each has a bucket of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Bucket {
    /// Clicks on "buy".
    Purchase,
    /// Asking for a captcha.
    Captcha,
    /// Logging in, registering and asking for a code.
    Login,
}

/// Who is being counted.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Client {
    /// A logged-in user.
    User(UserId),
    /// An address; of IPv6 the network that one customer has.
    Address(IpAddr),
}

impl Client {
    /// A client known by its address alone.
    #[must_use]
    pub fn at(address: IpAddr) -> Self {
        Self::Address(match address {
            IpAddr::V6(v6) if v6.to_ipv4_mapped().is_none() => IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() & (u128::MAX << 64))),
            other => other.to_canonical(),
        })
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
enum Key {
    Client(Bucket, Client),
    /// Everybody who wants to log in, together.
    AllLogins,
    /// Everybody who was told to come back for that, together.
    LoginLine,
    /// New accounts of one address, in the long run.
    Registrations(Client),
    /// Notices of payment from one address that nobody believed.
    Unsigned(Client),
}

const SHARDS: usize = 16;
/// Buckets in one shard: an attacker with many addresses must not fill the memory.
const PER_SHARD: usize = 16_384;
/// How much more all logins together may do than one client.
const ALL_LOGINS: i64 = 10;
/// In microseconds, the longest wait that a crowd of logins is told.
const LONGEST_LINE: i64 = 10_000_000;
/// How many of its bursts an address may register at its full speed; from then on a tenth of it.
const REGISTRATION_BURSTS: i64 = 30;
const REGISTRATION_SLOWNESS: i64 = 10;
/// How many of its bursts an address may send of notices that are not signed: a provider with a wrong secret tries all of its notices
/// again, and must see why; a flood must not fill the log.
const UNSIGNED_BURSTS: i64 = 30;

/// All buckets.
#[derive(Debug)]
pub struct Limits {
    /// Microseconds between two calls, and calls at once; none: off.
    rate: Option<(i64, i64)>,
    /// Microseconds at which a bucket is empty again.
    shards: Vec<Mutex<HashMap<Key, i64>>>,
    hasher: RandomState,
    clock: Clock,
}

impl Limits {
    /// Empty buckets.
    #[must_use]
    pub fn new(rate: RateLimit, clock: Clock) -> Self {
        let rate = match rate {
            RateLimit::Off => None,
            RateLimit::On { per_second, burst } => Some((1_000_000 / i64::from(per_second), i64::from(burst))),
        };
        Self { rate, shards: (0..SHARDS).map(|_| Mutex::default()).collect(), hasher: RandomState::new(), clock }
    }

    /// Counts one call of `client`.
    ///
    /// # Errors
    /// `TooMany` with whole seconds to wait; then nothing was counted.
    pub fn count(&self, bucket: Bucket, client: Client) -> Result<(), Problem> {
        let Some((interval, burst)) = self.rate else { return Ok(()) };
        self.take(Key::Client(bucket, client), interval, burst)
    }

    /// Counts one wish to log in, register or get a code: of this client, then of everybody together, before any hash.
    ///
    /// # Errors
    /// As [`Limits::count`]; for everybody together the seconds are a place in a line, 1 to 10, which the next one does not get.
    pub fn count_login(&self, client: Client) -> Result<(), Problem> {
        let Some((interval, burst)) = self.rate else { return Ok(()) };
        self.take(Key::Client(Bucket::Login, client), interval, burst)?;
        let interval = (interval / ALL_LOGINS).max(1);
        // A crowd that is told to come back in a second comes back in a second, all of it: each is told a place of its own.
        self.take(Key::AllLogins, interval, burst * ALL_LOGINS).map_err(|_| Problem::TooMany(self.place_in_line(interval)))
    }

    /// In whole seconds, when one more client may come back if `interval` microseconds lie between two of them; behind the end
    /// of the line everybody hears its end.
    fn place_in_line(&self, interval: i64) -> u64 {
        let now = self.clock.now().0 * 1000;
        let mut buckets = self.shard(&Key::LoginLine);
        let last = buckets.get(&Key::LoginLine).copied().unwrap_or(now).max(now);
        let mine = (last + interval).min(now + LONGEST_LINE);
        buckets.insert(Key::LoginLine, mine);
        u64::try_from(mine - now).unwrap_or(0).div_ceil(1_000_000).max(1)
    }

    /// Counts one registration: as a login, and once more against the long run of its address.
    ///
    /// # Errors
    /// As [`Limits::count`].
    pub fn count_registration(&self, client: Client) -> Result<(), Problem> {
        self.count_login(client.clone())?;
        let Some((interval, burst)) = self.rate else { return Ok(()) };
        self.take(Key::Registrations(client), interval * REGISTRATION_SLOWNESS, burst * REGISTRATION_BURSTS)
    }

    /// Counts one notice of payment that was not believed.
    ///
    /// # Errors
    /// As [`Limits::count`].
    pub fn count_unsigned(&self, client: Client) -> Result<(), Problem> {
        let Some((interval, burst)) = self.rate else { return Ok(()) };
        self.take(Key::Unsigned(client), interval, burst * UNSIGNED_BURSTS)
    }

    fn shard(&self, key: &Key) -> MutexGuard<'_, HashMap<Key, i64>> {
        let shard = usize::try_from(self.hasher.hash_one(key) % (SHARDS as u64)).unwrap_or(0);
        self.shards[shard].lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self, key: Key, interval: i64, burst: i64) -> Result<(), Problem> {
        let now = self.clock.now().0 * 1000;
        let mut buckets = self.shard(&key);
        let empty_at = buckets.get(&key).copied().unwrap_or(now).max(now);
        let wait = empty_at + interval - burst * interval - now;
        if wait > 0 {
            let seconds = u64::try_from(wait).unwrap_or(0).div_ceil(1_000_000);
            return Err(Problem::TooMany(seconds.max(1)));
        }
        if buckets.len() >= PER_SHARD && !buckets.contains_key(&key) {
            make_room(&mut buckets, now);
        }
        buckets.insert(key, empty_at + interval);
        Ok(())
    }
}

/// Forgets the buckets that are empty again; when that is not enough, every second one, so that this never happens on
/// every call.
fn make_room(buckets: &mut HashMap<Key, i64>, now: i64) {
    buckets.retain(|_, empty_at| *empty_at > now);
    if buckets.len() > PER_SHARD / 2 {
        let mut keep = false;
        buckets.retain(|_, _| {
            keep = !keep;
            keep
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn limits() -> (Limits, Clock) {
        let clock = Clock::default();
        (Limits::new(RateLimit::On { per_second: 10, burst: 20 }, clock.clone()), clock)
    }

    #[test]
    fn twenty_at_once_then_ten_a_second_for_each_client_alone() {
        let (limits, clock) = limits();
        let me = || Client::User(UserId(1));
        let passed = (0..30).filter(|_| limits.count(Bucket::Purchase, me()).is_ok()).count();
        assert!((20..=21).contains(&passed), "{passed}");
        assert!(matches!(limits.count(Bucket::Purchase, me()), Err(Problem::TooMany(1))));
        assert!(limits.count(Bucket::Login, me()).is_ok());
        assert!(limits.count(Bucket::Purchase, Client::User(UserId(2))).is_ok());
        clock.advance(Duration::from_secs(1));
        let passed = (0..30).filter(|_| limits.count(Bucket::Purchase, me()).is_ok()).count();
        assert!((9..=12).contains(&passed), "{passed}");
    }

    #[test]
    fn all_logins_together_and_the_registrations_of_one_address_have_an_end() {
        let (limits, clock) = limits();
        let from = |n: u32| Client::at(IpAddr::from(n.to_be_bytes()));
        let passed = (0..1000).filter(|n| limits.count_login(from(*n)).is_ok()).count();
        assert!((200..=260).contains(&passed), "{passed} of a thousand addresses at once");
        clock.advance(Duration::from_hours(24));
        let mut waits = [0; 12];
        for n in 0..3000 {
            if let Err(Problem::TooMany(seconds)) = limits.count_login(from(n)) {
                waits[usize::try_from(seconds).unwrap()] += 1;
            }
        }
        // A hundred a second, as many as may come then (more where this loop is held up); the end of the line hears ten.
        assert!(waits[1..10].iter().all(|told| (90..=200).contains(told)), "{waits:?}");
        assert_eq!((waits[0], waits[11]), (0, 0), "{waits:?}");
        clock.advance(Duration::from_hours(24));
        let mut made = 0;
        for _ in 0..1800 {
            clock.advance(Duration::from_millis(100));
            made += u32::from(limits.count_registration(from(7)).is_ok());
        }
        // Ten a second until the long run is used up, one a second from then on.
        assert!((700..=850).contains(&made), "{made} registrations in three minutes");
    }

    #[test]
    fn addresses_of_one_network_are_one_client_and_memory_is_bounded() {
        let a = Client::at("2001:db8::1".parse().unwrap());
        assert_eq!(a, Client::at("2001:db8::ffff".parse().unwrap()));
        assert_eq!(Client::at("::ffff:10.0.0.1".parse().unwrap()), Client::at("10.0.0.1".parse().unwrap()));
        let (limits, _) = limits();
        for n in 0..400_000 {
            let _ = limits.count(Bucket::Login, Client::User(UserId(n)));
        }
        assert!(limits.shards.iter().all(|s| s.lock().unwrap().len() <= PER_SHARD));
    }
}
