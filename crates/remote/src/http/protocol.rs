//! HTTP as one of the protocols of a client.

use credentials::Activities;
use types::{Location, Secret};

use super::client::Client;
use crate::options::{CopyAbilities, Offers};
use crate::protocol::{Abilities, Pending, Protocol, common_requests};
use crate::resource::{Resource, Validator};
use crate::service::{ServiceAnswer, ServiceCall, ServiceStream, Streamed};

impl Protocol for Client {
    common_requests!();

    fn schemes(&self) -> &'static [&'static str] {
        &["http", "https", "dav", "davs"]
    }

    fn speaks(&self, location: &Location) -> bool {
        location.is_http()
    }

    fn abilities(&self, location: &Location) -> Abilities {
        let is_signed = location.signature().is_some();
        Abilities {
            is_encrypted: location.is_encrypted(),
            allows_one_method: is_signed,
            reads_without_head: true,
            leaves_remains: !is_signed,
            pulls: !is_signed,
            pushes: !is_signed,
            gives_macaroons: !is_signed,
            uses_signed_urls: !is_signed,
            ..Abilities::default()
        }
    }

    fn delete_version<'a>(&'a self, file: &'a Resource, version: Option<&'a Validator>) -> Pending<'a, ()> {
        Box::pin(self.delete_version(file, version))
    }

    fn ping<'a>(&'a self, file: &'a Resource) -> Pending<'a, ()> {
        Box::pin(async move { self.options(file).await.map(drop) })
    }

    fn options<'a>(&'a self, file: &'a Resource) -> Pending<'a, Offers> {
        Box::pin(self.options(file))
    }

    fn copy_abilities<'a>(&'a self, active: &'a Resource, other: &'a Location, _: bool) -> Pending<'a, CopyAbilities> {
        Box::pin(self.copy_abilities(active, other))
    }

    fn call<'a>(&'a self, place: &'a Resource, call: &'a ServiceCall<'a>) -> Pending<'a, ServiceAnswer> {
        Box::pin(self.call(place, call))
    }

    fn stream<'a>(&'a self, place: &'a Resource, wanted: Streamed<'a>) -> Pending<'a, ServiceStream> {
        Box::pin(self.stream(place, wanted))
    }

    fn request_macaroon<'a>(&'a self, file: &'a Resource, what: Activities, validity_s: u64) -> Pending<'a, Secret> {
        Box::pin(self.request_macaroon(file, what, validity_s))
    }
}
