//! The credentials of the simple authentication protocols: a bearer token, a user name, a host
//! name. None of them needs more than one step.

use types::{ErrorCode, Secret};

use crate::bytes::{Reader, text_bytes};
use crate::error_number::ErrorNumber;
use crate::limits::{USER_NAME_BYTES, ZTN_TOKEN_BYTES_MAX};
use crate::refusal::Refusal;
use crate::request::Authenticate;
use crate::response::SecurityEntry;

/// The name of the protocol for bearer tokens.
pub const ZTN: &str = "ztn";
/// The name of the protocol in which the client says its user's name.
pub const UNIX: &str = "unix";
/// The name of the protocol in which the client's host is its identity.
pub const HOST: &str = "host";

/// Longest kept words of a credential, in bytes.
const NAME_BYTES_MAX: usize = 256;

/// A credential as a client sends it.
#[derive(Clone, Debug)]
pub enum Credential {
    /// A bearer token, without `Bearer` in front of it.
    Token(Secret),
    /// A user's name and group, unverified.
    User {
        /// The name.
        name: String,
        /// The primary group.
        group: Option<String>,
    },
    /// A host; its name, where the client says one, is not verified.
    Host {
        /// The name.
        name: Option<String>,
    },
}

impl Credential {
    /// Reads the credential of an authentication step.
    ///
    /// # Errors
    /// `authentication_failed` for a malformed one and for another protocol, so that the client
    /// tries its next.
    pub fn parse(step: &Authenticate<'_>) -> Result<Self, Refusal> {
        let failed = |detail| Refusal::new(ErrorCode::AuthenticationFailed, detail);
        let mut reader = Reader(step.credential);
        // The credential repeats the protocol's name; both must say the same.
        let name = reader.until_nul().unwrap_or_default();
        let name = if name.is_empty() {
            text_bytes(step.credential)
        } else {
            name
        };
        if name != step.name().as_bytes() {
            return Err(failed("the credential is of another protocol than the request"));
        }
        match step.name() {
            ZTN => parse_token(reader).map(Self::Token).map_err(failed),
            UNIX => parse_user(reader).map_err(failed),
            HOST => Ok(Self::Host { name: word(reader.0) }),
            _ => Err(failed("this authentication protocol is not offered")),
        }
    }

    /// The name of its protocol.
    #[must_use]
    pub fn protocol(&self) -> &'static str {
        match self {
            Self::Token(_) => ZTN,
            Self::User { .. } => UNIX,
            Self::Host { .. } => HOST,
        }
    }

    /// The bytes to send; secret if it is a token. `None` for a token that is too long.
    #[must_use]
    pub fn encode(&self) -> Option<Vec<u8>> {
        match self {
            Self::Token(token) => {
                let token = token.expose();
                let length = u16::try_from(token.len() + 1).ok()?;
                let mut bytes = b"ztn\0\0T\0\0".to_vec();
                bytes.extend_from_slice(&length.to_be_bytes());
                bytes.extend_from_slice(token.as_bytes());
                bytes.push(0);
                Some(bytes)
            }
            Self::User { name, group } => {
                let group = group.as_deref().map(|group| format!(" {group}")).unwrap_or_default();
                Some(format!("unix\0{name}{group}\0").into_bytes())
            }
            Self::Host { name } => {
                let name = name.as_deref().map(|name| format!("{name}\0")).unwrap_or_default();
                Some(format!("host\0{name}").into_bytes())
            }
        }
    }
}

/// Reads a token behind the protocol's name. The length counts, not what stands behind it: clients
/// send two bytes more, of undefined content.
fn parse_token(mut reader: Reader<'_>) -> Result<Secret, &'static str> {
    let cut = "the credential is cut off";
    let (version, operation) = reader.u8().zip(reader.u8()).ok_or(cut)?;
    if version != 0 || operation != b'T' {
        return Err("the credential is no token");
    }
    let length = reader.u16().and_then(|_reserved| reader.u16()).ok_or(cut)?;
    let token = text_bytes(reader.bytes(usize::from(length)).ok_or(cut)?);
    let token = std::str::from_utf8(token).map_err(|_| "the token is not UTF-8")?;
    let token = token
        .strip_prefix("Bearer%20")
        .or_else(|| token.strip_prefix("Bearer "))
        .unwrap_or(token);
    let plain = |byte: u8| byte.is_ascii_graphic();
    if token.is_empty() || token.len() > ZTN_TOKEN_BYTES_MAX || !token.bytes().all(plain) {
        return Err("the token is empty, too long or not printable");
    }
    Ok(Secret::new(token))
}

fn parse_user(reader: Reader<'_>) -> Result<Credential, &'static str> {
    let text = std::str::from_utf8(text_bytes(reader.0)).map_err(|_| "the user's name is not UTF-8")?;
    let (name, group) = text
        .split_once(' ')
        .map_or((text, None), |(name, group)| (name, Some(group)));
    if name.is_empty() || text.len() > NAME_BYTES_MAX || text.chars().any(char::is_control) {
        return Err("the user's name is empty, too long or not printable");
    }
    Ok(Credential::User {
        name: name.to_owned(),
        group: group.filter(|group| !group.is_empty()).map(str::to_owned),
    })
}

/// A word that may be there.
fn word(bytes: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(text_bytes(bytes)).ok()?;
    let plain = !text.is_empty() && text.len() <= NAME_BYTES_MAX && !text.chars().any(char::is_control);
    plain.then(|| text.to_owned())
}

/// What a server says of its protocol for bearer tokens: options and the longest token.
#[must_use]
pub fn ztn_entry() -> SecurityEntry {
    SecurityEntry {
        name: ZTN.to_owned(),
        parameters: Some(format!("0:{ZTN_TOKEN_BYTES_MAX}:")),
    }
}

/// The longest token that a server announced for bearer tokens, in bytes.
#[must_use]
pub fn ztn_token_bytes_max(entry: &SecurityEntry) -> Option<usize> {
    entry.parameters.as_deref()?.split(':').nth(1)?.parse().ok()
}

/// A name for a login of at most eight bytes from a longer one.
#[must_use]
pub fn login_name(name: &str) -> &str {
    let mut end = name.len().min(USER_NAME_BYTES);
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    &name[..end]
}

/// The refusal of a credential: its number tells clients to try their next protocol.
#[must_use]
pub fn refused(detail: &'static str) -> Refusal {
    Refusal::new(ErrorCode::AuthenticationFailed, detail).numbered(ErrorNumber::AUTHENTICATION_FAILED)
}
