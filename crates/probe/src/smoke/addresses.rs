//! The addresses of an endpoint: each must serve.

use std::net::IpAddr;
use std::sync::PoisonError;

use net::names::addresses_of;
use remote::{Access, Resource};
use types::{Error, ErrorCode, Location, Phase, Side};

use crate::mesh::named;

use super::{At, CONTROL_TIMEOUT, Failure, Kind, Outcome, Smoke, within};

impl Smoke<'_> {
    /// Probes a place at each address of its host. Returns it when at least one answers.
    pub(super) async fn at_addresses(&self, place: &Location) -> Option<Location> {
        let started = tokio::time::Instant::now();
        let addresses = addresses_of(place.host(), CONTROL_TIMEOUT).await;
        let nowhere = At {
            kind: Kind::Anonymous,
            address: None,
            macaroon_of: None,
        };
        if addresses.is_empty() {
            let error = Error::new(ErrorCode::PeerUnresolved, Side::Client, Phase::Connect);
            let lines = vec![format!("getent ahosts {}", place.host())];
            let outcome = Outcome::Failed(Box::new(Failure::of(&error, None, lines)));
            self.note("find the addresses", place, nowhere, started.elapsed(), outcome);
            return None;
        }
        let mut answers = false;
        for address in addresses {
            if self.reach(place, address).await {
                answers = true;
                self.credentials_at(place, address).await;
            }
        }
        answers.then(|| place.clone())
    }

    fn note_software(&self, version: Option<String>) {
        let words = version.as_deref().and_then(|version| named(version.trim()));
        let mut known = self.software.lock().unwrap_or_else(PoisonError::into_inner);
        *known = words.or(known.take());
    }

    /// Whether an address answers at all: a connection, TLS with a certificate for the name, and
    /// the protocol.
    async fn reach(&self, place: &Location, address: IpAddr) -> bool {
        let Some(key) = self.credentials.first() else {
            return false;
        };
        let at = At {
            kind: Kind::Anonymous,
            address: Some(address),
            macaroon_of: None,
        };
        let client = key.client.pinned(place.host(), address);
        let directory = Resource {
            location: place.clone(),
            access: Access::default(),
            side: Side::Active,
        };
        let started = tokio::time::Instant::now();
        let is_xrootd = place.is_xrootd();
        let asked = within(CONTROL_TIMEOUT, &directory, async {
            match is_xrootd {
                true => {
                    let told = client.configuration(&directory, &["version"]).await?;
                    self.note_software(told.into_iter().next().flatten());
                    Ok(())
                }
                false if place.is_s3() => client.head(&directory, &[]).await.map(drop),
                false => client.options(&directory).await.map(drop),
            }
        });
        let outcome = match asked.await {
            Ok(()) => Outcome::Passed,
            // A refusal is an answer, so the address works.
            Err(error) if error.peer_status().is_some() || error.peer_words().is_some() => Outcome::Passed,
            Err(error) => {
                let lines = self.context(at).connect(place);
                Outcome::Failed(Box::new(Failure::of(&error, None, lines)))
            }
        };
        let reached = matches!(outcome, Outcome::Passed);
        self.note("connect", place, at, started.elapsed(), outcome);
        reached
    }
}
