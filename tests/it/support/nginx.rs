//! A real nginx in front of instances of the shop: `deploy/nginx.conf` itself, with this test's addresses written into it.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;

use super::until;

/// The server; ended when dropped.
pub struct Nginx {
    /// Where it listens, as a base address.
    pub base: String,
    dir: TempDir,
    child: Child,
}

fn deploy() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy")
}

/// Replaces what must be there exactly once.
fn put(text: &str, old: &str, new: &str) -> String {
    assert_eq!(text.matches(old).count(), 1, "deploy/nginx.conf has '{old}' once");
    text.replace(old, new)
}

impl Nginx {
    /// Starts it in front of two instances, by their base addresses.
    pub async fn before(instances: [&str; 2]) -> Self {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        Self::start(instances, port, None).await
    }

    /// Starts it on this port, with TLS, in front of one instance; `server.pem` and `server.key` are in `certificates`.
    pub async fn with_tls(instance: &str, port: u16, certificates: &Path) -> Self {
        Self::start([instance, instance], port, Some(certificates)).await
    }

    async fn start(instances: [&str; 2], port: u16, certificates: Option<&Path>) -> Self {
        let dir = tempfile::Builder::new().prefix("sk-nginx-").tempdir_in("/tmp").unwrap();
        let place = |base: &str| base.strip_prefix("http://").unwrap().to_owned();
        let text = std::fs::read_to_string(deploy().join("nginx.conf")).unwrap();
        let text = put(&text, "127.0.0.1:8081", &place(instances[0]));
        let text = put(&text, "127.0.0.1:8082", &place(instances[1]));
        let listen = match certificates.map(Path::display) {
            None => format!("listen 127.0.0.1:{port};"),
            Some(at) => {
                format!("listen 127.0.0.1:{port} ssl; ssl_certificate {at}/server.pem; ssl_certificate_key {at}/server.key;")
            }
        };
        let text = put(&text, "listen 80;", &listen);
        let text = put(&text, "/var/log/nginx/seckill.log", "access.log");
        let text = put(&text, "/etc/nginx/seckill", deploy().to_str().unwrap());
        let text = put(&text, "worker_rlimit_nofile 65536;", "worker_rlimit_nofile 4096;");
        let text = put(&text, "worker_connections 16384;", "worker_connections 2048;");
        let temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"].map(|kind| format!("{kind}_temp_path t/{kind};"));
        let text = put(&text, "http {", &format!("http {{\n{}", temporary.join("\n")));
        std::fs::create_dir(dir.path().join("t")).unwrap();
        std::fs::write(dir.path().join("nginx.conf"), text).unwrap();
        let root = rustix::process::geteuid().is_root();
        let globals = format!("daemon off; pid nginx.pid; {}", if root { "user root;" } else { "" });
        let prefix = format!("{}/", dir.path().display());
        // Debian keeps it where no ordinary user looks.
        let program = Path::new("/usr/sbin/nginx");
        let child = Command::new(if program.exists() { program } else { Path::new("nginx") })
            .args(["-p", &prefix, "-c", "nginx.conf", "-e", "error.log", "-g", &globals])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("nginx is needed for this test: apt-get install nginx");
        let scheme = if certificates.is_some() { "https" } else { "http" };
        let server = Self { base: format!("{scheme}://127.0.0.1:{port}"), dir, child };
        until("nginx listens", Duration::from_secs(10), async || {
            let up = tokio::net::TcpStream::connect(("127.0.0.1", port)).await.is_ok();
            assert!(up || server.dir.path().join("nginx.pid").exists() || server.errors().is_empty(), "{}", server.errors());
            up
        })
        .await;
        server
    }

    /// What it complained about.
    pub fn errors(&self) -> String {
        std::fs::read_to_string(self.dir.path().join("error.log")).unwrap_or_default()
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        // Asked, not killed: its workers end with it.
        let pid = rustix::process::Pid::from_child(&self.child);
        let _gone_already = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        let _reaped = self.child.wait();
    }
}
