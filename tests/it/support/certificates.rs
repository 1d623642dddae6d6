//! Certificates of a test's own.

use std::os::unix::fs::PermissionsExt;

use tempfile::TempDir;

use super::app::short_dir;

/// A certificate authority and a server's certificate of it, for 127.0.0.1; and another authority that signed nothing.
pub fn certificates() -> TempDir {
    let dir = short_dir();
    // The database runs as another user, and reads them.
    std::fs::set_permissions(dir.path(), PermissionsExt::from_mode(0o755)).unwrap();
    let script = r#"
set -e
key="-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes"
for name in ca other; do
    openssl req -x509 $key -keyout $name.key -out $name.pem -subj "/CN=$name of a test" -days 2
done
openssl req $key -keyout server.key -out server.csr -subj /CN=localhost
echo "subjectAltName=DNS:localhost,IP:127.0.0.1" >names
openssl x509 -req -in server.csr -CA ca.pem -CAkey ca.key -CAcreateserial -out server.pem -days 2 -extfile names
chmod 644 *
"#;
    let made = std::process::Command::new("sh").args(["-c", script]).current_dir(dir.path()).output().unwrap();
    assert!(made.status.success(), "openssl: {}", String::from_utf8_lossy(&made.stderr));
    dir
}
