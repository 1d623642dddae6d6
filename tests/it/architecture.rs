//! The walls of the house, checked: which words and which rooms may stand in which folder, and how long a file may get.
//!
//! One crate has no walls of its own. Each message says where a line belongs; `docs/ARCHITECTURE.md` says why.

use std::fs;
use std::path::{Path, PathBuf};

/// Longer files are split.
const MAX_LINES: usize = 500;

/// A line in the wrong place.
#[derive(Debug, PartialEq, Eq)]
struct Violation {
    line: usize,
    why: String,
}

/// A word of code, the places where it may stand (path prefixes under the repository), and where it belongs.
struct Wall {
    word: &'static str,
    rooms: &'static [&'static str],
    belongs: &'static str,
}

/// `app/` opens connections and serves; it decides nothing.
const WALLS: &[Wall] = &[
    Wall { word: "sqlx", rooms: &["src/store/"], belongs: "SQL stays in src/store/" },
    Wall {
        word: "redis::",
        rooms: &["src/redis/", "src/gate/", "src/queue/", "src/push/bus.rs", "src/web/session", "src/app"],
        belongs: "Redis commands stay in src/redis/, src/gate/, src/queue/, src/push/bus.rs and src/web/session/",
    },
    Wall { word: "axum", rooms: &["src/web/", "src/app"], belongs: "HTTP is spoken in src/web/" },
    Wall { word: "StatusCode", rooms: &["src/web/"], belongs: "statuses are decided in src/web/ (errors: src/web/error.rs)" },
    Wall { word: "tower_sessions", rooms: &["src/web/session", "src/app"], belongs: "sessions are kept in src/web/session/" },
    Wall { word: "argon2", rooms: &["src/service/passwords.rs"], belongs: "passwords are hashed in src/service/passwords.rs" },
    Wall { word: "askama", rooms: &["src/web/"], belongs: "pages are made in src/web/page/" },
    // The server's side names its error type; axum wraps it without a name of its own.
    Wall {
        word: "tokio_tungstenite",
        rooms: &["src/load/", "src/web/socket.rs"],
        belongs: "the live channel ends in src/web/socket.rs, and its client is src/load/",
    },
    Wall { word: "unsafe", rooms: &[], belongs: "nowhere" },
];

/// Words that may not stand in `domain/`, which is pure.
const IMPURE: &[&str] = &[
    "async",
    "await",
    "tokio",
    "axum",
    "sqlx",
    "redis",
    "hyper",
    "tower",
    "futures_util",
    "tracing",
    "metrics",
    "rand",
    "clap",
    "SystemTime",
    "Instant",
    "std::fs",
    "std::net",
    "std::io",
    "std::env",
    "std::process",
    "std::thread",
];

/// Beginnings of Redis keys and channels, spelled once.
const KEY_WORDS: &[&str] =
    &["seckill:{", "seckill:bus", "stream.orders", "icr:order", "login:token", "login:user", "login:code", "captcha:", "limit:"];

/// Which rooms each room may name. Leaves (`clock`, `config`, `shutdown`, `telemetry`, `domain`) may be named by all but
/// `domain` and each other. `app`, `cli`, `main` and `lib` put the parts together and may name every room.
const ARROWS: &[(&str, &[&str])] = &[
    ("domain", &[]),
    ("clock", &["domain"]),
    ("config", &["domain"]),
    ("keys", &["domain"]),
    ("shutdown", &[]),
    ("fault", &["config"]),
    ("telemetry", &["clock", "config", "shutdown"]),
    ("secrets", &["domain"]),
    ("i18n", &["domain"]),
    ("store", &[]),
    ("redis", &["keys"]),
    ("gate", &["keys", "redis"]),
    ("queue", &["keys", "redis"]),
    ("push", &["keys", "redis"]),
    ("payment_provider", &[]),
    ("service", &["store", "gate", "queue", "push", "payment_provider"]),
    ("worker", &["service", "store", "queue", "push"]),
    ("web", &["service", "store", "push", "i18n", "keys", "redis"]),
    ("load", &[]),
];
const LEAVES: &[&str] = &["clock", "config", "fault", "shutdown", "telemetry", "domain"];
const COMPOSERS: &[&str] = &["app", "cli", "main", "lib"];

/// One line of Rust without comments: its code (literals emptied) and its string literals, each on the line where it begins.
#[derive(Default, Clone)]
struct Line {
    code: String,
    literals: Vec<String>,
}

/// Takes comments away and parts code from string literals.
fn strip(text: &str) -> Vec<Line> {
    let mut lines = vec![Line::default()];
    let chars: Vec<char> = text.chars().collect();
    let mut i = 0;
    while i < chars.len() {
        let rest = &chars[i..];
        let last = lines.len() - 1;
        if rest.starts_with(&['/', '/']) {
            i += rest.iter().position(|c| *c == '\n').unwrap_or(rest.len());
        } else if rest.starts_with(&['/', '*']) {
            let mut depth = 0;
            while i < chars.len() {
                match (chars[i], chars.get(i + 1)) {
                    ('/', Some('*')) => (depth, i) = (depth + 1, i + 2),
                    ('*', Some('/')) => (depth, i) = (depth - 1, i + 2),
                    ('\n', _) => {
                        lines.push(Line::default());
                        i += 1;
                    }
                    _ => i += 1,
                }
                if depth == 0 {
                    break;
                }
            }
        } else if let Some((literal, length)) = string_literal(rest, lines[last].code.chars().last()) {
            lines[last].code.push_str("\"\"");
            let breaks = rest[..length].iter().filter(|c| **c == '\n').count();
            lines[last].literals.push(literal);
            lines.resize(last + 1 + breaks, Line::default());
            i += length;
        } else if rest[0] == '\'' && (rest.get(1) == Some(&'\\') || rest.get(2) == Some(&'\'')) {
            // A char literal; a lone quote is a lifetime.
            i += 2 + rest[2..].iter().position(|c| *c == '\'').unwrap_or(0) + 1;
        } else {
            if rest[0] == '\n' {
                lines.push(Line::default());
            } else {
                lines[last].code.push(rest[0]);
            }
            i += 1;
        }
    }
    lines
}

/// The literal that `rest` begins with and its length, quotes included.
fn string_literal(rest: &[char], before: Option<char>) -> Option<(String, usize)> {
    if rest[0] == 'r' && !before.is_some_and(|c| c.is_alphanumeric() || c == '_') {
        let hashes = rest[1..].iter().take_while(|c| **c == '#').count();
        let end: Vec<char> = std::iter::once('"').chain(std::iter::repeat_n('#', hashes)).collect();
        let body = rest.get(1 + hashes).filter(|c| **c == '"').map(|_| &rest[2 + hashes..])?;
        let length = body.windows(end.len()).position(|w| w == end)?;
        return Some((body[..length].iter().collect(), 2 + hashes + length + end.len()));
    }
    if rest[0] != '"' {
        return None;
    }
    let mut length = 1;
    while rest.get(length)? != &'"' {
        length += if rest[length] == '\\' { 2 } else { 1 };
    }
    Some((rest[1..length].iter().collect(), length + 1))
}

/// Whether `word` stands in `code` as a whole word that is not a room of ours (`crate::redis::`).
fn names(code: &str, word: &str) -> bool {
    let part = |c: char| c.is_alphanumeric() || c == '_';
    code.match_indices(word).any(|(at, _)| {
        let (before, after) = (&code[..at], &code[at + word.len()..]);
        let own = ["crate::", "super::", "self::"].iter().any(|p| before.ends_with(p));
        !own && !before.ends_with(part) && (word.ends_with(':') || !after.starts_with(part))
    })
}

/// The rooms that follow `crate::`, braces included, each with the number of its line.
fn rooms_named(code: &str) -> Vec<(usize, String)> {
    let mut rooms = Vec::new();
    for (at, _) in code.match_indices("crate::") {
        let line = code[..at].matches('\n').count() + 1;
        let rest = &code[at + "crate::".len()..];
        let Some(group) = rest.strip_prefix('{') else {
            rooms.push((line, rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect()));
            continue;
        };
        let (mut depth, mut words) = (1, String::new());
        for c in group.chars() {
            match c {
                '{' => depth += 1,
                '}' => depth -= 1,
                _ if depth == 1 => words.push(c),
                _ => {}
            }
            if depth == 0 {
                break;
            }
        }
        rooms.extend(words.split(',').filter_map(|w| w.trim().split("::").next().map(|w| (line, w.to_owned()))));
    }
    rooms
}

/// The room of a file under `src/`: its first folder, or its name.
fn room_of(path: &str) -> Option<&str> {
    let inside = path.strip_prefix("src/")?;
    Some(inside.split_once('/').map_or_else(|| inside.trim_end_matches(".rs"), |(room, _)| room))
}

fn looks_like_sql(literal: &str) -> bool {
    let text = literal.trim_start().trim_start_matches(['\\', '\n', ' ']).to_ascii_lowercase();
    (text.starts_with("select ") && (text.contains(" from ") || text.contains('$') || text == "select 1"))
        || (text.starts_with("update ") && text.contains(" set "))
        || ["insert into ", "delete from ", "create table ", "begin immediate", "pragma "].iter().any(|w| text.starts_with(w))
}

/// Everything in one file that is in the wrong place. `path` is relative to the repository, with slashes.
fn check(path: &str, text: &str) -> Vec<Violation> {
    let mut found = Vec::new();
    let mut report = |line: usize, why: String| found.push(Violation { line, why });
    let count = text.lines().count();
    if count > MAX_LINES {
        report(count, format!("{count} lines; a file has {MAX_LINES} at most: split it by what its parts are about"));
    }
    if Path::new(path).extension().is_none_or(|e| e != "rs") {
        return found;
    }
    if !text.starts_with("//!") {
        report(1, "a file opens with //! lines: what lives here, what must not".to_owned());
    }
    let room = room_of(path);
    let allowed = room.and_then(|r| ARROWS.iter().find(|(name, _)| *name == r)).map(|(_, rooms)| *rooms);
    if let Some(room) = room
        && allowed.is_none()
        && !COMPOSERS.contains(&room)
    {
        report(1, format!("{room} is no room of the house: give it its arrows in tests/it/architecture.rs"));
    }
    let lines = strip(text);
    let mut in_tests = false;
    for (index, Line { code, literals }) in lines.iter().enumerate() {
        let line = index + 1;
        if names(code, "ignore") && code.contains("#[") {
            report(line, "a test runs or is not there: #[ignore] hides it".to_owned());
        }
        let Some(room) = room else { continue };
        for wall in WALLS {
            if names(code, wall.word) && !wall.rooms.iter().any(|place| path.starts_with(place)) {
                report(line, format!("{}: {}", wall.word, wall.belongs));
            }
        }
        if room != "store" && literals.iter().any(|l| looks_like_sql(l)) {
            report(line, "an SQL string: SQL stays in src/store/".to_owned());
        }
        if let Some(word) = KEY_WORDS.iter().find(|w| room != "keys" && literals.iter().any(|l| l.starts_with(**w))) {
            report(line, format!("{word}: Redis keys and channels are spelled in src/keys.rs"));
        }
        if room == "domain"
            && let Some(word) = IMPURE.iter().find(|w| names(code, w))
        {
            report(line, format!("{word}: src/domain/ is pure; what waits or talks belongs in src/service/ or below it"));
        }
        // super:: from the top of a room leads out of it, past the arrows below.
        in_tests |= code.contains("#[cfg(test)]");
        let depth = path.trim_end_matches("/mod.rs").split('/').count() - 1 + usize::from(in_tests);
        let longest = (1..=depth + 2).rev().find(|n| code.contains(&"super::".repeat(*n))).unwrap_or(0);
        if longest >= depth && longest > 1 {
            report(line, "super:: leads out of the room: write crate:: and the room's name".to_owned());
        }
    }
    if let (Some(room), Some(allowed)) = (room, allowed) {
        let leaf = |name: &str| LEAVES.contains(&name);
        let may = |named: &str| named == room || allowed.contains(&named) || (leaf(named) && !leaf(room));
        let code: Vec<&str> = lines.iter().map(|l| l.code.as_str()).collect();
        for (line, named) in rooms_named(&code.join("\n")) {
            if (ARROWS.iter().any(|(r, _)| *r == named) || COMPOSERS.contains(&named.as_str())) && !may(&named) {
                report(line, format!("{room} may not know {named}: nothing points back up, and neighbours do not meet"));
            }
        }
    }
    found
}

fn repository() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// Every file under the given folders whose name ends in one of ours.
fn files(folders: &[&str]) -> Vec<PathBuf> {
    let mut open: Vec<PathBuf> = folders.iter().map(|f| repository().join(f)).filter(|f| f.is_dir()).collect();
    let mut all = Vec::new();
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path);
            } else if path.extension().is_some_and(|e| ["rs", "js", "css", "lua"].iter().any(|ours| e == *ours)) {
                all.push(path);
            }
        }
    }
    all.sort();
    all
}

fn relative(path: &Path) -> String {
    path.strip_prefix(repository()).unwrap().to_string_lossy().replace('\\', "/")
}

#[test]
fn every_line_is_at_home() {
    let files = files(&["src", "tests", "benches", "lua", "static"]);
    assert!(files.len() > 10, "the house was not found");
    let mut report = Vec::new();
    for file in files {
        let path = relative(&file);
        for Violation { line, why } in check(&path, &fs::read_to_string(&file).unwrap()) {
            report.push(format!("{path}:{line}: {why}"));
        }
    }
    assert!(report.is_empty(), "\n{}", report.join("\n"));
}

#[test]
fn a_planted_violation_of_each_kind_is_found() {
    let planted = [
        ("src/service/buy.rs", "use sqlx::Row;", "SQL stays in src/store/"),
        ("src/service/buy.rs", "let a = sqlx::query(x);", "SQL stays in src/store/"),
        ("src/service/buy.rs", "const A: &str = \"select id from orders\";", "an SQL string"),
        ("src/web/page.rs", "const A: &str = \"\\\n  update orders set live = false\";", "an SQL string"),
        ("src/gate/mod.rs", "const A: &str = r#\"INSERT INTO orders\"#;", "an SQL string"),
        ("src/web/page.rs", "redis::cmd(\"GET\")", "Redis commands stay in"),
        ("src/store/mod.rs", "use redis::AsyncCommands;", "Redis commands stay in"),
        ("src/push/hub/mod.rs", "use redis::Client;", "Redis commands stay in"),
        ("src/gate/mod.rs", "let k = format!(\"seckill:{{0}}:stock:1\");", "spelled in src/keys.rs"),
        ("src/web/session.rs", "const P: &str = \"login:token:\";", "spelled in src/keys.rs"),
        ("src/push/hub/mod.rs", "use axum::extract::ws::Message;", "HTTP is spoken in src/web/"),
        ("src/service/buy.rs", "StatusCode::OK", "statuses are decided in src/web/"),
        ("src/domain/sale.rs", "pub async fn sell() {}", "src/domain/ is pure"),
        ("src/domain/sale.rs", "use std::time::Instant;", "src/domain/ is pure"),
        ("src/domain/sale.rs", "use crate::store::Store;", "domain may not know store"),
        ("src/domain/sale.rs", "use crate::clock::Clock;", "domain may not know clock"),
        ("src/store/orders.rs", "use crate::gate::Gate;", "store may not know gate"),
        ("src/store/orders.rs", "use crate::{domain::ids, service::Orders};", "store may not know service"),
        ("src/gate/mod.rs", "use crate::queue::Reader;", "gate may not know queue"),
        ("src/queue/mod.rs", "use crate::{\n    domain::ids,\n    service::{Orders, x},\n};", "queue may not know service"),
        ("src/service/buy.rs", "use crate::redis::Redis;", "service may not know redis"),
        ("src/service/buy.rs", "use super::super::web::State;", "super:: leads out of the room"),
        ("src/web/state.rs", "use crate::worker::Consumer;", "web may not know worker"),
        ("src/web/state.rs", "use crate::gate::Gate;", "web may not know gate"),
        ("src/worker/consumer.rs", "use crate::web::State;", "worker may not know web"),
        ("src/load/mod.rs", "use crate::app::App;", "load may not know app"),
        ("src/basement/mod.rs", "", "no room of the house"),
        ("tests/it/race.rs", "#[ignore]\nfn a() {}", "#[ignore] hides it"),
        ("tests/it/race.rs", "#[test]\n#[ignore = \"slow\"]\nfn a() {}", "#[ignore] hides it"),
    ];
    for (path, code, expected) in planted {
        let found = check(path, &format!("//! A room.\n{code}\n"));
        assert!(found.iter().any(|v| v.why.contains(expected)), "{path}: {code}\n{found:?}");
        assert!(found.iter().all(|v| v.line > 1 || expected == "no room of the house"), "{path}: {code}\n{found:?}");
    }
    let long = |name: &str| check(name, &format!("//! Long.\n{}", "\n".repeat(MAX_LINES)));
    for name in ["src/domain/a.rs", "tests/it/a.rs", "lua/a.lua", "static/a.css", "static/a.js"] {
        assert!(long(name).iter().any(|v| v.why.contains("split it")), "{name}");
    }
    assert!(check("src/domain/a.rs", "use std::fmt;\n").iter().any(|v| v.why.contains("opens with //!")));
}

#[test]
fn what_is_at_home_is_left_alone() {
    let innocent = [
        ("src/store/orders.rs", "use sqlx::Row;\nconst A: &str = \"select id from orders\";\nuse crate::domain::ids::OrderId;"),
        ("src/gate/mod.rs", "use redis::Script;\nuse crate::redis::Redis;\nuse crate::keys;\nuse crate::clock::Clock;"),
        (
            "src/service/buy.rs",
            "// sqlx, redis:: and axum are named here, \"select a from b\"\n/* use axum::Json; /* nested */ */\nfn a() {}",
        ),
        (
            "src/service/buy.rs",
            "let s = \"select a voucher, then update the page\";\nlet c = '\"'; let d = '\\''; let e: &'static str = \"x\";",
        ),
        ("src/domain/sale.rs", "use super::ids::OrderId;\nfn instantly(awaited: bool) -> std::time::Duration { todo(awaited) }"),
        (
            "src/web/handlers/buy.rs",
            "use axum::response::Response;\nuse super::super::state::AppState;\nuse crate::service::purchase::Answer;",
        ),
        ("src/app/mod.rs", "use crate::web::routes;\nuse crate::worker::consumer;\nuse redis::Client;"),
        ("src/push/bus.rs", "#[cfg(test)]\nmod tests {\n    use super::super::hub::Socket;\n}"),
        ("src/keys.rs", "format!(\"seckill:{{{lane}}}:stock\")"),
        ("tests/it/race.rs", "// #[ignore]\nlet a = sqlx::query(\"select 1\");"),
    ];
    for (path, code) in innocent {
        assert_eq!(check(path, &format!("//! A room.\n{code}\n")), [], "{path}: {code}");
    }
}
