//! The numbers of requests and of answers.

macro_rules! opcodes {
    ($($(#[$doc:meta])* $variant:ident = $number:literal,)*) => {
        /// What a request asks for.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Opcode { $($(#[$doc])* $variant),* }

        impl Opcode {
            /// All of them, in the order of their numbers.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// The opcode with this number.
            #[must_use]
            pub fn from_number(number: u16) -> Option<Self> {
                match number { $($number => Some(Self::$variant),)* _ => None }
            }

            /// Its number on the wire.
            #[must_use]
            pub fn number(self) -> u16 {
                match self { $(Self::$variant => $number),* }
            }
        }
    };
}

opcodes! {
    /// `kXR_auth`: one step of an authentication.
    Authenticate = 3000,
    /// `kXR_query`: a question of many kinds.
    Query = 3001,
    /// `kXR_chmod`.
    ChangeMode = 3002,
    /// `kXR_close`.
    Close = 3003,
    /// `kXR_dirlist`.
    ListDirectory = 3004,
    /// `kXR_gpfile`: a whole file. Not implemented anywhere.
    GetFile = 3005,
    /// `kXR_protocol`: versions, abilities, TLS.
    Protocol = 3006,
    /// `kXR_login`.
    Login = 3007,
    /// `kXR_mkdir`.
    MakeDirectory = 3008,
    /// `kXR_mv`.
    Rename = 3009,
    /// `kXR_open`.
    Open = 3010,
    /// `kXR_ping`.
    Ping = 3011,
    /// `kXR_chkpoint`.
    Checkpoint = 3012,
    /// `kXR_read`.
    Read = 3013,
    /// `kXR_rm`.
    Remove = 3014,
    /// `kXR_rmdir`.
    RemoveDirectory = 3015,
    /// `kXR_sync`.
    Sync = 3016,
    /// `kXR_stat`.
    Stat = 3017,
    /// `kXR_set`.
    Set = 3018,
    /// `kXR_write`.
    Write = 3019,
    /// `kXR_fattr`.
    FileAttributes = 3020,
    /// `kXR_prepare`.
    Prepare = 3021,
    /// `kXR_statx`.
    StatMany = 3022,
    /// `kXR_endsess`.
    EndSession = 3023,
    /// `kXR_bind`.
    Bind = 3024,
    /// `kXR_readv`.
    ReadVector = 3025,
    /// `kXR_pgwrite`.
    PageWrite = 3026,
    /// `kXR_locate`.
    Locate = 3027,
    /// `kXR_truncate`.
    Truncate = 3028,
    /// `kXR_sigver`: the signature of the next request.
    SignatureVerify = 3029,
    /// `kXR_pgread`.
    PageRead = 3030,
    /// `kXR_writev`.
    WriteVector = 3031,
    /// `kXR_clone`, since version 5.2 of the protocol.
    Clone = 3032,
}

/// What kind of answer a response is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Status {
    /// `kXR_ok`: done; the whole answer, or its last part.
    Ok,
    /// `kXR_oksofar`: a part of the answer; more follow.
    Partial,
    /// `kXR_attn`: something that was not asked for now, such as a late answer.
    Attention,
    /// `kXR_authmore`: the authentication needs another step.
    MoreAuthentication,
    /// `kXR_error`.
    Error,
    /// `kXR_redirect`: ask there.
    Redirect,
    /// `kXR_wait`: ask again after a time.
    Wait,
    /// `kXR_waitresp`: the answer will come by itself.
    WaitForAnswer,
    /// `kXR_status`: the answer to a page read or write, or a part of it.
    Pages,
}

impl Status {
    /// The status with this number.
    #[must_use]
    pub fn from_number(number: u16) -> Option<Self> {
        Some(match number {
            0 => Self::Ok,
            4000 => Self::Partial,
            4001 => Self::Attention,
            4002 => Self::MoreAuthentication,
            4003 => Self::Error,
            4004 => Self::Redirect,
            4005 => Self::Wait,
            4006 => Self::WaitForAnswer,
            4007 => Self::Pages,
            _ => return None,
        })
    }

    /// Its number on the wire.
    #[must_use]
    pub fn number(self) -> u16 {
        match self {
            Self::Ok => 0,
            Self::Partial => 4000,
            Self::Attention => 4001,
            Self::MoreAuthentication => 4002,
            Self::Error => 4003,
            Self::Redirect => 4004,
            Self::Wait => 4005,
            Self::WaitForAnswer => 4006,
            Self::Pages => 4007,
        }
    }
}
