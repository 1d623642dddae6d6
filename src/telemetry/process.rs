//! What the system says about this process: memory and files. Linux only; elsewhere the figures stay 0.

use super::meters;

/// Reads them anew.
#[expect(clippy::cast_precision_loss, reason = "figures for people, far below 2^53")]
pub fn look_at_process() {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:")?.trim().strip_suffix(" kB"));
    if let Some(kib) = resident.and_then(|n| n.parse::<u64>().ok()) {
        meters().resident_bytes.set((kib * 1024) as f64);
    }
    if let Ok(files) = std::fs::read_dir("/proc/self/fd") {
        meters().open_files.set(files.count() as f64);
    }
}
