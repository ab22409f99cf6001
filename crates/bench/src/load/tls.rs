//! `tls`: what encryption costs: each cipher suite that both sides offer, beside plain where the
//! server answers plain, and how many connections a server takes in a second.

use std::time::Duration;

use net::tls::Suite;
use remote::{Access, Client, ClientOptions, Resource};
use types::{ErrorCode, Location};

use super::bulk::{self, Bulk, Files, Shape, Way};
use super::data::Content;
use super::handshake;
use super::measure::together;
use super::tally::{Case, Counted, Tally};
use crate::Ground;
use crate::ground::Target;
use crate::report::{Failure, Measured, Parameters, Value};

/// What is to be measured.
#[derive(Clone, Debug)]
pub struct Tls {
    /// Numbers of connections that carry a file each.
    pub connections: Vec<u32>,
    /// Size of each file, in bytes.
    pub size_bytes: u64,
    /// Least bytes of a sample.
    pub volume_bytes: u64,
    /// Clients that make connections at the same time.
    pub clients: u32,
    /// How long a sample of connections takes.
    pub duration: Duration,
    /// Samples of each case.
    pub repetitions: u32,
}

/// How the bytes of a sample are wrapped.
#[derive(Clone)]
pub(super) struct Wrapping {
    /// `None` for clear text.
    pub(super) suite: Option<Suite>,
    /// How clients reach the server.
    pub(super) options: ClientOptions,
    /// Files are the same ones, by another URL where it is clear text.
    files: Vec<Resource>,
}

impl Wrapping {
    fn label(&self, target: &Target) -> String {
        let is_xrootd = target.place.location.is_xrootd();
        match (self.suite, is_xrootd) {
            (Some(suite), _) => format!("{}, {suite}", target.protocol()),
            (None, true) => "root, plain".to_owned(),
            (None, false) => "http, plain".to_owned(),
        }
    }
}

/// What can be measured of a target.
pub(super) struct Offer {
    pub(super) wrappings: Vec<Wrapping>,
    size_bytes: u64,
}

/// Measures all suites, then all ways in which connections begin; the targets take turns.
pub async fn run(ground: &Ground, tls: &Tls) -> Measured {
    let mut measured = Measured::default();
    let mut bulk = Tally::new("Throughput", Counted::Bytes);
    let mut begun = Tally::new("TLS connections", Counted::Requests);
    let _: Option<()> = measure(ground, tls, &mut bulk, &mut begun, &mut measured.notes).await;
    measured.tables = bulk.tables();
    measured.tables.extend(begun.tables());
    measured.notes.push(
        "Files are read; each connection of the second table asks for one HEAD. Clients switch Nagle's algorithm off \
             unless a row says that it is on."
            .to_owned(),
    );
    measured
}

async fn measure(
    ground: &Ground,
    tls: &Tls,
    throughput: &mut Tally,
    begun: &mut Tally,
    notes: &mut Vec<String>,
) -> Option<()> {
    let mut offers = Vec::new();
    for target in &ground.targets {
        offers.push(ground.stop.or(look(ground, tls, target, notes)).await?);
    }
    let sizes = tls.connections.len() * tls.repetitions as usize;
    let count = |offer: &Result<Offer, Failure>| offer.as_ref().map_or(1, |offer| offer.wrappings.len() * sizes);
    ground.progress.plan(offers.iter().map(count).sum());
    for (target, offer) in ground.targets.iter().zip(&offers) {
        if let Err(failure) = offer {
            let case = case(&format!("GET {}", target.protocol()), 1);
            ground.progress.begin(format!("{}: {}", target.name, case.label));
            ground.progress.end(throughput.fail(target, &case, failure.clone()));
        }
    }
    let offers: Vec<(&Target, &Offer)> = ground
        .targets
        .iter()
        .zip(&offers)
        .filter_map(|(target, offer)| Some((target, offer.as_ref().ok()?)))
        .collect();
    let most = offers.iter().map(|(_, offer)| offer.wrappings.len()).max().unwrap_or(0);
    for place in 0..most {
        for &connections in &tls.connections {
            for repetition in 0..tls.repetitions {
                for (target, offer) in &offers {
                    let Some(wrapping) = offer.wrappings.get(place) else {
                        continue;
                    };
                    let run = format!("{} of {}", repetition + 1, tls.repetitions);
                    let one = One {
                        target,
                        offer,
                        wrapping,
                        connections,
                    };
                    one.sample(ground, tls, &run, throughput).await?;
                }
            }
        }
    }
    handshake::measure(ground, tls, &offers, begun).await
}

fn case(label: &str, connections: u32) -> Case {
    Case {
        label: match connections {
            1 => format!("{label}, 1 connection"),
            many => format!("{label}, {many} connections"),
        },
        parameters: Parameters::from([("connections".to_owned(), Value::from(connections))]),
        phase: Way::Get.name(),
    }
}

/// One sample of reading.
struct One<'a> {
    target: &'a Target,
    offer: &'a Offer,
    wrapping: &'a Wrapping,
    connections: u32,
}

impl One<'_> {
    async fn sample(&self, ground: &Ground, tls: &Tls, run: &str, tally: &mut Tally) -> Option<()> {
        let case = case(&self.wrapping.label(self.target), self.connections);
        if tally.has_failed(self.target, &case) {
            ground.progress.skip(1);
            return Some(());
        }
        ground
            .progress
            .begin(format!("{}: {}, {run}", self.target.name, case.label));
        let shape = Shape {
            way: Way::Get,
            connections: self.connections,
            streams: 1,
        };
        let new_client = || Client::new(self.wrapping.options.clone());
        let jobs = bulk::readers(
            &new_client,
            &as_bulk(tls),
            shape,
            &self.wrapping.files,
            self.offer.size_bytes,
        );
        ground
            .stop
            .or(bulk::warm_up(jobs.iter().filter_map(bulk::ConnectionLoad::first)))
            .await?;
        let workers = jobs.into_iter().map(bulk::read).collect();
        let sample = together(self.target, &ground.stop, workers).await?;
        ground.progress.end(tally.take(self.target, &case, &sample));
        Some(())
    }
}

fn as_bulk(tls: &Tls) -> Bulk {
    Bulk {
        ways: vec![Way::Get],
        connections: tls.connections.clone(),
        streams: vec![1],
        size_bytes: tls.size_bytes,
        volume_bytes: tls.volume_bytes,
        repetitions: tls.repetitions,
    }
}

/// Makes the files, and finds out what the server offers.
async fn look(ground: &Ground, tls: &Tls, target: &Target, notes: &mut Vec<String>) -> Result<Offer, Failure> {
    if !target.place.location.is_encrypted() {
        let advice = "give an https or roots URL; its plain side is found by itself";
        return Err(Failure::new("looking at the URL", "it is not one of TLS", advice));
    }
    let Files { read, .. } = bulk::prepare(ground, &as_bulk(tls), target, &Content::default()).await;
    let (files, size_bytes) = read?;
    let mut wrappings = Vec::new();
    let mut refused = Vec::new();
    for suite in Suite::all() {
        match with_suite(ground, suite, &files).await? {
            Some(wrapping) => wrappings.push(wrapping),
            None => refused.push(suite.to_string()),
        }
    }
    if !refused.is_empty() {
        notes.push(format!(
            "{} ({}) does not take {}.",
            target.name,
            target.protocol(),
            refused.join("; ")
        ));
    }
    match plain(ground, &files).await {
        Some(wrapping) => wrappings.push(wrapping),
        None => notes.push(format!(
            "{} ({}) does not answer in clear text on the same port.",
            target.name,
            target.protocol()
        )),
    }
    Ok(Offer { wrappings, size_bytes })
}

/// A suite, if the server takes it.
async fn with_suite(ground: &Ground, suite: Suite, files: &[Resource]) -> Result<Option<Wrapping>, Failure> {
    let base = ground.client_options();
    let tls = base.tls.offering(suite, true);
    let tls = tls.map_err(|error| Failure::of("choosing a cipher suite", &error))?;
    let options = ClientOptions { tls, ..base.clone() };
    match Client::new(options.clone()).head(&files[0], &[]).await {
        Ok(_) => Ok(Some(Wrapping {
            suite: Some(suite),
            options,
            files: files.to_vec(),
        })),
        Err(error) if is_refusal(error.code()) => Ok(None),
        Err(error) => Err(Failure::of("trying cipher suites", &error)),
    }
}

/// Servers refuse a suite with an alert, or by closing the connection.
fn is_refusal(code: ErrorCode) -> bool {
    matches!(
        code,
        ErrorCode::PeerTlsFailed | ErrorCode::PeerClosed | ErrorCode::PeerUnreachable
    )
}

/// The same files in clear text, if the server answers there.
async fn plain(ground: &Ground, files: &[Resource]) -> Option<Wrapping> {
    let bare: Option<Vec<Resource>> = files.iter().map(in_clear_text).collect();
    let (files, options) = (bare?, ground.client_options().clone());
    Client::new(options.clone()).head(files.first()?, &[]).await.ok()?;
    Some(Wrapping {
        suite: None,
        options,
        files,
    })
}

/// The same file on the same port, without the token, which must not travel in clear text.
fn in_clear_text(file: &Resource) -> Option<Resource> {
    let place = &file.location;
    let scheme = if place.is_xrootd() { "root" } else { "http" };
    let slashes = if place.is_xrootd() { "/" } else { "" };
    let url = format!(
        "{scheme}://{}:{}{slashes}{}",
        place.host(),
        place.port(),
        place.target()
    );
    Some(Resource {
        location: Location::parse(&url).ok()?,
        access: Access {
            bearer: None,
            ..file.access.clone()
        },
        side: file.side,
    })
}

#[cfg(test)]
mod tests {
    use types::{Secret, Side};

    use super::*;

    #[test]
    fn clear_text_is_the_same_port_without_the_token() {
        let file = |url: &str| Resource {
            location: Location::parse(url).unwrap(),
            access: Access {
                bearer: Some(Secret::new("secret")),
                ..Access::default()
            },
            side: Side::Source,
        };
        for (url, bare) in [
            ("https://[::1]:8443/d/f", "http://[::1]:8443/d/f"),
            ("roots://se.example.org//d/f", "root://se.example.org//d/f"),
            ("davs://se.example.org/f", "http://se.example.org:443/f"),
        ] {
            let found = in_clear_text(&file(url)).unwrap();
            assert_eq!(found.location.to_wire(), bare);
            assert!(found.access.bearer.is_none());
        }
    }
}
