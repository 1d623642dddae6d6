//! Where to go after a login: one of our own paths, never somebody else's page.

/// `path` when it is surely a path of this very site: one slash, then nothing that a browser could read as a host, no
/// backslash, no control character, nothing outside ASCII.
#[must_use]
pub fn own_path(path: &str) -> Option<&str> {
    let bytes = path.as_bytes();
    let begins_well = bytes.first() == Some(&b'/') && bytes.get(1) != Some(&b'/');
    let fits = bytes.len() <= 1024 && bytes.iter().all(|b| b.is_ascii_graphic() && *b != b'\\');
    (begins_well && fits).then_some(path)
}

/// The login page's address that leads back to `path` afterwards.
#[must_use]
pub fn login_address(path: &str) -> String {
    match own_path(path) {
        Some(path) if path != "/" => {
            format!("/login?next={}", form_urlencoded::byte_serialize(path.as_bytes()).collect::<String>())
        }
        _ => String::from("/login"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_our_own_paths_are_followed() {
        for good in ["/", "/orders", "/shop/1?lang=en&x=%2F", "/a//b"] {
            assert_eq!(own_path(good), Some(good));
        }
        for bad in
            ["", "//evil.example", "/\\evil.example", "\\/evil", "https://evil.example", "orders", "/a\r\nb", "/\t/evil", "/店"]
        {
            assert_eq!(own_path(bad), None, "{bad:?}");
        }
        assert_eq!(login_address("/shop/1?a=b&c"), "/login?next=%2Fshop%2F1%3Fa%3Db%26c");
        assert_eq!(login_address("//evil.example"), "/login");
    }
}
