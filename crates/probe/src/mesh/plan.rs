//! Which copies a mesh makes: every link of the topology in each protocol and mode, with each kind
//! of credential, and the reason for each that is not tried.
//!
//! This is pure: the same endpoints, wishes and time give the same plan.

use history::{Link, Mode, Outcome};

use super::endpoint::{CredentialKind, Endpoint, Place, Protocol, Role};
use crate::limits::CELLS_MAX;

/// Which pairs of endpoints are tried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Topology {
    /// Each with each other, in both directions.
    Full,
    /// One endpoint with each other, in both directions.
    Star {
        /// The name of that endpoint.
        centre: String,
    },
    /// Each to the next one in the file, and the last one to the first.
    Ring,
    /// Some pairs of the full mesh, chosen at random.
    Sample {
        /// How many.
        pairs: usize,
        /// The same seed chooses the same pairs.
        seed: u64,
    },
}

/// What is to be tried.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// Which pairs.
    pub topology: Topology,
    /// In which protocols; empty: in all that the endpoints have.
    pub protocols: Vec<Protocol>,
    /// In which ways; empty: in all. Without an explicit wish, `lite` is left out where there is no
    /// certificate to delegate.
    pub modes: Vec<Mode>,
    /// Only links from or to endpoints with these names or tags; empty: all.
    pub only: Vec<String>,
    /// Copy between HTTP and the XRootD protocol too.
    pub mixed: bool,
    /// The moment, in milliseconds since 1970, for downtimes.
    pub now_ms: u64,
}

/// One end of a planned copy: positions of the endpoint, of its place and of the credential.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Seat {
    /// Which endpoint.
    pub endpoint: usize,
    /// Which of its places.
    pub place: usize,
    /// Which of the credentials for this place.
    pub credential: usize,
}

/// A cell before the run.
#[derive(Clone, Debug)]
pub struct Planned {
    /// What it is about.
    pub link: Link,
    /// Both ends, or why it is not tried.
    pub fate: Result<Ends, Outcome>,
}

/// Both ends of a planned copy.
#[derive(Clone, Copy, Debug)]
pub struct Ends {
    /// Where the file is.
    pub source: Seat,
    /// Where it goes.
    pub destination: Seat,
}

/// The plan. Copies that run one after the other have different endpoints, if possible.
///
/// # Errors
/// No endpoint has a name or tag that was given; the plan is too large.
pub fn plan(endpoints: &[Endpoint], wanted: &Wanted) -> Result<Vec<Planned>, String> {
    for word in &wanted.only {
        if !endpoints.iter().any(|endpoint| endpoint.is_named(word)) {
            return Err(format!("no endpoint has the name or tag \"{word}\""));
        }
    }
    let selects = |index: usize| wanted.only.iter().any(|word| endpoints[index].is_named(word));
    let mut cells = Vec::new();
    for (from, to) in pairs(endpoints, &wanted.topology)? {
        if !wanted.only.is_empty() && !selects(from) && !selects(to) {
            continue;
        }
        let pair = Pair {
            endpoints,
            wanted,
            from,
            to,
        };
        pair.plan(&mut cells);
        if cells.len() > CELLS_MAX {
            return Err(format!(
                "more than {CELLS_MAX} copies; use --only, --protocol, --mode or --topology"
            ));
        }
    }
    Ok(cells)
}

/// The pairs, by positions. Neighbours in this order share no endpoint, if possible.
fn pairs(endpoints: &[Endpoint], topology: &Topology) -> Result<Vec<(usize, usize)>, String> {
    let count = endpoints.len();
    let full = || (1..count).flat_map(move |step| (0..count).map(move |from| (from, (from + step) % count)));
    Ok(match topology {
        Topology::Full => full().collect(),
        Topology::Star { centre } => {
            let centre = endpoints
                .iter()
                .position(|endpoint| endpoint.name == *centre)
                .ok_or_else(|| format!("there is no endpoint \"{centre}\""))?;
            let others = (0..count).filter(|other| *other != centre);
            others.flat_map(|other| [(centre, other), (other, centre)]).collect()
        }
        Topology::Ring if count < 2 => Vec::new(),
        Topology::Ring => (0..count).map(|from| (from, (from + 1) % count)).collect(),
        Topology::Sample { pairs, seed } => {
            let mut all: Vec<(usize, usize)> = full().collect();
            let mut state = *seed;
            let taken = (*pairs).min(all.len());
            for place in 0..taken {
                let left = (all.len() - place) as u64;
                let other = place + usize::try_from(random(&mut state) % left).unwrap_or(0);
                all.swap(place, other);
            }
            all.truncate(taken);
            all
        }
    })
}

/// The next number of a sequence (SplitMix64).
pub(super) fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut mixed = *state;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// The ways to copy from one protocol to another.
fn modes(source: Protocol, destination: Protocol) -> &'static [Mode] {
    match (source, destination) {
        (Protocol::Http, Protocol::Http | Protocol::Root) => &[Mode::Pull, Mode::Push, Mode::Streamed],
        // Servers of the XRootD protocol fetch, and send to no others.
        (Protocol::Root, Protocol::Http) => &[Mode::Pull, Mode::Streamed],
        (Protocol::Root, Protocol::Root) => &[Mode::Rendezvous, Mode::Lite, Mode::Streamed],
        // With URLs that we sign for the other server.
        (Protocol::S3, Protocol::Http) => &[Mode::Pull, Mode::Streamed],
        (Protocol::Http, Protocol::S3) => &[Mode::Push, Mode::Streamed],
        (Protocol::S3, _) | (_, Protocol::S3) => &[Mode::Streamed],
    }
}

/// The roles of source and destination, if servers make the copy.
fn roles(mode: Mode) -> Option<(Role, Role)> {
    match mode {
        Mode::Pull | Mode::Rendezvous | Mode::Lite => Some((Role::Passive, Role::Active)),
        Mode::Push => Some((Role::Active, Role::Passive)),
        Mode::Streamed | Mode::Probe => None,
    }
}

/// A pair of endpoints while its cells are planned.
struct Pair<'a> {
    endpoints: &'a [Endpoint],
    wanted: &'a Wanted,
    from: usize,
    to: usize,
}

impl Pair<'_> {
    fn source(&self) -> &Endpoint {
        &self.endpoints[self.from]
    }

    fn destination(&self) -> &Endpoint {
        &self.endpoints[self.to]
    }

    fn plan(&self, cells: &mut Vec<Planned>) {
        for source in Protocol::ALL {
            for destination in Protocol::ALL {
                if self.wants(source, destination) {
                    self.plan_protocols(source, destination, cells);
                }
            }
        }
    }

    /// Whether copies between two protocols are made. Of an endpoint without a protocol that the
    /// other one has, the cells say so; S3 is copied to and from HTTP as well, so it is not missed.
    fn wants(&self, source: Protocol, destination: Protocol) -> bool {
        let (has_source, has_destination) = (
            self.source().place(source).is_some(),
            self.destination().place(destination).is_some(),
        );
        let has_s3 = [self.source(), self.destination()].map(|end| end.place(Protocol::S3).is_some());
        let is_missed = match source {
            Protocol::Http => has_s3 == [false; 2],
            Protocol::Root => true,
            Protocol::S3 => false,
        };
        let is_there = match source == destination && is_missed {
            true => has_source || has_destination,
            false => has_source && has_destination,
        };
        let crosses = |one: Protocol| one != Protocol::S3 && source != destination;
        let is_mixed = crosses(source) && crosses(destination);
        let asked = &self.wanted.protocols;
        let is_asked = asked.is_empty() || (asked.contains(&source) && asked.contains(&destination));
        is_there && is_asked && (!is_mixed || self.wanted.mixed)
    }

    fn plan_protocols(&self, source: Protocol, destination: Protocol, cells: &mut Vec<Planned>) {
        let asked = &self.wanted.modes;
        for mode in modes(source, destination) {
            if !asked.is_empty() && !asked.contains(mode) {
                continue;
            }
            let is_optional = *mode == Mode::Lite && asked.is_empty();
            let places = (self.source().place(source), self.destination().place(destination));
            let (Some(from), Some(to)) = places else {
                if is_optional {
                    continue;
                }
                let lacking = if places.0.is_none() {
                    self.source()
                } else {
                    self.destination()
                };
                let why = format!("{} has no {} URL", lacking.name, source.name());
                let (from, to) = (self.scheme(true, source), self.scheme(false, destination));
                let link = self.link(&from, &to, *mode, None);
                cells.push(untried(link, Outcome::NotApplicable { why }));
                continue;
            };
            self.plan_credentials(from, to, *mode, cells);
        }
    }

    /// The scheme of an end in a protocol that it may not have: then that of the other end.
    fn scheme(&self, is_source: bool, protocol: Protocol) -> String {
        let (own, other) = match is_source {
            true => (self.source(), self.destination()),
            false => (self.destination(), self.source()),
        };
        let found = [own, other]
            .into_iter()
            .find_map(|end| Some(&end.places[end.place(protocol)?]));
        found.map_or_else(
            || protocol.name().to_owned(),
            |place| place.location.wire_scheme().to_owned(),
        )
    }

    fn plan_credentials(&self, from: usize, to: usize, mode: Mode, cells: &mut Vec<Planned>) {
        let (source, destination) = (&self.source().places[from], &self.destination().places[to]);
        let link = |kind| {
            self.link(
                source.location.wire_scheme(),
                destination.location.wire_scheme(),
                mode,
                kind,
            )
        };
        let mut kinds = kinds(source, destination);
        if let Some(why) = self.inapplicable(mode) {
            cells.push(untried(link(kinds.first().copied()), Outcome::NotApplicable { why }));
            return;
        }
        if mode == Mode::Lite {
            let is_named = self.wanted.modes.contains(&Mode::Lite);
            let first = kinds.first().copied();
            kinds.retain(|kind| *kind == CredentialKind::X509);
            if kinds.is_empty() && is_named {
                let why = "there is no certificate to delegate".to_owned();
                cells.push(untried(link(first), Outcome::NotApplicable { why }));
            }
        }
        for kind in kinds {
            let fate = match self.skipped(source, destination, kind) {
                Some(why) => Err(Outcome::Skipped { why }),
                None => self.ends(from, to, kind).ok_or_else(|| Outcome::Skipped {
                    why: "there is no credential".to_owned(),
                }),
            };
            cells.push(Planned {
                link: link(Some(kind)),
                fate,
            });
        }
    }

    fn ends(&self, from: usize, to: usize, kind: CredentialKind) -> Option<Ends> {
        let seat = |endpoint: usize, place: usize| {
            let credential = self.endpoints[endpoint].places[place].credential(kind)?;
            Some(Seat {
                endpoint,
                place,
                credential,
            })
        };
        Some(Ends {
            source: seat(self.from, from)?,
            destination: seat(self.to, to)?,
        })
    }

    /// Why such a copy can never be made.
    fn inapplicable(&self, mode: Mode) -> Option<String> {
        let lacks = |endpoint: &Endpoint, role: Role| {
            let lacks = !endpoint.roles.contains(&role);
            lacks.then(|| format!("{} is no {} of copies", endpoint.name, role_words(role)))
        };
        let (source, destination) = (self.source(), self.destination());
        let excludes = |endpoint: &Endpoint| {
            let excludes = !endpoint.modes.is_empty() && !endpoint.modes.contains(&mode);
            excludes.then(|| format!("{} takes no part in {} copies", endpoint.name, mode.name()))
        };
        lacks(source, Role::Source)
            .or_else(|| lacks(destination, Role::Destination))
            .or_else(|| {
                let (of_source, of_destination) = roles(mode)?;
                lacks(source, of_source).or_else(|| lacks(destination, of_destination))
            })
            .or_else(|| excludes(source))
            .or_else(|| excludes(destination))
    }

    /// Why a copy is not made this time.
    fn skipped(&self, source: &Place, destination: &Place, kind: CredentialKind) -> Option<String> {
        for endpoint in [self.source(), self.destination()] {
            if let Some(downtime) = endpoint.downtime(self.wanted.now_ms) {
                let reason = match downtime.reason.as_str() {
                    "" => String::new(),
                    reason => format!(": {reason}"),
                };
                return Some(format!("{} is in downtime{reason}", endpoint.name));
            }
        }
        for (endpoint, place) in [(self.source(), source), (self.destination(), destination)] {
            let missing = place.missing.iter().find(|(missing, _)| *missing == kind);
            let is_unusable = missing.is_some() || place.credential(kind).is_none();
            if is_unusable {
                let why = missing.map_or("the file of endpoints names none", |(_, why)| why);
                return Some(format!("no credential ({}) for {}: {why}", kind.name(), endpoint.name));
            }
        }
        None
    }

    fn link(&self, source: &str, destination: &str, mode: Mode, kind: Option<CredentialKind>) -> Link {
        Link {
            source: self.source().name.clone(),
            destination: self.destination().name.clone(),
            source_protocol: source.to_owned(),
            destination_protocol: destination.to_owned(),
            mode,
            credential: kind.unwrap_or(CredentialKind::Anonymous).name().to_owned(),
        }
    }
}

fn untried(link: Link, outcome: Outcome) -> Planned {
    Planned {
        link,
        fate: Err(outcome),
    }
}

fn role_words(role: Role) -> &'static str {
    match role {
        Role::Source => "source",
        Role::Destination => "destination",
        Role::Active => "active side",
        Role::Passive => "passive side",
    }
}

/// The kinds of credentials with which a link is tried: those that either end has; keys and
/// anonymous access stand in for them at the other end. Where both ends are open, nothing is shown
/// too.
fn kinds(source: &Place, destination: &Place) -> Vec<CredentialKind> {
    let claims = |kind| source.claims(kind) || destination.claims(kind);
    let mut kinds: Vec<CredentialKind> = [CredentialKind::X509, CredentialKind::Token]
        .into_iter()
        .filter(|kind| claims(*kind))
        .collect();
    if kinds.is_empty() && claims(CredentialKind::Keys) {
        kinds.push(CredentialKind::Keys);
    }
    if source.claims(CredentialKind::Anonymous) && destination.claims(CredentialKind::Anonymous) {
        kinds.push(CredentialKind::Anonymous);
    }
    if kinds.is_empty() {
        kinds.push(CredentialKind::Anonymous);
    }
    kinds
}

#[cfg(test)]
mod tests;
