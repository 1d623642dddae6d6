//! What a socket in the control room hears: twice a second the parts of its page that read differently by now, drawn by the
//! same templates as the page itself.

use std::collections::HashMap;
use std::time::Duration;

use serde_json::json;
use sha2::{Digest, Sha256};

use crate::domain::ids::VoucherId;
use crate::domain::time::Millis;
use crate::web::error::Problem;
use crate::web::extract::is_admin_now;
use crate::web::page::{Chrome, Part, Said};
use crate::web::room::{Look, control_room, voucher_page};
use crate::web::session::SessionUser;
use crate::web::state::AppState;

/// Between two looks.
pub const EVERY: Duration = Duration::from_millis(500);
/// How long one may take before this second is left out.
const WITHIN: Duration = Duration::from_secs(3);
/// How long a reader is believed to be an admin still. His requests are asked about each time; a socket that is open asks nothing.
const ROLE_LASTS: Duration = Duration::from_secs(30);

/// One reader of the control room.
#[derive(Debug)]
pub struct DeskFeed {
    chrome: Chrome,
    /// The one voucher whose page it is; none: the whole room.
    of: Option<VoucherId>,
    /// When it was last seen that the reader is an admin.
    admin_at: Millis,
    /// What each part read when it was told last.
    told: HashMap<String, [u8; 32]>,
}

impl DeskFeed {
    /// A reader of the page that `chrome` stands around.
    #[must_use]
    pub fn new(chrome: Chrome, of: Option<VoucherId>, now: Millis) -> Self {
        Self { chrome, of, admin_at: now, told: HashMap::new() }
    }

    /// Whether its reader is an admin still, as far as can be told: nobody is thrown out because the database is away.
    pub async fn may_go_on(&mut self, state: &AppState, reader: &SessionUser) -> bool {
        let now = state.clock.now();
        if now < self.admin_at + ROLE_LASTS {
            return true;
        }
        match tokio::time::timeout(WITHIN, is_admin_now(state, reader)).await {
            Ok(Ok(false)) => return false,
            Ok(Ok(true)) => self.admin_at = now,
            Ok(Err(_)) | Err(_) => {}
        }
        true
    }

    async fn parts(&self, state: &AppState) -> Result<Vec<Part>, Problem> {
        let chrome = Chrome { now: state.clock.now(), ..self.chrome.clone() };
        match self.of {
            None => Ok(control_room(state, chrome, Said::default(), Look::Watched).await?.parts()),
            Some(id) => Ok(voucher_page(state, chrome, id, Said::default(), Look::Watched).await?.0.parts()),
        }
    }

    /// The message with what changed; none when nothing did, or when it cannot be looked at just now.
    pub async fn news(&mut self, state: &AppState) -> Option<String> {
        let parts = match tokio::time::timeout(WITHIN, self.parts(state)).await {
            Ok(Ok(parts)) => parts,
            Ok(Err(problem)) => {
                tracing::debug!(?problem, "no news for the control room");
                return None;
            }
            Err(_) => return None,
        };
        let names: Vec<&str> = parts.iter().map(|(name, _)| name.as_str()).collect();
        let changed: serde_json::Map<_, _> = parts
            .iter()
            .filter_map(|(name, html)| {
                let digest = Sha256::digest(html.as_bytes()).into();
                (self.told.insert(name.clone(), digest) != Some(digest)).then(|| (name.clone(), html.clone().into()))
            })
            .collect();
        if changed.is_empty() {
            return None;
        }
        Some(json!({ "type": "desk", "serverTime": state.clock.now(), "parts": changed, "all": names }).to_string())
    }
}
