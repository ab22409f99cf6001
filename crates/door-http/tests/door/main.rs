//! The HTTP door over loopback connections: each verb, each refusal, and third-party copies between
//! two doors.
#![forbid(unsafe_code)]

mod checksums;
mod collections;
mod copies;
mod desktops;
mod elsewhere;
mod forwarding;
mod framing;
mod harness;
mod links;
mod load;
mod locks;
mod names;
mod nodes;
mod properties;
mod reading;
mod redirects;
mod rights;
mod shares;
mod status;
mod third_party;
mod tls;
mod tokens;
mod writing;
