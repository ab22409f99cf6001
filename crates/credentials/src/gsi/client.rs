//! The client's side, a type for each state.

use gsi_wire::gsi::agreement::Half;
use gsi_wire::gsi::{
    CIPHER, CIPHER_KEY_BYTES, ClientHello, ClientOptions, ClientProof, Fault, Opening, ProxyAnswer, ProxyGrant,
    ProxyProof, ProxyRequest, Result, ServerEntry, ServerHello, Tag, VERSION,
};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject as _;

use super::agreement::Agreement;
use super::cipher::SessionKey;
use super::rsa::{RsaPrivateKey, RsaPublicKey};
use super::{AGREEMENT_BYTES_MAX, Random, SIGNED_TAG_BYTES_MAX, fresh_tag, pem, server_hash};

/// What a client shows of itself.
#[derive(Debug)]
pub struct Holder {
    key: RsaPrivateKey,
    /// The chain, PEM.
    chain: Vec<u8>,
    /// The public key of the first certificate, PEM.
    public_key: Vec<u8>,
}

impl Holder {
    /// A chain, its first certificate's private key (both DER).
    ///
    /// # Errors
    /// The key is none of RSA, too short, or not that of the certificate.
    pub fn new(chain: &[CertificateDer<'_>], key: &[u8]) -> Result<Self> {
        let key = RsaPrivateKey::from_der(key)?;
        let leaf = chain.first().ok_or(Fault("the chain is empty"))?;
        if RsaPublicKey::of_certificate(leaf)? != *key.public() {
            return Err(Fault("the private key is not that of the certificate"));
        }
        Ok(Self {
            public_key: key.public_pem(),
            chain: chain.iter().flat_map(|certificate| pem(certificate)).collect(),
            key,
        })
    }
}

/// We have opened, and the server is to answer.
#[derive(Debug)]
pub struct Opened {
    tag: Tag,
    pads_secret: bool,
}

impl Opened {
    /// The first message to a server that offers itself like this.
    pub fn begin(server: &ServerEntry, options: ClientOptions, random: &mut Random<'_>) -> (Self, Vec<u8>) {
        let tag = fresh_tag(random);
        let opening = Opening {
            version: VERSION,
            authorities: &server.authority_list(),
            options,
            tag,
        };
        let pads_secret = server.pads_secret;
        let message = opening.encode();
        (Self { tag, pads_secret }, message)
    }

    /// Takes the server's first message. The server then has proved to hold the key of the
    /// certificate that it shows; whether that is the server that was meant is for the caller to
    /// check, before anything is shown.
    ///
    /// # Errors
    /// The message cannot be understood, or does not prove it; no cipher of ours.
    pub fn hear(self, message: &[u8]) -> Result<Heard> {
        let hello = ServerHello::parse(message)?;
        let malformed = |_| Fault("the server's certificate is malformed");
        let certificate = CertificateDer::from_pem_slice(hello.certificate).map_err(malformed)?;
        let server = RsaPublicKey::of_certificate(&certificate)?;
        if server.open(hello.signed_tag, SIGNED_TAG_BYTES_MAX)? != self.tag {
            return Err(Fault("the tag that was signed is not ours"));
        }
        if !hello.offers_our_cipher() {
            return Err(Fault("the server does not offer the cipher aes-128-cbc"));
        }
        let theirs = Half::parse(&server.open(hello.agreement, AGREEMENT_BYTES_MAX)?)?;
        Ok(Heard {
            certificate,
            server,
            theirs,
            tag: hello.tag,
            digest: hello.first_digest().to_owned(),
            pads_secret: self.pads_secret,
        })
    }
}

/// The server has proved to hold the key of this certificate.
#[derive(Debug)]
pub struct Heard {
    /// The server's certificate.
    pub certificate: CertificateDer<'static>,
    server: RsaPublicKey,
    theirs: Half,
    tag: Tag,
    digest: String,
    pads_secret: bool,
}

impl Heard {
    /// The second message: who we are. To be sent to a server only whose certificate was checked.
    ///
    /// # Errors
    /// The server's agreement is of no use.
    pub fn show(self, holder: &Holder, random: &mut Random<'_>) -> Result<(Shown, Vec<u8>)> {
        let ours = Agreement::answer(&self.theirs, random)?;
        let key = ours.key(&self.theirs, self.pads_secret)?;
        let tag = fresh_tag(random);
        let proof = ClientProof {
            signed_tag: &holder.key.seal(&self.tag, random)?,
            server: Some(server_hash(&self.certificate)),
            chain: &holder.chain,
            user: None,
            tag,
        };
        let hello = ClientHello {
            sealed: &key.encrypt(&proof.encode(), random)?,
            cipher: &format!("{CIPHER}#{CIPHER_KEY_BYTES}"),
            digest: &self.digest,
            agreement: &holder.key.seal(ours.half().encode().as_bytes(), random)?,
            public_key: &holder.public_key,
        };
        let message = hello.encode();
        let server = self.server;
        Ok((Shown { server, key, tag }, message))
    }
}

/// We have shown who we are; the server may ask for a proxy.
#[derive(Debug)]
pub struct Shown {
    server: RsaPublicKey,
    key: SessionKey,
    tag: Tag,
}

impl Shown {
    /// Answers a request for a proxy. `sign` makes of the request (PEM) the proxy (PEM), or says
    /// why not.
    ///
    /// # Errors
    /// The message cannot be understood, or is not the server's.
    pub fn delegate(
        &self,
        message: &[u8],
        holder: &Holder,
        sign: impl FnOnce(&[u8]) -> std::result::Result<Vec<u8>, String>,
        random: &mut Random<'_>,
    ) -> Result<Vec<u8>> {
        let plain = self.key.decrypt(ProxyRequest::sealed(message)?)?;
        let asked = ProxyRequest::parse(&plain)?;
        if self.server.open(asked.signed_tag, SIGNED_TAG_BYTES_MAX)? != self.tag {
            return Err(Fault("the tag that was signed is not ours"));
        }
        let signed = sign(asked.request);
        let proof = ProxyProof {
            signed_tag: &holder.key.seal(&asked.tag, random)?,
            grant: match &signed {
                Ok(proxy) => ProxyGrant::Signed(proxy),
                Err(why) => ProxyGrant::Refused(why.clone()),
            },
        };
        Ok(ProxyAnswer::seal(&self.key.encrypt(&proof.encode(), random)?))
    }
}
