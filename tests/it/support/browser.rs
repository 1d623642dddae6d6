//! A real Chromium for one test: a profile and a driver of its own, both gone with it, also when the test fails.
//!
//! Waiting means asking again until the page says so or a deadline is over; nothing here waits for a fixed time.

use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::{Value, json};
use tempfile::TempDir;
use thirtyfour::prelude::*;
use thirtyfour::{ChromiumLikeCapabilities, LoggingPrefsLogLevel};
use tokio::time::Instant;

use super::app::{Buyer, short_dir};
use super::http::Http;

const INSTALL: &str = "Chromium and its driver are needed for this test: apt-get install chromium chromium-driver";
const PATIENCE: Duration = Duration::from_secs(20);

/// Whether pages may run scripts: the same test body runs both ways.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Script {
    On,
    Off,
}

/// A browser that looks at one shop.
pub struct Browser {
    driver: Option<WebDriver>,
    chromedriver: Child,
    driver_http: Http,
    base: String,
    script: Script,
    profile: TempDir,
}

impl Browser {
    /// Opens one in Chinese.
    pub async fn open(base: &str, script: Script) -> Self {
        Self::open_in(base, script, "zh-CN").await
    }

    /// Opens one whose reader prefers `lang`.
    pub async fn open_in(base: &str, script: Script, lang: &str) -> Self {
        // The driver's own choice of a port: nobody can take it between the choice and the bind.
        let mut chromedriver = Command::new("chromedriver")
            .args(["--port=0", "--log-level=WARNING"])
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect(INSTALL);
        let port = port_of(&mut chromedriver);
        let profile = short_dir();
        let mut caps = DesiredCapabilities::chrome();
        for flag in [
            "--headless=new",
            "--no-sandbox",
            "--disable-dev-shm-usage",
            "--disable-gpu",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--window-size=1280,900",
            // This machine under a name that a browser does not take for its own machine: what a LAN address is to it.
            "--host-resolver-rules=MAP *.lan 127.0.0.1",
        ] {
            caps.add_arg(flag).unwrap();
        }
        caps.add_arg(&format!("--lang={lang}")).unwrap();
        caps.add_arg(&format!("--user-data-dir={}", profile.path().display())).unwrap();
        // Certificates here are a test's own.
        caps.accept_insecure_certs(true).unwrap();
        let downloads = json!({ "default_directory": profile.path().join("taken"), "prompt_for_download": false });
        let mut prefs = json!({ "intl.accept_languages": lang, "download": downloads });
        if script == Script::Off {
            prefs["profile.managed_default_content_settings.javascript"] = json!(2);
        }
        caps.add_experimental_option("prefs", prefs).unwrap();
        caps.set_browser_log_level(LoggingPrefsLogLevel::All).unwrap();
        let address = format!("http://127.0.0.1:{port}");
        let driver = match WebDriver::new(&address, caps).await {
            Ok(driver) => driver,
            Err(error) => {
                end(&mut chromedriver);
                panic!("no browser: {error}. {INSTALL}");
            }
        };
        let driver_http = Http::new(&address);
        Self { driver: Some(driver), chromedriver, driver_http, base: base.to_owned(), script, profile }
    }

    /// The session with the driver.
    pub fn driver(&self) -> &WebDriver {
        self.driver.as_ref().expect("open until close()")
    }

    /// From now on looks at the shop at this address.
    pub fn turn_to(&mut self, base: &str) {
        base.clone_into(&mut self.base);
    }

    /// Goes to a page of the shop and waits until its script listens.
    pub async fn go(&self, path: &str) {
        self.driver().goto(format!("{}{path}", self.base)).await.unwrap();
        self.ready().await;
    }

    /// Waits until the script of the present page listens; without script a loaded page is all there is.
    pub async fn ready(&self) {
        if self.script == Script::On {
            self.find("html[data-ready='1']").await;
        }
    }

    /// The first element that fits, when it is there.
    pub async fn find(&self, css: &str) -> WebElement {
        self.wait(&format!("{css} is not there"), async || self.driver().find(By::Css(css)).await.ok()).await
    }

    /// Asks until there is an answer. Says `what` and shows the page when there is none in time.
    pub async fn wait<T>(&self, what: &str, ask: impl AsyncFn() -> Option<T>) -> T {
        let give_up = Instant::now() + PATIENCE;
        loop {
            if let Some(answer) = ask().await {
                return answer;
            }
            if Instant::now() > give_up {
                let (path, text) = (self.path().await, self.text("body").await);
                panic!("{what} on {path} after {PATIENCE:?}; the page reads:\n{text}");
            }
            tokio::time::sleep(Duration::from_millis(30)).await;
        }
    }

    /// What the reader sees of the first element that fits now; empty when there is none.
    pub async fn text(&self, css: &str) -> String {
        match self.driver().find(By::Css(css)).await {
            Ok(element) => element.text().await.unwrap_or_default(),
            Err(_) => String::new(),
        }
    }

    /// Waits until the element reads exactly so.
    pub async fn reads(&self, css: &str, text: &str) {
        self.wait(&format!("{css} does not read {text:?}"), async || (self.text(css).await == text).then_some(())).await;
    }

    /// Waits until the element contains the text.
    pub async fn says(&self, css: &str, text: &str) {
        self.wait(&format!("{css} does not say {text:?}"), async || self.text(css).await.contains(text).then_some(())).await;
    }

    /// Waits for an element and reads an attribute of it; empty when it has none.
    pub async fn attr(&self, css: &str, name: &str) -> String {
        self.find(css).await.attr(name).await.unwrap().unwrap_or_default()
    }

    /// Clicks an element as soon as it is there and can be clicked: a part of the page may be put in place anew meanwhile.
    pub async fn click(&self, css: &str) {
        let click = async || self.driver().find(By::Css(css)).await.ok()?.click().await.ok();
        self.wait(&format!("{css} cannot be clicked"), click).await;
    }

    /// Types into a field, in place of what stood there.
    pub async fn fill(&self, css: &str, text: &str) {
        let field = self.find(css).await;
        field.clear().await.unwrap();
        field.send_keys(text).await.unwrap();
    }

    /// The value of an expression in the page.
    pub async fn js(&self, expression: &str) -> Value {
        self.driver().execute(format!("return {expression}"), Vec::new()).await.unwrap().json().clone()
    }

    /// What a promise comes to, by an expression of the page.
    pub async fn promised(&self, expression: &str) -> Value {
        let script = format!("const done = arguments[arguments.length - 1]; ({expression}).then(done, e => done(String(e)));");
        self.driver().execute_async(script, Vec::new()).await.unwrap().json().clone()
    }

    /// Path and query of the present page.
    pub async fn path(&self) -> String {
        let url = self.driver().current_url().await.unwrap().to_string();
        url.strip_prefix(&self.base).map_or(url.clone(), str::to_owned)
    }

    /// The text of the one file that was downloaded, when it is there as a whole.
    pub async fn downloaded(&self) -> String {
        let file = || {
            let file = std::fs::read_dir(self.profile.path().join("taken")).ok()?.next()?.ok()?.path();
            let whole = file.extension().is_some_and(|kind| kind != "crdownload" && kind != "tmp");
            if whole { std::fs::read_to_string(file).ok() } else { None }
        };
        self.wait("no file comes", async || file()).await
    }

    /// Logs in through the form of the page.
    pub async fn log_in(&self, phone: &str, password: &str) {
        self.fill("#phone", phone).await;
        self.fill("#password", password).await;
        self.click("main form button").await;
        self.find("button[data-action='logout']").await;
        self.ready().await;
    }

    /// Takes over a session that exists.
    pub async fn become_user(&self, buyer: &Buyer) {
        let cookie = json!({ "name": "seckill_session", "value": buyer.token, "url": self.base, "httpOnly": true });
        assert_eq!(self.devtools("Network.setCookie", cookie).await["success"], true);
    }

    /// Runs `script` before any script of any page that comes.
    pub async fn before_each_page(&self, script: &str) {
        self.devtools("Page.addScriptToEvaluateOnNewDocument", json!({ "source": script })).await;
    }

    /// A command of the browser's own protocol, through the driver.
    pub async fn devtools(&self, command: &str, params: Value) -> Value {
        let path = format!("/session/{}/goog/cdp/execute", self.driver().session_id());
        let answer = self.driver_http.json(None, &path, &json!({ "cmd": command, "params": params })).await;
        assert_eq!(answer.status, 200, "{command}: {}", answer.text());
        answer.json()["value"].clone()
    }

    /// The size of the page, in CSS pixels; a window alone cannot be as narrow as a phone.
    pub async fn resize(&self, width: u32, height: u32) {
        let size = json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false });
        self.devtools("Emulation.setDeviceMetricsOverride", size).await;
    }

    /// From here on the browser lives in this time zone.
    pub async fn in_zone(&self, zone: &str) {
        self.devtools("Emulation.setTimezoneOverride", json!({ "timezoneId": zone })).await;
    }

    /// What the console said since the last call: errors, warnings and violations of the content policy.
    pub async fn complaints(&self) -> Vec<String> {
        let log = self.driver().browser_log().await.unwrap();
        let loud = log.into_iter().filter(|entry| ["SEVERE", "WARNING"].contains(&entry.level.as_str()));
        loud.map(|entry| entry.message).collect()
    }

    /// Fails when the console said anything.
    pub async fn quiet(&self) {
        let complaints = self.complaints().await;
        assert!(complaints.is_empty(), "the console says: {complaints:#?}");
    }

    /// Closes a browser whose console stayed quiet.
    pub async fn close(mut self) {
        self.quiet().await;
        self.driver.take().expect("open until close()").quit().await.unwrap();
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        end(&mut self.chromedriver);
        if let Some(driver) = self.driver.take() {
            let _closed_already = driver.leak();
        }
    }
}

/// Ends the driver and the browser that it started: both are of the driver's own process group. A driver alone would leave
/// its browser behind.
fn end(chromedriver: &mut Child) {
    let _ended_already = kill_process_group(Pid::from_child(chromedriver), Signal::KILL);
    let _reaped = chromedriver.wait();
}

/// The port that the driver took, from its own words.
fn port_of(chromedriver: &mut Child) -> u16 {
    use std::io::BufRead;
    let lines = std::io::BufReader::new(chromedriver.stdout.as_mut().expect("piped")).lines();
    for line in lines.map_while(Result::ok) {
        let port = line.split("on port ").nth(1).map(|rest| rest.trim_end_matches('.'));
        if let Some(port) = port.and_then(|p| p.parse().ok()).filter(|p| *p != 0) {
            return port;
        }
    }
    panic!("the driver names no port. {INSTALL}");
}
