//! What an operator may set: every option, its environment variable, its default and its range.
//!
//! The environment is read here (through clap) and nowhere else.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::{Args, ValueEnum};
use ipnet::IpNet;
use jiff::tz::TimeZone;
use secrecy::SecretString;

/// Options of every command that opens the data.
#[derive(Debug, Clone, Args)]
pub struct DataArgs {
    /// Where the database, the managed Redis and the secrets live
    #[arg(long, env = "SECKILL_DATA_DIR", default_value = "./data", value_name = "DIR")]
    pub data_dir: PathBuf,
    /// postgres://… for production [default: SQLite in the data dir]
    #[arg(long, env = "DATABASE_URL", value_name = "URL", hide_env_values = true)]
    pub database_url: Option<SecretString>,
    /// redis://, rediss:// or unix:// of a Redis 7.0 or newer, redis+sentinel://h:p,h:p/SERVICE or redis+cluster://h:p,h:p
    /// [default: a managed child process]
    #[arg(long, env = "REDIS_URL", value_name = "URL", hide_env_values = true)]
    pub redis_url: Option<SecretString>,
    /// The server program for the managed Redis [default: valkey-server or redis-server from PATH]
    #[arg(long, env = "SECKILL_REDIS_SERVER", value_name = "PATH")]
    pub redis_server: Option<PathBuf>,
    /// When the managed Redis writes to disk
    #[arg(long, env = "SECKILL_REDIS_FSYNC", default_value = "always", value_name = "WHEN")]
    pub redis_fsync: RedisFsync,
    /// Streams that admitted orders are spread over, 1–1024; kept with the data
    #[arg(long, env = "SECKILL_LANES", default_value = "1", value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub lanes: u16,
}

/// When the managed Redis writes its log to disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum RedisFsync {
    /// Before it answers: an admission that was answered survives a power cut.
    Always,
    /// Once a second: a power cut may lose the last second of admissions; each of them reads LOST.
    Everysec,
}

impl RedisFsync {
    /// The word of Redis' own option.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Always => "always",
            Self::Everysec => "everysec",
        }
    }
}

/// How log lines are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum LogFormat {
    /// For people on a terminal, JSON elsewhere.
    #[default]
    Auto,
    /// For people.
    Human,
    /// One JSON object a line.
    Json,
}

/// Options of `seckill serve`.
#[derive(Debug, Clone, Args)]
pub struct ServeArgs {
    /// The data
    #[command(flatten)]
    pub data: DataArgs,
    /// Address to listen on; port 0 takes a free one
    #[arg(long, env = "SECKILL_LISTEN", default_value = "127.0.0.1:8080", value_name = "ADDR")]
    pub listen: SocketAddr,
    /// What this process does: web, worker or both
    #[arg(long, env = "SECKILL_ROLES", default_value = "web,worker", value_name = "LIST")]
    pub roles: Roles,
    /// How long an order may wait for its payment
    #[arg(long, env = "SECKILL_PAY_WINDOW", default_value = "15m", value_name = "DUR")]
    pub pay_window: Span,
    /// A session ends when it was not used for this long
    #[arg(long, env = "SECKILL_SESSION_IDLE", default_value = "30m", value_name = "DUR")]
    pub session_idle: Span,
    /// A session ends this long after the login, used or not
    #[arg(long, env = "SECKILL_SESSION_MAX", default_value = "7d", value_name = "DUR")]
    pub session_max: Span,
    /// Admitted orders that may wait to be saved, for each lane; beyond it buyers hear BUSY
    #[arg(long, env = "SECKILL_BACKLOG", default_value = "60000", value_name = "N", value_parser = clap::value_parser!(i64).range(1..=10_000_000))]
    pub backlog: i64,
    /// Orders a second that all workers together save at most; what comes faster waits in the queue [default: no limit]
    #[arg(long, env = "SECKILL_MAX_ORDERS_PER_SECOND", value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub max_orders_per_second: Option<u32>,
    /// Replicas that must have an admission before the buyer hears of it, 0–16; for a Redis with replicas
    #[arg(long, env = "SECKILL_REDIS_WAIT_REPLICAS", default_value = "0", value_name = "N", value_parser = clap::value_parser!(u16).range(0..=16))]
    pub redis_wait_replicas: u16,
    /// How long they may take, at most 400ms; then the buyer hears that it is uncertain
    #[arg(long, env = "SECKILL_REDIS_WAIT_WITHIN", default_value = "200ms", value_name = "DUR", value_parser = wait_within)]
    pub redis_wait_within: Span,
    /// Requests a second and burst, for each user or address: R/B or off
    #[arg(long, env = "SECKILL_RATE_LIMIT", default_value = "10/20", value_name = "R/B")]
    pub rate_limit: RateLimit,
    /// Proxies whose X-Forwarded-For is believed, as CIDRs separated by commas
    #[arg(long, env = "SECKILL_TRUSTED_PROXIES", value_name = "CIDRS", value_delimiter = ',')]
    pub trusted_proxies: Vec<IpNet>,
    /// The address that browsers use [default: from --listen]
    #[arg(long, env = "SECKILL_PUBLIC_URL", value_name = "URL")]
    pub public_url: Option<PublicUrl>,
    /// Zone of times without an offset, and of pages
    #[arg(long, env = "SECKILL_TIME_ZONE", default_value = "Asia/Shanghai", value_name = "NAME")]
    pub time_zone: Zone,
    /// What notices of payment are signed with: whsec_ and base64 of 24–64 bytes; two, new,old, during a rotation
    /// [default: random, kept in the data dir]
    #[arg(long, env = "SECKILL_PAYMENT_SECRET", value_name = "S", hide_env_values = true)]
    pub payment_secret: Option<SecretString>,
    /// Where the payment provider is spoken to, http:// [default: the built-in sandbox, which moves no money]
    #[arg(long, env = "SECKILL_PAYMENT_URL", value_name = "URL")]
    pub payment_url: Option<ProviderUrl>,
    /// Use the sandbox provider also on a listener that is not loopback
    #[arg(long, env = "SECKILL_SANDBOX_PAYMENTS")]
    pub sandbox_payments: bool,
    /// Serve /metrics on an address of its own, to everybody who reaches it; port 0 takes a free one
    /// [default: on the main listener, to clients on this machine only]
    #[arg(long, env = "SECKILL_METRICS_LISTEN", value_name = "ADDR")]
    pub metrics_listen: Option<SocketAddr>,
    /// How log lines are written to stderr: auto is human on a terminal and json elsewhere
    #[arg(long, env = "SECKILL_LOG_FORMAT", default_value = "auto", value_name = "HOW")]
    pub log_format: LogFormat,
    /// A demo shop, a buyer and an admin with new passwords at every start; loopback only
    #[arg(long, env = "SECKILL_DEMO")]
    pub demo: bool,
}

/// A length of time as options write it: a whole number and `ms`, `s`, `m`, `h` or `d`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span(pub Duration);

impl FromStr for Span {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let bad = || format!("'{text}' is not a length of time: write a whole number and ms, s, m, h or d, as in 15m");
        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
        let (number, unit) = text.split_at(digits);
        let number: u64 = number.parse().map_err(|_| bad())?;
        let unit_ms = match unit {
            "ms" => 1,
            "s" => 1000,
            "m" => 60_000,
            "h" => 3_600_000,
            "d" => 86_400_000,
            _ => return Err(bad()),
        };
        match number.checked_mul(unit_ms) {
            Some(ms) if (1..=3_155_760_000_000).contains(&ms) => Ok(Self(Duration::from_millis(ms))),
            _ => Err(format!("'{text}' is out of range: more than nothing and at most a hundred years")),
        }
    }
}

/// A buyer hears something within a second, and a call of Redis may take half of it.
fn wait_within(text: &str) -> Result<Span, String> {
    let span: Span = text.parse()?;
    if span.0 > Duration::from_millis(400) {
        return Err(format!("'{text}' is too long: at most 400ms, so that every buyer hears something within a second"));
    }
    Ok(span)
}

/// Which parts a process runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Roles {
    /// Pages, API and sockets.
    pub web: bool,
    /// Consumer, releaser, reconciler and the other loops.
    pub worker: bool,
}

impl FromStr for Roles {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let mut roles = Self { web: false, worker: false };
        for word in text.split(',') {
            match word.trim() {
                "web" => roles.web = true,
                "worker" => roles.worker = true,
                _ => return Err(format!("'{text}' is not a list of roles: write web, worker or web,worker")),
            }
        }
        Ok(roles)
    }
}

/// Requests that one client may make: a steady rate and a burst.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RateLimit {
    /// No limit: load tests.
    Off,
    /// `per_second` on average, `burst` at once.
    On {
        /// Requests a second, 1–100,000.
        per_second: u32,
        /// Requests at once, 1–100,000.
        burst: u32,
    },
}

impl RateLimit {
    /// Requests at once; none: no limit.
    #[must_use]
    pub fn burst(self) -> Option<u32> {
        match self {
            Self::Off => None,
            Self::On { burst, .. } => Some(burst),
        }
    }
}

impl FromStr for RateLimit {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        if text == "off" {
            return Ok(Self::Off);
        }
        let numbers = text.split_once('/').and_then(|(r, b)| Some((r.parse().ok()?, b.parse().ok()?)));
        match numbers {
            Some((per_second @ 1..=100_000, burst @ 1..=100_000)) => Ok(Self::On { per_second, burst }),
            _ => Err(format!("'{text}' is not a limit: write requests a second and burst, as in 10/20, or off")),
        }
    }
}

/// A time zone by its IANA name.
#[derive(Debug, Clone)]
pub struct Zone(pub TimeZone);

impl FromStr for Zone {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        TimeZone::get(text).map(Self).map_err(|_| format!("'{text}' is not a time zone: write a name as in Asia/Shanghai"))
    }
}

/// Where browsers reach the shop: scheme, host and port, no path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublicUrl(pub String);

impl FromStr for PublicUrl {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let trimmed = text.trim_end_matches('/');
        match trimmed.parse::<http::Uri>() {
            Ok(uri)
                if matches!(uri.scheme_str(), Some("http" | "https"))
                    && uri.host().is_some()
                    && matches!(uri.path(), "" | "/") =>
            {
                Ok(Self(trimmed.to_owned()))
            }
            _ => Err(format!("'{text}' is not a public address: write http:// or https:// and a host, without a path")),
        }
    }
}

impl PublicUrl {
    /// Whether browsers come by TLS: then cookies are `Secure`.
    #[must_use]
    pub fn is_tls(&self) -> bool {
        self.0.starts_with("https://")
    }
}

/// Where a payment provider is spoken to: `http://`, a host, a path if need be; kept without a slash at the end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProviderUrl(pub String);

impl FromStr for ProviderUrl {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let trimmed = text.trim_end_matches('/');
        let uri = trimmed.parse::<http::Uri>().ok().filter(|uri| uri.host().is_some() && uri.query().is_none());
        match uri.as_ref().and_then(http::Uri::scheme_str) {
            Some("http") => Ok(Self(trimmed.to_owned())),
            Some("https") => Err(format!(
                "'{text}' needs TLS, which is left to a proxy: let one on this machine speak it, and write its http:// address"
            )),
            _ => Err(format!("'{text}' is not a provider's address: write http:// and a host, without a query")),
        }
    }
}

/// What is broken on purpose in this process.
#[cfg(feature = "fault-injection")]
#[must_use]
#[expect(clippy::disallowed_methods, reason = "the environment is read here")]
pub fn fault() -> Option<String> {
    std::env::var("SECKILL_FAULT").ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read_strictly() {
        assert_eq!("15m".parse(), Ok(Span(Duration::from_mins(15))));
        assert_eq!("250ms".parse(), Ok(Span(Duration::from_millis(250))));
        for bad in ["", "15", "m", "1.5h", "-1s", "0s", "1w", "99999999999999999999d", "15 m"] {
            assert!(bad.parse::<Span>().is_err(), "{bad:?}");
        }
        assert_eq!("10/20".parse(), Ok(RateLimit::On { per_second: 10, burst: 20 }));
        for bad in ["", "10", "0/1", "10/0", "a/b", "10/20/30", "-1/2"] {
            assert!(bad.parse::<RateLimit>().is_err(), "{bad:?}");
        }
        assert_eq!("worker".parse(), Ok(Roles { web: false, worker: true }));
        assert!("web,db".parse::<Roles>().is_err());
        assert!("https://shop.example/path".parse::<PublicUrl>().is_err());
        assert!("Mars/Olympus".parse::<Zone>().is_err());
        assert_eq!("http://127.0.0.1:9/v1/".parse(), Ok(ProviderUrl(String::from("http://127.0.0.1:9/v1"))));
        for bad in ["", "pay.example", "ftp://pay.example", "http://", "http://pay.example/?a=b"] {
            assert!(bad.parse::<ProviderUrl>().is_err_and(|why| why.contains("is not a provider's address")), "{bad}");
        }
        assert!("https://pay.example".parse::<ProviderUrl>().is_err_and(|why| why.contains("needs TLS")));
    }
}
