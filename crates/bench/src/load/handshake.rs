//! TLS connections from their beginning to their end: how many a server takes in a second, with a
//! full handshake and with what both sides remember of an earlier one.

use http_wire::{HeadLimits, Method, RequestBuilder};
use net::http::Connection;
use net::tls::{ClientTls, Suite};
use net::{Stream, Waits};
use remote::{ClientOptions, Resource};
use tokio::time::Instant;
use types::{Error, ErrorCode, Phase, Result};

use super::measure::{Sample, together};
use super::tally::{Case, Tally};
use super::tls::{Offer, Tls};
use crate::Ground;
use crate::ground::Target;
use crate::report::{Failure, Parameters};

/// Share of connections that must resume a session for the figure to count as resumption.
const RESUMED_MIN: f64 = 0.95;

/// How connections begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Beginning {
    /// With certificate and signature.
    Full,
    /// With what both sides remember of an earlier one.
    Resumed,
}

impl Beginning {
    fn name(self) -> &'static str {
        match self {
            Self::Full => "full handshake",
            Self::Resumed => "resumed",
        }
    }
}

/// What kind of connections a sample has.
#[derive(Clone, Copy, Debug)]
struct Kind {
    suite: Suite,
    beginning: Beginning,
    /// Whether clients leave Nagle's algorithm on, as plain sockets of most languages do: then a
    /// request waits until the server has acknowledged the end of the handshake.
    nagle: bool,
}

impl Kind {
    fn label(self) -> String {
        let nagle = if self.nagle { ", Nagle on" } else { "" };
        format!("{}, {}{nagle}", self.suite.version(), self.beginning.name())
    }
}

/// What one client did.
#[derive(Clone, Copy, Debug, Default)]
struct Visits {
    made: u64,
    resumed: u64,
}

/// Measures both beginnings in each version of TLS that a target speaks over HTTP, by clients that
/// switch Nagle's algorithm off and by others; the targets take turns.
pub(super) async fn measure(ground: &Ground, tls: &Tls, offers: &[(&Target, &Offer)], tally: &mut Tally) -> Option<()> {
    let of_http = offers.iter().filter(|(target, _)| target.place.location.is_http());
    let offers: Vec<(&Target, Vec<Suite>)> = of_http.map(|(target, offer)| (*target, versions(offer))).collect();
    let suites: usize = offers.iter().map(|(_, suites)| suites.len()).sum();
    ground.progress.plan(WAYS.len() * suites * tls.repetitions as usize);
    for place in 0..2 {
        for (beginning, nagle) in WAYS {
            for repetition in 0..tls.repetitions {
                for (target, suites) in &offers {
                    let Some(&suite) = suites.get(place) else { continue };
                    let run = format!("{} of {}", repetition + 1, tls.repetitions);
                    let kind = Kind {
                        suite,
                        beginning,
                        nagle,
                    };
                    sample(ground, tls, target, kind, &run, tally).await?;
                }
            }
        }
    }
    Some(())
}

/// Beginnings, and whether Nagle's algorithm is on, in the order of the table.
const WAYS: [(Beginning, bool); 4] = [
    (Beginning::Full, false),
    (Beginning::Full, true),
    (Beginning::Resumed, false),
    (Beginning::Resumed, true),
];

/// The preferred suite of each version.
fn versions(offer: &Offer) -> Vec<Suite> {
    let suites = || offer.wrappings.iter().filter_map(|wrapping| wrapping.suite);
    let newest = suites().find(|suite| suite.is_tls13());
    let older = suites().find(|suite| !suite.is_tls13());
    newest.into_iter().chain(older).collect()
}

async fn sample(ground: &Ground, tls: &Tls, target: &Target, kind: Kind, run: &str, tally: &mut Tally) -> Option<()> {
    let case = Case {
        label: kind.label(),
        parameters: Parameters::from([("clients".to_owned(), tls.clients.into())]),
        phase: "making TLS connections",
    };
    if tally.has_failed(target, &case) {
        ground.progress.skip(1);
        return Some(());
    }
    ground.progress.begin(format!("{}: {}, {run}", target.name, case.label));
    let words = match ground.stop.or(clients(ground, tls, target, kind)).await? {
        Err(error) => tally.fail(target, &case, Failure::of(case.phase, &error)),
        Ok(clients) => {
            let end = Instant::now() + tls.duration;
            let workers = clients.into_iter().map(|client| client.visit_until(end)).collect();
            let sample = together(target, &ground.stop, workers).await?;
            match unresumed(&sample).filter(|_| kind.beginning == Beginning::Resumed) {
                Some(failure) => tally.fail(target, &case, failure),
                None => tally.take(target, &case, &made(sample)),
            }
        }
    };
    ground.progress.end(words);
    Some(())
}

/// Clients that have been there already, as each remembers sessions of its own.
async fn clients(ground: &Ground, tls: &Tls, target: &Target, kind: Kind) -> Result<Vec<Client>> {
    let mut clients = Vec::new();
    for _ in 0..tls.clients {
        let options = ground.client_options().clone();
        let offering = options.tls.offering(kind.suite, kind.beginning == Beginning::Resumed)?;
        let client = Client {
            tls: offering.showing(target.place.access.identity.as_ref()),
            options,
            place: target.place.clone(),
            nagle: kind.nagle,
        };
        client.visit().await?;
        clients.push(client);
    }
    Ok(clients)
}

/// Why a figure is not one of resumption.
fn unresumed(sample: &Sample<Visits>) -> Option<Failure> {
    let sum = |of: fn(&Visits) -> u64| sample.done().map(of).sum::<u64>() as f64;
    let part = sum(|visits| visits.resumed) / sum(|visits| visits.made);
    let words = || {
        format!(
            "the server went on with a session in {:.0} % of the connections",
            part * 100.0
        )
    };
    let advice = "see whether session tickets or a session cache are switched on there";
    (part < RESUMED_MIN).then(|| Failure::new("resuming TLS sessions", words(), advice))
}

fn made(sample: Sample<Visits>) -> Sample<u64> {
    let results = sample
        .results
        .into_iter()
        .map(|result| result.map(|visits| visits.made));
    Sample {
        results: results.collect(),
        seconds: sample.seconds,
        server_cpu_s: sample.server_cpu_s,
    }
}

/// One client, with the sessions that it remembers.
struct Client {
    tls: ClientTls,
    options: ClientOptions,
    place: Resource,
    nagle: bool,
}

impl Client {
    async fn visit_until(self, end: Instant) -> Result<Visits> {
        let mut visits = Visits::default();
        while Instant::now() < end {
            visits.resumed += u64::from(self.visit().await?);
            visits.made += 1;
        }
        Ok(visits)
    }

    /// One connection, on which one thing is asked: a handshake counts only where the server is
    /// there behind it. What it answers is no matter. Returns whether it was resumed.
    async fn visit(&self) -> Result<bool> {
        let (place, options) = (&self.place.location, &self.options);
        let dialled = net::dial::dial(
            place.host(),
            place.port(),
            options.addresses,
            options.connect,
            self.place.side,
        );
        let tcp = dialled.await?;
        if self.nagle {
            // Dialling has switched it off.
            let told = tcp.set_nodelay(false);
            told.map_err(|cause| Error::new(ErrorCode::Internal, self.place.side, Phase::Connect).with_private(cause))?;
        }
        let waits = Waits {
            handshake: options.connect,
            stall: options.stall,
        };
        let stream = Stream::connect_tls(tcp, &self.tls, place.host(), self.place.side, waits).await?;
        let is_resumed = stream.is_resumed();
        let mut connection = Connection::new(stream);
        connection.stream.queue(&self.request());
        let asked = async {
            connection.stream.flush().await?;
            connection.response(&HeadLimits::default(), options.first_byte).await
        };
        asked.await.map_err(|error: Error| error.with_subject(place))?;
        // A server that has closed already has said all that was asked.
        let _ = connection.stream.close().await;
        Ok(is_resumed)
    }

    fn request(&self) -> Vec<u8> {
        let request = RequestBuilder::new(&Method::Head, &self.place.location).user_agent(&self.options.user_agent);
        let request = match &self.place.access.bearer {
            Some(token) => request.bearer(token),
            None => request,
        };
        request.close().finish()
    }
}
