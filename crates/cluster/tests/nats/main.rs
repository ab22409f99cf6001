//! The message bus with real servers: Debian's release of nats-server, and a later one.
#![allow(clippy::print_stdout, reason = "figures are printed")]

mod away;
mod figures;
mod join;
mod names;
mod site;
mod trial;
mod trust;
