//! Third-party copies over HTTP: between our own servers, with XRootD, and with servers that fail.

mod compared;
mod copies;
mod faults;
mod foreign;
mod presigned;
mod presigned_faults;
mod xrdcp;
mod xrootd;
