//! The front door over HTTP: pages, API, socket.
//!
//! Rules live in `domain`, stories in `service`; here a request becomes a call and its answer a page or JSON.

pub mod assets;
pub mod page;
