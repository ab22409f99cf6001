//! What endpoints say they run. Only the XRootD protocol has such a question.

use futures_util::StreamExt as _;
use futures_util::stream;
use remote::Resource;
use types::Side;

use super::Mesh;
use super::endpoint::Protocol;
use super::step::timed;

impl Mesh<'_> {
    /// Asks the endpoints that are tried, if they speak that protocol.
    pub(super) async fn ask_software(&self) {
        let mut tried: Vec<usize> = self.seats().map(|seat| seat.endpoint).collect();
        tried.sort_unstable();
        tried.dedup();
        let asking = stream::iter(tried).for_each_concurrent(self.parallel(), |endpoint| async move {
            if let Some(words) = self.software_of(endpoint).await {
                self.software().insert(endpoint, words);
            }
        });
        asking.await;
    }

    async fn software_of(&self, endpoint: usize) -> Option<String> {
        let endpoint = &self.endpoints[endpoint];
        let place = &endpoint.places[endpoint.place(Protocol::Root)?];
        let server = Resource {
            location: place.location.clone(),
            access: place.credentials.first()?.access.clone(),
            side: Side::Destination,
        };
        let asking = self.client.configuration(&server, &["version"]);
        let limit = self.settings.request_timeout;
        let told = timed(limit, server.side, &server.location, asking).await.result.ok()?;
        named(told.into_iter().next()??.trim())
    }
}

/// The name and version. XRootD tells its version only, such as `v5.5.3`.
pub(crate) fn named(version: &str) -> Option<String> {
    let is_bare = |text: &str| text.starts_with(|first: char| first.is_ascii_digit());
    match version {
        "" => None,
        bare if is_bare(bare.trim_start_matches('v')) => Some(format!("XRootD {bare}")),
        named => Some(named.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::named;

    #[test]
    fn a_version_alone_is_that_of_xrootd() {
        assert_eq!(named("v5.5.3").as_deref(), Some("XRootD v5.5.3"));
        assert_eq!(named("crossload/0.1.0").as_deref(), Some("crossload/0.1.0"));
        assert_eq!(named("dCache 9.2.0").as_deref(), Some("dCache 9.2.0"));
        assert_eq!(named(""), None);
    }
}
