//! Stat of many names at once: further requests go out before the first answers come.

use crate::limits::ROOT_STATS_MAX;
use types::{ErrorCode, Phase, Result};
use xroot_wire::request::Stat;
use xroot_wire::response::StatText;
use xroot_wire::{Request, StreamId};

use super::ask::Client;
use super::namespace::entry_of;
use super::route::{Route, check_path};
use super::session::{Event, Reply, ServerSession};
use super::verdict::refused;
use crate::Entry;
use crate::resource::Resource;

impl Client {
    /// What many names of one server stand for, in their order. [`ROOT_STATS_MAX`] requests are
    /// under way at the same time on one connection.
    ///
    /// # Errors
    /// The server's first refusal; `bad_url` for names of several servers.
    pub(crate) async fn stat_many(&self, first: &Resource, files: &[Resource]) -> Result<Vec<Entry>> {
        if let Some(stranger) = files.iter().find(|file| !file.location.same_origin(&first.location)) {
            let error = stranger.error(ErrorCode::BadUrl, Phase::Open);
            return Err(error.with_detail("it is at another server than the first one"));
        }
        let route = Route::new(first);
        loop {
            let mut session = self.session(&route).await.map_err(|error| first.blame(error))?;
            match self.ask_all(&mut session, &route, files).await {
                // The server may just have closed the idle connection.
                Err(_) if session.is_reused && session.is_unanswered() => {}
                Err(error) => return Err(error),
                Ok(entries) => {
                    self.keep(&route, session);
                    return self.long_way(files, entries).await;
                }
            }
        }
    }

    /// Asks on one session. `None` for names that this server redirects or puts off.
    async fn ask_all(
        &self,
        session: &mut ServerSession,
        route: &Route,
        files: &[Resource],
    ) -> Result<Vec<Option<Entry>>> {
        let lost = |error: types::Error| route.at.blame(error);
        let mut entries = vec![None; files.len()];
        let mut asked: Vec<(StreamId, usize)> = Vec::new();
        let mut next = 0;
        while next < files.len() || !asked.is_empty() {
            // By half a window at a time, so that one call sends many questions.
            if asked.len() <= ROOT_STATS_MAX / 2 && next < files.len() {
                while asked.len() < ROOT_STATS_MAX && next < files.len() {
                    asked.push((queue(session, route, &files[next])?, next));
                    next += 1;
                }
                session.frames.stream.flush().await.map_err(lost)?;
            }
            let event = session.event().await.map_err(lost)?;
            let at = asked.iter().position(|(id, _)| *id == event.id());
            let (id, which) = asked.swap_remove(at.ok_or_else(|| session.misbehaved("an answer came twice"))?);
            entries[which] = entry(session, id, event, &files[which]).await?;
        }
        Ok(entries)
    }

    /// Looks up alone each name that the first server did not answer for.
    async fn long_way(&self, files: &[Resource], entries: Vec<Option<Entry>>) -> Result<Vec<Entry>> {
        let mut all = Vec::with_capacity(entries.len());
        for (file, entry) in files.iter().zip(entries) {
            all.push(match entry {
                Some(entry) => entry,
                None => self.stat(file).await?,
            });
        }
        Ok(all)
    }
}

/// What an answer says; `None` for a redirection or a wait.
async fn entry(session: &mut ServerSession, id: StreamId, event: Event, file: &Resource) -> Result<Option<Entry>> {
    let body = match event {
        Event::Body { length, last, .. } => session.gather(id, length, last).await,
        Event::Reply(_, Reply::Done(body)) => Ok(body),
        Event::Reply(_, Reply::Refused(refusal)) => return Err(refused(file, &refusal, session.is_encrypted())),
        _ => return Ok(None),
    };
    let stat = body.and_then(|body| StatText::parse(&body));
    let stat = stat.map_err(|error| file.blame(error))?;
    Ok(Some(entry_of(file.location.path(), &stat)))
}

fn queue(session: &mut ServerSession, route: &Route, file: &Resource) -> Result<StreamId> {
    let path = file.location.path();
    check_path(path).map_err(|error| file.blame(error))?;
    let target = route.with_token(path, session.is_encrypted());
    Ok(session.queue(&Request::Stat(Stat::path(target.expose().as_bytes()))))
}
