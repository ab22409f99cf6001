//! The five messages, and what is encrypted in three of them, with names for their buckets.

use super::buffer::{Buffer, Kind, Step};
use super::{CIPHER, CIPHER_KEY_BYTES, ClientOptions, Fault, Result, SERVER_HASH_BYTES, TAG_BYTES, Tag, VERSION_MIN};

const LIBRARY: &str = "ssl";
/// Characters of the list of authorities, and of other lists, that are read.
const LIST_BYTES_MAX: usize = 16 * 1024;
/// Characters of a refusal that are kept.
const WORDS_BYTES_MAX: usize = 512;

/// The client's first message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opening<'a> {
    /// The client's version.
    pub version: u32,
    /// Hashes of the authorities that the client shares with the server, as the server wrote them.
    pub authorities: &'a str,
    /// What the client is able to do.
    pub options: ClientOptions,
    /// What the server is to sign.
    pub tag: Tag,
}

impl<'a> Opening<'a> {
    /// Reads the message.
    ///
    /// # Errors
    /// A part is missing or malformed, another library, a version before the agreement was signed.
    pub fn parse(bytes: &'a [u8]) -> Result<Self> {
        let buffer = Buffer::parse(bytes)?.of_step(Step::Opening)?;
        if buffer.find(Kind::LIBRARY) != Some(LIBRARY.as_bytes()) {
            return Err(Fault("the client's cryptographic library is unknown"));
        }
        let version = number(buffer.need(Kind::VERSION, "the client's version is missing")?)?;
        if version < VERSION_MIN {
            return Err(Fault("the client's version is too old"));
        }
        let options = buffer.find(Kind::OPTIONS).map(number).transpose()?;
        let main = buffer.need(Kind::MAIN, "the client's tag is missing")?;
        let main = Buffer::parse(main)?.of_step(Step::Opening)?;
        Ok(Self {
            version,
            authorities: buffer.find(Kind::AUTHORITIES).map_or(Ok(""), list)?,
            options: ClientOptions(options.unwrap_or(0)),
            tag: tag(&main)?,
        })
    }

    /// The bytes to send.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let main = Buffer::new(Step::Opening).with(Kind::TAG, &self.tag).encode();
        Buffer::new(Step::Opening)
            .with(Kind::LIBRARY, LIBRARY.as_bytes())
            .with(Kind::VERSION, &self.version.to_be_bytes())
            .with(Kind::AUTHORITIES, self.authorities.as_bytes())
            .with(Kind::OPTIONS, &self.options.0.to_be_bytes())
            .with(Kind::MAIN, &main)
            .encode()
    }
}

/// The server's first message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerHello<'a> {
    /// The client's tag, signed.
    pub signed_tag: &'a [u8],
    /// What the client is to sign.
    pub tag: Tag,
    /// The server's half of the agreement, "encrypted" with its private key.
    pub agreement: &'a [u8],
    /// Names of ciphers, divided by colons.
    pub ciphers: &'a str,
    /// Names of digests, divided by colons.
    pub digests: &'a str,
    /// The server's certificate, PEM.
    pub certificate: &'a [u8],
}

impl<'a> ServerHello<'a> {
    /// Reads the message.
    ///
    /// # Errors
    /// A part is missing or malformed.
    pub fn parse(bytes: &'a [u8]) -> Result<Self> {
        let buffer = Buffer::parse(bytes)?.of_step(Step::Server)?;
        let main = buffer.need(Kind::MAIN, "the server's tag is missing")?;
        let main = Buffer::parse(main)?.of_step(Step::Server)?;
        Ok(Self {
            signed_tag: signed_tag(&main)?,
            tag: tag(&main)?,
            agreement: buffer.need(Kind::AGREEMENT, "the server's agreement is missing")?,
            ciphers: list(buffer.need(Kind::CIPHERS, "the server's ciphers are missing")?)?,
            digests: list(buffer.need(Kind::DIGESTS, "the server's digests are missing")?)?,
            certificate: buffer.need(Kind::CERTIFICATES, "the server's certificate is missing")?,
        })
    }

    /// The bytes to send.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let main = Buffer::new(Step::Server)
            .with(Kind::SIGNED_TAG, self.signed_tag)
            .with(Kind::TAG, &self.tag)
            .encode();
        Buffer::new(Step::Server)
            .with(Kind::LIBRARY, LIBRARY.as_bytes())
            .with(Kind::MAIN, &main)
            .with(Kind::AGREEMENT, self.agreement)
            .with(Kind::CIPHERS, self.ciphers.as_bytes())
            .with(Kind::DIGESTS, self.digests.as_bytes())
            .with(Kind::CERTIFICATES, self.certificate)
            .encode()
    }

    /// Whether the only cipher that we speak is among the server's.
    #[must_use]
    pub fn offers_our_cipher(&self) -> bool {
        self.ciphers.split(':').any(|name| name == CIPHER)
    }

    /// The digest that the server names first.
    #[must_use]
    pub fn first_digest(&self) -> &'a str {
        self.digests.split(':').next().unwrap_or_default()
    }
}

/// The client's second message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientHello<'a> {
    /// A [`ClientProof`], encrypted.
    pub sealed: &'a [u8],
    /// The cipher that the client chose, with the length of its key.
    pub cipher: &'a str,
    /// The digest that it chose.
    pub digest: &'a str,
    /// The client's half of the agreement, "encrypted" with the private key of its proxy.
    pub agreement: &'a [u8],
    /// The proxy's public key, PEM: without it the agreement could not be opened, and without that
    /// the chain.
    pub public_key: &'a [u8],
}

impl<'a> ClientHello<'a> {
    /// Reads the message.
    ///
    /// # Errors
    /// A part is missing or malformed, another cipher than ours.
    pub fn parse(bytes: &'a [u8]) -> Result<Self> {
        let buffer = Buffer::parse(bytes)?.of_step(Step::Client)?;
        let cipher = list(buffer.need(Kind::CIPHERS, "the client's cipher is missing")?)?;
        let (name, length) = cipher.split_once('#').unwrap_or((cipher, "16"));
        if name != CIPHER || length.parse() != Ok(CIPHER_KEY_BYTES) {
            return Err(Fault("the client chose a cipher that was not offered"));
        }
        Ok(Self {
            sealed: buffer.need(Kind::MAIN, "the client's chain is missing")?,
            cipher,
            digest: buffer.find(Kind::DIGESTS).map_or(Ok(""), list)?,
            agreement: buffer.need(Kind::AGREEMENT, "the client's agreement is missing")?,
            public_key: buffer.need(Kind::PUBLIC_KEY, "the client's public key is missing")?,
        })
    }

    /// The bytes to send.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        Buffer::new(Step::Client)
            .with(Kind::LIBRARY, LIBRARY.as_bytes())
            .with(Kind::MAIN, self.sealed)
            .with(Kind::CIPHERS, self.cipher.as_bytes())
            .with(Kind::DIGESTS, self.digest.as_bytes())
            .with(Kind::AGREEMENT, self.agreement)
            .with(Kind::PUBLIC_KEY, self.public_key)
            .encode()
    }
}

/// What the client's second message has in it encrypted: who it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientProof<'a> {
    /// The server's tag, signed.
    pub signed_tag: &'a [u8],
    /// SHA-256 of the certificate of the server that the client means; `None`: it does not say.
    ///
    /// It stands right behind the signature. The cipher (CBC) lets an attacker change a block only
    /// by garbling the one before it, and that is the end of the signature.
    pub server: Option<[u8; SERVER_HASH_BYTES]>,
    /// The chain, PEM, the client's own certificate or proxy first.
    pub chain: &'a [u8],
    /// The user name that the client claims. Ignored.
    pub user: Option<&'a [u8]>,
    /// What the server is to sign if it asks for a proxy.
    pub tag: Tag,
}

impl<'a> ClientProof<'a> {
    /// Reads it.
    ///
    /// # Errors
    /// A part is missing or malformed.
    pub fn parse(bytes: &'a [u8]) -> Result<Self> {
        let buffer = Buffer::parse(bytes)?.of_step(Step::Client)?.of_known_kinds()?;
        let server = buffer.find(Kind::SERVER).map(<[u8; SERVER_HASH_BYTES]>::try_from);
        let server = server.transpose();
        Ok(Self {
            signed_tag: signed_tag(&buffer)?,
            server: server.map_err(|_| Fault("the name of the server is not of 32 bytes"))?,
            chain: buffer.need(Kind::CERTIFICATES, "the client's chain is missing")?,
            user: buffer.find(Kind::USER),
            tag: tag(&buffer)?,
        })
    }

    /// The bytes to encrypt.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let buffer = Buffer::new(Step::Client).with(Kind::SIGNED_TAG, self.signed_tag);
        let buffer = match &self.server {
            Some(server) => buffer.with(Kind::SERVER, server),
            None => buffer,
        };
        let buffer = buffer.with(Kind::CERTIFICATES, self.chain);
        let buffer = match self.user {
            Some(user) => buffer.with(Kind::USER, user),
            None => buffer,
        };
        buffer.with(Kind::TAG, &self.tag).encode()
    }
}

/// The server's second message and the client's third, which look alike: everything in them is
/// encrypted.
fn parse_sealed(bytes: &[u8], step: Step) -> Result<&[u8]> {
    let buffer = Buffer::parse(bytes)?.of_step(step)?;
    buffer.need(Kind::MAIN, "the message has no content")
}

fn encode_sealed(sealed: &[u8], step: Step) -> Vec<u8> {
    Buffer::new(step)
        .with(Kind::LIBRARY, LIBRARY.as_bytes())
        .with(Kind::MAIN, sealed)
        .encode()
}

/// What the server's second message has in it encrypted: a request for a delegated proxy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProxyRequest<'a> {
    /// The client's tag, signed.
    pub signed_tag: &'a [u8],
    /// The certificate request, PEM.
    pub request: &'a [u8],
    /// What the client is to sign.
    pub tag: Tag,
}

impl<'a> ProxyRequest<'a> {
    /// What is encrypted in a message that asks for a proxy.
    ///
    /// # Errors
    /// The message is another one.
    pub fn sealed(bytes: &[u8]) -> Result<&[u8]> {
        parse_sealed(bytes, Step::ProxyRequest)
    }

    /// The message around what was encrypted.
    #[must_use]
    pub fn seal(sealed: &[u8]) -> Vec<u8> {
        encode_sealed(sealed, Step::ProxyRequest)
    }

    /// Reads what was decrypted.
    ///
    /// # Errors
    /// A part is missing or malformed.
    pub fn parse(bytes: &'a [u8]) -> Result<Self> {
        let buffer = Buffer::parse(bytes)?.of_step(Step::ProxyRequest)?;
        Ok(Self {
            signed_tag: signed_tag(&buffer)?,
            request: buffer.need(Kind::REQUEST, "the request for a proxy is missing")?,
            tag: tag(&buffer)?,
        })
    }

    /// The bytes to encrypt.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        Buffer::new(Step::ProxyRequest)
            .with(Kind::SIGNED_TAG, self.signed_tag)
            .with(Kind::REQUEST, self.request)
            .with(Kind::TAG, &self.tag)
            .encode()
    }
}

/// What the client makes of a request for a proxy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProxyGrant<'a> {
    /// The proxy, PEM, without a key.
    Signed(&'a [u8]),
    /// It will not, and says why.
    Refused(String),
}

/// The client's third message, encrypted in a message of its own.
#[derive(Clone, Copy, Debug)]
pub struct ProxyAnswer;

impl ProxyAnswer {
    /// What is encrypted in the message.
    ///
    /// # Errors
    /// The message is another one.
    pub fn sealed(bytes: &[u8]) -> Result<&[u8]> {
        parse_sealed(bytes, Step::Proxy)
    }

    /// The message around what was encrypted.
    #[must_use]
    pub fn seal(sealed: &[u8]) -> Vec<u8> {
        encode_sealed(sealed, Step::Proxy)
    }
}

/// What the client's third message has in it encrypted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProxyProof<'a> {
    /// The server's tag, signed.
    pub signed_tag: &'a [u8],
    /// The proxy, or why there is none.
    pub grant: ProxyGrant<'a>,
}

impl<'a> ProxyProof<'a> {
    /// Reads what was decrypted.
    ///
    /// # Errors
    /// A part is missing or malformed.
    pub fn parse(bytes: &'a [u8]) -> Result<Self> {
        let buffer = Buffer::parse(bytes)?.of_step(Step::Proxy)?;
        let grant = match buffer.find(Kind::CERTIFICATES) {
            Some(proxy) => ProxyGrant::Signed(proxy),
            None => {
                let words = buffer.need(Kind::WORDS, "the proxy is missing")?;
                let plain = |byte: &u8| {
                    if byte.is_ascii_graphic() {
                        char::from(*byte)
                    } else {
                        ' '
                    }
                };
                let words: String = words.iter().take(WORDS_BYTES_MAX).map(plain).collect();
                ProxyGrant::Refused(words.trim().to_owned())
            }
        };
        Ok(Self {
            signed_tag: signed_tag(&buffer)?,
            grant,
        })
    }

    /// The bytes to encrypt.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let buffer = Buffer::new(Step::Proxy).with(Kind::SIGNED_TAG, self.signed_tag);
        match &self.grant {
            ProxyGrant::Signed(proxy) => buffer.with(Kind::CERTIFICATES, proxy).encode(),
            ProxyGrant::Refused(words) => buffer.with(Kind::WORDS, words.as_bytes()).encode(),
        }
    }
}

fn number(bytes: &[u8]) -> Result<u32> {
    let bytes = bytes.try_into().map_err(|_| Fault("a number is not of four bytes"))?;
    Ok(u32::from_be_bytes(bytes))
}

/// A tag of exactly the usual length, see [`TAG_BYTES`].
fn tag(buffer: &Buffer<'_>) -> Result<Tag> {
    let bytes = buffer.need(Kind::TAG, "the tag is missing")?;
    bytes.try_into().map_err(|_| Fault("the tag is not of eight bytes"))
}

fn signed_tag<'a>(buffer: &Buffer<'a>) -> Result<&'a [u8]> {
    buffer.need(Kind::SIGNED_TAG, "the signed tag is missing")
}

/// A list of names: printable, and not endless.
fn list(bytes: &[u8]) -> Result<&str> {
    let text = bytes.strip_suffix(b"\0").unwrap_or(bytes);
    let is_plain = text.len() <= LIST_BYTES_MAX && text.iter().all(u8::is_ascii_graphic);
    let text = std::str::from_utf8(text).ok().filter(|_| is_plain);
    text.ok_or(Fault("a list of names is malformed"))
}

const _: () = assert!(TAG_BYTES == 8);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_of_another_length_is_never_read() {
        // 51 bytes would be a SHA-256 digest with its name: a signature over it is one over a
        // document.
        for length in [0, 7, 9, 35, 51] {
            let tag = vec![0x30; length];
            let main = Buffer::new(Step::Opening).with(Kind::TAG, &tag).encode();
            let opening = Buffer::new(Step::Opening)
                .with(Kind::LIBRARY, b"ssl")
                .with(Kind::VERSION, &[0, 0, 0x29, 0x68])
                .with(Kind::MAIN, &main)
                .encode();
            assert_eq!(
                Opening::parse(&opening),
                Err(Fault("the tag is not of eight bytes")),
                "{length}"
            );
        }
    }

    #[test]
    fn only_our_cipher_is_taken() {
        let hello = |cipher: &str| {
            let bytes = Buffer::new(Step::Client)
                .with(Kind::MAIN, b"m")
                .with(Kind::AGREEMENT, b"a")
                .with(Kind::PUBLIC_KEY, b"k")
                .with(Kind::CIPHERS, cipher.as_bytes())
                .encode();
            ClientHello::parse(&bytes).map(|_| ())
        };
        assert!(hello("aes-128-cbc#16").is_ok() && hello("aes-128-cbc").is_ok());
        for cipher in [
            "bf-cbc",
            "bf-cbc#64",
            "aes-128-cbc#8",
            "aes-128-cbc#",
            "aes-256-cbc#32",
            "",
        ] {
            assert!(hello(cipher).is_err(), "{cipher}");
        }
    }

    #[test]
    fn a_refusal_is_one_printable_line() {
        let bytes = Buffer::new(Step::Proxy)
            .with(Kind::SIGNED_TAG, b"s")
            .with(Kind::WORDS, b"no\nkey\0")
            .encode();
        let proof = ProxyProof::parse(&bytes).unwrap();
        assert_eq!(proof.grant, ProxyGrant::Refused("no key".to_owned()));
    }
}
