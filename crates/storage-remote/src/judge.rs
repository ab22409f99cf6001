//! Redirects of a forwarding proxy: the client has the rights there that it would have if it had
//! named that place itself.

use std::sync::Arc;

use credentials::{Activities, Activity};
use remote::JudgeRedirect;
use storage::{LinkChecker, LinkUse};
use types::{Error, ForwardedPath, Location, LogicalPath, Phase, Result, Side};

/// Why a redirect is not followed.
const REFUSED: &str = "the server redirects to a path where the client may not do this";

/// Asks for the rights of one client, for one request.
#[derive(Debug)]
pub(crate) struct Judge {
    rights: Arc<dyn LinkChecker>,
    used: LinkUse<'static>,
}

impl Judge {
    /// For a request that needs these rights. Changes follow no redirect.
    pub(crate) fn of(rights: Option<&Arc<dyn LinkChecker>>, needed: Activities) -> Option<Arc<dyn JudgeRedirect>> {
        let used = match () {
            () if needed.contains(Activities::of(&[Activity::Download])) => LinkUse::Read,
            () if needed.contains(Activities::of(&[Activity::List])) => LinkUse::List,
            () => LinkUse::Stat,
        };
        let rights = rights?.clone();
        Some(Arc::new(Self { rights, used }))
    }
}

impl JudgeRedirect for Judge {
    fn check(&self, to: &Location) -> Result<()> {
        let inner = match to.is_http() {
            true => LogicalPath::parse_url_path(to.path()),
            false => LogicalPath::parse(to.path()),
        };
        let there = ForwardedPath {
            server: to.clone(),
            inner: inner?,
        };
        let judged = self.rights.check(&there.canonical(), self.used);
        judged.map_err(|error| {
            let refused = Error::new(error.code(), Side::Client, Phase::Authorize);
            let words = format!("{REFUSED}: {}", to.authority());
            refused
                .with_detail(words)
                .with_private(error.private().unwrap_or_default())
        })
    }
}

/// Whether the rights of the client have refused a redirect, and no server.
pub(crate) fn is_judged(error: &Error) -> bool {
    error.detail().is_some_and(|detail| detail.starts_with(REFUSED))
}
