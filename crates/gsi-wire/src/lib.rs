//! What grid security adds to certificates, as bytes: names in one line, proxies (RFC 3820), attribute
//! certificates of VOMS (RFC 5755), requests and answers of delegation, and the messages of the XRootD
//! protocol's `gsi` authentication. Nothing is verified here: that is the work of `credentials`.
#![forbid(unsafe_code)]

pub mod gsi;
