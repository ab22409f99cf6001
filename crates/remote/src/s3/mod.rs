//! The client side of S3. Every request is an HTTP request with a signed URL, which [`crate::http`]
//! sends: this module decides what is asked, and what the answer means.

mod client;
mod copy;
mod leftovers;
mod listing;
mod multipart;
mod namespace;
mod object;
mod outlet;
mod part;
mod parts;
mod patience;
mod probe;
mod protocol;
mod ranges;
mod tags;
mod unclear;

pub(crate) use client::Client;
pub(crate) use multipart::refused_late;
