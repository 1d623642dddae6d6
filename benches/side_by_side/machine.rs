//! Where and when it was measured, and of what.

use anyhow::Context;
use serde::Serialize;
use tokio::process::Command;

/// What figures mean nothing without.
#[derive(Debug, Clone, Serialize)]
pub struct Machine {
    /// Of the first core.
    pub processor: String,
    /// Cores that this process may use.
    pub cores: usize,
    /// Gigabytes.
    pub memory_gb: u64,
    /// The kernel.
    pub kernel: String,
    /// Redis.
    pub redis: String,
    /// `PostgreSQL`.
    pub postgres: String,
    /// What was built, and whether files had been changed since.
    pub commit: String,
    /// When it began.
    pub date: String,
    /// The load of the last minute when it began: other people's work shows here.
    pub load: String,
}

async fn first_line(program: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program).args(arguments).kill_on_drop(true).output().await.ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    Some(text.lines().next().unwrap_or_default().trim().to_owned()).filter(|line| !line.is_empty())
}

fn field(text: &str, name: &str) -> Option<String> {
    text.lines().find_map(|line| Some(line.strip_prefix(name)?.trim_start_matches([' ', '\t', ':']).trim().to_owned()))
}

/// Looks at this machine.
pub async fn look() -> anyhow::Result<Machine> {
    let cpu = std::fs::read_to_string("/proc/cpuinfo").context("only Linux is known")?;
    let memory = std::fs::read_to_string("/proc/meminfo")?;
    let kilobytes: u64 = field(&memory, "MemTotal").and_then(|v| v.split(' ').next()?.parse().ok()).unwrap_or(0);
    let mut commit = first_line("git", &["rev-parse", "--short=10", "HEAD"]).await.unwrap_or_else(|| "unknown".to_owned());
    if first_line("git", &["status", "--porcelain", "--", "src", "lua", "migrations", "benches", "Cargo.lock"]).await.is_some() {
        commit.push_str(", with changes");
    }
    let version = ["sh", "-c", "for b in /usr/lib/postgresql/*/bin; do PATH=\"$b:$PATH\"; done; postgres --version"];
    let redis = first_line("redis-server", &["--version"]).await.unwrap_or_default();
    Ok(Machine {
        processor: field(&cpu, "model name").unwrap_or_else(|| "unknown".to_owned()),
        cores: std::thread::available_parallelism()?.get(),
        memory_gb: kilobytes / 1024 / 1024,
        kernel: std::fs::read_to_string("/proc/sys/kernel/osrelease")?.trim().to_owned(),
        redis: redis.split_whitespace().find_map(|word| word.strip_prefix("v=")).unwrap_or("unknown").to_owned(),
        postgres: first_line(version[0], &version[1..]).await.unwrap_or_else(|| "unknown".to_owned()),
        commit,
        date: seckill::clock::Clock::default().now().rfc3339(),
        load: std::fs::read_to_string("/proc/loadavg")?.split(' ').next().unwrap_or_default().to_owned(),
    })
}
