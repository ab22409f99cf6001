//! The XRootD door over loopback connections: the answer to each request, refusals, and what bad
//! clients cannot do.

mod bad_input;
mod bursts;
mod capabilities;
mod elsewhere;
mod gsi;
mod harness;
mod late;
mod links;
mod listings;
mod lite;
mod locks;
mod names;
mod reading;
mod records;
mod refused_writes;
mod rights;
mod setup;
mod shares;
mod streams;
mod third_party;
mod unlisted;
mod writing;
