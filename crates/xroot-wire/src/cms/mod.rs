//! The protocol of XRootD's clusters (cms, version 3), as a data server speaks it with its manager:
//! messages as bytes, and the session of the server.
//!
//! Source: `YProtocol.hh` and `XrdCmsParser.cc` of XRootD 5.5 to 6.2, and captured sessions
//! (`tests/vectors/cms_*`). A message is a header of 8 bytes (stream u32, code u8, modifier u8,
//! length u16) and its data. Data is packed ([`pack`]), or a bare text where the modifier says so.
//!
//! The numbers of answers (error 1, redirect 2, …) are also numbers of requests (`chmod` 1,
//! `locate` 2, …). [`Reply`] therefore reads what answers a login, and [`Message`] everything
//! after it.

mod header;
mod login;
mod message;
mod pack;
mod session;

pub use header::{Code, Decoded, Frame, Header, decode};
pub use login::{ExportedPath, Login, LoginFault, LoginMode, path_lines};
pub use message::{Alternates, Forwarded, Load, Message, Presence, Refusal, Reply, Space, StatusFlags};
pub use session::{Duty, Malformed, Session};
