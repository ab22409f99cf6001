//! Keys about certificates that clients show.

use std::path::PathBuf;
use std::time::Duration;

use credentials::x509::Revocation;

use crate::section;
use crate::section::{LIVE, Purpose};
use crate::values::ClientCertificates;

section! {
    /// Certificates and proxies of clients, over TLS with both protocols and by the XRootD protocol's `gsi`. All files
    /// are read again while the server runs: within seconds when they change, and in any case every `refresh`. A file
    /// that is broken stops nothing: what it said before still holds, and the log says why. See certificates.md.
    "x509" false X509 {
        /// Whether clients are asked for a certificate in the TLS handshake; they need not have any. When not set they
        /// are asked where there is a trust directory or the system's authorities are believed.
        client_certificates: Option<ClientCertificates> = Some(None) => LIVE;
        /// The directory of authorities whose certificates are believed, with their revocation lists and the names that
        /// they may sign (`HASH.0`, `HASH.r0`, `*.namespaces`, `*.signing_policy`), as grid sites keep it in
        /// `/etc/grid-security/certificates`.
        trust_directory: Option<PathBuf> = Some(None) => LIVE.file(Purpose::FollowedRights, "the trust directory");
        /// Whether the operating system's authorities are believed too. They give certificates to anybody who owns a
        /// domain: rules must then name people, not only ask for a certificate.
        system_authorities: bool = Some(false) => LIVE;
        /// What is demanded of the authorities' revocation lists: that each has one that is not out of date, that one
        /// that is there is not out of date, or nothing, so that revoked certificates are accepted.
        revocation: Revocation = Some(Revocation::IfPresent) => LIVE;
        /// The directory that says which servers speak for which virtual organisation (`VO/HOST.lsc`), as grid sites
        /// keep it in `/etc/grid-security/vomsdir`. Without it nobody is in one by certificate.
        voms_directory: Option<PathBuf> = Some(None) => LIVE.file(Purpose::FollowedRights, "the VOMS directory");
        /// The file that gives local users to names of certificates: lines `"/DC=org/CN=Jane Doe" jdoe`.
        grid_map_file: Option<PathBuf> = Some(None) => LIVE.file(Purpose::FollowedRights, "the grid map");
        /// The file that gives local users to attributes of VOMS: lines `"/vo/Role=production" voprod`.
        voms_map_file: Option<PathBuf> = Some(None) => LIVE.file(Purpose::FollowedRights, "the VOMS map");
        /// How often all these files are read again though nothing seems to have changed.
        refresh: Duration = Some(Duration::from_secs(600)) => LIVE;
    }
}

impl X509 {
    /// Whether anybody's certificate can be believed.
    pub fn believes_anybody(&self) -> bool {
        self.trust_directory.is_some() || self.system_authorities
    }

    /// Whether clients are asked.
    pub fn asks(&self) -> ClientCertificates {
        let default = match self.believes_anybody() {
            true => ClientCertificates::Optional,
            false => ClientCertificates::Off,
        };
        self.client_certificates.unwrap_or(default)
    }

    /// What no key can be wrong about alone.
    pub(crate) fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        if self.client_certificates == Some(ClientCertificates::Optional) && !self.believes_anybody() {
            let words = "client_certificates: nobody's can be believed without trust_directory or system_authorities";
            faults.push(words.to_owned());
        }
        if self.refresh < Duration::from_secs(1) {
            faults.push("refresh: must be at least 1s".to_owned());
        }
        faults
    }
}
