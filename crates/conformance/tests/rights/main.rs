//! Credentials and what they permit, at both doors.

mod access;
mod access_rules;
mod authdb;
mod client_identity;
mod delegation;
mod explain;
mod hand_over;
mod jwt;
mod pass_token;
mod scitokens;
mod tokens;
mod users;
mod x509;
