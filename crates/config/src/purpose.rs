//! What the files are for that keys name.

/// What a file is for. This decides how it is guarded, checked and watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Data that clients are served.
    Payload,
    /// Files that the server writes for itself; no client may read them.
    Private,
    /// A private key in PEM.
    PrivateKey,
    /// A macaroon secret, which the server creates if it is missing.
    Secret,
    /// A sealing key, which the server creates if it is missing.
    SealingKey,
    /// An older macaroon secret, which must exist.
    OldSecret,
    /// The server's certificate.
    Certificate,
    /// Rules about who may do what.
    Rights,
    /// As [`Purpose::Rights`], but its reader follows changes without a reload.
    FollowedRights,
    /// A file of authorities.
    Authorities,
    /// Pages of the manual, which the server shows.
    Manual,
    /// A directory of authorities. It may be missing, and is read again without a reload.
    AuthorityDirectory,
}

impl Purpose {
    /// Whether no client may read it. Clients may read all other files, but may write only payload.
    pub fn is_secret(self) -> bool {
        matches!(
            self,
            Self::Private | Self::PrivateKey | Self::Secret | Self::SealingKey | Self::OldSecret
        )
    }

    /// Whether a change of its content triggers a reload.
    pub fn is_watched(self) -> bool {
        !matches!(
            self,
            Self::Payload | Self::Private | Self::FollowedRights | Self::Manual | Self::AuthorityDirectory
        )
    }

    /// Whether it only has to exist and be readable, without further checks.
    pub fn must_be_readable(self) -> bool {
        matches!(self, Self::Rights | Self::FollowedRights)
    }
}
