//! The client's commands: copies, listings, `bench`, `check`, `smoke`, and the README's quick
//! start.

mod bench;
mod bench_credentials;
mod bench_transfers;
mod check;
mod client;
mod links;
mod readme;
mod root_client;
mod smoke;
