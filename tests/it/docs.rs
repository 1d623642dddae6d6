//! The documents are true: commands, options, scripts, rooms, words and links are compared with what is really there.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn repository() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: &str) -> String {
    fs::read_to_string(repository().join(path)).unwrap_or_else(|e| panic!("{path}: {e}"))
}

/// Every Markdown file of ours, relative to the repository.
fn documents() -> Vec<PathBuf> {
    let mut open = vec![repository()];
    let mut all = Vec::new();
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if path.is_dir() && !name.starts_with('.') && name != "target" && name != "data" {
                open.push(path);
            } else if path.extension().is_some_and(|e| e == "md") {
                all.push(path);
            }
        }
    }
    all
}

fn serve_help() -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_seckill")).args(["serve", "--help"]).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// What follows each `before` in `text`, as long as its letters are of `kind`.
fn words_after(text: &str, before: &str, kind: fn(char) -> bool) -> BTreeSet<String> {
    text.match_indices(before)
        .map(|(at, _)| text[at + before.len()..].chars().take_while(|c| kind(*c)).collect::<String>())
        .filter(|word| !word.is_empty())
        .collect()
}

#[test]
fn every_make_command_that_a_document_names_is_there() {
    let makefile = read("Makefile");
    for name in ["README.md", "README.zh-CN.md"] {
        let text = read(name);
        assert!(text.contains("\nmake run ") && text.contains("\nmake test "), "{name} names the two commands");
    }
    for path in documents() {
        let text = fs::read_to_string(&path).unwrap();
        for before in ["`make ", "\nmake "] {
            for target in words_after(&text, before, |c| c.is_ascii_lowercase() || c == '-') {
                assert!(makefile.contains(&format!("\n{target}:")), "{}: make {target} is not in the Makefile", path.display());
            }
        }
    }
}

#[test]
fn the_environment_example_lists_exactly_the_options_of_serve() {
    let shown = words_after(&serve_help(), "[env: ", |c| c.is_ascii_uppercase() || c == '_');
    let listed: BTreeSet<String> = read(".env.example")
        .lines()
        .filter_map(|line| line.trim_start_matches('#').split_once('='))
        .map(|(name, _)| name.to_owned())
        .filter(|name| name.chars().all(|c| c.is_ascii_uppercase() || c == '_'))
        .collect();
    assert!(shown.contains("SECKILL_LISTEN") && shown.contains("DATABASE_URL"), "{shown:?}");
    assert_eq!(listed, shown);
}

#[test]
fn every_option_of_serve_is_explained_to_operators() {
    let operations = read("docs/OPERATIONS.md");
    let options = words_after(&serve_help(), "--", |c| c.is_ascii_lowercase() || c == '-');
    assert!(options.len() > 10, "{options:?}");
    for option in options.iter().filter(|o| o.as_str() != "help") {
        assert!(operations.contains(&format!("`--{option}`")), "docs/OPERATIONS.md does not name --{option}");
    }
}

#[test]
fn every_script_is_listed() {
    let list = read("lua/README.md");
    for entry in fs::read_dir(repository().join("lua")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        assert!(path.extension().is_none_or(|e| e != "lua") || list.contains(&name), "lua/README.md does not list {name}");
    }
}

#[test]
fn every_room_is_on_the_map() {
    let map = read("docs/ARCHITECTURE.md");
    for entry in fs::read_dir(repository().join("src")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let place = if path.is_dir() { format!("`src/{name}/`") } else { format!("`src/{name}`") };
        // The crate's root is the map itself.
        assert!(name == "lib.rs" || map.contains(&place), "docs/ARCHITECTURE.md does not show {place}");
    }
}

#[test]
fn the_words_of_the_house_are_in_the_glossary() {
    let glossary = read("docs/GLOSSARY.md");
    for word in [
        "user",
        "shop",
        "voucher",
        "flash sale",
        "admit",
        "refuse",
        "holder",
        "order",
        "live order",
        "pending",
        "unacknowledged",
        "release",
        "bury",
        "dead letter",
        "claim",
        "rebuild",
        "epoch",
        "lane",
        "ticket",
        "reconcile",
    ] {
        let mut first_cells = glossary.lines().filter_map(|line| line.strip_prefix("| ")?.split(" | ").next());
        assert!(first_cells.any(|cell| cell.contains(word)), "docs/GLOSSARY.md does not say what '{word}' is");
    }
}

#[test]
fn every_relative_link_leads_somewhere() {
    let mut followed = 0;
    for path in documents() {
        let text = fs::read_to_string(&path).unwrap();
        for (at, _) in text.match_indices("](") {
            let link: String = text[at + 2..].chars().take_while(|c| *c != ')').collect();
            if link.contains("://") || link.starts_with('#') || link.starts_with("mailto:") {
                continue;
            }
            let file = link.split('#').next().unwrap_or_default();
            let target = path.parent().unwrap_or(Path::new("")).join(file);
            assert!(target.exists(), "{}: {link} leads nowhere", path.display());
            followed += 1;
        }
    }
    assert!(followed > 20, "only {followed} links were found");
}

#[test]
fn nothing_speaks_of_a_machine() {
    for path in documents() {
        let text = fs::read_to_string(&path).unwrap();
        for word in ["/home/", "/root/", "/tmp/", "/work/"] {
            assert!(!text.contains(word), "{}: {word}", path.display());
        }
    }
}
