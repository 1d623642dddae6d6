//! A real browser: chromedriver on a free port, Chromium without a window, a new profile for every session.

use std::process::Stdio;
use std::time::Duration;

use thirtyfour::prelude::*;
use thirtyfour::{Cookie, WebElement};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

/// How long a page may take to become what a test waits for.
const PATIENCE: Duration = Duration::from_secs(20);

/// An open browser with a visitor in it.
pub struct Browser {
    pub driver: WebDriver,
    base: String,
    _chromedriver: Child,
}

impl Browser {
    /// Opens a browser that speaks Chinese, on the shop at `base`; logged in when a session's token is given.
    pub async fn open(base: &str, token: Option<&str>) -> Self {
        let mut child = Command::new("chromedriver")
            .args(["--port=0"])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .expect("chromedriver is installed by scripts/install-test.sh");
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let port = async {
            loop {
                let line = lines.next_line().await.unwrap().expect("chromedriver ended");
                if let Some((_, port)) = line.split_once("successfully on port ") {
                    return port.trim_end_matches('.').to_owned();
                }
            }
        };
        let port = tokio::time::timeout(PATIENCE, port).await.expect("chromedriver says its port");
        let mut wanted = DesiredCapabilities::chrome();
        for option in ["--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--lang=zh-CN", "--window-size=1000,1000"] {
            wanted.add_arg(option).unwrap();
        }
        let driver = WebDriver::new(format!("http://127.0.0.1:{port}"), wanted).await.unwrap();
        let browser = Self { driver, base: base.to_owned(), _chromedriver: child };
        if let Some(token) = token {
            browser.goto("/healthz").await;
            let mut cookie = Cookie::new("seckill_session", token);
            cookie.set_path("/");
            browser.driver.add_cookie(cookie).await.unwrap();
        }
        browser
    }

    /// Opens a page of the shop.
    pub async fn goto(&self, path: &str) {
        self.driver.goto(format!("{}{path}", self.base)).await.unwrap();
    }

    /// Waits until the page has such an element, and answers the first.
    pub async fn wait_for(&self, css: &str) -> WebElement {
        let found = self.driver.query(By::Css(css)).wait(PATIENCE, Duration::from_millis(50)).first().await;
        if let Ok(element) = found {
            return element;
        }
        let (url, source) = (self.driver.current_url().await.unwrap(), self.driver.source().await.unwrap());
        panic!("no {css} on {url}:\n{source}");
    }

    /// Waits until the page's script listens: what comes now is pushed.
    pub async fn ready(&self) {
        self.wait_for("html[data-ready='1']").await;
    }

    /// Clicks the first such element, once it is there and may be clicked.
    pub async fn click(&self, css: &str) {
        let give_up = tokio::time::Instant::now() + PATIENCE;
        loop {
            // The page may be made anew between the look and the click.
            let clicked = self.wait_for(css).await.click().await;
            match clicked {
                Ok(()) => return,
                Err(error) => assert!(tokio::time::Instant::now() < give_up, "{css}: {error}"),
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// Closes the browser.
    pub async fn close(self) {
        self.driver.quit().await.unwrap();
    }
}
