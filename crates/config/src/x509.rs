//! Keys about the certificates of clients.

use std::path::PathBuf;
use std::time::Duration;

use credentials::x509::Revocation;

use crate::section;
use crate::section::{LIVE, Purpose};
use crate::values::ClientCertificates;

section! {
    /// Client certificates and proxies, over TLS in both protocols and by XRootD's `gsi`. All files
    /// are read again within seconds of a change, and at least every `refresh`. If a file is
    /// broken, its old content stays in use and the log says why. See certificates.md.
    "x509" false X509 {
        /// Ask clients for a certificate in the TLS handshake; they need not have one. When not
        /// set: `"optional"` with a trust directory or the system's authorities, else `"off"`.
        client_certificates: Option<ClientCertificates> = Some(None) => LIVE;
        /// Directory of trusted authorities, with their revocation lists and the names that they
        /// may sign (`HASH.0`, `HASH.r0`, `*.namespaces`, `*.signing_policy`). Grid sites keep it
        /// in `/etc/grid-security/certificates`.
        trust_directory: Option<PathBuf> = Some(None) => LIVE.file(Purpose::FollowedRights, "the trust directory");
        /// Trust the operating system's authorities too. They issue certificates to anyone who owns
        /// a domain, so rules must name people instead of merely requiring a certificate.
        system_authorities: bool = Some(false) => LIVE;
        /// What is required of revocation lists. `"required"`: every authority has a current one;
        /// `"if-present"`: a list that exists must be current; `"off"`: revoked certificates are
        /// accepted.
        revocation: Revocation = Some(Revocation::IfPresent) => LIVE;
        /// Directory that lists which servers speak for which virtual organisation (`VO/HOST.lsc`).
        /// Grid sites keep it in `/etc/grid-security/vomsdir`. Without it, certificates carry no VO
        /// membership.
        voms_directory: Option<PathBuf> = Some(None) => LIVE.file(Purpose::FollowedRights, "the VOMS directory");
        /// File that maps certificate subjects to local users, with lines such as `"/DC=org/CN=Jane
        /// Doe" jdoe`.
        grid_map_file: Option<PathBuf> = Some(None) => LIVE.file(Purpose::FollowedRights, "the grid map");
        /// File that maps VOMS attributes to local users, with lines such as `"/vo/Role=production"
        /// voprod`.
        voms_map_file: Option<PathBuf> = Some(None) => LIVE.file(Purpose::FollowedRights, "the VOMS map");
        /// How often these files are read again even if nothing seems to have changed.
        refresh: Duration = Some(Duration::from_secs(600)) => LIVE;
    }
}

impl X509 {
    /// Whether any certificate can be verified.
    pub fn can_verify(&self) -> bool {
        self.trust_directory.is_some() || self.system_authorities
    }

    /// Whether clients are asked for certificates.
    pub fn client_certificate_mode(&self) -> ClientCertificates {
        let default = match self.can_verify() {
            true => ClientCertificates::Optional,
            false => ClientCertificates::Off,
        };
        self.client_certificates.unwrap_or(default)
    }

    /// Mistakes that involve several keys.
    pub(crate) fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        if self.client_certificates == Some(ClientCertificates::Optional) && !self.can_verify() {
            let words =
                "client_certificates: no certificate can be verified; set trust_directory or system_authorities";
            faults.push(words.to_owned());
        }
        if self.refresh < Duration::from_secs(1) {
            faults.push("refresh: must be at least 1s".to_owned());
        }
        faults
    }
}
