//! Opening the shop's live channel as a program does: with the token in the `authorization` header.

use std::time::Duration;

use http::HeaderValue;
use tokio::time::timeout;
use tokio_tungstenite::connect_async;
use tokio_tungstenite::tungstenite::Error;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;

use super::CannotRun;
use super::push::Socket;
use super::target::Target;

const HANDSHAKE_LIMIT: Duration = Duration::from_secs(10);

/// Opens `/ws` for the owner of `token`, within 10 s.
pub async fn open(target: &Target, token: &str) -> Result<Socket, CannotRun> {
    let url = target.socket_url();
    let cannot = |why: String| CannotRun(format!("{url} cannot be opened: {why}"));
    let mut request = url.as_str().into_client_request().map_err(|e| cannot(e.to_string()))?;
    let mut header = HeaderValue::from_str(token).map_err(|_| cannot("the token is not a header value".to_owned()))?;
    header.set_sensitive(true);
    request.headers_mut().insert(http::header::AUTHORIZATION, header);
    match timeout(HANDSHAKE_LIMIT, connect_async(request)).await {
        Ok(Ok((socket, _))) => Ok(socket),
        Ok(Err(Error::Http(answer))) => Err(cannot(format!("HTTP {}", answer.status()))),
        Ok(Err(error)) => Err(cannot(error.to_string())),
        Err(_) => Err(cannot("no answer in time".to_owned())),
    }
}
