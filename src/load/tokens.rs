//! The buyers: users with a session each, from the file that `seckill user seed` writes.

use std::path::Path;

use super::CannotRun;

/// One user who is logged in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Buyer {
    /// Goes bare into the `authorization` header.
    pub token: String,
}

/// The first `wanted` buyers of a file, or all of it when `wanted` is none and it has fewer than 10,000.
///
/// A line is `userId phone token`; empty lines are passed over. Too few lines are refused: each click is a different user's.
pub async fn read(path: &Path, wanted: Option<usize>) -> Result<Vec<Buyer>, CannotRun> {
    let text = tokio::fs::read_to_string(path)
        .await
        .map_err(|e| CannotRun(format!("the tokens in {} cannot be read: {e}", path.display())))?;
    parse(&text, wanted).map_err(|why| CannotRun(format!("{}: {why}", path.display())))
}

fn parse(text: &str, wanted: Option<usize>) -> Result<Vec<Buyer>, String> {
    let mut buyers = Vec::new();
    for (number, line) in
        text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()).take(wanted.unwrap_or(DEFAULT_BUYERS))
    {
        let mut words = line.split_whitespace();
        let token = match (words.next(), words.next(), words.next(), words.next()) {
            (Some(_), Some(_), Some(token), None) if token.bytes().all(|b| b.is_ascii_graphic()) => token.to_owned(),
            _ => return Err(format!("line {} is not 'userId phone token'", number + 1)),
        };
        buyers.push(Buyer { token });
    }
    match wanted {
        _ if buyers.is_empty() => Err("no tokens; write some with 'seckill user seed'".to_owned()),
        Some(n) if buyers.len() < n => Err(format!(
            "{} tokens are too few for {n} buyers, who are all different; write more with 'seckill user seed'",
            buyers.len()
        )),
        _ => Ok(buyers),
    }
}

/// How many click when `--buyers` does not say.
pub const DEFAULT_BUYERS: usize = 10_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_tokens_is_read_strictly() {
        let text = "1 19900000000 abc\n\n2 19900000001 d-_f\n";
        assert_eq!(parse(text, None).unwrap().len(), 2);
        assert_eq!(parse(text, Some(1)).unwrap(), [Buyer { token: "abc".into() }]);
        for (bad, wanted) in [(text, Some(3)), ("", None), ("1 2\n", None), ("1 2 3 4\n", None), ("1 2 t\u{e9}\n", None)] {
            assert!(parse(bad, wanted).is_err(), "{bad:?}");
        }
    }
}
