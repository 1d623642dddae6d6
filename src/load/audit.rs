//! The audit after the load: the same program's `audit` in a process of its own, on the data that the options name.
//!
//! Only stores can be audited, not HTTP: a load from another machine ends without this answer, and says so.

use std::process::Stdio;
use std::time::Duration;

use secrecy::ExposeSecret;
use serde::Deserialize;
use tokio::process::Command;
use tokio::time::timeout;

use super::CannotRun;
use crate::config::DataArgs;

const AUDIT_LIMIT: Duration = Duration::from_mins(2);

#[derive(Deserialize)]
struct Findings {
    #[serde(default)]
    vouchers: Vec<Books>,
    #[serde(default)]
    problems: Vec<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Books {
    voucher_id: i64,
    #[serde(default)]
    problems: Vec<String>,
}

/// The broken invariants in words, none when the audit holds; an error when it could not look.
pub async fn run(data: &DataArgs) -> Result<Vec<String>, CannotRun> {
    if data.database_url.is_none() && !data.data_dir.is_dir() {
        return Err(CannotRun(format!(
            "the audit needs the shop's data: {} is no data dir; give --data-dir, or --database-url and --redis-url",
            data.data_dir.display()
        )));
    }
    let cannot = |why: String| CannotRun(format!("the audit could not run: {why}"));
    let program = std::env::current_exe().map_err(|e| cannot(e.to_string()))?;
    let mut command = Command::new(program);
    command.args(["audit", "--json"]).arg("--data-dir").arg(&data.data_dir).arg("--lanes").arg(data.lanes.to_string());
    // Secrets go by the environment: a command line can be read by everybody on the machine.
    for (name, value) in [("DATABASE_URL", &data.database_url), ("REDIS_URL", &data.redis_url)] {
        if let Some(url) = value {
            command.env(name, url.expose_secret());
        }
    }
    command.stdin(Stdio::null()).stderr(Stdio::inherit()).kill_on_drop(true);
    let output = timeout(AUDIT_LIMIT, command.output()).await.map_err(|_| cannot("no answer within two minutes".to_owned()))?;
    let output = output.map_err(|e| cannot(e.to_string()))?;
    match output.status.code() {
        Some(0) => Ok(Vec::new()),
        Some(1) => Ok(read_findings(&output.stdout)),
        _ => Err(cannot(format!("it ended with {}", output.status))),
    }
}

fn read_findings(json: &[u8]) -> Vec<String> {
    let Ok(findings) = serde_json::from_slice::<Findings>(json) else {
        return vec!["the audit found problems, and its report could not be read".to_owned()];
    };
    let mut all = findings.problems;
    for books in findings.vouchers {
        all.extend(books.problems.iter().map(|p| format!("voucher {}: {p}", books.voucher_id)));
    }
    if all.is_empty() {
        all.push("the audit found problems, and named none".to_owned());
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn findings_name_their_voucher() {
        let json = br#"{"ok":false,"vouchers":[{"voucherId":10,"epoch":1,"I":1,"problems":["D + A != I"]}],"problems":["x"]}"#;
        assert_eq!(read_findings(json), ["x", "voucher 10: D + A != I"]);
        assert_eq!(read_findings(b"").len(), 1);
    }
}
