//! The transfer queue under its real clients: the command line and library of FTS, DIRAC and CRAB,
//! and Rucio.

mod advice;
mod agents;
mod backup;
mod bare;
mod brokers;
mod capabilities;
mod clients;
mod crash;
mod hops;
mod large;
mod mesh;
mod messages;
mod open_site;
mod ours;
mod pages;
mod pages_actions;
mod parts;
mod printed;
mod proxies;
mod recorded;
mod root;
mod rucio;
mod s3;
mod schema;
mod secrets;
mod site;
mod steering;
mod tape;
mod tape_xrootd;
mod tokens;
mod traced;
mod upgraded;
