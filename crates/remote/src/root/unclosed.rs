//! Removing a file that is not closed, because its upload is given up.
//!
//! XRootD keeps such a file for ten minutes after its session (`ofs.persist`), lets no other user
//! read it meanwhile, and then removes whatever has its name: also a whole file that was stored
//! after a mere removal (seen with 6.2.1). So it is removed while it is open, and then
//! closed: nothing of it can appear, and the server forgets it.

use types::{ErrorCode, Phase, Result};
use xroot_wire::request::{Close, Remove, Stat};
use xroot_wire::response::{OpenReply, StatText};
use xroot_wire::{Argument, FileHandle, OpenOptions, Request, StatFlags};

use super::ask::{Ask, Client, Encode};
use super::download::open_request;
use super::namespace::identity_of;
use super::outlet::FILE_MODE;
use super::route::Route;
use super::session::{Reply, ServerSession};
use super::verdict::refused;
use crate::resource::{FileIdentity, Resource};

impl Client {
    /// Removes a file, also one that was not closed.
    ///
    /// # Errors
    /// As [`Client::delete`].
    pub(crate) async fn delete_unclosed(&self, file: &Resource) -> Result<()> {
        let (stat, route) = self.look(file).await?;
        match identity_of(&stat, &route.at.location) {
            Some(found) if stat.flags.contains(StatFlags::PERSIST_PENDING) => {
                // The session that wrote it may still have it open, and end before it removes it.
                let Ok((mut session, route, handle)) = self.open_again(file).await else {
                    return self.delete(file).await;
                };
                remove_open(&mut session, &route, handle, &found).await?;
                self.keep(&route, session);
                Ok(())
            }
            _ => self.delete(file).await,
        }
    }

    /// Opens a file that a broken session has left.
    async fn open_again(&self, file: &Resource) -> Result<(ServerSession, Route, FileHandle)> {
        let encode: Encode<'_> = &|target, id, out| {
            let options = OpenOptions::UPDATE | OpenOptions::PERSIST_ON_CLOSE;
            open_request(FILE_MODE, options, target.path).encode(id, out);
        };
        let answered = self.ask(file, &Ask::once(encode)).await?;
        let opened = OpenReply::parse(&answered.body).map_err(|error| answered.route.at.blame(error))?;
        Ok((answered.session, answered.route, opened.handle))
    }
}

/// Removes the file that is open, if the name is still its own, and closes it. Each request waits
/// for the answer to the one before.
pub(super) async fn remove_open(
    session: &mut ServerSession,
    route: &Route,
    handle: FileHandle,
    created: &FileIdentity,
) -> Result<()> {
    let target = route.target(&[], session.is_encrypted())?;
    let path = target.expose().as_bytes();
    let stat = done(session, route, &Request::Stat(Stat::path(path))).await?;
    let stat = StatText::parse(&stat).map_err(|error| route.at.blame(error))?;
    let found = identity_of(&stat, &route.at.location);
    if !found.is_some_and(|found| found.is_unclosed && created.is_same(&found) == Some(true)) {
        return Err(route.at.error(ErrorCode::SourceChanged, Phase::Cleanup));
    }
    let path = Argument::new(path);
    done(session, route, &Request::Remove(Remove { path })).await?;
    done(session, route, &Request::Close(Close { handle })).await.map(drop)
}

async fn done(session: &mut ServerSession, route: &Route, request: &Request<'_>) -> Result<Vec<u8>> {
    let id = session.send(request).await?;
    match session.answer(id).await? {
        Reply::Done(body) => Ok(body),
        Reply::Refused(refusal) => Err(refused(&route.at, &refusal, session.is_encrypted())),
        _ => Err(session.misbehaved("this is no answer about an open file")),
    }
}
