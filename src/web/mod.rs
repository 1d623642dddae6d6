//! The front door over HTTP: pages, API, socket.
//!
//! Rules live in `domain`, stories in `service`; here a request becomes a call and its answer a page or JSON.

pub mod assets;
pub mod captcha;
pub mod client_address;
pub mod csrf;
pub mod desk_feed;
pub mod error;
pub mod extract;
pub mod fields;
pub mod finish;
pub mod handlers;
pub mod health;
pub mod hot;
pub mod identify;
pub mod limits;
pub mod listener;
pub mod observe;
pub mod openapi;
pub mod own_path;
pub mod page;
pub mod queue_watch;
pub mod reply;
pub mod request_id;
pub mod room;
pub mod routes;
pub mod sale_watch;
pub mod scheme;
pub mod session;
pub mod session_watch;
pub mod socket;
pub mod state;
pub mod waiting;
