//! Tells cargo that the migrations are compiled in, so that a new file rebuilds the binary.

fn main() {
    println!("cargo:rerun-if-changed=migrations");
}
