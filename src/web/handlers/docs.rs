//! `/docs`: the API, for whoever writes a program.

use crate::web::extract::Frame;
use crate::web::page::DocsPage;

/// `GET /docs`
pub async fn page(Frame(chrome): Frame) -> DocsPage {
    DocsPage::new(chrome)
}
