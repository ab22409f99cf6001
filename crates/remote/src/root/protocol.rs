//! The XRootD protocol as one of the protocols of a client.

use types::{Location, Result};

use super::ask::Client;
use super::login::offer;
use super::route::check_path;
use crate::attributes::{Attribute, AttributeCall};
use crate::options::{CopyAbilities, LoginOffer};
use crate::protocol::{Abilities, Pending, Protocol, common_requests};
use crate::resource::{Resource, Validator};
use crate::tape::{TapeAnswer, TapeCall};
use crate::{Entry, Space};

impl Protocol for Client {
    common_requests!();

    fn schemes(&self) -> &'static [&'static str] {
        &["root", "roots"]
    }

    fn speaks(&self, location: &Location) -> bool {
        location.is_xrootd()
    }

    fn abilities(&self, location: &Location) -> Abilities {
        let is_encrypted = location.is_encrypted();
        Abilities {
            is_encrypted,
            opens_once: true,
            // Pages with checksums cost a pass over the data; TLS protects the data anyway.
            prefers_checksum_first: !is_encrypted,
            leaves_remains: true,
            pulls: true,
            opens_passive: true,
            pulls_with_proxy: true,
            prepares: true,
            ..Abilities::default()
        }
    }

    fn check_name(&self, location: &Location) -> Result<()> {
        check_path(location.path())
    }

    fn ping<'a>(&'a self, file: &'a Resource) -> Pending<'a, ()> {
        Box::pin(async move { self.configuration(file, &["version"]).await.map(drop) })
    }

    fn login_offer<'a>(&'a self, file: &'a Resource) -> Pending<'a, LoginOffer> {
        Box::pin(offer(&self.options, file))
    }

    fn stat_many<'a>(&'a self, first: &'a Resource, files: &'a [Resource]) -> Pending<'a, Vec<Entry>> {
        Box::pin(self.stat_many(first, files))
    }

    fn delete_version<'a>(&'a self, file: &'a Resource, _version: Option<&'a Validator>) -> Pending<'a, ()> {
        Box::pin(self.delete_unclosed(file))
    }

    fn set_mode<'a>(&'a self, file: &'a Resource, mode: u16) -> Pending<'a, ()> {
        Box::pin(self.set_mode(file, mode))
    }

    fn attributes<'a>(&'a self, file: &'a Resource, call: AttributeCall<'a>) -> Pending<'a, Vec<Attribute>> {
        Box::pin(self.attributes(file, call))
    }

    fn open<'a>(&'a self, file: &'a Resource) -> Pending<'a, crate::Opened> {
        Box::pin(async move { self.open(file).await.map(crate::Opened::new) })
    }

    fn copy_abilities<'a>(
        &'a self,
        active: &'a Resource,
        other: &'a Location,
        delegates: bool,
    ) -> Pending<'a, CopyAbilities> {
        Box::pin(self.copy_abilities(active, other, delegates))
    }

    fn configuration<'a>(&'a self, file: &'a Resource, keys: &'a [&'a str]) -> Pending<'a, Vec<Option<String>>> {
        Box::pin(self.configuration(file, keys))
    }

    fn tape<'a>(&'a self, place: &'a Resource, call: TapeCall<'a>) -> Pending<'a, TapeAnswer> {
        Box::pin(self.tape(place, call))
    }

    fn space<'a>(&'a self, file: &'a Resource) -> Pending<'a, Space> {
        Box::pin(self.space(file))
    }
}
