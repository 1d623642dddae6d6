//! A build without the feature has no fail points and no mutants.

use std::fs;
use std::path::Path;
use std::process::Command;

const PROGRAM: &str = r#"
mod fault;
fn main() {
    fault::fail_point("a-place-to-die");
    if fault::mutant("a-guard-that-is-out") || fault::clock_error() != 0 {
        println!("broken on purpose");
    }
    println!("the shop is open");
}
"#;

/// `src/fault.rs` as a shop is built, in a program that uses it: none of the names are in the binary.
#[test]
fn a_build_without_the_feature_has_no_fail_point_and_no_mutant() {
    let dir = tempfile::tempdir().unwrap();
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    fs::copy(root.join("src/fault.rs"), dir.path().join("fault.rs")).unwrap();
    fs::write(dir.path().join("main.rs"), PROGRAM).unwrap();
    let built = Command::new("rustc")
        .args(["--edition", "2024", "-Copt-level=3", "-Adead_code", "-o", "program", "main.rs"])
        .current_dir(dir.path())
        .output()
        .unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    let binary = fs::read(dir.path().join("program")).unwrap();
    let has = |text: &str| binary.windows(text.len()).any(|bytes| bytes == text.as_bytes());
    assert!(has("the shop is open"), "what is there is found");
    for name in ["a-place-to-die", "a-guard-that-is-out", "broken on purpose", "SECKILL_FAULT"] {
        assert!(!has(name), "{name} is in a build without the feature");
    }
}

/// Nobody turns the feature on by default, and every place that DESIGN names is in the program.
#[test]
fn the_feature_is_off_by_default_and_every_fail_point_is_passed_somewhere() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let manifest = fs::read_to_string(root.join("Cargo.toml")).unwrap();
    let features = manifest.split("[features]").nth(1).unwrap().split("\n[").next().unwrap();
    assert!(!features.lines().any(|line| line.starts_with("default")), "{features}");
    let mut source = String::new();
    let mut folders = vec![root.join("src")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if entry.is_dir() {
                folders.push(entry);
            } else if !entry.ends_with("fault.rs") {
                source.push_str(&fs::read_to_string(entry).unwrap());
            }
        }
    }
    for point in seckill::fault::POINTS {
        assert!(source.contains(&format!("_point(\"{point}\")")), "no process ever comes to {point}");
    }
}
