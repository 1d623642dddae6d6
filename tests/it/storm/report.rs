//! What a storm did and what came of it: `target/storm/report-SEED.md`, and the history beside it when it is red.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::Command;

use super::checker::Judged;
use super::history::History;
use crate::support::app::On;

/// Of which storm.
pub struct Head {
    pub seed: u64,
    pub on: On,
    pub seconds: u64,
}

fn folder() -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).parent().unwrap().join("storm");
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

fn commit() -> String {
    let out = Command::new("git").args(["describe", "--always", "--dirty"]).output();
    out.map_or_else(|_| String::from("unknown"), |out| String::from_utf8_lossy(&out.stdout).trim().to_owned())
}

/// Writes the report; where it is.
pub fn write(head: &Head, history: &History, judged: &Judged, wrong: &[String]) -> PathBuf {
    let mut text = format!(
        "# Storm {}\n\nseed {}, commit {}, {:?}, {} s\n\n**{}**\n",
        head.seed,
        head.seed,
        commit(),
        head.on,
        head.seconds,
        if wrong.is_empty() { "green: every promise was kept" } else { "red" }
    );
    for line in wrong {
        let _ = writeln!(text, "- {line}");
    }
    let lost = judged.rest.verdicts.values().filter(|shown| shown.reason == "LOST").count();
    let _ = writeln!(
        text,
        "\n{} calls, {} pushes, {} ids told, {lost} of them LOST, {} rows, open {:?} ms after the last fault\n\n| fault | from, ms | to, ms | what |\n| --- | --- | --- | --- |",
        judged.calls.len(),
        judged.pushes.len(),
        judged.rest.verdicts.len(),
        judged.rest.rows.len(),
        judged.rest.open_after
    );
    for fault in &judged.faults {
        let loses = if fault.loses { " (may lose)" } else { "" };
        let _ = writeln!(text, "| {} | {} | {} | {}{loses} |", fault.row, fault.from / 1000, fault.to / 1000, fault.what);
    }
    text.push_str("\n| answer | times |\n| --- | --- |\n");
    for (what, times) in history.counts() {
        let _ = writeln!(text, "| {what} | {times} |");
    }
    let on = format!("{:?}", head.on).to_lowercase();
    let path = folder().join(format!("report-{}-{on}.md", head.seed));
    std::fs::write(&path, text).unwrap();
    if !wrong.is_empty() {
        let mut log = String::new();
        for call in &judged.calls {
            let _ = writeln!(log, "{call:?}");
        }
        for push in &judged.pushes {
            let _ = writeln!(log, "{push:?}");
        }
        std::fs::write(folder().join(format!("history-{}-{on}.log", head.seed)), log).unwrap();
    }
    path
}

/// Keeps the servers' logs of a red storm.
pub fn keep_logs(head: &Head, data: &std::path::Path) {
    for n in 0..2 {
        let log = data.with_file_name(format!("server{n}.log"));
        let kept = folder().join(format!("server{n}-{}-{:?}.log", head.seed, head.on).to_lowercase());
        let _nothing_written = std::fs::copy(log, kept);
    }
}
