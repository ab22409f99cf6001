//! A server in operation: its log, limits and secrets, reloads, and its end.

mod boards;
mod cache;
mod configuration_files;
mod exposition;
mod forwarding;
mod lifecycle;
mod limits;
mod monitoring;
mod monitoring_broker;
mod nodes;
mod operations;
mod pages;
mod pages_actions;
mod pages_issuer;
mod pages_sign_in;
mod s3_export;
mod scitags;
mod secrets;
mod service_manager;
mod sockets;
mod space_report;
mod tracing;
mod upstream;
mod upstream_damaged;
mod upstream_identity;
mod watched;
