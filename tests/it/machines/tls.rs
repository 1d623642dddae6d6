//! TLS towards Redis and Postgres: the certificate is checked, and a wrong one is refused in one sentence.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use tokio::process::Command;

use crate::support::app::short_dir;
use crate::support::certificates::certificates;
use crate::support::postgres::cluster_with_tls;
use crate::support::process::BINARY;
use crate::support::servers::{Servers, ports};
use crate::support::until;

/// Runs a verb with these roots for TLS: exit code and what it complained about.
async fn run(arguments: &[&str], roots: &Path) -> (i32, String) {
    let mut command = Command::new(BINARY);
    command.args(arguments).env("SSL_CERT_FILE", roots).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let output = tokio::time::timeout(Duration::from_mins(1), command.kill_on_drop(true).output()).await.unwrap().unwrap();
    (output.status.code().unwrap_or(-1), String::from_utf8(output.stderr).unwrap())
}

#[tokio::test]
async fn redis_over_tls_is_used_when_its_certificate_is_good_and_refused_when_it_is_not() {
    let made = certificates();
    let at = |name: &str| made.path().join(name).display().to_string();
    let server = Servers::with(|port| {
        format!(
            "--port 0 --tls-port {port} --bind 127.0.0.1 --tls-cert-file {} --tls-key-file {} --tls-ca-cert-file {} \
             --tls-auth-clients no",
            at("server.pem"),
            at("server.key"),
            at("ca.pem")
        )
    });
    let port = server.all[0].port;
    until("it listens", Duration::from_secs(10), async || tokio::net::TcpStream::connect(("127.0.0.1", port)).await.is_ok())
        .await;
    let dir = short_dir();
    let (data, tokens) = (dir.path().join("d").display().to_string(), dir.path().join("tokens").display().to_string());
    let url = format!("rediss://127.0.0.1:{port}");
    let seed = ["user", "seed", "--count", "3", "--tokens", &tokens, "--data-dir", &data, "--redis-url", &url];
    let (code, said) = run(&seed, &made.path().join("other.pem")).await;
    assert!(code == 1 && said.contains("its certificate is not one that this machine trusts"), "{code} {said}");
    let (code, said) = run(&seed, &made.path().join("ca.pem")).await;
    assert_eq!(code, 0, "{said}");
    assert_eq!(std::fs::read_to_string(&tokens).unwrap().lines().count(), 3);
    drop(server);
}

#[tokio::test]
async fn postgres_over_tls_is_used_when_its_certificate_is_good_and_refused_when_it_is_not() {
    let made = certificates();
    let port = ports(1)[0];
    let _cluster = cluster_with_tls(made.path(), port);
    let dir = short_dir();
    let data = dir.path().join("d").display().to_string();
    let url = |roots: &str| {
        format!(
            "postgres://seckill@127.0.0.1:{port}/postgres?sslmode=verify-full&sslrootcert={}",
            made.path().join(roots).display()
        )
    };
    let (code, said) =
        run(&["migrate", "--data-dir", &data, "--database-url", &url("other.pem")], &made.path().join("ca.pem")).await;
    assert!(code == 1 && said.contains("cannot open the database"), "{code} {said}");
    let (code, said) =
        run(&["migrate", "--data-dir", &data, "--database-url", &url("ca.pem")], &made.path().join("other.pem")).await;
    assert_eq!(code, 0, "{said}");
}
