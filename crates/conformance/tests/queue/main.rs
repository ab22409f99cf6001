//! The transfer queue under its real clients: the command line and library of FTS, and Rucio.

mod clients;
mod proxies;
mod rucio;
mod secrets;
mod site;
