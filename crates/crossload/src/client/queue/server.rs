//! Which server a queue is: ours, with `/v1` beside FTS's routes, or an FTS.

use remote::ServiceMethod;
use serde_json::Value;
use types::{Error, ErrorCode, Phase, Result, Side};

use super::service::Queue;

/// The server behind a queue's URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Server {
    /// Ours.
    Ours,
    /// An FTS.
    Fts,
}

impl Queue<'_> {
    /// Which server it is. The first call asks it, and the answer is kept.
    ///
    /// # Errors
    /// No answer, or a refusal of our credential.
    pub(super) async fn server(&self) -> Result<Server> {
        let path = "/v1/whoami";
        let asked = self.server.get_or_try_init(|| async {
            let answer = self.ask(ServiceMethod::Get, path).await?;
            // The errors of our API have a form of their own: an older queue of ours is one too.
            let told: Value = serde_json::from_str(answer.body.expose()).unwrap_or_default();
            match (answer.is_success(), answer.is_missing()) {
                (true, _) => Ok(Server::Ours),
                (false, true) if told["error"].is_object() => Ok(Server::Ours),
                (false, true) => Ok(Server::Fts),
                (false, false) => Err(self.refusal(path, &answer)),
            }
        });
        asked.await.copied()
    }

    /// Whether it is ours.
    ///
    /// # Errors
    /// As [`Self::server`].
    pub(super) async fn is_ours(&self) -> Result<bool> {
        Ok(self.server().await? == Server::Ours)
    }

    /// Demands that it is ours, for what an FTS does not have.
    ///
    /// # Errors
    /// `peer_unsupported` for an FTS, and as [`Self::server`].
    pub(super) async fn demand_ours(&self, what: &str) -> Result<()> {
        match self.server().await? {
            Server::Ours => Ok(()),
            Server::Fts => {
                let error = Error::new(ErrorCode::PeerUnsupported, Side::Queue, Phase::Open);
                Err(error.with_detail(format!("this queue has no {what}: it is an FTS")))
            }
        }
    }
}
