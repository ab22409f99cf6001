//! Follows changes of the authorities' files: those for clients' certificates, and those trusted
//! when this server connects to peers.
//!
//! A blocking thread reads them, never a request. The result is replaced as a whole.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::limits::{FILE_WATCH_PERIOD, LOGGED_FAULTS_MAX};
use config::Configuration;
use identity::{CertificateFiles, CertificateReport, Certificates, directory_fingerprint};
use net::tls::{ClientTls, Trust, Trusted};
use serde_json::{Value, json};
use types::Error;

use super::assemble::named_place;
use super::log::Log;
use super::subsystem::{Change, Ground, Renewal, Subsystem};
use crate::failure::Failure;

/// The files to read, and the state of the last reading.
struct Watched {
    /// For clients' certificates; `None`: none are accepted.
    files: Option<CertificateFiles>,
    /// For connections to peers.
    trust: Trust,
    refresh: Duration,
    fingerprint: u64,
    read: Instant,
    report: CertificateReport,
    trusted: Trusted,
}

impl Watched {
    fn fingerprint(&self) -> u64 {
        let files = self.files.as_ref().map_or(0, CertificateFiles::fingerprint);
        let directories = self.trust.directories.iter();
        directories
            .map(|directory: &PathBuf| directory_fingerprint(directory, 0))
            .fold(files, |sum, one| sum.rotate_left(1) ^ one)
    }
}

/// The files and their contents. Clones share them.
#[derive(Clone)]
pub(crate) struct TrustFiles {
    watched: Arc<Mutex<Watched>>,
    facts: Arc<Mutex<Option<door_admin::Trust>>>,
    certificates: Certificates,
    client: ClientTls,
    log: Log,
}

impl Subsystem for TrustFiles {
    type Ground = Ground;

    /// Reads the files.
    fn build(ground: &Ground, configuration: &Configuration) -> Result<Self, Failure> {
        let watched = Watched {
            files: files(configuration),
            trust: trust(configuration),
            refresh: configuration.x509.refresh,
            fingerprint: 0,
            read: Instant::now(),
            report: CertificateReport::default(),
            trusted: Trusted::default(),
        };
        let this = Self {
            watched: Arc::new(Mutex::new(watched)),
            facts: Arc::default(),
            certificates: ground.authenticator.judge(),
            client: ground.trust.clone(),
            log: ground.log.clone(),
        };
        this.read(&mut this.lock());
        Ok(this)
    }

    /// Unusable authorities stop the reload.
    fn renew<'a>(&'a self, change: &Change<'a>) -> Result<Renewal<'a>, Failure> {
        let fresh = change.fresh;
        ClientTls::load(&trust(fresh)).map_err(unusable)?;
        Ok(Box::new(move || self.replace(fresh)))
    }
}

/// The authorities of `[trust]` cannot be used.
pub(crate) fn unusable(error: Error) -> Failure {
    Failure::of_tls_files("[trust]", error)
}

impl TrustFiles {
    /// Facts about the files for clients' certificates; `None` if none are accepted. Does not wait
    /// for a running read.
    pub(crate) fn facts(&self) -> Option<door_admin::Trust> {
        *self.facts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The files and the interval.
    #[cfg(test)]
    pub(crate) fn followed(&self) -> String {
        let watched = self.lock();
        format!("{:?} {:?} {:?}", watched.files, watched.trust, watched.refresh)
    }

    /// Switches to other files and reads them at once.
    fn replace(&self, configuration: &Configuration) {
        let mut watched = self.lock();
        watched.trust = trust(configuration);
        watched.files = files(configuration);
        watched.refresh = configuration.x509.refresh;
        self.read(&mut watched);
    }

    /// Checks the files periodically, while the server runs.
    pub(crate) async fn keep(self) {
        loop {
            tokio::time::sleep(FILE_WATCH_PERIOD).await;
            let this = self.clone();
            // A panic does not affect the next check.
            let _ = execution::blocking(move || this.look()).await;
        }
    }

    fn look(&self) {
        let mut watched = self.lock();
        if watched.fingerprint() != watched.fingerprint || watched.read.elapsed() >= watched.refresh {
            self.read(&mut watched);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Watched> {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads everything. The fingerprint is taken first, so that the next check notices a change
    /// during the read.
    fn read(&self, watched: &mut Watched) {
        watched.fingerprint = watched.fingerprint();
        watched.read = Instant::now();
        match self.client.reload(&watched.trust) {
            Ok(trusted) if trusted != watched.trusted => {
                watched.trusted = trusted;
                let facts = json!({"authorities": trusted.authorities, "revocation_lists": trusted.revocation_lists,
                    "faults": trusted.faults});
                self.log.write("trust", &facts);
            }
            Ok(_) => {}
            Err(error) => {
                let words = error.to_string();
                self.log.write(
                    "trust_failed",
                    &json!({"error": words, "kept": "the old authorities stay in use"}),
                );
            }
        }
        let Some(files) = &watched.files else {
            self.certificates.replace(None);
            self.note(watched, CertificateReport::default());
            return;
        };
        let known = self.certificates.rules();
        let (rules, report) = files.read(known.as_deref());
        self.certificates.replace(Some(rules));
        if report != watched.report {
            self.log.write("certificates", &shown(&report));
        }
        self.note(watched, report);
    }

    fn note(&self, watched: &mut Watched, report: CertificateReport) {
        let facts = watched.files.is_some().then_some(door_admin::Trust {
            authorities: report.authorities,
            revocation_lists: report.revocation_lists,
            oldest_list_s: report.oldest_list_s,
            next_update_s: report.next_update_s,
            faults: report.faults.len(),
        });
        *self.facts.lock().unwrap_or_else(PoisonError::into_inner) = facts;
        watched.report = report;
    }
}

/// The authorities trusted when this server connects to peers.
pub(crate) fn trust(configuration: &Configuration) -> Trust {
    Trust {
        files: configuration.trust.ca_files.clone(),
        directories: configuration.trust.ca_directories.clone(),
        system: configuration.trust.system,
        ..Trust::default()
    }
}

/// The files for clients' certificates; `None` if none are accepted.
pub(super) fn files(configuration: &Configuration) -> Option<CertificateFiles> {
    let named = named_place(configuration).map(|place| place.host().to_owned());
    let x509 = &configuration.x509;
    x509.can_verify().then(|| CertificateFiles {
        trust_directory: x509.trust_directory.clone(),
        system_authorities: x509.system_authorities,
        revocation: x509.revocation,
        voms_directory: x509.voms_directory.clone(),
        grid_map_file: x509.grid_map_file.clone(),
        voms_map_file: x509.voms_map_file.clone(),
        host_names: named.into_iter().collect(),
    })
}

fn shown(report: &CertificateReport) -> Value {
    let faults = report.faults.iter().take(LOGGED_FAULTS_MAX);
    let faults: Vec<Value> = faults
        .map(|fault| json!({"file": fault.file, "why": fault.why}))
        .collect();
    json!({"authorities": report.authorities, "revocation_lists": report.revocation_lists,
        "oldest_revocation_list_s": report.oldest_list_s, "vos": report.vos, "mappings": report.mappings,
        "fault_count": report.faults.len(), "faults": faults})
}
