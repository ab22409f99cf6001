//! Symbolic links that are followed, within their tree.

use std::path::Path;

use storage::local::{Unfit, look};
use types::{LogicalPath, Phase, Side};

use super::Walk;
use super::enter::Entry;
use super::waiting::Directory;
use crate::client::place::Place;
use crate::client::session::Info;

impl Walk<'_> {
    /// What a link leads to. The path is resolved here, and no link in it is followed later: one
    /// that is replaced meanwhile is refused.
    ///
    /// # Errors
    /// Why it is left out: it leads nowhere, out of the tree, to a directory above it, or to
    /// something that cannot be copied.
    pub(super) async fn follow(&self, directory: &Directory, name: &str, is_new: bool) -> Result<Entry, Unfit> {
        let (Place::Local(path), Place::Local(top)) = (&directory.source, directory.top.as_ref()) else {
            return Err(Unfit::Link);
        };
        let link = path.join(name).map_err(|_| Unfit::Name)?;
        let (top, name) = (top.clone(), name.to_owned());
        let resolved = execution::blocking_try(Side::Source, Phase::Open, move || Ok(resolve(&link, &top))).await;
        let (real, info) = resolved.map_err(|_| Unfit::DeadLink)??;
        if info.is_directory && directory.is_within(&real) {
            return Err(Unfit::Loop);
        }
        Ok(Entry {
            info: Info { name, ..info },
            real: Some(real.to_string()),
            is_link: false,
            is_new,
        })
    }
}

fn resolve(link: &LogicalPath, top: &LogicalPath) -> Result<(LogicalPath, Info), Unfit> {
    let real = Path::new(link.as_str()).canonicalize().map_err(|_| Unfit::DeadLink)?;
    if !real.starts_with(top.as_str()) {
        return Err(Unfit::LinkOut);
    }
    let real = real.to_str().and_then(|real| LogicalPath::parse(real).ok());
    let real = real.ok_or(Unfit::Name)?;
    let found = Info::from(look(&real).map_err(|_| Unfit::DeadLink)?);
    match found.unfit {
        Some(why) => Err(why),
        None => Ok((real, found)),
    }
}
