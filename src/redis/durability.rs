//! What an operator's own Redis would lose without a word: found out at the start, and said aloud.
//!
//! By INFO alone: an access list may well forbid CONFIG.

use super::connect::{Redis, info_field};

impl Redis {
    /// What is wrong with this server's settings, a sentence each; none: nothing, or it would not tell.
    pub async fn durability_warnings(&self) -> Vec<String> {
        let mut told = String::new();
        for section in ["memory", "persistence"] {
            let answer: redis::RedisResult<String> = redis::cmd("INFO").arg(section).query_async(&mut self.shared()).await;
            match answer {
                Ok(text) => told.push_str(&text),
                Err(error) => tracing::warn!(%error, section, "Redis does not tell how it is set up"),
            }
        }
        warnings(&told)
    }
}

fn warnings(info: &str) -> Vec<String> {
    let mut found = Vec::new();
    match info_field(info, "maxmemory_policy") {
        None | Some("noeviction") => {}
        Some(policy) => found.push(format!(
            "Redis evicts keys when its memory is full (maxmemory-policy {policy}): stock, holders or queued orders can vanish in the middle of a sale; set noeviction"
        )),
    }
    if info_field(info, "aof_enabled") == Some("0") {
        found.push(String::from(
            "Redis keeps no append-only file: a restart loses every queued order and every session; set appendonly yes",
        ));
    }
    if info_field(info, "aof_last_write_status").is_some_and(|status| status != "ok") {
        found.push(String::from("Redis could not write its append-only file: look at its disk"));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_be_lost_without_a_word_is_said() {
        let good = "maxmemory_policy:noeviction\r\naof_enabled:1\r\naof_last_write_status:ok\r\n";
        assert!(warnings(good).is_empty());
        assert!(warnings("").is_empty(), "nothing is said of what is not known");
        let bad = "maxmemory_policy:allkeys-lru\r\naof_enabled:0\r\naof_last_write_status:err\r\n";
        let said = warnings(bad);
        assert_eq!(said.len(), 3, "{said:?}");
        assert!(said[0].contains("allkeys-lru") && said[1].contains("appendonly yes"));
    }
}
