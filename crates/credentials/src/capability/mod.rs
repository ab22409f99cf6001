//! Capabilities: a server that has authorised a request over TLS gives one to the client, so that
//! the payload can go in clear text (as DPM did it: "HTTPS redirects with a token to HTTP").
//!
//! A capability is the outcome of one decision. It lets one client address do one thing with one
//! file, for a minute or so; for writing it counts once. It is sealed, so that an eavesdropper
//! learns nothing of its holder, and bound to the server that is to accept it: see [`Audience`].

mod used;

use std::net::{IpAddr, Ipv6Addr};

use crate::limits::{CAPABILITY_BYTES_MAX, CAPABILITY_CLOCK_SKEW_S};
use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};
use types::{Error, ErrorCode, LogicalPath, Phase, Secret, Side};

pub use used::UsedCapabilities;

use crate::sealed::{SEAL_SALT_BYTES, SealingKey};

/// The first byte: the version of what is in it.
const VERSION: u8 = 1;
const PURPOSE: &[u8] = b"capability 1";
const WRITES: u8 = 1;
const REPLACES: u8 = 2;
const ANY_ADDRESS: u8 = 4;
const READS: u8 = 8;
/// One of these goes with [`WRITES`].
const UPDATES: u8 = 16;
const CHANGES_MODE: u8 = 32;
const LOOKS: u8 = 64;

/// What a capability lets do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CapabilityUse {
    /// Read the file, as often as wanted.
    Read,
    /// Look at its properties and checksum, as often as wanted.
    Look,
    /// Store a whole file, once.
    Write,
    /// Change it where it is, once: open it for an update, or give it another length or attribute.
    Update,
    /// Change its permission bits, once.
    ChangeMode,
}

impl CapabilityUse {
    fn flags(self) -> u8 {
        match self {
            Self::Read => 0,
            Self::Look => LOOKS,
            Self::Write => WRITES,
            Self::Update => WRITES | UPDATES,
            Self::ChangeMode => WRITES | CHANGES_MODE,
        }
    }

    /// Whether it changes nothing, and may be used again.
    #[must_use]
    pub fn is_harmless(self) -> bool {
        matches!(self, Self::Read | Self::Look)
    }

    /// Whether one that was issued for this use serves the other, too: who may read a file may look
    /// at it.
    fn serves(self, wanted: Self) -> bool {
        self == wanted || (self, wanted) == (Self::Read, Self::Look)
    }

    fn of(flags: u8) -> Option<Self> {
        let all = [Self::Read, Self::Look, Self::Write, Self::Update, Self::ChangeMode];
        let bits = flags & (LOOKS | WRITES | UPDATES | CHANGES_MODE);
        all.into_iter().find(|usage| usage.flags() == bits)
    }
}

/// The server that is to honour a capability.
///
/// A server that hands over to itself names its own life: after a restart, when its memory of used
/// capabilities is lost, none of before is of use. Another endpoint is named by its URL; it honours
/// those for writing only when they were issued after it came up, so that none can be used again
/// then, and as each endpoint honours its own name only, none can be used once at each of several.
///
/// It also says how far symbolic links in the exports of that server may lead. The issuer judged
/// the path that the client named, so they lead nowhere else, unless it has followed them before in
/// the very same files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Audience {
    name: [u8; 16],
    follows_links: bool,
}

/// The flag of an audience that follows links, among those of a capability.
const FOLLOWS_LINKS: u8 = 128;

impl Audience {
    /// A server by random bytes that it drew when it started. It has checked links itself.
    #[must_use]
    pub fn life(random: [u8; 16]) -> Self {
        Self {
            name: random,
            follows_links: true,
        }
    }

    /// An endpoint by the URL under which it is reached, such as `http://disk1.example.org:1080`.
    #[must_use]
    pub fn endpoint(url: &str) -> Self {
        let plain = url.trim_end_matches('/').to_ascii_lowercase();
        let mut name = [0; 16];
        name.copy_from_slice(&digest(&SHA256, plain.as_bytes()).as_ref()[..16]);
        Self {
            name,
            follows_links: false,
        }
    }

    /// The same for a file whose links the issuer has checked.
    #[must_use]
    pub fn after_checking_links(self) -> Self {
        Self {
            follows_links: true,
            ..self
        }
    }

    /// Whether links in the path of the file may be followed.
    #[must_use]
    pub fn follows_links(self) -> bool {
        self.follows_links
    }

    fn is_same_server(self, other: Self) -> bool {
        self.name == other.name
    }

    fn flag(self) -> u8 {
        if self.follows_links { FOLLOWS_LINKS } else { 0 }
    }

    /// The door for the XRootD protocol of the endpoint at this host and port. What is issued for
    /// one door is of no use at the other.
    #[must_use]
    pub fn xrootd_door(host: &str, port: u16) -> Self {
        Self::endpoint(&format!("xrootd door of {host}:{port}"))
    }
}

/// For whom a capability was issued, as the decision had it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Holder {
    /// The kind of credential that was shown, as in the log.
    pub kind: String,
    /// Its subject, for the log.
    pub subject: Option<String>,
    /// The credential's own name, for the log.
    pub token_id: Option<String>,
    /// The local user to act as.
    pub user: Option<String>,
    /// The virtual organisation whose quota an upload counts against.
    pub vo: Option<String>,
}

/// What is given to a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Capability {
    /// What it lets do.
    pub usage: CapabilityUse,
    /// The client, without the IPv6 form of IPv4 addresses; `None`: any.
    pub address: Option<IpAddr>,
    /// Who is to honour it.
    pub audience: Audience,
    /// When it was issued, in seconds since 1970.
    pub issued_s: i64,
    /// Valid before this time, in seconds since 1970.
    pub expires_s: i64,
    /// The largest file that may be written, in bytes.
    pub max_bytes: u64,
    /// Whether a file that stands there may be replaced.
    pub may_replace: bool,
    /// Whether what is there may be read as well, if it is for writing.
    pub may_read: bool,
    /// For whom.
    pub holder: Holder,
}

/// A request that shows a capability, and who it came to.
#[derive(Clone, Copy, Debug)]
pub struct Presented<'a> {
    /// What is to be done.
    pub usage: CapabilityUse,
    /// With which file.
    pub path: &'a LogicalPath,
    /// Where the request comes from.
    pub address: IpAddr,
    /// The time, in seconds since 1970.
    pub now_s: i64,
    /// The server by its life.
    pub life: Audience,
    /// The server by its URL, where it honours what others issue.
    pub endpoint: Option<Audience>,
    /// When it started, in seconds since 1970.
    pub started_s: i64,
}

/// A capability that holds for a request, with its own name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Redeemed {
    /// What was issued.
    pub capability: Capability,
    /// Its name, by which a second use is known.
    pub id: [u8; SEAL_SALT_BYTES],
}

impl Capability {
    /// The text for a URL. `id` must be random. `None` only when the cryptographic library fails.
    #[must_use]
    pub fn seal(&self, key: &SealingKey, id: [u8; SEAL_SALT_BYTES], path: &LogicalPath) -> Option<Secret> {
        let mut sealed = vec![VERSION];
        sealed.extend(key.seal(PURPOSE, id, path.as_str().as_bytes(), &self.encode())?);
        Some(Secret::new(URL_SAFE_NO_PAD.encode(sealed)))
    }

    /// Opens a text and checks it against the request that shows it. Whether it was used before is
    /// for [`UsedCapabilities`] to say.
    ///
    /// # Errors
    /// `capability_invalid` when it is none, was issued with another key, for another server, file
    /// or operation; `capability_expired` and `capability_address` as they say; `just_started` for
    /// a change if it was issued before the server's memory of used ones begins.
    pub fn redeem(text: &str, key: &SealingKey, presented: &Presented<'_>) -> Result<Redeemed, Error> {
        let invalid = |why: &str| refused(ErrorCode::CapabilityInvalid).with_detail(why);
        if text.len() > CAPABILITY_BYTES_MAX {
            return Err(invalid("it is too long"));
        }
        let sealed = URL_SAFE_NO_PAD.decode(text).map_err(|_| invalid("it cannot be read"))?;
        let Some((&VERSION, sealed)) = sealed.split_first() else {
            return Err(invalid("it cannot be read"));
        };
        let strange = "it was issued with another key or for another file, or has been changed";
        let content = key
            .open(PURPOSE, presented.path.as_str().as_bytes(), sealed)
            .ok_or_else(|| invalid(strange))?;
        let capability = Self::decode(&content).ok_or_else(|| invalid("it cannot be read"))?;
        capability.check(presented)?;
        let mut id = [0; SEAL_SALT_BYTES];
        id.copy_from_slice(&sealed[..SEAL_SALT_BYTES]);
        Ok(Redeemed { capability, id })
    }

    fn check(&self, presented: &Presented<'_>) -> Result<(), Error> {
        let refuse = |code, why: &str| Err(refused(code).with_detail(why));
        let is_for = |server| self.audience.is_same_server(server);
        let by_name = presented.endpoint.is_some_and(is_for);
        if !is_for(presented.life) && !by_name {
            return refuse(
                ErrorCode::CapabilityInvalid,
                "it is for another server, or for this one before it was started again",
            );
        }
        if !self.usage.serves(presented.usage) {
            return refuse(ErrorCode::CapabilityInvalid, "it is for another operation");
        }
        if presented.now_s >= self.expires_s {
            return refuse(ErrorCode::CapabilityExpired, "its time is over");
        }
        if self.issued_s > presented.now_s.saturating_add(CAPABILITY_CLOCK_SKEW_S) {
            return refuse(
                ErrorCode::CapabilityInvalid,
                "it was issued in the future: a clock is wrong",
            );
        }
        let settled_s = presented.started_s.saturating_add(CAPABILITY_CLOCK_SKEW_S);
        if !self.usage.is_harmless() && by_name && self.issued_s <= settled_s {
            return refuse(
                ErrorCode::JustStarted,
                "the redirect was issued before this server was started, or just then",
            );
        }
        if self
            .address
            .is_some_and(|address| address != presented.address.to_canonical())
        {
            let why = "it was issued to another address";
            return refuse(ErrorCode::CapabilityAddress, why);
        }
        Ok(())
    }

    fn encode(&self) -> Vec<u8> {
        let flag = |set: bool, bit: u8| if set { bit } else { 0 };
        let flags = self.usage.flags()
            | flag(self.may_replace, REPLACES)
            | flag(self.may_read, READS)
            | flag(self.address.is_none(), ANY_ADDRESS);
        let address = match self.address.map(|address| address.to_canonical()) {
            Some(IpAddr::V4(address)) => address.to_ipv6_mapped(),
            Some(IpAddr::V6(address)) => address,
            None => Ipv6Addr::UNSPECIFIED,
        };
        let mut bytes = vec![flags | self.audience.flag()];
        bytes.extend(self.issued_s.to_be_bytes());
        bytes.extend(self.expires_s.to_be_bytes());
        bytes.extend(self.max_bytes.to_be_bytes());
        bytes.extend(self.audience.name);
        bytes.extend(address.octets());
        let Holder {
            kind,
            subject,
            token_id,
            user,
            vo,
        } = &self.holder;
        bytes.extend(json!([kind, subject, token_id, user, vo]).to_string().into_bytes());
        bytes
    }

    /// Reads what [`Capability::encode`] writes; `None` when it is anything else.
    fn decode(bytes: &[u8]) -> Option<Self> {
        let (&flags, rest) = bytes.split_first()?;
        let (issued_s, rest) = rest.split_first_chunk()?;
        let (expires_s, rest) = rest.split_first_chunk()?;
        let (max_bytes, rest) = rest.split_first_chunk()?;
        let (audience, rest) = rest.split_first_chunk()?;
        let (address, rest) = rest.split_first_chunk::<16>()?;
        let Value::Array(words) = serde_json::from_slice(rest).ok()? else {
            return None;
        };
        let word = |place: usize| words.get(place).and_then(Value::as_str).map(str::to_owned);
        Some(Self {
            usage: CapabilityUse::of(flags)?,
            address: (flags & ANY_ADDRESS == 0).then(|| IpAddr::V6(Ipv6Addr::from(*address)).to_canonical()),
            audience: Audience {
                name: *audience,
                follows_links: flags & FOLLOWS_LINKS != 0,
            },
            issued_s: i64::from_be_bytes(*issued_s),
            expires_s: i64::from_be_bytes(*expires_s),
            max_bytes: u64::from_be_bytes(*max_bytes),
            may_replace: flags & REPLACES != 0,
            may_read: flags & READS != 0,
            holder: Holder {
                kind: word(0)?,
                subject: word(1),
                token_id: word(2),
                user: word(3),
                vo: word(4),
            },
        })
    }
}

fn refused(code: ErrorCode) -> Error {
    Error::new(code, Side::Client, Phase::Authenticate)
}

#[cfg(test)]
mod tests;
