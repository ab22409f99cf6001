//! The probes of one place at one address: for each credential upload, download, checksums and
//! delete, and the same with a macaroon that is asked for on the way.

use std::net::IpAddr;

use credentials::{Activities, Activity};
use remote::{Access, Resource};
use types::{ChecksumAlgorithm, Error, ErrorCode, Location, Side};

use super::{At, CONTROL_TIMEOUT, Credential, DATA_TIMEOUT, Failure, Kind, Outcome, Smoke, Timed, timed, within};
use crate::steps::{self, ADLER32, ADLER32_OR_MD5, own_file};

/// For how long macaroons are asked for: the smoke test's half an hour.
pub(super) const MACAROON_S: u64 = 1800;

/// A question for checksums.
struct Question {
    /// The name of its probe.
    name: &'static str,
    wanted: &'static [ChecksumAlgorithm],
    /// Whether it comes with the request for the file.
    by_get: bool,
}

impl Question {
    const fn new(name: &'static str, wanted: &'static [ChecksumAlgorithm], by_get: bool) -> Self {
        Self { name, wanted, by_get }
    }
}

const DIGESTS_HTTP: [Question; 4] = [
    Question::new("adler32 by HEAD", ADLER32, false),
    Question::new("adler32 or md5 by HEAD", ADLER32_OR_MD5, false),
    Question::new("adler32 by GET", ADLER32, true),
    Question::new("adler32 or md5 by GET", ADLER32_OR_MD5, true),
];
const DIGESTS_ROOT: [Question; 1] = [Question::new("adler32", ADLER32, false)];

impl Smoke<'_> {
    /// All credentials at one address.
    pub(super) async fn credentials_at(&self, place: &Location, address: IpAddr) {
        for kind in Kind::ALL {
            let at = At {
                kind,
                address: Some(address),
                macaroon_of: None,
            };
            let has_keys = place.is_s3() && self.credentials.iter().any(|one| one.kind == Kind::Keys);
            if !self.wants(kind) || !kind.suits(place) || (kind == Kind::Anonymous && has_keys) {
                continue;
            }
            if kind == Kind::Macaroon {
                self.macaroon_at(place, address).await;
            } else if let Some(key) = self.credentials.iter().find(|one| one.kind == kind) {
                let key = Credential {
                    client: key.client.pinned(place.host(), address),
                    ..key.clone()
                };
                let name = self.file_name(kind.name());
                self.series(&key, &place.child(&name), at).await;
            } else if let Some((_, why)) = self.missing.iter().find(|(missing, _)| *missing == kind) {
                self.skip("upload", place, at, why);
            }
        }
    }

    /// Asks for a macaroon for a file that is not there yet, and does everything with it.
    async fn macaroon_at(&self, place: &Location, address: IpAddr) {
        let name = self.file_name(Kind::Macaroon.name());
        let file = place.child(&name);
        let at = At {
            kind: Kind::Macaroon,
            address: Some(address),
            macaroon_of: None,
        };
        let issuer = Self::issuer_of(place, &self.options.places).map(|issuer| issuer.child(&name));
        let Some(issuer) = issuer else {
            self.skip(
                "ask for a macaroon",
                place,
                at,
                "macaroons are asked for over HTTP: give the https URL too",
            );
            return;
        };
        if let Some(macaroon) = self
            .ask_macaroon("ask for a macaroon", &issuer, Some(address), writing())
            .await
        {
            let at = At {
                macaroon_of: Some(&issuer),
                ..at
            };
            let key = Credential {
                client: macaroon.client.pinned(place.host(), address),
                ..macaroon
            };
            self.series(&key, &file, at).await;
        }
    }

    /// The HTTP place that issues macaroons for a place: itself, or one of the `others` on the same
    /// host.
    pub(super) fn issuer_of(place: &Location, others: &[Location]) -> Option<Location> {
        if !place.is_xrootd() {
            return Some(place.clone());
        }
        others
            .iter()
            .find(|other| other.is_http() && other.host().eq_ignore_ascii_case(place.host()))
            .cloned()
    }

    /// Asks for a macaroon with the best credential at hand; a failure is noted.
    pub(super) async fn ask_macaroon(
        &self,
        name: &str,
        file: &Location,
        address: Option<IpAddr>,
        activities: Activities,
    ) -> Option<Credential> {
        let order = [Kind::Proxy, Kind::Token, Kind::Anonymous];
        let key = order
            .iter()
            .find_map(|kind| self.credentials.iter().find(|one| one.kind == *kind))?;
        let client = match address {
            Some(address) => key.client.pinned(file.host(), address),
            None => key.client.clone(),
        };
        let at = At {
            kind: key.kind,
            address,
            macaroon_of: None,
        };
        let target = own_file(file.clone(), &key.access, Side::Active);
        let started = tokio::time::Instant::now();
        let asked = client.request_macaroon(&target, activities, MACAROON_S);
        let (outcome, macaroon) = match within(CONTROL_TIMEOUT, &target, asked).await {
            Ok(macaroon) => (Outcome::Passed, Some(macaroon)),
            Err(error) if gives_none(&error) => {
                let words = format!("the server gives no macaroons: {}", error.public());
                (Outcome::Skipped(words), None)
            }
            Err(error) => {
                let lines = self.context(at).ask_macaroon(file);
                (Outcome::Failed(Box::new(Failure::of(&error, None, lines))), None)
            }
        };
        self.note(name, file, at, started.elapsed(), outcome);
        macaroon.map(|macaroon| Credential {
            kind: Kind::Macaroon,
            client: key.client.clone(),
            access: Access {
                bearer: Some(macaroon),
                ..Access::default()
            },
            file: None,
        })
    }

    /// Upload, download, checksums, delete.
    async fn series(&self, key: &Credential, file: &Location, at: At<'_>) {
        let target = own_file(file.clone(), &key.access, Side::Active);
        if !self.upload(key, &target, at).await {
            return;
        }
        let lines = self.context(at).download(file);
        let read = steps::download(&key.client, &target, &self.content);
        self.judge("download", &target, at, lines, timed(DATA_TIMEOUT, &target, read).await);
        if file.is_s3() {
            let lines = self.context(at).size(file);
            let asked = steps::size(&key.client, &target, self.content.size_bytes());
            self.judge("size", &target, at, lines, timed(CONTROL_TIMEOUT, &target, asked).await);
        } else if self.options.has_checksums {
            let questions = if file.is_xrootd() {
                &DIGESTS_ROOT[..]
            } else {
                &DIGESTS_HTTP
            };
            for question in questions {
                self.checksum(question, key, &target, at).await;
            }
        }
        if file.is_http() {
            self.lower_case(key, &target, at).await;
        }
        self.delete("delete", key, &target, at).await;
    }

    async fn checksum(&self, question: &Question, key: &Credential, target: &Resource, at: At<'_>) {
        let Question { name, wanted, by_get } = *question;
        let names: Vec<&str> = wanted.iter().map(|one| one.name()).collect();
        let lines = self.context(at).checksum(&target.location, &names.join(","), by_get);
        let asked = steps::digest(&key.client, target, &self.content, wanted, by_get);
        self.judge(name, target, at, lines, timed(DATA_TIMEOUT, target, asked).await);
    }

    /// The name of the authentication scheme is the same in any case (RFC 9110 §11.1), and the
    /// smoke test of the WLCG writes it in lower case.
    async fn lower_case(&self, key: &Credential, target: &Resource, at: At<'_>) {
        let Some(access) = in_lower_case(&key.access) else {
            return;
        };
        let asked = own_file(target.location.clone(), &access, Side::Active);
        let lines = self.context(at).download(&target.location);
        let lines = lines
            .into_iter()
            .map(|line| line.replace("Bearer $", "bearer $"))
            .collect();
        let read = steps::download(&key.client, &asked, &self.content);
        let outcome = timed(DATA_TIMEOUT, target, read).await;
        self.judge("\"bearer\" in lower case", target, at, lines, outcome);
    }

    /// Uploads the content and remembers it until it is deleted. A refusal that was to be expected
    /// is no failure.
    pub(super) async fn upload(&self, key: &Credential, target: &Resource, at: At<'_>) -> bool {
        let started = tokio::time::Instant::now();
        self.will_make(key, target);
        let sent = steps::upload(&key.client, target, &self.content);
        let outcome = match within(DATA_TIMEOUT, target, sent).await {
            Ok(()) => {
                self.has_made(target);
                Outcome::Passed
            }
            Err(error) if is_refusal(&error) && !self.is_expected(at.kind) => {
                self.has_removed(target);
                Outcome::Skipped(format!("clients without a credential are refused: {}", error.public()))
            }
            Err(error) => {
                let lines = self.context(at).upload(&target.location);
                Outcome::Failed(Box::new(Failure::of(&error, None, lines)))
            }
        };
        let passed = matches!(outcome, Outcome::Passed);
        self.note("upload", &target.location, at, started.elapsed(), outcome);
        passed
    }

    /// Deletes a file and looks whether it is gone.
    pub(super) async fn delete(&self, name: &str, key: &Credential, target: &Resource, at: At<'_>) {
        let started = tokio::time::Instant::now();
        let removed = within(CONTROL_TIMEOUT, target, steps::delete(&key.client, target)).await;
        let outcome = match removed {
            Ok(()) => {
                self.has_removed(target);
                Outcome::Passed
            }
            Err(error) => {
                let lines = self.context(at).delete(&target.location);
                Outcome::Failed(Box::new(Failure::of(&error, Some(Side::Destination), lines)))
            }
        };
        self.note(name, &target.location, at, started.elapsed(), outcome);
    }

    /// Notes how a probe of the endpoint alone ended.
    fn judge(&self, name: &str, target: &Resource, at: At<'_>, lines: Vec<String>, result: Timed) {
        let outcome = match result.result {
            Ok(()) => Outcome::Passed,
            Err(error) => Outcome::Failed(Box::new(Failure::of(&error, None, lines))),
        };
        self.note(name, &target.location, at, result.took, outcome);
    }
}

/// What macaroons for a file that is made, read and removed must allow.
pub(super) fn writing() -> Activities {
    Activities::of(&[
        Activity::Download,
        Activity::Upload,
        Activity::Delete,
        Activity::List,
        Activity::Manage,
    ])
}

/// The same token with its scheme written in lower case.
pub(super) fn in_lower_case(access: &Access) -> Option<Access> {
    let mut access = access.clone();
    let token = access.bearer.take()?;
    access
        .forwarded
        .push("Authorization", &format!("bearer {}", token.expose()))
        .ok()?;
    Some(access)
}

/// Whether an answer means that macaroons are not offered at all.
fn gives_none(error: &Error) -> bool {
    matches!(
        error.code(),
        ErrorCode::NoMacaroons | ErrorCode::PeerUnsupported | ErrorCode::PeerNotFound
    )
}

/// Whether the server refused the credential.
fn is_refusal(error: &Error) -> bool {
    matches!(error.code(), ErrorCode::PeerDenied | ErrorCode::PeerForbidden)
}
