//! The settings of a link, for the routes that change a part of them.

use catalog::LinkSettings;
use types::Result;

use crate::settings::Settings;

/// The settings of the link between two storages: those that are stored, or new ones.
///
/// # Errors
/// Those of the queue.
pub(crate) async fn settings(settings: &Settings, source: &str, destination: &str) -> Result<LinkSettings> {
    let all = settings.queue.link_settings().await?;
    let found = all
        .into_iter()
        .find(|link| link.source == source && link.destination == destination);
    Ok(found.unwrap_or_else(|| LinkSettings {
        name: format!("{source}-{destination}"),
        source: source.to_owned(),
        destination: destination.to_owned(),
        ..LinkSettings::default()
    }))
}

/// Stores the settings of a link, or removes those that say nothing.
///
/// # Errors
/// Those of the queue.
pub(crate) async fn put(settings: &Settings, own: LinkSettings) -> Result<()> {
    let empty = LinkSettings {
        name: own.name.clone(),
        source: own.source.clone(),
        destination: own.destination.clone(),
        ..LinkSettings::default()
    };
    if own == empty {
        settings.queue.remove_link_settings(own.name).await?;
        return Ok(());
    }
    settings.queue.put_link_settings(own).await
}
