//! Bad values: what people, scripts and attackers type where something else is expected.

use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, RngExt};

/// Texts that are never the id of anything.
const NO_IDS: &[&str] = &[
    "0",
    "-1",
    "+1",
    "01",
    "00",
    "1.0",
    "1e3",
    "0x10",
    "1_000",
    "1,000",
    " 1",
    "1 ",
    "\t1",
    "1\n",
    "１",
    "１２",
    "٣",
    "Ⅷ",
    "½",
    "NaN",
    "null",
    "true",
    "undefined",
    "[object Object]",
    "9007199254740992",
    "9007199254740993",
    "9223372036854775807",
    "9223372036854775808",
    "18446744073709551615",
    "18446744073709551616",
    "10000000000000000000",
    "1'",
    "1--",
    "1;drop table orders",
    "1 or 1=1",
    "1)",
    "%2531",
    "1%00",
    "..",
    "../1",
    "..%2f1",
    "1/../2",
    "*",
    "$1",
    "{1}",
    "1\u{200b}",
    "\u{202e}1",
    "\u{feff}1",
    "%c0%b1",
    "%ff",
    "%",
    "%zz",
    "~",
    "1\0",
];

/// Texts that break something else than numbers: markup, queries, templates, line ends, hidden characters.
const PAYLOADS: &[&str] = &[
    "<zq onload=x>",
    "\"><zq src=x>",
    "</textarea><zq>",
    "</script><zq>",
    "{{7*7}}",
    "${7*7}",
    "' or '1'='1",
    "%",
    "_",
    "\\",
    "a%b_c",
    "'; drop table users; --",
    "a\r\nSet-Cookie: zq=1",
    "a\nb",
    "\u{0}",
    "\u{1b}[31m",
    "\u{202e}abc",
    "\u{feff}",
    "e\u{301}",
    "👩‍👩‍👧",
    "\u{e000}",
    "=1+1",
    "+1",
    "-1",
    "@sum",
    "../../etc/passwd",
    "..\\..\\x",
    "file:///x",
    "javascript:alert(1)",
    "//evil.example",
    "/\\evil.example",
    "GET / HTTP/1.1",
    "*1\r\n$8\r\nFLUSHALL\r\n",
    "{\"$gt\":\"\"}",
    "\u{fffd}",
    "ﷺ",
    "ＡＢＣ",
    "",
    " ",
    "\t",
];

/// Texts that are no instant, or one that no sale may end at.
const NO_TIMES: &[&str] = &[
    "",
    "now",
    "0",
    "1751600000",
    "2026-07-04",
    "10:00",
    "2026-02-31T10:00:00Z",
    "2026-13-01T00:00:00Z",
    "2026-07-04 10:00:00",
    "2026-07-04T25:00:00Z",
    "2026-07-04T10:00:00+25:00",
    "0000-00-00T00:00:00Z",
    "10000-01-01T00:00:00Z",
    "+2026-07-04T10:00:00Z",
    "2026-07-04T10:00:00Z; ",
    "２０２６-07-04T10:00:00Z",
    "1969-12-31T23:59:59Z",
    "9999-12-31T23:59:59Z",
    "2026-07-04T10:00:61Z",
    "Sat, 04 Jul 2026 10:00:00 GMT",
    "2026-W27-6",
    "2026-07-04T10:00:00[Nowhere/Land]",
    "-2026-07-04T10:00:00Z",
];

const NO_PHONES: &[&str] = &[
    "",
    "1",
    "1380000000",
    "138000000000",
    "23800000000",
    "12800000000",
    "+8613800000000",
    "138 0000 0000",
    "１３８００００００００",
    "1380000000a",
    "13800000000 ",
    "\u{202e}13800000000",
    "13800000000'",
    "1380000000\0",
    "٠١٣٨٠٠٠٠٠٠٠",
];

/// What is random about a case.
pub struct Words {
    rng: StdRng,
}

impl Words {
    pub fn new(rng: StdRng) -> Self {
        Self { rng }
    }

    pub fn below(&mut self, n: usize) -> usize {
        self.rng.random_range(0..n)
    }

    pub fn one<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        of.choose(&mut self.rng).unwrap()
    }

    pub fn word<'w>(&mut self, of: &[&'w str]) -> &'w str {
        of.choose(&mut self.rng).copied().unwrap()
    }

    pub fn bytes(&mut self, most: usize) -> Vec<u8> {
        let mut bytes = vec![0; self.below(most + 1)];
        self.rng.fill_bytes(&mut bytes);
        bytes
    }

    /// Any text at all.
    pub fn text(&mut self) -> String {
        match self.below(8) {
            0..4 => (*self.one(PAYLOADS)).to_owned(),
            4 => format!("{}{}", self.one(PAYLOADS), self.one(PAYLOADS)),
            5 => {
                let count = self.below(40);
                (0..count).map(|_| self.any_char()).collect()
            }
            6 => self.one(&["a", "店", "0", "\u{301}", "<zq>"]).repeat(*self.one(&[1, 99, 100, 101, 500, 3000])),
            _ => String::from_utf8_lossy(&self.bytes(30)).into_owned(),
        }
    }

    fn any_char(&mut self) -> char {
        loop {
            let code = if self.below(2) == 0 { self.rng.random_range(0..0x300) } else { self.rng.random_range(0..0x11_0000) };
            if let Some(c) = char::from_u32(code) {
                return c;
            }
        }
    }

    /// A text that is no id, whatever the kind.
    pub fn no_id(&mut self) -> String {
        match self.below(6) {
            0..4 => (*self.one(NO_IDS)).to_owned(),
            4 => "1".repeat(self.rng.random_range(20..300)),
            _ => {
                let text = self.text();
                // A path without its last part is another path; what happens to be an id is made none.
                if text.trim().is_empty() || text.starts_with(|c: char| c.is_ascii_digit()) { format!("x{text}") } else { text }
            }
        }
    }

    pub fn no_time(&mut self) -> String {
        let text = (*self.one(NO_TIMES)).to_owned();
        if self.below(5) == 0 { format!("{text}{}", self.below(100)) + "x" } else { text }
    }

    pub fn no_phone(&mut self) -> String {
        if self.below(3) == 0 { format!("x{}", self.text()) } else { (*self.one(NO_PHONES)).to_owned() }
    }

    /// JSON that is never a whole number in any allowed range.
    pub fn no_number(&mut self) -> String {
        let text = [
            "-1",
            "-9223372036854775808",
            "1.5",
            "1e400",
            "9007199254740993",
            "9223372036854775808",
            "1e3x",
            "\"1\"",
            "\"１\"",
            "true",
            "[]",
            "[1]",
            "{}",
            "{\"a\":1}",
            "\"\"",
            "100000000001",
            "1.0",
            "NaN",
            "+1",
            "01",
            "0x10",
            "-0.5",
        ];
        (*self.one(&text)).to_owned()
    }

    /// JSON that is never an object of the fields that anybody asks for.
    pub fn no_json(&mut self) -> Vec<u8> {
        let text = match self.below(9) {
            0 => (*self.one(&[
                "",
                "{",
                "}",
                "[]",
                "null",
                "1",
                "\"a\"",
                "{\"a\"}",
                "{\"a\":}",
                "{'a':1}",
                "{\"a\":1,}",
                "//x",
                "\u{feff}{}",
            ]))
            .to_owned(),
            1 => "[".repeat(self.rng.random_range(1..8_000)),
            2 => format!("{}{}", "{\"a\":".repeat(1_000), "}".repeat(1_000)),
            3 => format!("{{\"x{}\":{}}}", self.below(100), serde_json::to_string(&self.text()).unwrap()),
            4 => String::from("{\"phone\":\"\\ud800\"}"),
            5 => return self.bytes(2_000).into_iter().chain([0xff]).collect(),
            6 => format!("[{}1]", "1,".repeat(self.below(3_000))),
            7 => format!("phone={}&password=x", self.below(100)),
            _ => format!("{{\"phone\":{},\"phone\":1,\"nobody\":{{}}}} trailing", self.below(100)),
        };
        text.into_bytes()
    }

    /// What may stand in a header: no line end and no NUL, else no client would send it.
    pub fn header(&mut self) -> String {
        let text: String = self.text().chars().filter(|c| !c.is_ascii_control()).collect();
        // Room for the rest of the head.
        text.chars().take(500).collect()
    }

    /// A value of a query or a path, encoded so that a client can send it, in one of the ways that clients do.
    pub fn encoded(&mut self, text: &str) -> String {
        let all = self.below(8) == 0;
        let keep = |b: u8| b.is_ascii_alphanumeric() || b"-._~".contains(&b) || (!all && b"%!$'()*+,;:@".contains(&b));
        text.bytes().map(|b| if keep(b) { char::from(b).to_string() } else { format!("%{b:02X}") }).collect()
    }
}
