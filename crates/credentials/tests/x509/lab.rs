//! A throw-away authority with a user and a VO's server, the rules for them, and OpenSSL's opinion.

use std::fs;
use std::process::Command;
use std::sync::{Arc, LazyLock};
use std::time::{SystemTime, UNIX_EPOCH};

use credentials::VerifiedCertificate;
use credentials::x509::{CertificateRules, TrustStore, VomsDirectory, verify_chain};
use gsi_wire::to_pem;
use testkit::{Authority, KeyKind, ProxyFault, ProxyOptions, Scratch, User, VomsServer, available};
use types::{Error, ErrorCode};

pub(crate) const JANE: &str = "/O=Crossload test/CN=Jane Doe";

/// An authority, a user and a VO's server, made once: keys take time.
pub(crate) struct Lab {
    pub(crate) scratch: Scratch,
    pub(crate) authority: Authority,
    pub(crate) jane: User,
    pub(crate) server: VomsServer,
}

pub(crate) static LAB: LazyLock<Option<Lab>> = LazyLock::new(|| {
    let scratch = Scratch::new("x509").expect("scratch");
    let authority = available("x509", Authority::new(scratch.path()))?;
    let jane = authority.issue_user(JANE).expect("issued");
    let server = authority.issue_voms_server("testvo").expect("issued");
    Some(Lab {
        scratch,
        authority,
        jane,
        server,
    })
});

pub(crate) fn now_s() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
    i64::try_from(since.as_secs()).expect("small")
}

impl Lab {
    pub(crate) fn rules(&self) -> CertificateRules {
        let files = self.authority.trust_files().expect("readable");
        self.rules_with(files)
    }

    pub(crate) fn rules_with(&self, files: Vec<(String, Vec<u8>)>) -> CertificateRules {
        let (trust, _) = TrustStore::build(files);
        let lsc = self.server.lsc().expect("made");
        let file = (
            "testvo".to_owned(),
            "voms.testvo.example.lsc".to_owned(),
            lsc.into_bytes(),
        );
        let (voms, faults) = VomsDirectory::build([file]);
        assert_eq!(faults, []);
        CertificateRules {
            trust: Arc::new(trust),
            voms: Arc::new(voms),
            host_names: vec!["se.example.org".to_owned()],
            ..CertificateRules::default()
        }
    }

    pub(crate) fn verify(&self, user: &User) -> Result<VerifiedCertificate, Error> {
        verify_chain(&user.chain(), &self.rules(), now_s())
    }

    /// OpenSSL's opinion of the same chain.
    pub(crate) fn openssl(&self, user: &User) -> bool {
        self.openssl_accepts(&user.chain())
    }

    pub(crate) fn openssl_accepts(&self, chain: &[&[u8]]) -> bool {
        let directory = Scratch::new("openssl").expect("scratch");
        let (own, above) = (directory.path().join("own.pem"), directory.path().join("above.pem"));
        fs::write(&own, to_pem("CERTIFICATE", chain[0])).expect("written");
        let rest: String = chain[1..].iter().map(|der| to_pem("CERTIFICATE", der)).collect();
        fs::write(&above, rest).expect("written");
        let mut command = Command::new("openssl");
        command.args(["verify", "-allow_proxy_certs", "-purpose", "sslclient", "-CAfile"]);
        command.arg(self.authority.ca_file());
        if chain.len() > 1 {
            command.arg("-untrusted").arg(above);
        }
        command.arg(own).output().expect("started").status.success()
    }
}

/// A proxy with a key that is made quickly, and a change.
pub(crate) fn with(change: impl FnOnce(&mut ProxyOptions)) -> ProxyOptions {
    let mut options = ProxyOptions {
        key: KeyKind::EcdsaP256,
        ..ProxyOptions::default()
    };
    change(&mut options);
    options
}

pub(crate) fn plain() -> ProxyOptions {
    with(|_| ())
}

pub(crate) fn broken(fault: ProxyFault) -> ProxyOptions {
    with(|options| options.fault = Some(fault))
}

pub(crate) fn code_of(result: Result<VerifiedCertificate, Error>) -> ErrorCode {
    result.expect_err("it is refused").code()
}
