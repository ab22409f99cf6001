//! The answer to `protocol`: versions, abilities, and which requests must be signed.

use types::Error;

use crate::bytes::Reader;
use crate::codes::Opcode;
use crate::flags::ServerFlags;
use crate::refusal::misbehaved;

/// What a server is and offers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProtocolReply {
    /// The server's protocol version.
    pub version: u32,
    /// What it is and offers.
    pub flags: ServerFlags,
    /// The addresses to bind further streams to, separated by commas.
    pub bind_interfaces: Option<String>,
    /// Which requests must be signed.
    pub signing: Option<SigningRules>,
}

impl ProtocolReply {
    /// The body. The record of interfaces comes before that of signing.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut body = self.version.to_be_bytes().to_vec();
        body.extend_from_slice(&self.flags.bits().to_be_bytes());
        if let Some(interfaces) = &self.bind_interfaces {
            let padded = (interfaces.len() + 1).next_multiple_of(8);
            body.extend_from_slice(b"B\0");
            body.extend_from_slice(&u16::try_from(padded).unwrap_or(!7).to_be_bytes());
            let end = body.len() + padded;
            body.extend_from_slice(interfaces.as_bytes());
            body.resize(end, 0);
        }
        if let Some(signing) = &self.signing {
            signing.write(&mut body);
        }
        body
    }

    /// Reads the body. What follows it in unknown records is ignored.
    ///
    /// # Errors
    /// `peer_misbehaved` when it is too short, or one of its records is cut off.
    pub fn parse(body: &[u8]) -> Result<Self, Error> {
        let cut = || misbehaved("the answer about the protocol is cut off");
        let mut reader = Reader(body);
        let mut reply = Self {
            version: reader.u32().ok_or_else(cut)?,
            flags: ServerFlags::from_bits_retain(reader.u32().ok_or_else(cut)?),
            bind_interfaces: None,
            signing: None,
        };
        while !reader.is_empty() {
            match reader.u8() {
                Some(b'B') => {
                    let length = reader.u8().and_then(|_reserved| reader.u16()).ok_or_else(cut)?;
                    let record = reader.bytes(usize::from(length)).ok_or_else(cut)?;
                    reply.bind_interfaces = Some(crate::bytes::text(record).into_owned());
                }
                Some(b'S') => reply.signing = Some(SigningRules::parse(&mut reader).ok_or_else(cut)?),
                _ => break,
            }
        }
        Ok(reply)
    }
}

/// How many requests must be signed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum SigningLevel {
    /// None.
    #[default]
    None,
    /// Those that destroy.
    Compatible,
    /// Those that modify.
    Standard,
    /// Those that use a file, too.
    Intense,
    /// All.
    Pedantic,
}

/// Whether one request must be signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SigningNeed {
    /// No; a signature is ignored.
    Ignored,
    /// If it modifies.
    IfModifying,
    /// Yes.
    Needed,
}

/// Which requests must be signed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SigningRules {
    /// Version of this scheme; 0.
    pub version: u8,
    /// 1 = data of writes are signed, too; 2 = sign even where nothing can be encrypted.
    pub options: u8,
    /// How many requests in general.
    pub level: SigningLevel,
    /// Requests that differ from their level: number of the request less 3000, and 0, 1 or 2 in the
    /// order of [`SigningNeed`].
    pub overrides: Vec<(u8, u8)>,
}

impl SigningRules {
    /// Data of writes are signed, too.
    pub const OPTION_DATA: u8 = 1;
    /// Sign even where nothing can be encrypted.
    pub const OPTION_FORCE: u8 = 2;

    fn parse(reader: &mut Reader<'_>) -> Option<Self> {
        let _reserved = reader.u8()?;
        let (version, options) = (reader.u8()?, reader.u8()?);
        let level = match reader.u8()? {
            0 => SigningLevel::None,
            1 => SigningLevel::Compatible,
            2 => SigningLevel::Standard,
            3 => SigningLevel::Intense,
            // What is not known is taken for the strictest.
            _ => SigningLevel::Pedantic,
        };
        let count = usize::from(reader.u8()?);
        let pairs = reader.bytes(count * 2)?;
        let overrides = pairs.as_chunks::<2>().0.iter().map(|[request, need]| (*request, *need));
        Some(Self {
            version,
            options,
            level,
            overrides: overrides.collect(),
        })
    }

    fn write(&self, body: &mut Vec<u8>) {
        let level = match self.level {
            SigningLevel::None => 0,
            SigningLevel::Compatible => 1,
            SigningLevel::Standard => 2,
            SigningLevel::Intense => 3,
            SigningLevel::Pedantic => 4,
        };
        let count = u8::try_from(self.overrides.len()).unwrap_or(u8::MAX);
        body.extend_from_slice(&[b'S', 0, self.version, self.options, level, count]);
        for (request, need) in self.overrides.iter().take(usize::from(count)) {
            body.extend_from_slice(&[*request, *need]);
        }
    }

    /// Whether requests of this kind must be signed.
    #[must_use]
    pub fn need(&self, opcode: Opcode) -> SigningNeed {
        let number = opcode.number();
        let overridden = self
            .overrides
            .iter()
            .find(|(request, _)| u16::from(*request) + 3000 == number);
        match overridden {
            Some((_, 0)) => SigningNeed::Ignored,
            Some((_, 1)) => SigningNeed::IfModifying,
            Some(_) => SigningNeed::Needed,
            None => by_level(self.level, opcode),
        }
    }
}

/// The reference server's table.
fn by_level(level: SigningLevel, opcode: Opcode) -> SigningNeed {
    let from = |lowest: SigningLevel| {
        if level >= lowest {
            SigningNeed::Needed
        } else {
            SigningNeed::Ignored
        }
    };
    if level == SigningLevel::None {
        return SigningNeed::Ignored;
    }
    match opcode {
        Opcode::ChangeMode
        | Opcode::Checkpoint
        | Opcode::FileAttributes
        | Opcode::GetFile
        | Opcode::Rename
        | Opcode::Remove
        | Opcode::RemoveDirectory
        | Opcode::Truncate => SigningNeed::Needed,
        Opcode::MakeDirectory => from(SigningLevel::Standard),
        Opcode::Open if level == SigningLevel::Compatible => SigningNeed::IfModifying,
        Opcode::Open => SigningNeed::Needed,
        Opcode::Set if level <= SigningLevel::Standard => SigningNeed::IfModifying,
        Opcode::Set => SigningNeed::Needed,
        Opcode::Query if level == SigningLevel::Intense => SigningNeed::IfModifying,
        Opcode::Query | Opcode::ListDirectory | Opcode::Locate | Opcode::Prepare => from(SigningLevel::Pedantic),
        Opcode::Read | Opcode::ReadVector | Opcode::Stat | Opcode::StatMany | Opcode::Sync => {
            from(SigningLevel::Pedantic)
        }
        Opcode::Bind | Opcode::Close | Opcode::EndSession | Opcode::PageRead | Opcode::PageWrite | Opcode::Write => {
            from(SigningLevel::Intense)
        }
        Opcode::Authenticate
        | Opcode::Login
        | Opcode::Ping
        | Opcode::Protocol
        | Opcode::SignatureVerify
        | Opcode::WriteVector
        | Opcode::Clone => SigningNeed::Ignored,
    }
}
