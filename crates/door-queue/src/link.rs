//! The settings of a link. It is known by its storages; its name is for operators.

use std::collections::BTreeMap;

use catalog::{Audit, LinkSettings};

use crate::fts::FtsError;
use crate::queue::Refusable;
use crate::respond::Failed;
use crate::settings::Settings;

/// Takes the settings of a link out of all, or makes new ones. Earlier releases could store several
/// for one link: they become one, which is paused if one of them was.
pub(crate) fn take(links: &mut BTreeMap<String, LinkSettings>, source: &str, destination: &str) -> LinkSettings {
    let is_it = |link: &LinkSettings| link.source == source && link.destination == destination;
    let found = links.iter().filter(|(_, link)| is_it(link));
    let names: Vec<String> = found.map(|(name, _)| name.clone()).collect();
    let mut found = names.iter().filter_map(|name| links.remove(name));
    let Some(mut own) = found.next() else {
        return LinkSettings {
            name: free_name(links, format!("{source}-{destination}")),
            source: source.to_owned(),
            destination: destination.to_owned(),
            ..LinkSettings::default()
        };
    };
    for other in found {
        own.is_paused |= other.is_paused;
        own.no_delegation |= other.no_delegation;
        own.min_active = own.min_active.or(other.min_active);
        own.max_active = own.max_active.or(other.max_active);
        own.optimizer_mode = own.optimizer_mode.or(other.optimizer_mode);
        own.streams = own.streams.or(other.streams);
        own.tcp_buffer_size = own.tcp_buffer_size.or(other.tcp_buffer_size);
        for (vo, share) in other.shares {
            own.shares.entry(vo).or_insert(share);
        }
    }
    own
}

/// The name, with a number behind it if another link has it.
fn free_name(links: &BTreeMap<String, LinkSettings>, name: String) -> String {
    let numbered = (2..).map(|number| format!("{name} {number}"));
    let mut names = std::iter::once(name.clone()).chain(numbered);
    names.find(|name| !links.contains_key(name)).unwrap_or(name)
}

/// Puts back what [`take`] has given, unless it says nothing.
///
/// # Errors
/// 409 if another link has the name, and 400 if the least number of copies is above the most.
pub(crate) fn put(links: &mut BTreeMap<String, LinkSettings>, own: LinkSettings) -> Refusable<()> {
    if own
        .min_active
        .zip(own.max_active)
        .is_some_and(|(least, most)| least > most)
    {
        return Err(FtsError::bad("max_active is lower than min_active"));
    }
    if links.contains_key(&own.name) {
        return Err(FtsError::new(409, format!("another link is called {}", own.name)));
    }
    if !is_empty(&own) {
        links.insert(own.name.clone(), own);
    }
    Ok(())
}

fn is_empty(own: &LinkSettings) -> bool {
    let empty = LinkSettings {
        name: own.name.clone(),
        source: own.source.clone(),
        destination: own.destination.clone(),
        ..LinkSettings::default()
    };
    *own == empty
}

/// Changes the settings of a link, and returns them.
///
/// # Errors
/// Those of `change`, of [`put`] and of the queue.
pub(crate) async fn change(
    settings: &Settings,
    source: &str,
    destination: &str,
    change: impl Fn(&mut LinkSettings) -> Refusable<Vec<Audit>> + Send + Sync + 'static,
) -> Result<LinkSettings, Failed> {
    let ends = [source.to_owned(), destination.to_owned()];
    let changed = settings.queue.change_links(Box::new(move |links| {
        let mut own = take(links, &ends[0], &ends[1]);
        let entries = change(&mut own)?;
        put(links, own)?;
        Ok(entries)
    }));
    let mut links = changed.await??;
    Ok(take(&mut links, source, destination))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_records_of_a_link_become_one_that_is_paused() {
        let record = |name: &str, max_active, is_paused| LinkSettings {
            name: name.to_owned(),
            source: "a".to_owned(),
            destination: "b".to_owned(),
            max_active,
            is_paused,
            ..LinkSettings::default()
        };
        let mut links: BTreeMap<_, _> = [record("a-b", None, true), record("x", Some(5), false)]
            .map(|link| (link.name.clone(), link))
            .into();
        let own = take(&mut links, "a", "b");
        assert_eq!((own.max_active, own.is_paused, links.len()), (Some(5), true, 0));
        links.insert("a-b".to_owned(), LinkSettings::default());
        assert_eq!(take(&mut links, "a", "b").name, "a-b 2", "the name is another link's");
        assert_eq!(put(&mut links, record("a-b", Some(1), false)).unwrap_err().status, 409);
    }
}
