//! Scripts with one guard taken out, for the tests of the tests.
//!
//! Under the feature `fault-injection` only. A guard that is not found in the text any more is logged and left in; the test
//! that wants it out then fails.

/// A mutant, what it takes out, and what stands there instead.
const MUTANTS: [(&str, &str, &str); 3] = [
    (
        "stock-before-holder",
        "local answer = held[i] or came[user]",
        "local answer = (stock <= 0 and 'SOLD_OUT') or held[i] or came[user]",
    ),
    (
        "no-run-id",
        "if sale[3] ~= string.match(redis.call('INFO', 'server'), 'run_id:(%w+)') then return {'NOT_READY', sale[2], 'run_id'} end",
        "",
    ),
    ("no-run-id", "or sale[2] ~= string.match(redis.call('INFO', 'server'), 'run_id:(%w+)')", ""),
];

/// The script without its guards; none: it keeps them all.
pub(super) fn mutated(text: &str) -> Option<String> {
    let out = MUTANTS.iter().filter(|(name, guard, _)| text.contains(guard) && crate::fault::mutant(name));
    out.fold(None, |changed, (_, guard, instead)| Some(changed.unwrap_or_else(|| text.to_owned()).replace(guard, instead)))
}
