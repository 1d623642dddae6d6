//! What is deployed beside the shop: every figure that it names exists, every page that it leads to is there.

use std::collections::BTreeSet;
use std::path::Path;

use seckill::telemetry::{CATALOGUE, Kind};
use serde_json::Value;

fn read(path: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap_or_else(|e| panic!("{path}: {e}"))
}

/// The names of figures in an expression: words that look like ours.
fn figures_in(expression: &str) -> Vec<&str> {
    let words = expression.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    words.filter(|w| w.starts_with("seckill_") || w.starts_with("http_server_") || w.starts_with("process_")).collect()
}

#[track_caller]
fn exists(name: &str, place: &str) {
    let bare = ["_bucket", "_sum", "_count"].into_iter().find_map(|end| name.strip_suffix(end));
    let whole = CATALOGUE.iter().any(|m| m.name == name && m.kind != Kind::Histogram);
    let part = CATALOGUE.iter().any(|m| Some(m.name) == bare && m.kind == Kind::Histogram);
    assert!(whole || part, "{place}: no figure is called {name}");
}

#[test]
fn the_dashboard_shows_figures_that_exist() {
    let dashboard: Value = serde_json::from_str(&read("deploy/grafana-dashboard.json")).unwrap();
    let (mut ids, mut shown) = (BTreeSet::new(), BTreeSet::new());
    for panel in dashboard["panels"].as_array().unwrap() {
        let title = panel["title"].as_str().unwrap();
        assert!(ids.insert(panel["id"].as_i64().unwrap()), "{title}: its number stands twice");
        for target in panel["targets"].as_array().unwrap() {
            let expression = target["expr"].as_str().unwrap();
            let figures = figures_in(expression);
            assert!(!figures.is_empty(), "{title}: {expression}");
            for figure in figures {
                exists(figure, title);
                shown.insert(figure.to_owned());
            }
            assert_eq!(expression.matches('(').count(), expression.matches(')').count(), "{title}");
        }
    }
    for meter in CATALOGUE.iter().filter(|m| m.name.starts_with("seckill_") && m.name != "seckill_build_info") {
        let counted_elsewhere = meter.name == "seckill_dead_letters_total";
        assert!(counted_elsewhere || shown.iter().any(|s| s.starts_with(meter.name)), "no panel shows {}", meter.name);
    }
}

#[test]
fn every_alert_asks_for_figures_that_exist_and_leads_to_its_page() {
    let (alerts, guide) = (read("deploy/alerts.yml"), read("docs/OPERATIONS.md"));
    let headings = guide.lines().filter_map(|line| line.strip_prefix("### "));
    let anchors: BTreeSet<String> = headings
        .map(|h| {
            h.to_lowercase()
                .chars()
                .filter(|c| c.is_ascii_alphanumeric() || " -".contains(*c))
                .collect::<String>()
                .replace(' ', "-")
        })
        .collect();
    let rules: Vec<&str> = alerts.split("- alert: ").skip(1).collect();
    let mut used = BTreeSet::new();
    for rule in &rules {
        let name = rule.lines().next().unwrap();
        let expression = rule.split("expr:").nth(1).unwrap().split("for:").next().unwrap();
        assert!(!figures_in(expression).is_empty(), "{name}");
        for figure in figures_in(expression) {
            exists(figure, name);
        }
        let runbook = rule.split("runbook: docs/OPERATIONS.md#").nth(1).unwrap_or_else(|| panic!("{name} leads nowhere"));
        let anchor = runbook.lines().next().unwrap().trim();
        assert!(anchors.contains(anchor), "{name}: docs/OPERATIONS.md has no section {anchor}: {anchors:?}");
        used.insert(anchor.to_owned());
        assert!(rule.contains("summary:") && rule.contains("severity:") && rule.contains("for:"), "{name}");
    }
    for wanted in ["drift", "dead-letters", "lag", "refunds-overdue", "redis-away", "database-away"] {
        assert!(used.contains(&format!("alert-{wanted}")), "nothing tells of {wanted}");
    }
    let pages: BTreeSet<String> = anchors.into_iter().filter(|a| a.starts_with("alert-")).collect();
    assert_eq!(used, pages, "each page has its alert");
}

#[test]
fn the_service_gives_what_the_program_needs_and_no_more() {
    let unit = read("deploy/seckill.service");
    let value = |key: &str| unit.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('='));
    let start = value("ExecStart").unwrap();
    let options = start.split_whitespace().filter(|w| w.starts_with("--"));
    let help = std::process::Command::new(env!("CARGO_BIN_EXE_seckill")).args(["serve", "--help"]).output().unwrap();
    let help = String::from_utf8(help.stdout).unwrap();
    for option in options {
        assert!(help.contains(&format!("{option} <")), "{option} is no option of serve");
    }
    assert!(value("LimitNOFILE").unwrap().parse::<u64>().unwrap() > 60_000, "room for every socket");
    assert!(value("TimeoutStopSec").unwrap().parse::<u64>().unwrap() > 10, "it may take ten seconds to end");
    assert_eq!((value("Restart"), value("EnvironmentFile")), (Some("always"), Some("-/etc/seckill/env")));
    for key in ["NoNewPrivileges", "ProtectSystem", "PrivateTmp", "DynamicUser", "RestrictAddressFamilies"] {
        assert!(value(key).is_some(), "{key}");
    }
}
