//! Users with certificates, and authorities below the first one.

use std::fs;
use std::path::{Path, PathBuf};

use gsi_wire::delegation::{CertificateRequest, ProxyDraft};
use gsi_wire::proxy::ProxyPolicy;
use gsi_wire::{Certificate, to_pem};
use rustls_pki_types::CertificateSigningRequestDer;
use rustls_pki_types::pem::PemObject as _;

use crate::authority::write_private;
use crate::certificate::{CertificateOptions, Signer, SigningPair, name_der};
use crate::{Authority, Error, Result};

/// A certificate with its key: of a user, a service, or a proxy of one. The chain begins with this
/// certificate and ends below the authority.
#[derive(Debug, Clone)]
pub struct User {
    pub(crate) chain: Vec<Vec<u8>>,
    pub(crate) pair: SigningPair,
    /// How many of the certificates in the chain are proxies.
    pub(crate) proxies: usize,
}

/// An authority that another one has certified.
#[derive(Debug, Clone)]
pub struct Subordinate {
    signer: Signer,
    /// Its own certificate and those above, without the first authority's.
    chain: Vec<Vec<u8>>,
}

impl User {
    /// The chain in DER, this certificate first.
    #[must_use]
    pub fn chain(&self) -> Vec<&[u8]> {
        self.chain.iter().map(Vec::as_slice).collect()
    }

    /// The chain and nothing else, in PEM.
    #[must_use]
    pub fn chain_pem(&self) -> String {
        self.chain.iter().map(|der| to_pem("CERTIFICATE", der)).collect()
    }

    /// The key of the first certificate.
    #[must_use]
    pub fn key(&self) -> &SigningPair {
        &self.pair
    }

    /// The certificate that an authority issued, in DER: what all proxies come from.
    #[must_use]
    pub fn end_entity(&self) -> &[u8] {
        &self.chain[self.proxies]
    }

    /// The name of whom the certificate was issued to, in one line.
    ///
    /// # Errors
    /// [`Error::Failed`] when it was made unreadable.
    pub fn dn(&self) -> Result<String> {
        Ok(parsed(self.end_entity())?.subject().one_line.to_owned())
    }

    /// The number of the certificate that an authority issued.
    ///
    /// # Errors
    /// As [`Self::dn`].
    pub fn serial(&self) -> Result<Vec<u8>> {
        Ok(parsed(self.end_entity())?.serial().to_vec())
    }

    /// Writes one file as grid programs keep proxies: the first certificate, its key, the rest of
    /// the chain.
    ///
    /// # Errors
    /// [`Error::Failed`] when it cannot be written.
    pub fn write_proxy(&self, path: &Path) -> Result<PathBuf> {
        let mut text = to_pem("CERTIFICATE", &self.chain[0]);
        text.push_str(&self.pair.private_pem());
        for der in &self.chain[1..] {
            text.push_str(&to_pem("CERTIFICATE", der));
        }
        write_private(path, &text)?;
        Ok(path.to_owned())
    }

    /// Writes two files, `LABEL.pem` with the chain and `LABEL.key` with the key.
    ///
    /// # Errors
    /// [`Error::Failed`] when they cannot be written.
    pub fn write_pair(&self, directory: &Path, label: &str) -> Result<(PathBuf, PathBuf)> {
        let (chain, key) = (
            directory.join(format!("{label}.pem")),
            directory.join(format!("{label}.key")),
        );
        fs::write(&chain, self.chain_pem())?;
        write_private(&key, &self.pair.private_pem())?;
        Ok((chain, key))
    }

    /// Signs a full proxy for a request (PEM), as a client that delegates. It ends `number` seconds
    /// before this certificate; the number is also its name and serial. Gives it with the chain, in
    /// PEM.
    ///
    /// # Errors
    /// [`Error::Failed`] for what is no request.
    pub fn sign_request(&self, request: &str, number: u32) -> Result<String> {
        let unreadable = |why: &dyn std::fmt::Display| Error::during("a certificate request", why);
        let request =
            CertificateSigningRequestDer::from_pem_slice(request.as_bytes()).map_err(|why| unreadable(&why))?;
        let request = CertificateRequest::parse(&request).map_err(|why| unreadable(&why))?;
        let issuer = parsed(&self.chain[0])?;
        let draft = ProxyDraft {
            issuer: issuer.subject().der,
            common_name: &number.to_string(),
            serial: &number.to_be_bytes(),
            public_key_info: request.public_key_info,
            not_before_s: issuer.not_before_s(),
            not_after_s: issuer.not_after_s() - i64::from(number),
            policy: ProxyPolicy::Full,
            path_length: None,
            extensions: Vec::new(),
        };
        let sign = |content: &[u8]| Ok(self.pair.sign(content)?);
        let proxy = draft
            .encode::<Box<dyn std::error::Error>>(self.pair.kind(), sign)
            .map_err(|why| Error::during("a proxy", why))?;
        Ok(to_pem("CERTIFICATE", &proxy) + &self.chain_pem())
    }

    pub(crate) fn signer(&self) -> Result<Signer> {
        Ok(Signer {
            name: parsed(&self.chain[0])?.subject().der.to_vec(),
            pair: self.pair.clone(),
        })
    }
}

/// Reads a certificate that this crate made.
pub(crate) fn parsed(der: &[u8]) -> Result<Certificate<'_>> {
    Certificate::parse(der).map_err(|why| Error::during("a certificate that was made here", why))
}

impl Authority {
    /// Issues a certificate to a user with this name in one line. Names that begin with
    /// `/O=Crossload test/` are those that the signing policy in the trust directory permits.
    ///
    /// # Errors
    /// [`Error::Failed`] when the name is not understood.
    pub fn issue_user(&self, dn: &str) -> Result<User> {
        self.issue(dn, &CertificateOptions::default())
    }

    /// Issues any certificate, sound or not.
    ///
    /// # Errors
    /// As [`Self::issue_user`].
    pub fn issue(&self, dn: &str, options: &CertificateOptions) -> Result<User> {
        let made = options.make(&name_der(dn)?, self.signer())?;
        Ok(User {
            chain: vec![made.der],
            pair: made.pair,
            proxies: 0,
        })
    }

    /// Certifies an authority below this one. It is not in the trust directory.
    ///
    /// # Errors
    /// As [`Self::issue_user`].
    pub fn issue_authority(&self, dn: &str) -> Result<Subordinate> {
        let options = CertificateOptions {
            is_ca: true,
            ..CertificateOptions::default()
        };
        let name = name_der(dn)?;
        let made = options.make(&name, self.signer())?;
        Ok(Subordinate {
            chain: vec![made.der],
            signer: Signer { name, pair: made.pair },
        })
    }
}

impl Subordinate {
    /// Issues a certificate to a user; its chain has this authority's behind it.
    ///
    /// # Errors
    /// As [`Authority::issue_user`].
    pub fn issue_user(&self, dn: &str) -> Result<User> {
        let made = CertificateOptions::default().make(&name_der(dn)?, &self.signer)?;
        let mut chain = vec![made.der];
        chain.extend(self.chain.iter().cloned());
        Ok(User {
            chain,
            pair: made.pair,
            proxies: 0,
        })
    }

    /// Its own certificate in DER.
    #[must_use]
    pub fn der(&self) -> &[u8] {
        &self.chain[0]
    }
}

impl User {
    /// Issues a certificate as if this were an authority, which it is not.
    ///
    /// # Errors
    /// As [`Authority::issue_user`].
    pub fn issue_unlawfully(&self, dn: &str) -> Result<User> {
        let made = CertificateOptions::default().make(&name_der(dn)?, &self.signer()?)?;
        let mut chain = vec![made.der];
        chain.extend(self.chain.iter().cloned());
        Ok(User {
            chain,
            pair: made.pair,
            proxies: 0,
        })
    }
}
