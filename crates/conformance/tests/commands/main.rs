//! The client's commands: copies, listings, `bench`, `check`, `smoke`, and what the
//! README and the queue's manual say of them.

mod advice;
mod bench;
mod bench_credentials;
mod bench_transfers;
mod check;
mod client;
mod equal;
mod every_byte;
mod habits;
mod history;
mod instruments;
mod links;
mod mesh;
mod mesh_peers;
mod mesh_strangers;
mod misled;
mod next_steps;
mod overlap;
mod python;
mod queue_manual;
mod readme;
mod remotes;
mod report;
mod root_client;
mod s3;
mod schema;
mod scripts;
mod shell;
mod smoke;
mod standard_input;
mod tape;
mod terminal;
mod trees;
mod verbs;
mod xrootd_http;
