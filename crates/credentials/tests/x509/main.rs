//! Certificates, proxies and VOMS attributes of a throw-away authority: those that are sound are
//! believed, each that is not is refused with its own code, and OpenSSL is of the same opinion.

mod attributes;
mod chains;
mod delegation;
mod lab;
mod proxies;
mod trust;
