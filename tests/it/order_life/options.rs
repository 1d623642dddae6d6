//! The options of payment, as an operator types them.

use crate::support::app::short_dir;
use crate::support::process::{Process, command, run};

#[tokio::test(flavor = "multi_thread")]
async fn a_weak_secret_and_a_sandbox_for_everybody_are_refused_in_one_sentence() {
    let dir = short_dir();
    let data = dir.path().join("d");
    let data = data.to_str().unwrap();
    let refused: [(&[&str], &str); 6] = [
        (&["--payment-secret", ""], "payment secret"),
        (&["--payment-secret", "whsec_c2hvcnQ="], "24 to 64 bytes"),
        (&["--payment-secret", "a secret that is long enough but has another form"], "whsec_"),
        (&["--payment-url", "https://pay.example"], "needs TLS"),
        (&["--payment-url", "pay.example"], "not a provider's address"),
        (&["--listen", "0.0.0.0:0"], "--sandbox-payments"),
    ];
    for (options, word) in refused {
        let mut arguments = vec!["serve", "--data-dir", data];
        if !options.contains(&"--listen") {
            arguments.extend(["--listen", "127.0.0.1:0"]);
        }
        arguments.extend(options);
        let (code, out, err) = run(&arguments, "").await;
        assert_eq!((code, out.as_str()), (2, ""), "{options:?}: {err}");
        assert!(err.contains(word) && err.trim_end().lines().count() == 1, "{options:?}: {err}");
        assert!(!err.contains("c2hvcnQ") && !err.contains("long enough"), "a secret is not printed: {err}");
    }
    assert!(!dir.path().join("d/seckill.db").exists(), "nothing was opened");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_sandbox_is_there_for_everybody_when_asked_for_and_gone_with_a_real_provider() {
    let dir = short_dir();
    let data = dir.path().to_str().unwrap();
    let mut open =
        Process::start(command(&["serve", "--listen", "0.0.0.0:0", "--sandbox-payments", "--data-dir", data]).await).await;
    let port = open.base.rsplit(':').next().unwrap().to_owned();
    let http = crate::support::http::Http::new(&format!("http://127.0.0.1:{port}"));
    assert_eq!(http.get("/sandbox-pay/books").await.status, 303, "for admins: the way to the login");
    let outside = http.json(None, "/sandbox-provider/refunds", &serde_json::json!({"transactionId": "t", "amount": 1})).await;
    assert_eq!(outside.status, 404, "only its shop may write into its books");
    assert_eq!(open.terminate().await, 0);
    let secrets = std::fs::read_to_string(dir.path().join("secrets")).unwrap();
    assert!(secrets.lines().any(|line| line.starts_with("payment whsec_")), "kept where an operator finds it");

    let mut real = Process::serve(dir.path(), &["--payment-url", "http://127.0.0.1:9"]).await;
    assert_eq!(real.http.get("/sandbox-pay/books").await.status, 303);
    assert_eq!(real.http.get("/sandbox-pay/pay_x").await.status, 404);
    assert_eq!(real.terminate().await, 0);
}

#[test]
fn faults_on_demand_are_in_no_binary_that_is_shipped() {
    let read = |name: &str| std::fs::read_to_string(std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(name)).unwrap();
    let manifest = read("Cargo.toml");
    assert!(manifest.lines().any(|line| line == "fault-injection = []"));
    assert!(!manifest.lines().any(|line| line.starts_with("default =")), "a feature that is on by default");
    let builds = read("Makefile");
    let shipped = builds.lines().filter(|line| line.contains("cargo run") || line.contains("cargo build"));
    assert!(shipped.clone().count() > 0 && shipped.into_iter().all(|line| !line.contains("features")));
}
