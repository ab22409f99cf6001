//! What storage servers tell to those who watch them, as bytes: the packets of XRootD's monitoring,
//! and the fireflies of SciTags.
//!
//! The formats of the former are those of XRootD 5.5 to 6.2 (`XrdXrootdMonData.hh`), as captured
//! from a server of 5.5.3 in `tests/vectors`. Where XRootD's own figures are wrong, ours are
//! right in the same place: minima and maxima for each operation, sums of squares, microseconds
//! with six digits, and the bytes of third-party copies.
//!
//! The summary of a server is XML, and has no header.
//!
//! Each packet is one UDP datagram, or lies in a message of a broker as a shoveler would send it. A
//! receiver that knows the server (`=`) and the login (`u`) before the file of that login gets all
//! of it, so the sender repeats both from time to time.
#![forbid(unsafe_code)]

mod copies;
mod decode;
mod files;
mod firefly;
mod header;
mod http;
mod maps;
mod shoveled;
mod summary;

pub use copies::{CopyRecord, Course, copy_packet, server_packet};
pub use decode::{Packet, Record, Unreadable, decode};
pub use files::{Batch, Closed, FileId, FileRecord, LoginId, Opened, Operations, Totals};
pub use firefly::{FIREFLY_PORT, Firefly, FlowLabel, FlowState};
pub use header::{PACKET_BYTES_MAX, Stream};
pub use http::{HttpCounts, http_packets};
pub use maps::{Login, Server, Token, address, label_packet, login_packet, token_packet};
pub use shoveled::shoveled;
pub use summary::{Links, PathSpace, Requests, SUMMARY_BYTES_MAX, Summary};
