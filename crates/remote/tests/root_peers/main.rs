//! The XRootD client against scripted servers: good ones, odd ones and broken ones.

mod asking;
mod bound;
mod copying;
mod delegation;
mod many;
mod reading;
mod redirects;
mod script;
mod sessions;
mod tape;
mod vectors;
mod writing;
mod xrootd;
