//! The server's side, a type for each state: a message takes it into the next one.

use std::sync::Arc;

use gsi_wire::gsi::agreement::Half;
use gsi_wire::gsi::key::PublicNumbers;
use gsi_wire::gsi::{
    CIPHER, ClientHello, ClientOptions, ClientProof, Fault, Opening, ProxyAnswer, ProxyGrant, ProxyProof, ProxyRequest,
    Result, SERVER_HASH_BYTES, ServerHello, Tag,
};
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, SubjectPublicKeyInfoDer};
use zeroize::Zeroizing;

use super::agreement::Agreement;
use super::cipher::SessionKey;
use super::rsa::{RsaPrivateKey, RsaPublicKey};
use super::{AGREEMENT_BYTES_MAX, CHAIN_MAX, Random, SIGNED_TAG_BYTES_MAX, fresh_tag, pem, server_hash};

/// The digest that is announced. It is used by the requests for proxies only, where both ends
/// choose.
const DIGEST: &str = "sha256";

/// What a server shows of itself.
#[derive(Debug)]
pub struct Host {
    key: RsaPrivateKey,
    /// PEM, and one certificate only, as clients want it.
    certificate: Vec<u8>,
    /// SHA-256 of the certificate.
    hash: [u8; SERVER_HASH_BYTES],
}

impl Host {
    /// A certificate and its private key, both in DER.
    ///
    /// # Errors
    /// The key is none of RSA, too short, or not that of the certificate.
    pub fn new(certificate: &[u8], key: &[u8]) -> Result<Self> {
        let key = RsaPrivateKey::from_der(key)?;
        let certified = RsaPublicKey::of_certificate(certificate)?;
        if certified != *key.public() {
            return Err(Fault("the private key is not that of the certificate"));
        }
        Ok(Self {
            key,
            certificate: pem(certificate),
            hash: server_hash(certificate),
        })
    }
}

/// Our half of the agreement, ready to be sent.
///
/// To make one costs an exponentiation and, with a key of 2048 bits, four private operations of
/// RSA; so the caller uses one for the logins of a short while. Each of them gets a key of its own,
/// because the client's half is fresh, and proves itself by a tag of its own.
#[derive(Debug)]
pub struct Offer {
    agreement: Agreement,
    sealed: Vec<u8>,
}

impl Offer {
    /// A fresh one.
    ///
    /// # Errors
    /// The calculation went wrong.
    pub fn new(host: &Host, random: &mut Random<'_>) -> Result<Self> {
        let agreement = Agreement::offer(random)?;
        let sealed = host.key.seal(agreement.half().encode().as_bytes(), random)?;
        Ok(Self { agreement, sealed })
    }
}

/// The client has opened, and is to prove who it is.
#[derive(Debug)]
pub struct Proving {
    offer: Arc<Offer>,
    options: ClientOptions,
    tag: Tag,
    /// SHA-256 of the certificate that the client was shown.
    host: [u8; SERVER_HASH_BYTES],
}

impl Proving {
    /// Takes the client's first message, and gives the answer to it.
    ///
    /// # Errors
    /// The message cannot be understood, or holds a private key.
    pub fn begin(message: &[u8], host: &Host, offer: Arc<Offer>, random: &mut Random<'_>) -> Result<(Self, Vec<u8>)> {
        check_no_key(message)?;
        let opening = Opening::parse(message)?;
        let tag = fresh_tag(random);
        let answer = ServerHello {
            // Its length is that of a tag, or it would not have been read.
            signed_tag: &host.key.seal(&opening.tag, random)?,
            tag,
            agreement: &offer.sealed,
            ciphers: CIPHER,
            digests: DIGEST,
            certificate: &host.certificate,
        };
        let answer = answer.encode();
        let proving = Self {
            offer,
            options: opening.options,
            tag,
            host: host.hash,
        };
        Ok((proving, answer))
    }

    /// Takes the client's second message. The client then has proved to hold the key of the chain
    /// that it shows; what the chain is worth is for the caller to judge.
    ///
    /// # Errors
    /// The message cannot be understood or decrypted, does not prove it or was meant for another
    /// server; it holds a private key, encrypted or beside that.
    pub fn prove(self, message: &[u8]) -> Result<Proved> {
        check_no_key(message)?;
        let hello = ClientHello::parse(message)?;
        let shown = SubjectPublicKeyInfoDer::from_pem_slice(hello.public_key);
        let shown = shown.map_err(|_| Fault("the client's public key is malformed"))?;
        let shown = RsaPublicKey::new(&PublicNumbers::parse(&shown)?)?;
        let half = Half::parse(&shown.open(hello.agreement, AGREEMENT_BYTES_MAX)?)?;
        let key = self.offer.agreement.key(&half, true)?;
        let plain = Zeroizing::new(key.decrypt(hello.sealed)?);
        check_no_key(&plain)?;
        let proof = ClientProof::parse(&plain)?;
        let chain = read_chain(proof.chain)?;
        let leaf = chain.first().ok_or(Fault("the chain is empty"))?;
        if RsaPublicKey::of_certificate(leaf)? != shown {
            return Err(Fault("the public key is not that of the certificate"));
        }
        if shown.open(proof.signed_tag, SIGNED_TAG_BYTES_MAX)? != self.tag {
            return Err(Fault("the tag that was signed is not ours"));
        }
        // Another server passes on a login that was meant for it.
        if proof.server.is_some_and(|server| server != self.host) {
            return Err(Fault("the login was meant for a server with another certificate"));
        }
        Ok(Proved {
            chain,
            would_delegate: self.options.would_delegate(),
            key,
            tag: proof.tag,
            client: shown,
        })
    }
}

/// The client has proved to hold the key of this chain.
#[derive(Debug)]
pub struct Proved {
    /// The chain, the client's own certificate or proxy first.
    pub chain: Vec<CertificateDer<'static>>,
    /// Whether the client would sign a request for a delegated proxy.
    pub would_delegate: bool,
    key: SessionKey,
    tag: Tag,
    client: RsaPublicKey,
}

impl Proved {
    /// Asks for a delegated proxy; `request` is a certificate request in PEM.
    ///
    /// # Errors
    /// The calculation went wrong.
    pub fn ask_proxy(self, request: &[u8], host: &Host, random: &mut Random<'_>) -> Result<(Delegating, Vec<u8>)> {
        let tag = fresh_tag(random);
        let content = ProxyRequest {
            signed_tag: &host.key.seal(&self.tag, random)?,
            request,
            tag,
        };
        let answer = ProxyRequest::seal(&self.key.encrypt(&content.encode(), random)?);
        let delegating = Delegating {
            key: self.key,
            tag,
            client: self.client,
        };
        Ok((delegating, answer))
    }
}

/// The client was asked for a proxy.
#[derive(Debug)]
pub struct Delegating {
    key: SessionKey,
    tag: Tag,
    client: RsaPublicKey,
}

impl Delegating {
    /// Takes the client's third message: the proxy's certificate, or why there is none.
    ///
    /// What the proxy is worth is for the caller to judge.
    ///
    /// # Errors
    /// The message cannot be understood or decrypted, or is not the client's; it holds a private
    /// key, or anything but one certificate.
    pub fn receive(self, message: &[u8]) -> Result<std::result::Result<CertificateDer<'static>, String>> {
        check_no_key(message)?;
        let plain = Zeroizing::new(self.key.decrypt(ProxyAnswer::sealed(message)?)?);
        check_no_key(&plain)?;
        let proof = ProxyProof::parse(&plain)?;
        if self.client.open(proof.signed_tag, SIGNED_TAG_BYTES_MAX)? != self.tag {
            return Err(Fault("the tag that was signed is not ours"));
        }
        match proof.grant {
            ProxyGrant::Refused(words) => Ok(Err(words)),
            ProxyGrant::Signed(proxy) => {
                let malformed = Fault("the delegated proxy is malformed");
                let mut chain = read_chain(proxy).map_err(|_| malformed)?;
                match (chain.pop(), chain.is_empty()) {
                    (Some(proxy), true) => Ok(Ok(proxy)),
                    _ => Err(malformed),
                }
            }
        }
    }
}

/// Refuses a message with a private key in it, in whatever part. Keys never travel: one that did is
/// of no use any more, and is neither kept nor shown.
fn check_no_key(bytes: &[u8]) -> Result<()> {
    const LABEL: &[u8] = b"PRIVATE KEY-----";
    match bytes.windows(LABEL.len()).any(|part| part == LABEL) {
        true => Err(Fault("a private key was sent, which must never leave its owner")),
        false => Ok(()),
    }
}

fn read_chain(text: &[u8]) -> Result<Vec<CertificateDer<'static>>> {
    let mut chain = Vec::new();
    for certificate in CertificateDer::pem_slice_iter(text) {
        if chain.len() == CHAIN_MAX {
            return Err(Fault("the chain is too long"));
        }
        chain.push(certificate.map_err(|_| Fault("a certificate is malformed"))?);
    }
    Ok(chain)
}
